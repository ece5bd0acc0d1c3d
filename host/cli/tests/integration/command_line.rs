//! The command line of the fa512 program: output, streams and exit codes.

use std::path::Path;
use std::process::{Command, Stdio};

use cli::element::{Element, Encoding};
use cli::inputs::{Distribution, Inputs};
use cli::npy::{self, F32};
use contract::config::Mask;
use contract::manifest::FILE_NAME;
use contract::problem::{Problem, Shape};
use contract::view::Layout;

use crate::program::{self, output, refusal, text};
use crate::support;

const SHAPE: Shape = Shape::new(2, 3, 20);

/// The program, with the PTX under test.
pub fn fa512(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fa512"));
    command.env("FA512_PTX_DIR", program::ptx_path()).args(arguments);
    command
}

/// `fa512 run` in the simulator on a small problem.
fn small_run(arguments: &[&str]) -> Command {
    let mut command = fa512(&["run", "--device", "sim"]);
    command.args(arguments);
    command
}

const SMALL: [&str; 6] = ["--batch", "1", "--heads", "2", "--seq", "33"];

#[test]
fn run_prints_what_was_checked() {
    let output = output(small_run(&SMALL).args(["--causal", "--seed", "3"]), 0);
    let table = text(&output.stdout);
    for expected in
        ["ptx-sim", "asked for", "fa512_sm90a_tma_any_causal", "B=1 H=2 S=33", "seed 3", "no findings", "PASS"]
    {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
    assert!(!table.contains('\u{1b}'), "colours belong on a terminal only");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn run_prints_one_json_document() {
    let output = output(small_run(&SMALL).args(["--json", "--layout", "bshd"]), 0);
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    assert_eq!((&record["kind"], &record["version"]), (&"fa512-run".into(), &1.into()));
    assert_eq!(record["passed"], true);
    assert_eq!(record["problem"]["sequence"], 33);
    assert_eq!(record["problem"]["layout"], "bshd");
    assert_eq!(record["device"]["kind"], "simulator");
    assert_eq!(record["check"]["output"]["wrong"], 0);
    assert_eq!(record["check"]["lse"]["elements"], 2 * 33);
    assert_eq!(record["timing"], serde_json::Value::Null, "simulated time means nothing");
}

/// The usual entries of the PTX under test with every module changed by `edit`, and a manifest that matches.
pub fn edited_ptx(edit: impl Fn(&str) -> String) -> tempfile::TempDir {
    let edit = |ptx: &str| {
        let edited = edit(ptx);
        assert_ne!(ptx, edited, "a module has nothing to edit");
        edited
    };
    support::part_of_ptx(support::is_usual, edit)
}

/// The same PTX, but LSE is stored two bytes past its place.
pub fn misaligned_lse(ptx: &str) -> String {
    let misalign = |line: &str| match line.trim_start().starts_with("st.global.f32") {
        true => line.replacen(']', "+2]", 1) + "\n",
        false => line.to_owned() + "\n",
    };
    ptx.lines().map(misalign).collect()
}

#[test]
fn what_is_not_checked_is_not_called_a_pass() {
    let table = text(&output(small_run(&SMALL).arg("--no-check"), 0).stdout);
    assert!(table.contains("not checked") && !table.contains("PASS"), "{table}");
}

#[test]
fn a_kernel_that_computes_something_else_fails() {
    // The kernels divide by the sum of weights with the reciprocal.
    let folder = edited_ptx(|ptx| ptx.replace("rcp.approx.ftz.f32", "sqrt.approx.ftz.f32"));
    let out = folder.path().join("o.npy");
    let mut command = small_run(&SMALL);
    let output = output(command.arg("--ptx").arg(folder.path()).arg("--out").arg(&out), 1);
    let table = text(&output.stdout);
    assert!(table.contains("FAIL") && table.contains("elements are wrong"), "{table}");
    assert!(text(&output.stderr).contains("not written, since a check failed"));
    assert!(!out.exists(), "a wrong result was written");
}

#[test]
fn what_the_simulator_finds_is_shown_in_full() {
    let folder = edited_ptx(misaligned_lse);
    let output = output(small_run(&SMALL).arg("--ptx").arg(folder.path()), 1);
    let table = text(&output.stdout);
    for expected in
        ["FAIL", "findings (below)", "error: misaligned access: ", "st.global.f32", "block (0, 0, 0), warp ", "help: "]
    {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
    // Rust-CUDA's line directives have no callers (docs/rust-cuda.md).
    if support::ptx().manifest().code_generator.name == "rust-cuda" {
        return;
    }
    assert!(table.contains("called from here"), "{table}");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let command = &mut small_run(&SMALL);
    command.arg("--ptx").arg(folder.path()).arg("--source").arg(sources).current_dir(folder.path());
    let table = text(&self::output(command, 1).stdout);
    assert!(table.contains("memory::store_global_f32("), "the line that called the wrapper is shown:\n{table}");
}

#[test]
fn ptx_that_the_simulator_cannot_run_is_an_error() {
    let folder = edited_ptx(|ptx| ptx.replace("rcp.approx.ftz.f32", "frobnicate.f32"));
    let message = refusal(small_run(&SMALL).arg("--ptx").arg(folder.path()));
    assert!(message.contains("the simulator cannot run this kernel") && message.contains("frobnicate"), "{message}");
}

#[test]
fn every_command_takes_the_ptx_of_the_code_generator_that_is_named() {
    let folders = tempfile::tempdir().unwrap();
    let named = folders.path().join("ptx");
    let with_codegen = |command: &str| {
        let mut command = fa512(&[command, "--codegen", "rust-cuda"]);
        command.env("FA512_PTX_DIR", &named);
        command
    };
    for command in ["run", "sanitize", "fuzz", "bench"] {
        let message = refusal(&mut with_codegen(command));
        assert!(message.contains("`cargo xtask ptx --codegen rust-cuda` makes it"), "{command}: {message}");
    }
    let folder = folders.path().join("ptx-rust-cuda");
    std::os::unix::fs::symlink(support::ptx().path().canonicalize().unwrap(), &folder).unwrap();
    let table = text(&output(&mut with_codegen("doctor"), 0).stdout);
    assert!(table.contains(folder.to_str().unwrap()), "{table}");
}

#[test]
fn unacceptable_problems_are_refused() {
    let refused = |arguments: &[&str]| refusal(&mut small_run(arguments));
    assert!(refused(&["--seq", "0"]).contains("sequence is 0; it must be at least 1"));
    assert!(refused(&["--scale", "-0.125"]).contains("negate Q and pass 0.125"));
    assert!(refused(&["--scale", "nan"]).contains("scale is NaN"));
    assert!(refused(&["--batch", "100000000"]).contains("host memory"));
    assert!(refused(&["--arch", "75"]).contains("does not know sm_75, only 80"));
    assert!(refused(&["--seq", "many"]).contains("--seq"));
}

#[test]
fn tensors_may_be_strided_views_into_larger_buffers() {
    let arguments = ["--strides", "K=9000,4608,136", "--strides", "O=0,64,128", "--offset", "O=24", "--offset", "Q=8"];
    let table = text(&output(small_run(&SMALL).args(arguments), 0).stdout);
    for expected in
        ["Q from element 8", "K from element 0, strides 9000,4608,136", "O from element 24, strides 0,64,128"]
    {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
    assert!(!table.contains("V from"), "V is contiguous:\n{table}");
    let refused = |arguments: &[&str]| refusal(small_run(&SMALL).args(arguments));
    assert!(refused(&["--strides", "K=1,2"]).contains("has 2 strides"));
    assert!(
        refused(&["--strides", "O=0,32,128"]).contains("O has a head stride of 32 elements, so that its rows overlap")
    );
    assert!(refused(&["--offset", "V=4"]).contains("V starts at element 4"));
    assert!(refused(&["--strides", "Q=0,99999999999968,64"]).contains("host memory"));
}

#[test]
fn lse_is_optional() {
    let output = output(small_run(&SMALL).args(["--no-lse", "--json"]), 0);
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    assert_eq!(record["check"]["lse"], serde_json::Value::Null);
}

#[test]
fn variants_can_be_asked_for_by_name() {
    let table = |arguments| text(&output(&mut small_run(arguments), 0).stdout);
    assert!(
        table(&["--seq", "64", "--variant", "fa512_sm80_any_full_128x64"])
            .contains("fa512_sm80_any_full_128x64 (named)")
    );
    let refused = |arguments: &[&str]| refusal(&mut small_run(arguments));
    let unknown = refused(&["--variant", "fastest"]);
    assert!(unknown.contains("no variant fastest; there are: fa512_sm"), "{unknown}");
    let wrong_mask = refused(&["--variant", "fa512_sm80_any_causal_128x32"]);
    assert!(wrong_mask.contains("computes a causal mask, not a full one"), "{wrong_mask}");
}

#[test]
fn the_simulator_stands_for_the_architecture_that_is_asked_for() {
    for architecture in ["80", "86", "89", "90"] {
        let table = text(&output(small_run(&SMALL).args(["--arch", architecture]), 0).stdout);
        assert!(table.contains(&format!("sm_{architecture}: asked for")), "{table}");
    }
}

#[test]
fn a_demanded_gpu_that_is_not_there_is_an_error() {
    let mut command = fa512(&["run", "--device", "gpu", "--seq", "8"]);
    let message = refusal(command.env("CUDA_VISIBLE_DEVICES", ""));
    assert!(message.contains("GPU"), "{message}");
}

#[test]
fn a_gpu_that_is_named_is_never_replaced_by_the_simulator() {
    for arguments in [
        &["run", "--seq", "8"][..],
        &["run", "--seq", "8", "--device", "gpu"],
        &["fuzz", "--cases", "0"],
        &["sanitize", "--device", "gpu"],
        &["bench", "--shapes", "1x1x8"],
        &["profile", "--shape", "1x1x8"],
        &["doctor"],
    ] {
        let message = refusal(fa512(arguments).args(["--gpu", "999"]).env_remove("CUDA_VISIBLE_DEVICES"));
        assert!(message.starts_with("error: --gpu 999: no GPU: "), "{arguments:?}: {message}");
    }
    for arguments in [&["run", "--device", "sim"][..], &["sanitize"]] {
        let message = refusal(fa512(arguments).args(["--gpu", "0"]));
        assert!(message.contains("--gpu 0 names a GPU, and --device sim is the simulator"), "{message}");
    }
    let message = text(&output(&mut fa512(&["compare", "a.json", "b.json", "--gpu", "0"]), 3).stderr);
    assert!(message.contains("unexpected argument '--gpu'"), "commands that use no GPU take none: {message}");
}

#[test]
fn auto_takes_the_simulator_where_there_is_no_gpu_and_says_why() {
    let mut command = fa512(&["run", "--device", "auto", "--seq", "8"]);
    let table = text(&output(command.env("CUDA_VISIBLE_DEVICES", ""), 0).stdout);
    assert!(table.contains("ptx-sim") && table.contains("no GPU"), "{table}");
}

#[test]
fn missing_ptx_says_how_to_make_it() {
    let folder = tempfile::tempdir().unwrap();
    let message = refusal(small_run(&SMALL).env("FA512_PTX_DIR", folder.path()));
    assert!(message.contains("cargo xtask ptx"), "{message}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut command = small_run(&SMALL);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

/// Files of Q, K and V, and the arguments that name them.
struct Files {
    folder: tempfile::TempDir,
    inputs: Inputs,
}

impl Files {
    fn new(layout: Layout) -> Self {
        let problem = Problem::new(SHAPE, Mask::Full, layout).unwrap();
        let inputs = Inputs::generate(problem, Distribution::Normal, 11).unwrap();
        let files = Self { folder: tempfile::tempdir().unwrap(), inputs };
        for (name, storage) in ["q.npy", "k.npy", "v.npy"].into_iter().zip(files.inputs.storages()) {
            npy::write_elements(&files.path(name), &layout.dimensions(SHAPE), Element::F16, storage).unwrap();
        }
        files
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = small_run(&[]);
        for (option, name) in [("--q", "q.npy"), ("--k", "k.npy"), ("--v", "v.npy")] {
            command.arg(option).arg(self.path(name));
        }
        command
    }
}

fn read(path: &Path, layout: Layout) -> npy::Array {
    npy::read(path, layout, Element::F16, F32::Refused).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn tensors_come_from_files_and_go_to_files() {
    for (layout, name) in [(Layout::Bhsd, "bhsd"), (Layout::Bshd, "bshd")] {
        let files = Files::new(layout);
        let (out, lse) = (files.path("o.npy"), files.path("lse.npy"));
        let mut command = files.command();
        command.args(["--layout", name]).arg("--out").arg(&out).arg("--lse").arg(&lse);
        output(&mut command, 0);
        let written = read(&out, layout);
        assert_eq!(written.shape, SHAPE);
        let reference = cli::reference::Reference::compute(&files.inputs, |_| ());
        let view = contract::view::View::new(layout.strides(SHAPE).unwrap());
        let last = cli::inputs::row_of(&written.elements, view, 64, 1, 2, 19)[63];
        let expected = reference.elements.values().last().unwrap().value;
        assert!((Element::F16.decode(last) - expected).abs() < 2e-3, "{layout:?}: {last} is not {expected}");
        let lse = npyz::NpyFile::new(std::fs::File::open(&lse).unwrap()).unwrap();
        assert_eq!(lse.shape(), [2, 3, 20]);
        assert_eq!(lse.into_vec::<f32>().unwrap().len(), 2 * 3 * 20);
    }
}

#[test]
fn bf16_goes_from_file_to_file_as_its_bits() {
    let mut files = Files::new(Layout::Bhsd);
    let problem = files.inputs.problem().with_element(Element::Bf16);
    files.inputs = Inputs::generate(problem, Distribution::Normal, 11).unwrap();
    for (name, storage) in ["q.npy", "k.npy", "v.npy"].into_iter().zip(files.inputs.storages()) {
        npy::write_elements(&files.path(name), &Layout::Bhsd.dimensions(SHAPE), Element::Bf16, storage).unwrap();
    }
    let message = refusal(&mut files.command());
    assert!(message.contains("q.npy: holds elements of type '<u2'") && message.contains("--type bf16"), "{message}");
    let out = files.path("o.npy");
    let printed = output(files.command().args(["--type", "bf16", "--json", "--out"]).arg(&out), 0);
    let record: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(record["problem"]["element"], "bf16");
    let written = npy::read(&out, Layout::Bhsd, Element::Bf16, F32::Refused).unwrap();
    let reference = cli::reference::Reference::compute(&files.inputs, |_| ());
    let expected = reference.elements.values().last().unwrap().value;
    let last = Element::Bf16.decode(*written.elements.last().unwrap());
    assert!((last - expected).abs() < 16e-3, "{last} is not {expected}");
}

#[test]
fn files_of_another_shape_or_type_are_refused() {
    let files = Files::new(Layout::Bhsd);
    let other = Shape::new(SHAPE.batch, SHAPE.heads, 21);
    let zeros = [0; 2 * 3 * 21 * 64];
    npy::write_elements(&files.path("k.npy"), &Layout::Bhsd.dimensions(other), Element::F16, &zeros).unwrap();
    let message = refusal(&mut files.command());
    assert!(message.contains("v.npy: has") && message.contains("K and V must have the same shape"), "{message}");
    npy::write_elements(&files.path("v.npy"), &Layout::Bhsd.dimensions(other), Element::F16, &zeros).unwrap();
    let table = text(&output(&mut files.command(), 0).stdout);
    assert!(table.contains("S=20/21"), "{table}");
    let wide = other.with_head_dim(72);
    npy::write_elements(&files.path("k.npy"), &Layout::Bhsd.dimensions(wide), Element::F16, &[0; 2 * 3 * 21 * 72])
        .unwrap();
    let message = refusal(&mut files.command());
    assert!(message.contains("k.npy: has") && message.contains("the same batch and head_dim"), "{message}");

    npy::write_elements(&files.path("v.npy"), &Layout::Bhsd.dimensions(SHAPE), Element::F16, &[0; 2 * 3 * 20 * 64])
        .unwrap();
    npy::write(&files.path("k.npy"), &Layout::Bhsd.dimensions(SHAPE), &[0.0f32; 2 * 3 * 20 * 64]).unwrap();
    let message = refusal(&mut files.command());
    assert!(message.contains("k.npy: holds f32") && message.contains("--allow-f32"), "{message}");
    output(files.command().arg("--allow-f32"), 0);
}

#[test]
fn the_three_input_files_come_together() {
    let message = refusal(&mut small_run(&["--q", "q.npy"]));
    assert!(message.contains("--k") && message.contains("--v"), "{message}");
    let message = refusal(&mut small_run(&["--q", "q", "--k", "k", "--v", "v", "--seq", "8"]));
    assert!(message.contains("cannot be used with"), "{message}");
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let mut command = small_run(&SMALL);
    let message = text(&output(command.args(["--out", "no/such/folder/o.npy"]), 2).stderr);
    assert!(message.contains("no/such/folder/o.npy"), "{message}");
}

#[test]
fn doctor_lists_what_is_there_and_what_is_missing() {
    let table = text(&output(&mut fa512(&["doctor"]), 0).stdout);
    for expected in ["PTX", "simulator", "GPU", "ncu", "compute-sanitizer", "torch", "works here"] {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
    let folder = tempfile::tempdir().unwrap();
    let output = output(fa512(&["doctor", "--json"]).env("FA512_PTX_DIR", folder.path()), 2);
    let diagnosis: serde_json::Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    assert_eq!((&diagnosis["kind"], &diagnosis["version"]), (&"fa512-doctor".into(), &1.into()));
    assert_eq!(diagnosis["ready"], false);
    assert_eq!(diagnosis["components"][0]["state"], "missing");
}

#[test]
fn a_file_that_would_be_larger_than_the_limit_is_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let (program, ptx) = (env!("CARGO_BIN_EXE_fa512"), program::ptx_path());
    let run = format!(
        "{program} run --device sim --ptx {ptx} {} --out {}",
        SMALL.join(" "),
        folder.path().join("o.npy").display()
    );
    let said = refusal(Command::new("sh").args(["-c", &format!("ulimit -f 1; exec {run}")]));
    assert!(said.contains("o.npy: File too large"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something half-written is left");
}

#[test]
fn a_full_standard_error_is_no_panic() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = fa512(&["diagnose", "nothing.json"]);
    assert_eq!(command.stderr(full).status().unwrap().code(), Some(2));
}

#[test]
fn a_scale_of_zero_is_shown_in_a_few_digits() {
    let table = text(&output(small_run(&SMALL).args(["--scale", "0"]), 0).stdout);
    assert!(table.contains("scale 1.1754943508222875e-38, "), "{table}");
}

#[test]
fn no_output_replaces_the_ptx() {
    let folder = edited_ptx(|ptx| ptx.to_owned() + "\n// not as it was\n");
    let manifest = folder.path().join(FILE_NAME);
    let whole = std::fs::read(&manifest).unwrap();
    let mut run = small_run(&SMALL);
    let said = refusal(run.arg("--ptx").arg(folder.path()).arg("--out").arg(folder.path().join(".").join(FILE_NAME)));
    assert!(said.contains("is the file of the PTX folder"), "{said}");
    assert_eq!(std::fs::read(&manifest).unwrap(), whole);
}
