//! Finds a Rust-CUDA installation: the pieces that its guide builds and installs.
//!
//! Rust-CUDA is a code generation backend for one nightly rustc: a shared library around LLVM 7, which hands its code to
//! libNVVM. A piece that neither an option nor a variable names is looked for in [`Folder`].

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::elf;
use crate::environment::{Environment, Workspace};
use crate::process::capture;

/// Names a checkout of Rust-CUDA's repository.
pub const CHECKOUT_VARIABLE: &str = "FA512_RUST_CUDA";
/// Names the backend, when it is not in the checkout's target folder.
pub const BACKEND_VARIABLE: &str = "FA512_RUST_CUDA_BACKEND";
/// Names the rustc that the backend was built for, when it is not rustup's toolchain of the checkout.
pub const RUSTC_VARIABLE: &str = "FA512_RUST_CUDA_RUSTC";
/// Names the folder of libNVVM, when it is not in a CUDA installation.
pub const LIBNVVM_VARIABLE: &str = "FA512_LIBNVVM";

/// File name of the backend.
const BACKEND: &str = "librustc_codegen_nvvm.so";
/// File name of libNVVM, as the backend asks the dynamic linker for it.
pub const LIBNVVM: &str = "libnvvm.so.4";

/// The commit of the repository that is installed.
pub const COMMIT: &str = "946c91f080770f30d42d7c706ac8185969274073";
/// The compiler that the backend is for, where there is no checkout that names another.
const CHANNEL: &str = "nightly-2026-04-02";

/// The folder of an installation among the workspace's tools.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// That of the workspace.
    pub fn of(workspace: &Workspace) -> Self {
        Self(workspace.toolchain().join("rust-cuda"))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The compiler that the backend is for.
    pub fn channel(&self) -> String {
        channel(&self.checkout()).unwrap_or_else(|| CHANNEL.into())
    }

    /// The checkout of the repository.
    pub fn checkout(&self) -> PathBuf {
        self.0.join("rust-cuda")
    }

    /// rustup's home with the compiler. It is not the user's: a nightly with `rust-src` there would become the device compiler.
    pub fn rustup(&self) -> PathBuf {
        self.0.join("rustup")
    }

    /// CUDA, as in `/usr/local/cuda`.
    pub fn cuda(&self) -> PathBuf {
        self.0.join("cuda")
    }

    /// LLVM 7, as its build leaves it.
    pub fn llvm(&self) -> PathBuf {
        self.0.join("llvm-7")
    }
}

/// A checkout of Rust-CUDA's repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// The folder.
    pub folder: PathBuf,
    /// Its commit, where git says.
    pub commit: Option<String>,
}

impl Checkout {
    /// The crate that kernels are written with.
    pub fn cuda_std(&self) -> PathBuf {
        self.folder.join("crates/cuda_std")
    }

    /// The versions of other crates that it was tried with.
    pub fn lock_file(&self) -> PathBuf {
        self.folder.join("Cargo.lock")
    }

    fn version(&self) -> String {
        self.commit.clone().unwrap_or_else(|| "no commit".into())
    }
}

/// The compiler that the backend is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rustc {
    /// The program.
    pub path: PathBuf,
    /// What `rustc --version` says.
    pub version_line: String,
    /// Its sysroot.
    pub sysroot: PathBuf,
}

impl Rustc {
    /// The folder of its own shared libraries.
    pub fn libraries(&self) -> PathBuf {
        self.sysroot.join("lib")
    }

    /// The folder of the source of its libraries.
    pub fn source(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib/src/rust")
    }
}

/// NVIDIA's libNVVM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibNvvm {
    /// Its folder.
    pub folder: PathBuf,
    /// Release of the CUDA toolkit it belongs to, as in `13.0, V13.0.88`.
    pub release: String,
}

/// Result of [`examine`] for one piece: the piece, or why it is not usable and what would help.
pub type Piece<T> = Result<T, String>;

/// All pieces of an installation.
#[derive(Debug)]
pub struct Examination {
    /// The repository.
    pub checkout: Piece<Checkout>,
    /// The compiler.
    pub rustc: Piece<Rustc>,
    /// The backend.
    pub backend: Piece<PathBuf>,
    /// The library behind the backend.
    pub libnvvm: Piece<LibNvvm>,
}

/// An installation that can compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The repository.
    pub checkout: Checkout,
    /// The compiler.
    pub rustc: Rustc,
    /// The backend.
    pub backend: PathBuf,
    /// The library behind the backend.
    pub libnvvm: LibNvvm,
}

impl Installation {
    /// The versions of its parts, for the manifest.
    pub fn version(&self) -> String {
        format!("{}; {}; libNVVM {}", self.checkout.version(), self.rustc.version_line, self.libnvvm.release)
    }
}

/// There is no usable installation.
#[derive(Debug, PartialEq, Eq)]
pub struct NotInstalled {
    /// The missing pieces, with reasons.
    missing: Vec<(&'static str, String)>,
}

impl fmt::Display for NotInstalled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |what: &'static str| what.strip_prefix("Rust-CUDA ").unwrap_or(what);
        let missing: Vec<String> = self.missing.iter().map(|(what, why)| format!("{}: {why}", short(what))).collect();
        write!(formatter, "there is no usable Rust-CUDA on this machine (docs/rust-cuda.md): {}", missing.join("; "))
    }
}

