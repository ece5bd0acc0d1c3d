//! NVIDIA's PTX assembler: finding it, and resource usage of entries.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::Result;
use contract::architecture::ARCHITECTURES;
use contract::config::Family;
use contract::manifest::Resources;

use crate::cores;
use crate::cuda_tool::CudaTool;
use crate::process::capture;

/// A ptxas that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptxas {
    /// The program.
    pub path: PathBuf,
    /// Its release, as in `13.0, V13.0.88`.
    pub version: String,
}

impl CudaTool for Ptxas {
    const PROGRAM: &str = "ptxas";
    const VARIABLE: &str = "FA512_PTXAS";
    const PROVISIONED_FOLDER: &str = "ptxas";
    const PROVISIONED_PROGRAM: &str = "ptxas";

    fn new(path: PathBuf, version: String) -> Self {
        Self { path, version }
    }
}

/// Report of ptxas for one PTX file and architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    /// As in 80 for `sm_80`.
    pub architecture: u32,
    /// Resources by entry name, or the error messages for the file.
    pub outcome: Result<BTreeMap<String, Resources>, String>,
}

impl Assembly {
    /// The same report, for an `architecture` with the same instructions.
    fn of(&self, architecture: u32) -> Self {
        let resources =
            |(name, resources): (&String, &Resources)| (name.clone(), Resources { architecture, ..*resources });
        let outcome = self.outcome.as_ref().map(|entries| entries.iter().map(resources).collect());
        Self { architecture, outcome: outcome.map_err(Clone::clone) }
    }
}

impl Ptxas {
    /// Assembles the `ptx` of a family for every architecture of the family, in parallel; once for those for which ptxas
    /// writes the same instructions.
    pub fn assemble_for_all(&self, family: Family, ptx: &Path) -> Vec<Assembly> {
        let asked: BTreeSet<u32> = checked_architectures(family).map(instructions_of).collect();
        // Two at least, so that the last of them does not leave a core idle.
        let threads = cores::count().div_ceil(asked.len().max(1)).max(2);
        let reports: BTreeMap<u32, Assembly> = thread::scope(|scope| {
            let started: Vec<_> = asked
                .into_iter()
                .map(|architecture| {
                    (architecture, scope.spawn(move || self.assemble(family, ptx, architecture, threads)))
                })
                .collect();
            started.into_iter().filter_map(|(architecture, one)| Some((architecture, one.join().ok()?))).collect()
        });
        checked_architectures(family)
            .filter_map(|architecture| Some(reports.get(&instructions_of(architecture))?.of(architecture)))
            .collect()
    }

    /// Assembles the `ptx` of a family for one architecture into the file `cubin`.
    pub fn assemble_to(&self, ptx: &Path, family: Family, architecture: u32, cubin: &Path) -> Result<()> {
        let mut ptxas = Command::new(&self.path);
        ptxas.arg(format!("--gpu-name={}", gpu_name(family, architecture))).arg("--output-file").arg(cubin).arg(ptx);
        capture(&mut ptxas).map(drop)
    }

    /// Assembles the `ptx` of a family for one architecture as soon as a core is free; with several `threads`, its entries in
    /// parallel.
    pub fn assemble(&self, family: Family, ptx: &Path, architecture: u32, threads: usize) -> Assembly {
        self.assemble_entries(&[], family, ptx, architecture, threads)
    }

    /// [`Self::assemble`] for the entries of these names alone; for all if there are none.
    pub fn assemble_entries(
        &self,
        entries: &[&str],
        family: Family,
        ptx: &Path,
        architecture: u32,
        threads: usize,
    ) -> Assembly {
        let outcome = (|| {
            let _core = cores::acquire().map_err(|error| error.to_string())?;
            let mut ptxas = Command::new(&self.path);
            ptxas
                .arg(format!("--gpu-name={}", gpu_name(family, architecture)))
                .args(["--verbose", "--output-file=/dev/null"])
                .args((threads > 1 && self.splits()).then(|| format!("--split-compile={threads}")))
                .args((!entries.is_empty()).then(|| format!("--entry={}", entries.join(","))))
                .arg(ptx);
            let output = ptxas.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
            let said =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if !output.status.success() {
                return Err(said.trim_end().to_owned());
            }
            parse_report(&said, architecture)
        })();
        Assembly { architecture, outcome }
    }

