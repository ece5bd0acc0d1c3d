//! `cargo xtask ptx`: kernel-gpu to PTX.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use comfy_table::{CellAlignment, Table, presets};
use contract::architecture::ARCHITECTURES;
use contract::backward::variants::{BACKWARD_VARIANTS, BackwardVariant};
use contract::config::{Element, WARP_SIZE};
use contract::manifest::{Entry, Resources};
use contract::variants::{VARIANTS, Variant};
use ptx_text::split_by_lane;

use crate::candidates;
use crate::codegen::{self, Choice, CodeGenerator, FAMILY_TARGETS, Selected};
use crate::collectives::Record;
use crate::cover::cover;
use crate::cuda_tool::CudaTool;
use crate::environment::{Environment, Workspace};
use crate::output::print_line;
use crate::ptx_folder::{self, Checks, PtxFolder};
use crate::ptxas::Ptxas;

/// Compiles the kernels to PTX and writes the manifest that the host program reads.
///
/// Every entry gets its launch bounds. The build fails if an entry calls a function, uses local memory, is not in the
/// variant list, or has another number of barriers, shuffles or other collectives than kernel-gpu/collectives.json says. Prints
/// registers and spills if ptxas is installed.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Folder for the PTX files and manifest.json [default: target/ptx, or target/ptx-rust-cuda]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    code_generator: Choice,
    /// Compile the candidates of this plan (fa512 tune plan --out FILE) instead of the variants, each to a separate file,
    /// for the plan's architecture [default for --out: target/ptx-candidates]
    #[arg(long, value_name = "FILE")]
    variants: Option<PathBuf>,
    /// Record the number of barriers, shuffles and other collectives of each entry (kernel-gpu/collectives.json) instead of
    /// refusing entries whose numbers differ from the record
    #[arg(long, conflicts_with = "variants")]
    record_collectives: bool,
    /// Only check what Rust-CUDA needs of loops: that those over registers are unrolled in the source, and that none with a barrier
    /// has a condition on the lane. Compiles with rustc's own unrolling off
    #[arg(long, conflicts_with_all = ["variants", "record_collectives", "codegen", "rust_cuda", "out"])]
    check_loops: bool,
}

impl Arguments {
    /// Builds the folder and prints its entries.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        if self.check_loops {
            return check_loops(environment, workspace, Checked::All);
        }
        if let Some(plan) = &self.variants {
            let out = self.out.unwrap_or_else(|| workspace.candidates_ptx());
            return build_candidates(&self.code_generator, environment, workspace, plan, &out);
        }
        let out = self.out.unwrap_or_else(|| self.code_generator.folder(workspace));
        let ptxas = Ptxas::find(environment, workspace)?;
        let build = if self.record_collectives { build_and_record } else { build_with };
        let folder = build(&self.code_generator, environment, workspace, ptxas.as_ref(), &out)?;
        print_line(entry_table(&folder))?;
        let entries = folder.manifest.modules.iter().flat_map(|module| &module.entries);
        unreported(entries).map_or(Ok(()), print_line)
    }
}

/// [`build_with`], and writes down the collectives of the entries.
pub fn build_and_record(
    choice: &Choice,
    environment: &Environment,
    workspace: &Workspace,
    ptxas: Option<&Ptxas>,
    out: &Path,
) -> Result<PtxFolder> {
    let folder = build_checked(choice, environment, workspace, Checks { ptxas, collectives: None }, out)?;
    Record::update(workspace, &folder.path, &folder.manifest)?;
    Ok(folder)
}

/// Builds the PTX folder at `out` with the default code generator, and with the ptxas of this machine if there is one.
pub fn build(environment: &Environment, workspace: &Workspace, out: &Path) -> Result<PtxFolder> {
    build_by(&Choice::default(), environment, workspace, out)
}

/// [`build`] with a code generator of choice.
pub fn build_by(
    code_generator: &Choice,
    environment: &Environment,
    workspace: &Workspace,
    out: &Path,
) -> Result<PtxFolder> {
    let ptxas = Ptxas::find(environment, workspace)?;
    build_with(code_generator, environment, workspace, ptxas.as_ref(), out)
}