impl std::error::Error for NotInstalled {}

/// Looks for every piece. `checkout` names the repository, else [`CHECKOUT_VARIABLE`] does.
pub fn examine(environment: &Environment, workspace: &Workspace, checkout: Option<&Path>) -> Examination {
    let tools = Folder::of(workspace);
    let checkout = find_checkout(environment, &tools, checkout);
    let folder = checkout.as_ref().ok().map(|checkout| checkout.folder.as_path());
    let rustc = find_rustc(environment, &tools, folder);
    let backend = find_backend(environment, folder, rustc.as_ref().ok());
    let libnvvm = find_libnvvm(environment, &tools);
    Examination { checkout, rustc, backend, libnvvm }
}

impl Examination {
    /// Whether all pieces are there.
    pub fn is_complete(&self) -> bool {
        self.checkout.is_ok() && self.rustc.is_ok() && self.backend.is_ok() && self.libnvvm.is_ok()
    }

    /// The installation, if all pieces are present.
    pub fn installation(self) -> Result<Installation, NotInstalled> {
        match self {
            Self { checkout: Ok(checkout), rustc: Ok(rustc), backend: Ok(backend), libnvvm: Ok(libnvvm) } => {
                Ok(Installation { checkout, rustc, backend, libnvvm })
            }
            incomplete => {
                let missing = incomplete.pieces().into_iter();
                Err(NotInstalled { missing: missing.filter_map(|(what, found)| Some((what, found.err()?))).collect() })
            }
        }
    }

    /// Name of every piece, with its version and path or why it is not usable.
    pub fn pieces(&self) -> [(&'static str, Piece<(String, PathBuf)>); 4] {
        let checkout = self.checkout.as_ref().map(|checkout| (checkout.version(), checkout.folder.clone()));
        let rustc = self.rustc.as_ref().map(|rustc| (rustc.version_line.clone(), rustc.path.clone()));
        let backend = self.backend.as_ref().map(|backend| ("for this rustc".to_owned(), backend.clone()));
        let libnvvm = self.libnvvm.as_ref().map(|libnvvm| (libnvvm.release.clone(), libnvvm.folder.clone()));
        let pieces = [
            ("Rust-CUDA checkout", checkout),
            ("Rust-CUDA rustc", rustc),
            ("Rust-CUDA backend", backend),
            ("libNVVM", libnvvm),
        ];
        pieces.map(|(what, piece)| (what, piece.map_err(String::clone)))
    }
}

fn find_checkout(environment: &Environment, tools: &Folder, named: Option<&Path>) -> Piece<Checkout> {
    let named = named.map(Path::to_owned).or_else(|| environment.path(CHECKOUT_VARIABLE));
    let of_tools = || Some(tools.checkout()).filter(|folder| folder.is_dir());
    let folder = named.or_else(of_tools).ok_or_else(|| {
        let place = tools.checkout();
        format!("neither --rust-cuda nor {CHECKOUT_VARIABLE} names one, and there is no {}", place.display())
    })?;
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let commit = Workspace::new(folder.clone()).git_commit();
    let checkout = Checkout { folder, commit };
    let manifest = checkout.cuda_std().join("Cargo.toml");
    if !manifest.is_file() {
        return Err(format!("{} is not there", manifest.display()));
    }
    Ok(checkout)
}

fn find_rustc(environment: &Environment, tools: &Folder, checkout: Option<&Path>) -> Piece<Rustc> {
    let path = match environment.path(RUSTC_VARIABLE) {
        Some(path) => std::path::absolute(&path).unwrap_or(path),
        None => rustup_rustc(environment, tools, checkout)?,
    };
    probe_rustc(&path).map_err(|error| format!("{} is not usable: {}", path.display(), one_line(&error)))
}

/// rustc of the toolchain that the checkout's `rust-toolchain.toml` names, in the tools' rustup or the user's.
fn rustup_rustc(environment: &Environment, tools: &Folder, checkout: Option<&Path>) -> Piece<PathBuf> {
    let help = format!("{RUSTC_VARIABLE} would name one");
    let of_checkout = |checkout: &Path| {
        let file = checkout.join("rust-toolchain.toml");
        channel(checkout).ok_or_else(|| format!("{} names no channel; {help}", file.display()))
    };
    let channel = checkout.map_or(Ok(CHANNEL.into()), of_checkout)?;
    let of_user = environment.path("RUSTUP_HOME").or_else(|| Some(environment.home()?.join(".rustup")));
    let homes: Vec<PathBuf> = [Some(tools.rustup()), of_user].into_iter().flatten().collect();
    let toolchain = homes.iter().find_map(|home| toolchain(&home.join("toolchains"), &channel));
    toolchain.map(|toolchain| toolchain.join("bin/rustc")).ok_or_else(|| {
        let homes: Vec<String> = homes.iter().map(|home| home.display().to_string()).collect();
        format!("rustup has no toolchain {channel} in {}; {help}", homes.join(" or "))
    })
}

/// The toolchain that a checkout's `rust-toolchain.toml` names.
fn channel(checkout: &Path) -> Option<String> {
    let table: toml::Table = fs::read_to_string(checkout.join("rust-toolchain.toml")).ok()?.parse().ok()?;
    Some(table.get("toolchain")?.get("channel")?.as_str()?.to_owned())
}

/// The toolchain of `channel` among `toolchains`.
fn toolchain(toolchains: &Path, channel: &str) -> Option<PathBuf> {
    let installed = fs::read_dir(toolchains).into_iter().flatten().flatten().map(|one| one.path());
    installed.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(channel))).min()
}

