//! The C interface from C and C++: compiles `programs/` and `../examples/` with the machine's compilers against the
//! header and the shared library.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The folder of the built libraries.
fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let test = env::current_exe().expect("a test has a path");
        let folder = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").to_owned();
        // cargo does not build the shared library for an integration test.
        let mut build = Command::new(env!("CARGO"));
        build.args([
            "build",
            "--quiet",
            "--lib",
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ]);
        build.arg("--target-dir").arg(folder.parent().expect("target"));
        if folder.ends_with("release") {
            build.arg("--release");
        }
        succeed(&mut build, "building libfa512");
        folder
    })
}

fn succeed(command: &mut Command, action: &str) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{action}: {command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{action}: {command:?}: {}\n{out}{err}", output.status);
    output
}

/// Compiles `source` with `compiler` against libfa512 and `libraries_too`.
fn compile(compiler: &[&str], source: &str, program: &str, libraries_too: &[&str]) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = libraries().join("deps").join(program);
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
    command.arg("-I").arg(package.join("../include")).arg(package.join(source)).arg("-o").arg(&program);
    command.arg("-L").arg(libraries()).args(libraries_too).args(["-lfa512", "-lm"]);
    succeed(&mut command, "compiling");
    program
}

/// A folder with a copy of the library under its soname.
fn soname_folder() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let folder = libraries().join("libfa512-soname");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(libraries().join("libfa512.so"), folder.join("libfa512.so.0")).unwrap();
        folder
    };
    FOLDER.get_or_init(make).clone()
}

/// A folder with the simulated driver as `libcuda.so.1`.
fn driver() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let folder = libraries().join("libcuda-soname");
    std::fs::create_dir_all(&folder).unwrap();
    // Two tests may run this at once: a rename makes the file appear complete.
    let (new, driver) = (folder.join(format!("new-{:?}", std::thread::current().id())), folder.join("libcuda.so.1"));
    let built = test.with_file_name("liblibcuda_sim.so");
    std::fs::copy(&built, &new).unwrap_or_else(|error| {
        panic!("no simulated driver, which `cargo xtask test -- -p fa512-c` builds: {}: {error}", built.display())
    });
    std::fs::rename(new, driver).unwrap();
    folder
}

/// Compiles a program and runs it with the simulated driver. `None`, with a message on stderr, if libfa512 was built
/// without kernels.
fn example(compiler: &[&str], source: &str, program: &str) -> Option<String> {
    example_on("90", compiler, source, program)
}

/// [`example`] on GPUs of `architecture`.
fn example_on(architecture: &str, compiler: &[&str], source: &str, program: &str) -> Option<String> {
    if attention::kernels().next().is_none() {
        eprintln!("not tested: fa512 was built without kernels; `cargo xtask ptx` makes them");
        return None;
    }
    let driver = driver();
    let library = driver.join("libcuda.so.1");
    let program = compile(compiler, source, program, &["-x", "none", library.to_str().expect("UTF-8")]);
    let libraries = env::join_paths([soname_folder(), driver]).expect("no colons");
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries).env("PTX_SIM_ARCH", architecture).env("PTX_SIM_THREADS", "1");
    Some(String::from_utf8(succeed(&mut command, "running").stdout).expect("UTF-8"))
}

const C: &[&str] = &["cc", "-std=c99"];
const CPP: &[&str] = &["c++", "-std=c++11", "-x", "c++"];

#[test]
fn wrong_arguments_are_refused_by_name_in_c_and_cpp() {
    // The linker prefers the shared library if both exist.
    let archive = ["-Wl,-Bstatic", "-lfa512", "-Wl,-Bdynamic", "-lpthread", "-ldl"];
    for (compiler, program, linked) in
        [(C, "border-c", &[][..]), (CPP, "border-cpp", &[]), (C, "border-static", &archive)]
    {
        let program = compile(compiler, "tests/programs/border.c", program, linked);
        let output = succeed(Command::new(program).env("LD_LIBRARY_PATH", soname_folder()), "running");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "as declared\n");
    }
}

