//! A pretended installation, and what is found of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{
    BACKEND_VARIABLE, CHECKOUT_VARIABLE, Examination, Installation, LIBNVVM_VARIABLE, RUSTC_VARIABLE, examine,
};
use crate::environment::{Environment, Workspace};

/// A complete installation in a folder of its own: the checkout, rustup's toolchain, and CUDA in the system.
pub struct Pretended {
    folder: TempDir,
}

const TOOLCHAIN: &str = "home/.rustup/toolchains/nightly-2026-04-02-x86_64-unknown-linux-gnu";
const BACKEND: &str = "checkout/target/release/librustc_codegen_nvvm.so";
const LIBNVVM: &str = "root/usr/local/cuda/nvvm/lib64/libnvvm.so.4";

impl Pretended {
    /// Puts everything in its place.
    pub fn new() -> Self {
        let pretended = Self { folder: TempDir::new().unwrap() };
        pretended.write("checkout/crates/cuda_std/Cargo.toml", "");
        pretended.write("checkout/Cargo.lock", "version = 4\n");
        pretended.write("checkout/rust-toolchain.toml", "[toolchain]\nchannel = \"nightly-2026-04-02\"\n");
        pretended.write(LIBNVVM, "code\0Cuda compilation tools, release 13.0, V13.0.88\0more");
        pretended.add_toolchain(TOOLCHAIN);
        pretended.add_backend(BACKEND, "librustc_driver-0123.so");
        pretended
    }

    /// The place of something in the folder.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// rustc, cargo, the driver's library and the source of `core`.
    fn add_toolchain(&self, toolchain: &str) {
        self.write(&format!("{toolchain}/bin/rustc.version"), "rustc 1.96.0-nightly (0123 2026-04-01)\n");
        self.write(&format!("{toolchain}/lib/librustc_driver-0123.so"), "");
        self.write(&format!("{toolchain}/lib/rustlib/src/rust/library/core/Cargo.toml"), "");
        for program in ["rustc", "cargo"] {
            let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(program);
            symlink(fixture, self.path(&format!("{toolchain}/bin/{program}"))).unwrap();
        }
    }

    /// A shared library that needs `driver`.
    fn add_backend(&self, place: &str, driver: &str) {
        self.write("stub/empty.c", "");
        fs::create_dir_all(self.path(place).parent().unwrap()).unwrap();
        let link = |arguments: &[&str]| {
            let mut cc = Command::new("cc");
            cc.current_dir(self.path("stub")).args(["-shared", "-nostdlib", "empty.c", "-o"]).args(arguments);
            assert!(cc.status().unwrap().success(), "cc {arguments:?}");
        };
        link(&["driver.so", &format!("-Wl,-soname,{driver}")]);
        link(&[self.path(place).to_str().unwrap(), "-Wl,--no-as-needed", "driver.so"]);
    }

    /// The environment: `HOME` and the system are this folder's, and `variables` name places in it.
    pub fn environment<const N: usize>(&self, variables: [(&str, &str); N]) -> Environment {
        let home = self.path("home");
        let named = variables.map(|(name, place)| (name, self.path(place)));
        let mut environment = Environment::pretend(&self.path("root"), [("HOME", &home)]);
        named.iter().for_each(|(name, place)| environment.set(name, place));
        environment
    }

    fn examine<const N: usize>(&self, variables: [(&str, &str); N]) -> Examination {
        examine(&self.environment(variables), &Workspace::new(self.path("workspace")), Some(&self.path("checkout")))
    }

    /// A workspace whose kernel-gpu has the manifest `kernel_gpu`.
    pub fn workspace(&self, kernel_gpu: &str) -> Workspace {
        self.write("workspace/kernel-gpu/Cargo.toml", kernel_gpu);
        Workspace::new(self.path("workspace"))
    }

    /// The installation.
    pub fn installation(&self) -> Installation {
        self.examine([]).installation().unwrap()
    }

    /// Why there is none.
    fn refusal<const N: usize>(&self, variables: [(&str, &str); N]) -> String {
        self.examine(variables)
            .installation()
            .unwrap_err()
            .to_string()
            .replace(self.folder.path().to_str().unwrap(), "")
    }
}

#[test]
fn an_installation_after_rust_cudas_own_guide_is_found_by_its_checkout_alone() {
    let pretended = Pretended::new();
    let found = pretended.installation();
    assert_eq!(found.rustc.path, pretended.path(TOOLCHAIN).join("bin/rustc"));
    assert_eq!(found.backend, pretended.path(BACKEND));
    assert_eq!(found.libnvvm.folder, pretended.path(LIBNVVM).parent().unwrap());
    assert_eq!(found.version(), "no commit; rustc 1.96.0-nightly (0123 2026-04-01); libNVVM 13.0, V13.0.88");
}

