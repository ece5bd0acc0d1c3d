//! Changes of a single instruction.

use crate::instruction::Instruction;

/// A change of one instruction.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The instruction is removed.
    Drop,
    /// The predicate is removed: the instruction is always executed.
    DropPredicate,
    /// The predicate is negated.
    NegatePredicate,
    /// Part of the opcode is replaced.
    Opcode {
        /// What is replaced.
        from: &'static str,
        /// The replacement.
        to: &'static str,
    },
    /// A number is added to the integer literal at an operand.
    AddToLiteral {
        /// Index of the operand.
        operand: usize,
        /// What is added.
        amount: i64,
    },
    /// Bits of the integer literal at an operand are flipped.
    FlipLiteral {
        /// Index of the operand.
        operand: usize,
        /// The bits.
        bits: i64,
    },
    /// An offset is added to the address at an operand.
    ShiftAddress {
        /// Index of the operand.
        operand: usize,
        /// Bytes.
        bytes: i64,
    },
    /// An operand is replaced by another text.
    Operand {
        /// Index of the operand.
        operand: usize,
        /// The text.
        to: &'static str,
    },
    /// Two operands are swapped.
    SwapOperands(usize, usize),
    /// Two elements of a vector operand are swapped.
    SwapElements {
        /// Index of the operand.
        operand: usize,
        /// The elements.
        elements: [usize; 2],
    },
    /// The instruction is replaced by a text in which `{opcode}`, `{0}`, `{1}` … stand for its parts and `%m` is a fresh 32-bit
    /// register. Does not apply to an instruction with a predicate.
    Rewrite(&'static str),
}

impl Change {
    /// The changed instruction, empty if it is removed; `None` if the change does not apply.
    pub fn apply(self, instruction: &Instruction) -> Option<String> {
        let mut changed = instruction.clone();
        match self {
            Change::Drop => return Some(String::new()),
            Change::DropPredicate => changed.guard.take().map(drop)?,
            Change::NegatePredicate => changed.guard = Some(negated(changed.guard.as_deref()?)),
            Change::Opcode { from, to } => changed.opcode = replace_part(&changed.opcode, from, to)?,
            Change::AddToLiteral { operand, amount } => {
                changed.operands[operand] = (instruction.literal(operand)? + amount).to_string();
            }
            Change::FlipLiteral { operand, bits } => {
                changed.operands[operand] = (instruction.literal(operand)? ^ bits).to_string();
            }
            Change::ShiftAddress { operand, bytes } => {
                let inside = changed.operands.get(operand)?.strip_prefix('[')?.strip_suffix(']')?;
                changed.operands[operand] = format!("[{}]", shifted(inside, bytes));
            }
            Change::Operand { operand, to } => to.clone_into(changed.operands.get_mut(operand)?),
            Change::SwapOperands(first, second) => {
                changed.operands.get(first.max(second))?;
                changed.operands.swap(first, second);
            }
            Change::SwapElements { operand, elements: [first, second] } => {
                let inside = changed.operands.get(operand)?.strip_prefix('{')?.strip_suffix('}')?;
                let mut elements: Vec<&str> = inside.split(',').map(str::trim).collect();
                elements.get(first.max(second))?;
                elements.swap(first, second);
                changed.operands[operand] = format!("{{{}}}", elements.join(", "));
            }
            Change::Rewrite(template) => return rewritten(template, instruction),
        }
        (changed != *instruction).then(|| changed.to_string())
    }
}

fn negated(guard: &str) -> String {
    match guard.strip_prefix("@!") {
        Some(register) => format!("@{register}"),
        None => guard.replacen('@', "@!", 1),
    }
}

/// Replaces `from` where it is a whole sequence of dot-separated parts of `opcode`.
fn replace_part(opcode: &str, from: &str, to: &str) -> Option<String> {
    let dotted = |text: &str| if text.is_empty() { ".".to_owned() } else { format!(".{text}.") };
    let whole = dotted(opcode);
    let replaced = whole.replacen(&dotted(from), &dotted(to), 1);
    (replaced != whole).then(|| replaced.trim_matches('.').to_owned())
}

