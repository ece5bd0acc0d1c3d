//! A small sample of the mutants for every test run, compared with the recorded run.

use cli::ptx_folder::{ENVIRONMENT_VARIABLE, PtxFolder};
use ptx_diagnostics::streams::note;
use ptx_mutate::campaign::{Campaign, Selection};
use ptx_mutate::record::Record;
use ptx_mutate::report::{Origin, Report};
use ptx_mutate::review::Review;

/// Number of mutants to run.
const SAMPLE: usize = 8;
/// A seed other than that of the recorded run.
const SEED: u64 = 1;

/// Fails if the checks detect less than the record says, and prints survivors that are not in the record.
#[test]
fn the_checks_notice_what_they_did() {
    let path = std::env::var(ENVIRONMENT_VARIABLE).unwrap_or_else(|_| {
        panic!("this test needs the PTX: run `cargo xtask test`, which builds it and sets {ENVIRONMENT_VARIABLE}")
    });
    let folder = PtxFolder::open(path.as_ref()).unwrap_or_else(|error| panic!("{error}"));
    let record = Record::load().unwrap_or_else(|error| panic!("{error:#}"));
    let campaign =
        Campaign::prepare(&folder, Selection::Sample(SAMPLE, None), SEED).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(campaign.selected(), SAMPLE);
    let outcomes = campaign.run(|_, _| ()).unwrap_or_else(|error| panic!("{error:#}"));
    let review = Review::load().unwrap_or_else(|error| panic!("{error:#}"));
    let origin = Origin { command: String::new(), manifest: folder.manifest().clone(), possible: campaign.total() };
    let report = Report::new(origin, &outcomes, &review);
    let comparison = record.compare(&report);
    assert!(comparison.passed(), "{comparison}");
    if !comparison.new.is_empty() {
        // Not `println`, which is captured where a test passes.
        note(&comparison.to_string());
    }
}
