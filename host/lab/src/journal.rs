//! Records that grow line by line. The first line is a header that says what was run where; each further line is a JSON
//! object, appended as soon as it is known. So whatever ends a run, a later one can continue from its measurements.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use cli::commands::Verdict;
use cli::document::{self, Format};
use cli::error::{Error, Result};
use cli::files;

/// The header and the other lines.
pub type Content<H, L> = (H, Vec<L>);

/// Why a run that writes a record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything was measured.
    Done,
    /// Time was up.
    Late,
    /// It was interrupted.
    Interrupted,
}

impl End {
    /// What to say when `measured` of the points or entries `of` are in the record at `path`; nothing if that is all.
    pub fn words(self, measured: usize, of: &str, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Done => String::new(),
            Self::Late => {
                format!("the time was over at {measured} of {of}; the same command goes on from {path}\n")
            }
            Self::Interrupted => format!("interrupted; the same command goes on from {path}\n"),
        }
    }

    /// The verdict on the run, in which something was `wrong` or nothing.
    pub fn verdict(self, wrong: bool) -> Verdict {
        match (self, wrong) {
            (Self::Interrupted, _) => Verdict::CannotRun,
            (_, true) => Verdict::Fail,
            (_, false) => Verdict::Pass,
        }
    }
}

/// A record being written.
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens the record of `format` at `path` to continue it, or creates it with `header`; also returns its contents.
    /// `like` gets the header of an existing record and returns why it cannot be continued, if so.
    ///
    /// # Errors
    /// As for [`load`]; [`Error::Invalid`] when `like` refuses.
    pub fn open<H, L>(
        path: &Path,
        format: &Format,
        header: H,
        like: impl FnOnce(&H) -> std::result::Result<(), String>,
    ) -> Result<(Self, Content<H, L>)>
    where
        H: Serialize + DeserializeOwned,
        L: DeserializeOwned,
    {
        let failed = |source| Error::File { path: path.to_owned(), source };
        files::check_target(path)?;
        let text = match files::read_text(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(error)),
        };
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        let content = if text.is_empty() {
            (header, Vec::new())
        } else {
            let content: Content<H, L> =
                parse(format, &text).map_err(|reason| Error::Invalid(format!("{}: {reason}", path.display())))?;
            like(&content.0).map_err(|reason| {
                Error::Invalid(format!("{} {reason}; give --out another name to begin anew", path.display()))
            })?;
            content
        };
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
        file.set_len(complete as u64).map_err(failed)?;
        let mut journal = Self { path: path.to_owned(), file };
        if complete == 0 {
            journal.write(&first_line(format, &content.0))?;
        }
        Ok((journal, content))
    }

    /// Appends a line.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be written.
    pub fn add(&mut self, line: &impl Serialize) -> Result<()> {
        self.write(&to_line(line))
    }

    /// Writes a line with a single call, so that a killed run leaves all of it, or a line without an end.
    fn write(&mut self, line: &[u8]) -> Result<()> {
        let written = self.file.write_all(line).and_then(|()| self.file.sync_data());
        written.map_err(|source| Error::File { path: self.path.clone(), source })
    }
}

/// Reads the record of `format` at `path`. Skips an incomplete last line, which a killed run may leave.
///
/// # Errors
/// [`Error::File`] when it cannot be read; [`Error::Invalid`] when it is not such a record, or a line is damaged.
pub fn load<H: DeserializeOwned, L: DeserializeOwned>(format: &Format, path: &Path) -> Result<Content<H, L>> {
    let text = files::read_text(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    parse(format, &text).map_err(|reason| Error::Invalid(format!("{}: {reason}", path.display())))
}

/// Parses the text of a record.
pub fn parse<H: DeserializeOwned, L: DeserializeOwned>(
    format: &Format,
    text: &str,
) -> std::result::Result<Content<H, L>, String> {
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = complete.lines().enumerate();
    let header = format.parse(lines.next().map_or("", |(_, line)| line))?;
    let lines =
        lines.map(|(index, line)| document::from_json(line).map_err(|error| format!("line {}: {error}", index + 1)));
    Ok((header, lines.collect::<std::result::Result<_, _>>()?))
}

/// Writes a whole record to `path`, replacing the file atomically.
///
/// # Errors
/// As for [`files::replace`].
pub fn save<'a, L: Serialize + 'a>(
    path: &Path,
    format: &Format,
    header: &impl Serialize,
    lines: impl IntoIterator<Item = &'a L>,
) -> Result<()> {
    let lines: Vec<_> = lines.into_iter().map(to_line).collect();
    files::replace(path, |file| {
        file.write_all(&first_line(format, header))?;
        lines.iter().try_for_each(|line| file.write_all(line))
    })
}

/// Appends `line` to the record at `path`, which a blocked thread has open.
///
/// # Errors
/// [`Error::File`] when it cannot be written.
pub fn append(path: &Path, line: &impl Serialize) -> Result<()> {
    let line = to_line(line);
    let appended = OpenOptions::new().append(true).open(path).and_then(|mut file| file.write_all(&line));
    appended.map_err(|source| Error::File { path: path.to_owned(), source })
}

/// The header line, as [`parse`] expects it.
pub fn first_line(format: &Format, header: &impl Serialize) -> Vec<u8> {
    to_line(&format.document(header))
}

fn to_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("records have no maps with keys that are not text");
    line.push(b'\n');
    line
}
