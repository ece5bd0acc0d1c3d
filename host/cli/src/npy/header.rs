//! The header of a `.npy` file: a magic number, a version, a length, and a Python dictionary with three keys.
//!
//! Source: NumPy, "A simple file format for NumPy arrays" (`numpy.lib.format`), versions 1 to 3.

use std::io::{self, Read};

const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy aligns the elements to this many bytes.
const ALIGNMENT: usize = 64;
/// Maximum length of the dictionary, bytes. For a plain array it has about 100.
const LONGEST: u64 = 1 << 16;

/// The contents of the dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// NumPy's name of the element type, such as `<f2`; for a structured type its list.
    pub descr: String,
    /// Whether the first index varies fastest.
    pub fortran_order: bool,
    /// The dimensions.
    pub shape: Vec<u64>,
}

impl Header {
    /// Reads the header, up to the elements.
    ///
    /// # Errors
    /// `InvalidData` or `UnexpectedEof` when `file` is not a `.npy` file; any other when it cannot be read.
    pub fn read(file: &mut impl Read) -> io::Result<Self> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let [m0, m1, m2, m3, m4, m5, major, _minor] = read_array(file)?;
        if [m0, m1, m2, m3, m4, m5] != MAGIC {
            return Err(invalid("it does not begin with \\x93NUMPY"));
        }
        let length = match major {
            1 => u16::from_le_bytes(read_array(file)?).into(),
            2 | 3 => u32::from_le_bytes(read_array(file)?).into(),
            _ => return Err(invalid("its version is not 1, 2 or 3")),
        };
        if length > LONGEST {
            return Err(invalid("its header is too long"));
        }
        let mut text = Vec::new();
        if file.take(length).read_to_end(&mut text)? as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let header = std::str::from_utf8(&text).ok().and_then(Self::parse);
        header.ok_or_else(|| invalid("its header is not a dictionary of 'descr', 'fortran_order' and 'shape'"))
    }

    /// The header's bytes, in version 1.
    ///
    /// # Panics
    /// When it exceeds the maximum size of that version: over 3,000 dimensions.
    pub fn bytes(&self) -> Vec<u8> {
        let Self { descr, fortran_order, shape } = self;
        let order = if *fortran_order { "True" } else { "False" };
        let shape: String = shape.iter().map(|dimension| format!("{dimension}, ")).collect();
        let mut text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({}), }}", shape.trim_end());
        let begin = MAGIC.len() + 2 + 2;
        let length = (begin + text.len() + 1).next_multiple_of(ALIGNMENT) - begin;
        text.push_str(&" ".repeat(length - 1 - text.len()));
        text.push('\n');
        let length = u16::try_from(length).expect("a header of version 1 has less than 64 KiB");
        [MAGIC, &[1, 0], &length.to_le_bytes(), text.as_bytes()].concat()
    }

    /// Parses the dictionary.
    fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim_start();
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        while !rest.is_empty() {
            let (key, behind) = quoted(rest)?;
            let value = behind.trim_start().strip_prefix(':')?.trim_start();
            rest = match key {
                "descr" => set(&mut descr, type_of_elements(value)?)?,
                "fortran_order" => set(&mut fortran_order, boolean(value)?)?,
                "shape" => set(&mut shape, dimensions(value)?)?,
                _ => return None,
            }
            .trim_start();
            rest = match rest.strip_prefix(',') {
                Some(next) => next.trim_start(),
                None if rest.is_empty() => rest,
                None => return None,
            };
        }
        Some(Self { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

/// Stores a parsed value, once, and returns the text after it.
fn set<'a, T>(place: &mut Option<T>, (value, rest): (T, &'a str)) -> Option<&'a str> {
    place.replace(value).is_none().then_some(rest)
}

/// Parses a Python string without escapes; returns also the text after it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|character| matches!(character, '\'' | '"'))?;
    let (content, behind) = text[1..].split_once(quote)?;
    (!content.contains('\\')).then_some((content, behind))
}

/// Parses a type's name, or the list of a structured type up to its closing bracket.
fn type_of_elements(text: &str) -> Option<(String, &str)> {
    if let Some((name, behind)) = quoted(text) {
        return Some((name.to_owned(), behind));
    }
    let mut depth = 0_i32;
    let end = text.find(|character| {
        depth += match character {
            '[' => 1,
            ']' => -1,
            _ => 0,
        };
        depth <= 0
    })?;
    let (list, behind) = text.split_at(end + text[end..].chars().next()?.len_utf8());
    list.ends_with(']').then(|| (list.to_owned(), behind))
}

