//! The Rust kernels beside their CUDA C++ twins: registers, spills, and the instructions in PTX and SASS.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use contract::architecture::ARCHITECTURES;
use contract::manifest::{Entry, Module};

use crate::codegen::nvcc::FAMILY;
use crate::instruction_mix::{self, Class, Mix, Sass};
use crate::ptx_folder::PtxFolder;
use crate::sass::Disassembler;

/// One side of the comparison.
struct Side {
    entries: Vec<Entry>,
    ptx: BTreeMap<String, Mix>,
    sass: BTreeMap<String, Sass>,
}

impl Side {
    /// Reads the instructions of `folder`; those of the SASS where there is a disassembler.
    fn read(folder: &PtxFolder, disassembler: Option<&Disassembler>, scratch: &Path) -> Result<Self> {
        let mut side = Self { entries: Vec::new(), ptx: BTreeMap::new(), sass: BTreeMap::new() };
        // The other modules have no twins, nor SASS of every architecture that these have.
        let is_family = |module: &&Module| module.entries.iter().any(|entry| entry.family() == FAMILY);
        for Module { file, entries, .. } in folder.manifest.modules.iter().filter(is_family) {
            let path = folder.path.join(file);
            let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
            side.ptx.extend(instruction_mix::of_ptx(&text));
            if let Some(disassembler) = disassembler {
                side.sass.extend(disassembler.mixes(&path, FAMILY, scratch)?);
            }
            side.entries.extend(entries.iter().cloned());
        }
        Ok(side)
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

/// The comparison as markdown: a table of resources, then one of instructions for each entry that both sides have.
pub fn compare(
    rust: &PtxFolder,
    twins: &PtxFolder,
    disassembler: Option<&Disassembler>,
    scratch: &Path,
) -> Result<String> {
    let sides = [Side::read(rust, disassembler, scratch)?, Side::read(twins, disassembler, scratch)?];
    let names: Vec<&str> = sides[0]
        .entries
        .iter()
        .map(|entry| entry.name.as_str())
        .filter(|name| sides[1].entry(name).is_some())
        .collect();
    let generator = |folder: &PtxFolder| {
        let generator = &folder.manifest.code_generator;
        format!("{} ({})", generator.name, generator.version)
    };
    let mut text = format!("Rust by {}, CUDA C++ by {}", generator(rust), generator(twins));
    if let Some(Disassembler { ptxas, architecture, .. }) = disassembler {
        write!(text, "; SASS by ptxas {} for sm_{architecture}", ptxas.version)?;
    }
    writeln!(text, ".\n\nRegisters of a thread, with spills in bytes:\n\n{}", resources(&names, &sides))?;
    for name in names {
        writeln!(text, "\nInstructions of `{name}`:\n\n{}", instructions(name, &sides))?;
    }
    Ok(text)
}

fn markdown(header: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// Registers on every architecture, both sides beside each other.
fn resources(names: &[&str], sides: &[Side; 2]) -> Table {
    let architectures = ARCHITECTURES.map(|limits| limits.architecture);
    let mut header = vec!["entry".to_owned(), "shared bytes".to_owned()];
    header.extend(
        architectures
            .iter()
            .flat_map(|architecture| ["Rust", "CUDA C++"].map(|side| format!("sm_{architecture} {side}"))),
    );
    let mut table = markdown(header);
    for name in names {
        let entries = sides.each_ref().map(|side| side.entry(name));
        let shared = entries.map(|entry| entry.map_or(0, |entry| entry.dynamic_shared_bytes));
        let shared =
            if shared[0] == shared[1] { shared[0].to_string() } else { format!("{}, {}", shared[0], shared[1]) };
        let mut row = vec![format!("`{name}`"), shared];
        row.extend(architectures.iter().flat_map(|&architecture| {
            entries.map(|entry| entry.map_or_else(String::new, |entry| registers(entry, architecture)))
        }));
        table.add_row(row);
    }
    table
}

fn registers(entry: &Entry, architecture: u32) -> String {
    let reported = entry.resources.iter().find(|resources| resources.architecture == architecture);
    match reported.map(|resources| (resources.registers, resources.spill_stores + resources.spill_loads)) {
        None => "–".to_owned(),
        Some((registers, 0)) => registers.to_string(),
        Some((registers, spills)) => format!("{registers} + {spills} B"),
    }
}

/// The instructions of one entry by class: in PTX, in SASS, and in the main loop of the SASS.
fn instructions(name: &str, sides: &[Side; 2]) -> Table {
    let columns = ["PTX", "SASS", "main loop"];
    let mut header = vec!["class".to_owned()];
    header.extend(columns.iter().flat_map(|column| ["Rust", "CUDA C++"].map(|side| format!("{column} {side}"))));
    let mut table = markdown(header);
    let ptx = sides.each_ref().map(|side| side.ptx.get(name));
    let sass = sides.each_ref().map(|side| side.sass.get(name));
    let (all, main_loop) =
        (sass.map(|sass| sass.map(|sass| &sass.all)), sass.map(|sass| sass.map(|sass| &sass.main_loop)));
    let mixes = [ptx, all, main_loop].concat();
    let cell = |count: Option<usize>| count.map_or("–".to_owned(), |count| count.to_string());
    for class in Class::all() {
        let counts = mixes.iter().map(|mix| mix.map(|mix| mix.get(&class).copied().unwrap_or(0)));
        if counts.clone().flatten().any(|count| count > 0) {
            table.add_row(std::iter::once(class.name().to_owned()).chain(counts.map(cell)));
        }
    }
    let totals = mixes.iter().map(|mix| mix.map(|mix| mix.values().sum()));
    table.add_row(std::iter::once("all".to_owned()).chain(totals.map(cell)));
    table
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use contract::config::Family;
    use contract::manifest::{CodeGenerator, Entry, FORMAT, Manifest, Module, Resources};
    use contract::variants::{VARIANTS, Variant};
    use tempfile::TempDir;

    use super::compare;
    use crate::ptx_folder::PtxFolder;

    /// A variant that has a twin.
    fn variant() -> &'static Variant<'static> {
        VARIANTS.iter().find(|variant| variant.family() == Family::Sm80).expect("the sm_80 family has variants")
    }

    /// A folder with one entry, whose body is `body`, that needs `registers` on sm_90.
    fn folder(path: &Path, name: &str, body: &str, registers: u32) -> PtxFolder {
        let path = path.join(name);
        fs::create_dir_all(&path).unwrap();
        let mut entry = Entry::from(variant());
        fs::write(path.join("a.ptx"), format!(".visible .entry {}()\n{{\n{body}\n}}\n", entry.name)).unwrap();
        entry.resources = vec![Resources {
            architecture: 90,
            registers,
            spill_stores: 4,
            spill_loads: 8,
            stack: 0,
            static_shared: 0,
        }];
        let module = Module {
            file: "a.ptx".into(),
            sha256: String::new(),
            ptx_version: "8.0".into(),
            target: "sm_80".into(),
            entries: vec![entry],
            backward: Vec::new(),
        };
        let code_generator = CodeGenerator { name: name.into(), version: "1".into() };
        let manifest =
            Manifest { format: FORMAT, code_generator, git_commit: None, ptxas: None, modules: vec![module] };
        PtxFolder { path, manifest, rejections: Vec::new(), warnings: 0 }
    }

    #[test]
    fn both_sides_stand_beside_each_other() {
        let scratch = TempDir::new().unwrap();
        let rust = folder(scratch.path(), "rustc", "bar.sync 0;\nbar.sync 0;\nret;", 96);
        let twins = folder(scratch.path(), "nvcc", "bar.sync 0;\nret;", 88);
        let text = compare(&rust, &twins, None, scratch.path()).unwrap();
        let row = |begin: &str| {
            let line =
                text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{begin} in\n{text}"));
            line.split('|').map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
        };
        assert!(text.starts_with("Rust by rustc (1), CUDA C++ by nvcc (1).\n"), "{text}");
        assert_eq!(row("| barriers"), ["barriers", "2", "1", "–", "–", "–", "–"]);
        assert_eq!(row("| all"), ["all", "3", "2", "–", "–", "–", "–"]);
        let resources = row(&format!("| `{}`", variant().entry));
        assert_eq!(resources[resources.len() - 2..], ["96 + 12 B", "88 + 12 B"]);
    }
}
