//! The record of counters, and which of them a given build must match.

use std::collections::{BTreeMap, BTreeSet};

use contract::manifest::{CodeGenerator, Manifest, Resources};
use serde::{Deserialize, Serialize};

/// Registers are given to warps in multiples of 256, so 8 for each thread (CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability"): fewer more or less cost nothing.
const REGISTER_GRANULE: u64 = 8;

/// Names of the counters that [`resource_counters`] makes.
const REGISTERS: &str = "registers";
const SPILL_STORES: &str = "spill_store_bytes";
const SPILL_LOADS: &str = "spill_load_bytes";
const STACK: &str = "stack_bytes";

/// The cost of an entry at a shape or on an architecture.
pub struct Case {
    /// Name of the entry.
    pub entry: String,
    /// The shape or the architecture.
    pub name: String,
    /// By name.
    pub counters: BTreeMap<String, u64>,
}

/// The cost of every entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The compiler of the PTX.
    code_generator: Option<CodeGenerator>,
    /// Version of the ptxas that counted registers and spills.
    ptxas: Option<String>,
    /// By entry, case and name.
    counters: BTreeMap<String, BTreeMap<String, BTreeMap<String, u64>>>,
}

/// What determines a counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Determinant {
    /// The algorithm: every compiler must reach the same value.
    Algorithm,
    /// The code generator: its version changes instruction counts.
    CodeGenerator,
    /// ptxas.
    Ptxas,
}

/// A changed counter, identified by entry, case and name.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Entry, case, counter.
    pub key: [String; 3],
    /// Absent when it is new.
    pub stored: Option<u64>,
    /// Absent when it is gone.
    pub measured: Option<u64>,
}

/// Comparison of a measured record with the stored one.
pub struct Comparison {
    /// Changed counters.
    pub changes: Vec<Change>,
    /// Counters that could not be compared, with reasons.
    pub omissions: Vec<String>,
}