/// The archive for users, as `cargo xtask package` fills it: the folders of header, libraries and examples.
fn archive() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = libraries().join("fa512-c-archive");
        let _ = std::fs::remove_dir_all(&folder);
        let copy_all = |from: &Path, to: &str| {
            std::fs::create_dir_all(folder.join(to)).unwrap();
            for file in std::fs::read_dir(from).unwrap().map(|file| file.unwrap()) {
                std::fs::copy(file.path(), folder.join(to).join(file.file_name())).unwrap();
            }
        };
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        copy_all(&package.join("../include"), "include");
        copy_all(&package.join("examples"), "examples");
        copy_all(&soname_folder(), "lib");
        std::os::unix::fs::symlink("libfa512.so.0", folder.join("lib/libfa512.so")).unwrap();
        std::fs::create_dir(folder.join("lib/pkgconfig")).unwrap();
        let described = std::fs::read_to_string(package.join("fa512.pc.in")).unwrap();
        let described = described.replace("@prefix@", "${pcfiledir}/../..").replace("@version@", "0");
        std::fs::write(folder.join("lib/pkgconfig/fa512.pc"), described).unwrap();
        folder
    })
}

/// Runs commands of a document in `folder`, where the driver is the simulated one. Returns what they print, or `None`, with a message on
/// stderr, if libfa512 was built without kernels.
fn documented(commands: &str, folder: &Path) -> Option<String> {
    if attention::kernels().next().is_none() {
        eprintln!("not tested: fa512 was built without kernels; `cargo xtask ptx` makes them");
        return None;
    }
    let driver = driver();
    let link = driver.join("libcuda.so");
    let _ = std::os::unix::fs::symlink("libcuda.so.1", &link);
    let mut shell = Command::new("sh");
    shell.args(["-euc", commands]).current_dir(folder).env("LIBRARY_PATH", &driver).env("LD_LIBRARY_PATH", &driver);
    shell.env("PTX_SIM_ARCH", "90").env("PTX_SIM_THREADS", "1");
    Some(String::from_utf8(succeed(&mut shell, "running commands of a document").stdout).expect("UTF-8"))
}

/// The output of an example of the archive, compiled and run there by the command that its first comment gives.
fn example_of_archive(name: &str) -> Option<String> {
    let folder = archive().join("examples");
    let source = std::fs::read_to_string(folder.join(name)).unwrap();
    let of_comment =
        |line: &&str| line.trim_start_matches(['*', '/', ' ']).starts_with(['c']) && line.contains(" -lfa512 ");
    let line = source.lines().find(of_comment).unwrap_or_else(|| panic!("{name} does not say how it is compiled"));
    let command = line.trim_start_matches(['*', '/', ' ']).trim_end_matches(" */");
    // Which takes minutes in the simulator.
    let command = command.trim_end_matches("&& ./call_cost [CALLS]");
    let (compiler, arguments) = command.split_once(' ').expect("arguments");
    let standard = if compiler == "cc" { "c99" } else { "c++11" };
    // Users of other compilers and standards get no warnings either.
    let strict = format!("-std={standard} -Wall -Wextra -Werror -pedantic");
    documented(&format!("{compiler} {strict} {arguments}"), &folder)
}

#[test]
fn the_examples_of_the_archive_compile_and_run_there_by_their_own_commands() {
    let Some(output) = example_of_archive("forward.c") else { return };
    assert!(output.starts_with("fa512 0.") && output.contains("causal"), "{output}");
    assert!(output.ends_with("O is right\n"), "{output}");
    assert_eq!(example_of_archive("varlen.c").as_deref(), Some("O is right\n"));
    assert_eq!(example_of_archive("forward.cpp").as_deref(), Some("O and LSE are right\n"));
    example_of_archive("call_cost.c");
    let examples = std::fs::read_dir(archive().join("examples")).unwrap();
    let sources = examples.filter(|file| file.as_ref().is_ok_and(|file| !file.path().ends_with("driver.h")));
    assert!(sources.count() >= 4, "the archive has examples that are not tried here");
}

