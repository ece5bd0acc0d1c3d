//! An emulator of another kind of machine: QEMU, with a C library and a Python for that machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::environment::{Environment, Workspace};
use crate::files;
use crate::machine::Machine;
use crate::process::capture;
use crate::python;

/// Debian 12's package of QEMU, with all that it is linked with.
const QEMU: &str = "qemu-user-static";
/// Packages of the emulated machine: a C library, the libraries that NumPy's wheels expect, and a Python with venv and pip.
const ROOT: [&str; 13] = [
    "libc6",
    "libgcc-s1",
    "libstdc++6",
    "zlib1g",
    "libexpat1",
    "libffi8",
    "libssl3",
    "libbz2-1.0",
    "liblzma5",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "python3.11-minimal",
    "python3.11-venv",
];
/// What its Python makes virtual environments of; the same for all machines.
const WHEELS: [&str; 2] = ["python3-pip-whl", "python3-setuptools-whl"];
/// The Python of the emulated machine, below its root.
const PYTHON: &str = "usr/bin/python3.11";

/// The emulator of a kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulator {
    program: PathBuf,
    /// The emulated machine's files, which are opened in place of this machine's.
    root: PathBuf,
}

impl Emulator {
    /// Where the provisioned one is, or will be.
    pub fn folder(workspace: &Workspace, machine: Machine) -> PathBuf {
        workspace.toolchain().join(format!("emulated-{}", machine.name()))
    }

    /// The provisioned one, if it is there.
    pub fn find(workspace: &Workspace, machine: Machine) -> Option<Self> {
        Some(Self::at(&Self::folder(workspace, machine), machine)).filter(|found| found.program.is_file())
    }

    /// The one in `root`.
    pub fn at(root: &Path, machine: Machine) -> Self {
        Self { program: root.join("usr/bin").join(file_name(machine)), root: root.to_owned() }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-L").arg(&self.root).arg(program);
        command
    }

    /// Its Python, which says that it works.
    pub fn probe(&self) -> Result<String> {
        capture(self.command(&self.root.join(PYTHON)).arg("--version"))
    }

    /// Its Python as a program that this machine starts, also through a link from a virtual environment.
    fn interpreter(&self) -> Result<PathBuf> {
        // Beside the emulated program, where its library is found. Written each time: the folder may have moved.
        let script = self.root.join("usr/bin/python");
        let [program, root, python] = [&self.program, &self.root, &self.root.join(PYTHON)].map(|path| quoted(path));
        // By the name that it was called with, a Python knows its virtual environment, and what to start as itself.
        let text = format!("#!/bin/sh\nexec {program} -L {root} -0 \"$0\" {python} \"$@\"\n");
        files::write_atomically(&script, text.as_bytes())?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("could not make {} executable", script.display()))?;
        Ok(script)
    }
}

/// What runs programs of a kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runner {
    /// This machine, which is of that kind.
    Here,
    /// An emulator.
    Emulated(Emulator),
}

impl Runner {
    /// Runs `program`.
    pub fn command(&self, program: &Path) -> Command {
        match self {
            Self::Here => Command::new(program),
            Self::Emulated(emulator) => emulator.command(program),
        }
    }

    /// A Python of that kind of machine.
    pub fn interpreter(&self, environment: &Environment) -> Result<PathBuf> {
        match self {
            Self::Here => python::interpreter(environment),
            Self::Emulated(emulator) => emulator.interpreter(),
        }
    }
}

/// The packages that an emulator of `machine` is made of, as apt takes them.
pub fn packages(machine: Machine) -> Vec<String> {
    let of_root = ROOT.map(|name| format!("{name}:{}", machine.debian()));
    [QEMU].into_iter().chain(WHEELS).map(str::to_owned).chain(of_root).collect()
}

/// Removes QEMU's programs for other machines than `machine`, 10 MB each, from the unpacked packages.
pub fn keep_program(root: &Path, machine: Machine) -> Result<()> {
    for file in fs::read_dir(root.join("usr/bin")).context("the packages have no programs")?.flatten() {
        let name = file.file_name();
        if name.to_string_lossy().starts_with("qemu-") && name.to_string_lossy() != file_name(machine) {
            files::remove(&file.path())?;
        }
    }
    Ok(())
}

/// File name of QEMU's program.
fn file_name(machine: Machine) -> String {
    format!("qemu-{}-static", machine.name())
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::process::Command;

    use super::{Emulator, file_name};
    use crate::machine::Machine;
    use crate::process::capture;

    /// A folder with a program in place of QEMU that shows its arguments.
    fn stand_in(root: &Path) -> Emulator {
        let program = root.join("usr/bin").join(file_name(Machine::Aarch64));
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Emulator::at(root, Machine::Aarch64)
    }

    #[test]
    fn its_python_is_told_the_name_that_it_was_called_with() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("it's a root");
        let python = stand_in(&root).interpreter().unwrap();
        let link = folder.path().join("python");
        symlink(&python, &link).unwrap();
        let said = capture(Command::new(&link).args(["-c", "a b"])).unwrap();
        let root = root.display();
        assert_eq!(said, format!("-L\n{root}\n-0\n{}\n{root}/usr/bin/python3.11\n-c\na b\n", link.display()));
    }
}
