//! Provisioning against stand-ins for Debian's tools.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::cuda_tool::CudaTool;
use crate::device_compiler::{self, Origin};
use crate::emulator::{self, Emulator};
use crate::environment::{Environment, Workspace};
use crate::machine::Machine as Kind;
use crate::nvcc::Nvcc;
use crate::standard_library::StandardLibrary;

/// A machine with nothing but Debian's package tools and an empty workspace.
pub struct Machine {
    /// Everything of it.
    pub folder: TempDir,
}

impl Machine {
    /// A new one.
    pub fn new() -> Self {
        let machine = Self { folder: TempDir::new().unwrap() };
        let tools = machine.tools();
        fs::create_dir_all(tools.join("pool")).unwrap();
        for tool in ["apt-get", "apt-cache", "dpkg", "dpkg-query"] {
            symlink(fixture("debian-tool"), tools.join(tool)).unwrap();
        }
        let rustc = format!(
            "mkdir -p usr/bin usr/lib/rustlib/src; ln -s {} usr/bin/rustc; echo 'rustc 1.96.0 (pretended)' > usr/bin/rustc.version\n",
            fixture("rustc").display()
        );
        machine.add_package("rustc-web_1.96.0_amd64.deb", &rustc);
        machine.add_package(
            "rust-web-src_1.96.0_all.deb",
            "mkdir -p usr/lib/rustlib/src/rust/library/core; : > usr/lib/rustlib/src/rust/library/core/Cargo.toml\n",
        );
        machine.add_package("rust-web-clippy_1.96.0_amd64.deb", ": the linter\n");
        machine.add_package("libstd-rust-web-dev_1.96.0_amd64.deb", ": the standard library\n");
        machine
    }

    /// The only folder of programs.
    pub fn tools(&self) -> PathBuf {
        self.folder.path().join("tools")
    }

    fn add_package(&self, file: &str, script: &str) {
        fs::write(self.tools().join("pool").join(file), script).unwrap();
    }

    /// The workspace.
    pub fn workspace(&self) -> Workspace {
        Workspace::new(self.folder.path().join("workspace"))
    }

    /// What names all of this.
    pub fn environment(&self) -> Environment {
        let path = |name| self.folder.path().join(name);
        Environment::pretend(&path("root"), [("PATH", &path("tools")), ("HOME", &path("home"))])
    }

    fn provision(&self) -> anyhow::Result<device_compiler::DeviceCompiler> {
        super::device_compiler(&self.environment(), &self.workspace())
    }

    /// Leaves a file that changes what a stand-in does.
    pub fn mark(&self, name: &str) {
        fs::write(self.tools().join(name), "").unwrap();
    }

    /// The package names of every real download so far.
    fn downloads(&self) -> Vec<String> {
        let log = fs::read_to_string(self.tools().join("log")).unwrap_or_default();
        let downloads = log.lines().filter_map(|line| line.strip_prefix("apt-get download "));
        downloads.filter(|names| !names.starts_with("--print-uris")).map(str::to_owned).collect()
    }
}

/// A stand-in for a program.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

#[test]
fn a_machine_without_a_compiler_gets_one_and_keeps_it() {
    let machine = Machine::new();
    let compiler = machine.provision().unwrap();
    assert_eq!(compiler.origin, Origin::Provisioned);
    assert_eq!(compiler.version_line, "rustc 1.96.0 (pretended)");
    assert_eq!(machine.provision().unwrap(), compiler);
    assert_eq!(machine.downloads().len(), 1, "the second call must not download anything");
    let left = fs::read_dir(machine.workspace().toolchain().join("download")).unwrap().count();
    assert_eq!(left, 0, "package files are of no use once they are unpacked");
}

