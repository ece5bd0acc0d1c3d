//! Tables and lines that fit a terminal without breaking a word.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};

/// Cells of more words than this are prose, which may wrap; shorter ones are names and numbers.
const WORDS_OF_A_NAME: usize = 3;
/// What a column takes beside its content.
const PADDING: usize = 2;
/// Columns of the narrowest terminal that is taken at its word. One without a size says 0.
const NARROWEST: u16 = 20;
/// Columns of a terminal without a size.
const USUAL: u16 = 80;
/// What stands between cells of one line that are not in columns.
const SEPARATOR: &str = " · ";

/// An empty table without borders.
pub fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// `table` as text of at most `width` columns, but for single words that are longer: names and numbers stay whole. Where its
/// columns do not fit beside each other, each row is a paragraph.
pub fn fitted(mut table: Table, width: Option<u16>) -> String {
    let Some(width) = usable(width) else { return table.trim_fmt() };
    let columns = columns(&table);
    let least: usize = columns.iter().map(|column| column.least() + PADDING).sum();
    if least > usize::from(width) {
        return stacked(&table, usize::from(width));
    }
    table.set_width(width);
    for (column, content) in table.column_iter_mut().zip(&columns) {
        let least = u16::try_from(content.least() + PADDING).unwrap_or(u16::MAX);
        column.set_constraint(match content.prose {
            true => ColumnConstraint::LowerBoundary(Width::Fixed(least)),
            false => ColumnConstraint::Absolute(Width::Fixed(least)),
        });
    }
    table.trim_fmt()
}

/// `text` with lines of at most `width` columns, but for single words that are longer. What continues a line stands below the text behind
/// its label, where it has one, else two columns further in.
pub fn wrapped(text: &str, width: Option<u16>) -> String {
    let Some(width) = usable(width).map(usize::from) else { return text.to_owned() };
    let mut lines = Vec::new();
    for line in text.split('\n') {
        match columns_of(line) <= width {
            true => lines.push(line.to_owned()),
            false => wrap_behind_label(line, width, &mut lines),
        }
    }
    lines.join("\n")
}

/// The width of a terminal, if it is one that can be written to.
fn usable(width: Option<u16>) -> Option<u16> {
    width.map(|width| if width < NARROWEST { USUAL } else { width })
}

/// Puts the words of `line` on several.
fn wrap_behind_label(line: &str, width: usize, lines: &mut Vec<String>) {
    let text = line.trim_start();
    let margin = line.len() - text.len();
    let label = text.find("  ").map_or(0, |end| end + text[end..].len() - text[end..].trim_start().len());
    let label = if margin + label > width / 2 { 0 } else { label };
    let first = lines.len();
    let further = margin + if label > 0 { label } else { 2 };
    wrap(&text[label..], &" ".repeat(further), width, lines);
    let begin = format!("{}{}", &line[..margin], &text[..label]);
    lines[first].replace_range(..further, &begin);
}

/// Columns that a line takes, without escape sequences of colours.
fn columns_of(line: &str) -> usize {
    let mut parts = line.split('\u{1b}');
    let plain = parts.next().map_or(0, |part| part.chars().count());
    plain
        + parts
            .map(|part| part.chars().count() - part.find('m').map_or(0, |end| part[..=end].chars().count()))
            .sum::<usize>()
}

/// What is known of a column's cells.
#[derive(Clone, Copy, Default)]
struct Column {
    prose: bool,
    longest_line: usize,
    longest_word: usize,
}

impl Column {
    fn least(&self) -> usize {
        if self.prose { self.longest_word } else { self.longest_line }
    }
}

/// The rows with the header first.
fn rows(table: &Table) -> Vec<Vec<String>> {
    let rows = table.header().into_iter().chain(table.row_iter());
    rows.map(|row| row.cell_iter().map(|cell| cell.content()).collect()).collect()
}

fn columns(table: &Table) -> Vec<Column> {
    let mut columns = Vec::new();
    for row in rows(table) {
        columns.resize(columns.len().max(row.len()), Column::default());
        for (column, cell) in columns.iter_mut().zip(&row) {
            let longest =
                |parts: &mut dyn Iterator<Item = &str>| parts.map(|part| part.chars().count()).max().unwrap_or(0);
            column.prose |= cell.split_whitespace().count() > WORDS_OF_A_NAME;
            column.longest_line = column.longest_line.max(longest(&mut cell.lines()));
            column.longest_word = column.longest_word.max(longest(&mut cell.split_whitespace()));
        }
    }
    columns
}

