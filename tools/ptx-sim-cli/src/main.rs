//! The ptx-sim program: runs one kernel of a PTX file on the CPU and shows what is wrong with it.

mod description;
mod element;
mod parameter;
mod report;
mod schedules;

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ptx_diagnostics::{Renderer, Sources};
use ptx_sim::{GlobalMemory, Launch, Module, Options};

use description::{Description, extent};
use parameter::{Buffer, Parameter};
use schedules::Found;

/// The architecture to stand for unless told otherwise.
const DEFAULT_ARCHITECTURE: u32 = 90;

/// Run one kernel of a PTX file on the CPU and show what is wrong with it.
#[derive(Parser)]
#[command(
    version,
    after_help = "\
Parameters: u32:1024 | f32:0.5 | bytes:00ff | f16[512] | f32[512]=zeros | =range | =random(SEED) | =file(PATH) |
            struct{f16[512]=zeros; u32:4}. A buffer without contents is uninitialised: reading it is a finding.
Launch description (TOML): entry, grid, block, shared, arch, params = [\"f32[64]=range\", …].

Exit codes: 0 nothing found, 1 something found, 2 could not run."
)]
struct Arguments {
    /// The PTX file
    file: PathBuf,
    /// List the entries and their parameters, and run nothing
    #[arg(long, conflicts_with_all = ["launch", "entry", "param"])]
    list: bool,
    /// Read a launch description; options given here win
    #[arg(long, value_name = "FILE")]
    launch: Option<PathBuf>,
    /// The entry [default: the only one there is]
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Blocks [default: 1]
    #[arg(long, value_name = "X[,Y,Z]", value_parser = parse_extent)]
    grid: Option<[u32; 3]>,
    /// Threads of a block
    #[arg(long, value_name = "X[,Y,Z]", value_parser = parse_extent)]
    block: Option<[u32; 3]>,
    /// Dynamic shared memory of a block [default: 0]
    #[arg(long, value_name = "BYTES")]
    shared: Option<u32>,
    /// Architecture to stand for, as in 80 for sm_80 [default: 90]
    #[arg(long, value_name = "NN")]
    arch: Option<u32>,
    /// A parameter, once for each in order (see below); replaces those of the description
    #[arg(long, value_name = "PARAMETER", allow_hyphen_values = true)]
    param: Vec<String>,
    /// Instructions a warp may execute before its loop is taken to be endless
    #[arg(long, value_name = "N", default_value_t = Options::default().instructions_per_warp)]
    instruction_limit: u64,
    /// Run under this many orders in which warps and blocks take turns: order 0 is that of their indices, the others are
    /// seeded shuffles. Buffers and counters shown are those of order 0
    #[arg(long, value_name = "N", default_value = "1")]
    schedules: NonZeroU64,

    /// Print the start of a buffer after the run; it is called like its parameter (field 2 of a struct: NAME.2)
    #[arg(long, value_name = "BUFFER", help_heading = "Output")]
    print: Vec<String>,
    /// Write a buffer to a file after the run
    #[arg(long, value_name = "BUFFER=FILE", value_parser = parse_dump, help_heading = "Output")]
    dump: Vec<(String, PathBuf)>,
    /// Print what the hardware would have done: instructions by kind, bank conflicts, sectors
    #[arg(long, help_heading = "Output")]
    counters: bool,
    /// Folder of the sources, to show the lines of findings [default: the current one and its parents]
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    source: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long, help_heading = "Output")]
    json: bool,
}

fn parse_extent(text: &str) -> Result<[u32; 3], String> {
    let sizes: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
    sizes
        .ok()
        .and_then(|sizes| extent(&sizes))
        .ok_or_else(|| "expected one to three sizes, as in 8 or 8,2,1".to_owned())
}

