//! The program's command line, on PTX made by nvcc 13.0 (`nvcc -ptx -arch=sm_80 -lineinfo`) and Triton 3.9 from the sources
//! beside it.

mod common;

use std::fs;
use std::path::Path;

use common::{output, ptx_sim, refusal, text};

const TRITON: [&str; 12] = [
    "triton_add.ptx",
    "--block",
    "128",
    "--grid",
    "2",
    "--param=f32[200]=range",
    "--param=f32[200]=range",
    "--param=f32[200]",
    "--param=u32:200",
    "--param=u64:0",
    "--param=u64:0",
    "--print=add_param_2",
];

#[test]
fn tritons_kernel_runs() {
    let table = text(&output(&mut ptx_sim(&TRITON), 0).stdout);
    for expected in ["add_param_2:\n  0 2 4 6 8 10 12 14\n", "and 136 more", "add: nothing found"] {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
    let counters = text(&output(ptx_sim(&TRITON).arg("--counters"), 0).stdout);
    assert!(counters.contains("global_bytes_written") && counters.contains(" 800\n"), "{counters}");
}

#[test]
fn a_finding_shows_the_line_of_the_cuda_source() {
    let mut command = ptx_sim(&["moving_sum.ptx", "--launch", "moving_sum.toml"]);
    let table = text(&output(&mut command, 1).stdout);
    for expected in [
        "error: out-of-bounds access: ",
        "bytes past the end of buffer `unbounded_sum_param_1`",
        "sums[index] = tile[threadIdx.x] + tile[threadIdx.x + 1];",
        "called from here, and inlined",
        "sum<false>(values, sums, count);",
        "block (2, 0, 0), warp ",
        "help: ",
        "unbounded_sum: 1 finding",
    ] {
        assert!(table.contains(expected), "{expected} is missing:\n{table}");
    }
    command.args(["--source", "/"]);
    let table = text(&output(&mut command, 1).stdout);
    assert!(table.contains("moving_sum.cu:11") && !table.contains("threadIdx"), "without the source:\n{table}");
}

#[test]
fn the_command_line_wins_over_the_description() {
    let bounded = ["moving_sum.ptx", "--launch", "moving_sum.toml", "--entry", "bounded_sum"];
    output(&mut ptx_sim(&bounded), 0);
    let output = output(ptx_sim(&bounded).args(["--grid", "2", "--json"]), 0);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    assert_eq!((&document["passed"], &document["counters"]["blocks"]), (&true.into(), &2.into()));
    assert_eq!((&document["kind"], &document["version"]), (&"ptx-sim-launch".into(), &1.into()));
}

#[test]
fn buffers_come_from_files_and_go_to_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (input, result) = (folder.path().join("in"), folder.path().join("out"));
    let values: Vec<u8> = (0..200).flat_map(|index| (index as f32 * 0.5).to_le_bytes()).collect();
    fs::write(&input, &values).expect("writing");
    let mut command = ptx_sim(&["triton_add.ptx", "--block=128", "--grid=2"]);
    command.args([format!("--param=f32[200]=file({})", input.display()), "--param=f32[200]=range".to_owned()]);
    command.args(["--param=f32[200]", "--param=u32:200", "--param=u64:0", "--param=u64:0"]);
    output(command.arg(format!("--dump=add_param_2={}", result.display())), 0);
    let sums: Vec<u8> = (0..200).flat_map(|index| (index as f32 * 1.5).to_le_bytes()).collect();
    assert_eq!(fs::read(&result).expect("reading"), sums);
    fs::write(&input, &values[4..]).expect("writing");
    let message = text(&output(&mut command, 2).stderr);
    assert!(message.contains("has 796 bytes; the buffer has 800"), "{message}");
}

#[test]
fn entries_are_listed_with_their_parameters() {
    let list = text(&output(&mut ptx_sim(&["moving_sum.ptx", "--list"]), 0).stdout);
    assert!(list.contains("bounded_sum(bounded_sum_param_0: 8 bytes, "), "{list}");
    assert!(list.contains("unbounded_sum_param_2: 4 bytes)"), "{list}");
    let list = output(&mut ptx_sim(&["triton_add.ptx", "--list", "--json"]), 0);
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).expect("standard output is JSON");
    assert_eq!((&list["kind"], &list["version"]), (&"ptx-sim-list".into(), &1.into()));
    assert_eq!(
        list["entries"][0]["parameters"][3],
        serde_json::json!({"name": "add_param_3", "bytes": 4, "alignment": 4})
    );
    assert_eq!(list["entries"][0]["refusal"], serde_json::Value::Null);
}

