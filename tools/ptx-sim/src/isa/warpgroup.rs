//! Registers of a warpgroup (PTX ISA, "setmaxnreg").
//!
//! What is checked is that every warp of a warpgroup executes it, and that the block has what its warps asked for last. The
//! register file itself is not modelled: how many registers a kernel starts with is decided by the assembler, and PTX says
//! only how many it may be.

use crate::context::Context;
use crate::decode::{Decode, Form, invalid};

/// `setmaxnreg`.
pub(crate) struct SetMaximum {
    registers: u32,
}

/// Fewest and most registers of a thread that `setmaxnreg` can ask for.
const RANGE: std::ops::RangeInclusive<u64> = 24..=256;
/// They come in multiples of this.
const MULTIPLE: u64 = 8;

/// Decodes `setmaxnreg`; `None` when the opcode is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<SetMaximum>> {
    if form.opcode() != "setmaxnreg" {
        return Ok(None);
    }
    let collective = form.flag("sync") && form.flag("aligned") && form.flag("u32");
    if form.choice(&[("inc", ()), ("dec", ())]).is_none() || !collective {
        return form.refuse();
    }
    let registers = form.literal()?;
    if !RANGE.contains(&registers) || !registers.is_multiple_of(MULTIPLE) {
        return invalid(format!(
            "`{}` of {registers} registers; it must be a multiple of {MULTIPLE} from {} to {}",
            form.name(),
            RANGE.start(),
            RANGE.end()
        ));
    }
    Ok(Some(SetMaximum { registers: registers as u32 }))
}

impl SetMaximum {
    /// Executes it.
    pub fn execute(&self, context: &mut Context<'_>) {
        context.cluster.warpgroups.executed(context.pc, context.warp.name());
        context.cluster.warpgroups.set_registers(context.pc, context.warp.name(), self.registers);
    }
}
