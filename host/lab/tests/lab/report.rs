//! `fa512 report`: contents and validity of the page.

use std::path::{Path, PathBuf};
use std::process::Command;

use cli::document::Format;
use cli::ncu::{self, Profile, RawPage};
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::{Value, json};

use crate::records::{scale_samples, set_samples, settle};

/// A folder with sources, and the page made of them.
struct Sources(tempfile::TempDir);

impl Sources {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: &Value) -> PathBuf {
        std::fs::write(self.path(name), content.to_string()).unwrap();
        self.path(name)
    }

    fn report(&self, arguments: &[&str], files: &[&Path]) -> std::process::Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fa512-lab"));
        command.arg("report").args(files).args(arguments).arg("--output").arg(self.path("report.html"));
        command.output().unwrap()
    }

    /// The page, which must exist.
    fn page(&self, arguments: &[&str], files: &[&Path]) -> String {
        let output = self.report(arguments, files);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let page = std::fs::read_to_string(self.path("report.html")).unwrap();
        assert_sound(&page);
        page
    }

    /// The message of the command when it produces no page.
    fn refusal(&self, arguments: &[&str], files: &[&Path]) -> String {
        let output = self.report(arguments, files);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(!self.path("report.html").exists(), "a page was written in spite of an error");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// A record of one contender in one case.
fn record() -> Value {
    serde_json::from_str(include_str!("../../../cli/tests/integration/compare/record.json")).unwrap()
}

/// [`record`] with a row for each of these contenders and sequence lengths, whose times grow with both.
fn sweep(contenders: &[&str], sequences: &[u32]) -> Value {
    let mut record = record();
    let row = record["rows"][0].clone();
    let mut rows = Vec::new();
    for (index, contender) in contenders.iter().enumerate() {
        for sequence in sequences {
            let factor = (index + 1) as f64 * f64::from(*sequence) / 512.0;
            let mut row = row.clone();
            row["contender"] = json!(contender);
            row["sequence"] = json!(sequence);
            scale_samples(&mut row, factor);
            rows.push(row);
        }
    }
    record["rows"] = Value::Array(rows);
    settle(&mut record);
    record
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("not well-formed: {error}"))
}

/// Requires that the page loads nothing, runs no script, and describes its plots in words.
fn assert_sound(page: &str) {
    let document = parse(page);
    let mut ids = std::collections::HashSet::new();
    for element in document.descendants().filter(Node::is_element) {
        let name = element.tag_name().name();
        assert!(!["script", "link", "img", "iframe", "image", "object", "use", "base"].contains(&name), "<{name}>");
        for attribute in element.attributes() {
            let (key, value) = (attribute.name(), attribute.value());
            assert!(key != "src" && key != "style" && !key.starts_with("on"), "<{name} {key}={value}>");
            assert!(key != "href" || value.starts_with('#'), "<{name} {key}={value}>");
            assert!(key != "id" || ids.insert(value), "two elements are called {value}");
            assert!(!value.contains("NaN") && !value.contains("inf "), "<{name} {key}={value}>");
        }
        if name == "svg" {
            let words = |node: Node| node.attribute("aria-label").is_some_and(|label| !label.is_empty());
            let told = element.ancestors().any(|node| words(node) || node.attribute("aria-hidden") == Some("true"));
            assert!(told, "a plot without words");
        }
    }
    for link in document.descendants().filter_map(|node| node.attribute("href")) {
        assert!(ids.contains(&link[1..]), "{link} leads nowhere");
    }
    let style: String =
        document.descendants().filter(|node| node.has_tag_name("style")).filter_map(|node| node.text()).collect();
    assert!(!style.contains("url(") && !style.contains("@import"), "the style fetches something");
    assert!(!page.replace("http://www.w3.org/", "").contains("http"), "the page names an address");
}

/// The text of every table row, with its exact numbers.
fn rows(page: &str) -> Vec<(String, Vec<f64>)> {
    let document = parse(page);
    let rows = document.descendants().filter(|node| node.tag_name().name() == "tr");
    let text = |node: Node| node.descendants().filter_map(|node| node.text()).collect::<String>();
    let numbers = |row: Node| row.descendants().filter_map(|node| node.attribute("value")?.parse().ok()).collect();
    rows.map(|row| (text(row), numbers(row))).collect()
}

