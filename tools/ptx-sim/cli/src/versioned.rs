//! Shared libraries without code that bear a symbol version and load another library.
//!
//! A program that nvcc links with `-cudart shared` asks for a version of `libcudart.so.13` that has the name of the file. The
//! simulated runtime has no versions, since rustc writes none; the loader would say so at every start.

/// Sizes of ELF's 64-bit structures.
const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const SYMBOL: u64 = 24;
const DYNAMIC: u64 = 16;

/// Where the parts are: behind the header and three segments.
const SYMBOLS: u64 = HEADER + 3 * SEGMENT;
const SYMBOL_VERSIONS: u64 = SYMBOLS + SYMBOL;
const VERSIONS: u64 = SYMBOL_VERSIONS + 8;
const ENTRIES: u64 = VERSIONS + 32;
const STRINGS: u64 = ENTRIES + 10 * DYNAMIC;

/// An x86-64 library of that name, which is also the version, that loads the library `needed`.
pub fn library(name: &str, needed: &str) -> Vec<u8> {
    let strings = [b"\0", name.as_bytes(), b"\0", needed.as_bytes(), b"\0"].concat();
    let (name_at, needed_at) = (1, name.len() as u64 + 2);
    let size = STRINGS + strings.len() as u64;
    let mut file = Vec::with_capacity(size as usize);
    // ELF of 64 bits, little-endian, version 1; a shared object for x86-64.
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    file.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    words(&mut file, &[0, HEADER, 0]);
    file.extend([0; 4]);
    halves(&mut file, &[HEADER as u16, SEGMENT as u16, 3, 0, 0, 0]);
    // Everything is loaded, and may be written: the loader changes the entries. The stack is not executable.
    segment(&mut file, 1, 0, size);
    segment(&mut file, 2, ENTRIES, STRINGS - ENTRIES);
    segment(&mut file, 0x6474_e551, 0, 0);
    // The symbol that every table begins with, and its version.
    file.extend([0; (SYMBOL + 8) as usize]);
    // One version with one name.
    halves(&mut file, &[1, 0, 2, 1]);
    [hash(name), 20, 0, name_at as u32, 0, 0].iter().for_each(|word| file.extend(word.to_le_bytes()));
    let entries = [
        (1, needed_at),
        (14, name_at),
        (5, STRINGS),
        (6, SYMBOLS),
        (10, strings.len() as u64),
        (11, SYMBOL),
        (0x6fff_fff0, SYMBOL_VERSIONS),
        (0x6fff_fffc, VERSIONS),
        (0x6fff_fffd, 1),
        (0, 0),
    ];
    entries.iter().for_each(|(tag, value)| words(&mut file, &[*tag, *value]));
    file.extend(strings);
    file
}

fn words(file: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| file.extend(word.to_le_bytes()));
}

fn halves(file: &mut Vec<u8>, halves: &[u16]) {
    halves.iter().for_each(|half| file.extend(half.to_le_bytes()));
}

/// A segment that may be read and written.
fn segment(file: &mut Vec<u8>, kind: u32, start: u64, size: u64) {
    file.extend(kind.to_le_bytes());
    file.extend(6_u32.to_le_bytes());
    words(file, &[start, start, start, size, size, 8]);
}

/// ELF's hash of a name.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0_u32, |hash, letter| {
        let hash = (hash << 4).wrapping_add(letter.into());
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hashed_as_the_loader_does() {
        assert_eq!((hash("GLIBC_2.2.5"), hash("GLIBC_2.34")), (0x0969_1a75, 0x0696_91b4));
    }

    #[test]
    fn its_parts_are_where_the_header_says() {
        let file = library("libcudart.so.12", "other.so");
        assert_eq!(file.len() as u64, STRINGS + 1 + 16 + 9);
        assert_eq!(&file[STRINGS as usize..], b"\0libcudart.so.12\0other.so\0");
    }
}
