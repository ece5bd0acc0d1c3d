//! What Rust-CUDA needs of the source. It is installed on few machines, and without it nothing else would say that a name is missing there,
//! or that LLVM 7 may copy a barrier.

use std::collections::BTreeSet;

/// Names that are public in a code generator's file, each behind its module's: `thread::sync_threads`.
fn names(source: &str) -> BTreeSet<String> {
    let mut module = "";
    let mut names = BTreeSet::new();
    // Not what a macro declares.
    for line in source.lines().map(str::trim).filter(|line| !line.contains("$name(")) {
        if let Some(rest) = line.strip_prefix("pub mod ") {
            module = rest.trim_end_matches([' ', '{']);
        } else if let Some(imported) = line.strip_prefix("pub use ") {
            let last = imported.trim_end_matches([';', '}']).rsplit("::").next().unwrap_or_default();
            let each = last.trim_start_matches('{').split(',').map(|name| name.rsplit(" as ").next().unwrap_or(name));
            names.extend(each.map(|name| format!("{module}::{}", name.trim())));
        } else if let Some(rest) = line.strip_prefix("pub unsafe fn ").or_else(|| line.strip_prefix("pub fn ")) {
            names.insert(format!("{module}::{}", rest.split(['(', '<']).next().unwrap_or_default()));
        } else if let Some(rest) = line.strip_prefix("pub(crate) use ") {
            names.insert(rest.trim_end_matches(';').to_owned());
        }
    }
    names
}

#[test]
fn both_code_generators_offer_the_same_names() {
    let rustc = names(include_str!("../src/device/codegen/rustc.rs"));
    let rust_cuda = names(RUST_CUDA);
    assert!(rustc.contains("thread::thread_idx_x") && rustc.contains("kernel"), "{rustc:?}");
    assert_eq!(rustc, rust_cuda, "a name is in one of kernel-gpu/src/device/codegen/{{rustc,rust_cuda}}.rs only");
}

const RUST_CUDA: &str = include_str!("../src/device/codegen/rust_cuda.rs");
const BARRIERS: &str = include_str!("../src/device/ptx/sync.rs");

/// The statement of the function `name`, the last before its end.
fn statement<'a>(source: &'a str, name: &str) -> &'a str {
    let (_, function) = source.split_once(&format!("pub unsafe fn {name}(")).expect("the function is there");
    let is_end = |line: &&str| line.trim() == "}";
    let lines = function.lines().take_while(|line| !is_end(line)).map(str::trim);
    lines.last().expect("it does something")
}

/// LLVM 7 copies a barrier that is a call of an external function or assembly, and LLVM knows an intrinsic to be convergent.
#[test]
fn barriers_are_intrinsics_by_rust_cuda() {
    assert_eq!(statement(RUST_CUDA, "sync_threads"), "unsafe { core::arch::nvptx::_syncthreads() };");
    assert_eq!(statement(RUST_CUDA, "sync_warp"), "unsafe { cuda_std::warp::sync_warp(u32::MAX) };");
    let mut imported = RUST_CUDA.lines().filter(|line| line.contains("use cuda_std"));
    let barriers = imported.find(|line| line.contains("sync") || line.contains('*'));
    assert_eq!(barriers, None, "cuda_std's barriers of a block are calls of functions that LLVM does not know");
    assert!(!RUST_CUDA.contains("asm!("), "assembly cannot be marked convergent");
}

/// rustc's jump threading copies an intrinsic, but no assembly.
#[test]
fn an_empty_assembly_stands_before_each_barrier_that_is_an_intrinsic() {
    let lines: Vec<&str> = BARRIERS.lines().map(str::trim).collect();
    let intrinsics = ["thread::sync_threads()", "warp::sync_warp()", "warp::converge()"];
    for intrinsic in intrinsics {
        let calls = lines.iter().enumerate().filter(|(_, line)| line.contains(intrinsic));
        let guarded = calls.map(|(at, _)| lines[..at].iter().rev().find(|line| !line.starts_with("//")));
        let guarded: Vec<bool> =
            guarded.map(|line| line.is_some_and(|line| line.starts_with("in_one_place!("))).collect();
        assert_eq!(guarded, [true], "{intrinsic}");
    }
}
