//! What the kernels cost by both code generators: a record, and the tables of docs/results/rust-cuda.md that are made of it.
//!
//! The record names the PTX that it is of by hash. Times are those of `fa512 entries`; the page says so if they are of other PTX. A test
//! compares the page with the records, and the record with the PTX of the checkout.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use contract::config::Family;
use contract::variants::{VARIANTS, Variant};
use ptx_text::lines::without_locations;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::environment::Workspace;
use crate::files::{sha256, write_atomically};
use crate::ptx_folder::PtxFolder;
use crate::sass::Disassembler;

/// Folder of the records.
const FOLDER: &str = "docs/results/rust-cuda";
/// The record, in [`FOLDER`]: a [`Header`], then a [`Line`] per entry. The other files there are those of `fa512 entries`.
const FILE: &str = "costs.jsonl";
/// The page with the tables.
const PAGE: &str = "docs/results/rust-cuda.md";
/// What stands before and behind the tables in the page.
const MARKS: [&str; 2] = ["<!-- cargo xtask codegens: -->\n", "<!-- : cargo xtask codegens -->"];
/// Stands in the page while the kernels are others than those of the record.
const STALE: &str = "**The kernels have changed since these tables were made.**\n";
/// Behind the name of a file of PTX in the page, if its entries were timed before it changed.
const OLD_TIMES: &str = "was timed before it changed.**\n";
/// So many entries are listed of those that are slowest and fastest by Rust-CUDA.
const LISTED: usize = 8;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// The compiler of one side, and its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Side {
    version: String,
    files: BTreeMap<String, Hashes>,
}

impl Side {
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

/// What was compared, rustc first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    ptxas: String,
    architecture: u32,
    sides: [Side; 2],
}

/// An entry by both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    entry: String,
    costs: [Cost; 2],
}

/// What both made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    header: Header,
    lines: Vec<Line>,
}

/// The names of the code generators, in the order of [`Header::sides`].
const NAMES: [&str; 2] = ["rustc", "Rust-CUDA"];

/// The first line of a record of `fa512 entries`, as far as it is needed here.
#[derive(Deserialize)]
struct Timed {
    gpu: String,
    driver: String,
    sides: [TimedSide; 2],
}

#[derive(Deserialize)]
struct TimedSide {
    files: BTreeMap<String, String>,
}

/// A further line of it.
#[derive(Clone, Debug, Deserialize)]
struct Pair {
    entry: String,
    problem: String,
    us: [f64; 2],
    ratio: f64,
    interval: [f64; 2],
}

/// The pairs of all records of times.
#[derive(Default)]
struct Times {
    gpu: String,
    pairs: Vec<Pair>,
    /// Files of the record that have changed since their entries were timed.
    old: BTreeSet<String>,
}

impl Record {
    /// What `folders`, by rustc and by Rust-CUDA, cost.
    pub fn measure(folders: [&PtxFolder; 2], disassembler: &Disassembler, scratch: &Path) -> Result<Self> {
        let [mut rustc, mut rust_cuda] = [BTreeMap::new(), BTreeMap::new()];
        let sides = [
            measure_side(folders[0], disassembler, scratch, &mut rustc)?,
            measure_side(folders[1], disassembler, scratch, &mut rust_cuda)?,
        ];
        let Disassembler { ptxas, architecture, .. } = disassembler;
        let header = Header { ptxas: ptxas.version.clone(), architecture: *architecture, sides };
        let both = VARIANTS.iter().filter_map(|Variant { entry, .. }| {
            let costs = [*rustc.get(*entry)?, *rust_cuda.get(*entry)?];
            Some(Line { entry: (*entry).to_owned(), costs })
        });
        Ok(Self { lines: both.collect(), header })
    }

    fn read(workspace: &Workspace) -> Result<Self> {
        let path = workspace.root().join(FOLDER).join(FILE);
        let text = read(&path)?;
        let mut lines = text.lines();
        let context = || format!("{} is not understood", path.display());
        let header = serde_json::from_str(lines.next().unwrap_or_default()).with_context(context)?;
        let lines = lines.map(serde_json::from_str).collect::<serde_json::Result<_>>().with_context(context)?;
        Ok(Self { header, lines })
    }

    /// Writes the record and the tables of the page, and returns the tables.
    pub fn write(&self, workspace: &Workspace) -> Result<String> {
        let mut text = serde_json::to_string(&self.header)? + "\n";
        for line in &self.lines {
            text += &(serde_json::to_string(line)? + "\n");
        }
        write_atomically(&workspace.root().join(FOLDER).join(FILE), text.as_bytes())?;
        let tables = self.tables(&self.times(workspace)?)?;
        put(workspace, &tables)?;
        Ok(tables)
    }