#[test]
fn every_measurement_is_on_the_page_as_the_record_has_it() {
    let sources = Sources::new();
    let record = sweep(&["fa512", "twin", "torch:cudnn"], &[256, 512, 1024]);
    let page = sources.page(&[], &[&sources.write("a.json", &record)]);
    let rows = rows(&page);
    for row in record["rows"].as_array().unwrap() {
        let summary = &row["outcome"]["summary_us"];
        let expected =
            ["median", "minimum", "p95", "p99", "coefficient_of_variation"].map(|key| summary[key].as_f64().unwrap());
        let contender = row["contender"].as_str().unwrap();
        let found = rows.iter().any(|(text, numbers)| {
            text.starts_with(contender) && expected.iter().all(|number| numbers.contains(number))
        });
        assert!(found, "no row has all of {expected:?} for {contender}");
    }
    for expected in ["Time against sequence length", "Distribution of the samples", "sequence length S", "NVIDIA H200"]
    {
        assert!(page.contains(expected), "{expected}");
    }
}

#[test]
fn the_verdict_is_first_then_the_times_then_warnings_then_tables() {
    let sources = Sources::new();
    let mut record = sweep(&["fa512", "twin"], &[256, 512]);
    record["rows"][0]["outcome"]["warnings"] = json!([{"warning": "hot", "celsius": 90.0}]);
    let page = sources.page(&[], &[&sources.write("a.json", &record)]);
    assert!(page.contains("fa512 is the fastest in all 2 cases: at least 2.000 times as fast as twin"), "{page}");
    let body = &page[page.find("<main>").unwrap()..];
    let parts = ["class=\"verdict\"", "<svg", "What to do: let it cool down", "<table"];
    let places = parts.map(|part| body.find(part).unwrap_or_else(|| panic!("no {part}")));
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn hostile_names_are_text() {
    let sources = Sources::new();
    let name = "<script>alert(\"x & 'y'\")</script>\u{1}\u{202e}";
    let mut record = sweep(&[name, "twin"], &[256, 512]);
    record["command"] = json!([name, "</style><img src=x>"]);
    record["environment"]["device"]["name"] = json!("</title><script>x</script>");
    let page = sources.page(&[], &[&sources.write("]]><b>&.json", &record)]);
    let document = parse(&page);
    let shown = name.replace(['\u{1}', '\u{202e}'], "\u{fffd}");
    assert!(document.descendants().any(|node| node.text() == Some(&shown)), "the name is not on the page");
    let title = document.descendants().find(|node| node.tag_name().name() == "title").unwrap();
    assert_eq!(title.text(), Some("fa512 on </title><script>x</script>"));
}

#[test]
fn unusual_records_make_a_sound_page() {
    let sources = Sources::new();
    let mut single = record();
    set_samples(&mut single["rows"][0], vec![12.5]);
    settle(&mut single);
    let mut unlike = sweep(&["fast", "slow"], &[256, 512]);
    scale_samples(&mut unlike["rows"][3], 1e9);
    unlike["ceilings"] = json!({"copy_terabytes_per_second": null, "tensor": []});
    settle(&mut unlike);
    let mut nonsense = sweep(&["a", "b"], &[256, 512]);
    nonsense["rows"][3]["batch"] = json!(0);
    settle(&mut nonsense);
    let mut missing = record();
    missing["rows"][0]["outcome"] = json!({"result": "not_run", "reason": "python3 has no torch"});
    let mut empty = record();
    empty["rows"] = json!([]);
    let many: Vec<String> = (0..60).map(|index| format!("contender {index} {}", "long ".repeat(30))).collect();
    let many = sweep(&many.iter().map(String::as_str).collect::<Vec<_>>(), &[512]);
    for (what, record) in [
        ("a single sample", single),
        ("times that differ by 10⁹", unlike),
        ("numbers that cannot be", nonsense),
        ("nothing measured", missing),
        ("no rows", empty),
        ("60 contenders", many),
    ] {
        let page = sources.page(&[], &[&sources.write("record.json", &record)]);
        assert!(page.contains("Environment and protocol"), "{what}");
        assert!(what != "nothing measured" || page.contains("python3 has no torch"));
    }
}

#[test]
fn verdicts_are_those_of_compare() {
    let sources = Sources::new();
    let old = sources.write("old.json", &record());
    let mut new = record();
    scale_samples(&mut new["rows"][0], 0.8);
    settle(&mut new);
    let new = sources.write("new.json", &new);
    let page = sources.page(&["--compare", new.to_str().unwrap(), old.to_str().unwrap()], &[]);
    assert!(page.contains("Improved: of 1 rows, 1 improved and 0 regressed."), "{page}");
    assert!(rows(&page).iter().any(|(text, numbers)| {
        text.contains("improved") && numbers.iter().any(|number| (number - 0.8).abs() < 1e-9)
    }));
}

#[test]
fn profiles_simulations_and_campaigns_have_their_sections() {
    let sources = Sources::new();
    let profile = Profile::new(&RawPage::parse(include_str!("../../../cli/tests/ncu/full.raw.csv")).unwrap()).unwrap();
    let path = sources.path("profile.json");
    Format::save(&ncu::FORMAT, &path, &profile).unwrap();
    let counters: Value = serde_json::from_str(include_str!("../../../cli/tests/counters.json")).unwrap();
    let simulated = json!({
        "kind": "fa512-run", "version": 1,
        "passed": true, "variant": "fa512_sm80_any_causal_128x32", "findings": [],
        "ptx": {"file": "sm_80.ptx", "sha256": "abc", "git_commit": null},
        "problem": {"batch": 1, "heads": 1, "sequence": 512, "head_dim": 64, "mask": "causal", "layout": "bhsd", "scale": 0.125},
        "counters": counters["counters"]["fa512_sm80_any_causal_128x32"]["B=1 H=1 S=512"],
    });
    let campaign = json!({
        "kind": "fa512-fuzz", "version": 1,
        "passed": false, "seed": 5, "device": record()["environment"]["device"], "git_commit": "0123abc",
        "cases": 127, "passed_cases": 126, "failed": [{"command": "fa512 run --seed 7"}],
        "distributions": [{"distribution": "normal", "cases": 127, "passed": 126,
            "worst": {"median": 0.25, "p95": 0.5, "maximum": null}}],
    });
    let [simulated, campaign] =
        [("sim.json", &simulated), ("fuzz.json", &campaign)].map(|(name, content)| sources.write(name, content));
    let [profiled, simulated, campaign] = [&path, &simulated, &campaign].map(|path| path.to_str().unwrap());
    let page = sources.page(&["--profile", profiled, "--simulated", simulated, "--fuzz", campaign], &[]);
    let rows = rows(&page);
    let has = |name: &str, number: f64| {
        assert!(
            rows.iter().any(|(text, numbers)| text.starts_with(name) && numbers.contains(&number)),
            "{name} {number}"
        );
    };
    has("tensor cores", profile.tensor.unwrap());
    has("shared-memory wavefronts", profile.bank_conflicts.wavefronts.unwrap());
    has(
        "shared wavefronts",
        counters["counters"]["fa512_sm80_any_causal_128x32"]["B=1 H=1 S=512"]["shared_wavefronts"].as_f64().unwrap(),
    );
    has("normal", 126.0);
    assert!(page.contains("Instructions by class") && page.contains("fa512 run --seed 7"));
}

#[test]
fn a_source_that_cannot_be_read_is_named_and_nothing_is_written() {
    let sources = Sources::new();
    let good = sources.write("good.json", &record());
    let foreign = sources.write("foreign.json", &json!({"kind": "fa512-profile", "version": 1}));
    assert!(sources.refusal(&[], &[&good, &sources.path("missing.json")]).contains("missing.json"));
    assert!(
        sources.refusal(&[], &[&good, &foreign]).contains("foreign.json: holds a fa512-profile, not a bench record")
    );
    for option in ["--profile", "--simulated", "--fuzz"] {
        let refusal = sources.refusal(&[option, good.to_str().unwrap()], &[&good]);
        assert!(refusal.contains("good.json: holds a fa512-bench, not a"), "{option}: {refusal}");
    }
    let on_a_gpu = sources.write(
        "gpu.json",
        &json!({
            "kind": "fa512-run", "version": 1, "passed": true, "variant": "v", "findings": [], "counters": null,
            "ptx": {"file": "sm_80.ptx", "sha256": "abc", "git_commit": null},
            "problem": {"batch": 1, "heads": 1, "sequence": 512, "head_dim": 64, "mask": "causal", "layout": "bhsd"},
        }),
    );
    let refusal = sources.refusal(&["--simulated", on_a_gpu.to_str().unwrap()], &[&good]);
    assert!(refusal.contains("gpu.json") && refusal.contains("nothing was counted"), "{refusal}");
    assert!(sources.refusal(&[], &[]).contains("required"));
}

#[test]
fn a_page_never_replaces_one_of_its_sources() {
    let sources = Sources::new();
    let source = sources.write("report.html", &record());
    let output = sources.report(&[], &[&source]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&source).unwrap(), record().to_string(), "the record was changed");
}
