//! Parsing of single lines of PTX text.

use std::collections::BTreeMap;

/// A line without its comment.
pub fn without_comment(line: &str) -> &str {
    // A search for one byte is faster than one for two.
    let comment = line.match_indices('/').map(|(place, _)| place).find(|place| line[*place..].starts_with("//"));
    &line[..comment.unwrap_or(line.len())]
}

/// The words of a line without its comment.
pub fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character: char| character.is_whitespace() || character == '(').filter(|word| !word.is_empty())
}

/// Name of the entry that begins on a line without its comment.
pub fn entry_of_line(code: &str) -> Option<&str> {
    words(code).skip_while(|word| *word != ".entry").nth(1)
}

/// Opcode and operands of a statement, without labels and predicate.
pub fn instruction(statement: &str) -> Option<(&str, &str)> {
    let mut rest = statement.trim();
    while let Some((label, after)) = rest.split_once(':') {
        if label.contains(char::is_whitespace) || after.starts_with(':') {
            break;
        }
        rest = after.trim_start();
    }
    if rest.starts_with('@') {
        rest = rest.split_once(char::is_whitespace)?.1.trim_start();
    }
    let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    (!opcode.is_empty()).then_some((opcode, operands))
}

/// The function called by a `call` with these operands: the first operand outside parentheses.
pub fn callee(operands: &str) -> String {
    let rest = match operands.trim_start().strip_prefix('(') {
        Some(results) => results.split_once(')').map_or("", |(_, rest)| rest),
        None => operands,
    };
    let name = rest.trim_start_matches([',', ' ', '\t']).split([',', ' ']).next().unwrap_or_default();
    name.to_owned()
}

/// Separator between the location of a `.loc` and that of its caller.
pub const INLINED_AT: &str = " inlined_at ";

/// The operands of a `.loc` directive, including its comment.
pub fn location(line: &str) -> Option<&str> {
    // Not `.local`.
    line.trim_start().strip_prefix(".loc").filter(|operands| operands.starts_with(char::is_whitespace))
}

/// The file table: number to path.
pub type Files<'a> = BTreeMap<&'a str, &'a str>;

/// The file table of a module.
pub fn source_files(ptx: &str) -> Files<'_> {
    ptx.lines().filter_map(source_file).collect()
}

/// File and line that the operands of a `.loc` name, and those of the caller into which it was inlined.
pub fn source(operands: &str, files: &Files<'_>) -> Option<String> {
    let place = |operands: &str| {
        let mut operands = operands.split_whitespace();
        let file = files.get(operands.next()?)?;
        Some(format!("{file}:{}", operands.next()?))
    };
    let caller = operands.split_once(INLINED_AT.trim()).and_then(|(_, caller)| place(caller));
    let caller = caller.map(|caller| format!(", called in {caller}")).unwrap_or_default();
    Some(place(operands)? + &caller)
}

/// Whether the operands of a `.loc` name a line: 0 is none.
pub fn has_line(operands: &str) -> bool {
    operands.split_whitespace().nth(1).is_some_and(|line| line != "0")
}

/// Number and path that a `.file` directive names.
pub fn source_file(line: &str) -> Option<(&str, &str)> {
    let (number, path) = line.trim().strip_prefix(".file")?.trim().split_once(char::is_whitespace)?;
    Some((number, path.split('"').nth(1)?))
}

/// The first operand of a module directive.
pub fn directive(ptx: &str, name: &str) -> Option<String> {
    let operands = ptx.lines().find_map(|line| line.trim().strip_prefix(name))?;
    operands.split(',').next().map(|operand| operand.trim().to_owned()).filter(|operand| !operand.is_empty())
}

/// `ptx` with its `.loc` lines blanked: line numbers in messages of ptxas hold for both.
pub fn without_locations(ptx: &str) -> String {
    let mut text = String::with_capacity(ptx.len());
    for line in ptx.lines() {
        if location(line).is_none() {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}
