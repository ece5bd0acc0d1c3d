//! Every instruction form that the simulator executes has been compared with a GPU, or is listed with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ptx_conformance::exempt;
use ptx_conformance::forms::CLASSES;

/// The words in quotes in the simulator's decoders, by file: opcodes and modifiers.
fn vocabulary() -> BTreeMap<String, BTreeSet<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src/isa");
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).expect("the decoders of ptx-sim lie beside this crate") {
        let path = entry.expect("reading the folder").path();
        let text = std::fs::read_to_string(&path).expect("reading a decoder");
        let name = path.file_stem().expect("a file name").to_string_lossy().into_owned();
        files.insert(name, words(&text));
    }
    files
}

fn words(text: &str) -> BTreeSet<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = code.flat_map(|line| line.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>());
    let is_word = |literal: &String| {
        literal.starts_with(|first: char| first.is_ascii_alphabetic())
            && literal.chars().all(|character| character.is_ascii_alphanumeric() || "_:".contains(character))
    };
    literals.filter(is_word).collect()
}

/// The instructions of all cases: opcode and modifiers.
fn executed() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for case in CLASSES.iter().flat_map(|class| class.cases()) {
        for statement in case.ptx.split([';', '\n', '{', '}']) {
            let mut statement = statement.trim();
            if let Some((label, rest)) = statement.split_once(": ")
                && label.chars().all(char::is_alphanumeric)
            {
                statement = rest.trim();
            }
            let mut words = statement.split_whitespace();
            let first = words.next().unwrap_or_default();
            let name = if first.starts_with('@') { words.next().unwrap_or_default() } else { first };
            names.insert(name.to_owned());
        }
    }
    names
}

/// Every opcode and modifier of a decoder occurs in a recorded instruction.
#[test]
fn every_word_of_the_decoders() {
    let executed: Vec<Vec<String>> =
        executed().iter().map(|name| name.split('.').map(str::to_owned).collect()).collect();
    let mut missing = Vec::new();
    for (file, words) in vocabulary() {
        let of_file = executed.iter().filter(|name| words.contains(&name[0]));
        let seen: BTreeSet<&str> = of_file.flatten().map(String::as_str).collect();
        let unseen = words.iter().filter(|word| !seen.contains(word.as_str()));
        missing.extend(
            unseen.filter(|word| exempt::reason(&file, word).is_none()).map(|word| format!("{file}.rs: {word}")),
        );
    }
    assert!(
        missing.is_empty(),
        "these words are in the simulator's decoders, but no recorded instruction has them; add a form to \
         ptx-conformance and record it, or give the reason in exempt.rs:\n{}",
        missing.join("\n")
    );
}
