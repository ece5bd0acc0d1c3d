//! JSON files with a header: a kind and a version, then the content.

use std::path::Path;

use ptx_diagnostics::printable::printable_json;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files;

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The kind, as in the file.
    pub kind: &'static str,
    /// The current version of the format.
    pub version: u32,
    /// The oldest version that can still be read; a reader refuses any other.
    pub oldest: u32,
    /// Its name in messages, such as `bench record`.
    pub name: &'static str,
    /// The command that writes it, such as `fa512 bench --json FILE`.
    pub source: &'static str,
}

/// Output of `fa512 run`.
pub const RUN: Format =
    Format { kind: "fa512-run", version: 1, oldest: 1, name: "record of a run", source: "fa512 run --json" };
/// Output of `fa512 fuzz`.
pub const FUZZ: Format =
    Format { kind: "fa512-fuzz", version: 1, oldest: 1, name: "record of a campaign", source: "fa512 fuzz --json" };
/// Output of `fa512 sanitize`.
pub const SANITIZE: Format = Format {
    kind: "fa512-sanitize",
    version: 1,
    oldest: 1,
    name: "record of a sweep",
    source: "fa512 sanitize --json",
};

/// Output of `fa512 compare`.
pub const COMPARE: Format =
    Format { kind: "fa512-compare", version: 1, oldest: 1, name: "comparison", source: "fa512 compare --json" };
/// Output of `fa512 diagnose`.
pub const DIAGNOSE: Format =
    Format { kind: "fa512-diagnose", version: 1, oldest: 1, name: "diagnosis", source: "fa512 diagnose --json" };
/// Output of `fa512 doctor`.
pub const DOCTOR: Format =
    Format { kind: "fa512-doctor", version: 1, oldest: 1, name: "list of tools", source: "fa512 doctor --json" };

/// The fields at the beginning of every file.
#[derive(Serialize, Deserialize)]
struct Header {
    kind: String,
    version: u32,
}

/// Content with its header.
#[derive(Serialize)]
pub struct Document<'a, T> {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    content: &'a T,
}

/// The kind of the file at `path`.
///
/// # Errors
/// [`Error::File`] when it cannot be read; [`Error::Invalid`] when it has no header.
pub fn kind(path: &Path) -> Result<String> {
    let text = files::read_text(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    let header: std::result::Result<Header, _> = from_json(&text);
    header.map(|header| header.kind).map_err(|error| {
        Error::Invalid(format!("{}: {error}; expected a JSON document with a kind and a version", path.display()))
    })
}

impl Format {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read; [`Error::Invalid`] when it is of another kind or version.
    pub fn load<T: DeserializeOwned>(&self, path: &Path) -> Result<T> {
        let text = files::read_text(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        self.parse(&text).map_err(|reason| Error::Invalid(format!("{}: {reason}", path.display())))
    }

    /// `content` with this format's header.
    pub fn document<'a, T: Serialize>(&self, content: &'a T) -> Document<'a, T> {
        Document { header: Header { kind: self.kind.into(), version: self.version }, content }
    }

    /// Writes `content` to `path`, replacing the file atomically.
    ///
    /// # Errors
    /// As for [`files::replace`].
    pub fn save<T: Serialize>(&self, path: &Path, content: &T) -> Result<()> {
        let document = self.document(content);
        files::replace(path, |file| {
            let mut text = serde_json::to_vec_pretty(&document)?;
            text.push(b'\n');
            file.write_all(&text)
        })
    }

    /// Whether the first line of `text` is the header of such a file.
    pub fn begins(&self, text: &str) -> bool {
        from_json::<Header>(text.lines().next().unwrap_or("")).is_ok_and(|header| header.kind == self.kind)
    }

    /// Parses the text of a file; the error says what is wrong with it.
    pub fn parse<T: DeserializeOwned>(&self, text: &str) -> std::result::Result<T, String> {
        let Self { kind, version, oldest, name, source } = self;
        let foreign = |error: serde_json::Error| format!("not a {name} ({error}); expected what `{source}` writes");
        let header: Header = from_json(text).map_err(foreign)?;
        if header.kind != *kind {
            return Err(format!("holds a {}, not a {name} ({kind})", header.kind));
        }
        if !(*oldest..=*version).contains(&header.version) {
            return Err(format!(
                "is a {name} of version {}; this program reads {version}: make it anew",
                header.version
            ));
        }
        from_json(text).map_err(|error| format!("a damaged {name}: {error}"))
    }
}

/// Parses untrusted JSON. Strings are made [`printable`](ptx_diagnostics::printable::printable), also in error
/// messages.
///
/// # Errors
/// When the JSON does not match the type.
pub fn from_json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(&printable_json(text))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_not_read() {
        let text = r#"{"a": "\u001b[2J\u001b]0;title\u0007", "b": "two\nlines\tand \u009b, \r", "\u001b": "plain"}"#;
        let read: BTreeMap<String, String> = from_json(text).unwrap();
        assert_eq!(read["a"], "\u{fffd}[2J\u{fffd}]0;title\u{fffd}");
        assert_eq!(read["b"], "two\nlines\tand \u{fffd}, \u{fffd}");
        assert_eq!(read["\u{fffd}"], "plain");
        let error = from_json::<bool>(r#""\u001b[2J""#).unwrap_err().to_string();
        assert!(error.contains("\u{fffd}[2J"), "{error}");
    }

    #[test]
    fn numbers_are_read_as_they_are_written_beside_escapes_too() {
        let numbers = [0.1, 1.0 / 3.0, 5e-324, 123_456_789.123_456_78];
        let text = serde_json::to_string(&(numbers, "\u{1b}")).unwrap();
        let (read, _): ([f64; 4], String) = from_json(&text).unwrap();
        assert_eq!(read, numbers);
    }
}