fn probe_rustc(path: &Path) -> Result<Rustc> {
    let ask = |arguments: &[&str]| capture(Command::new(path).args(arguments).env_remove("LD_LIBRARY_PATH"));
    let version_line = ask(&["--version"])?.trim().to_owned();
    let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?.trim());
    let rustc = Rustc { path: path.to_owned(), version_line, sysroot };
    let core = rustc.source().join("library/core/Cargo.toml");
    fs::metadata(&core)
        .with_context(|| format!("it lacks the source of its library (rust-src), {}", core.display()))?;
    Ok(rustc)
}

/// The backend that [`BACKEND_VARIABLE`] names, else the newest in the checkout's target folder.
fn find_backend(environment: &Environment, checkout: Option<&Path>, rustc: Option<&Rustc>) -> Piece<PathBuf> {
    let path = match environment.path(BACKEND_VARIABLE) {
        Some(path) => std::path::absolute(&path).unwrap_or(path),
        None => {
            let help = format!("{BACKEND_VARIABLE} would name one");
            let checkout = checkout.ok_or_else(|| format!("no checkout to look in; {help}"))?;
            let places = [
                "target/release",
                "target/debug",
                "target/cuda-builder-codegen/release",
                "target/cuda-builder-codegen/debug",
            ];
            let built =
                places.map(|place| checkout.join(place).join(BACKEND)).into_iter().filter(|path| path.is_file());
            let newest = built.max_by_key(|path| fs::metadata(path).and_then(|file| file.modified()).ok());
            newest.ok_or_else(|| format!("no {BACKEND} below {}; {help}", checkout.join("target").display()))?
        }
    };
    let needed = fs::read(&path).map_err(anyhow::Error::from).and_then(|bytes| Ok(elf::needs(&bytes)?.libraries));
    let needed = needed.map_err(|error| format!("{} is no shared library: {}", path.display(), one_line(&error)))?;
    // A backend uses the compiler's own functions, which another build of the compiler has not.
    let driver = needed.iter().find(|library| library.starts_with("librustc_driver"));
    if let Some((driver, rustc)) = driver.zip(rustc)
        && !rustc.libraries().join(driver).is_file()
    {
        return Err(format!(
            "{} is for another rustc: {} has no {driver}",
            path.display(),
            rustc.libraries().display()
        ));
    }
    Ok(path)
}

/// libNVVM in the folder that [`LIBNVVM_VARIABLE`] names, else of the tools' CUDA or another installation.
fn find_libnvvm(environment: &Environment, tools: &Folder) -> Piece<LibNvvm> {
    let installations = [
        Some(tools.cuda()),
        environment.path("CUDA_HOME"),
        environment.path("CUDA_PATH"),
        Some(environment.system("/usr/local/cuda")),
    ];
    let folders: Vec<PathBuf> = match environment.path(LIBNVVM_VARIABLE) {
        Some(folder) => vec![std::path::absolute(&folder).unwrap_or(folder)],
        None => installations.into_iter().flatten().map(|cuda| cuda.join("nvvm/lib64")).collect(),
    };
    let Some(folder) = folders.iter().find(|folder| folder.join(LIBNVVM).is_file()) else {
        let looked_at: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        return Err(format!("no {LIBNVVM} in {}; {LIBNVVM_VARIABLE} would name its folder", looked_at.join(" or ")));
    };
    let release = release(&folder.join(LIBNVVM)).unwrap_or_else(|| "of an unknown release".into());
    Ok(LibNvvm { folder: folder.clone(), release })
}

/// The release that libNVVM writes into the head of its PTX, as in `13.0, V13.0.88`.
fn release(library: &Path) -> Option<String> {
    const PREFIX: &[u8] = b"Cuda compilation tools, release ";
    let bytes = fs::read(library).ok()?;
    let release = bytes.split(|byte| *byte == 0).find_map(|text| text.strip_prefix(PREFIX))?;
    std::str::from_utf8(release).ok().map(|release| release.trim().to_owned())
}

/// Search path of the dynamic linker for the backend: the folders of all libraries that are not the system's.
pub fn library_path(installation: &Installation) -> OsString {
    let backend = installation.backend.parent().map(Path::to_owned).unwrap_or_default();
    let folders = [backend, installation.rustc.libraries(), installation.libnvvm.folder.clone()];
    // Folders with a colon in their name cannot be in a search path.
    std::env::join_paths(folders.iter()).unwrap_or_default()
}

/// An error in one line.
fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub mod tests;
