//! Text of somebody else's that a terminal only shows.

use std::borrow::Cow;

/// `text` with U+FFFD for every control character, which a terminal would obey when it is printed. Ends of lines and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    match text.contains(is_obeyed) {
        true => text.replace("\r\n", "\n").replace(is_obeyed, "\u{fffd}").into(),
        false => text.into(),
    }
}

/// Whether a terminal does something at this character but to show it, to end a line or to move to a column.
fn is_obeyed(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_replaced() {
        assert_eq!(printable("\u{1b}[2J\u{7}\u{9b}\r"), "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(printable("two\r\nlines\tand\nmore"), "two\nlines\tand\nmore");
        assert!(matches!(printable("plain"), Cow::Borrowed(_)));
    }
}