fn parse_dump(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("expected BUFFER=FILE")?;
    Ok((name.to_owned(), file.into()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Carries out the command; whether nothing was found.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let name = arguments.file.display().to_string();
    let text = fs::read_to_string(&arguments.file).map_err(|error| format!("{name}: {error}"))?;
    let module = Module::parse(&text, &name).map_err(|error| error.to_string())?;
    if arguments.list {
        report::print(&report::list(&module, arguments.json))?;
        return Ok(true);
    }
    let description = describe(arguments)?;
    let entry = entry(&module, description.entry.as_deref())?;
    let names: Vec<&str> = module.parameters(&entry).into_iter().flatten().map(|parameter| parameter.name).collect();
    let mut memory = GlobalMemory::new();
    let mut buffers = Vec::new();
    let params = place(&description.params, &names, &mut memory, &mut buffers)?;
    check_buffers(arguments, &buffers)?;
    let launch = Launch {
        entry: &entry,
        grid: description.grid.unwrap_or([1; 3]),
        block: description.block.ok_or("how many threads does a block have? Say --block X[,Y,Z]")?,
        dynamic_shared_bytes: description.shared.unwrap_or(0),
        params: &params.iter().map(Vec::as_slice).collect::<Vec<_>>(),
        architecture: description.architecture.unwrap_or(DEFAULT_ARCHITECTURE),
    };
    let options = Options { instructions_per_warp: arguments.instruction_limit, ..Options::default() };
    let refused = |error| format!("{error}{}", hint(&error, &module, &entry));
    let report = ptx_sim::run(&module, &mut memory, &launch, &options).map_err(refused)?;
    let mut found = Found::new(report.findings.clone());
    for schedule in 1..arguments.schedules.get() {
        // Placed in the same order, every buffer has the address it has in `params`.
        let mut memory = GlobalMemory::new();
        place(&description.params, &names, &mut memory, &mut Vec::new())?;
        let options = Options { schedule, ..options.clone() };
        found.add(schedule, ptx_sim::run(&module, &mut memory, &launch, &options).map_err(refused)?.findings);
    }
    let shown = arguments.print.iter().filter_map(|name| find(&buffers, name));
    let shown: Vec<_> = shown.map(|buffer| report::contents(buffer, &memory)).collect::<Result<_, _>>()?;
    for (name, file) in &arguments.dump {
        find(&buffers, name).map_or(Ok(()), |buffer| report::dump(buffer, &memory, file))?;
    }
    let renderer = Renderer::for_standard_output(Sources::below_or_nearby(arguments.source.as_deref()));
    report::print(&match arguments.json {
        true => report::json(&entry, &report, &found, &shown),
        false => {
            let counters = arguments.counters.then_some(&report.counters);
            report::text(&entry, &report, counters, &found, &shown, &renderer)
        }
    })?;
    Ok(found.findings.is_empty())
}

/// The description file with what the command line says on top.
fn describe(arguments: &Arguments) -> Result<Description, String> {
    let file = arguments.launch.as_deref().map(Description::read).transpose()?.unwrap_or_default();
    let params = arguments.param.iter().map(|text| {
        Parameter::parse(text, Path::new(""))
            .map_err(|error| format!("--param {text}, character {}: {}", error.offset + 1, error.message))
    });
    let params: Vec<Parameter> = params.collect::<Result<_, _>>()?;
    Ok(Description {
        entry: arguments.entry.clone().or(file.entry),
        grid: arguments.grid.or(file.grid),
        block: arguments.block.or(file.block),
        shared: arguments.shared.or(file.shared),
        architecture: arguments.arch.or(file.architecture),
        params: if params.is_empty() { file.params } else { params },
    })
}

/// The entry that was asked for, or else the only one.
fn entry(module: &Module, requested: Option<&str>) -> Result<String, String> {
    let entries: Vec<&str> = module.entries().collect();
    match (requested, entries.as_slice()) {
        (Some(name), _) => Ok(name.to_owned()),
        (None, [only]) => Ok((*only).to_owned()),
        (None, []) => Err(format!("{} has no entry", module.file())),
        (None, _) => Err(format!("which entry? Say --entry and one of {}", entries.join(", "))),
    }
}

/// The bytes of every parameter.
fn place(
    params: &[Parameter],
    names: &[&str],
    memory: &mut GlobalMemory,
    buffers: &mut Vec<Buffer>,
) -> Result<Vec<Vec<u8>>, String> {
    let placed = params.iter().enumerate().map(|(index, parameter)| {
        let name = names.get(index).map_or_else(|| index.to_string(), |name| (*name).to_owned());
        parameter.place(&name, memory, buffers)
    });
    placed.collect()
}

/// Refuses names in --print and --dump that are no buffers, before anything runs.
fn check_buffers(arguments: &Arguments, buffers: &[Buffer]) -> Result<(), String> {
    let wanted = arguments.print.iter().chain(arguments.dump.iter().map(|(name, _)| name));
    match wanted.into_iter().find(|name| find(buffers, name).is_none()) {
        None => Ok(()),
        Some(name) => {
            let names: Vec<&str> = buffers.iter().map(|buffer| buffer.name.as_str()).collect();
            Err(format!("no buffer `{name}`; there are: {}", names.join(", ")))
        }
    }
}

fn find<'a>(buffers: &'a [Buffer], name: &str) -> Option<&'a Buffer> {
    buffers.iter().find(|buffer| buffer.name == name)
}

/// What the entry takes, when that is what the launch got wrong.
fn hint(error: &ptx_sim::LaunchError, module: &Module, entry: &str) -> String {
    use ptx_sim::LaunchError::{ParameterCount, ParameterSize};
    match error {
        ParameterCount { .. } | ParameterSize { .. } => format!("\n{}", report::signature(module, entry)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use doc_lint::Tree;
    use doc_lint::commands::{self, Form};

    #[test]
    fn the_commands_that_the_documents_show_are_accepted() {
        let forms = [
            Form { words: &["ptx-sim"], arguments: &[] },
            Form { words: &["cargo", "run", "--release", "-p", "ptx-sim-cli", "--"], arguments: &[] },
        ];
        let documents = Tree::read(doc_lint::workspace_root()).and_then(|tree| tree.documents());
        doc_lint::assert_none(&commands::check::<super::Arguments>(&documents.expect("the documents"), &forms));
    }
}
