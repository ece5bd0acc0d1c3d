//! The kernels find the same names under both code generators. Rust-CUDA is installed on few machines, and without it nothing
//! else would say that one is missing there.

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
    let rust_cuda = names(include_str!("../src/device/codegen/rust_cuda.rs"));
    assert!(rustc.contains("thread::thread_idx_x") && rustc.contains("kernel"), "{rustc:?}");
    assert_eq!(rustc, rust_cuda, "a name is in one of kernel-gpu/src/device/codegen/{{rustc,rust_cuda}}.rs only");
}
