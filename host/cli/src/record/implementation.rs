//! The implementation that ran as a contender.

use std::collections::BTreeMap;

use contract::config::Family;
use contract::manifest::CodeGenerator;
use contract::tile::{Configuration, Unreadable, Written};
use serde::{Deserialize, Serialize};

/// The exact code that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Implementation {
    /// An entry of a PTX folder.
    Ptx {
        /// The entry.
        #[serde(flatten)]
        kernel: Kernel,
        /// Blocks of the grid.
        blocks: u32,
        /// Parts of a work item that a second launch combined.
        #[serde(default = "one_part", skip_serializing_if = "is_one_part")]
        parts: u32,
        /// Threads of a block.
        threads: u32,
        /// Dynamic shared memory of a block, bytes.
        dynamic_shared_bytes: u32,
        /// The PTX file.
        file: String,
        /// SHA-256 of the file.
        sha256: String,
        /// The compiler of the PTX.
        code_generator: CodeGenerator,
        /// Commit of its source.
        git_commit: Option<String>,
    },
    /// A function of a library in another process.
    Library {
        /// The function called, such as `torch.nn.functional.scaled_dot_product_attention (cudnn)`.
        function: String,
        /// Versions by name, such as `torch` → `2.11.0`.
        versions: BTreeMap<String, String>,
    },
}

/// [`Implementation::Ptx`]'s parts, if a record does not say.
pub const fn one_part() -> u32 {
    1
}

/// Whether items were computed whole, as in records that do not say.
pub const fn is_one_part(parts: &u32) -> bool {
    *parts == 1
}

/// An entry that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WrittenKernel")]
pub struct Kernel {
    /// Its name.
    pub entry: String,
    /// Its tile configuration; `None` for a kernel that is no more.
    pub config: Option<Configuration>,
}

/// A [`Kernel`] as in a record.
#[derive(Deserialize)]
struct WrittenKernel {
    entry: String,
    config: Option<Written>,
}

impl TryFrom<WrittenKernel> for Kernel {
    type Error = Unreadable;

    fn try_from(WrittenKernel { entry, config }: WrittenKernel) -> Result<Self, Unreadable> {
        let config = match config.map(|config| config.configuration(family(&entry))) {
            None | Some(Err(Unreadable::Past)) => None,
            Some(config) => Some(config?),
        };
        Ok(Self { entry, config })
    }
}

/// The family in an entry's name, such as `fa512_sm80_s512_full_128x64`: records of version 1 have it nowhere else.
fn family(entry: &str) -> Option<Family> {
    entry.split('_').find_map(|word| match word {
        "sm80" => Some(Family::Sm80),
        "sm90a" => Some(Family::Sm90a),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use contract::tile::{Configuration, Grid, Sm80, Sm90Tma};
    use serde_json::{Value, json};

    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
    }

    /// Collects the kernels of every record in `folder`, as written there.
    fn kernels(folder: &Path, found: &mut Vec<Value>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                kernels(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "json" || extension == "jsonl") {
                let text = std::fs::read_to_string(&path).unwrap();
                for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
                    collect(&value.unwrap_or_else(|error| panic!("{}: {error}", path.display())), found);
                }
            }
        }
    }

    fn collect(value: &Value, found: &mut Vec<Value>) {
        match value {
            Value::Object(fields) if fields.contains_key("entry") && fields.contains_key("config") => {
                found.push(value.clone());
            }
            Value::Object(fields) => fields.values().for_each(|value| collect(value, found)),
            Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_record_that_was_kept_is_read_and_read_again_as_it_is_written() {
        let mut found = Vec::new();
        ["docs/results", "baselines", "host/cli/tests", "host/lab/tests"]
            .iter()
            .for_each(|name| kernels(&folder(name), &mut found));
        assert!(found.len() > 150, "only {} kernels were found", found.len());
        for written in found {
            let kernel: Kernel = serde_json::from_value(written.clone()).unwrap_or_else(|error| {
                panic!("{written}: {error}");
            });
            // Maps list only configurations.
            if let (Some(config), Some(threads)) = (kernel.config, written.get("threads")) {
                assert_eq!(config.threads(), *threads, "{written}");
            }
            assert_eq!(serde_json::from_value::<Kernel>(json!(kernel)).unwrap(), kernel);
        }
    }

    #[test]
    fn what_a_record_of_version_1_says_is_told_apart_by_the_name_of_the_entry() {
        let read = |entry: &str, config: Value| {
            serde_json::from_value::<Kernel>(json!({ "entry": entry, "config": config })).map(|kernel| kernel.config)
        };
        let first = json!({ "block_m": 64, "block_n": 64, "warps": 4, "stages": 2, "min_blocks": 4 });
        let portable = Sm80 { min_blocks: 4, ..Sm80::new(64, 64, 4, 2) };
        assert_eq!(read("fa512_sm80_any_full_64x64", first.clone()).unwrap(), Some(Configuration::Sm80(portable)));
        assert_eq!(read("fa512_sm90a_any_full_64x64", first.clone()).unwrap(), None, "it loaded by cp.async");
        let message = read("mine", first).unwrap_err().to_string();
        assert!(message.contains("it says neither its kind nor its family"), "{message}");

        let last = json!({
            "block_m": 512, "block_n": 64, "warps": 16, "stages": 8, "min_blocks": 1, "passes": 2, "loads": "tma",
            "grid": "persistent", "queries": "shared", "fma_exponentials": 0, "unroll": 0, "rescale_threshold": 14,
            "epilogue": "shared_memory",
        });
        let tma = Sm90Tma { passes: 2, grid: Grid::Persistent, ..Sm90Tma::new(4, 8) };
        assert_eq!(read("fa512_sm90a_tma_s512_full_512x64", last).unwrap(), Some(Configuration::Sm90Tma(tma)));
    }
}
