//! Rendering of findings from real runs.

use std::fs;
use std::path::Path;

use ptx_diagnostics::{Renderer, Sources};
use ptx_sim::{Engine, Finding, GlobalMemory, Launch, Module, Options, run};

/// 16-byte copies into shared rows of 130 bytes, inlined from `kernel.rs`.
const PTX: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 source)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    .shared .align 16 .b8 tile[4160];
    .loc 2 3 5
    .loc 1 2 5, function_name $name, inlined_at 2 3 5
    ld.param.u64 %rd0, [source];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 16;
    add.u64 %rd1, %rd0, %rd1;
    mov.u32 %r2, tile;
    mad.lo.u32 %r1, %r0, 130, %r2;
    cp.async.cg.shared.global [%r1], [%rd1], 16;
    cp.async.wait_all;
    ret;
}
.file 1 \"src/copy.rs\"
.file 2 \"src/kernel.rs\"
.section .debug_str { $name: .b8 0 }
";

/// Every thread of two warps writes the same word, in a function inlined into `kernel.rs`.
const RACE: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry race()
{
    .reg .b32 %r<2>;
    .shared .align 4 .b32 word;
    mov.u32 %r0, %tid.x;
    .loc 2 9 5
    .loc 1 3 5, function_name $name, inlined_at 2 9 5
    st.shared.u32 [word], %r0;
    ret;
}
.file 1 \"src/store.rs\"
.file 2 \"src/kernel.rs\"
.section .debug_str { $name: .b8 0 }
";

fn race() -> Vec<Finding> {
    let module = Module::parse(RACE, "race.ptx").expect("the PTX is well formed");
    let launch = Launch {
        entry: "race",
        grid: [1; 3],
        block: [64, 1, 1],
        dynamic_shared_bytes: 0,
        params: &[],
        architecture: 80,
    };
    run(&module, &mut GlobalMemory::new(), &launch, &Options::default()).expect("the launch is possible").findings
}

fn findings() -> Vec<Finding> {
    let module = Module::parse(PTX, "copy.ptx").expect("the PTX is well formed");
    let mut memory = GlobalMemory::new();
    let source = memory.allocate("source", 512).expect("allocating");
    memory.write(source, &[1; 512]).expect("writing");
    let launch = Launch {
        entry: "copy",
        grid: [1; 3],
        block: [32, 1, 1],
        dynamic_shared_bytes: 0,
        params: &[&source.to_le_bytes()],
        architecture: 80,
    };
    run(&module, &mut memory, &launch, &Options::default()).expect("the launch is possible").findings
}

fn rendered(folder: &Path, colours: bool) -> String {
    let renderer = Renderer::new(Sources::below(folder), colours);
    findings().iter().map(|finding| renderer.render(finding) + "\n").collect()
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("src")).expect("creating src");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("writing a source file");
    }
    folder
}

#[test]
fn the_source_its_caller_the_instruction_the_numbers_and_advice_are_shown() {
    let folder = folder(&[
        ("src/copy.rs", "fn copy_16() {\n    asm!(\"cp.async\");\n}\n"),
        ("src/kernel.rs", "fn kernel() {\n    // copies\n    copy_16();\n}\n"),
    ]);
    let text = rendered(folder.path(), false);
    for expected in [
        "error: misaligned access: ",
        "--> src/copy.rs:2:5",
        "2 |     asm!(\"cp.async\");",
        "::: copy.ptx:17:1",
        "17 | cp.async.cg.shared.global [%r1], [%rd1], 16;",
        "block (0, 0, 0), warp 0, lane 1 at 0x482, lane 2 at 0x504, lane 3 at 0x586,",
        "and 20 more lanes; 28 occurrences in the launch",
        "note: called from here, and inlined",
        "src/kernel.rs:3:5",
        "3 |     copy_16();",
        "help: make the row pitch",
    ] {
        assert!(text.contains(expected), "`{expected}` is missing:\n{text}");
    }
}

