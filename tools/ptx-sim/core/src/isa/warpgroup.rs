//! Registers of a warpgroup (PTX ISA, "setmaxnreg").
//!
//! Checks that every warp of a warpgroup executes it, and that the block's registers suffice for what its warps last
//! requested. The register file itself is not modelled: the assembler decides how many registers a kernel starts with,
//! and PTX only bounds that number.

use crate::context::Context;
use crate::decode::{Decode, Form, invalid};

/// `setmaxnreg`.
pub(crate) struct SetMaximum {
    registers: u32,
}

/// Range of the register count of `setmaxnreg`.
const RANGE: std::ops::RangeInclusive<u64> = 24..=256;
/// The register count is a multiple of this.
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