/// A paragraph for each row: its first cell, and below it the others behind their headings, as many on a line as fit. Prose has
/// lines of its own.
fn stacked(table: &Table, width: usize) -> String {
    const INDENT: &str = "   ";
    let mut rows = rows(table);
    let header = if table.header().is_some() { rows.remove(0) } else { Vec::new() };
    let mut lines = Vec::new();
    for row in rows {
        let Some((name, cells)) = row.split_first() else { continue };
        wrap(name, " ", width, &mut lines);
        let mut line = String::new();
        for (index, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
            let heading = header.get(index + 1).filter(|heading| !heading.is_empty());
            let text = heading.map_or_else(|| cell.clone(), |heading| format!("{heading}: {cell}"));
            let prose = cell.split_whitespace().count() > WORDS_OF_A_NAME;
            let joined = columns_of(&line) + columns_of(SEPARATOR) + columns_of(&text);
            if !line.is_empty() && (prose || joined > width) {
                lines.push(std::mem::take(&mut line));
            }
            if prose || INDENT.len() + columns_of(&text) > width {
                wrap(&text, INDENT, width, &mut lines);
            } else {
                line += if line.is_empty() { INDENT } else { SEPARATOR };
                line += &text;
            }
        }
        if !line.is_empty() {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// Puts the words of `text` on lines that begin with `indent`.
fn wrap(text: &str, indent: &str, width: usize, lines: &mut Vec<String>) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && columns_of(&line) + 1 + columns_of(word) > width {
            lines.push(std::mem::take(&mut line));
        }
        line += if line.is_empty() { indent } else { " " };
        line += word;
    }
    lines.push(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(header: &[&str], row: &[&str]) -> Table {
        let mut table = super::table();
        table.set_header(header.to_vec());
        table.add_row(row.to_vec());
        table
    }

    #[test]
    fn long_lines_continue_behind_their_label() {
        let text = " next    launch from a graph, or batch more heads into a call\n short    1  2\nno label: all of these words, and then more\n";
        let expected = " next    launch from a graph,\n         or batch more heads\n         into a call\n short    1  2\nno label: all of these\n  words, and then more\n";
        assert_eq!(wrapped(text, Some(30)), expected);
        assert_eq!(wrapped(text, None), text);
        let coloured = "\u{1b}[31mred\u{1b}[0m and seventeen more";
        assert_eq!(wrapped(coloured, Some(22)), coloured);
        assert_eq!(
            wrapped("a_word_that_is_longer_than_a_line and more", Some(20)),
            "a_word_that_is_longer_than_a_line\n  and more"
        );
    }

    fn assert_whole(text: &str, cells: &[&str]) {
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for word in cells.iter().flat_map(|cell| cell.split_whitespace()) {
            assert!(text.split_whitespace().any(|shown| shown == word), "{word} is broken in\n{text}");
        }
    }

    #[test]
    fn a_table_of_many_numbers_is_stacked_at_80_columns() {
        let header = ["case", "contender", "median µs", "95 % interval", "p95", "p99", "CV %", "TFLOP/s", "launch µs"];
        let row = [
            "64x16x512 causal",
            "variant:fa512_sm80_s512_causal_128x32",
            "144.04",
            "143.9–144.2",
            "145",
            "146",
            "0.5",
            "477",
            "2.5",
        ];
        let text = fitted(table(&header, &row), Some(80));
        assert_whole(&text, &row);
        assert!(text.contains("32 · median µs: 144.04\n") && text.contains("p95: 145 · p99: 146"), "{text}");
        assert!(text.lines().count() <= 4, "{text}");
    }

    #[test]
    fn a_terminal_without_a_size_has_80_columns() {
        let row = ["word ".repeat(60)];
        let shown = |width| fitted(table(&["a"], &[&row[0]]), Some(width));
        assert_eq!(shown(0), shown(80));
        assert_eq!(wrapped(&row[0], Some(1)), wrapped(&row[0], Some(80)));
    }

    #[test]
    fn prose_wraps_between_words_beside_names_that_stay_whole() {
        let prose =
            "no hardware counters on this machine since there is no profiler; install Nsight Compute to get them";
        let row = ["fa512_sm90a_tma_s512_full_512x64", "12.50", prose];
        let text = fitted(table(&["name", "µs", "what that costs"], &row), Some(80));
        assert_whole(&text, &row);
        assert!(text.lines().nth(1).is_some_and(|line| line.contains(row[0]) && line.contains("12.50")), "{text}");
    }

    #[test]
    fn without_a_terminal_nothing_wraps() {
        let text = fitted(table(&["a", "b"], &["x", &"word ".repeat(60)]), None);
        assert_eq!(text.lines().count(), 2);
    }
}
