//! The simulator reproduces the results of an H200.

use std::collections::BTreeSet;

use ptx_conformance::check::check;
use ptx_conformance::exempt;
use ptx_conformance::forms::CLASSES;
use ptx_conformance::vectors::{Vectors, stored};

#[test]
fn the_simulator_gives_what_was_recorded() {
    let mut differences = Vec::new();
    for class in CLASSES {
        differences.extend(check(class, &stored()).unwrap_or_else(|error| panic!("{}: {error:#}", class.name)));
    }
    assert!(differences.is_empty(), "{} cases differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn every_case_has_a_name_of_its_own() {
    for class in CLASSES {
        let mut names: Vec<String> = class.cases().into_iter().map(|case| case.name).collect();
        names.sort_unstable();
        let twice: Vec<&[String]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{}: {twice:?}", class.name);
    }
}

#[test]
fn cases_that_wait_to_be_recorded_have_no_result() {
    let cases: BTreeSet<String> = CLASSES.iter().flat_map(|class| class.cases()).map(|case| case.name).collect();
    let vectors = CLASSES.iter().map(|class| Vectors::load(&stored(), class.name).expect("recorded results"));
    let recorded: BTreeSet<String> = vectors.flat_map(|vectors| vectors.results.into_keys()).collect();
    for case in exempt::waiting() {
        assert!(cases.contains(&case), "exempt.rs lists `{case}`, and there is no such case");
        assert!(!recorded.contains(&case), "`{case}` is recorded; its line in exempt.rs has to go");
    }
}
