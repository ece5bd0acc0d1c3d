//! Every planted bug is found and reported as on record; its clean twin has no finding.
//!
//! The kernels are listed in `planted::CASES`; the reports lie beside their sources. `cargo xtask bless` writes them
//! anew.

mod report;
mod simulate;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use planted::{Architecture, CASES, Case, Class};
use ptx_sim::{FindingClass, Module};
use simulate::Outcome;

/// Names the folder with the PTX of the planted bugs.
const PTX_VARIABLE: &str = "FA512_PLANTED_PTX";
/// `1` makes the tests rewrite the reports on record.
const BLESS_VARIABLE: &str = "FA512_BLESS";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = vec![Trial::test("reports_without_a_kernel", || no_stray_reports().map_err(Failed::from))];
    for architecture in Architecture::ALL {
        match module(architecture) {
            Ok(module) => {
                let module = Arc::new(module);
                let cases = CASES.iter().filter(|case| case.architecture == architecture);
                trials.extend(cases.flat_map(|case| trials_of(case, &module)));
            }
            Err(message) => trials.push(Trial::test(architecture.file(), move || Err(message.into()))),
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The PTX under test.
fn module(architecture: Architecture) -> Result<Module, String> {
    let folder = std::env::var(PTX_VARIABLE).map_err(|_| {
        format!("these tests need the PTX of the planted bugs: run `cargo xtask test`, which sets {PTX_VARIABLE}")
    })?;
    let path = Path::new(&folder).join(architecture.file());
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Module::parse(&text, "planted.ptx").map_err(|error| error.to_string())
}

/// One test for the kernel with the bug, one for its clean twin.
fn trials_of(case: &'static Case, module: &Arc<Module>) -> [Trial; 2] {
    let name = |which: &str| format!("{}::{}::{which}", case.folder, case.name);
    let (for_planted, for_clean) = (Arc::clone(module), Arc::clone(module));
    [
        Trial::test(name("planted"), move || check_planted(&for_planted, case).map_err(Failed::from)),
        Trial::test(name("clean"), move || check_clean(&for_clean, case).map_err(Failed::from)),
    ]
}

/// Requires the finding class of the bug, and the recorded report.
fn check_planted(module: &Module, case: &Case) -> Result<(), String> {
    let Outcome { findings, output } = simulate::run(module, case, case.planted)?;
    let mut actual = report::text(&findings);
    let expected_classes = finding_classes(case.class);
    match findings.first() {
        Some(first) if !expected_classes.contains(&first.class) => {
            return Err(format!("the first finding should be one of {expected_classes:?}:\n{actual}"));
        }
        None if case.class == Class::WrongResult => {
            let clean = simulate::run(module, case, case.clean)?.output;
            let difference = report::difference(&output, &clean);
            actual = difference.ok_or_else(|| format!("the output of {} is that of its clean twin", case.planted))?;
        }
        None => return Err(format!("the bug of {} is not found", case.planted)),
        Some(_) => {}
    }
    let path = report_path(case);
    if std::env::var(BLESS_VARIABLE).is_ok_and(|value| value == "1") {
        return fs::write(&path, actual).map_err(|error| format!("{}: {error}", path.display()));
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if actual == expected {
        return Ok(());
    }
    Err(format!(
        "the report is not the one on record, {}; `cargo xtask bless` accepts it\n--- expected\n{expected}--- actual\n{actual}",
        path.display()
    ))
}

/// Requires that there are no findings.
fn check_clean(module: &Module, case: &Case) -> Result<(), String> {
    let findings = simulate::run(module, case, case.clean)?.findings;
    if findings.is_empty() {
        return Ok(());
    }
    Err(format!("the clean twin of {} has findings:\n{}", case.planted, report::text(&findings)))
}

/// The finding class of a class of bugs.
fn finding_classes(class: Class) -> &'static [FindingClass] {
    match class {
        Class::Misaligned => &[FindingClass::Misaligned],
        Class::OutOfBounds => &[FindingClass::OutOfBounds],
        Class::Uninitialised => &[FindingClass::Uninitialised],
        Class::AsyncCopy => &[FindingClass::AsyncCopyNotWaited],
        Class::Barrier => &[FindingClass::BarrierDivergence],
        Class::Deadlock => &[FindingClass::Deadlock],
        Class::InvalidOperand => &[FindingClass::InvalidOperand],
        Class::Collective => &[FindingClass::CollectiveLanesMissing],
        Class::Termination => &[FindingClass::Trap, FindingClass::InstructionLimit],
        Class::RaceShared | Class::RaceGlobal => &[FindingClass::Race],
        Class::Cluster => &[FindingClass::BlockLifetime],
        Class::Mbarrier => &[FindingClass::MbarrierMisuse],
        Class::ProxyFence => &[FindingClass::MissingProxyFence],
        Class::Wgmma => &[FindingClass::WgmmaNotWaited, FindingClass::MissingWgmmaFence],
        Class::WrongResult => &[],
    }
}

/// The folder of the kernels' sources and reports.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel-gpu/planted/src/device")
}

/// Where the report of a case is on record.
fn report_path(case: &Case) -> PathBuf {
    sources().join(case.folder).join(format!("{}.report", case.name))
}

/// Requires every report on record to belong to a case.
fn no_stray_reports() -> Result<(), String> {
    let known: Vec<PathBuf> = CASES.iter().map(report_path).collect();
    let folders = fs::read_dir(sources()).map_err(|error| error.to_string())?.flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    let reports = files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|name| name == "report"));
    match reports.into_iter().find(|path| !known.contains(path)) {
        Some(path) => Err(format!("{} belongs to no case of planted::CASES", path.display())),
        None => Ok(()),
    }
}
