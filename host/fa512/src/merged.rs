//! Two texts in one: a line that both have stands once, that of the first alone behind `-`, that of the second behind `+`.

/// One of two merged texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first.
    First,
    /// The second.
    Second,
}

impl Side {
    /// What stands before the lines that only this text has.
    pub const fn sign(self) -> u8 {
        match self {
            Side::First => b'-',
            Side::Second => b'+',
        }
    }

    const fn other(self) -> Self {
        match self {
            Side::First => Side::Second,
            Side::Second => Side::First,
        }
    }
}

/// The text of `side`, for any bytes not longer than they are.
pub fn part(merged: &[u8], side: Side) -> Vec<u8> {
    // One byte more, for the NUL that the driver wants behind it.
    let mut text = Vec::with_capacity(merged.len() + 1);
    for line in merged.split_inclusive(|byte| *byte == b'\n') {
        match line.split_first() {
            Some((sign, line)) if *sign == side.sign() => text.extend_from_slice(line),
            Some((sign, _)) if *sign == side.other().sign() => {}
            _ => text.extend_from_slice(line),
        }
    }
    text
}
