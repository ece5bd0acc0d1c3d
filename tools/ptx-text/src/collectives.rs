//! Collectives of entries: instructions that all threads of a warp, warpgroup or block execute together.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::lines::{entry_of_line, instruction, location, source, source_files, without_comment};

/// Opcode prefixes of collective instructions (PTX ISA, "Instruction Set").
const COLLECTIVES: [&str; 22] = [
    "bar.warp.sync",
    "bar.sync",
    "bar.arrive",
    "bar.red",
    "barrier.cta.sync",
    "barrier.cta.arrive",
    "barrier.cta.red",
    "barrier.sync",
    "shfl.sync",
    "vote.sync",
    "match",
    "redux.sync",
    "elect.sync",
    "mma.sync",
    "ldmatrix.sync",
    "stmatrix.sync",
    "wgmma.fence",
    "wgmma.mma_async",
    "wgmma.commit_group",
    "wgmma.wait_group",
    "setmaxnreg.inc",
    "setmaxnreg.dec",
];

/// Number of occurrences of each collective.
pub type Counts = BTreeMap<String, usize>;

/// One line for each collective whose number in an entry of `ptx` differs from `recorded`.
pub fn differences(recorded: &BTreeMap<String, Counts>, ptx: &str) -> Vec<String> {
    let mut differences = Vec::new();
    for (entry, places) in collectives(ptx) {
        let Some(counts) = recorded.get(&entry) else {
            differences.push(format!("\n  {entry}: is not on record"));
            continue;
        };
        for opcode in COLLECTIVES {
            let (found, expected) = (places.get(opcode).map_or(&[][..], Vec::as_slice), counts.get(opcode));
            let expected = expected.copied().unwrap_or(0);
            if found.len() != expected {
                let from = list(found);
                differences.push(format!("\n  {entry}: {} of `{opcode}`, {expected} on record{from}", found.len()));
            }
        }
    }
    differences
}

/// The locations without duplicates, with the number of instructions from each.
fn list(places: &[String]) -> String {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for place in places {
        *numbers.entry(place).or_default() += 1;
    }
    let mut text = String::new();
    for (place, number) in numbers {
        write!(text, "\n    {number} from {place}").expect("a String takes everything");
    }
    text
}

/// Source locations of each collective.
pub type Places = BTreeMap<String, Vec<String>>;

/// The collectives of every entry of a PTX module.
pub fn collectives(ptx: &str) -> BTreeMap<String, Places> {
    let files = source_files(ptx);
    let mut entries: BTreeMap<String, Places> = BTreeMap::new();
    let (mut entry, mut place) = (None, String::new());
    for line in ptx.lines() {
        if let Some(operands) = location(line) {
            place = source(operands, &files).unwrap_or_else(|| "an unknown place".into());
            continue;
        }
        let code = without_comment(line);
        if let Some(name) = entry_of_line(code) {
            entries.insert(name.to_owned(), Places::new());
            (entry, place) = (Some(name.to_owned()), String::new());
        }
        let Some(places) = entry.as_ref().and_then(|entry| entries.get_mut(entry)) else { continue };
        for opcode in code.split([';', '{', '}']).filter_map(|statement| collective(instruction(statement)?.0)) {
            places.entry(opcode.to_owned()).or_default().push(place.clone());
        }
    }
    entries
}

/// The collective of which `opcode` is an instance.
pub(crate) fn collective(opcode: &str) -> Option<&'static str> {
    let begins =
        |begin: &&str| opcode.strip_prefix(*begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    COLLECTIVES.into_iter().find(begins)
}
