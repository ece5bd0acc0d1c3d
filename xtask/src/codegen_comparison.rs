//! What the kernels cost by both code generators: a record, and the tables of docs/results/rust-cuda.md that are made of it.
//!
//! The record names the PTX that it is of by hash, and times are taken only from records of `fa512 bench` on that PTX, or on
//! that of the record before it: the page says which. A test compares the page with the record, and the record with the PTX of
//! the checkout.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use contract::variants::VARIANTS;
use ptx_text::lines::without_locations;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::environment::Workspace;
use crate::files::{sha256, write_atomically};
use crate::ptx_folder::PtxFolder;
use crate::sass::Disassembler;

/// Folder of the records.
const FOLDER: &str = "docs/results/rust-cuda";
/// The record, in [`FOLDER`].
const FILE: &str = "entries.json";
/// The page with the tables.
const PAGE: &str = "docs/results/rust-cuda.md";
/// What stands before and behind the tables in the page.
const MARKS: [&str; 2] = ["<!-- cargo xtask codegens: -->\n", "<!-- : cargo xtask codegens -->"];
/// Stands in the page while the kernels are others than those of the record.
const STALE: &str = "**The kernels have changed since these tables were made.**\n";

/// Stands before the times while they are of kernels that have changed.
const OLD_TIMES: &str = "**The times are from earlier kernels. The present ones have not been timed.**\n";

/// A PTX file, by its text and by its instructions: line directives change with every line of a comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Hashes {
    text: String,
    instructions: String,
}

impl Hashes {
    fn of(text: &str) -> Self {
        Self { text: sha256(text.as_bytes()), instructions: sha256(without_locations(text).as_bytes()) }
    }
}

/// What an entry costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Cost {
    /// Of a thread.
    registers: u32,
    /// Bytes stored and loaded.
    spills: u32,
    /// Instructions in SASS.
    sass: usize,
    /// Those of the main loop.
    main_loop: usize,
}

/// What one code generator made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Side {
    version: String,
    files: Files,
    entries: BTreeMap<String, Cost>,
}

impl Side {
    fn measure(folder: &PtxFolder, disassembler: &Disassembler, scratch: &Path) -> Result<Self> {
        let version = folder.manifest.code_generator.version.clone();
        let mut side = Self { version, files: BTreeMap::new(), entries: BTreeMap::new() };
        for module in &folder.manifest.modules {
            let path = folder.path.join(&module.file);
            side.files.insert(module.file.clone(), Hashes::of(&read(&path)?));
            let family = module.entries.first().context("a module without entries")?.family();
            let mut sass = disassembler.mixes(&path, family, scratch)?;
            for entry in &module.entries {
                let mut resources = entry.resources.iter();
                let resources = resources.find(|resources| resources.architecture == disassembler.architecture);
                let resources = resources.with_context(|| format!("ptxas said nothing of {}", entry.name))?;
                let sass = sass.remove(&entry.name).with_context(|| format!("{} has no SASS", entry.name))?;
                let cost = Cost {
                    registers: resources.registers,
                    spills: resources.spill_stores + resources.spill_loads,
                    sass: sass.all.values().sum(),
                    main_loop: sass.main_loop.values().sum(),
                };
                side.entries.insert(entry.name.clone(), cost);
            }
        }
        Ok(side)
    }