/// The inside of an address, `base` or `base+offset`, with `bytes` added.
fn shifted(address: &str, bytes: i64) -> String {
    let (base, offset) = address.split_once('+').unwrap_or((address, "0"));
    match offset.trim().parse::<i64>() {
        Ok(offset) => format!("{}+{}", base.trim(), offset + bytes),
        Err(_) => format!("{address}+{bytes}"),
    }
}

fn rewritten(template: &str, instruction: &Instruction) -> Option<String> {
    if instruction.guard.is_some() {
        return None;
    }
    let mut text = template.replace("{opcode}", &instruction.opcode);
    for (index, operand) in instruction.operands.iter().enumerate() {
        text = text.replace(&format!("{{{index}}}"), operand);
    }
    Some(format!("{{ .reg .b32 %m; {text} }}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_changed(change: Change, before: &str, after: Option<&str>) {
        let instruction = Instruction::parse(before).unwrap();
        assert_eq!(change.apply(&instruction).as_deref(), after, "{change:?} of {before}");
    }

    #[test]
    fn predicates() {
        assert_changed(Change::DropPredicate, "@%p1 bra $L;", Some("bra $L;"));
        assert_changed(Change::NegatePredicate, "@%p1 bra $L;", Some("@!%p1 bra $L;"));
        assert_changed(Change::NegatePredicate, "@!%p1 bra $L;", Some("@%p1 bra $L;"));
        assert_changed(Change::NegatePredicate, "bra $L;", None);
    }

    #[test]
    fn opcodes_change_by_whole_parts() {
        assert_changed(
            Change::Opcode { from: "lt", to: "le" },
            "setp.lt.u32 %p, %r1, 5;",
            Some("setp.le.u32 %p, %r1, 5;"),
        );
        assert_changed(Change::Opcode { from: "l", to: "x" }, "setp.lt.u32 %p, %r1, 5;", None);
        assert_changed(
            Change::Opcode { from: "trans", to: "" },
            "ldmatrix.x4.trans.b16 %r, [%a];",
            Some("ldmatrix.x4.b16 %r, [%a];"),
        );
    }

    #[test]
    fn literals_and_addresses() {
        assert_changed(
            Change::AddToLiteral { operand: 0, amount: 1 },
            "cp.async.wait_group 0;",
            Some("cp.async.wait_group 1;"),
        );
        assert_changed(Change::AddToLiteral { operand: 2, amount: 1 }, "add.s32 %r1, %r2, %r3;", None);
        assert_changed(Change::FlipLiteral { operand: 2, bits: 3 }, "shfl %r1, %r2, 1;", Some("shfl %r1, %r2, 2;"));
        assert_changed(
            Change::ShiftAddress { operand: 0, bytes: 4 },
            "st.b32 [%r1], %r2;",
            Some("st.b32 [%r1+4], %r2;"),
        );
        assert_changed(
            Change::ShiftAddress { operand: 1, bytes: 4 },
            "ld.b32 %r1, [%r2+-8];",
            Some("ld.b32 %r1, [%r2+-4];"),
        );
    }

    #[test]
    fn operands_and_elements_change_places() {
        assert_changed(Change::SwapOperands(1, 2), "selp.b32 %r1, %r2, %r3, %p;", Some("selp.b32 %r1, %r3, %r2, %p;"));
        assert_changed(Change::SwapOperands(1, 2), "mov.b32 %r1, %r2;", None);
        let swap = Change::SwapElements { operand: 1, elements: [0, 1] };
        assert_changed(swap, "mma %r, {%b0, %b1};", Some("mma %r, {%b1, %b0};"));
    }

    #[test]
    fn rewriting_keeps_the_operands() {
        let negate = Change::Rewrite("neg.f32 %m, {1}; {opcode} {0}, %m;");
        assert_changed(
            negate,
            "ex2.approx.f32 %r1, %r2;",
            Some("{ .reg .b32 %m; neg.f32 %m, %r2; ex2.approx.f32 %r1, %m; }"),
        );
    }

    #[test]
    fn a_change_that_changes_nothing_is_none() {
        assert_changed(Change::SwapOperands(1, 2), "max.f32 %r1, %r2, %r2;", None);
    }
}
