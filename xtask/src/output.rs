//! Writing to standard output.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// Writes `text` and a line break to standard output. A reader that has gone away, as in `cargo xtask doctor | head`, is
/// not an error.
pub fn print_line(text: impl Display) -> Result<()> {
    write_line(&mut io::stdout().lock(), text).context("could not write to standard output")
}

fn write_line(output: &mut impl Write, text: impl Display) -> io::Result<()> {
    match writeln!(output, "{text}").and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output that fails in this way.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn only_a_reader_that_has_gone_away_is_no_error() {
        let mut text = Vec::new();
        write_line(&mut text, "one").unwrap();
        assert_eq!(text, b"one\n");
        write_line(&mut Failing(ErrorKind::BrokenPipe), "text").expect("the reader wants no more");
        assert_eq!(
            write_line(&mut Failing(ErrorKind::StorageFull), "text").unwrap_err().kind(),
            ErrorKind::StorageFull
        );
    }
}