    /// Whether it can compile the entries of a file in parallel.
    fn splits(&self) -> bool {
        const SINCE: u32 = 13;
        self.version.split('.').next().and_then(|major| major.parse().ok()).is_some_and(|major: u32| major >= SINCE)
    }
}

/// The architectures the entries of a family are checked for.
pub fn checked_architectures(family: Family) -> impl Iterator<Item = u32> {
    ARCHITECTURES.iter().map(|limits| limits.architecture).filter(move |architecture| family.runs_on(*architecture))
}

/// The architecture whose instructions ptxas also writes for `architecture`: code for 8.6 runs on 8.9 (CUDA C++ Programming
/// Guide, "Binary Compatibility"), and ptxas has no other for our kernels. `cargo xtask ci` compares the reports.
pub fn instructions_of(architecture: u32) -> u32 {
    match architecture {
        89 => 86,
        own => own,
    }
}

/// The target name of an architecture with the features that a family needs.
fn gpu_name(family: Family, architecture: u32) -> String {
    match family {
        Family::Sm80 => format!("sm_{architecture}"),
        Family::Sm90a => format!("sm_{architecture}a"),
    }
}

/// Whether ptxas reports serialised `wgmma` instructions (C7510 and similar messages), as for accumulator registers that are
/// accessed in flight or too few registers.
pub fn serialises_products(messages: &str) -> bool {
    messages.contains("(C75")
}

/// Parses the output of `ptxas --verbose`: for every entry its name, stack, spills and registers.
///
/// A report that lacks one of them is an error rather than zero. So is a report of serialised `wgmma` instructions, which were
/// meant to run asynchronously.
pub fn parse_report(report: &str, architecture: u32) -> Result<BTreeMap<String, Resources>, String> {
    if serialises_products(report) {
        let serialised: Vec<&str> = report.lines().filter(|line| serialises_products(line)).collect();
        return Err(serialised.join("\n"));
    }
    let mut entries: BTreeMap<String, Resources> = BTreeMap::new();
    let mut name: Option<String> = None;
    let mut frame = None;
    for line in report.lines() {
        if line.contains("Compiling entry function") {
            if let Some(name) = &name {
                return Err(format!("ptxas said nothing about the registers of {name}"));
            }
            name = line.split('\'').nth(1).map(str::to_owned);
            frame = None;
        } else if line.contains("bytes stack frame") {
            let number = |what| number_before(line, what);
            frame = number("bytes stack frame").zip(number("bytes spill stores")).zip(number("bytes spill loads"));
        } else if let Some(registers) = number_before(line, "registers") {
            let Some(name) = name.take() else { continue };
            let Some(((stack, spill_stores), spill_loads)) = frame else {
                return Err(format!("ptxas said nothing about the stack frame of {name}"));
            };
            let static_shared = number_before(line, "bytes smem").unwrap_or(0);
            entries
                .insert(name, Resources { architecture, registers, spill_stores, spill_loads, stack, static_shared });
        }
    }
    match name {
        Some(name) => Err(format!("ptxas said nothing about the registers of {name}")),
        None => Ok(entries),
    }
}

/// The number written before the words `what` in a comma-separated line.
fn number_before(line: &str, what: &str) -> Option<u32> {
    let (before, _) = line.split_once(what)?;
    before.trim_end().rsplit(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

/// A performance problem of an entry on one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waste<'a> {
    /// The entry.
    pub entry: &'a str,
    /// The message of ptxas.
    pub resources: &'a Resources,
}

impl<'a> Waste<'a> {
    /// `Some` when the entry spills or has a stack frame, which is local memory.
    pub fn of(entry: &'a str, resources: &'a Resources) -> Option<Self> {
        let none = resources.spill_stores == 0 && resources.spill_loads == 0 && resources.stack == 0;
        (!none).then_some(Self { entry, resources })
    }
}

impl fmt::Display for Waste<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resources { architecture, spill_stores, spill_loads, stack, .. } = self.resources;
        write!(
            formatter,
            "{} on sm_{architecture}: {stack} bytes of stack frame, {spill_stores} of spill stores, {spill_loads} of spill loads",
            self.entry
        )
    }
}

