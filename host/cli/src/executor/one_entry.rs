//! Reduces a PTX module to one entry.

use ptx_text::lines::entry_of_line;

/// `ptx` with all entries except `entry` replaced by empty lines, so that line numbers are kept. The whole text if
/// `entry` is not found.
///
/// The driver compiles every entry that it loads: for the 90 that `sm_90a.ptx` once had, it took 20 seconds. The simulator
/// reads every entry, a second for its 168.
pub fn only(ptx: &str, entry: &str) -> String {
    let mut kept = String::with_capacity(ptx.len() / 8);
    let (mut place, mut is_there) = (Place::Outside, false);
    for line in ptx.lines() {
        let code = line.split("//").next().unwrap_or_default();
        if let (Place::Outside, Some(name)) = (&place, entry_of_line(code)) {
            is_there |= name == entry;
            if name != entry {
                place = Place::Before;
            }
        }
        match place {
            Place::Outside => kept.push_str(line),
            Place::Before | Place::Within(_) => place = place.behind(code),
        }
        kept.push('\n');
    }
    if is_there { kept } else { ptx.to_owned() }
}

/// Position relative to entries that are left out.
enum Place {
    /// Outside of them.
    Outside,
    /// In the header of one.
    Before,
    /// In the body of one, at this depth of braces.
    Within(usize),
}

impl Place {
    /// The position after a line `code`.
    fn behind(self, code: &str) -> Self {
        code.bytes().fold(self, |place, byte| match (place, byte) {
            (Place::Before, b'{') => Place::Within(1),
            (Place::Within(depth), b'{') => Place::Within(depth + 1),
            (Place::Within(1), b'}') => Place::Outside,
            (Place::Within(depth), b'}') => Place::Within(depth - 1),
            (place, _) => place,
        })
    }
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
