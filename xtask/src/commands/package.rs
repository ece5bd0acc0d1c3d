//! `cargo xtask package`: the library as its users get it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::ptx;
use super::trial::{self, Packed};
use crate::archive;
use crate::environment::{Environment, Workspace};
use crate::files;
use crate::kernels::{self, split};
use crate::machine::Machine;
use crate::output::print_line;
use crate::outside::{self, CRATES};
use crate::portable::{self, Toolset};
use crate::process;
use crate::progress::Step;
use crate::provision;
use crate::python::{Linker, build_wheel};
use crate::simulator;

/// Packs the library: the crates for publication, with PTX inside, the Python wheel, an archive of the C interface, and the wheel
/// of ptx-sim.
///
/// To check the crates, a program outside the workspace is built with them by Rust 1.85 and run. The C library and the wheels are linked
/// with zig for glibc 2.31 and later: for x86-64, or by --machine for aarch64.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Folder for the packages [default: target/packages]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only the crates, without the wheel and the archive of the C interface
    #[arg(long)]
    crates_only: bool,
    /// Only the wheels and the archive of the C interface, for this kind of machine
    #[arg(long, value_name = "MACHINE", conflicts_with = "crates_only")]
    machine: Option<Machine>,
    /// Also install them into empty folders and use them there, through the simulated driver, as a release does. What this machine cannot run
    /// is run by QEMU, which is downloaded from Debian with a Python and a C library, 76 MB
    #[arg(long = "try", conflicts_with = "crates_only")]
    tried: bool,
    /// Only check; leave nothing behind except cargo's own files
    #[arg(long, conflicts_with_all = ["out", "crates_only", "machine", "tried"])]
    check: bool,
}

impl Arguments {
    /// Builds the PTX, and packs crates and archive.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        if self.check {
            return check_crates(environment, workspace, None).map(drop);
        }
        let out = std::path::absolute(self.out.unwrap_or_else(|| workspace.packages()))?;
        match self.machine {
            // Crates are for all machines.
            Some(_) => drop(ptx::build(environment, workspace, &workspace.ptx())?),
            None => check_crates(environment, workspace, Some(&out))?.iter().try_for_each(|file| announce(file))?,
        }
        if self.crates_only {
            return Ok(());
        }
        let toolset = provision::toolset(environment, workspace, self.machine.unwrap_or(Machine::X86_64))?;
        let packed = pack_for(environment, workspace, &toolset, &out)?;
        packed.files().into_iter().try_for_each(announce)?;
        if self.tried { trial::packages(environment, workspace, &toolset, &packed) } else { Ok(()) }
    }
}

/// Builds the PTX, packs the crates into `out`, or where cargo puts them, and checks them.
pub fn check_crates(environment: &Environment, workspace: &Workspace, out: Option<&Path>) -> Result<Vec<PathBuf>> {
    ptx::build(environment, workspace, &workspace.ptx())?;
    let crates = pack_crates(environment, workspace, out)?;
    outside::check(environment, workspace, &crates)?;
    Ok(crates)
}

/// The archive of the C interface and both wheels for a kind of machine, in `out`, of the PTX that is there.
pub fn pack_for(environment: &Environment, workspace: &Workspace, toolset: &Toolset, out: &Path) -> Result<Packed> {
    let linker = Linker::Portable(toolset);
    let archive = pack_c(workspace, toolset, out)?;
    let wheel = build_wheel(environment, workspace, &workspace.python(), out, &linker)?;
    let libraries = simulator::build_libraries(environment, workspace, &linker)?;
    let simulator = simulator::build_wheel(environment, workspace, &libraries, out, &linker)?;
    Ok(Packed { archive, wheel, simulator, libraries })
}

fn announce(file: &Path) -> Result<()> {
    let bytes = fs::read(file).with_context(|| format!("could not read {}", file.display()))?;
    print_line(format_args!(
        "{}  {:.2} MB, SHA-256 {}",
        file.display(),
        bytes.len() as f64 / 1e6,
        files::sha256(&bytes)
    ))
}

