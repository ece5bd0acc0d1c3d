//! One PTX text of the several that rustc writes, one for each codegen unit.
//!
//! With incremental compilation rustc keeps, in a folder of its own, one folder for each session, `s-<time>-…`, and in
//! that of the last one the assembly of every unit, those that it compiled and those that it had from the session before.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::files;
use crate::ptx_text::{INLINED_AT, entry_of_line, location, source_file};

/// File extension of a unit's PTX.
const EXTENSION: &str = "s";
/// What a module begins with.
const HEADER: [&str; 3] = [".version", ".target", ".address_size"];

/// The PTX of every unit of the last session that was completed in the incremental `folder`; `None` when there is none.
pub fn read(folder: &Path) -> Result<Option<Vec<String>>> {
    let context = || format!("could not read {}", folder.display());
    let mut sessions = Vec::new();
    // One folder for each crate of the name; the numbers in it change with the compiler.
    for of_crate in listing(folder).with_context(context)? {
        sessions.extend(listing(&of_crate).with_context(context)?);
    }
    let Some(last) = sessions.into_iter().filter(|path| is_completed_session(path)).max_by_key(|path| name(path))
    else {
        return Ok(None);
    };
    let units = listing(&last).with_context(context)?.into_iter().filter(|path| is_unit(path));
    let texts = units.map(fs::read_to_string).collect::<io::Result<Vec<_>>>().with_context(context)?;
    Ok((!texts.is_empty()).then_some(texts))
}

/// Removes the copies of the units' PTX that rustc leaves beside the library among `artifacts`, under other names each time.
pub fn remove_copies(artifacts: &[PathBuf]) -> Result<()> {
    for library in artifacts.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rmeta")) {
        let Some((folder, stem)) = library.parent().zip(library.file_stem()) else { continue };
        let stem = stem.to_string_lossy();
        let prefix = format!("{}.", stem.strip_prefix("lib").unwrap_or(&stem));
        for copy in listing(folder)?.into_iter().filter(|path| name(path).starts_with(&prefix) && is_unit(path)) {
            files::remove(&copy)?;
        }
    }
    Ok(())
}

/// The entries of all `units`, by name, as one module. Functions are left out: an entry that calls one is refused, wherever
/// the function is.
pub fn join(units: &[String]) -> Result<String> {
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
    fn add(&mut self, unit: &'a str) -> Result<()> {
        let header: Vec<&str> =
            unit.lines().filter(|line| HEADER.iter().any(|directive| line.starts_with(directive))).collect();
        if self.header.is_empty() {
            self.header = header;
        } else if self.header != header {
            bail!("one unit begins with {:?}, another with {header:?}", self.header);
        }
        let numbers = self.number_files(unit);
        let mut lines = unit.lines();
        while let Some(line) = lines.next() {
            if line.starts_with(".extern .shared") && !self.declarations.contains(&line) {
                self.declarations.push(line);
            }
            if let Some(name) = entry_of_line(line.split("//").next().unwrap_or_default()) {
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

    /// The number that each of a unit's source files has in the module, by its number in the unit.
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

/// A line of an entry, with the module's numbers of the source files that it names.
fn add_line(text: &mut String, line: &str, numbers: &HashMap<&str, usize>) -> Result<()> {
    let Some(operands) = location(line) else {
        writeln!(text, "{line}")?;
        return Ok(());
    };
    let renumbered = |operands: &str| -> Result<String> {
        let (number, rest) = operands.trim_start().split_once(' ').unwrap_or((operands, ""));
        let number = numbers.get(number).with_context(|| format!("no .file has the number of `{line}`"))?;
        Ok(format!("{number} {rest}"))
    };
    match operands.split_once(INLINED_AT) {
        Some((place, caller)) => writeln!(text, "\t.loc\t{}{INLINED_AT}{}", renumbered(place)?, renumbered(caller)?)?,
        None => writeln!(text, "\t.loc\t{}", renumbered(operands)?)?,
    }
    Ok(())
}

/// What is in a folder; nothing when there is no folder.
fn listing(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether `path` is a session's folder, `s-<time>-<random>-<hash>`, and the session was not interrupted.
fn is_completed_session(path: &Path) -> bool {
    name(path).starts_with("s-") && !name(path).ends_with("-working") && path.is_dir()
}

fn is_unit(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use tempfile::TempDir;

    use super::{join, read, remove_copies};

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

    fn write(folder: &Path, file: &str, text: &str) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn only_the_last_completed_session_counts() {
        let folder = TempDir::new().unwrap();
        assert_eq!(read(&folder.path().join("never")).unwrap(), None);
        let session =
            |session: &str, unit: &str| write(folder.path(), &format!("kernel_gpu-1/{session}/{unit}"), session);
        session("s-hoe1-1-x", "a.s");
        session("s-hoe1-1-x", "b.s");
        session("s-hoe2-1-x", "a.s");
        session("s-hoe2-1-x", "a.o");
        session("s-hoe3-1-working", "a.s");
        write(folder.path(), "kernel_gpu-1/s-hoe3-1.lock", "");
        assert_eq!(read(folder.path()).unwrap(), Some(vec!["s-hoe2-1-x".to_owned()]));
    }

    #[test]
    fn a_session_without_ptx_is_none() {
        let folder = TempDir::new().unwrap();
        write(folder.path(), "kernel_gpu-1/s-hoe1-1-x/a.o", "");
        assert_eq!(read(folder.path()).unwrap(), None);
    }

    #[test]
    fn copies_are_removed_and_nothing_else() {
        let folder = TempDir::new().unwrap();
        let kept = ["libkernel_gpu-1.rmeta", "kernel_gpu-1.d", "kernel_gpu-12.a.s", "kernel_gpu-1.a.o"];
        for file in kept.iter().chain(&["kernel_gpu-1.a.x.s", "kernel_gpu-1.b.s"]) {
            write(folder.path(), file, "");
        }
        remove_copies(&[folder.path().join("libkernel_gpu.rlib"), folder.path().join(kept[0])]).unwrap();
        let mut left: Vec<String> =
            fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        let mut kept = kept.map(str::to_owned);
        kept.sort();
        assert_eq!(left, kept);
    }
}