#[test]
fn entries_that_cannot_be_executed_are_listed_with_the_reason() {
    let ptx = tempfile::NamedTempFile::new().expect("a temporary file");
    let head = ".version 8.0\n.target sm_90\n.address_size 64\n";
    let entries = ".visible .entry nothing()\n{\n    ret;\n}\n.visible .entry walk()\n{\n    tcgen05.fence::before_thread_sync;\n}\n";
    fs::write(ptx.path(), head.to_owned() + entries).expect("writing");
    let list = |more: &[&str]| text(&output(ptx_sim(&["--list"]).arg(ptx.path()).args(more), 0).stdout);
    let lines = list(&[]);
    let reason = lines.lines().nth(2).expect("a line behind that of the second entry").to_owned();
    assert!(lines.starts_with("nothing()\nwalk()\n    is not executed: "), "{lines}");
    assert!(reason.contains(":10:") && reason.contains("tcgen05.fence::before_thread_sync"), "{reason}");
    let document: serde_json::Value = serde_json::from_str(&list(&["--json"])).expect("standard output is JSON");
    assert_eq!(document["entries"][0]["refusal"], serde_json::Value::Null);
    assert!(document["entries"][1]["refusal"].as_str().is_some_and(|text| reason.ends_with(text)), "{document}");
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let ptx = "moving_sum.ptx";
    assert!(refusal(&["nowhere.ptx", "--list"]).contains("nowhere.ptx: No such file"));
    assert!(refusal(&[ptx]).contains("Say --entry and one of"), "two entries");
    assert!(refusal(&[ptx, "--entry=bounded_sum"]).contains("--block X[,Y,Z]"));
    let few = refusal(&[ptx, "--entry=bounded_sum", "--block=32", "--param=u32:1"]);
    assert!(few.contains("takes 3 parameters") && few.contains("bounded_sum_param_1: 8 bytes"), "{few}");
    let unknown = refusal(&[ptx, "--entry=bounded_sum", "--param=f33[8]"]);
    assert!(unknown.contains("character 1: `f33` is not a type; known are u8"), "{unknown}");
    let buffer = refusal(&[ptx, "--launch=moving_sum.toml", "--print=values"]);
    assert!(buffer.contains("no buffer `values`; there are: unbounded_sum_param_0, "), "{buffer}");
    assert!(refusal(&[ptx, "--grid=1,2,3,4"]).contains("one to three sizes"));
}

#[test]
fn a_number_of_the_other_kind_is_refused() {
    let axpy = ["steps.ptx", "--entry=axpy<float>", "--block=32", "--param=f32:2", "--param=f32[8]", "--param=f32[8]"];
    let refused = |last: &str| refusal(&[&axpy[..], &[last]].concat());
    let message = refused("--param=f32:100");
    assert!(message.contains("axpy_param_3 takes an integer, and f32 is a floating-point number"), "{message}");
    let fill = ["steps.ptx", "--entry=fill_rows", "--block=32", "--param=null", "--param=i32:3"];
    assert!(refusal(&fill).contains("fill_rows_param_1 takes a floating-point number, and i32 is an integer"));
}

