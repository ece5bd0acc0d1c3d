//! Finding a rustc that can compile for `nvptx64-nvidia-cuda`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::{Environment, Workspace};
use crate::process::capture;

/// The target the kernels are compiled for.
pub const TARGET: &str = "nvptx64-nvidia-cuda";
/// Names a rustc to use, whatever else is installed.
pub const VARIABLE: &str = "FA512_DEVICE_RUSTC";
/// Folder of a provisioned compiler inside the workspace's toolchain folder.
pub const PROVISIONED_FOLDER: &str = "rustc-web";

/// A compiler version, `major.minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl Version {
    /// Reads the start of `text`, as in `1.96.0-nightly`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(|character: char| !character.is_ascii_digit());
        Some(Self(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// The oldest compiler that accepts this workspace.
    pub fn minimum() -> Self {
        Self::parse(env!("CARGO_PKG_RUST_VERSION")).unwrap_or(Self(1, 95))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.0, self.1)
    }
}

/// Where a compiler was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Named by [`VARIABLE`].
    Variable,
    /// A rustup toolchain.
    Rustup,
    /// Debian's installed rustc-web.
    Debian,
    /// Provisioned into the workspace earlier.
    Provisioned,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Origin::Variable => VARIABLE,
            Origin::Rustup => "rustup toolchain",
            Origin::Debian => "Debian's rustc-web",
            Origin::Provisioned => "provisioned in .toolchain",
        })
    }
}

/// Where the compiler gets `core` for the device from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceLibrary {
    /// Compiled already, in the compiler's own sysroot.
    Prebuilt,
    /// Source, to be compiled with `-Zbuild-std`; the folder that holds `library/`.
    Source(PathBuf),
}

/// A rustc that can compile for [`TARGET`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCompiler {
    /// The rustc program.
    pub rustc: PathBuf,
    /// Where it was found.
    pub origin: Origin,
    /// What `rustc --version` says.
    pub version_line: String,
    /// Its version.
    pub version: Version,
    /// Where `core` comes from.
    pub library: DeviceLibrary,
    /// Folder of its shared libraries when the dynamic linker would not find them.
    pub shared_libraries: Option<PathBuf>,
}

impl DeviceCompiler {
    /// A cargo of the same toolchain, which knows how to build its library; only rustup has one beside rustc.
    pub fn own_cargo(&self) -> Option<PathBuf> {
        let cargo = self.rustc.with_file_name("cargo");
        (self.origin == Origin::Rustup && cargo.is_file()).then_some(cargo)
    }
}

/// One place that was looked at in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The place.
    pub place: String,
    /// Why nothing there is usable.
    pub reason: String,
}

/// No usable compiler on this machine.
#[derive(Debug)]
pub struct NotFound {
    /// Everything that was looked at, in order.
    pub looked_at: Vec<Rejected>,
}

impl fmt::Display for NotFound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minimum = Version::minimum();
        write!(formatter, "no rustc {minimum} or later that can compile for {TARGET}; looked at:")?;
        self.looked_at.iter().try_for_each(|Rejected { place, reason }| write!(formatter, "\n  {place}: {reason}"))
    }
}

impl std::error::Error for NotFound {}

/// Looks for a device compiler: the one [`VARIABLE`] names, rustup's, Debian's, a provisioned one.
///
/// The outer error is a [`VARIABLE`] that names something unusable, which nothing else stands in for.
pub fn find(environment: &Environment, workspace: &Workspace) -> Result<Result<DeviceCompiler, NotFound>> {
    if let Some(rustc) = environment.path(VARIABLE) {
        let rustc = std::path::absolute(&rustc).unwrap_or(rustc);
        let found = probe(&rustc, Origin::Variable);
        return found.map(Ok).with_context(|| format!("{VARIABLE} names {}, which is not usable", rustc.display()));
    }
    let mut looked_at = vec![Rejected { place: VARIABLE.into(), reason: "not set".into() }];
    if let Some(compiler) = find_rustup(environment, &mut looked_at) {
        return Ok(Ok(compiler));
    }
    let installed =
        [(environment.system("/usr/bin/rustc"), Origin::Debian), (provisioned_rustc(workspace), Origin::Provisioned)];
    for (rustc, origin) in installed {
        match probe(&rustc, origin) {
            Ok(compiler) => return Ok(Ok(compiler)),
            Err(error) => looked_at
                .push(Rejected { place: format!("{origin} ({})", rustc.display()), reason: first_line(&error) }),
        }
    }
    Ok(Err(NotFound { looked_at }))
}

/// Where a provisioned rustc lies.
pub fn provisioned_rustc(workspace: &Workspace) -> PathBuf {
    workspace.toolchain().join(PROVISIONED_FOLDER).join("usr/bin/rustc")
}

