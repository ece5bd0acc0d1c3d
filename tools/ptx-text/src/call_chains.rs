//! Call chains of inlined instructions, from LLVM's comments into PTX directives.
//!
//! LLVM's `.loc` names only the innermost function, which for an instruction wrapper says nothing about its caller. With
//! verbose assembly, a comment after it has the whole chain:
//!
//! ```text
//! .loc 12 19 9   // ptx/ldmatrix.rs:19:9 @[ products.rs:30:14 @[ forward.rs:90:5 ] ]
//! ```
//!
//! It becomes `inlined_at` (PTX ISA, "Debugging Directives: .loc"): the `.loc` of each caller stands before that of the code
//! inlined into it. The simulator, profilers and compute-sanitizer then show every caller.
//!
//! LLVM 23 writes `inlined_at` itself; the function names are in a section that a module joined from several units lacks.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::path::Path;
use std::rc::Rc;

use crate::lines::{INLINED_AT, location, source_file};

/// A place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    /// Number of its file in the file table.
    file: u32,
    /// From 1.
    line: u32,
    /// From 1; 0 if the compiler gave none.
    column: u32,
}

impl Place {
    /// The three numbers at the start of `operands`.
    fn parse(operands: &str) -> Option<Self> {
        let mut numbers = operands.split([' ', '\t', ',']).filter(|word| !word.is_empty()).map(str::parse);
        let mut number = || numbers.next()?.ok();
        Some(Self { file: number()?, line: number()?, column: number()? })
    }
}

/// The location of a `.loc` and that of its caller, if the compiler wrote `inlined_at`.
fn inlined_at(loc: &str) -> Option<(Place, Place)> {
    let (place, caller) = loc.split("//").next()?.split_once(INLINED_AT)?;
    Some((Place::parse(place)?, Place::parse(caller)?))
}

/// Replaces the call chains in comments of `.loc` directives by `inlined_at`. PTX without such comments is unchanged.
pub fn from_comments(ptx: &str) -> String {
    let mut writer =
        Writer { files: FileTable::read(ptx), chains: HashMap::new(), known: HashMap::new(), text: String::new() };
    let known_files = writer.files.numbers.len();
    for line in ptx.lines() {
        writer.line(line);
    }
    writer.file_table(known_files);
    writer.text
}

/// A location, and the callers into which it was inlined, innermost first.
type Chain = (Place, Rc<[Place]>);

struct Writer<'a> {
    files: FileTable,
    /// Parsed chain of each `.loc` text; unrolled code repeats locations often.
    chains: HashMap<&'a str, Option<Chain>>,
    /// Callers of the latest `.loc` at a location, to which an `inlined_at` refers.
    known: HashMap<Place, Vec<Place>>,
    text: String,
}

