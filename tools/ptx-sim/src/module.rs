//! A parsed module, and the preparation of a launch of one of its entries.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::decode::{self, Layout, Program, Refusal};
use crate::exec::{Machine, run_grid};
use crate::finding::SourceLocation;
use crate::launch::{Launch, LaunchError, Options, Report};
use crate::memory::GlobalMemory;
use crate::parse::{Entry, ParseError, Position, Syntax};

/// Threads of the largest block on every architecture.
const THREADS_PER_BLOCK: u64 = 1024;
/// Largest block in each dimension.
const BLOCK_EXTENT: [u32; 3] = [1024, 1024, 64];
/// Largest grid in each dimension.
const GRID_EXTENT: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

/// Bytes of all parameters of an entry (PTX ISA, "Kernel Function Parameters").
const PARAMETER_BYTES: u64 = 32_764;

/// Local memory of a thread on every architecture.
const LOCAL_BYTES_PER_THREAD: u64 = 512 << 10;

/// Architectures and the KiB of shared memory a block can have there (CUDA C++ Programming Guide, "Compute
/// Capabilities").
const SHARED_KIB: [(u32, u64); 12] = [
    (70, 96),
    (72, 96),
    (75, 64),
    (80, 163),
    (86, 99),
    (87, 163),
    (89, 99),
    (90, 227),
    (100, 227),
    (103, 227),
    (120, 99),
    (121, 99),
];

/// A `.param` of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its alignment in bytes.
    pub alignment: u64,
}

/// A parsed PTX module.
#[derive(Debug)]
pub struct Module {
    file: String,
    lines: Vec<String>,
    syntax: Syntax,
    /// Tells modules apart whose variables live in the same memory.
    identity: u64,
}

impl Module {
    /// Parses PTX; `file_name` appears in messages. Instructions are not looked at before an entry is run.
    ///
    /// # Errors
    /// When `text` is not PTX, with line and column.
    pub fn parse(text: &str, file_name: &str) -> Result<Module, ParseError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let syntax = Syntax::parse(text, file_name)?;
        Ok(Module {
            file: file_name.to_owned(),
            lines: text.lines().map(str::to_owned).collect(),
            syntax,
            identity: NEXT.fetch_add(1, Relaxed),
        })
    }

    /// Names of the entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.syntax.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The parameters of an entry, in order; `None` when there is no such entry.
    pub fn parameters(&self, entry: &str) -> Option<impl Iterator<Item = Parameter<'_>>> {
        let entry = self.syntax.entries.iter().find(|candidate| candidate.name == entry)?;
        Some(entry.parameters.iter().map(|parameter| Parameter {
            name: &parameter.name,
            bytes: parameter.bytes.unwrap_or(0),
            alignment: parameter.alignment,
        }))
    }

    /// The PTX ISA version (`.version`), as in (8, 0).
    pub fn version(&self) -> (u32, u32) {
        self.syntax.version
    }

    /// The target (`.target`), as in `sm_80`.
    pub fn target(&self) -> &str {
        &self.syntax.target
    }

    /// The file name given to [`Module::parse`].
    pub fn file(&self) -> &str {
        &self.file
    }

    /// A line of the text, from 1.
    pub(crate) fn line(&self, number: u32) -> &str {
        (number as usize).checked_sub(1).and_then(|index| self.lines.get(index)).map_or("", String::as_str)
    }

    /// A location in the source and the calls it was inlined through.
    pub(crate) fn source(&self, location: Option<u32>) -> (Option<SourceLocation>, Vec<SourceLocation>) {
        let mut chain = Vec::new();
        let mut next = location;
        while let Some(index) = next {
            let location = &self.syntax.locations[index as usize];
            let file = self.syntax.files.get(&location.file).cloned();
            chain.push(SourceLocation {
                file: file.unwrap_or_else(|| format!("file {}", location.file)),
                line: location.line,
                column: location.column,
            });
            // A location refers to earlier ones only.
            next = location.inlined_at.filter(|caller| *caller < index);
        }
        let mut chain = chain.into_iter();
        (chain.next(), chain.collect())
    }

    fn entry(&self, name: &str) -> Result<&Entry, LaunchError> {
        self.syntax.entries.iter().find(|entry| entry.name == name).ok_or_else(|| LaunchError::UnknownEntry {
            entry: name.to_owned(),
            file: self.file.clone(),
            available: self.entries().map(str::to_owned).collect(),
        })
    }

    fn refusal(&self, position: Position, refusal: Refusal) -> LaunchError {
        let (file, Position { line, column }) = (self.file.clone(), position);
        match refusal {
            Refusal::Unsupported(what) => LaunchError::Unsupported { file, line, column, what },
            Refusal::Invalid(what) => LaunchError::Invalid { file, line, column, what },
        }
    }

    /// Checks that the architecture runs code for this module's target: `sm_90a` needs exactly 90, `sm_80` 80 or more.
    fn check_target(&self, architecture: u32) -> Result<(), LaunchError> {
        let target = self.target();
        let digits = target.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
        let runs = match digits.parse::<u32>() {
            Ok(number) if target.ends_with('a') => number == architecture,
            Ok(number) if target.ends_with('f') => number / 10 == architecture / 10 && number <= architecture,
            Ok(number) => number <= architecture,
            Err(_) => false,
        };
        if runs {
            return Ok(());
        }
        Err(LaunchError::Target { file: self.file.clone(), target: target.to_owned(), architecture })
    }
}

