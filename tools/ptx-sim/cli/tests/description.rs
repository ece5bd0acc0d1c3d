//! Launch descriptions, on PTX made by nvcc 13.0 (`nvcc -ptx -arch=sm_86 -O3 -lineinfo`) from the source beside it.

mod common;

use std::fs;
use std::path::Path;

use common::{output, ptx_sim, refusal, text};
use tempfile::TempDir;

/// A folder with a description and other files.
fn folder(toml: &str, files: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("launch.toml"), toml).expect("writing");
    for (name, contents) in files {
        fs::write(folder.path().join(name), contents).expect("writing");
    }
    folder
}

/// Output of the program for a PTX file and a description.
#[track_caller]
fn run(ptx: &str, folder: &TempDir, exit_code: i32, more: &[&str]) -> String {
    let file = folder.path().join("launch.toml");
    let output = output(ptx_sim(&[ptx, "--launch"]).arg(file).args(more), exit_code);
    text(&output.stdout) + &text(&output.stderr)
}

#[track_caller]
fn assert_says(text: &str, expected: &[&str]) {
    for expected in expected {
        assert!(text.contains(expected), "`{expected}` is missing:\n{text}");
    }
}

/// A `.npy` file of version 1.0.
fn npy(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// y = 2 x + scale y, then the positive ones of y are counted.
const STEPS: &str = r#"
grid = 2
block = 4

[buffers]
x = "f32[8]=range"
y = "f32[8]=npy(y.npy)"

[variables]
scale = "f32[4]=npy(scale.npy)"
counter = "u32:100"

[[launch]]
entry = "axpy<float>"
params = ["f32:2", "&x", "&y", "i32:7"]

[[launch]]
entry = "count_positive"
params = ["struct{&y; i32:8}"]

[[launch]]
entry = "count_positive"
grid = 1
params = ["struct{&y+16; i32:4}"]

[expect.y]
npy = "expected.npy"

[expect.counter]
values = [108]
"#;

/// Scaled by 1, 1, -20, 1: one of four becomes negative.
fn steps() -> TempDir {
    let y: Vec<f32> = (0..8).map(|index| 1.0 + index as f32).collect();
    let scale = [1.0, 1.0, -20.0, 1.0];
    let expected: Vec<f32> = (0..8).map(|index| 2.0 * index as f32 + y[index] * scale[index % 4]).collect();
    folder(
        STEPS,
        &[
            ("y.npy", npy("<f4", "(8,)", &floats(&y))),
            ("scale.npy", npy("<f4", "(4,)", &floats(&scale))),
            ("expected.npy", npy("<f4", "(2, 4)", &floats(&expected))),
        ],
    )
}

#[test]
fn launches_share_buffers_and_variables_and_values_are_expected() {
    let folder = steps();
    // Six of eight are positive, and three of the last four: 109, not 108.
    let table = run("steps.ptx", &folder, 1, &["--print", "counter"]);
    assert_says(
        &table,
        &[
            "counter:\n  109\n",
            "launch 1, axpy<float>: nothing found",
            "launch 3, app::count_positive: nothing found",
            "y: 8 elements as expected, largest difference 0e0",
            "error: unexpected values: 1 of 1 elements of `counter` differ",
            "counter[0] is 109, expected 108",
        ],
    );
    let right = folder.path().join("launch.toml");
    fs::write(&right, STEPS.replace("[108]", "[109]")).expect("writing");
    let table = run("steps.ptx", &folder, 0, &["--threads", "1", "--no-races"]);
    assert_says(&table, &["counter: 1 elements as expected"]);
    let document = run("steps.ptx", &folder, 0, &["--json"]);
    let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!(document["launches"].as_array().map(Vec::len), Some(3));
    assert_eq!(document["expected"][0]["buffer"], "y");
}

#[test]
fn a_finding_names_its_launch_and_a_named_buffer() {
    let folder = steps();
    let file = folder.path().join("launch.toml");
    fs::write(&file, STEPS.replace("i32:7", "i32:8").replace("grid = 2", "grid = 3")).expect("writing");
    let table = run("steps.ptx", &folder, 1, &[]);
    assert_says(
        &table,
        &[
            "out-of-bounds access",
            "past the end of buffer `y` (32 bytes)",
            "if (i <= n) y[i] = a * x[i] + y[i] * scale[i & 3];",
            "launch 1, axpy<float>: 3 findings",
        ],
    );
    let one = run("steps.ptx", &folder, 1, &["--max-findings", "1"]);
    assert_says(&one, &["launch 1, axpy<float>: 1 finding\n"]);
}

#[test]
fn pointers_may_be_in_buffers() {
    let toml = r#"
entry = "fill_rows"
grid = 2
block = 4
params = ["&rows", "f32:3"]
[buffers]
rows = "ptr[&data, &data+32]"
data = "f32[12]=zeros"
[expect.data]
values = [3, 3, 3, 3, 0, 0, 0, 0, 3.0, 3, 3, 3]
"#;
    assert_says(&run("steps.ptx", &folder(toml, &[]), 0, &[]), &["data: 12 elements as expected"]);
    let table = run("steps.ptx", &folder(&toml.replace("&data+32", "null"), &[]), 1, &[]);
    assert_says(&table, &["a null pointer", "fill_rows: 1 finding"]);
}

#[test]
fn tensor_maps_are_described() {
    let toml = r#"
entry = "tile"
block = 32
params = ["tensor_map:tiles", "i32[32]"]
print = ["to"]
[buffers]
data = "i32[64]=range"
[tensor_maps.tiles]
buffer = "&data"
sizes = [8, 8]
box = [8, 4]
"#;
    let table = run("tile.ptx", &folder(toml, &[]), 0, &[]);
    assert_says(&table, &["to:\n  12 13 14 15 0 0 0 0\n  20 21 22 23 0 0 0 0\n"]);
    for (from, to, expected) in [
        ("\"&data\"", "\"&nothing\"", "tensor_maps.tiles: no buffer `nothing`; there are: data"),
        ("[8, 4]", "[8, 400]", "box sizes [8, 400]; each must be 1 to 256"),
        ("box =", "swizzle = 48\nbox =", "launch.toml:11:11: expected a swizzle of 0, 32, 64 or 128 bytes"),
        ("tensor_map:tiles", "tensor_map:tile", "no tensor map `tile`"),
    ] {
        let message = run("tile.ptx", &folder(&toml.replacen(from, to, 1), &[]), 2, &[]);
        assert_says(&message, &[expected]);
    }
}

#[test]
fn what_is_wrong_with_a_description_is_named() {
    let entry = "entry = \"fill_rows\"\nblock = 1\n";
    for (toml, expected) in [
        ("[buffers]\nx = \"u32:1\"\n", "launch.toml:4:5: expected a buffer, as in"),
        ("[buffers]\nx = \"ptr[&y]\"\n", "buffers.x: no buffer `y`; there are: x, "),
        ("[buffers]\nx = \"u8[4294967296]\"\ny = \"u8[4294967296]\"\nz = \"u8[1]\"\n", "more than 8589934592 bytes"),
        ("[variables]\nscale = \"f32[5]=zeros\"\n", "variables.scale: the variable has 16 bytes; 20 are given"),
        ("[variables]\nscales = \"u8:0\"\n", "variables.scales: no buffer `scales`; there are: scale, counter"),
        ("[expect.x]\nvalues = [1]\n", "expect.x: no buffer `x`"),
        ("[expect.scale]\nrtol = 1\n", "launch.toml:3:1: expected either npy = \"FILE\" or values"),
        ("[expect.scale]\nvalues = [1]\natol = -1.0\n", "a tolerance of -1"),
        ("[[launch]]\ngrids = 2\n", "launch.toml:4:1: unknown field `grids`"),
        ("[[launch]]\n[[launch]]\nparams = [\"&x\"]\n", "fill_rows_param_0@2: no buffer `x`"),
    ] {
        let message = run("steps.ptx", &folder(&format!("{entry}{toml}"), &[]), 2, &[]);
        assert_says(&message, &[expected]);
    }
    let several = run("steps.ptx", &folder(&format!("{entry}[[launch]]\n[[launch]]\n"), &[]), 2, &["--grid=1"]);
    assert_says(&several, &["--grid is for one launch; the description has 2"]);
}

#[test]
fn every_section_is_understood() {
    let table = text(&output(&mut ptx_sim(&["steps.ptx", "--launch", "steps.toml"]), 0).stdout);
    assert_says(&table, &["x: 8 elements as expected", "y:\n  ", "counter:\n  10", "launch 3, app::count_positive"]);
}

#[test]
fn arrays_of_numpy_have_to_fit() {
    let toml = "entry = \"fill_rows\"\nblock = 1\n[buffers]\nx = \"f32[2]=npy(x.npy)\"\n";
    let huge = npy("<f4", "(4294967296, 4294967296, 4294967296)", &[]);
    for (file, expected) in [
        (npy("<f8", "(2,)", &[0; 16]), "x.npy: holds f64[2]; the buffer is f32[2]"),
        (npy("<f4", "(3,)", &[0; 12]), "x.npy: holds f32[3]; the buffer is f32[2]"),
        (npy("<f4", "(2,)", &[0; 4]), "holds fewer than the 8 bytes that its header says"),
        (npy(">f4", "(2,)", &[0; 8]), "save little-endian numbers"),
        (huge, "at most 4294967296 bytes are possible"),
        (b"no array".to_vec(), "not a .npy file"),
    ] {
        let message = run("steps.ptx", &folder(toml, &[("x.npy", file)]), 2, &[]);
        assert_says(&message, &[expected]);
    }
}

#[test]
fn an_initial_description_runs_and_finds_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("axpy.toml");
    let init = |more: &[&str], exit_code| {
        let mut command = ptx_sim(&["init", "steps.ptx", "--entry", "axpy", "--output"]);
        text(&output(command.arg(&file).args(more), exit_code).stderr)
    };
    assert!(init(&[], 0).contains("sizes and contents are guesses"));
    let written = fs::read_to_string(&file).expect("it was written");
    assert_says(&written, &["\"f32:1\",   # float\n", "param_1 = \"f32[1000]=random(1)\"", "arch = 86", "# scale = "]);
    let table = text(&output(ptx_sim(&["steps.ptx", "--launch"]).arg(&file), 1).stdout);
    assert_says(&table, &["past the end of buffer `param_1` (4000 bytes)", "axpy<float>: 3 findings"]);
    assert!(init(&[], 2).contains("is there already; say --force"));
    init(&["--force"], 0);
    for (ptx, expected) in [("triton_add.ptx", "add: nothing found"), ("tile.ptx", "tile: ")] {
        output(ptx_sim(&["init", ptx, "--force", "--output"]).arg(&file), 0);
        let exit_code = i32::from(ptx == "tile.ptx");
        let table = text(&output(ptx_sim(&[ptx, "--launch"]).arg(&file), exit_code).stdout);
        assert_says(&table, &[expected]);
    }
}

