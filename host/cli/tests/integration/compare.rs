//! `fa512 compare` on a stored record and on others made from it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::ptx_path;
use crate::records::{scale_samples, settle};
use crate::support::ptx;

/// A record of one contender in one case, whose samples can be multiplied.
struct Records(tempfile::TempDir);

impl Records {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A record whose times are `factor` times those of the stored one.
    fn with_times(&self, name: &str, factor: f64) -> PathBuf {
        let mut record: serde_json::Value = serde_json::from_str(include_str!("compare/record.json")).unwrap();
        scale_samples(&mut record["rows"][0], factor);
        settle(&mut record);
        let path = self.0.path().join(name);
        std::fs::write(&path, record.to_string()).unwrap();
        path
    }
}

/// What `fa512 compare` prints, with the exit code that it must have.
fn compare(arguments: &[&str], files: [&Path; 2], exit_code: i32) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_fa512")).arg("compare").args(arguments).args(files).output().unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(exit_code), "{printed}");
    printed
}

#[test]
fn the_exit_code_is_the_verdict() {
    let records = Records::new();
    let old = records.with_times("old.json", 1.0);
    for (factor, exit_code, verdict) in
        [(0.85, 0, "improved: of 1 rows"), (1.06, 1, "regressed: of 1 rows"), (1.0, 2, "no significant difference: of")]
    {
        let printed = compare(&[], [&records.with_times("new.json", factor), &old], exit_code);
        assert!(printed.contains(verdict) && printed.contains("32x8x512 full"), "{printed}");
    }
    let new = records.with_times("new.json", 0.95);
    compare(&[], [&new, &old], 2);
    compare(&["--improvement", "5"], [&new, &old], 0);
}

#[test]
fn what_cannot_be_compared_is_code_3_with_a_reason() {
    let records = Records::new();
    let old = records.with_times("old.json", 1.0);
    assert!(compare(&[], [Path::new("no/such.json"), &old], 3).contains("no/such.json"));
    let foreign = records.0.path().join("foreign.json");
    std::fs::write(&foreign, "{}").unwrap();
    assert!(compare(&[], [&foreign, &old], 3).contains("not a bench record"));
    assert!(compare(&["--contender", "nobody"], [&old, &old], 3).contains("no row in common"));
    assert!(compare(&["--improvement", "many"], [&old, &old], 3).contains("--improvement"));
}

#[test]
fn a_reference_of_other_kernels_than_those_of_the_ptx_is_refused() {
    let records = Records::new();
    let folder = ptx_path();
    let mut record: serde_json::Value = serde_json::from_str(include_str!("compare/record.json")).unwrap();
    let stale = records.with_times("stale.json", 1.0);
    let printed = compare(&["--old-ptx", &folder], [&stale, &stale], 3);
    assert!(printed.contains("stale.json cannot be compared with: it is of other kernels: fa512 ran "), "{printed}");
    assert!(printed.contains("fa512 bench --json"), "{printed}");
    let implementation = &mut record["rows"][0]["implementation"];
    let file = implementation["file"].as_str().expect("a PTX file").to_owned();
    let module = ptx().manifest().modules.iter().find(|module| module.file == file).expect("it is built");
    implementation["sha256"] = module.sha256.clone().into();
    let fresh = records.0.path().join("fresh.json");
    std::fs::write(&fresh, record.to_string()).unwrap();
    compare(&["--old-ptx", &folder], [&stale, &fresh], 2);
    let printed = compare(&["--old-ptx", &folder, "--contender", "torch:cudnn"], [&stale, &fresh], 3);
    assert!(printed.contains("it has no kernel of ours"), "{printed}");
}

#[test]
fn markdown_and_json_say_the_same() {
    let records = Records::new();
    let (new, old) = (records.with_times("new.json", 0.85), records.with_times("old.json", 1.0));
    let markdown = compare(&["--markdown"], [&new, &old], 0);
    assert!(markdown.starts_with("**improved: of 1 rows"), "{markdown}");
    let columns: Vec<_> =
        markdown.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count()).collect();
    assert_eq!(columns, [10, 10, 10], "{markdown}");
    let json: serde_json::Value = serde_json::from_str(&compare(&["--json"], [&new, &old], 0)).unwrap();
    assert_eq!((&json["kind"], &json["version"]), (&"fa512-compare".into(), &1.into()));
    assert_eq!((&json["overall"], &json["rows"][0]["change"]), (&"improved".into(), &"improved".into()));
}

#[test]
fn a_summary_that_is_not_of_its_samples_is_refused() {
    let records = Records::new();
    let old = records.with_times("old.json", 1.0);
    let mut record: serde_json::Value = serde_json::from_str(include_str!("compare/record.json")).unwrap();
    record["rows"][0]["outcome"]["summary_us"]["median"] = 1.0.into();
    let flattered = records.0.path().join("flattered.json");
    std::fs::write(&flattered, record.to_string()).unwrap();
    let printed = compare(&[], [&flattered, &old], 3);
    assert!(printed.contains("says a median of 1, and its samples have"), "{printed}");
}