/// The best of rustup's toolchains: a prebuilt library before a source one, then the newest.
fn find_rustup(environment: &Environment, looked_at: &mut Vec<Rejected>) -> Option<DeviceCompiler> {
    let home = environment.path("RUSTUP_HOME").or_else(|| Some(environment.home()?.join(".rustup")));
    let Some(folder) = home.map(|home| home.join("toolchains")) else {
        looked_at.push(Rejected { place: "rustup".into(), reason: "neither RUSTUP_HOME nor HOME is set".into() });
        return None;
    };
    let mut toolchains: Vec<PathBuf> =
        fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    toolchains.sort();
    if toolchains.is_empty() {
        looked_at.push(Rejected { place: format!("rustup ({})", folder.display()), reason: "no toolchains".into() });
    }
    let mut usable = Vec::new();
    for toolchain in toolchains {
        match probe(&toolchain.join("bin/rustc"), Origin::Rustup) {
            Ok(compiler) => usable.push(compiler),
            Err(error) => looked_at.push(Rejected {
                place: format!("rustup toolchain {}", toolchain.file_name().unwrap_or_default().display()),
                reason: first_line(&error),
            }),
        }
    }
    usable.into_iter().max_by_key(|compiler| (compiler.library == DeviceLibrary::Prebuilt, compiler.version))
}

/// Runs `rustc` and checks that it is recent enough and has a library for the device.
pub fn probe(rustc: &Path, origin: Origin) -> Result<DeviceCompiler> {
    if !rustc.is_file() {
        bail!("not there");
    }
    let shared_libraries = unpacked_shared_libraries(rustc);
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(rustc);
        command.args(arguments);
        use_shared_libraries(&mut command, shared_libraries.as_deref());
        capture(&mut command)
    };
    // Only of a compiler that somebody named is it not known how it was installed, and running one takes a tenth of a second.
    let sysroot = match origin {
        Origin::Variable => ask(&["--print", "sysroot"]).context("does not say its sysroot")?.trim().into(),
        Origin::Rustup | Origin::Debian | Origin::Provisioned => installed_prefix(rustc),
    };
    let Some(library) = device_library(&sysroot) else {
        bail!("has neither the target {TARGET} nor library source (rust-src)");
    };
    let version_text = ask(&["--version"]).context("does not run")?;
    let version_line = version_text.trim().to_owned();
    let version = version_line
        .strip_prefix("rustc ")
        .and_then(Version::parse)
        .with_context(|| format!("does not say its version: {version_line:?}"))?;
    if version < Version::minimum() {
        bail!("{version_line} is older than {}", Version::minimum());
    }
    Ok(DeviceCompiler { rustc: rustc.to_owned(), origin, version_line, version, library, shared_libraries })
}

/// The folder in whose `bin` a program is.
fn installed_prefix(program: &Path) -> PathBuf {
    program.ancestors().nth(2).unwrap_or(program).to_owned()
}

/// Points the dynamic linker at `folder` and at nothing else: the libraries of the toolchain that built this program
/// must not reach another compiler.
pub fn use_shared_libraries(command: &mut Command, folder: Option<&Path>) {
    match folder {
        Some(folder) => command.env("LD_LIBRARY_PATH", folder),
        None => command.env_remove("LD_LIBRARY_PATH"),
    };
}

/// The library folder of a Debian package tree unpacked somewhere else than in `/`.
pub fn unpacked_shared_libraries(rustc: &Path) -> Option<PathBuf> {
    let prefix = installed_prefix(rustc);
    if prefix == Path::new("/usr") {
        return None;
    }
    let folders = fs::read_dir(prefix.join("lib")).ok()?.flatten().map(|entry| entry.path());
    folders.filter(|folder| folder.to_string_lossy().ends_with("-linux-gnu")).find(|folder| {
        let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.into_iter().any(|name| name.to_string_lossy().starts_with("librustc_driver"))
    })
}

fn device_library(sysroot: &Path) -> Option<DeviceLibrary> {
    let rustlib = sysroot.join("lib/rustlib");
    let prebuilt = fs::read_dir(rustlib.join(TARGET).join("lib")).into_iter().flatten().flatten();
    if prebuilt.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-")) {
        return Some(DeviceLibrary::Prebuilt);
    }
    let source = rustlib.join("src/rust");
    source.join("library/core/Cargo.toml").is_file().then_some(DeviceLibrary::Source(source))
}

