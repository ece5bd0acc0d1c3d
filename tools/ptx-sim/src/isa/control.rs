//! Branches and the end of threads (PTX ISA, "Control Flow Instructions", "trap", "nanosleep").

use crate::decode::{Decode, Form};
use crate::exec::{Context, Flow};
use crate::exec::{lane_list, without_addresses};
use crate::finding::FindingClass;
use crate::parse::Type;

/// A decoded control instruction.
pub(crate) enum Operation {
    /// `bra`, `bra.uni`.
    Branch { target: u32, uniform: bool },
    /// `exit`, and `ret` of an entry.
    Exit,
    /// `trap`.
    Trap,
    /// `nanosleep`, `pmevent`: nothing to do.
    Nothing,
}

/// Decodes a control instruction; `None` when the opcode is none.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    let operation = match form.opcode() {
        "bra" => Operation::Branch { uniform: form.flag("uni"), target: form.label()? },
        "exit" => Operation::Exit,
        "ret" => {
            form.flag("uni");
            Operation::Exit
        }
        "trap" => Operation::Trap,
        "nanosleep" => {
            form.kind()?;
            form.source(Type::U32)?;
            Operation::Nothing
        }
        _ => return Ok(None),
    };
    Ok(Some(operation))
}

impl Operation {
    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) -> Flow {
        match self {
            Operation::Branch { target, uniform } => {
                let active = context.active;
                let staying = if *uniform { context.here & !active } else { 0 };
                if staying != 0 {
                    context.report(FindingClass::InvalidOperand, without_addresses(staying), || {
                        format!("bra.uni must be taken by all lanes or none: {} do not take it", lane_list(staying))
                    });
                }
                Flow::Branch { lanes: active, target: *target }
            }
            Operation::Exit => Flow::Exit { lanes: context.active },
            Operation::Trap => {
                let active = context.active;
                context.report(FindingClass::Trap, without_addresses(active), || {
                    format!("{} executed trap", lane_list(active))
                });
                Flow::Stop
            }
            Operation::Nothing => Flow::Next,
        }
    }
}