#[test]
fn an_interrupted_download_leaves_no_compiler_and_is_resumed() {
    let machine = Machine::new();
    machine.mark("interrupt-at-rustc-web");
    // The second attempt of the same call, with fresh package lists, must be interrupted as well.
    machine.mark("no-lists");
    let error = format!("{:#}", machine.provision().unwrap_err());
    assert!(error.contains("connection lost"), "{error}");
    let toolchain = machine.workspace().toolchain();
    assert!(!toolchain.join("rustc-web").exists(), "half a compiler must not look like one");

    machine.provision().unwrap();
    assert_eq!(
        machine.downloads(),
        ["libstd-rust-web-dev=1.96.0 rust-web-clippy=1.96.0 rust-web-src=1.96.0 rustc-web=1.96.0", "rustc-web=1.96.0"],
        "what had arrived whole must not be fetched again"
    );
}

#[test]
fn a_damaged_package_is_fetched_again() {
    let machine = Machine::new();
    let downloads = machine.workspace().toolchain().join("download");
    fs::create_dir_all(&downloads).unwrap();
    let size = fs::metadata(machine.tools().join("pool/rustc-web_1.96.0_amd64.deb")).unwrap().len();
    fs::write(downloads.join("rustc-web_1.96.0_amd64.deb"), vec![0; size as usize]).unwrap();
    machine.provision().unwrap();
    assert!(machine.downloads()[0].contains("rustc-web"));
}

#[test]
fn an_interrupted_unpacking_is_cleared_away() {
    let machine = Machine::new();
    let left = machine.workspace().toolchain().join(".unfinished-rustc-web.1");
    fs::create_dir_all(left.join("usr")).unwrap();
    machine.provision().unwrap();
    assert!(!left.exists());
}

#[test]
fn package_lists_are_fetched_where_the_system_has_none() {
    let machine = Machine::new();
    machine.mark("no-lists");
    machine.provision().unwrap();
    assert!(machine.tools().join("updated").exists());
}

#[test]
fn a_compiler_that_is_too_old_is_not_downloaded() {
    let machine = Machine::new();
    fs::remove_file(machine.tools().join("pool/rustc-web_1.96.0_amd64.deb")).unwrap();
    machine.add_package("rustc-web_1.85.0_amd64.deb", "exit 1\n");
    let error = format!("{:#}", machine.provision().unwrap_err());
    assert!(error.contains("rustc-web that apt knows is 1.85.0"), "{error}");
    assert_eq!(machine.downloads(), Vec::<String>::new());
}