/// [`build_by`] with the given ptxas.
pub fn build_with(
    choice: &Choice,
    environment: &Environment,
    workspace: &Workspace,
    ptxas: Option<&Ptxas>,
    out: &Path,
) -> Result<PtxFolder> {
    let record = Record::read(workspace)?;
    build_checked(choice, environment, workspace, Checks { ptxas, collectives: Some(&record) }, out)
}

fn build_checked(
    choice: &Choice,
    environment: &Environment,
    workspace: &Workspace,
    checks: Checks<'_>,
    out: &Path,
) -> Result<PtxFolder> {
    let code_generator = choice.open(environment, workspace)?;
    let folder = ptx_folder::build(workspace, code_generator.as_ref(), &FAMILY_TARGETS, checks, out)?;
    announce(&folder);
    Ok(folder)
}

/// The entries of which a check is made of the source in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Every entry.
    All,
    /// Those that [`cover`] all of them.
    Cover,
}

impl Checked {
    /// Those of the forward entries.
    pub fn forward<'a>(self, all: impl Iterator<Item = &'a Variant<'a>>) -> Vec<&'a Variant<'a>> {
        match self {
            Self::All => all.collect(),
            Self::Cover => cover(all, |variant| variant.config.columns()),
        }
    }

    /// Those of the backward entries.
    pub fn backward(self, all: impl Iterator<Item = &'static BackwardVariant>) -> Vec<&'static BackwardVariant> {
        match self {
            Self::All => all.collect(),
            Self::Cover => cover(all, |variant| variant.tile.columns()),
        }
    }
}

/// Refuses entries of which LLVM 7, through which Rust-CUDA compiles, would make something else than rustc: those that use local memory if
/// the compiler unrolls no loop of its own, since LLVM 7 unrolls few, and those with a loop that may be split by lane.
///
/// Compiles the entries of one element type: another has other instructions in the same loops.
pub fn check_loops(environment: &Environment, workspace: &Workspace, checked: Checked) -> Result<()> {
    let code_generator = codegen::without_unrolling(environment, workspace)?;
    let forward = checked.forward(VARIANTS.iter().filter(|variant| variant.element == Element::F16));
    let backward = checked.backward(BACKWARD_VARIANTS.iter().filter(|variant| variant.element == Element::F16));
    let selected = Selected::new(code_generator.as_ref(), &forward, &backward, workspace)?
        .context("rustc compiles any entries")?;
    let folder = workspace.device_target().join("without-unrolling");
    let built = ptx_folder::build(workspace, &selected, &FAMILY_TARGETS, Checks::default(), &folder).context(
        "a loop over registers has to be an `unrolled!` (docs/rust-cuda.md); with rustc's own unrolling off",
    )?;
    let mut splits = Vec::new();
    for module in &built.manifest.modules {
        splits.extend(split_by_lane::splits(&fs::read_to_string(folder.join(&module.file))?));
    }
    let advice = "a condition on the lane has to be hidden in such a loop (`hidden::recompute`, docs/rust-cuda.md):";
    ensure!(splits.is_empty(), "{advice}\n  {}", splits.join("\n  "));
    Ok(())
}

/// Compiles `variant` alone into `folder`, without asking ptxas about it; `None` where the code generator can only compile all.
pub fn build_one(
    code_generator: &dyn CodeGenerator,
    workspace: &Workspace,
    variant: &Variant,
    folder: &Path,
) -> Result<Option<PtxFolder>> {
    let variants = [variant];
    let Some(selected) = Selected::new(code_generator, &variants, &[], workspace)? else { return Ok(None) };
    eprintln!("xtask: this run needs 1 of {} entries; `cargo xtask ptx` compiles all", VARIANTS.len());
    let record = Record::read(workspace)?;
    let checks = Checks { ptxas: None, collectives: Some(&record) };
    let targets = FAMILY_TARGETS.iter().filter(|target| target.family == variant.family());
    ptx_folder::build(workspace, &selected, targets, checks, folder).map(Some)
}

