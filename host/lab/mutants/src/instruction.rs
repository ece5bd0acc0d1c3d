//! A PTX instruction as text: parsing, changing and reassembling it.

use std::fmt;

use ptx_text::lines::without_comment;

/// An instruction on a line of its own, as rustc writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// `@%p1` or `@!%p1`.
    pub guard: Option<String>,
    /// Opcode with its modifiers, for example `ld.param.b64`.
    pub opcode: String,
    /// Operands as written: registers, literals, `{…}` and `[…]`.
    pub operands: Vec<String>,
}

impl Instruction {
    /// The instruction on a line of PTX; `None` for anything else: directives, labels, braces, comments.
    pub fn parse(line: &str) -> Option<Self> {
        let text = without_comment(line).trim().strip_suffix(';')?;
        let (guard, text) = match text.strip_prefix('@') {
            Some(_) => {
                text.split_once(char::is_whitespace).map(|(guard, rest)| (Some(guard.to_owned()), rest.trim()))?
            }
            None => (None, text),
        };
        let (opcode, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if !opcode.starts_with(|first: char| first.is_ascii_lowercase()) {
            return None;
        }
        Some(Self { guard, opcode: opcode.to_owned(), operands: split_operands(operands) })
    }

    /// The integer literal at `operand`.
    pub fn literal(&self, operand: usize) -> Option<i64> {
        let text = self.operands.get(operand)?;
        match text.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }
}

/// Splits at the commas outside braces and brackets.
fn split_operands(text: &str) -> Vec<String> {
    let mut depth = 0;
    let parts = text.split(|letter| {
        match letter {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

impl fmt::Display for Instruction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(guard) = &self.guard {
            write!(formatter, "{guard} ")?;
        }
        formatter.write_str(&self.opcode)?;
        if !self.operands.is_empty() {
            write!(formatter, " {}", self.operands.join(", "))?;
        }
        formatter.write_str(";")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_taken_apart_and_put_together() {
        let load = Instruction::parse("\t@!%p1 ld.shared.v4.b32 \t{%r1, %r2, %r3, %r4}, [%r5+16];").unwrap();
        assert_eq!(load.guard.as_deref(), Some("@!%p1"));
        assert_eq!(load.opcode, "ld.shared.v4.b32");
        assert_eq!(load.operands, ["{%r1, %r2, %r3, %r4}", "[%r5+16]"]);
        assert_eq!(load.to_string(), "@!%p1 ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5+16];");
        assert_eq!(Instruction::parse("ret;").unwrap().to_string(), "ret;");
    }

    #[test]
    fn literals_are_decimal_or_hexadecimal() {
        let shuffle = Instruction::parse("shfl.sync.bfly.b32 %r1, %r2, 1, 0x1f, -1;").unwrap();
        assert_eq!([1, 2, 3, 4].map(|index| shuffle.literal(index)), [None, Some(1), Some(31), Some(-1)]);
    }

    #[test]
    fn what_is_no_instruction_is_left_alone() {
        for line in ["", "$L__BB0_2:", ".reg .b32 %r<5>;", "\t.loc\t1 2 3", "{", "// add.s32 %r1, %r2, 1;", "@%p1"] {
            assert_eq!(Instruction::parse(line), None, "{line}");
        }
    }
}