/// Three blocks that meet.
const MEETING: &str = r#"
entry = "meet"
grid = 3
block = 32
shared = 128
cooperative = true
params = ["&values", "i32[96]"]

[buffers]
values = "i32[96]=range(10)"
"#;

#[test]
fn blocks_meet_in_a_cooperative_launch() {
    assert_says(&run("meet.ptx", &folder(MEETING, &[]), 0, &[]), &["meet: nothing found"]);
    let alone = MEETING.replace("cooperative = true\n", "");
    assert_says(&run("meet.ptx", &folder(&alone, &[]), 1, &[]), &["needs a cooperative launch"]);
    run("meet.ptx", &folder(&alone, &[]), 0, &["--cooperative"]);
    let several = format!("{MEETING}\n[[launch]]\n\n[[launch]]\ncooperative = false\n");
    assert_says(&run("meet.ptx", &folder(&several, &[]), 1, &[]), &["needs a cooperative launch"]);
    let message = run("meet.ptx", &folder(&MEETING.replace("grid = 3", "grid = 30000"), &[]), 2, &[]);
    assert_says(&message, &["a cooperative launch of 30000 blocks: at most 3456 of them"]);
}

#[test]
fn an_initial_description_has_shared_memory_and_keys_that_repeat() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("meet.toml");
    output(ptx_sim(&["init", "meet.ptx", "--output"]).arg(&file), 0);
    let written = fs::read_to_string(&file).expect("it was written");
    assert_says(&written, &["shared = 4096 ", "\"u32[1000]=range(10)\""]);
}