/// Builds the candidates of `plan` into `out`, and says who was dropped and why.
fn build_candidates(
    choice: &Choice,
    environment: &Environment,
    workspace: &Workspace,
    plan: &Path,
    out: &Path,
) -> Result<()> {
    let pool = candidates::read(plan)?;
    let ptxas = Ptxas::find(environment, workspace)?;
    if ptxas.is_none() {
        eprintln!(
            "xtask: warning: there is no ptxas to find candidates that spill; `cargo xtask toolchain --all` gets one"
        );
    }
    let code_generator = choice.open(environment, workspace)?;
    let built = candidates::build(workspace, code_generator.as_ref(), ptxas.as_ref(), &pool, out)?;
    print_line(built.summary())
}

/// Says what was built, and what ptxas refuses of it.
pub fn announce(folder: &PtxFolder) {
    for rejection in &folder.rejections {
        eprintln!(
            "xtask: warning: ptxas refuses {} for sm_{}: {}",
            rejection.file, rejection.architecture, rejection.messages
        );
    }
    let entries: usize = folder.manifest.modules.iter().map(|module| module.entries.len()).sum();
    eprintln!("xtask: {entries} entries in {}", folder.path.display());
}

/// One row for each entry: its warps and shared bytes and, for each architecture, registers, spills and stack.
pub fn entry_table(folder: &PtxFolder) -> Table {
    table(folder.manifest.modules.iter().flat_map(|module| &module.entries).map(row))
}

/// The table of these rows, in 80 columns where nothing spills.
fn table(rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    let architectures = ARCHITECTURES.map(|limits| limits.architecture.to_string());
    let names = ["entry (registers on sm_NN)", "warps", "shared"].map(str::to_owned);
    table.load_style(presets::NOTHING).set_header(names.into_iter().chain(architectures)).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// Why the table of `entries` has no registers, if it has none.
fn unreported<'a>(mut entries: impl Iterator<Item = &'a Entry>) -> Option<&'static str> {
    let note = "-: no registers and spills, since there is no ptxas; `cargo xtask toolchain --all` gets one";
    entries.all(|entry| entry.resources.is_empty()).then_some(note)
}

fn row(entry: &Entry) -> Vec<String> {
    let resources = ARCHITECTURES.map(|limits| resources_cell(&entry.resources, limits.architecture));
    let launch = [entry.name.clone(), (entry.threads / WARP_SIZE).to_string(), entry.dynamic_shared_bytes.to_string()];
    launch.into_iter().chain(resources).collect()
}

fn resources_cell(reported: &[Resources], architecture: u32) -> String {
    let reported = reported.iter().find(|resources| resources.architecture == architecture);
    let Some(resources) = reported else { return "-".into() };
    let mut text = resources.registers.to_string();
    let spills = resources.spill_stores + resources.spill_loads;
    for (bytes, what) in [(spills, "spills"), (resources.stack, "stack"), (resources.static_shared, "static shared")] {
        if bytes > 0 {
            text.push_str(&format!(", {bytes} B {what}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_what_is_shipped_has_80_columns() {
        let rows = VARIANTS.iter().map(|variant| {
            let numbers = ["13", "228352", "255", "255", "255", "255"].map(str::to_owned);
            [variant.entry.to_owned()].into_iter().chain(numbers).collect()
        });
        let text = table(rows).trim_fmt();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn spills_stand_behind_the_registers() {
        let resources = [Resources {
            architecture: 90,
            registers: 168,
            spill_stores: 4,
            spill_loads: 8,
            stack: 16,
            static_shared: 0,
        }];
        assert_eq!(resources_cell(&resources, 90), "168, 12 B spills, 16 B stack");
        assert_eq!(resources_cell(&[], 90), "-");
        let mut entry = Entry::from(&VARIANTS[0]);
        assert!(unreported([&entry].into_iter()).is_some_and(|note| note.contains("there is no ptxas")));
        entry.resources.extend(resources);
        assert_eq!(unreported([&entry, &Entry::from(&VARIANTS[1])].into_iter()), None);
    }
}
