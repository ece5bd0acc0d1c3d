//! Removal of DWARF sections from PTX, keeping line directives. LLVM 7 writes both or neither, marks the module for debugging,
//! and keeps branches to the next instruction.

/// `ptx` without sections, without branches to the next line, and without `debug` in its target. Labels stay: other branches
/// need some of them.
pub fn without(ptx: &str) -> String {
    let mut text = String::with_capacity(ptx.len());
    let mut in_section = false;
    let mut lines = ptx.lines().peekable();
    while let Some(line) = lines.next() {
        let code = line.trim();
        in_section |= code.starts_with(".section");
        let goes_on = lines.peek().is_some_and(|next| is_branch_to(code, next.trim()));
        if !in_section && !goes_on {
            text.push_str(if code.starts_with(".target") { line.trim_end_matches(", debug") } else { line });
            text.push('\n');
        }
        in_section &= code != "}";
    }
    text
}

/// Whether `code` is an unconditional branch to the label that makes up `next`.
fn is_branch_to(code: &str, next: &str) -> bool {
    let target = code.strip_prefix("bra.uni").and_then(|operand| operand.strip_suffix(';'));
    target.is_some_and(|target| next.strip_suffix(':') == Some(target.trim()))
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn lines_stay_and_dwarf_goes() {
        let ptx = "\
.version 9.0
.target sm_80, debug
.visible .entry one()
{
\t.loc\t1 10 0
$L__tmp17:
\t@%p1 bra \t$L__tmp17;
\tbra.uni\t$L__tmp18;
$L__tmp18:
\tbra.uni\t$L__tmp17;
}
\t.file\t1 \"a.rs\"
\t.section\t.debug_info
\t{
.b64 $L__tmp17
\t}
\t.section\t.debug_macinfo
\t{
.b8 0

\t}
";
        let expected = "\
.version 9.0
.target sm_80
.visible .entry one()
{
\t.loc\t1 10 0
$L__tmp17:
\t@%p1 bra \t$L__tmp17;
$L__tmp18:
\tbra.uni\t$L__tmp17;
}
\t.file\t1 \"a.rs\"
";
        assert_eq!(without(ptx), expected);
    }
}