fn boolean(text: &str) -> Option<(bool, &str)> {
    let read = |word, value| text.strip_prefix(word).map(|behind| (value, behind));
    read("True", true).or_else(|| read("False", false))
}

/// Parses a tuple of numbers.
fn dimensions(text: &str) -> Option<(Vec<u64>, &str)> {
    let (inside, behind) = text.strip_prefix('(')?.split_once(')')?;
    let inside = inside.trim();
    if inside.is_empty() {
        return Some((Vec::new(), behind));
    }
    let inside = inside.strip_suffix(',').unwrap_or(inside);
    let numbers: Option<_> = inside.split(',').map(|number| number.trim().parse().ok()).collect();
    Some((numbers?, behind))
}

fn read_array<const N: usize>(file: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dictionary: &str) -> Option<Header> {
        Header::parse(dictionary)
    }

    #[test]
    fn a_dictionary_may_be_written_in_any_way_that_python_reads() {
        let plain = Header { descr: "<f2".into(), fortran_order: false, shape: vec![1, 2, 3, 64] };
        for text in [
            "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2, 3, 64), }   \n",
            "{\"shape\":(1,2,3,64),\"fortran_order\":False,\"descr\":\"<f2\"}",
            " { 'fortran_order' : False , 'descr' : '<f2' , 'shape' : ( 1 , 2 , 3 , 64 , ) } ",
        ] {
            assert_eq!(read(text), Some(plain.clone()), "{text}");
        }
        let shape =
            |text| read(&format!("{{'descr': '<f2', 'fortran_order': True, 'shape': {text}}}")).map(|read| read.shape);
        assert_eq!((shape("()"), shape("(5,)"), shape("(5)")), (Some(vec![]), Some(vec![5]), Some(vec![5])));
        for wrong in ["(-1,)", "(1 2)", "(,)", "(1,,2)", "[1]", "(1", "(18446744073709551616,)", "1"] {
            assert_eq!(shape(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_structured_type_is_kept_as_it_is_written() {
        let text = "{'descr': [('a', '<f2'), ('b', [('c', '<i4')])], 'fortran_order': False, 'shape': (3,)}";
        assert_eq!(read(text).unwrap().descr, "[('a', '<f2'), ('b', [('c', '<i4')])]");
    }

    #[test]
    fn what_is_no_such_dictionary_is_refused() {
        for text in [
            "",
            "{",
            "{}",
            "{'descr': '<f2', 'fortran_order': False}",
            "{'descr': '<f2', 'descr': '<f2', 'fortran_order': False, 'shape': ()}",
            "{'descr': '<f2', 'fortran_order': False, 'shape': (), 'more': 1}",
            "{'descr': '<f2' 'fortran_order': False, 'shape': ()}",
            "{'descr': '<f\\x32', 'fortran_order': False, 'shape': ()}",
            "{'descr': é, 'fortran_order': False, 'shape': ()}",
            "{'descr': [(, 'fortran_order': False, 'shape': ()}",
            "{'descr': '<f2', 'fortran_order': no, 'shape': ()}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn another_reader_understands_what_is_written() {
        for shape in [vec![], vec![7], vec![1, 2, 3, 64], vec![2; 40]] {
            let header = Header { descr: "<f2".into(), fortran_order: false, shape };
            let bytes = header.bytes();
            assert_eq!(bytes.len() % ALIGNMENT, 0);
            assert_eq!(Header::read(&mut bytes.as_slice()).unwrap(), header);
            let theirs = npyz::NpyHeader::from_reader(bytes.as_slice()).unwrap();
            assert_eq!((theirs.shape(), theirs.dtype().descr()), (header.shape.as_slice(), "'<f2'".to_owned()));
        }
    }

    #[test]
    fn the_longer_lengths_of_later_versions_are_read() {
        let text = b"{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}\n";
        let file = |version: u8, length: u32| [MAGIC, &[version, 0], &length.to_le_bytes(), text].concat();
        let length = text.len() as u32;
        for version in [2, 3] {
            assert_eq!(Header::read(&mut file(version, length).as_slice()).unwrap().descr, "<f4");
        }
        let kind = |bytes: Vec<u8>| Header::read(&mut bytes.as_slice()).unwrap_err().kind();
        assert_eq!(kind(file(2, length + 1)), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(file(2, u32::MAX)), io::ErrorKind::InvalidData);
        assert_eq!(kind(file(4, length)), io::ErrorKind::InvalidData);
    }
}
