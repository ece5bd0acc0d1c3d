//! Runs the kernels of a PTX file and reports their errors.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use clap::Args;
use ptx_diagnostics::files::is_same_file;
use ptx_diagnostics::{Renderer, Sources};
use ptx_sim::{Module, Options, parse_architecture};

use crate::description::{Description, LaunchSpec, extent};
use crate::element::{ELEMENTS, Element};
use crate::expect::compare;
use crate::input::read_ptx;
use crate::notation::Parameter;
use crate::report::{self, Contents, Summary};
use crate::schedules::Found;
use crate::session::Session;
use crate::world::{Place, World};

/// Run kernels of a PTX file.
#[derive(Args)]
pub struct Kernel {
    /// The PTX file
    file: PathBuf,
    /// List the entries, their parameters, and why an entry cannot be executed, and run nothing
    #[arg(long, conflicts_with_all = ["launch", "entry", "param"])]
    list: bool,
    /// Read a launch description; options given here win. `ptx-sim init` writes one
    #[arg(long, value_name = "FILE")]
    launch: Option<PathBuf>,
    /// The entry, by its name in the PTX or in the source [default: the only one there is]
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Blocks [default: 1]
    #[arg(long, value_name = "X[,Y,Z]", value_parser = parse_extent)]
    grid: Option<[u32; 3]>,
    /// Threads per block
    #[arg(long, value_name = "X[,Y,Z]", value_parser = parse_extent)]
    block: Option<[u32; 3]>,
    /// Blocks per cluster [default: what the entry requires (.reqnctapercluster), or else no clusters]
    #[arg(long, value_name = "X[,Y,Z]", value_parser = parse_extent)]
    cluster: Option<[u32; 3]>,
    /// Launch cooperatively: all blocks are on the GPU together, so that they may wait for each other (`grid.sync()`)
    #[arg(long)]
    cooperative: bool,
    /// Dynamic shared memory per block [default: 0]
    #[arg(long, value_name = "BYTES")]
    shared: Option<u32>,
    /// Architecture to simulate, such as 80, 8.0 or sm_80 [default: that of the PTX's .target]
    #[arg(long, value_name = "NN", value_parser = architecture)]
    arch: Option<u32>,
    /// A parameter (see below); give one option per parameter, in order. Replaces those of the description
    #[arg(long, value_name = "PARAMETER", allow_hyphen_values = true)]
    param: Vec<String>,
    /// Set a variable of the module (__device__, __constant__); contents are written like a buffer: `table=f32[4]=range`
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_set, allow_hyphen_values = true)]
    set: Vec<(String, Parameter)>,
    /// Instructions per warp after which a loop counts as endless
    #[arg(long, value_name = "N", default_value_t = Options::default().instructions_per_warp)]
    instruction_limit: u64,
    /// Run under this many orders of warps and blocks: order 0 is that of their indices, the others are seeded shuffles. Buffers
    /// and counters are shown for order 0
    #[arg(long, value_name = "N", default_value = "1")]
    schedules: NonZeroU64,
    /// Threads that execute blocks; 0 for all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: u16,
    /// Do not search for data races (faster)
    #[arg(long)]
    no_races: bool,
    /// Take no liberties with the memory model: an atomic operation or a barrier does not count as a missing fence
    #[arg(long)]
    strict: bool,
    /// The most findings to show per launch
    #[arg(long, value_name = "N", default_value_t = Options::default().max_findings)]
    max_findings: usize,

    /// Print the start of a buffer or variable after the run, as TYPE if given. Name a buffer as in the description, or after
    /// its parameter (field 2 of a struct: NAME.2)
    #[arg(long, value_name = "NAME[:TYPE]", help_heading = "Output")]
    print: Vec<String>,
    /// Write a buffer or variable to a file after the run
    #[arg(long, value_name = "NAME=FILE", value_parser = parse_dump, help_heading = "Output")]
    dump: Vec<(String, PathBuf)>,
    /// Print hardware counters: instructions by kind, bank conflicts, sectors
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

/// Parses an architecture: 90, 9.0 or sm_90.
pub fn architecture(text: &str) -> Result<u32, String> {
    parse_architecture(text).ok_or_else(|| "expected a number or a name, as in 90, 9.0 or sm_90".to_owned())
}

fn parse_dump(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("expected BUFFER=FILE")?;
    Ok((name.to_owned(), file.into()))
}

fn parse_set(text: &str) -> Result<(String, Parameter), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, as in factor=f32:0.5")?;
    let value = Parameter::parse(value, Path::new(""));
    value.map(|value| (name.to_owned(), value)).map_err(|error| error.message)
}

