//! C programs that link to libcuda, on the simulated driver.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A C program, and the folder with the driver that it is to find.
struct Program {
    folder: TempDir,
    file: PathBuf,
}

impl Program {
    /// Compiles `tests/programs/NAME.c`; `None`, with a message, where there is no C compiler.
    fn compile(name: &str) -> Option<Self> {
        let folder = support::library_folder();
        let file = folder.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
        let compiled = Command::new("cc")
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([&file, &source])
            .arg("-L")
            .arg(folder.path())
            .arg("-lcuda")
            .output();
        let Ok(compiled) = compiled else {
            eprintln!("skipped: there is no C compiler (cc)");
            return None;
        };
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Some(Self { folder, file })
    }

    fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(&self.file);
        for variable in ["CUDA_VISIBLE_DEVICES", "PTX_SIM_REPORT", "PTX_SIM_QUIET", "PTX_SIM_ARCH"] {
            command.env_remove(variable);
        }
        command.env("LD_LIBRARY_PATH", support::library_path(self.folder.path())).args(arguments);
        command.envs(environment.iter().copied()).output().expect("the program starts")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_links_and_runs_by_the_commands_of_the_page() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(package.join("../docs/simulated-driver.md")).expect("the page");
    let block = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("its commands");
    let folder = support::library_folder();
    let built = folder.path().join("target/release");
    std::fs::create_dir_all(&built).expect("a folder");
    std::fs::copy(folder.path().join("libcuda.so.1"), built.join("liblibcuda_sim.so")).expect("the driver");
    let source = "int cuInit(unsigned flags);\nint main(void) { return cuInit(0); }\n";
    std::fs::write(folder.path().join("your_program.c"), source).expect("a program");
    // Cargo has built it.
    let commands: String =
        block.lines().filter(|line| !line.starts_with("cargo ")).map(|line| format!("{line}\n")).collect();
    let output = Command::new("sh").args(["-ec", &commands]).current_dir(folder.path()).output().expect("sh starts");
    assert!(output.status.success(), "{commands}\n{}", text(&output.stderr));
}

#[test]
fn every_kind_of_call_does_what_it_should() {
    let Some(program) = Program::compile("calls") else { return };
    let output = program.run(&[], &[("PTX_SIM_GPUS", "2"), ("PTX_SIM_MEMORY", "64M")]);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", output.status);
    assert_eq!(text(&output.stdout), "all calls did what they should\n");
    for expected in [
        "CUDA_ERROR_INVALID_VALUE: cuMemFree_v2: ",
        "which was freed before",
        "CUDA_ERROR_NOT_SUPPORTED: cuIpcGetMemHandle is not simulated",
        "the image is a cubin",
        "clusters of [2, 1, 1]",
    ] {
        assert!(errors.contains(expected), "no {expected:?} in\n{errors}");
    }
}

#[test]
fn faults_are_named() {
    let Some(program) = Program::compile("faults") else { return };
    for (fault, code, words) in [
        ("short-buffer", "ILLEGAL_ADDRESS", "past the end of buffer `allocation 2 of 64 bytes, by cuMemAlloc_v2`"),
        ("freed-buffer", "ILLEGAL_ADDRESS", "`allocation 2 of 64 bytes, by cuMemAlloc_v2`, which was freed"),
        ("null", "ILLEGAL_ADDRESS", "a null pointer"),
        ("misaligned", "MISALIGNED_ADDRESS", "misaligned access"),
        (
            "other-gpu",
            "ILLEGAL_ADDRESS",
            "of allocation 1 of 4,096 bytes, by cuMemAlloc_v2, memory of a context of GPU 1",
        ),
        (
            "other-context",
            "ILLEGAL_ADDRESS",
            "of allocation 1 of 4,096 bytes, by cuMemAlloc_v2, memory of a context of GPU 0",
        ),
    ] {
        let output = program.run(&[fault], &[("PTX_SIM_GPUS", "2")]);
        let errors = text(&output.stderr);
        assert!(output.status.success(), "{fault}: {errors}");
        assert_eq!(text(&output.stdout), format!("CUDA_ERROR_{code}\n"), "{fault}");
        assert!(errors.contains(words), "{fault}: no {words:?} in\n{errors}");
        assert!(errors.contains("ld.global.u32 %r2, [%rd0];"), "{fault}: the instruction is shown\n{errors}");
    }
}