impl<'a> Writer<'a> {
    fn line(&mut self, line: &'a str) {
        if let Some(loc) = location(line) {
            if let Some((place, caller)) = inlined_at(loc) {
                return self.location(place, &[caller]);
            }
            let known = self.chains.get(loc).cloned();
            let chain = known.unwrap_or_else(|| {
                let chain = self.chain(loc);
                self.chains.insert(loc, chain.clone());
                chain
            });
            if let Some((place, callers)) = chain {
                return self.locations(place, &callers);
            }
        } else if line.contains(".entry") || line.contains(".func") {
            // Functions may be removed later, along with their `.loc` directives.
            self.known.clear();
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// The location of a `.loc` and its callers, innermost first; `None` without callers.
    fn chain(&mut self, loc: &str) -> Option<Chain> {
        let (directive, comment) = loc.split_once("//")?;
        let place = Place::parse(directive)?;
        let callers = comment.trim_end_matches([' ', ']']).split(" @[ ").skip(1).map(|caller| self.files.place(caller));
        let callers = callers.collect::<Option<Rc<[_]>>>()?;
        (!callers.is_empty()).then_some((place, callers))
    }

    /// The `.loc` of a location, after those of its callers, outermost first.
    fn locations(&mut self, place: Place, callers: &[Place]) {
        for depth in (0..callers.len()).rev() {
            let (caller, its_callers) = (callers[depth], &callers[depth + 1..]);
            if self.known.get(&caller).is_none_or(|known| known != its_callers) {
                self.location(caller, its_callers);
            }
        }
        self.location(place, callers);
    }

    fn location(&mut self, place: Place, callers: &[Place]) {
        let Place { file, line, column } = place;
        write!(self.text, "\t.loc\t{file} {line} {column}").expect("a String takes everything");
        if let Some(caller) = callers.first() {
            // PTX requires a function name, which the comment lacks; the file name replaces it.
            let Place { file: called_from, line, column } = caller;
            write!(self.text, ", function_name $L__file_name{file}, inlined_at {called_from} {line} {column}")
                .expect("a String takes everything");
            self.files.named.insert(file);
        }
        self.text.push('\n');
        self.known.insert(place, callers.to_vec());
    }

    /// Adds `.file` directives of files that only callers are in, and names that replace function names.
    fn file_table(&mut self, known_files: usize) {
        let mut files: Vec<(&String, &u32)> = self.files.numbers.iter().collect();
        files.sort_by_key(|(_, number)| **number);
        for (path, number) in files.iter().skip(known_files) {
            writeln!(self.text, "\t.file\t{number} \"{path}\"").expect("a String takes everything");
        }
        if self.files.named.is_empty() {
            return;
        }
        self.text.push_str("\t.section\t.debug_str\n\t{\n");
        for (path, number) in files.iter().filter(|(_, number)| self.files.named.contains(number)) {
            let name = Path::new(path).file_stem().unwrap_or_default().as_encoded_bytes();
            writeln!(self.text, "$L__file_name{number}:").expect("a String takes everything");
            for byte in name.iter().chain(&[0]) {
                writeln!(self.text, "\t.b8 {byte}").expect("a String takes everything");
            }
        }
        self.text.push_str("\t}\n");
    }
}

/// Numbers of source files.
#[derive(Default)]
struct FileTable {
    numbers: HashMap<String, u32>,
    /// Files that contain inlined code.
    named: BTreeSet<u32>,
}

impl FileTable {
    /// Reads the `.file` directives of `ptx`.
    fn read(ptx: &str) -> Self {
        let files = ptx.lines().filter_map(source_file);
        let numbers = files.filter_map(|(number, path)| Some((path.to_owned(), number.parse().ok()?)));
        Self { numbers: numbers.collect(), named: BTreeSet::new() }
    }

    /// The location given as `path:line` or `path:line:column`.
    fn place(&mut self, text: &str) -> Option<Place> {
        let (rest, last) = text.trim().rsplit_once(':')?;
        let last = last.parse().ok()?;
        let (path, line, column) = match rest.rsplit_once(':').map(|(path, line)| (path, line.parse())) {
            Some((path, Ok(line))) => (path, line, last),
            _ => (rest, last, 0),
        };
        Some(Place { file: self.number(path), line, column })
    }

    /// The number of a file; a new one if it has none.
    fn number(&mut self, path: &str) -> u32 {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        let next = self.numbers.values().max().map_or(1, |largest| largest + 1);
        self.numbers.insert(path.to_owned(), next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::from_comments;

    const FILES: &str = "\t.file\t1 \"ptx/mma.rs\"\n\t.file\t2 \"forward.rs\"\n";

    fn directives(ptx: &str) -> Vec<String> {
        let text = from_comments(ptx);
        let lines = text.lines().map(str::trim).filter(|line| line.starts_with(".loc") || line.starts_with("mma"));
        lines.map(|line| line.replace('\t', " ")).collect()
    }

    #[test]
    fn every_caller_is_named_before_what_was_inlined_into_it() {
        let body = "\t.loc\t1 9 5   // ptx/mma.rs:9:5 @[ forward.rs:30:1 @[ forward.rs:7:3 ] ]\n\tmma;\n";
        let expected = [
            ".loc 2 7 3",
            ".loc 2 30 1, function_name $L__file_name2, inlined_at 2 7 3",
            ".loc 1 9 5, function_name $L__file_name1, inlined_at 2 30 1",
            "mma;",
        ];
        assert_eq!(directives(&format!("{body}{FILES}")), expected);
    }

    #[test]
    fn callers_are_repeated_only_where_their_own_callers_changed() {
        let place = |caller| format!("\t.loc\t1 9 5 // ptx/mma.rs:9:5 @[ forward.rs:30 @[ forward.rs:{caller}:3 ] ]\n");
        let body = format!("{}{}{}", place(7), place(7), place(8));
        let numbers: Vec<_> = directives(&format!("{body}{FILES}"))
            .iter()
            .map(|line| line.split(',').next().unwrap_or_default().to_owned())
            .collect();
        let expected =
            [".loc 2 7 3", ".loc 2 30 0", ".loc 1 9 5", ".loc 1 9 5", ".loc 2 8 3", ".loc 2 30 0", ".loc 1 9 5"];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn what_a_removed_function_said_is_said_again() {
        let body = "\t.loc\t1 9 5 // ptx/mma.rs:9:5 @[ forward.rs:30:1 ]\n";
        let ptx = format!(".func f\n{body}.entry e\n{body}{FILES}");
        assert_eq!(directives(&ptx).iter().filter(|line| *line == ".loc 2 30 1").count(), 2);
    }

    #[test]
    fn files_that_only_call_are_added_to_the_table() {
        let ptx = format!("\t.loc\t1 9 5 // ptx/mma.rs:9:5 @[ variants.rs:56:21 ]\n{FILES}");
        let text = from_comments(&ptx);
        assert!(text.contains("\t.loc\t3 56 21\n") && text.contains("\t.file\t3 \"variants.rs\"\n"), "{text}");
        let name = "$L__file_name1:\n\t.b8 109\n\t.b8 109\n\t.b8 97\n\t.b8 0\n";
        assert!(text.contains(name), "`mma` stands for the function:\n{text}");
    }

    #[test]
    fn callers_that_llvm_named_itself_keep_their_places_and_get_names_of_ours() {
        let ptx = format!(
            "\t.loc\t2 7 3 // forward.rs:7:3\n\t.loc\t1 9 5, function_name $L__info_string4, inlined_at 2 7 3 // mma\n{FILES}"
        );
        let expected = [".loc 2 7 3 // forward.rs:7:3", ".loc 1 9 5, function_name $L__file_name1, inlined_at 2 7 3"];
        assert_eq!(directives(&ptx), expected);
        let text = from_comments(&ptx);
        assert!(text.contains("$L__file_name1:\n") && !text.contains("info_string"), "{text}");
    }

    #[test]
    fn ptx_without_call_chains_stays_as_it_is() {
        let ptx = format!("\t.loc\t1 9 5 // ptx/mma.rs:9:5\n\tmma; // forward.rs:1:1 @[ x ]\n{FILES}");
        assert_eq!(from_comments(&ptx), ptx);
    }
}