#[test]
fn the_commands_of_the_page_compile_and_run_a_program() {
    let page = documentation("docs/use/c.md");
    let block = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("its commands");
    let folder = libraries().join("fa512-c-page");
    std::fs::create_dir_all(&folder).unwrap();
    let name = block.split_whitespace().find_map(|word| word.strip_suffix(".tar.gz")).expect("the archive's name");
    let unpacked = folder.join(name);
    let _ = std::fs::remove_file(&unpacked);
    std::os::unix::fs::symlink(archive(), &unpacked).unwrap();
    let program = "#include <stdio.h>\n#include \"fa512.h\"\nint main(void) { return puts(fa512_version()) < 0; }\n";
    std::fs::write(folder.join("program.c"), program).unwrap();
    // The archive is there already.
    let commands: String =
        block.lines().filter(|line| !line.starts_with("tar ")).map(|line| format!("{line}\n")).collect();
    let Some(output) = documented(&commands, &folder) else { return };
    assert_eq!(output, concat!(env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn gradients_are_computed() {
    let Some(output) = example(C, "tests/programs/backward.c", "backward") else { return };
    assert_eq!(output, "gradients are right\n");
}

#[test]
fn windows_are_computed_and_older_headers_have_none() {
    let Some(output) = example(C, "tests/programs/window.c", "window") else { return };
    assert_eq!(output, "O and LSE are right\n");
}

#[test]
fn changes_of_scores_are_computed_and_older_headers_have_none() {
    let Some(output) = example(C, "tests/programs/scores.c", "scores") else { return };
    assert_eq!(output, "O and LSE are right\n");
}

#[test]
fn a_workspace_is_as_large_as_the_library_says_and_older_headers_have_none() {
    let Some(output) = example_on("80", C, "tests/programs/workspace.c", "workspace") else { return };
    assert_eq!(output, "O and LSE are right\n");
}

#[test]
fn keys_have_lengths_of_their_own_packed_and_padded() {
    let Some(output) = example(C, "tests/programs/lengths.c", "lengths") else { return };
    assert_eq!(output, "O and LSE are right\n");
}

/// The text of a document, by its path in the checkout.
fn documentation(path: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path);
    std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

#[test]
fn what_the_documents_show_compiles_in_c_and_cpp() {
    let text: String = ["docs/use/c.md", "README.md", "host/fa512/README.md"].map(documentation).concat();
    let blocks: Vec<&str> = text.split("```c\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    assert!(blocks.len() >= 2, "docs/use/c.md has no blocks of C");
    for (index, block) in blocks.into_iter().enumerate() {
        let declares = block.contains("fa512_problem problem = {0}");
        assert_eq!(declares, block.contains("problem.size = sizeof problem;"), "block {index} leaves the size 0");
        let source = libraries().join("deps").join(format!("documented-{index}.c"));
        std::fs::write(&source, block).unwrap();
        for compiler in
            [&["cc", "-std=c99"][..], &["c++", "-std=c++11", "-x", "c++", "-Wno-missing-field-initializers"]]
        {
            let mut command = Command::new(compiler[0]);
            command.args(&compiler[1..]).args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I"]);
            command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../include")).arg(&source);
            succeed(&mut command, &format!("block {index} of docs/use/c.md"));
        }
    }
}

/// The text of `fa512_supports` for GPU 0, with the driver in folder `driver` and the environment `variables`.
fn answer(driver: &Path, variables: &[(&str, &str)]) -> String {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| compile(C, "tests/programs/answer.c", "answer", &[]));
    let libraries = env::join_paths([&soname_folder(), driver]).expect("no colons");
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries).envs(variables.iter().copied());
    String::from_utf8(succeed(&mut command, "running").stdout).expect("UTF-8")
}

/// A driver compiled from `tests/programs/other_driver.c` that reports `version`, as `cuDriverGetVersion` encodes it.
fn other_driver(version: u32) -> PathBuf {
    let folder = libraries().join(format!("libcuda-{version}"));
    std::fs::create_dir_all(&folder).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]).arg(format!("-DVERSION={version}"));
    compiler.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/other_driver.c"));
    succeed(compiler.arg("-o").arg(folder.join("libcuda.so.1")), "compiling a driver");
    folder
}

