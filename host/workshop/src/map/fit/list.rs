//! A list of records, with the kernels whose times still count in each: others have changed since.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use contract::config::WARPGROUP_ROWS;
use contract::tile::{Configuration, Grid, Kind};
use serde::Deserialize;

use crate::document::from_json;
use crate::error::{Error, Result};
use crate::files;
use crate::map::record::Map;

/// Kernels that changed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernels {
    /// With TMA, for more than one strip of a head.
    Tma,
    /// With TMA, for sequences of a single strip.
    TmaShort,
    /// With TMA, for more than one strip, and split keys.
    SplitKeys,
    /// By `mma.sync`, but not of 96 columns.
    MmaSync,
    /// By `mma.sync`, of 96 columns.
    #[serde(rename = "mma_sync_96")]
    MmaSync96,
}

impl Kernels {
    /// Those to which the kernel of `config` belongs for heads of `sequence` rows; `None` for a kind that has not changed.
    fn of(config: Configuration, sequence: u32) -> Option<Self> {
        match config.kind() {
            Kind::Sm90CpAsync => None,
            Kind::Sm90Tma if sequence <= WARPGROUP_ROWS => Some(Self::TmaShort),
            Kind::Sm90Tma if config.grid() == Grid::SplitKeys => Some(Self::SplitKeys),
            Kind::Sm90Tma => Some(Self::Tma),
            Kind::Sm80 if config.columns() == 96 => Some(Self::MmaSync96),
            Kind::Sm80 => Some(Self::MmaSync),
        }
    }
}

/// A record of the list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// The file. In the list, relative to its folder.
    pub record: PathBuf,
    /// The kernels whose times count.
    kernels: Vec<Kernels>,
}

impl Listed {
    /// The record, with the times that count.
    pub fn load(&self) -> Result<Map> {
        let mut map = Map::load(&self.record)?;
        retain(&mut map, &self.kernels);
        Ok(map)
    }
}

/// Reads a list: a JSON array of objects with a `record` and its `kernels`.
///
/// # Errors
/// [`Error::Invalid`] when the file is no such list, is empty, or names a record twice.
pub fn read(path: &Path) -> Result<Vec<Listed>> {
    let text = files::read_text(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    let invalid = |what: String| Error::Invalid(format!("{} is not a list of records: {what}", path.display()));
    let mut list: Vec<Listed> = from_json(&text).map_err(|error| invalid(error.to_string()))?;
    if list.is_empty() {
        return Err(invalid("it is empty".into()));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = list.iter().find(|listed| !seen.insert(&listed.record)) {
        return Err(invalid(format!("{} is in it twice", twice.record.display())));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    list.iter_mut().for_each(|listed| listed.record = folder.join(&listed.record));
    Ok(list)
}

/// Removes the times of kernels that have changed from `map`, except those of `kernels`.
fn retain(map: &mut Map, kernels: &[Kernels]) {
    map.retain_kernels(|case, config| {
        Kernels::of(config, case.shape.sequence).is_none_or(|changed| kernels.contains(&changed))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    use tempfile::TempDir;

    use crate::map::record::tests::{header, measured, point};
    use crate::record::Kernel;
    use contract::tile::{Sm80, Sm90Tma};

    fn refusal(text: &str) -> String {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("list.json");
        fs::write(&path, text).unwrap();
        read(&path).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_list_is_refused_with_the_reason() {
        assert!(refusal("[]").contains("list.json is not a list of records: it is empty"));
        let one = r#"{"record": "a.jsonl", "kernels": ["tma", "mma_sync_96"]}"#;
        assert!(refusal(&format!("[{one}, {one}]")).contains("a.jsonl is in it twice"));
        assert!(refusal(&one.replace("tma", "tme")).contains("list.json is not a list of records"));
        assert!(refusal(&format!("[{}]", one.replace("tma", "tme"))).contains("unknown variant `tme`"));
        assert!(refusal(&format!("[{}]", one.replace("kernels", "kernel"))).contains("unknown field `kernel`"));
    }

    #[test]
    fn only_times_of_the_listed_kernels_are_left() {
        let tma = Sm90Tma { grid: Grid::Persistent, ..Sm90Tma::new(1, 4) };
        let narrow = Sm80::new(64, 64, 4, 2);
        let configs = [
            ("tma", Configuration::Sm90Tma(tma)),
            ("split", Configuration::Sm90Tma(Sm90Tma { grid: Grid::SplitKeys, ..tma })),
            ("mma", Configuration::Sm80(narrow)),
            ("mma_96", Configuration::Sm80(Sm80 { columns: 96, ..narrow })),
        ];
        let mut header = header();
        header.kernels = configs.map(|(entry, config)| Kernel { entry: entry.into(), config }).into();
        let results = || {
            let ours = configs.map(|(entry, _)| measured("fa512", Some(entry), 1.0));
            ours.into_iter().chain([measured("torch:cudnn", None, 2.0)]).collect()
        };
        let map = Map { points: [64, 65].map(|sequence| point((1, 3, sequence), results())).into(), header };
        let left = |kernels: &[Kernels]| {
            let mut map = map.clone();
            retain(&mut map, kernels);
            let names = |point: &crate::map::record::Point| {
                point.results.iter().filter_map(|outcome| outcome.kernel.clone()).collect::<Vec<_>>().join(" ")
            };
            assert!(map.points.iter().all(|point| point.results.iter().any(|outcome| outcome.kernel.is_none())));
            [names(&map.points[0]), names(&map.points[1])]
        };
        assert_eq!(left(&[Kernels::Tma]), ["", "tma"]);
        assert_eq!(left(&[Kernels::TmaShort]), ["tma split", ""]);
        assert_eq!(left(&[Kernels::SplitKeys, Kernels::MmaSync96]), ["mma_96", "split mma_96"]);
        assert_eq!(left(&[Kernels::MmaSync, Kernels::Tma]), ["mma", "tma mma"]);
    }
}
