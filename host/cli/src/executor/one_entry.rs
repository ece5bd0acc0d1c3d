//! Reduces a PTX module to one entry.

use memchr::{memchr, memchr_iter, memchr3, memmem};
use ptx_text::lines::{entry_of_line, without_comment};

/// `ptx` with all entries except `entry` replaced by empty lines, so that line numbers are kept. The whole text if
/// `entry` is not found.
///
/// The driver compiles every entry that it loads: for the 90 that `sm_90a.ptx` once had, it took 20 seconds. The simulator
/// reads every entry, a second for its 168.
pub fn only(ptx: &str, entry: &str) -> String {
    let mut kept = String::with_capacity(ptx.len() / 8);
    let (mut rest, mut is_there) = (ptx, false);
    while let Some((begin, name)) = next_entry(rest) {
        let (before, from) = rest.split_at(begin);
        let (text, behind) = from.split_at(end_of_entry(from));
        kept.push_str(before);
        if name == entry {
            is_there = true;
            kept.push_str(text);
        } else {
            kept.extend(memchr_iter(b'\n', text.as_bytes()).map(|_| '\n'));
        }
        rest = behind;
    }
    if is_there { kept + rest } else { ptx.to_owned() }
}

/// Where the line begins that begins the next entry, and the name of the entry.
fn next_entry(ptx: &str) -> Option<(usize, &str)> {
    memmem::find_iter(ptx.as_bytes(), ".entry").find_map(|place| {
        let begin = ptx[..place].rfind('\n').map_or(0, |end| end + 1);
        let line = ptx[begin..].lines().next()?;
        Some((begin, entry_of_line(without_comment(line))?))
    })
}

/// Where the line ends that ends the entry that `ptx` begins with.
fn end_of_entry(ptx: &str) -> usize {
    let ptx = ptx.as_bytes();
    let end_of_line = |place: usize| memchr(b'\n', &ptx[place..]).map_or(ptx.len(), |length| place + length);
    let (mut place, mut depth) = (0, 0_usize);
    while let Some(length) = memchr3(b'{', b'}', b'/', &ptx[place..]) {
        place += length;
        match ptx[place] {
            b'{' => depth += 1,
            b'}' if depth == 1 => return end_of_line(place),
            b'}' => depth = depth.saturating_sub(1),
            _ if ptx.get(place + 1) == Some(&b'/') => place = end_of_line(place) - 1,
            _ => {}
        }
        place += 1;
    }
    ptx.len()
}

#[cfg(test)]
mod tests {
    use super::only;

    const PTX: &str = "\
.version 8.0
.target sm_80
.global .u32 seven = 7;
.visible .entry first(
\t.param .u64 p
)
.maxntid 128, 1, 1
{
\tret; // a } that closes nothing
}
.func helper() { ret; }
\t// .globl second
.visible .entry second()
{
\t{ // callseq
\tcall helper;
\t}
\tret;
}
.visible .entry third() { ret; }
\t.file 1 \"lib.rs\"
";

    fn lines(entry: &str) -> Vec<(usize, String)> {
        let kept = only(PTX, entry);
        assert_eq!(kept.lines().count(), PTX.lines().count(), "{kept}");
        let kept = kept.lines().enumerate().filter(|(_, line)| !line.is_empty());
        kept.map(|(number, line)| (number, line.to_owned())).collect()
    }

    #[test]
    fn other_entries_are_left_out_and_lines_keep_their_numbers() {
        let all: Vec<&str> = PTX.lines().collect();
        for (entry, gone) in
            [("first", vec![12..19, 19..20]), ("second", vec![3..10, 19..20]), ("third", vec![3..10, 12..19])]
        {
            let is_gone = |number: &usize| gone.iter().any(|range| range.contains(number));
            let expected: Vec<_> = (0..all.len())
                .filter(|number| !is_gone(number))
                .map(|number| (number, all[number].to_owned()))
                .collect();
            assert_eq!(lines(entry), expected, "{entry}");
        }
    }

    #[test]
    fn without_the_entry_all_of_it_is_left() {
        assert_eq!(only(PTX, "fourth"), PTX);
        assert_eq!(only("no PTX", "first"), "no PTX");
    }
}
