//! Packages of this workspace depend one way, by their folders.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use toml::{Table, Value};

/// Beginnings of folders with the beginnings of those that their packages may depend on. The first that a folder begins with counts.
const MAY: [(&str, &[&str]); 8] = [
    ("tools/ptx-sim/", &["tools/ptx-sim/", "tools/doc-lint"]),
    ("tools/", &["tools/", "kernel-gpu/contract"]),
    ("kernel-gpu", &["kernel-gpu"]),
    ("host/numerics", &["kernel-gpu/contract"]),
    ("host/cli", &["host/fa512", "host/numerics", "kernel-gpu", "tools/"]),
    ("xtask", &["kernel-gpu", "tools/"]),
    ("host/fa512", &["host/fa512", "kernel-gpu/contract"]),
    ("host/python", &["host/fa512", "kernel-gpu/contract"]),
];

/// The manifest in `folder`.
fn manifest(folder: &Path) -> Table {
    let text = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    text.parse().expect("a valid manifest")
}

/// The packages of the workspace: their folders, with the folders that each depends on, in tests and build scripts too.
fn packages(root: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let workspace = manifest(root);
    let members = workspace["workspace"]["members"].as_array().expect("members").iter();
    let shared = &workspace["workspace"]["dependencies"];
    let path_of = |folder: &str, name: &str, dependency: &Value| {
        let named = dependency.get("path").and_then(Value::as_str);
        match named {
            Some(path) => Some(normal(&format!("{folder}/{path}"))),
            None => shared.get(name)?.get("path")?.as_str().map(str::to_owned),
        }
    };
    let with_dependencies = members.map(|folder| {
        let folder = folder.as_str().expect("a folder");
        let package = manifest(&root.join(folder));
        let sections = ["dependencies", "dev-dependencies", "build-dependencies"].into_iter();
        let tables = sections.filter_map(|section| package.get(section)?.as_table());
        let all = tables.flatten().filter_map(|(name, dependency)| path_of(folder, name, dependency));
        (folder.to_owned(), all.collect())
    });
    with_dependencies.collect()
}

/// `path` without `..`.
fn normal(path: &str) -> String {
    let mut folders = Vec::new();
    for folder in path.split('/') {
        match folder {
            ".." => drop(folders.pop()),
            folder => folders.push(folder),
        }
    }
    folders.join("/")
}

/// What `packages` depend on and must not.
fn wrong(packages: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (from, dependencies) in packages {
        let Some((_, may)) = MAY.iter().find(|(start, _)| from.starts_with(start)) else { continue };
        let refused = dependencies.iter().filter(|to| !may.iter().any(|start| to.starts_with(start)));
        wrong.extend(refused.map(|to| format!("{from} depends on {to}")));
    }
    wrong
}

#[test]
fn packages_depend_one_way() {
    let packages = packages(doc_lint::workspace_root());
    for (folder, _) in MAY {
        assert!(packages.keys().any(|package| package.starts_with(folder)), "no package is in {folder}");
    }
    assert_eq!(wrong(&packages), [""; 0]);
}

#[test]
fn a_dependency_on_a_package_above_is_found() {
    let one = |from: &str, to: &str| BTreeMap::from([(from.to_owned(), BTreeSet::from([to.to_owned()]))]);
    assert_eq!(wrong(&one("tools/ptx-sim/cli", "host/numerics")), ["tools/ptx-sim/cli depends on host/numerics"]);
    assert_eq!(wrong(&one("host/fa512/c", "host/fa512")), [""; 0]);
}

#[test]
fn the_test_command_of_ptx_sim_has_each_of_its_packages() {
    let root = doc_lint::workspace_root();
    let text = fs::read_to_string(root.join(".cargo/config.toml")).expect("cargo's configuration");
    let configuration: Table = text.parse().expect("a valid configuration");
    let alias = configuration["alias"]["test-ptx-sim"].as_array().expect("a list of arguments");
    let tested = alias.iter().filter_map(|argument| argument.as_str()?.strip_prefix("--package="));
    let folders = packages(root).into_keys().filter(|folder| folder.starts_with("tools/ptx-sim/"));
    let name = |folder: String| manifest(&root.join(folder))["package"]["name"].as_str().expect("a name").to_owned();
    // It has nothing to test.
    let names = folders.map(name).filter(|name| name != "find_cuda_helper");
    assert_eq!(tested.map(str::to_owned).collect::<BTreeSet<_>>(), names.collect());
}
