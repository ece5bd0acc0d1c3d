//! The simulator gives what an H200 gave.

use ptx_conformance::check::check;
use ptx_conformance::forms::CLASSES;
use ptx_conformance::vectors::stored;

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
