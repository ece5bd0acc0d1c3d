//! The tuned table: for each GPU model and class of problems the variant that was fastest, as JSON. Selection reads the
//! one that is built in, `host/workshop/tuned.json`, or another that is given.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::record::{Decision, Record};
use crate::document::Format;
use crate::error::{Error, Result};
use crate::record::Case;
use crate::statistics::Interval;
use contract::class::ShapeClass;
use contract::tuned::Row;

/// Files that hold a [`Table`].
pub const FORMAT: Format = Format {
    kind: "fa512-tuned",
    version: 1,
    oldest: 1,
    name: "tuned table",
    source: "fa512 tune table RECORD --out FILE",
};

/// The table that is used unless another is given.
const BUILT_IN: &str = include_str!("../../tuned.json");

/// Which variant is the fastest, by GPU and class of problems.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The GPUs that were tuned for.
    pub gpus: Vec<TunedGpu>,
}

/// The classes of one GPU model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunedGpu {
    /// Its name, as the driver gives it.
    pub name: String,
    /// As in 90 for `sm_90`.
    pub architecture: u32,
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// The classes.
    pub classes: Vec<TunedClass>,
}

/// The fastest variant of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunedClass {
    /// The class.
    #[serde(flatten)]
    pub class: ShapeClass,
    /// Name of the entry.
    pub variant: String,
    /// What it was measured with.
    pub case: Case,
    /// Its median there, µs; absent when nothing was faster than it in the search.
    pub median_us: Option<f64>,
    /// Whom it replaced or stood up to.
    pub against: Option<Against>,
}

/// The final comparison that a table's entry rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// The other variant.
    pub variant: String,
    /// The time of the table's variant over the other's.
    pub ratio: f64,
    /// Its 95 % interval.
    pub interval: Interval,
}

impl Table {
    /// The built-in table.
    ///
    /// # Errors
    /// None, as a test makes sure.
    pub fn built_in() -> Result<Self> {
        FORMAT.parse(BUILT_IN).map_err(|reason| Error::Invalid(format!("the built-in table: {reason}")))
    }

    /// The table at `path`, or the built-in one.
    ///
    /// # Errors
    /// As [`Format::load`].
    pub fn open(path: Option<&Path>) -> Result<Self> {
        path.map_or_else(Self::built_in, |path| FORMAT.load(path))
    }

    /// Writes the table to `path`, which is replaced in one step.
    ///
    /// # Errors
    /// As [`Format::save`].
    pub fn save(&self, path: &Path) -> Result<()> {
        FORMAT.save(path, self)
    }

    /// The rows, as selection reads them.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.gpus.iter().flat_map(|gpu| {
            gpu.classes.iter().map(|tuned| Row {
                gpu: &gpu.name,
                architecture: gpu.architecture,
                class: tuned.class,
                variant: &tuned.variant,
            })
        })
    }

    /// Puts the decisions of `record` in the place of what the table has for their classes.
    pub fn adopt(&mut self, record: &Record) {
        let device = &record.header.environment.device;
        let multiprocessors = device.multiprocessors;
        let index = self.gpus.iter().position(|gpu| gpu.name == device.name).unwrap_or_else(|| {
            let (name, architecture) = (device.name.clone(), device.architecture);
            self.gpus.push(TunedGpu { name, architecture, multiprocessors, classes: Vec::new() });
            self.gpus.len() - 1
        });
        let gpu = &mut self.gpus[index];
        for decision in record.last_decisions() {
            let tuned = TunedClass::new(decision, multiprocessors);
            gpu.classes.retain(|other| other.class != tuned.class);
            gpu.classes.push(tuned);
        }
    }
}

