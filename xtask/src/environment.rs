//! Environment of the process, passed explicitly so that tests can fake it.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Environment variables and system paths.
#[derive(Clone, Debug)]
pub struct Environment {
    variables: BTreeMap<String, OsString>,
    system_root: PathBuf,
}

impl Environment {
    /// The environment of this process.
    pub fn of_this_process() -> Self {
        let variables = env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        Self { variables: variables.collect(), system_root: PathBuf::from("/") }
    }

    /// An environment made of `variables`, whose `/usr` is under `system_root`.
    #[cfg(test)]
    pub fn pretend<const N: usize>(system_root: &Path, variables: [(&str, &Path); N]) -> Self {
        let variables = variables.map(|(name, value)| (name.to_owned(), value.as_os_str().to_owned()));
        Self { variables: variables.into(), system_root: system_root.to_owned() }
    }

    /// Sets the variable `name` in a pretended environment.
    #[cfg(test)]
    pub fn set(&mut self, name: &str, value: &Path) {
        self.variables.insert(name.to_owned(), value.as_os_str().to_owned());
    }

    /// The value of the variable `name` as a path; unset and empty are the same.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// Where the absolute path `path` lies on this system.
    pub fn system(&self, path: &str) -> PathBuf {
        self.system_root.join(path.trim_start_matches('/'))
    }

    /// The user's home folder.
    pub fn home(&self) -> Option<PathBuf> {
        self.path("HOME")
    }

    /// The first file called `program` in the folders of `PATH`.
    pub fn find_program(&self, program: &str) -> Option<PathBuf> {
        let folders = self.variables.get("PATH")?;
        env::split_paths(folders).map(|folder| folder.join(program)).find(|path| path.is_file())
    }

    /// [`Self::find_program`], or an error that names it.
    pub fn require_program(&self, program: &str) -> Result<PathBuf> {
        self.find_program(program).with_context(|| format!("there is no {program}"))
    }

    /// Whether the system is Debian itself: its derivatives do not have all of its packages.
    pub fn is_debian(&self) -> bool {
        let release = std::fs::read_to_string(self.system("/etc/os-release")).unwrap_or_default();
        release.lines().any(|line| line == "ID=debian")
    }

    /// The cargo that runs this program, else the one in `PATH`.
    pub fn cargo(&self) -> PathBuf {
        self.path("CARGO").unwrap_or_else(|| PathBuf::from("cargo"))
    }
}

/// The checkout this program was built in.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The workspace at `root`.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The workspace whose `cargo xtask` runs, else the one this program was compiled in.
    pub fn current(environment: &Environment) -> Self {
        let manifest = environment.path("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Self::new(manifest.parent().unwrap_or(&manifest).to_owned())
    }

    /// The folder of the workspace's `Cargo.toml`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The git-ignored folder of provisioned tools.
    pub fn toolchain(&self) -> PathBuf {
        self.root.join(".toolchain")
    }

    /// Cargo's target folder for device code, apart from the host's so that neither build waits for the other.
    pub fn device_target(&self) -> PathBuf {
        self.root.join("target/device")
    }

    /// Where PTX and manifest go unless told otherwise.
    pub fn ptx(&self) -> PathBuf {
        self.root.join("target/ptx")
    }

    /// The folder of the PTX that `cargo xtask run` compiles: one entry.
    pub fn run_ptx(&self) -> PathBuf {
        self.root.join("target/ptx-run")
    }

    /// Where distribution archives go unless told otherwise.
    pub fn dist(&self) -> PathBuf {
        self.root.join("target/dist")
    }

    /// Where the library's packages go unless told otherwise.
    pub fn packages(&self) -> PathBuf {
        self.root.join("target/packages")
    }

    /// Where the files of a release go unless told otherwise.
    pub fn release(&self) -> PathBuf {
        self.root.join("target/release-files")
    }

    /// The folder of the library's crate.
    pub fn library(&self) -> PathBuf {
        self.root.join("host/fa512")
    }

    /// The folder of the Python package.
    pub fn python(&self) -> PathBuf {
        self.root.join("host/python")
    }

    /// The folder of the crate for candle.
    pub fn candle(&self) -> PathBuf {
        self.root.join("host/candle")
    }

    /// The folder of the program that has cubek-attention compute.
    pub fn cubek(&self) -> PathBuf {
        self.root.join("baselines/cubek")
    }

    /// Where that program is built, so that fa512 finds it.
    pub fn cubek_target(&self) -> PathBuf {
        self.root.join("target/cubek")
    }

    /// Where the PTX of the CUDA C++ twins goes unless told otherwise.
    pub fn twins_ptx(&self) -> PathBuf {
        self.root.join("target/ptx-cuda")
    }

    /// Where the PTX that Rust-CUDA writes goes unless told otherwise.
    pub fn rust_cuda_ptx(&self) -> PathBuf {
        self.root.join("target/ptx-rust-cuda")
    }

    /// Where the PTX of a tuning run's candidates goes unless told otherwise.
    pub fn candidates_ptx(&self) -> PathBuf {
        self.root.join("target/ptx-candidates")
    }

    /// The folder of the PTX of the planted bugs.
    pub fn planted_ptx(&self) -> PathBuf {
        self.root.join("target/ptx-planted")
    }

    /// Commit of the checkout, with `-dirty` appended when tracked files differ from it; `None` outside a checkout.
    pub fn git_commit(&self) -> Option<String> {
        let mut git = Command::new("git");
        git.current_dir(&self.root).args(["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]);
        crate::process::capture(&mut git).ok().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
    }
}