/// The first line of an error and what lies under it, for one row of a table.
pub fn first_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use tempfile::TempDir;

    use super::{DeviceLibrary, NotFound, Origin, VARIABLE, Version, find};
    use crate::environment::{Environment, Workspace};

    /// A pretended file system: home, system root and workspace.
    struct Machine {
        folder: TempDir,
    }

    impl Machine {
        fn new() -> Self {
            Self { folder: TempDir::new().unwrap() }
        }

        fn path(&self, path: &str) -> PathBuf {
            self.folder.path().join(path)
        }

        /// A toolchain at `prefix` whose rustc says `version`, with the files `library` in its sysroot.
        fn add_toolchain(&self, prefix: &str, version: &str, library: &[&str]) -> PathBuf {
            let prefix = self.path(prefix);
            let rustc = prefix.join("bin/rustc");
            fs::create_dir_all(prefix.join("bin")).unwrap();
            symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/rustc"), &rustc).unwrap();
            fs::write(prefix.join("bin/rustc.version"), format!("rustc {version}\n")).unwrap();
            for file in library {
                let file = prefix.join("lib/rustlib").join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, "").unwrap();
            }
            rustc
        }

        fn environment(&self, variable: Option<&Path>) -> Environment {
            let home = self.path("home");
            Environment::pretend(&self.path("root"), [("HOME", &home), (VARIABLE, variable.unwrap_or(Path::new("")))])
        }

        fn find(&self) -> Result<super::DeviceCompiler, NotFound> {
            find(&self.environment(None), &Workspace::new(self.path("workspace"))).unwrap()
        }
    }

    const SOURCE: &[&str] = &["src/rust/library/core/Cargo.toml"];
    const PREBUILT: &[&str] = &["nvptx64-nvidia-cuda/lib/libcore-0123.rlib"];
    const RUSTUP: &str = "home/.rustup/toolchains";

    #[test]
    fn places_are_tried_in_order() {
        let machine = Machine::new();
        assert!(machine.find().is_err());
        machine.add_toolchain("workspace/.toolchain/rustc-web/usr", "1.96.0", SOURCE);
        assert_eq!(machine.find().unwrap().origin, Origin::Provisioned);
        machine.add_toolchain("root/usr", "1.96.0", SOURCE);
        assert_eq!(machine.find().unwrap().origin, Origin::Debian);
        machine.add_toolchain(&format!("{RUSTUP}/nightly"), "1.97.0-nightly", SOURCE);
        assert_eq!(machine.find().unwrap().origin, Origin::Rustup);
        let named = machine.add_toolchain("elsewhere", "1.95.0", PREBUILT);
        let workspace = Workspace::new(machine.path("workspace"));
        let found = find(&machine.environment(Some(&named)), &workspace).unwrap().unwrap();
        assert_eq!((found.origin, found.rustc), (Origin::Variable, named));
    }

    #[test]
    fn of_rustup_toolchains_a_prebuilt_library_wins_then_the_newest() {
        let machine = Machine::new();
        machine.add_toolchain(&format!("{RUSTUP}/stable"), "1.99.0", &[]);
        machine.add_toolchain(&format!("{RUSTUP}/a"), "1.97.0", SOURCE);
        machine.add_toolchain(&format!("{RUSTUP}/b"), "1.98.0-nightly (0 2026-01-01)", SOURCE);
        assert_eq!(machine.find().unwrap().version, Version(1, 98));
        machine.add_toolchain(&format!("{RUSTUP}/c"), "1.96.0", PREBUILT);
        let found = machine.find().unwrap();
        assert_eq!((found.version, found.library), (Version(1, 96), DeviceLibrary::Prebuilt));
    }

    #[test]
    fn every_place_says_why_it_was_rejected() {
        let machine = Machine::new();
        machine.add_toolchain(&format!("{RUSTUP}/bare"), "1.97.0", &[]);
        machine.add_toolchain(&format!("{RUSTUP}/old"), "1.90.0", SOURCE);
        let broken = machine.add_toolchain("root/usr", "", SOURCE);
        fs::remove_file(broken.with_extension("version")).unwrap();
        let message = machine.find().unwrap_err().to_string();
        for part in [
            "FA512_DEVICE_RUSTC: not set",
            "bare: has neither the target nvptx64-nvidia-cuda nor library source (rust-src)",
            "old: rustc 1.90.0 is older than",
            "root/usr/bin/rustc): does not run",
            ".toolchain/rustc-web/usr/bin/rustc): not there",
        ] {
            assert!(message.contains(part), "{part:?} is missing in: {message}");
        }
    }

    #[test]
    fn a_compiler_that_the_variable_names_has_no_stand_in() {
        let machine = Machine::new();
        machine.add_toolchain("root/usr", "1.96.0", SOURCE);
        let environment = machine.environment(Some(&machine.path("nowhere/rustc")));
        let error = find(&environment, &Workspace::new(machine.path("workspace"))).unwrap_err();
        assert!(format!("{error:#}").contains("nowhere/rustc, which is not usable: not there"), "{error:#}");
    }
}