impl TunedClass {
    fn new(decision: &Decision, multiprocessors: u32) -> Self {
        let class = ShapeClass::new(decision.case.shape, decision.case.mask, multiprocessors);
        let against = decision.challenge.as_ref().map(|challenge| {
            let pair = &challenge.pair;
            match challenge.improved {
                true => (0, Against { variant: pair.second.clone(), ratio: pair.ratio, interval: pair.ratio_interval }),
                false => {
                    let interval =
                        Interval { low: 1.0 / pair.ratio_interval.high, high: 1.0 / pair.ratio_interval.low };
                    (1, Against { variant: pair.first.clone(), ratio: 1.0 / pair.ratio, interval })
                }
            }
        });
        let row = decision.challenge.as_ref().zip(against.as_ref());
        let measured = row.and_then(|(challenge, (index, _))| challenge.rows.get(*index)?.measurement());
        Self {
            class,
            variant: decision.winner().to_owned(),
            case: decision.case,
            median_us: measured.map(|measurement| measurement.summary_us.median),
            against: against.map(|(_, against)| against),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::case;
    use super::super::record::Challenge;
    use super::super::record::tests::header;
    use super::*;
    use crate::record::Pair;
    use contract::config::Mask;
    use contract::tuned;

    const H200: u32 = 132;

    fn challenge(improved: bool) -> Challenge {
        let pair = Pair {
            case: case(4, 8, 512, Mask::Full),
            first: "small".into(),
            second: "large".into(),
            ratio: 0.5,
            ratio_interval: Interval { low: 0.4, high: 0.8 },
        };
        Challenge { candidate: "small".into(), improved, pair, rows: vec![] }
    }

    fn decision(batch: u32, challenge: Option<Challenge>) -> Decision {
        Decision { case: case(batch, 8, 512, Mask::Full), incumbent: "large".into(), challenge }
    }

    fn table(decisions: Vec<Decision>) -> Table {
        let mut table = Table::default();
        table.adopt(&Record { header: header(), trials: vec![], decisions });
        table
    }

    fn found(table: &Table, batch: u32, sequence: u32) -> Option<&str> {
        let case = case(batch, 8, sequence, Mask::Full);
        let class = ShapeClass::new(case.shape, case.mask, H200);
        let device = header().environment.device;
        tuned::find(table.rows(), &device.gpu(), &class).map(|row| row.variant)
    }

    /// The source of the rows that the library ships, as `cargo xtask bless` writes it.
    fn shipped_source(table: &Table) -> String {
        let template = include_str!("../../../../kernel-gpu/contract/src/tuned/shipped.rs");
        let (head, rest) = template.split_once("= &[\n").expect("the list begins");
        let (_, tail) = rest.split_once("];\n").expect("the list ends");
        let rows = table.rows().map(|Row { gpu, architecture, class, variant }| {
            let ShapeClass { sequence, mask, heads } = class;
            format!("    row({gpu:?}, {architecture}, {sequence:?}, {mask:?}, {:?}, {variant:?}),\n", heads.end())
        });
        format!("{head}= &[\n{}];\n{tail}", rows.collect::<String>())
    }

    #[test]
    fn the_library_ships_the_rows_of_the_built_in_table() {
        let table = Table::built_in().unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel-gpu/contract/src/tuned/shipped.rs");
        let source = shipped_source(&table);
        if std::env::var("FA512_BLESS").is_ok_and(|value| value == "1") {
            std::fs::write(path, &source).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(path).unwrap(),
            source,
            "tuned.json has other rows than kernel-gpu/contract/src/tuned/shipped.rs: `cargo xtask bless` writes them"
        );
    }

    #[test]
    fn what_was_measured_is_found_by_selection() {
        let table = table(vec![decision(4, Some(challenge(true))), decision(64, None)]);
        assert_eq!(found(&table, 4, 512), Some("small"));
        assert_eq!(found(&table, 8, 512), Some("small"), "0.5 heads are nearer to 0.25 than to 4");
        assert_eq!(found(&table, 1024, 512), Some("large"));
        assert_eq!(found(&table, 4, 1024), None, "another kind of kernel");
    }

    #[test]
    fn the_loser_of_a_final_comparison_is_not_in_the_table() {
        let stayed = table(vec![decision(4, Some(challenge(false)))]);
        let class = &stayed.gpus[0].classes[0];
        assert_eq!(class.variant, "large");
        let against = class.against.as_ref().unwrap();
        assert_eq!((against.variant.as_str(), against.ratio), ("small", 2.0));
        assert_eq!((against.interval.low, against.interval.high), (1.25, 2.5));
    }

    #[test]
    fn a_later_record_replaces_its_classes_and_leaves_the_others() {
        let mut table = table(vec![decision(4, Some(challenge(true))), decision(64, None)]);
        let later = Record { header: header(), trials: vec![], decisions: vec![decision(4, None)] };
        table.adopt(&later);
        let variants: Vec<_> = table.gpus[0].classes.iter().map(|class| class.variant.as_str()).collect();
        assert_eq!((table.gpus.len(), variants), (1, vec!["large", "large"]));
    }

    #[test]
    fn a_table_is_read_as_it_was_written_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tuned.json");
        let table = table(vec![decision(4, Some(challenge(true)))]);
        table.save(&path).unwrap();
        assert_eq!(Table::open(Some(&path)).unwrap(), table);
        std::fs::write(&path, "{}").unwrap();
        assert!(Table::open(Some(&path)).unwrap_err().to_string().contains("not a tuned table"));
        std::fs::write(&path, "{\"kind\":\"fa512-tuned\",\"version\":1}").unwrap();
        assert!(Table::open(Some(&path)).unwrap_err().to_string().contains("a damaged tuned table"));
    }
}
