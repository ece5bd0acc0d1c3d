//! Untrusted text made safe to print on a terminal.

use std::borrow::Cow;

/// `text` with every character that controls a terminal replaced by U+FFFD: control characters and those that change the text
/// direction. Line breaks and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    match text.contains(is_obeyed) {
        true => text.replace("\r\n", "\n").replace(is_obeyed, "\u{fffd}").into(),
        false => text.into(),
    }
}

/// JSON `text` with [`printable`] strings: characters that control a terminal are replaced by U+FFFD, escaped or not.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    let is_candidate = |character| character == '\\' || is_obeyed_in_json(character);
    let Some(first) = text.find(is_candidate) else { return text.into() };
    let (before, mut rest) = text.split_at(first);
    let mut shown = String::with_capacity(text.len());
    shown.push_str(before);
    while !rest.is_empty() {
        let (length, replacement) = unit(rest);
        let (written, behind) = rest.split_at(length);
        shown.push_str(replacement.unwrap_or(written));
        let next = behind.find(is_candidate).unwrap_or(behind.len());
        shown.push_str(&behind[..next]);
        rest = &behind[next..];
    }
    shown.into()
}

/// Length and replacement of the escape or character at the start of JSON `text`; the replacement is `None` if it is harmless.
fn unit(text: &str) -> (usize, Option<&'static str>) {
    const REPLACEMENT: Option<&str> = Some("\u{fffd}");
    let mut characters = text.chars();
    let first = characters.next().map_or(0, char::len_utf8);
    if !text.starts_with('\\') {
        return (first, REPLACEMENT);
    }
    match characters.next() {
        Some('u') => {
            let code = text.get(2..6).and_then(|digits| u32::from_str_radix(digits, 16).ok());
            let obeyed = code.and_then(char::from_u32).is_some_and(is_obeyed);
            if obeyed { (6, REPLACEMENT) } else { (2, None) }
        }
        Some('r') if text[2..].starts_with("\\n") => (2, Some("")),
        Some('b' | 'f' | 'r') => (2, REPLACEMENT),
        escaped => (first + escaped.map_or(0, char::len_utf8), None),
    }
}

/// Whether a character that JSON allows unescaped controls a terminal.
fn is_obeyed_in_json(character: char) -> bool {
    is_obeyed(character) && character > '\u{1f}'
}

/// Whether a character controls a terminal. Line breaks and tabs do not count.
fn is_obeyed(character: char) -> bool {
    let is_control = character.is_control() && !matches!(character, '\n' | '\t');
    is_control || is_direction(character)
}

/// Whether a character changes the display order of the text after it: an embedding, override or isolate.
fn is_direction(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_replaced() {
        assert_eq!(printable("\u{1b}[2J\u{7}\u{9b}\r"), "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(printable("\u{202e}cod\u{202c}\u{2066}"), "\u{fffd}cod\u{fffd}\u{fffd}");
        assert_eq!(printable("two\r\nlines\tand\nmore"), "two\nlines\tand\nmore");
        assert!(matches!(printable("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn strings_of_json_are_printable_however_they_are_written() {
        let shown = |text| serde_json::from_str::<String>(&printable_json(text)).unwrap();
        assert_eq!(
            shown(r#""\u001b[2J\u009B\b\f\r \u0041\"\\u001b\/""#),
            "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}\u{fffd} A\"\\u001b/"
        );
        assert_eq!(shown(r#""two\r\nlines\tand\nmore""#), "two\nlines\tand\nmore");
        assert_eq!(shown("\"\u{202e}, \\u202E\""), "\u{fffd}, \u{fffd}");
        assert_eq!(shown("\"\u{9b}31m, \u{7f}\""), "\u{fffd}31m, \u{fffd}");
        assert_eq!(shown(r#""\ud83d\ude00""#), "😀");
        assert!(matches!(printable_json("[1,\r\n \"plain\"]"), Cow::Borrowed(_)));
        for broken in [r"\", r"\u", r"\u00", r"\u00é", r"\é", r#""\u001"#] {
            assert_eq!(printable_json(broken), broken);
        }
    }
}