/// Registers, spills and stack as counters.
pub fn resource_counters(resources: &Resources) -> BTreeMap<String, u64> {
    let counters = [
        (REGISTERS, resources.registers),
        (SPILL_STORES, resources.spill_stores),
        (SPILL_LOADS, resources.spill_loads),
        (STACK, resources.stack),
    ];
    counters.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// Local memory is used only for spills and indexed arrays, which no kernel has under any compiler. The number of shared-memory
/// wavefronts depends on how the compiler lets lanes read the same word; the number of conflicts does not.
fn determinant(counter: &str) -> Determinant {
    match counter {
        REGISTERS | SPILL_STORES | SPILL_LOADS | STACK => Determinant::Ptxas,
        "local_memory_instructions" => Determinant::Algorithm,
        "instructions" | "shared_wavefronts" => Determinant::CodeGenerator,
        name if name.ends_with("_instructions") => Determinant::CodeGenerator,
        _ => Determinant::Algorithm,
    }
}

impl Record {
    /// A record of `cases`, measured of the PTX that `manifest` describes.
    pub fn new(manifest: &Manifest, cases: impl Iterator<Item = Case>) -> Self {
        let mut counters = BTreeMap::<_, BTreeMap<_, _>>::new();
        for case in cases {
            counters.entry(case.entry).or_default().insert(case.name, case.counters);
        }
        Self { code_generator: Some(manifest.code_generator.clone()), ptxas: manifest.ptxas.clone(), counters }
    }

    /// Entries and cases in which `counter` has a value for which `is_wrong`, with that value.
    pub fn wrong(&self, counter: &str, is_wrong: impl Fn(&str, u64) -> bool) -> Vec<(&str, &str, u64)> {
        let cases = self.counters.iter().flat_map(|(entry, cases)| cases.iter().map(move |case| (entry, case)));
        let values = cases.filter_map(|(entry, (case, counters))| Some((&**entry, &**case, *counters.get(counter)?)));
        values.filter(|(entry, _, value)| is_wrong(entry, *value)).collect()
    }

    fn get(&self, [entry, case, counter]: &[String; 3]) -> Option<u64> {
        self.counters.get(entry)?.get(case)?.get(counter).copied()
    }

    fn keys(&self) -> impl Iterator<Item = [String; 3]> {
        self.counters.iter().flat_map(|(entry, cases)| {
            cases.iter().flat_map(move |(case, counters)| {
                counters.keys().map(move |counter| [entry, case, counter].map(String::clone))
            })
        })
    }

    /// Every counter that differs in `measured`.
    pub fn changes_to(&self, measured: &Self) -> Vec<Change> {
        let keys: BTreeSet<_> = self.keys().chain(measured.keys()).collect();
        keys.into_iter()
            .map(|key| Change { stored: self.get(&key), measured: measured.get(&key), key })
            .filter(|change| change.stored != change.measured)
            .collect()
    }

    fn code_generator(&self) -> String {
        let name = |generator: &CodeGenerator| format!("{} ({})", generator.name, generator.version);
        self.code_generator.as_ref().map_or("none".to_owned(), name)
    }
}

impl Comparison {
    /// Compares what the two builds have in common: everything that the algorithm determines, instruction counts when
    /// the code generator is the same, registers and spills when ptxas is the same too.
    pub fn new(stored: &Record, measured: &Record) -> Self {
        let mut omissions = Vec::new();
        let mut comparable = vec![Determinant::Algorithm];
        if stored.code_generator == measured.code_generator {
            comparable.push(Determinant::CodeGenerator);
        } else {
            let (theirs, ours) = (stored.code_generator(), measured.code_generator());
            omissions.push(format!("instruction counts; they are on record for {theirs}, this PTX is by {ours}"));
        }
        if comparable.contains(&Determinant::CodeGenerator) && stored.ptxas == measured.ptxas {
            comparable.push(Determinant::Ptxas);
        } else {
            let [theirs, ours] = [stored, measured].map(|record| record.ptxas.as_deref().unwrap_or("none"));
            omissions.push(format!("registers and spills; on record by ptxas {theirs}, of this PTX by {ours}"));
        }
        let matters = |change: &Change| comparable.contains(&determinant(&change.key[2])) && change.matters();
        let changes = stored.changes_to(measured).into_iter().filter(matters).collect();
        Self { changes, omissions }
    }
}

impl Change {
    /// Whether it exceeds the allocation granularity.
    fn matters(&self) -> bool {
        let granule = |registers: Option<u64>| registers.map(|registers| registers.next_multiple_of(REGISTER_GRANULE));
        self.key[2] != REGISTERS || granule(self.stored) != granule(self.measured)
    }

    /// The change relative to the stored value, as text.
    pub fn percent(&self) -> String {
        match (self.stored, self.measured) {
            (None, _) => "new".to_owned(),
            (_, None) => "gone".to_owned(),
            (Some(0), Some(_)) => "was 0".to_owned(),
            (Some(stored), Some(measured)) => {
                format!("{:+.2} %", (measured as f64 - stored as f64) / stored as f64 * 100.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::manifest::FORMAT;

    fn record(version: &str, counters: &[(&str, u64)]) -> Record {
        let counters = counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let case = Case { entry: "entry".into(), name: "case".into(), counters };
        let manifest = Manifest {
            format: FORMAT,
            code_generator: CodeGenerator { name: "rustc".into(), version: version.into() },
            git_commit: None,
            ptxas: Some("13.0".into()),
            modules: Vec::new(),
        };
        Record::new(&manifest, std::iter::once(case))
    }

    fn changed(stored: &Record, measured: &Record) -> Vec<String> {
        Comparison::new(stored, measured).changes.into_iter().map(|change| change.key[2].clone()).collect()
    }

    const BEFORE: [(&str, u64); 4] =
        [("instructions", 100), ("shared_bank_conflicts", 0), (REGISTERS, 160), (SPILL_STORES, 0)];

    #[test]
    fn every_counter_that_moves_is_a_change() {
        let before = record("1", &BEFORE);
        assert!(changed(&before, &before).is_empty());
        for (index, (name, _)) in BEFORE.iter().enumerate() {
            let mut after = BEFORE;
            after[index].1 += 1;
            assert_eq!(changed(&before, &record("1", &after)), [*name]);
        }
    }

    #[test]
    fn another_code_generator_is_held_to_what_the_algorithm_determines() {
        let after =
            record("2", &[("instructions", 90), ("shared_bank_conflicts", 1), (REGISTERS, 160), (SPILL_STORES, 0)]);
        let comparison = Comparison::new(&record("1", &BEFORE), &after);
        assert_eq!(changed(&record("1", &BEFORE), &after), ["shared_bank_conflicts"]);
        assert!(
            comparison.omissions.iter().any(|omission| omission.contains("rustc (2)")),
            "{:?}",
            comparison.omissions
        );
    }

    #[test]
    fn registers_of_another_ptxas_or_of_none_are_not_compared_and_that_is_said() {
        let mut after = BEFORE;
        after[2].1 += 8;
        for ptxas in [None, Some("12.4".to_owned())] {
            let measured = Record { ptxas, ..record("1", &after) };
            let comparison = Comparison::new(&record("1", &BEFORE), &measured);
            assert_eq!(comparison.changes, []);
            assert!(comparison.omissions[0].contains("on record by ptxas 13.0"), "{:?}", comparison.omissions);
        }
    }

    #[test]
    fn registers_matter_in_the_amounts_they_are_given_out_in() {
        let registers = |count| record("1", &[(REGISTERS, count)]);
        assert!(changed(&registers(153), &registers(160)).is_empty());
        assert_eq!(changed(&registers(160), &registers(161)), [REGISTERS]);
        assert_eq!(registers(153).changes_to(&registers(160)).len(), 1, "the record keeps the exact number");
    }

    #[test]
    fn entries_that_come_or_go_are_changes() {
        let (some, none) = (record("1", &BEFORE[..1]), record("1", &[]));
        let percents = |stored: &Record, measured: &Record| -> Vec<_> {
            Comparison::new(stored, measured).changes.iter().map(Change::percent).collect()
        };
        assert_eq!(percents(&none, &some), ["new"]);
        assert_eq!(percents(&some, &none), ["gone"]);
    }

    #[test]
    fn changes_are_told_in_percent_of_what_is_on_record() {
        let change =
            |stored, measured| Change { key: Default::default(), stored: Some(stored), measured: Some(measured) };
        assert_eq!(change(200, 203).percent(), "+1.50 %");
        assert_eq!(change(200, 100).percent(), "-50.00 %");
        assert_eq!(change(0, 4).percent(), "was 0");
    }
}