#[test]
fn it_bears_its_own_name() {
    let version = text(&output(&mut ptx_sim(&["--version"]), 0).stdout);
    assert_eq!(version, format!("ptx-sim {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (ran, at) = (folder.path().join("ran"), folder.path().display());
    for place in [format!("{at}/nowhere/file"), at.to_string(), format!("{at}/ran/file")] {
        let mut command = ptx_sim(&["run", "--report", &place, "--", "touch"]);
        let message = text(&output(command.arg(&ran), 2).stderr);
        assert!(message.contains(&format!("{place}: ")) && !ran.exists(), "{message}");
        let dump = format!("--dump=unbounded_sum_param_1={place}");
        let message = refusal(&["moving_sum.ptx", "--launch=moving_sum.toml", &dump]);
        assert!(message.contains(&format!("{place}: ")), "{message}");
    }
}

/// The error message for a launch description with this text.
fn description_refusal(toml: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("launch.toml");
    fs::write(&file, toml).expect("writing");
    refusal(&["moving_sum.ptx", &format!("--launch={}", file.display())])
}

#[test]
fn errors_in_a_description_name_line_and_column() {
    for (toml, expected) in [
        ("grid = 1\nblocks = 3\n", "launch.toml:2:1: unknown field `blocks`, expected one of `entry`"),
        ("grid = 1\nblock = [1, 2, 3, 4]\n", "launch.toml:2:9: expected one to three sizes"),
        ("params = [\n  \"u32:1\",\n  \"f32[8]=ones\",\n]\n", "launch.toml:3:10: `=ones` is no contents; expected"),
        ("grid = \n", "launch.toml:1:8: "),
        ("shared = -1\n", "launch.toml:1:10: "),
    ] {
        let message = description_refusal(toml);
        assert!(message.contains(expected), "`{expected}` is missing: {message}");
    }
}

/// A generator of pseudo-random numbers (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// `text` with a few bytes changed, a part removed or doubled, or the end cut off.
fn mutated(text: &[u8], random: &mut Random) -> Vec<u8> {
    const BYTES: &[u8] = b" \n.,;:{}[]()<>\"=+-@%|0129axf_\\\xff\0";
    let mut text = text.to_vec();
    for _ in 0..=random.below(3) {
        let start = random.below(text.len());
        let end = (start + random.below(40)).min(text.len());
        match random.below(4) {
            0 => text[start] = BYTES[random.below(BYTES.len())],
            1 => drop(text.drain(start..end)),
            2 => text.splice(start..start, text[start..end].to_vec()).for_each(drop),
            _ => text.truncate(start.max(1)),
        }
        if text.is_empty() {
            text.push(b'.');
        }
    }
    text
}

#[test]
fn no_input_makes_it_panic_or_hang() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let pairs = ["moving_sum", "steps"]
        .map(|name| ["ptx", "toml"].map(|kind| fs::read(fixtures.join(name).with_extension(kind)).expect("a fixture")));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [ptx_file, toml_file] = ["k.ptx", "k.toml"].map(|name| folder.path().join(name));
    let mut random = Random(0x5eed);
    for round in 0..400 {
        let [mut ptx, mut toml] = pairs[round % 2].clone();
        let changed = if round % 3 == 0 { &mut ptx } else { &mut toml };
        *changed = mutated(changed, &mut random);
        fs::write(&ptx_file, &ptx).expect("writing");
        fs::write(&toml_file, &toml).expect("writing");
        let mut command = ptx_sim(&["--instruction-limit", "10000"]);
        let output = command.arg(&ptx_file).arg("--launch").arg(&toml_file).output().expect("the program starts");
        let stderr = text(&output.stderr);
        let ended_well = matches!(output.status.code(), Some(0..=2)) && !stderr.contains("panicked");
        let inputs = || format!("{}\n{}", String::from_utf8_lossy(&ptx), String::from_utf8_lossy(&toml));
        assert!(ended_well, "round {round}: {:?} {stderr}\n{}", output.status, inputs());
    }
}

#[test]
fn schedules_show_what_the_first_does_not_and_merge_what_is_equal() {
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry ticket(.param .u64 counter) {\n\
        .reg .b64 %rd0;\n.reg .b32 %r<3>;\n.reg .pred %p<3>;\nld.param.u64 %rd0, [counter];\n\
        mov.u32 %r0, %tid.x;\nand.b32 %r1, %r0, 31;\nsetp.ne.u32 %p0, %r1, 0;\n@%p0 ret;\n\
        st.shared.u32 [%r0+2], %r0;\natom.global.add.u32 %r2, [%rd0], 1;\nshr.u32 %r0, %r0, 5;\n\
        setp.ne.u32 %p1, %r2, %r0;\n@%p1 trap;\nret;\n}\n";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("ticket.ptx");
    fs::write(&file, ptx).expect("writing");
    let run = |schedules: &str| {
        let mut command = ptx_sim(&["--block=128", "--shared=256", "--param=u32[1]=zeros", "--schedules", schedules]);
        text(&output(command.arg(&file), 1).stdout)
    };
    let first = run("1");
    assert!(!first.contains("error: trap") && !first.contains("schedules"), "{first}");
    let all = run("4");
    assert!(all.contains("error: trap") && all.contains("2 findings under 4 schedules"), "{all}");
    assert!(all.contains("under 4 of 4 schedules, first 0"), "the misaligned store, once:\n{all}");
}

#[test]
fn what_has_no_end_is_not_read_to_its_end() {
    for arguments in [["/dev/zero", "--list"], ["moving_sum.ptx", "--launch=/dev/zero"]] {
        let said = refusal(&arguments);
        assert!(said.contains("/dev/zero: is larger than "), "{said}");
    }
}

#[test]
fn no_control_character_of_a_file_reaches_the_terminal() {
    assert!(
        description_refusal("[buffers]\n\"a\\u001b[31mb\" = \"f32[4]\"").contains("control characters: a\u{fffd}[31mb")
    );
    assert!(!description_refusal("entry = \"a\\u001b[31mb\"").contains('\u{1b}'));
    let folder = tempfile::tempdir().unwrap();
    let ptx = std::fs::read_to_string("tests/fixtures/moving_sum.ptx").unwrap();
    let named = ptx.lines().map(|line| match line.trim_start().strip_prefix(".file") {
        Some(file) => format!(".file {}\"/a\u{1b}[31mb.cu\"\n", file.split('"').next().unwrap_or_default()),
        None => line.to_owned() + "\n",
    });
    let file = folder.path().join("named.ptx");
    std::fs::write(&file, named.collect::<String>()).unwrap();
    let shown = output(ptx_sim(&["--launch", "moving_sum.toml"]).arg(&file), 1);
    let shown = text(&shown.stdout);
    assert!(shown.contains("--> /a\u{fffd}[31mb.cu:") && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn a_dump_replaces_neither_what_is_read_nor_another_dump() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    for name in ["moving_sum.ptx", "moving_sum.toml"] {
        std::fs::copy(format!("tests/fixtures/{name}"), at(name)).unwrap();
    }
    std::fs::hard_link(at("moving_sum.ptx"), at("hard")).unwrap();
    let dump = |file: &str| format!("--dump=unbounded_sum_param_1={}", at(file));
    let run = |dumps: &[String]| {
        let mut arguments = vec![at("moving_sum.ptx"), format!("--launch={}", at("moving_sum.toml"))];
        arguments.extend_from_slice(dumps);
        refusal(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for (dumps, other) in [
        (vec![dump("hard")], "the PTX"),
        (vec![dump("moving_sum.toml")], "the launch description"),
        (vec![dump("new"), dump("./new")], "unbounded_sum_param_1"),
    ] {
        let said = run(&dumps);
        assert!(said.contains(&format!("is the file of {other}")), "{said}");
    }
    let init = refusal(&["init", &at("moving_sum.ptx"), "--entry=unbounded_sum", "--force", "--output", &at("hard")]);
    assert!(init.contains("is the PTX"), "{init}");
    assert_eq!(std::fs::read(at("hard")).unwrap(), std::fs::read("tests/fixtures/moving_sum.ptx").unwrap());
}

#[test]
fn streams_and_disks_that_are_full_end_it_in_order() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = ptx_sim(&["nothing.ptx"]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(2), "a panic, as standard error is full");
    let folder = tempfile::tempdir().unwrap();
    let ptx_sim = env!("CARGO_BIN_EXE_ptx-sim");
    let arguments = format!(
        "tests/fixtures/moving_sum.ptx --launch tests/fixtures/moving_sum.toml --param f32[30000] --param f32[30000] --param u32:1 \
         --dump unbounded_sum_param_1={}/out",
        folder.path().display()
    );
    let limited = format!("ulimit -f 4; exec {ptx_sim} {arguments}");
    let output = output(std::process::Command::new("sh").args(["-c", &limited]), 2);
    assert!(text(&output.stderr).contains("/out: "), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something half-written is left");
}

#[test]
fn the_commands_that_the_readme_shows_for_a_ptx_file_do_what_it_says() {
    let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(package.join("../README.md")).expect("the page");
    let (_, section) = page.split_once("## A PTX file\n").expect("its section");
    let (section, _) = section.split_once("\n## ").expect("another section behind it");
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::copy(package.join("tests/fixtures/steps.ptx"), folder.path().join("kernel.ptx")).expect("a PTX file");
    let lines: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("    ptx-sim ")).collect();
    assert_eq!(lines.len(), 3, "{section}");
    for line in lines {
        let (command, comment) = line.split_once('#').unwrap_or((line, ""));
        let arguments: Vec<&str> = command.split_whitespace().collect();
        // The kernel reads past the end of its buffers.
        let code = i32::from(arguments.contains(&"--launch"));
        let output = output(ptx_sim(&arguments).current_dir(folder.path()), code);
        if let Some(file) = comment.trim().strip_prefix("writes ").and_then(|rest| rest.split(':').next()) {
            assert!(folder.path().join(file).is_file(), "{line} writes no {file}: {}", text(&output.stderr));
        }
    }
}