#[test]
fn places_are_named_where_the_source_is_absent() {
    let folder = folder(&[]);
    let text = rendered(folder.path(), false);
    for expected in ["src/copy.rs:2:5", "src/kernel.rs:3:5", "cp.async.cg.shared.global"] {
        assert!(text.contains(expected), "`{expected}` is missing:\n{text}");
    }
}

#[test]
fn a_source_that_has_changed_since_is_no_obstacle() {
    let folder = folder(&[("src/copy.rs", "\n"), ("src/kernel.rs", "\n\n   \u{fffd}é")]);
    let text = rendered(folder.path(), false);
    assert!(text.contains("src/copy.rs") && text.contains('é'), "{text}");
}

#[test]
fn colours_are_used_only_where_they_are_asked_for() {
    let folder = folder(&[]);
    assert!(!rendered(folder.path(), false).contains('\u{1b}'));
    assert!(rendered(folder.path(), true).contains("\u{1b}["));
}

#[test]
fn a_race_shows_both_accesses() {
    let renderer = Renderer::new(Sources::below(Path::new("")), false);
    let findings = race();
    assert!(!findings.is_empty(), "two warps write the same word");
    let text: String = findings.iter().map(|finding| renderer.render(finding)).collect();
    for expected in ["error: data race: ", "the other access, a write: block (0, 0, 0), warp ", "help: order the two"] {
        assert!(text.contains(expected), "`{expected}` is missing:\n{text}");
    }
    for both in ["src/store.rs:3:5", "called from here, and inlined", "src/kernel.rs:9:5"] {
        assert_eq!(text.matches(both).count(), 2 * findings.len(), "`{both}` is not shown for both accesses:\n{text}");
    }
}

#[test]
fn a_race_says_what_made_the_other_access() {
    let renderer = Renderer::new(Sources::below(Path::new("")), false);
    let mut finding = race().swap_remove(0);
    for (engine, expected) in
        [(Engine::Matrix, "a write by wgmma: block"), (Engine::BulkReads, "a write by a bulk copy: ")]
    {
        finding.other.as_mut().expect("a race has two accesses").engine = engine;
        let text = renderer.render(&finding);
        assert!(text.contains(&format!("the other access, {expected}")), "`{expected}` is missing:\n{text}");
    }
}

#[test]
fn the_users_line_comes_before_that_of_a_header() {
    let folder = folder(&[("src/kernel.rs", "fn kernel() {\n    // copies\n    copy_16();\n}\n")]);
    let mut finding = findings().swap_remove(0);
    let source = finding.at.source.as_mut().expect("a source");
    source.file = "/usr/local/cuda/include/cuda_pipeline_helpers.h".to_owned();
    let renderer = Renderer::new(Sources::below(folder.path()), false);
    let text = renderer.render(&finding);
    let at = |expected: &str| text.find(expected).unwrap_or_else(|| panic!("`{expected}` is missing:\n{text}"));
    assert!(at("--> src/kernel.rs:3:5") < at("cp.async.cg.shared.global [%r1], [%rd1], 16;"), "{text}");
    assert!(at("cp.async.cg") < at("note: in what is inlined there"), "{text}");
    assert!(at("in what is inlined there") < at("cuda_pipeline_helpers.h:2:5"), "{text}");
}

#[test]
fn names_are_shown_as_written() {
    let mut finding = findings().swap_remove(0);
    finding.message = "the end of buffer `_Z4axpyIfEvT_PKS0_PS0_i_param_2`".to_owned();
    finding.at.called_from =
        vec![ptx_sim::CallSite { function: "_Z6helperPf".to_owned(), ptx_line: 7, ..ptx_sim::CallSite::default() }];
    let text = Renderer::new(Sources::below(Path::new("")), false).render(&finding);
    for expected in ["`parameter 2 of axpy<float>`", "`helper` is called here, line 7 of the PTX"] {
        assert!(text.contains(expected), "`{expected}` is missing:\n{text}");
    }
}