impl Kernel {
    /// Requires that every dump can be written and overwrites neither an input nor another dump.
    fn check_dumps(&self) -> Result<(), String> {
        for (index, (name, file)) in self.dump.iter().enumerate() {
            let others = self.dump[..index].iter().map(|(other, file)| (other.as_str(), file));
            let read = self.launch.iter().map(|file| ("the launch description", file));
            let mut taken = others.chain(read).chain([("the PTX", &self.file)]);
            if let Some((other, _)) = taken.find(|(_, taken)| is_same_file(file, taken)) {
                return Err(format!("--dump {name}: {} is the file of {other}; give it another name", file.display()));
            }
            report::check_writable(file)?;
        }
        Ok(())
    }

    /// Runs the command; true if nothing was found.
    pub fn run(&self) -> Result<bool, String> {
        let text = read_ptx(&self.file)?;
        let module = Module::parse(&text, &self.file.display().to_string()).map_err(|error| error.to_string())?;
        if self.list {
            report::print(&report::list(&module, self.json))?;
            return Ok(true);
        }
        self.check_dumps()?;
        let description = self.describe()?;
        let mut session = Session::prepare(&module, &description)?;
        let wanted = self.print.iter().chain(&description.print).map(|text| shown(&session.world, text));
        let wanted: Vec<Place> = wanted.collect::<Result<_, _>>()?;
        for (name, _) in &self.dump {
            session.world.named(name)?;
        }
        let options = Options {
            instructions_per_warp: self.instruction_limit,
            threads: self.threads.into(),
            races: !self.no_races,
            strict: self.strict,
            max_findings: self.max_findings,
            ..Options::default()
        };
        let reports = session.run(&options)?;
        let mut found = Found::new(&reports);
        for schedule in 1..self.schedules.get() {
            let options = Options { schedule, ..options.clone() };
            found.add(schedule, &Session::prepare(&module, &description)?.run(&options)?);
        }
        let world = &session.world;
        let shown: Vec<Contents> =
            wanted.iter().map(|place| report::contents(place, &world.memory)).collect::<Result<_, _>>()?;
        for (name, file) in &self.dump {
            report::dump(world.named(name)?, &world.memory, file)?;
        }
        let compared = description.expected.iter().map(|(name, expected)| compare(world, name, expected));
        let compared: Vec<_> = compared.collect::<Result<_, _>>()?;
        let entries = session.launches.iter().map(|launch| launch.entry.as_str()).collect();
        let summary = Summary { entries, reports: &reports, found: &found, shown: &shown, compared: &compared };
        let renderer = Renderer::for_standard_output(Sources::below_or_nearby(self.source.as_deref()));
        report::print(&if self.json { summary.json() } else { summary.text(self.counters, &renderer) })?;
        Ok(summary.passed())
    }

    /// The description file with the options of the command line applied.
    fn describe(&self) -> Result<Description, String> {
        let file = self.launch.as_deref().map(Description::read).transpose()?;
        let mut description =
            file.unwrap_or_else(|| Description { launches: vec![LaunchSpec::default()], ..Description::default() });
        description.architecture = self.arch.or(description.architecture);
        description.variables.extend(self.set.iter().cloned());
        let params = self.param.iter().map(|text| {
            Parameter::parse(text, Path::new(""))
                .map_err(|error| format!("--param {text}, character {}: {}", error.offset + 1, error.message))
        });
        let params: Vec<Parameter> = params.collect::<Result<_, _>>()?;
        let options = [
            ("--entry", self.entry.is_some()),
            ("--grid", self.grid.is_some()),
            ("--block", self.block.is_some()),
            ("--cluster", self.cluster.is_some()),
            ("--cooperative", self.cooperative),
            ("--shared", self.shared.is_some()),
            ("--param", !params.is_empty()),
        ];
        let given = options.iter().find(|(_, is_given)| *is_given);
        match (description.launches.as_mut_slice(), given) {
            ([only], _) => {
                only.entry = self.entry.clone().or(only.entry.take());
                only.grid = self.grid.or(only.grid);
                only.block = self.block.or(only.block);
                only.cluster = self.cluster.or(only.cluster);
                only.cooperative = self.cooperative.then_some(true).or(only.cooperative);
                only.shared = self.shared.or(only.shared);
                if !params.is_empty() {
                    only.params = params;
                }
            }
            (several, Some((option, _))) => {
                return Err(format!("{option} is for one launch; the description has {}", several.len()));
            }
            _ => {}
        }
        Ok(description)
    }
}

/// Parses `NAME` or `NAME:TYPE` of --print.
fn shown(world: &World, text: &str) -> Result<Place, String> {
    let (name, kind) = match text.rsplit_once(':').filter(|(name, _)| world.find(name).is_some()) {
        Some((name, kind)) => (name, Some(kind)),
        None => (text, None),
    };
    let place = world.named(name)?.clone();
    let Some(kind) = kind else { return Ok(place) };
    let element = Element::named(kind).ok_or_else(|| {
        let known: Vec<_> = ELEMENTS.iter().map(|element| element.name).collect();
        format!("--print {text}: `{kind}` is not a type; known are {}", known.join(", "))
    })?;
    let count = place.bytes() / element.bytes as u64;
    Ok(Place { element, count, ..place })
}
