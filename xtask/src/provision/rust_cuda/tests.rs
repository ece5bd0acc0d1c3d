//! Installing against stand-ins for rustup, git, cmake, ninja and cargo.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::super::tests::{Machine, fixture};
use super::rust_cuda;
use super::sources::LLVM;
use crate::rust_cuda::{COMMIT, Examination};

/// A machine with libNVVM and with stand-ins that log their calls.
struct Builder(Machine);

impl Builder {
    fn new() -> Self {
        let builder = Self(Machine::new());
        let libnvvm = builder.path("root/usr/local/cuda/nvvm/lib64/libnvvm.so.4");
        fs::create_dir_all(libnvvm.parent().unwrap()).unwrap();
        fs::write(libnvvm, "").unwrap();
        let tools = builder.0.tools();
        for program in ["tar", "xz", "c++", "python3", "pkg-config"] {
            symlink("/bin/true", tools.join(program)).unwrap();
        }
        builder.add("curl", "exit 6");
        builder.add(
            "git",
            "[ $1 = clone ] || exit 0; mkdir -p $5/crates/cuda_std; : > $5/crates/cuda_std/Cargo.toml\n\
             printf '[toolchain]\\nchannel = \"nightly-2026-04-02\"\\n' > $5/rust-toolchain.toml",
        );
        builder.add("cmake", "mkdir -p $7");
        builder.add("ninja", "echo '[1/1] all'");
        let rustc = fixture("rustc");
        let toolchain = format!(
            "t=$RUSTUP_HOME/toolchains/$3-host; mkdir -p $t/bin $t/lib/rustlib/src/rust/library/core; ln -s {} $t/bin/rustc\n\
             echo 'rustc 1.96.0-nightly' > $t/bin/rustc.version; : > $t/lib/rustlib/src/rust/library/core/Cargo.toml\n\
             cp {} $t/bin/cargo",
            rustc.display(),
            tools.join("backends-cargo").display()
        );
        builder.add("rustup", &toolchain);
        // Any shared library that needs no compiler's.
        builder.add("backends-cargo", "mkdir -p $7/release; cp /bin/sh $7/release/librustc_codegen_nvvm.so");
        builder
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.folder.path().join(path)
    }