#[test]
fn without_debian_the_error_says_where_was_looked_and_what_would_help() {
    let machine = Machine::new();
    fs::remove_file(machine.tools().join("apt-get")).unwrap();
    let error = format!("{:#}", machine.provision().unwrap_err());
    for part in [
        "FA512_DEVICE_RUSTC: not set",
        "rustup",
        "Debian's rustc-web",
        ".toolchain",
        "there is no apt-get",
        "This would help: `rustup toolchain install nightly --component rust-src`",
    ] {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[test]
fn the_advice_fits_the_system() {
    let machine = Machine::new();
    let advice = || super::compiler_command(&machine.environment());
    assert_eq!(advice(), "rustup toolchain install nightly --component rust-src");
    let release = machine.folder.path().join("root/etc");
    fs::create_dir_all(&release).unwrap();
    fs::write(release.join("os-release"), "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n").unwrap();
    assert_eq!(advice(), "sudo apt-get install rustc-web rust-web-src");
    machine.mark("rustup");
    assert_eq!(advice(), "rustup toolchain install nightly --component rust-src");
}

#[test]
fn the_oldest_rust_is_provisioned_beside_a_newer_one_and_kept() {
    let machine = Machine::new();
    let rustc = format!(
        "mkdir -p usr/bin; ln -s {} usr/bin/rustc; echo 'rustc 1.85.0 (pretended)' > usr/bin/rustc.version\n",
        fixture("rustc").display()
    );
    machine.add_package("rustc-web_1.85.0+dfsg3-1~deb12u3_amd64.deb", &rustc);
    machine.add_package("libstd-rust-web-dev_1.85.0+dfsg3-1~deb12u3_amd64.deb", ": the standard library\n");
    machine.add_package("libstd-rust-web-1.85_1.85.0+dfsg3-1~deb12u3_amd64.deb", ": its shared half\n");
    for _ in 0..2 {
        super::oldest_rust(&machine.environment(), &machine.workspace()).unwrap();
    }
    assert_eq!(machine.downloads().len(), 1, "the second call must not download anything");
}

#[test]
fn the_standard_library_of_another_machine_has_the_version_of_its_compiler_and_is_kept() {
    let machine = Machine::new();
    let library = "mkdir -p usr/lib/rustlib/aarch64-unknown-linux-gnu/lib\n";
    machine.add_package("libstd-rust-web-dev_1.96.0_arm64.deb", library);
    machine.add_package("libstd-rust-web-dev_1.97.0_arm64.deb", "exit 1\n");
    for _ in 0..2 {
        let found =
            super::standard_library(&machine.environment(), &machine.workspace(), Kind::Aarch64).expect("a library");
        let StandardLibrary::Unpacked { rustc, .. } = found else { panic!("{found:?}") };
        assert!(rustc.is_file(), "{}", rustc.display());
    }
    assert_eq!(machine.downloads()[1..], ["libstd-rust-web-dev:arm64=1.96.0"]);
}

#[test]
fn without_debian_the_error_names_what_would_get_the_library_of_another_machine() {
    let machine = Machine::new();
    fs::remove_file(machine.tools().join("apt-get")).unwrap();
    let refused = super::standard_library(&machine.environment(), &machine.workspace(), Kind::Aarch64);
    let error = format!("{:#}", refused.unwrap_err());
    for part in ["`rustup target add aarch64-unknown-linux-gnu`", "there is no apt-get"] {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[test]
fn an_emulator_is_complete_once_its_python_ran() {
    let machine = Machine::new();
    for package in emulator::packages(Kind::Aarch64) {
        let (name, architecture) = package.split_once(':').unwrap_or((&package, "all"));
        machine.add_package(&format!("{name}_1_{architecture}.deb"), ": a part\n");
    }
    let qemu = |what: &str| {
        format!(
            "mkdir -p usr/bin; cd usr/bin; echo '{what}' > qemu-aarch64-static; chmod +x qemu-*; : > qemu-arm-static\n"
        )
    };
    let runner = || super::runner(&machine.environment(), &machine.workspace(), Kind::Aarch64);
    machine.add_package("qemu-user-static_1_all.deb", &qemu("exit 1"));
    assert!(format!("{:#}", runner().unwrap_err()).contains("qemu-aarch64-static"));
    machine.add_package("qemu-user-static_1_all.deb", &qemu("#!/bin/sh"));
    runner().unwrap();
    let programs = Emulator::folder(&machine.workspace(), Kind::Aarch64).join("usr/bin");
    let kept: Vec<_> = fs::read_dir(programs).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(kept, ["qemu-aarch64-static"], "QEMU's programs for other machines");
}

#[test]
fn without_the_oldest_rust_the_check_fails_and_says_what_would_help() {
    let machine = Machine::new();
    fs::remove_file(machine.tools().join("apt-get")).unwrap();
    let error = format!("{:#}", super::oldest_rust(&machine.environment(), &machine.workspace()).unwrap_err());
    assert!(error.contains("there is no apt-get"), "{error}");
    assert!(error.contains("`rustup toolchain install 1.85.0 --profile minimal`"), "{error}");
}

#[test]
fn without_nvcc_and_python_the_error_says_where_was_looked() {
    let machine = Machine::new();
    let error = format!("{:#}", super::nvcc(&machine.environment(), &machine.workspace()).unwrap_err());
    for part in ["FA512_NVCC", "CUDA_HOME", "PATH", "there is no python3 to get a Python wheel with"] {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn an_nvcc_of_the_machine_is_used_before_a_provisioned_one() {
    let machine = Machine::new();
    let installed = machine.folder.path().join("root/usr/local/cuda/bin/nvcc");
    let provisioned = Nvcc::provisioned(&machine.workspace());
    for place in [&provisioned, &installed] {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        // Says `release 13.0, V13.0.88`, as nvcc does.
        symlink(fixture("ptxas"), place).unwrap();
        let found = super::nvcc(&machine.environment(), &machine.workspace()).unwrap();
        assert_eq!((&found.path, found.version.as_str()), (place, "13.0, V13.0.88"));
    }
}