#[test]
fn what_is_no_ptx_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (contents, expected) in [
        (&b"\x7fELF\x02\x01\x01\x33"[..], "is not PTX but a cubin, an object file or a program"),
        (b"\x50\xed\x55\xba\x01\x00\x10\x00", "is not PTX but a fat binary"),
        (b"\xff\xfe", "is not PTX: byte 0 is not text"),
        (b"#include <cuda.h>\n__global__ void f() {}", "is source code, not PTX"),
        (b"", "expected a `.version` directive"),
    ] {
        let file = folder.path().join("kernel");
        fs::write(&file, contents).expect("writing");
        let message = refusal(&[file.to_str().expect("a path of text"), "--list"]);
        assert_says(&message, &[expected]);
    }
}

#[test]
fn the_architecture_comes_from_the_target() {
    let ptx =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tile.ptx")).expect("a fixture");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("kernel.ptx");
    let shared = "--shared=110000";
    // sm_86 has no room for it in a block, sm_90 has.
    let plain = ".version 8.0\n.target sm_86\n.address_size 64\n.visible .entry f() { ret; }";
    for (text, exit_code) in [(plain.to_owned(), 2), (plain.replace("sm_86", "sm_90"), 0)] {
        fs::write(&file, text).expect("writing");
        output(ptx_sim(&["--block=1", shared]).arg(&file), exit_code);
    }
    fs::write(&file, ptx.replace("sm_90", "sm_101a")).expect("writing");
    let message = refusal(&[file.to_str().expect("a path of text"), "--block=32"]);
    assert!(message.contains("is compiled for sm_101a, which is not simulated; say --arch"), "{message}");
}

#[test]
fn clusters_are_described() {
    let toml = "grid = 4\nblock = 1\ncluster = 2\nparams = [\"u32[4]\"]\n[expect.to]\nvalues = [1, 0, 3, 2]\n";
    run("cluster.ptx", &folder(toml, &[]), 0, &[]);
    let alone = toml.replace("cluster = 2\n", "");
    assert_says(&run("cluster.ptx", &folder(&alone, &[]), 1, &[]), &["outside the cluster, which has one block"]);
    run("cluster.ptx", &folder(&alone, &[]), 0, &["--cluster=2"]);
    let uneven = toml.replace("cluster = 2", "cluster = [3, 1]");
    let said = run("cluster.ptx", &folder(&uneven, &[]), 2, &[]);
    assert_says(&said, &["a grid of [4, 1, 1] blocks is not a multiple of clusters of [3, 1, 1]"]);
}
