//! Source lines of instructions, from `.file` and `.loc`.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A line of Rust.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// File, as the compiler wrote it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
}

/// A position as `.loc` gives it: file number, line, column.
type Position = [usize; 3];

/// For each line of each of `ranges`, in ascending order, of a text of these `lines`: the Rust line of its instruction, then the
/// lines at which that was inlined.
pub fn sources(lines: &[&str], ranges: &[Range<usize>]) -> Vec<Vec<Vec<Source>>> {
    let files: HashMap<usize, String> = lines.iter().filter_map(|line| file(line)).collect();
    let name = |number: usize| files.get(&number).cloned().unwrap_or_else(|| format!("file {number}"));
    let source = |[file, line, _]: Position| Source { file: name(file), line };
    let mut callers: HashMap<Position, Option<Position>> = HashMap::new();
    let (mut current, mut read) = (None, 0);
    let mut sources_at = |index: usize| {
        for line in &lines[read..=index] {
            if let Some((position, caller)) = location(line) {
                callers.insert(position, caller);
                current = Some(position);
            }
        }
        read = index + 1;
        chain(current, &callers).into_iter().map(source).collect()
    };
    ranges.iter().map(|range| range.clone().map(&mut sources_at).collect()).collect()
}

/// A position and those it was inlined at.
fn chain(start: Option<Position>, callers: &HashMap<Position, Option<Position>>) -> Vec<Position> {
    let mut chain: Vec<Position> = Vec::new();
    let mut next = start;
    while let Some(position) = next.filter(|position| !chain.contains(position)) {
        chain.push(position);
        next = callers.get(&position).copied().flatten();
    }
    chain
}

/// Number and name of `.file 3 "name"`.
fn file(line: &str) -> Option<(usize, String)> {
    let (number, name) = line.trim().strip_prefix(".file")?.trim().split_once(char::is_whitespace)?;
    Some((number.parse().ok()?, name.trim().split('"').nth(1)?.to_owned()))
}

/// Position of `.loc 3 20 5`, and the position at which it was inlined: `…, inlined_at 2 10 5`.
fn location(line: &str) -> Option<(Position, Option<Position>)> {
    let text = line.trim().strip_prefix(".loc")?;
    let caller = text.split_once("inlined_at").and_then(|(_, caller)| position(caller));
    Some((position(text)?, caller))
}

fn position(text: &str) -> Option<Position> {
    let digits = |word: &str| word.trim_end_matches(',').parse().ok();
    let numbers: Vec<usize> = text.split_whitespace().take(3).filter_map(digits).collect();
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_comes_from_the_last_location_and_its_callers() {
        let ptx = ".loc 1 20 5\n.loc 2 7 9, function_name $L__info_string0, inlined_at 1 20 5\nret;\n.file 1 \"a.rs\"\n\t.file\t2 \"b.rs\"";
        let source = |file: &str, line| Source { file: file.into(), line };
        let lines: Vec<&str> = ptx.lines().collect();
        let every_line = 0..5;
        let all = &sources(&lines, std::slice::from_ref(&every_line))[0];
        assert_eq!(all[0], [source("a.rs", 20)]);
        assert_eq!(all[2], [source("b.rs", 7), source("a.rs", 20)]);
        assert_eq!(sources(&lines, &[0..1, 2..3]), [&all[0..1], &all[2..3]]);
    }
}
