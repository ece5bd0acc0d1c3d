//! Operands of 128 bits, which two registers hold.

use crate::decode::{Decode, Form};
use crate::parse::{Operand, Type};
use crate::program::{Destination, Slot};

/// Takes a 128-bit register, or two of 64 bits, to write.
pub(super) fn destinations(form: &mut Form<'_>, operand: &Operand) -> Decode<[Destination; 2]> {
    match operand {
        Operand::Vector(halves) if halves.len() == 2 => {
            Ok([form.destination_of(&halves[0], Type::B64, false)?, form.destination_of(&halves[1], Type::B64, false)?])
        }
        operand => {
            let low = form.destination_of(operand, Type::B128, false)?;
            Ok([low, Destination { slot: low.slot + 1, ..low }])
        }
    }
}

/// Takes a 128-bit register, or two of 64 bits, to read.
pub(super) fn sources(form: &mut Form<'_>, operand: &Operand) -> Decode<[Slot; 2]> {
    match operand {
        Operand::Vector(halves) if halves.len() == 2 => {
            Ok([form.source_of(&halves[0], Type::B64, false)?, form.source_of(&halves[1], Type::B64, false)?])
        }
        Operand::Name(_) => {
            let low = form.source_of(operand, Type::B128, false)?;
            Ok([low, low + 1])
        }
        _ => form.refuse(),
    }
}
