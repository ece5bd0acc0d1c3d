//! Stands in for ptxas, with which Triton makes cubins: passes the PTX through, so that the simulated driver receives it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ptx_diagnostics::files::read_text;

use crate::input::LARGEST_FILE;
use crate::report;

/// Program name under which this program acts as an assembler.
pub const NAME: &str = "ptxas";

/// Answer to `--version`, in the format that Triton parses: for CUDA 13.0 it writes PTX 9.0.
const VERSION: &str = "ptx-sim in place of ptxas\nCuda compilation tools, release 13.0, V13.0.0";

/// Options with a value.
const WITH_VALUE: [&str; 6] = ["--opt-level", "-O", "--gpu-name", "-arch", "--maxrregcount", "--regAllocOptLevel"];

/// Acts as ptxas if this program was called by that name.
pub fn answer(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let program = arguments.next()?;
    if Path::new(&program).file_name() != Some(OsStr::new(NAME)) {
        return None;
    }
    let arguments: Vec<_> = arguments.collect();
    if arguments.iter().any(|argument| argument == "--version" || argument == "-V") {
        let printed = report::print(&format!("{VERSION}\n"));
        return Some(if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    Some(match files(&arguments).and_then(|(from, to)| hand_through(&from, &to)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::note(&format!("ptx-sim in place of ptxas: {error}"));
            ExitCode::FAILURE
        }
    })
}

/// Input file and output file.
fn files(arguments: &[OsString]) -> Result<(PathBuf, PathBuf), String> {
    let (mut from, mut to) = (None, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("-o" | "--output-file") => to = rest.next(),
            Some(option) if WITH_VALUE.contains(&option) => drop(rest.next()),
            Some(option) if option.starts_with('-') => {}
            _ => from = Some(argument),
        }
    }
    let named = |file: Option<&OsString>, what: &str| file.map(PathBuf::from).ok_or(format!("no file to {what}"));
    Ok((named(from, "read")?, named(to, "write")?))
}

fn hand_through(from: &Path, to: &Path) -> Result<(), String> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = read_text(from, LARGEST_FILE).map_err(|error| wrong(from, &error))?;
    ptx_sim::Module::parse(&text, &from.display().to_string()).map_err(|error| error.to_string())?;
    // Images end in NUL.
    std::fs::write(to, text + "\0").map_err(|error| wrong(to, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_found_among_the_options() {
        let arguments = ["-lineinfo", "-v", "--opt-level", "0", "--gpu-name=sm_90a", "in.ptx", "-o", "out.cubin"];
        let found = files(&arguments.map(OsString::from)).expect("both are there");
        assert_eq!(found, (PathBuf::from("in.ptx"), PathBuf::from("out.cubin")));
        assert_eq!(files(&["in.ptx".into()]), Err("no file to write".to_owned()));
        assert_eq!(files(&["-o".into(), "out".into()]), Err("no file to read".to_owned()));
    }

    #[test]
    fn only_ptx_is_handed_through_and_only_by_the_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [from, to] = ["in.ptx", "out.cubin"].map(|name| folder.path().join(name));
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n";
        std::fs::write(&from, text).expect("writing");
        let call = |name: &str| answer([name.into(), from.clone().into(), "-o".into(), to.clone().into()].into_iter());
        assert!(call("ptx-sim").is_none() && !to.exists());
        assert!(call("/tmp/ptxas").is_some());
        assert_eq!(std::fs::read_to_string(&to).expect("it was written"), format!("{text}\0"));
        std::fs::write(&from, "no PTX").expect("writing");
        let error = hand_through(&from, &to).expect_err("it is refused");
        assert!(error.contains("in.ptx:1:1"), "{error}");
    }
}
