//! A sample of the mutants, small enough for every test run.

use ptx_mutate::campaign::{Campaign, Selection};
use ptx_mutate::report::{Origin, Report};
use ptx_mutate::review::Review;
use workshop::ptx_folder::{ENVIRONMENT_VARIABLE, PtxFolder};

/// Mutants to run.
const SAMPLE: usize = 40;
/// Survivors without a reason that are accepted: which mutants are drawn changes with the PTX, and one may be equivalent
/// in a way nobody has looked at yet. The whole run must explain all of them.
const UNEXPLAINED: usize = 2;
/// Another sample than the recorded run has at its beginning.
const SEED: u64 = 1;

#[test]
fn the_checks_notice_what_is_sampled() {
    let path = std::env::var(ENVIRONMENT_VARIABLE).unwrap_or_else(|_| {
        panic!("this test needs the PTX: run `cargo xtask test`, which builds it and sets {ENVIRONMENT_VARIABLE}")
    });
    let folder = PtxFolder::open(path.as_ref()).unwrap_or_else(|error| panic!("{error}"));
    let campaign =
        Campaign::prepare(&folder, Selection::Sample(SAMPLE), SEED).unwrap_or_else(|error| panic!("{error:#}"));
    assert_eq!(campaign.selected(), SAMPLE);
    let outcomes = campaign.run(|| ()).unwrap_or_else(|error| panic!("{error:#}"));
    let review = Review::load().unwrap_or_else(|error| panic!("{error:#}"));
    let origin = Origin { command: String::new(), manifest: folder.manifest().clone(), possible: campaign.total() };
    let report = Report::new(origin, &outcomes, &review);
    let unexplained: Vec<_> = report.unexplained().collect();
    assert!(
        unexplained.len() <= UNEXPLAINED,
        "nothing notices these mistakes: improve the inputs of ptx-mutate's trial or the checks of ptx-sim, or say in \
         equivalent.json why the result is as right as before:\n{unexplained:#?}"
    );
}