/// Executes a launch, blocks in parallel, and reports what is wrong with the kernel.
///
/// # Errors
/// When the launch cannot be executed as asked: an unknown entry, parameters of the wrong number or size, an instruction
/// the simulator does not know, limits of the architecture exceeded. Nothing was executed then. Errors of the kernel are
/// findings of the report instead.
pub fn run(
    module: &Module,
    memory: &mut GlobalMemory,
    launch: &Launch<'_>,
    options: &Options,
) -> Result<Report, LaunchError> {
    let entry = module.entry(launch.entry)?;
    module.check_target(launch.architecture)?;
    check_geometry(entry, launch)?;
    check_parameter_space(entry)?;
    let layout = Layout::new(&module.syntax, module.identity, entry, memory)?;
    check_parameters(&layout, launch)?;
    check_shared(&layout, launch)?;
    check_local(&layout)?;
    let program: Program =
        decode::decode(entry, layout).map_err(|(position, refusal)| module.refusal(position, refusal))?;
    let machine = Machine::new(module, &program, launch, memory, options);
    run_grid(&machine, options)
}

fn check_geometry(entry: &Entry, launch: &Launch<'_>) -> Result<(), LaunchError> {
    let error = |text: String| Err(LaunchError::Geometry(text));
    for (what, extent, limits) in [("grid", launch.grid, GRID_EXTENT), ("block", launch.block, BLOCK_EXTENT)] {
        if extent.contains(&0) || extent.iter().zip(limits).any(|(size, limit)| *size > limit) {
            return error(format!("a {what} of {extent:?}; each size must be between 1 and {limits:?}"));
        }
    }
    let threads: u64 = launch.block.iter().map(|size| u64::from(*size)).product();
    if threads > THREADS_PER_BLOCK {
        return error(format!("{threads} threads in a block; at most {THREADS_PER_BLOCK} are possible"));
    }
    if let Some(cluster) = entry.cluster
        && cluster != [1; 3]
    {
        return error(format!(
            "`{}` demands clusters of {cluster:?} blocks; only clusters of one block are supported",
            entry.name
        ));
    }
    if let Some(required) = entry.required_threads
        && required != launch.block
    {
        return error(format!("a block of {:?}; .reqntid of `{}` demands {required:?}", launch.block, entry.name));
    }
    if let Some(maximum) = entry.maximum_threads {
        let most: u64 = maximum.iter().map(|size| u64::from(*size)).product();
        if threads > most {
            return error(format!("{threads} threads in a block; .maxntid of `{}` allows {most}", entry.name));
        }
    }
    Ok(())
}

fn check_parameter_space(entry: &Entry) -> Result<(), LaunchError> {
    let mut end = 0_u64;
    for parameter in &entry.parameters {
        end = end.next_multiple_of(parameter.alignment) + parameter.bytes.unwrap_or(0);
        if end > PARAMETER_BYTES {
            let (entry, bytes, limit) = (entry.name.clone(), end, PARAMETER_BYTES);
            return Err(LaunchError::ParameterSpace { entry, bytes, limit });
        }
    }
    Ok(())
}

fn check_parameters(layout: &Layout, launch: &Launch<'_>) -> Result<(), LaunchError> {
    let entry = || launch.entry.to_owned();
    let (expected, given) = (layout.parameters.len(), launch.params.len());
    if expected != given {
        return Err(LaunchError::ParameterCount { entry: entry(), expected, given });
    }
    for (index, (parameter, bytes)) in layout.parameters.iter().zip(launch.params).enumerate() {
        if parameter.bytes != bytes.len() as u64 {
            let (expected, given) = (parameter.bytes, bytes.len() as u64);
            return Err(LaunchError::ParameterSize { entry: entry(), index, expected, given });
        }
    }
    Ok(())
}

fn check_shared(layout: &Layout, launch: &Launch<'_>) -> Result<(), LaunchError> {
    let architecture = launch.architecture;
    let Some((_, kib)) = SHARED_KIB.iter().find(|(known, _)| *known == architecture) else {
        let known = SHARED_KIB.iter().map(|(known, _)| *known).collect();
        return Err(LaunchError::UnknownArchitecture { architecture, known });
    };
    let (fixed, dynamic, limit) = (layout.static_shared_bytes, u64::from(launch.dynamic_shared_bytes), kib * 1024);
    let total = fixed + dynamic;
    if total > limit {
        return Err(LaunchError::SharedMemory { total, fixed, dynamic, limit, architecture });
    }
    Ok(())
}

fn check_local(layout: &Layout) -> Result<(), LaunchError> {
    let (bytes, limit) = (layout.local_bytes, LOCAL_BYTES_PER_THREAD);
    if bytes > limit { Err(LaunchError::LocalMemory { bytes, limit }) } else { Ok(()) }
}