    /// Whether the PTX in `folder` has other instructions. One by another compiler does not say.
    fn is_stale(&self, folder: &Path) -> Result<bool> {
        let manifest: Value = serde_json::from_str(&read(&folder.join(contract::manifest::FILE_NAME))?)?;
        if manifest["code_generator"]["version"] != *self.version {
            return Ok(false);
        }
        for (file, hashes) in &self.files {
            if Hashes::of(&read(&folder.join(file))?).instructions != hashes.instructions {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What both made, rustc first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    ptxas: String,
    architecture: u32,
    sides: [Side; 2],
    /// The PTX that was timed, where it is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timed: Option<[Files; 2]>,
}

/// PTX files by their names.
type Files = BTreeMap<String, Hashes>;

/// The comparisons in a record of `fa512 bench`.
struct Times {
    /// Rows of the table.
    rows: Vec<String>,
    /// Whether they are of [`Record::timed`].
    are_old: bool,
}

/// The names of the code generators, in the order of [`Record::sides`].
const NAMES: [&str; 2] = ["rustc", "Rust-CUDA"];

impl Record {
    /// What `folders`, by rustc and by Rust-CUDA, cost.
    pub fn measure(folders: [&PtxFolder; 2], disassembler: &Disassembler, scratch: &Path) -> Result<Self> {
        let [rustc, rust_cuda] = folders.map(|folder| Side::measure(folder, disassembler, scratch));
        let Disassembler { ptxas, architecture, .. } = disassembler;
        Ok(Self { ptxas: ptxas.version.clone(), architecture: *architecture, sides: [rustc?, rust_cuda?], timed: None })
    }

    fn read(workspace: &Workspace) -> Result<Self> {
        let path = workspace.root().join(FOLDER).join(FILE);
        serde_json::from_str(&read(&path)?).with_context(|| format!("{} is not understood", path.display()))
    }

    /// Writes the record and the tables of the page, and returns the tables. Times that are of the record before stay.
    pub fn write(mut self, workspace: &Workspace) -> Result<String> {
        let before = Self::read(workspace)?;
        self.timed = Some(before.timed.unwrap_or_else(|| before.sides.map(|side| side.files)));
        if !self.times(workspace)?.iter().any(|times| times.are_old) {
            self.timed = None;
        }
        let mut text = serde_json::to_string_pretty(&self)?;
        text.push('\n');
        write_atomically(&workspace.root().join(FOLDER).join(FILE), text.as_bytes())?;
        let tables = self.tables(workspace)?;
        put(workspace, &tables)?;
        Ok(tables)
    }

    /// The tables as they stand in the page.
    fn tables(&self, workspace: &Workspace) -> Result<String> {
        let [rustc, rust_cuda] = &self.sides;
        let mut text = format!(
            "{}; {}. Registers per thread, and SASS instructions of the whole entry and of its main loop, by ptxas {} for \
             sm_{}. {}\n\n",
            rustc.version,
            rust_cuda.version,
            self.ptxas,
            self.architecture,
            self.spills()
        );
        let mut header = "| entry |".to_owned();
        for what in ["registers", "SASS", "main loop"] {
            NAMES.iter().for_each(|name| header += &format!(" {what}, {name} |"));
        }
        writeln!(text, "{header}\n|---|--:|--:|--:|--:|--:|--:|")?;
        let mut missing = 0;
        for name in VARIANTS.iter().map(|variant| variant.entry) {
            let costs = self.sides.each_ref().map(|side| side.entries.get(name));
            let [Some(a), Some(b)] = costs else {
                missing += 1;
                continue;
            };
            writeln!(
                text,
                "| `{name}` | {} | {} | {} | {} | {} | {} |",
                a.registers, b.registers, a.sass, b.sass, a.main_loop, b.main_loop
            )?;
        }
        if missing > 0 {
            writeln!(text, "\n{missing} of {} entries are newer than this record.", VARIANTS.len())?;
        }
        let times = self.times(workspace)?;
        if times.is_empty() {
            return Ok(text + "\nNo times of this PTX are on record.\n");
        }
        if times.iter().any(|times| times.are_old) {
            write!(text, "\n{OLD_TIMES}")?;
        }
        writeln!(text, "\n| entry | B,H,S | rustc, µs | Rust-CUDA, µs | Rust-CUDA / rustc |\n|---|---|--:|--:|--:|")?;
        Ok(times.into_iter().flat_map(|times| times.rows).fold(text, |text, row| text + &row))
    }

    /// Which entries spill.
    fn spills(&self) -> String {
        let of_side = |(side, name): (&Side, &str)| {
            let spilling = side.entries.iter().filter(|(_, cost)| cost.spills > 0);
            spilling.map(|(entry, cost)| format!("`{entry}` by {name} ({} bytes)", cost.spills)).collect::<Vec<_>>()
        };
        match self.sides.iter().zip(NAMES).flat_map(of_side).collect::<Vec<_>>() {
            none if none.is_empty() => "No entry spills.".into(),
            spilling => format!("These spill: {}.", spilling.join(", ")),
        }
    }

    /// What the records of `fa512 bench` say.
    fn times(&self, workspace: &Workspace) -> Result<Vec<Times>> {
        let folder = workspace.root().join(FOLDER);
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("could not read {}", folder.display()))? {
            files.push(entry?.path());
        }
        files.sort();
        let mut times = Vec::new();
        for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
            if path.file_name().is_some_and(|name| name != FILE) {
                let bench: Value = serde_json::from_str(&read(path)?)?;
                times.push(self.times_of(&bench).with_context(|| format!("{} cannot be used", path.display()))?);
            }
        }
        Ok(times)
    }

    /// Whether the file with this text by the code generator `side` is of the kernels that were timed before those of the
    /// record.
    fn is_old(&self, side: usize, hash: &str) -> Result<bool> {
        let has_text = |files: &Files| files.values().any(|file| file.text == hash);
        if has_text(&self.sides[side].files) {
            return Ok(false);
        }
        ensure!(self.timed.as_ref().is_some_and(|timed| has_text(&timed[side])), "its PTX is not on record");
        Ok(true)
    }

    /// The comparisons of one record.
    fn times_of(&self, bench: &Value) -> Result<Times> {
        let list = |key: &str| bench[key].as_array().with_context(|| format!("it has no {key}"));
        let rows = list("rows")?;
        let mut times = Times { rows: Vec::new(), are_old: false };
        for pair in list("pairs")? {
            let same = |row: &&Value| ["batch", "heads", "sequence", "mask"].iter().all(|key| row[key] == pair[key]);
            let row = |contender: &Value| rows.iter().filter(same).find(|row| row["contender"] == *contender);
            let (Some(theirs), Some(ours)) = (row(&pair["first"]), row(&pair["second"])) else {
                bail!("a pair has no rows");
            };
            for (side, row) in [ours, theirs].into_iter().enumerate() {
                let hash = row["implementation"]["sha256"].as_str().unwrap_or_default();
                times.are_old |= self.is_old(side, hash).with_context(|| row["contender"].to_string())?;
            }
            let median = |row: &Value| row["outcome"]["summary_us"]["median"].as_f64().context("not measured");
            let number = |value: &Value| value.as_f64().context("a pair has no ratio");
            let interval = &pair["ratio_interval"];
            times.rows.push(format!(
                "| `{}` | {},{},{} | {:.2} | {:.2} | {:.3} ({:.3} to {:.3}) |\n",
                ours["implementation"]["entry"].as_str().context("a row has no entry")?,
                pair["batch"],
                pair["heads"],
                pair["sequence"],
                median(ours)?,
                median(theirs)?,
                number(&pair["ratio"])?,
                number(&interval["low"])?,
                number(&interval["high"])?,
            ));
        }
        Ok(times)
    }
}

/// Says in the page whether the PTX in `folder`, by rustc, is still that of the record.
pub fn mark_age(workspace: &Workspace, folder: &Path) -> Result<()> {
    let record = Record::read(workspace)?;
    let stale = if record.sides[0].is_stale(folder)? { format!("{STALE}\n") } else { String::new() };
    put(workspace, &(stale + &record.tables(workspace)?))
}

/// Puts `tables` into the page.
fn put(workspace: &Workspace, tables: &str) -> Result<()> {
    let path = workspace.root().join(PAGE);
    let page = read(&path)?;
    let (before, rest) = page.split_once(MARKS[0]).with_context(|| format!("{PAGE} has no {}", MARKS[0].trim()))?;
    let (_, behind) = rest.split_once(MARKS[1]).with_context(|| format!("{PAGE} has no {}", MARKS[1]))?;
    write_atomically(&path, format!("{before}{}\n{tables}\n{}{behind}", MARKS[0], MARKS[1]).as_bytes())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::json;

    use super::{Cost, Hashes, PAGE, Record, STALE, Side, read};
    use crate::commands::run::PTX_VARIABLE;
    use crate::environment::Workspace;

    fn workspace() -> Workspace {
        Workspace::new(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned())
    }

    #[test]
    fn the_page_is_of_the_record_and_the_record_of_these_kernels() {
        let workspace = workspace();
        let record = Record::read(&workspace).unwrap();
        let page = read(&workspace.root().join(PAGE)).unwrap();
        let tables = record.tables(&workspace).unwrap();
        assert!(page.contains(&tables), "{PAGE} has other tables: `cargo xtask codegens` writes them");
        let folder = std::env::var_os(PTX_VARIABLE).map_or_else(|| workspace.ptx(), PathBuf::from);
        let stale = record.sides.iter().any(|side| side.is_stale(&folder).expect("`cargo xtask ptx` builds the PTX"));
        assert_eq!(
            page.contains(STALE),
            stale,
            "{PAGE} has to say whether it is of these kernels: `cargo xtask codegens`, or `cargo xtask bless` without Rust-CUDA"
        );
    }

    /// A record in which both sides have one file with this text.
    fn record() -> Record {
        let side = |text: &str| Side {
            version: text.into(),
            files: [("sm_80.ptx".to_owned(), Hashes::of(text))].into(),
            entries: [("one".to_owned(), Cost { registers: 1, spills: 0, sass: 2, main_loop: 1 })].into(),
        };
        Record { ptxas: "13.0".into(), architecture: 90, sides: [side("ours"), side("theirs")], timed: None }
    }

    #[test]
    fn times_of_other_ptx_are_refused() {
        let row = |contender: &str, text: &str, median: f64| {
            json!({
                "batch": 4, "heads": 8, "sequence": 512, "mask": "full", "contender": contender,
                "implementation": { "entry": "one", "sha256": Hashes::of(text).text },
                "outcome": { "summary_us": { "median": median } },
            })
        };
        let bench = |text: &str| {
            json!({
                "rows": [row("a", text, 2.0), row("b", "ours", 4.0)],
                "pairs": [{
                    "batch": 4, "heads": 8, "sequence": 512, "mask": "full", "first": "a", "second": "b",
                    "ratio": 0.5, "ratio_interval": { "low": 0.4, "high": 0.6 },
                }],
            })
        };
        let times = record().times_of(&bench("theirs")).unwrap();
        assert_eq!(times.rows, ["| `one` | 4,8,512 | 4.00 | 2.00 | 0.500 (0.400 to 0.600) |\n"]);
        assert!(!times.are_old);
        let refusal = record().times_of(&bench("older")).err().expect("nobody knows that PTX");
        assert!(format!("{refusal:#}").contains("not on record"), "{refusal:#}");
        let older = || [("sm_80.ptx".to_owned(), Hashes::of("older"))].into();
        let times = Record { timed: Some([older(), older()]), ..record() }.times_of(&bench("older")).unwrap();
        assert!(times.are_old, "the page has to say so");
    }

    #[test]
    fn lines_of_the_source_do_not_make_a_record_stale() {
        let folder = tempfile::TempDir::new().unwrap();
        let write = |text: &str, version: &str| {
            std::fs::write(folder.path().join("sm_80.ptx"), text).unwrap();
            let manifest = json!({ "code_generator": { "version": version } });
            std::fs::write(folder.path().join(contract::manifest::FILE_NAME), manifest.to_string()).unwrap();
        };
        let side = Side {
            files: [("sm_80.ptx".to_owned(), Hashes::of("\t.loc\t1 2 3\nret;\n"))].into(),
            ..record().sides[0].clone()
        };
        write("\t.loc\t1 9 3\nret;\n", "ours");
        assert!(!side.is_stale(folder.path()).unwrap());
        write("\t.loc\t1 2 3\nexit;\n", "ours");
        assert!(side.is_stale(folder.path()).unwrap());
        write("exit;\n", "another compiler");
        assert!(!side.is_stale(folder.path()).unwrap());
    }
}