#[test]
fn the_variable_names_the_checkout_as_the_option_does() {
    let pretended = Pretended::new();
    let environment = pretended.environment([(CHECKOUT_VARIABLE, "checkout")]);
    let workspace = Workspace::new(pretended.path("workspace"));
    assert_eq!(examine(&environment, &workspace, None).installation().unwrap(), pretended.installation());
}

#[test]
fn what_is_among_the_tools_is_found_without_a_name() {
    let pretended = Pretended::new();
    let tools = pretended.path("workspace/.toolchain/rust-cuda");
    fs::create_dir_all(tools.join("cuda")).unwrap();
    for (from, to) in [("checkout", "rust-cuda"), ("home/.rustup", "rustup"), ("root/usr/local/cuda/nvvm", "cuda/nvvm")]
    {
        fs::rename(pretended.path(from), tools.join(to)).unwrap();
    }
    let workspace = Workspace::new(pretended.path("workspace"));
    let found = examine(&pretended.environment([]), &workspace, None).installation().unwrap();
    let places = [found.checkout.folder, found.rustc.path, found.backend, found.libnvvm.folder];
    assert!(places.iter().all(|place| place.starts_with(&tools)), "{places:?}");
}

#[test]
fn every_piece_can_be_somewhere_else() {
    let pretended = Pretended::new();
    pretended.add_toolchain("elsewhere/toolchain");
    pretended.add_backend("elsewhere/backend.so", "librustc_driver-0123.so");
    pretended.write("elsewhere/nvvm/libnvvm.so.4", "");
    let variables = [
        (RUSTC_VARIABLE, "elsewhere/toolchain/bin/rustc"),
        (BACKEND_VARIABLE, "elsewhere/backend.so"),
        (LIBNVVM_VARIABLE, "elsewhere/nvvm"),
    ];
    let found = pretended.examine(variables).installation().unwrap();
    let places = [found.rustc.path, found.backend, found.libnvvm.folder];
    assert_eq!(places, variables.map(|(_, place)| pretended.path(place)));
}

#[test]
fn a_machine_without_any_of_it_is_told_so_in_one_sentence() {
    let folder = TempDir::new().unwrap();
    let environment = Environment::pretend(folder.path(), [("HOME", folder.path())]);
    let workspace = Workspace::new(folder.path().join("workspace"));
    let message = examine(&environment, &workspace, None).installation().unwrap_err().to_string();
    assert!(message.starts_with("there is no usable Rust-CUDA on this machine (docs/rust-cuda.md): "), "{message}");
    let expected = [
        "checkout: neither --rust-cuda nor FA512_RUST_CUDA names one, and there is no /",
        "rustc: ",
        "backend: ",
        "libNVVM: ",
    ];
    assert!(expected.iter().all(|part| message.contains(part)), "{message}");
    assert!(!message.contains('\n') && !message.contains(". "), "more than one sentence: {message}");
}

#[test]
fn what_is_missing_is_named_with_what_would_help() {
    let pretended = Pretended::new();
    let missing = |place: &str, message: &str| {
        let (path, hidden) = (pretended.path(place), pretended.path("hidden"));
        fs::rename(&path, &hidden).unwrap();
        let refusal = pretended.refusal([]);
        assert!(refusal.contains(message) && !refusal.contains("; libNVVM: /"), "{message} is not in: {refusal}");
        fs::rename(&hidden, &path).unwrap();
    };
    missing("checkout/crates", "checkout: /checkout/crates/cuda_std/Cargo.toml is not there");
    missing(
        TOOLCHAIN,
        "rustc: rustup has no toolchain nightly-2026-04-02 in /workspace/.toolchain/rust-cuda/rustup or /home/.rustup",
    );
    missing(&format!("{TOOLCHAIN}/lib/rustlib"), "it lacks the source of its library (rust-src)");
    missing(
        BACKEND,
        "backend: no librustc_codegen_nvvm.so below /checkout/target; FA512_RUST_CUDA_BACKEND would name one",
    );
    missing(
        LIBNVVM,
        "libNVVM: no libnvvm.so.4 in /workspace/.toolchain/rust-cuda/cuda/nvvm/lib64 or /root/usr/local/cuda/nvvm/lib64; \
         FA512_LIBNVVM would name its folder",
    );
    assert!(pretended.examine([]).installation().is_ok(), "everything is back in its place");
}

#[test]
fn a_backend_for_another_rustc_is_refused() {
    let pretended = Pretended::new();
    pretended.add_backend("other.so", "librustc_driver-4567.so");
    let refusal = pretended.refusal([(BACKEND_VARIABLE, "other.so")]);
    let expected = format!("backend: /other.so is for another rustc: /{TOOLCHAIN}/lib has no librustc_driver-4567.so");
    assert!(refusal.ends_with(&expected), "{refusal}");
}

#[test]
fn the_workspace_resolves_nothing_of_rust_cuda() {
    let lock_file = include_str!("../../../Cargo.lock");
    assert!(lock_file.contains("name = \"kernel-gpu\"") && !lock_file.contains("name = \"cuda_std"));
}