#[test]
fn a_driver_or_gpu_that_will_not_do_is_named() {
    let simulated = |variables| answer(&driver(), variables);
    let old = answer(&other_driver(11080), &[]);
    assert_eq!(
        old,
        "FA512_ERROR_DRIVER: the NVIDIA driver supports CUDA 11.8; this library needs one for CUDA 12.0 or later\n"
    );
    let other = answer(&other_driver(12040), &[]);
    assert_eq!(
        other.split(". ").next(),
        Some("FA512_ERROR_DRIVER: no CUDA driver: the CUDA 12.4 driver has no cuCtxGetCurrent")
    );
    let none = simulated(&[("PTX_SIM_GPUS", "0")]);
    assert!(none.starts_with("FA512_ERROR_NO_GPU: no GPU: the driver shows none (CUDA_ERROR_NO_DEVICE"), "{none}");
    let one = simulated(&[("PTX_SIM_GPUS", "1"), ("ANSWER_GPU", "1")]);
    assert!(one.starts_with("FA512_ERROR_NO_GPU: no GPU: there is no GPU 1: the driver shows 1"), "{one}");
    let old = simulated(&[("PTX_SIM_ARCH", "75")]);
    assert!(
        old.starts_with("FA512_ERROR_UNSUPPORTED:") && old.contains("is sm_75; the kernels need sm_80 or later"),
        "{old}"
    );
    let right = simulated(&[("PTX_SIM_ARCH", "80")]);
    assert!(right.starts_with("FA512_OK: fa512_sm80_any_full"), "{right}");
}

/// The driver that counts calls and forwards them.
fn counting_driver() -> PathBuf {
    let folder = libraries().join("libcuda-counting");
    std::fs::create_dir_all(&folder).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1"]);
    compiler.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/counting_driver.c"));
    succeed(compiler.arg("-o").arg(folder.join("libcuda.so.1")).arg("-ldl"), "compiling a driver");
    folder
}

#[test]
fn a_call_asks_the_driver_for_one_launch_and_allocates_copies_and_waits_for_nothing() {
    if attention::kernels().next().is_none() {
        eprintln!("not tested: fa512 was built without kernels; `cargo xtask ptx` makes them");
        return;
    }
    let counting = counting_driver();
    let driver = counting.join("libcuda.so.1");
    let program = compile(C, "tests/programs/counted.c", "counted", &["-x", "none", driver.to_str().expect("UTF-8")]);
    let libraries = env::join_paths([soname_folder(), counting]).expect("no colons");
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries).env("COUNTED_DRIVER", self::driver().join("libcuda.so.1"));
    command.env("PTX_SIM_ARCH", "90").env("PTX_SIM_THREADS", "1");
    let printed = String::from_utf8(succeed(&mut command, "running").stdout).expect("UTF-8");
    let context = "1 cuCtxGetCurrent\n1 cuCtxGetDevice\n1 cuStreamGetCtx\n";
    let launch = "4 cuTensorMapEncodeTiled\n1 cuLaunchKernelEx\n";
    let expected = format!(
        "with pointer checks\n{context}5 cuPointerGetAttributes\n{launch}without pointer checks\n{context}{launch}"
    );
    assert_eq!(printed, expected);
}

#[test]
fn the_shared_library_exports_what_the_header_declares_and_nothing_else() {
    let header = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../include/fa512.h")).unwrap();
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with("static") && !line.starts_with('#') && !line.starts_with([' ', '/']))
        .filter_map(|line| line.split_once('(')?.0.split([' ', '*']).next_back())
        .filter(|name| name.starts_with("fa512_"))
        .collect();
    declared.sort_unstable();
    let nm = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(libraries().join("libfa512.so")), "nm");
    let symbols = String::from_utf8(nm.stdout).unwrap();
    let mut exported: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').next_back()).collect();
    exported.sort_unstable();
    assert_eq!(exported, declared);
}
