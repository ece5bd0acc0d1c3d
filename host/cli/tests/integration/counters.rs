//! The cost of every entry, as counted by the simulator and reported by ptxas, matches `counters.json` until `cargo xtask bless`
//! accepts a change.

mod record;

use std::io::Write;
use std::path::PathBuf;

use cli::executor::sim::{DEFAULT_ARCHITECTURE, SimExecutor};
use cli::forward::Forward;
use cli::inputs::{Distribution, Inputs};
use cli::kernel::Kernel;
use cli::ptx_module::PtxModule;
use comfy_table::{Table, presets};
use contract::config::{Element, Mask, Scores, Sequence};
use contract::manifest::Entry;
use contract::problem::{DEFAULT_HEAD_DIM, Shape};
use contract::tile::Configuration;
use contract::view::Layout;
use ptx_sim::Options;

use crate::program::of_repository;
use crate::support::{ptx, ptx_entries};
use record::{Case, Change, Comparison, Record};

/// Environment variable that, set to `1`, makes the test rewrite the record: `cargo xtask bless`.
const BLESS_VARIABLE: &str = "FA512_BLESS";

/// Lengths that a general entry is measured at: whole tiles, one row more, and the length that the specialised entries are for.
const GENERAL_LENGTHS: [u32; 3] = [64, 65, 512];
/// Lengths for tiles of less common widths or element types: their differences show at any length.
const OTHER_LENGTHS: [u32; 1] = [130];

/// Probabilities of a step of a TMA kernel: 64 rows, 64 keys.
const STEP: u64 = 64 * 64;

/// Whether all steps of standard normal scores keep the shift that their strip began with, also where a lane has no key of a row. Where
/// scores are changed or the keys split, rows have further exponentials.
fn computes_each_probability_once(entry: &str) -> bool {
    let entry = ptx().manifest().modules.iter().flat_map(|module| &module.entries).find(|one| one.name == entry);
    entry.is_some_and(|entry| match entry.config {
        Configuration::Sm90Tma(tile) => {
            entry.mask != Mask::Window && entry.scores == Scores::Unmodified && !tile.splits_keys()
        }
        _ => false,
    })
}

#[test]
fn counters_are_those_on_record() {
    let measured = Record::new(ptx().manifest(), ptx_entries().flat_map(measure));
    let outside = measured.wrong("prefetches_outside", |_, number| number > 0);
    assert!(outside.is_empty(), "kernels prefetch boxes that no tensor has, which takes time: {outside:?}");
    let repeated = measured.wrong("ex2", |entry, number| computes_each_probability_once(entry) && number % STEP != 0);
    assert!(repeated.is_empty(), "kernels compute probabilities a second time, under row maxima: {repeated:?}");
    let stored: Record = match std::fs::read_to_string(path()) {
        Ok(text) => serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path().display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Record::default(),
        Err(error) => panic!("{}: {error}", path().display()),
    };
    let comparison = Comparison::new(&stored, &measured);
    if std::env::var(BLESS_VARIABLE).is_ok_and(|value| value == "1") {
        return bless(&stored, &measured);
    }
    for omission in &comparison.omissions {
        say(&format!("counters not compared: {omission}"));
    }
    assert!(
        comparison.changes.is_empty(),
        "counters changed; `cargo xtask bless` accepts that, on purpose:\n{}",
        table(&comparison.changes)
    );
}

/// Rewrites the record and prints all changes.
fn bless(stored: &Record, measured: &Record) {
    let changes = stored.changes_to(measured);
    let text = serde_json::to_string_pretty(measured).expect("a record is valid JSON") + "\n";
    std::fs::write(path(), text).unwrap_or_else(|error| panic!("{}: {error}", path().display()));
    match changes.as_slice() {
        [] => say("counters are unchanged"),
        changes => say(&format!("{} counters accepted:\n{}", changes.len(), table(changes))),
    }
}

fn path() -> PathBuf {
    of_repository("host/cli/tests/counters.json")
}

/// Writes to standard error directly: the test harness hides the output of passing tests.
fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("standard error takes text");
}

/// What an entry costs at each of its lengths, and on each architecture that ptxas was asked about.
fn measure((entry, module): (&Entry, &PtxModule)) -> Vec<Case> {
    let is_usual = entry.config.columns() == DEFAULT_HEAD_DIM && entry.element == Element::F16;
    let lengths = match entry.sequence {
        Sequence::Exact(length) => vec![length],
        Sequence::Any | Sequence::Packed if is_usual => GENERAL_LENGTHS.to_vec(),
        Sequence::Any | Sequence::Packed => OTHER_LENGTHS.to_vec(),
    };
    let executions = lengths.into_iter().map(|length| Case {
        entry: entry.name.clone(),
        name: format!("B=1 H=1 S={length}"),
        counters: count(entry, module, length).entries().map(|(name, value)| (name.to_owned(), value)).collect(),
    });
    let resources = entry.resources.iter().map(|resources| Case {
        entry: entry.name.clone(),
        name: format!("sm_{}", resources.architecture),
        counters: record::resource_counters(resources),
    });
    executions.chain(resources).collect()
}

/// Executes an entry in the simulator, with LSE. The counters depend on the shape only: not on addresses, nor on values as long as
/// no block restarts its softmax, which standard normal inputs never cause.
fn count(entry: &Entry, module: &PtxModule, sequence: u32) -> ptx_sim::Counters {
    let shape = Shape::new(1, 1, sequence).with_head_dim(entry.config.columns());
    let problem = Kernel::Forward(entry).problem(shape, Layout::Bhsd).unwrap_or_else(|error| panic!("{error}"));
    let inputs = Inputs::generate(problem, Distribution::Normal, 512).and_then(|inputs| match entry.sequence {
        Sequence::Packed => inputs.packed(&[sequence]),
        Sequence::Exact(_) | Sequence::Any => Ok(inputs),
    });
    let inputs = inputs.unwrap_or_else(|error| panic!("{error}"));
    // Other tests look for races, which takes longer than to count.
    let options = Options { races: false, ..SimExecutor::default_options() };
    let mut simulator =
        SimExecutor::with_options(DEFAULT_ARCHITECTURE, options).unwrap_or_else(|error| panic!("{error}"));
    let outcome = Forward::prepare(&mut simulator, module, entry, &inputs, true)
        .and_then(|mut forward| forward.execute())
        .unwrap_or_else(|error| panic!("{} at S={sequence}: {error}", entry.name));
    outcome.execution.counters.expect("the simulator counts")
}

fn table(changes: &[Change]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["entry", "case", "counter", "on record", "now", "change"]);
    let value = |value: Option<u64>| value.map_or("–".to_owned(), |value| value.to_string());
    for change in changes {
        let Change { key: [entry, case, counter], stored, measured } = change;
        table.add_row([entry, case, counter, &value(*stored), &value(*measured), &change.percent()]);
    }
    table
}