    /// The tables as they stand in the page.
    fn tables(&self, times: &Times) -> Result<String> {
        let Header { ptxas, architecture, sides: [rustc, rust_cuda] } = &self.header;
        let mut text = format!(
            "{}; {}. Registers per thread and SASS instructions by ptxas {ptxas} for sm_{architecture}. {} Times on {}.\n\n",
            rustc.version,
            rust_cuda.version,
            self.spills(),
            if times.pairs.is_empty() { "no GPU" } else { &times.gpu },
        );
        for file in &times.old {
            writeln!(text, "**{file} {OLD_TIMES}")?;
        }
        writeln!(
            text,
            "| kernels | entries | registers | SASS | main loop | entries timed | time | lowest | highest |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|--:|"
        )?;
        for (family, name) in [(Family::Sm80, "sm_80"), (Family::Sm90a, "sm_90a")] {
            for columns in [32, 64, 96, 128, 192, 256] {
                let is_of = |variant: &Variant<'_>| variant.family() == family && variant.config.columns() == columns;
                self.write_row(&mut text, &format!("{name}, D = {columns}"), times, is_of)?;
            }
        }
        self.write_row(&mut text, "all", times, |_| true)?;
        if !times.pairs.is_empty() {
            self.write_pairs(&mut text, &times.pairs)?;
        }
        Ok(text)
    }

    /// The geometric means of Rust-CUDA over rustc, of the entries that `is_of` picks.
    fn write_row(
        &self,
        text: &mut String,
        name: &str,
        times: &Times,
        is_of: impl Fn(&Variant<'_>) -> bool,
    ) -> Result<()> {
        let names: Vec<&str> = VARIANTS.iter().filter(|variant| is_of(variant)).map(|variant| variant.entry).collect();
        let lines: Vec<&Line> = self.lines.iter().filter(|line| names.contains(&line.entry.as_str())).collect();
        let cost = |of: fn(&Cost) -> f64| {
            mean(lines.iter().map(|Line { costs: [rustc, rust_cuda], .. }| of(rust_cuda) / of(rustc)))
        };
        let ratios: Vec<f64> =
            times.pairs.iter().filter(|pair| names.contains(&pair.entry.as_str())).map(|pair| pair.ratio).collect();
        let [registers, sass, main_loop] =
            [cost(|cost| f64::from(cost.registers)), cost(|cost| cost.sass as f64), cost(|cost| cost.main_loop as f64)]
                .map(shown);
        let (lowest, highest) = (ratios.iter().copied().reduce(f64::min), ratios.iter().copied().reduce(f64::max));
        let [time, lowest, highest] = [mean(ratios.iter().copied()), lowest, highest].map(shown);
        writeln!(
            text,
            "| {name} | {} | {registers} | {sass} | {main_loop} | {} | {time} | {lowest} | {highest} |",
            lines.len(),
            ratios.len()
        )?;
        Ok(())
    }

    /// The kernels for S = 512, and those that differ most.
    fn write_pairs(&self, text: &mut String, pairs: &[Pair]) -> Result<()> {
        let mut sorted: Vec<&Pair> = pairs.iter().collect();
        sorted.sort_by(|one, other| other.ratio.total_cmp(&one.ratio));
        let (flagship, others): (Vec<&Pair>, Vec<&Pair>) =
            sorted.into_iter().partition(|pair| pair.entry.contains("_s512_"));
        let slowest = others.iter().take(LISTED);
        let fastest = others.iter().skip(LISTED.max(others.len().saturating_sub(LISTED)));
        let table =
            [("S = 512", flagship), ("slowest", slowest.copied().collect()), ("fastest", fastest.copied().collect())];
        for (name, pairs) in table {
            writeln!(text, "\n| {name} | on | rustc, µs | Rust-CUDA, µs | Rust-CUDA / rustc |\n|---|---|--:|--:|--:|")?;
            for Pair { entry, problem, us: [rustc, rust_cuda], ratio, interval: [low, high] } in pairs {
                writeln!(
                    text,
                    "| `{entry}` | {problem} | {rustc:.2} | {rust_cuda:.2} | {ratio:.3} ({low:.3} to {high:.3}) |"
                )?;
            }
        }
        Ok(())
    }

    /// Which entries spill.
    fn spills(&self) -> String {
        let of_line = |Line { entry, costs }: &Line| {
            let spilling = costs.iter().zip(NAMES).filter(|(cost, _)| cost.spills > 0);
            spilling.map(|(cost, name)| format!("`{entry}` by {name} ({} bytes)", cost.spills)).collect::<Vec<_>>()
        };
        match self.lines.iter().flat_map(of_line).collect::<Vec<_>>() {
            none if none.is_empty() => "No entry spills.".into(),
            spilling => format!("These spill: {}.", spilling.join(", ")),
        }
    }

    /// What the records of `fa512 entries` say.
    fn times(&self, workspace: &Workspace) -> Result<Times> {
        let folder = workspace.root().join(FOLDER);
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("could not read {}", folder.display()))? {
            files.push(entry?.path());
        }
        files.sort();
        let mut times = Times::default();
        for path in files.iter().filter(|path| path.file_name().is_some_and(|name| name != FILE)) {
            self.add_times(&mut times, &read(path)?).with_context(|| format!("{} cannot be used", path.display()))?;
        }
        Ok(times)
    }