/// The crates as they are published, in `out`, or where cargo puts them.
///
/// Cargo does not build them: it would take a crate that another one needs from its cache of what was packed before with
/// the same version. [`outside::check`] builds them.
pub fn pack_crates(environment: &Environment, workspace: &Workspace, out: Option<&Path>) -> Result<Vec<PathBuf>> {
    let kernels = Kernels::put(workspace)?;
    let step = Step::begin("packing the crates");
    let target = workspace.root().join("target/package-build");
    let mut cargo = Command::new(environment.cargo());
    cargo.current_dir(workspace.root()).args(["package", "--allow-dirty", "--no-verify", "--target-dir"]).arg(&target);
    for name in CRATES {
        cargo.args(["--package", name]);
    }
    process::run(&mut cargo)?;
    step.done();
    drop(kernels);
    let packed = CRATES.map(|name| format!("{name}-{}.crate", env!("CARGO_PKG_VERSION")));
    let place = |name: String| {
        let built = target.join("package").join(&name);
        let Some(out) = out else { return Ok(built) };
        files::copy(&built, &out.join(&name)).map(|()| out.join(name))
    };
    packed.into_iter().map(place).collect()
}

/// The compressed kernels in the folder of the crate that is packed, from which they are removed again: a checkout is
/// built with the PTX in `target`.
pub struct Kernels(PathBuf);

impl Kernels {
    /// Compresses them, of the PTX that is there.
    pub fn put(workspace: &Workspace) -> Result<Self> {
        let folder = workspace.library().join("kernels");
        let mut entries = Vec::new();
        for file in kernels::PTX_FILES {
            let path = workspace.ptx().join(file);
            let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
            let found = split::split(&text, split::Lines::LeftOut)
                .map_err(|refusal| anyhow!("{}: {refusal}", path.display()))?;
            entries.extend(found);
        }
        // Removed again, too, when they do not all fit on the disk.
        let placed = Self(folder);
        kernels::package::write(&placed.0, &entries, kernels::split::Lines::LeftOut).map_err(|why| anyhow!(why))?;
        Ok(placed)
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        // What stays is ignored by git, and by builds of a checkout.
        let _ = files::remove(&self.0);
    }
}

/// The archive of header, libraries and examples, in `out`.
fn pack_c(workspace: &Workspace, toolset: &Toolset, out: &Path) -> Result<PathBuf> {
    let machine = toolset.machine;
    let folder = out.join(format!("fa512-c-{}-{}-linux", env!("CARGO_PKG_VERSION"), machine.name()));
    let step = Step::begin(format!("building the C library for {}, glibc {}", machine.name(), portable::GLIBC));
    let mut build = toolset.build(workspace, portable::RELEASE, &["--package", "fa512-c"]);
    let (variable, value) = kernels::WITHOUT_LINE_TABLES;
    process::run(build.env(variable, value))?;
    step.done();
    let built = toolset.built(workspace, portable::RELEASE);
    let shared = built.join("libfa512.so");
    portable::check_needs(&fs::read(&shared)?, machine).context("libfa512.so is not packed")?;
    files::through_temporary_folder(&folder, |folder| fill_c(workspace, &built, folder))?;
    let archive = folder.with_added_extension("tar.gz");
    archive::pack(&folder, &archive)?;
    Ok(archive)
}

/// Puts header, examples and the libraries that are in `built` into `folder`.
fn fill_c(workspace: &Workspace, built: &Path, folder: &Path) -> Result<()> {
    files::copy(&built.join("libfa512.so"), &folder.join("lib/libfa512.so.0"))?;
    symlink("libfa512.so.0", folder.join("lib/libfa512.so"))?;
    files::copy(&built.join("libfa512.a"), &folder.join("lib/libfa512.a"))?;
    let library = workspace.library();
    files::copy(&library.join("include"), &folder.join("include"))?;
    files::copy(&library.join("c/examples"), &folder.join("examples"))?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        files::copy(&workspace.root().join(licence), &folder.join(licence))?;
    }
    let template = fs::read_to_string(library.join("c/fa512.pc.in"))?;
    // Found from where the file lies, so that the folder may be unpacked anywhere.
    let described = template.replace("@prefix@", "${pcfiledir}/../..").replace("@version@", env!("CARGO_PKG_VERSION"));
    files::write_atomically(&folder.join("lib/pkgconfig/fa512.pc"), described.as_bytes())
}
