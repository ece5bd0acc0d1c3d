//! Circles of modules: files of a folder, and folders beside them, that depend on each other.
//!
//! A module depends on the neighbours that it or a module below it names by a path from `crate` or `super`, outside of tests.
//! What a module names of its own parent is not looked at, and neither is where the parent has that from, unless the root of the crate has
//! all of a folder (`pub use folder::*`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::{fs, iter};

/// The path of a module from the root of its crate.
pub type Module = Vec<String>;

/// What is between two names of a path.
const SEPARATOR: &str = "::";

/// Modules with what their sources say but for tests and comments.
pub type Sources = BTreeMap<Module, String>;

/// Adds the sources in `folder`, which is that of `module`.
fn read(folder: &Path, module: &Module, sources: &mut Sources) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let child = || module.iter().cloned().chain([name.clone()]).collect();
        if path.is_dir() {
            read(&path, &child(), sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            let module = if ["lib", "main", "mod"].contains(&name.as_str()) { module.clone() } else { child() };
            sources.insert(module, code(&fs::read_to_string(&path).expect("a source")));
        }
    }
}

/// A source without comments, and without the tests at its end.
pub fn code(source: &str) -> String {
    let lines: Vec<&str> = source.lines().collect();
    let is_test = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].contains("mod ") && pair[1].ends_with('{');
    let end = lines.windows(2).position(is_test).unwrap_or(lines.len());
    lines[..end].iter().flat_map(|line| [line.split("//").next().unwrap_or_default(), "\n"]).collect()
}

/// Names, separators of paths, and other characters.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let length = match name {
            0 if rest.starts_with(SEPARATOR) => SEPARATOR.len(),
            0 => first.len_utf8(),
            _ => name,
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// The paths from `crate` and `super` in `code`; of what is imported in braces, one for each name.
fn paths(code: &str) -> Vec<Vec<&str>> {
    let tokens = tokens(code);
    let mut paths = Vec::new();
    for at in 0..tokens.len() {
        let is_first = at == 0 || tokens[at - 1] != SEPARATOR;
        if is_first && ["crate", "super"].contains(&tokens[at]) && tokens.get(at + 1) == Some(&SEPARATOR) {
            tree(&tokens, at, Vec::new(), &mut paths);
        }
    }
    paths
}

/// Adds the paths that go on behind `path` with the token at `at`. Where they end.
fn tree<'a>(tokens: &[&'a str], mut at: usize, mut path: Vec<&'a str>, paths: &mut Vec<Vec<&'a str>>) -> usize {
    loop {
        match tokens.get(at).copied() {
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    at = if tokens[at] == "," { at + 1 } else { tree(tokens, at, path.clone(), paths) };
                }
                return at + 1;
            }
            Some(name) if name.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                path.push(name);
                if tokens.get(at + 1) != Some(&SEPARATOR) {
                    paths.push(path);
                    return at + 1;
                }
                at += 2;
            }
            _ => {
                paths.push(path);
                return at + 1;
            }
        }
    }
}

/// Where `path` leads from `module`.
fn target(module: &Module, path: &[&str]) -> Module {
    let mut target = if path[0] == "crate" { Module::new() } else { module.clone() };
    for name in path.iter().skip_while(|name| **name == "crate") {
        match *name {
            "super" => drop(target.pop()),
            name => target.push(name.to_owned()),
        }
    }
    target
}

/// The folders of which the root of a crate has everything by `pub use folder::*`.
fn shown_folders(sources: &Sources) -> Vec<&str> {
    let root = sources.get(&Module::new()).map_or("", String::as_str);
    let uses = root.split("pub use ").skip(1);
    uses.filter_map(|shown| shown.split_once(';')?.0.strip_suffix("::*")).collect()
}

/// Which neighbours every module depends on, with a path that says so.
fn dependencies(sources: &Sources) -> BTreeMap<Module, BTreeMap<Module, String>> {
    let mut dependencies: BTreeMap<Module, BTreeMap<Module, String>> = BTreeMap::new();
    let shown = shown_folders(sources);
    let is_known = |module: &[String]| sources.keys().any(|known| known.starts_with(module));
    // What the root has from a folder is there.
    let place = |target: Module| {
        let first = target.first()?;
        let within = |folder: &&str| is_known(&[(*folder).to_owned(), first.clone()]);
        let folder = shown.iter().copied().find(within).filter(|_| !is_known(std::slice::from_ref(first)))?;
        Some([folder.to_owned()].into_iter().chain(target.clone()).collect::<Module>())
    };
    for (module, code) in sources {
        for path in paths(code) {
            let target = target(module, &path);
            let target = place(target.clone()).unwrap_or(target);
            let common = iter::zip(module, &target).take_while(|(one, other)| one == other).count();
            let (Some(from), Some(to)) = (module.get(..=common), target.get(..=common)) else { continue };
            if is_known(to) {
                let says = format!("{}: {}", module.join(SEPARATOR), path.join(SEPARATOR));
                dependencies.entry(from.to_vec()).or_default().entry(to.to_vec()).or_insert(says);
            }
        }
    }
    dependencies
}

/// The shortest circle through `module`, as what each of its modules says of the next.
fn circle(module: &Module, dependencies: &BTreeMap<Module, BTreeMap<Module, String>>) -> Option<Vec<String>> {
    let mut says: BTreeMap<&Module, (&Module, &String)> = BTreeMap::new();
    let mut queue = VecDeque::from([module]);
    while let Some(from) = queue.pop_front() {
        for (to, path) in dependencies.get(from).into_iter().flatten() {
            if !says.contains_key(to) {
                says.insert(to, (from, path));
                queue.push_back(to);
            }
        }
    }
    let (mut from, last) = *says.get(module)?;
    let mut circle = vec![last.clone()];
    while from != module {
        let (before, path) = says[from];
        circle.push(path.clone());
        from = before;
    }
    circle.reverse();
    Some(circle)
}

/// The circles of `sources`, one for each set of modules: of each of its modules, what it says of the next.
pub fn circles(sources: &Sources) -> Vec<Vec<String>> {
    let dependencies = dependencies(sources);
    let mut seen = BTreeSet::new();
    let circles = dependencies.keys().filter_map(|module| circle(module, &dependencies));
    circles.filter(|circle| seen.insert(circle.iter().cloned().collect::<BTreeSet<_>>())).collect()
}

/// The crates below `folder`.
fn crates(folder: &Path, found: &mut Vec<String>, root: &Path) {
    if folder.join("Cargo.toml").exists() && folder.join("src").exists() {
        found.push(folder.strip_prefix(root).expect("below the root").to_string_lossy().into_owned());
    }
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() && !name.starts_with('.') && !["target", "src"].contains(&name.as_str())
        {
            crates(&path, found, root);
        }
    }
}

/// The circles of all crates below `root`, each behind the folder of its crate.
pub fn of_workspace(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    crates(root, &mut found, root);
    let of_crate = |name: String| {
        let mut sources = Sources::new();
        read(&root.join(&name).join("src"), &Module::new(), &mut sources);
        circles(&sources).into_iter().map(move |circle| format!("{name}:\n  {}", circle.join("\n  ")))
    };
    found.into_iter().flat_map(of_crate).collect()
}