    /// Adds those of one record.
    fn add_times(&self, times: &mut Times, text: &str) -> Result<()> {
        let mut lines = text.lines();
        let timed: Timed = serde_json::from_str(lines.next().unwrap_or_default())?;
        times.gpu = format!("an {}, CUDA {}", timed.gpu, timed.driver);
        for line in lines {
            let pair: Pair = serde_json::from_str(line)?;
            let family = VARIANTS.iter().find(|variant| variant.entry == pair.entry).map(Variant::family);
            let file = if family == Some(Family::Sm80) { "sm_80.ptx" } else { "sm_90a.ptx" };
            let is_other = |(side, timed): (&Side, &TimedSide)| {
                side.files.get(file).map(|hashes| &hashes.text) != timed.files.get(file)
            };
            if self.header.sides.iter().zip(&timed.sides).any(is_other) {
                times.old.insert(file.into());
            }
            times.pairs.push(pair);
        }
        Ok(())
    }
}

fn measure_side(
    folder: &PtxFolder,
    disassembler: &Disassembler,
    scratch: &Path,
    costs: &mut BTreeMap<String, Cost>,
) -> Result<Side> {
    let mut side = Side { version: folder.manifest.code_generator.version.clone(), files: BTreeMap::new() };
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
            costs.insert(entry.name.clone(), cost);
        }
    }
    Ok(side)
}

/// The geometric mean; `None` of nothing.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value.ln()));
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

fn shown(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.3}"))
}

/// Says in the page whether the PTX in `folder`, by rustc, is still that of the record.
pub fn mark_age(workspace: &Workspace, folder: &Path) -> Result<()> {
    let record = Record::read(workspace)?;
    let stale = if record.header.sides[0].is_stale(folder)? { format!("{STALE}\n") } else { String::new() };
    put(workspace, &(stale + &record.tables(&record.times(workspace)?)?))
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

    use super::{Cost, Hashes, Header, Line, OLD_TIMES, PAGE, Record, STALE, Side, Times, VARIANTS, read};
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
        let tables = record.tables(&record.times(&workspace).unwrap()).unwrap();
        assert!(page.contains(&tables), "{PAGE} has other tables: `cargo xtask codegens` writes them");
        let folder = std::env::var_os(PTX_VARIABLE).map_or_else(|| workspace.ptx(), PathBuf::from);
        let is_stale = |side: &Side| side.is_stale(&folder).expect("`cargo xtask ptx` builds the PTX");
        assert_eq!(
            page.contains(STALE),
            record.header.sides.iter().any(is_stale),
            "{PAGE} has to say whether it is of these kernels: `cargo xtask codegens`, or `cargo xtask bless` without Rust-CUDA"
        );
    }

    /// A record of the first entry, in which both sides have one file with this text.
    fn record() -> Record {
        let side =
            |text: &str| Side { version: text.into(), files: [("sm_90a.ptx".to_owned(), Hashes::of(text))].into() };
        let cost = Cost { registers: 100, spills: 0, sass: 200, main_loop: 100 };
        let theirs = Cost { registers: 50, spills: 8, ..cost };
        Record {
            header: Header { ptxas: "13.0".into(), architecture: 90, sides: [side("ours"), side("theirs")] },
            lines: vec![Line { entry: VARIANTS[0].entry.into(), costs: [cost, theirs] }],
        }
    }

    #[test]
    fn tables_say_how_entries_differ_and_whether_their_times_are_of_this_ptx() {
        let side = |text: &str| json!({ "files": { "sm_90a.ptx": Hashes::of(text).text } });
        let times = |theirs: &str| {
            let header = json!({ "gpu": "H200", "driver": "13.0", "sides": [side("ours"), side(theirs)] });
            let pair = json!({
                "entry": VARIANTS[0].entry, "problem": "8x16x512x64", "us": [4.0, 2.0], "ratio": 0.5, "interval": [0.4, 0.6],
            });
            let mut times = Times::default();
            record().add_times(&mut times, &format!("{header}\n{pair}\n")).unwrap();
            times
        };
        let tables = record().tables(&times("theirs")).unwrap();
        for part in
            ["| all | 1 | 0.500 | 1.000 | 1.000 | 1 | 0.500 |", "by Rust-CUDA (8 bytes)", "0.500 (0.400 to 0.600)"]
        {
            assert!(tables.contains(part), "no {part} in {tables}");
        }
        assert!(!tables.contains(OLD_TIMES), "{tables}");
        assert!(record().tables(&times("older")).unwrap().contains(OLD_TIMES));
        assert!(record().tables(&Times::default()).unwrap().contains("| all | 1 | 0.500 | 1.000 | 1.000 | 0 | - |"));
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
            ..record().header.sides[0].clone()
        };
        write("\t.loc\t1 9 3\nret;\n", "ours");
        assert!(!side.is_stale(folder.path()).unwrap());
        write("\t.loc\t1 2 3\nexit;\n", "ours");
        assert!(side.is_stale(folder.path()).unwrap());
        write("exit;\n", "another compiler");
        assert!(!side.is_stale(folder.path()).unwrap());
    }
}