    /// A program that logs its call, fails if it shall, and else runs `script`.
    fn add(&self, program: &str, script: &str) {
        let path = self.0.tools().join(program);
        let tools = self.0.tools().display().to_string();
        let text = format!(
            "#!/bin/sh\necho \"{program} $*\" >> {tools}/log\n[ ! -e {tools}/{program}.fails ] || exit 1\n{script}\n"
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// With LLVM's sources where an earlier call left them.
    fn with_llvm() -> Self {
        let builder = Self::new();
        fs::create_dir_all(builder.path("workspace/.toolchain/rust-cuda").join(LLVM)).unwrap();
        builder
    }

    fn install(&self) -> anyhow::Result<Examination> {
        rust_cuda(&self.0.environment(), &self.0.workspace(), Some(&self.path("sources")))
    }

    /// The error without this machine's paths.
    fn refusal(&self) -> String {
        format!("{:#}", self.install().unwrap_err()).replace(self.0.folder.path().to_str().unwrap(), "")
    }

    fn fails(&self, program: &str, fails: bool) {
        let mark = format!("{program}.fails");
        match fails {
            true => self.0.mark(&mark),
            false => fs::remove_file(self.0.tools().join(mark)).unwrap(),
        }
    }

    /// How often `program` was called.
    fn calls(&self, program: &str) -> Vec<String> {
        let log = fs::read_to_string(self.0.tools().join("log")).unwrap();
        log.lines().filter_map(|line| line.strip_prefix(program)?.strip_prefix(' ')).map(str::to_owned).collect()
    }
}

#[test]
fn an_interrupted_installation_is_continued_and_a_complete_one_stays() {
    let builder = Builder::with_llvm();
    for (program, piece) in [
        ("git", "Rust-CUDA's repository"),
        ("rustup", "the compiler"),
        ("ninja", "LLVM 7: "),
        ("backends-cargo", "the backend: "),
    ] {
        builder.fails(program, true);
        let refusal = builder.refusal();
        assert!(refusal.starts_with(piece), "{refusal}");
        builder.fails(program, false);
    }
    for _ in 0..2 {
        let found = builder.install().unwrap();
        assert!(found.is_complete(), "{found:?}");
    }
    let clone = "clone --quiet --no-checkout https://github.com/Rust-GPU/rust-cuda ";
    let git = builder.calls("git");
    assert_eq!(git.len(), 3, "a clone that fails, one that does not, and the checkout: {git:?}");
    assert!(git[1].starts_with(clone) && git[2].ends_with(&format!(" checkout --quiet {COMMIT}")), "{git:?}");
    assert_eq!(
        [builder.calls("ninja").len(), builder.calls("backends-cargo").len()],
        [3, 2],
        "no call after a success"
    );
}

#[test]
fn the_compiler_does_not_go_into_the_users_rustup() {
    let builder = Builder::with_llvm();
    let rustup = builder.path("workspace/.toolchain/rust-cuda/rustup");
    builder.fails("rustup", true);
    builder.refusal();
    assert!(!rustup.exists(), "half a compiler must not look like one");
    builder.fails("rustup", false);
    let rustc = builder.install().unwrap().rustc.unwrap().path;
    assert!(rustc.starts_with(rustup), "{}", rustc.display());
    let call = "toolchain install nightly-2026-04-02 --profile minimal --no-self-update \
                --component rust-src --component rustc-dev --component llvm-tools";
    assert_eq!(builder.calls("rustup"), [call, call], "once without success, once with");
    assert!(!builder.path("home/.rustup").exists());
}

#[test]
fn what_cannot_be_reached_is_named_with_its_place() {
    let builder = Builder::new();
    let refusal = builder.refusal();
    let expected = "LLVM 7.1.0's sources are not here and cannot be downloaded from https://github.com/llvm/llvm-project/releases/\
                    download/llvmorg-7.1.0/llvm-7.1.0.src.tar.xz: bring llvm-7.1.0.src.tar.xz (or its contents in a folder \
                    llvm-7.1.0.src) as /workspace/.toolchain/download/llvm-7.1.0.src.tar.xz, or into another folder and give --sources DIR: ";
    assert!(refusal.starts_with(expected), "{refusal}");
    builder.fails("git", true);
    fs::remove_dir_all(builder.path("workspace/.toolchain/rust-cuda/rust-cuda")).unwrap();
    let refusal = builder.refusal();
    let expected = format!(
        "Rust-CUDA's repository with commit {COMMIT} is not to be had from https://github.com/Rust-GPU/rust-cuda: \
         bring a clone of it as /workspace/.toolchain/download/rust-cuda, or into another folder and give --sources DIR: "
    );
    assert!(refusal.starts_with(&expected), "{refusal}");
}

#[test]
fn other_sources_are_refused() {
    let builder = Builder::new();
    let sources = builder.path("sources");
    for folder in ["include", "lib"] {
        fs::create_dir_all(sources.join(LLVM).join(folder)).unwrap();
    }
    let refusal = builder.refusal();
    assert!(
        refusal.starts_with("/sources/llvm-7.1.0.src has other files than LLVM 7.1.0: the SHA-256 of "),
        "{refusal}"
    );
    fs::remove_dir_all(sources.join(LLVM)).unwrap();
    fs::write(sources.join("llvm-7.1.0.src.tar.xz"), "half").unwrap();
    let refusal = builder.refusal();
    assert!(
        refusal.starts_with("/sources/llvm-7.1.0.src.tar.xz is damaged or another file: its SHA-256 is "),
        "{refusal}"
    );
}

#[test]
fn missing_programs_are_named_before_the_long_part() {
    let builder = Builder::new();
    for program in ["cmake", "ninja"] {
        fs::remove_file(builder.0.tools().join(program)).unwrap();
    }
    let refusal = builder.refusal();
    let expected = "the backend cannot be built without cmake, ninja; on Debian and Ubuntu: `sudo apt-get install ";
    assert!(refusal.starts_with(expected), "{refusal}");
    assert!(!builder.path("workspace/.toolchain/rust-cuda").exists(), "nothing was begun");
}
