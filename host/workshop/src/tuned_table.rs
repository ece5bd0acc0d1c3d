//! The tuned table: the fastest variant for each GPU model and shape class, as JSON. Selection reads the built-in one,
//! `host/workshop/tuned.json`, unless another is given.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::document::Format;
use crate::error::{Error, Result};
use crate::record::Case;
use crate::statistics::Interval;
use contract::class::ShapeClass;
use contract::tuned::Row;

/// The file format of a [`Table`].
pub const FORMAT: Format = Format {
    kind: "fa512-tuned",
    version: 1,
    oldest: 1,
    name: "tuned table",
    source: "fa512 tune table RECORD --out FILE",
};

/// The default table.
const BUILT_IN: &str = include_str!("../tuned.json");

/// The fastest variants by GPU model and shape class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The GPU models.
    pub gpus: Vec<TunedGpu>,
}

/// The classes of one GPU model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunedGpu {
    /// Its name, as the driver reports it.
    pub name: String,
    /// Compute capability, such as 90 for `sm_90`.
    pub architecture: u32,
    /// Number of multiprocessors.
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
    /// The case that it was measured with.
    pub case: Case,
    /// Its median in that case, µs; absent if it was the incumbent and nothing in the search was faster.
    pub median_us: Option<f64>,
    /// The comparison with the variant that it replaced or prevailed over.
    pub against: Option<Against>,
}

/// The final comparison behind a row of the table.
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
    /// Never; checked by a test.
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

    /// Writes the table to `path`, replacing the file atomically.
    ///
    /// # Errors
    /// As [`Format::save`].
    pub fn save(&self, path: &Path) -> Result<()> {
        FORMAT.save(path, self)
    }

    /// The rows in the form that selection reads.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source text of the shipped rows, written by `cargo xtask bless`.
    fn shipped_source(table: &Table) -> String {
        let template = include_str!("../../../kernel-gpu/contract/src/tuned/shipped.rs");
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
}
