//! Joins the PTX of a compiler's codegen units into one module.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::{self, Write};

use crate::lines::{INLINED_AT, entry_of_line, location, source_file, without_comment};

/// Directives at the start of a module.
const HEADER: [&str; 3] = [".version", ".target", ".address_size"];

/// Why units cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch(String);

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Error for Mismatch {}

/// One module with the entries of all `units`, by name. Functions are left out: an entry that calls one is refused later,
/// whichever unit has the function.
///
/// # Errors
/// If the units have different headers or contradict each other.
pub fn join(units: &[String]) -> Result<String, Mismatch> {
    let mut joined = Joined::default();
    for unit in units {
        joined.add(unit)?;
    }
    Ok(joined.into_text())
}

#[derive(Default)]
struct Joined<'a> {
    header: Vec<&'a str>,
    declarations: Vec<&'a str>,
    entries: Vec<(&'a str, String)>,
    /// Paths of the source files; their numbers count from 1.
    files: Vec<&'a str>,
}

impl<'a> Joined<'a> {
    fn add(&mut self, unit: &'a str) -> Result<(), Mismatch> {
        let header: Vec<&str> =
            unit.lines().filter(|line| HEADER.iter().any(|directive| line.starts_with(directive))).collect();
        if self.header.is_empty() {
            self.header = header;
        } else if self.header != header {
            return Err(Mismatch(format!("one unit begins with {:?}, another with {header:?}", self.header)));
        }
        let numbers = self.number_files(unit);
        let mut lines = unit.lines();
        while let Some(line) = lines.next() {
            if line.starts_with(".extern .shared") && !self.declarations.contains(&line) {
                self.declarations.push(line);
            }
            if let Some(name) = entry_of_line(without_comment(line)) {
                let mut text = format!("{line}\n");
                for line in lines.by_ref() {
                    add_line(&mut text, line, &numbers)?;
                    if line == "}" {
                        break;
                    }
                }
                self.entries.push((name, text));
            }
        }
        Ok(())
    }

    /// Number in the module of each source file of a unit, by its number in the unit.
    fn number_files(&mut self, unit: &'a str) -> HashMap<&'a str, usize> {
        let mut numbers = HashMap::new();
        for (number, path) in unit.lines().filter_map(source_file) {
            let known = self.files.iter().position(|known| *known == path);
            let index = known.unwrap_or_else(|| {
                self.files.push(path);
                self.files.len() - 1
            });
            numbers.insert(number, index + 1);
        }
        numbers
    }

    fn into_text(mut self) -> String {
        self.entries.sort();
        let mut text = String::new();
        for line in self.header.iter().chain(&self.declarations) {
            text.push_str(line);
            text.push('\n');
        }
        for (_, entry) in &self.entries {
            text.push('\n');
            text.push_str(entry);
        }
        for (index, path) in self.files.iter().enumerate() {
            writeln!(text, "\t.file\t{} \"{path}\"", index + 1).expect("a String takes everything");
        }
        text
    }
}

/// Adds a line of an entry, with source file numbers of the module.
fn add_line(text: &mut String, line: &str, numbers: &HashMap<&str, usize>) -> Result<(), Mismatch> {
    let Some(operands) = location(line) else {
        text.push_str(line);
        text.push('\n');
        return Ok(());
    };
    let renumbered = |operands: &str| -> Result<String, Mismatch> {
        let (number, rest) = operands.trim_start().split_once(' ').unwrap_or((operands, ""));
        let number = numbers.get(number).ok_or_else(|| Mismatch(format!("no .file has the number of `{line}`")))?;
        Ok(format!("{number} {rest}"))
    };
    let renumbered = match operands.split_once(INLINED_AT) {
        Some((place, caller)) => format!("{}{INLINED_AT}{}", renumbered(place)?, renumbered(caller)?),
        None => renumbered(operands)?,
    };
    writeln!(text, "\t.loc\t{renumbered}").expect("a String takes everything");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::join;

    const HEADER: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n";
    const SHARED: &str = ".extern .shared .align 1024 .b8 shared[];\n";

    fn unit(entry: &str, files: &str) -> String {
        format!(
            "// by LLVM\n{HEADER}\n{SHARED}\t// .globl {entry}\n.visible .entry {entry}(\n\t.param .b64 p\n)\n{{\n\t.loc\t1 9 5 \
             // a.rs:9:5\n\t.local .align 4 .b8 \tdepot[4];\n\t{{\n\tret;\n\t}}\n}}\n.func f\n(\n)\n{{\n\tret;\n}}\n{files}"
        )
    }

    fn joined(units: &[String]) -> String {
        join(units).expect("units that belong together")
    }

    #[test]
    fn the_module_has_every_entry_once_and_no_function() {
        let text = joined(&[unit("second", "\t.file\t1 \"a.rs\"\n"), unit("first", "\t.file\t1 \"a.rs\"\n")]);
        assert!(text.starts_with(&format!("{HEADER}{SHARED}\n.visible .entry first(")), "{text}");
        for once in [".version", ".extern", "entry first", "entry second", "a.rs\""] {
            assert_eq!(text.matches(once).count(), 1, "{once} in\n{text}");
        }
        assert_eq!(text.matches("\n}\n").count(), 2, "each entry is there to its end:\n{text}");
        assert!(!text.contains(".func"), "{text}");
    }

    #[test]
    fn the_order_of_the_units_does_not_matter() {
        let files = "\t.file\t1 \"a.rs\"\n";
        let (first, second) = (unit("first", files), unit("second", files));
        assert_eq!(joined(&[first.clone(), second.clone()]), joined(&[second, first]));
    }

    #[test]
    fn a_line_names_the_same_file_as_in_its_unit() {
        let files = ["\t.file\t1 \"a.rs\"\n\t.file\t2 \"b.rs\"\n", "\t.file\t1 \"b.rs\"\n"];
        let text = joined(&[unit("first", files[0]), unit("second", files[1])]);
        let locations: Vec<&str> = text.lines().filter(|line| line.contains(".loc\t")).collect();
        assert_eq!(locations, ["\t.loc\t1 9 5 // a.rs:9:5", "\t.loc\t2 9 5 // a.rs:9:5"]);
        assert!(text.ends_with("\t.file\t1 \"a.rs\"\n\t.file\t2 \"b.rs\"\n"), "{text}");
    }

    #[test]
    fn a_caller_is_in_the_same_file_as_in_its_unit() {
        let files = ["\t.file\t1 \"a.rs\"\n\t.file\t2 \"b.rs\"\n", "\t.file\t1 \"b.rs\"\n\t.file\t2 \"a.rs\"\n"];
        let inlined = "\t.loc\t1 9 5, function_name $L__info_string0, inlined_at 2 7 3 // b.rs:9:5";
        let second = unit("second", files[1]).replace("\t.loc\t1 9 5 // a.rs:9:5", inlined);
        let text = joined(&[unit("first", files[0]), second]);
        let expected = "\t.loc\t2 9 5, function_name $L__info_string0, inlined_at 1 7 3 // b.rs:9:5\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let other = unit("second", "\t.file\t1 \"a.rs\"\n").replace("sm_90a", "sm_80");
        let error = join(&[unit("first", "\t.file\t1 \"a.rs\"\n"), other]).unwrap_err().to_string();
        assert!(error.contains("sm_90a") && error.contains("sm_80"), "{error}");
        let error = join(&[unit("first", "")]).unwrap_err().to_string();
        assert!(error.contains(".loc"), "a line of a file that has no name: {error}");
    }
}