#[test]
fn messages_go_where_they_are_asked_to() {
    let Some(program) = Program::compile("faults") else { return };
    let file = program.folder.path().join("report.txt");
    let output = program.run(&["null"], &[("PTX_SIM_REPORT", file.to_str().unwrap())]);
    assert_eq!(text(&output.stderr), "");
    let report = std::fs::read_to_string(&file).unwrap();
    assert!(report.contains("a null pointer") && report.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{report}");
    let output = program.run(&["null"], &[("PTX_SIM_QUIET", "1")]);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout), "CUDA_ERROR_ILLEGAL_ADDRESS\n");
}

#[test]
fn the_environment_says_what_is_there() {
    let Some(program) = Program::compile("faults") else { return };
    for (variable, value, code, words) in [
        ("PTX_SIM_GPUS", "many", "INVALID_VALUE", "PTX_SIM_GPUS is \"many\"; it has to be a number from 0 to 64"),
        ("PTX_SIM_GPUS", "0", "NO_DEVICE", ""),
        ("CUDA_VISIBLE_DEVICES", "", "NO_DEVICE", ""),
        ("PTX_SIM_MEMORY", "4 apples", "INVALID_VALUE", "PTX_SIM_MEMORY is \"4 apples\""),
    ] {
        let output = program.run(&[], &[(variable, value)]);
        let errors = text(&output.stderr);
        assert!(!output.status.success());
        assert!(errors.contains(&format!("cuInit(0) returns CUDA_ERROR_{code}")), "{variable}={value}: {errors}");
        assert!(errors.contains(words), "{variable}={value}: {errors}");
        assert_eq!(errors.matches("PTX_SIM_").count(), usize::from(!words.is_empty()), "it is told once: {errors}");
    }
}

#[test]
fn fat_binaries_and_the_linker_give_ptx() {
    let Some(program) = Program::compile("images") else { return };
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
    let image = |name: &str| images.join(name).to_str().expect("a path of text").to_owned();
    let cut_off = program.folder.path().join("cut-off.fatbin");
    let whole = std::fs::read(image("none.fatbin")).expect("a fixture");
    std::fs::write(&cut_off, &whole[..whole.len() - 100]).expect("writing");
    let files = [
        image("none.fatbin"),
        image("speed.fatbin"),
        image("size.fatbin"),
        image("machine.fatbin"),
        cut_off.display().to_string(),
    ];
    let output = program.run(&files.each_ref().map(String::as_str), &[]);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let codes = "CUDA_SUCCESS\nCUDA_SUCCESS\nCUDA_SUCCESS\nCUDA_ERROR_NO_BINARY_FOR_GPU\nCUDA_ERROR_INVALID_IMAGE\n";
    assert_eq!(text(&output.stdout), codes, "{errors}");
    assert!(errors.contains("has no PTX that runs on sm_90, but machine code for sm_80"), "{errors}");
}

#[test]
fn graphs_are_built_node_by_node_and_clusters_counted() {
    let Some(program) = Program::compile("nodes") else { return };
    let output = program.run(&[], &[]);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("0x0 is no array"), "{errors}");
    assert!(errors.contains("4096") && errors.contains("node 2 is of another kind"), "{errors}");
    let output = program.run(&[], &[("PTX_SIM_ARCH", "80")]);
    assert!(text(&output.stderr).contains("sm_80 has no clusters; sm_90 has"), "{}", text(&output.stderr));
}

#[test]
fn arrays_textures_and_surfaces_are_what_they_should_be() {
    let Some(program) = Program::compile("textures") else { return };
    let output = program.run(&[], &[]);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(text(&output.stdout), "done\n");
    for expected in [
        "array 3 of 2 layers of 2 x 2 texels of 2 bytes, by cuArray3DCreate_v2, which was destroyed before",
        "the array format 0xb0 is not simulated",
        "mipmapped arrays are not simulated",
    ] {
        assert!(errors.contains(expected), "no {expected:?} in\n{errors}");
    }
    let output = program.run(&["beside"], &[]);
    assert_eq!(text(&output.stdout), "CUDA_ERROR_ILLEGAL_ADDRESS\n");
    let errors = text(&output.stderr);
    let expected = "at byte 12 of row 0: `array 1 of 3 x 1 texels of 4 bytes, by cuArray3DCreate_v2` has 3 x 1 texels of 4 bytes, \
                    12 bytes in a row";
    assert!(errors.contains(expected), "{errors}");
    let output = program.run(&["leave"], &[("PTX_SIM_LEAKS", "1")]);
    let errors = text(&output.stderr);
    for expected in ["array 1 of 3 x 1 texels", "a surface object by cuSurfObjectCreate"] {
        assert!(errors.contains(expected) && errors.contains("is never freed"), "no {expected:?} in\n{errors}");
    }
}