#[cfg(test)]
mod tests {
    use contract::config::Family;
    use contract::manifest::Resources;

    use super::{Assembly, Waste, checked_architectures, gpu_name, instructions_of, parse_report};

    const CLEAN: Resources =
        Resources { architecture: 80, registers: 8, spill_stores: 0, spill_loads: 0, stack: 0, static_shared: 1024 };

    /// What ptxas 13.0.88 prints.
    const REPORT: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'shared_user' for 'sm_80'
ptxas info    : Function properties for shared_user
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 1 barriers, 1024 bytes smem, 360 bytes cmem[0]
ptxas info    : Compile time = 6.349 ms
ptxas info    : Compiling entry function 'wasteful' for 'sm_80'
ptxas info    : Function properties for wasteful
    792 bytes stack frame, 328 bytes spill stores, 332 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
ptxas info    : Compile time = 207.052 ms
";

    #[test]
    fn a_report_gives_the_resources_of_every_entry() {
        let entries = parse_report(REPORT, 80).unwrap();
        assert_eq!(entries["shared_user"], CLEAN);
        let wasteful = Resources {
            architecture: 80,
            registers: 255,
            spill_stores: 328,
            spill_loads: 332,
            stack: 792,
            static_shared: 0,
        };
        assert_eq!(entries["wasteful"], wasteful);
        assert_eq!(entries.len(), 2);
    }

    #[test]
    fn an_incomplete_report_is_not_taken_for_zeros() {
        for missing in ["bytes stack frame", "registers, used 1 barriers, 1024"] {
            let report: Vec<&str> = REPORT.lines().filter(|line| !line.contains(missing)).collect();
            let error = parse_report(&report.join("\n"), 80).unwrap_err();
            assert!(error.contains("ptxas said nothing about") && error.contains("shared_user"), "{error}");
        }
    }

    #[test]
    fn products_that_ptxas_serialised_are_refused() {
        let warning = "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due \
                       to insufficient register resources for the wgmma pipeline in the function 'wasteful'\n";
        assert_eq!(parse_report(&format!("{warning}{REPORT}"), 90), Err(warning.trim_end().to_owned()));
    }

    #[test]
    fn each_family_is_assembled_for_the_architectures_it_runs_on() {
        let names = |family: Family| -> Vec<String> {
            checked_architectures(family).map(|architecture| gpu_name(family, architecture)).collect()
        };
        assert_eq!(names(Family::Sm80), ["sm_80", "sm_86", "sm_89", "sm_90"]);
        assert_eq!(names(Family::Sm90a), ["sm_90a"]);
    }

    #[test]
    fn a_report_stands_for_every_architecture_with_the_same_instructions() {
        let asked = Assembly { architecture: 86, outcome: parse_report(REPORT, 86) };
        let same = asked.of(89);
        assert_eq!((same.architecture, instructions_of(89)), (89, 86));
        let shared_user = &same.outcome.unwrap()["shared_user"];
        assert_eq!(*shared_user, Resources { architecture: 89, ..CLEAN });
        let refused = Assembly { architecture: 86, outcome: Err("no".into()) };
        assert_eq!(refused.of(89), Assembly { architecture: 89, outcome: Err("no".into()) });
    }

    #[test]
    fn spills_and_stack_are_waste() {
        assert_eq!(Waste::of("entry", &CLEAN), None);
        for resources in [
            Resources { spill_stores: 4, ..CLEAN },
            Resources { spill_loads: 4, ..CLEAN },
            Resources { stack: 8, ..CLEAN },
        ] {
            assert!(Waste::of("entry", &resources).is_some(), "{resources:?}");
        }
    }
}
