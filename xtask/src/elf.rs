//! Requirements of a Linux program on the machine that runs it.

use std::cmp::Ordering;

use anyhow::{Context, Result, bail};
use object::elf::FileHeader64;
use object::read::elf::{Dyn, FileHeader};
use object::{Endianness, elf};

/// A symbol version such as `GLIBC_2.31`, ordered by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlibcVersion(Vec<u32>);

impl GlibcVersion {
    /// Reads `2.31`.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers: Option<Vec<u32>> = text.split('.').map(|number| number.parse().ok()).collect();
        numbers.map(Self)
    }
}

impl PartialOrd for GlibcVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GlibcVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl std::fmt::Display for GlibcVersion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        write!(formatter, "{}", numbers.join("."))
    }
}

/// Requirements for the dynamic linker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Shared libraries by name.
    pub libraries: Vec<String>,
    /// The newest glibc symbol version required; `None` if there is none.
    pub glibc: Option<GlibcVersion>,
}

/// The requirements of the 64-bit ELF program `bytes`.
pub fn needs(bytes: &[u8]) -> Result<Needs> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let mut needs = Needs::default();
    if let Some((entries, link)) = sections.dynamic(endian, bytes)? {
        let strings = sections.strings(endian, bytes, link)?;
        for entry in entries.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED) {
            needs.libraries.push(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned());
        }
    }
    if let Some((mut libraries, link)) = sections.gnu_verneed(endian, bytes)? {
        let strings = sections.strings(endian, bytes, link)?;
        while let Some((_, mut versions)) = libraries.next()? {
            while let Some(version) = versions.next()? {
                let name = String::from_utf8_lossy(version.name(endian, strings)?).into_owned();
                needs.glibc = needs.glibc.max(glibc_version(&name)?);
            }
        }
    }
    Ok(needs)
}

/// The number in `GLIBC_2.31`; nothing for the versions of other libraries.
fn glibc_version(name: &str) -> Result<Option<GlibcVersion>> {
    match name.strip_prefix("GLIBC_") {
        None => Ok(None),
        Some("PRIVATE") => bail!("a symbol of the C library's own ({name}) is needed, which no other version has"),
        Some(number) => GlibcVersion::parse(number).map(Some).with_context(|| format!("{name} is no version")),
    }
}

#[cfg(test)]
mod tests {
    use super::{GlibcVersion, glibc_version, needs};

    fn version(text: &str) -> GlibcVersion {
        GlibcVersion::parse(text).unwrap()
    }

    #[test]
    fn versions_are_ordered_by_number() {
        assert!(version("2.4") < version("2.31"));
        assert!(version("2.31") < version("2.31.1"));
        assert_eq!(version("2.2.5").to_string(), "2.2.5");
        assert_eq!(GlibcVersion::parse("2.x"), None);
    }

    #[test]
    fn only_versions_of_the_c_library_count() {
        assert_eq!(glibc_version("GLIBC_2.34").unwrap(), Some(version("2.34")));
        assert_eq!(glibc_version("GCC_3.0").unwrap(), None);
        assert!(glibc_version("GLIBC_PRIVATE").is_err());
    }

    #[test]
    fn the_needs_of_this_very_program_are_read() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = needs(&program).unwrap();
        assert!(needs.libraries.iter().any(|library| library == "libc.so.6"), "{needs:?}");
        assert!(needs.glibc.unwrap() >= version("2.17"), "Rust's standard library needs no older one");
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert!(needs(b"#!/bin/sh\n").is_err());
    }
}
