//! Branches and the end of threads (PTX ISA, "Control Flow Instructions", "trap", "pmevent", "nanosleep",
//! "griddepcontrol").

use crate::context::{Context, Flow, without_addresses};
use crate::decode::{Decode, Form};
use crate::finding::FindingClass;
use crate::lanes::{lane_list, lanes};
use crate::parse::Type;
use crate::program::Slot;

/// Addition to the message of a trap in a kernel that waits for the whole grid, if the launch is not cooperative.
const WITHOUT_GRID_WORKSPACE: &str = "; the kernel waits for the whole grid (this_grid().sync()), which needs a cooperative launch \
                                      (cudaLaunchCooperativeKernel), and this launch is not cooperative";

/// A decoded control instruction.
pub(crate) enum Operation {
    /// `bra`, `bra.uni`.
    Branch { target: u32, uniform: bool },
    /// `brx.idx`: to the target whose index is in the register. Lanes take one target after another.
    Indexed { index: Slot, targets: Vec<u32> },
    /// `exit`, and `ret` of an entry.
    Exit,
    /// `trap`, and `brkpt`, which ends a kernel without a debugger.
    Trap,
    /// `griddepcontrol.wait`.
    WaitForPreviousGrid,
    /// `griddepcontrol.launch_dependents`.
    LaunchDependents,
    /// `nanosleep`, `pmevent`: no effect.
    Nothing,
}

/// Decodes a control instruction; `None` when the opcode is none.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    let operation = match form.opcode() {
        "bra" => Operation::Branch { uniform: form.flag("uni"), target: form.label()? },
        "brx" => {
            form.flag("uni");
            if !form.flag("idx") {
                return form.refuse();
            }
            Operation::Indexed { index: form.source(Type::U32)?, targets: form.branch_targets()? }
        }
        "exit" => Operation::Exit,
        "ret" => {
            form.flag("uni");
            Operation::Exit
        }
        "trap" | "brkpt" => Operation::Trap,
        "griddepcontrol" => match form.choice(&[("launch_dependents", false), ("wait", true)]) {
            Some(true) => Operation::WaitForPreviousGrid,
            Some(false) => Operation::LaunchDependents,
            None => return form.refuse(),
        },
        "pmevent" => {
            form.flag("mask");
            form.literal()?;
            Operation::Nothing
        }
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
                Flow::Branch { lanes: active, target: *target, again: 0 }
            }
            Operation::Indexed { index, targets } => indexed_branch(context, *index, targets),
            Operation::Exit => Flow::Exit { lanes: context.active },
            Operation::Trap => {
                let (active, name) = (context.active, &context.instruction.name);
                let machine = context.machine;
                let lacks_grid = machine.grid_workspace.is_none() && machine.program.asks_for_grid_workspace();
                context.report(FindingClass::Trap, without_addresses(active), || {
                    let cause = if lacks_grid { WITHOUT_GRID_WORKSPACE } else { "" };
                    format!("{} executed {name}{cause}", lane_list(active))
                });
                Flow::Stop
            }
            Operation::WaitForPreviousGrid => {
                if let Some(races) = &mut context.cluster.races {
                    races.wait_for_previous_grid(context.warp.index, context.active);
                }
                Flow::Next
            }
            Operation::LaunchDependents => {
                if let Some(races) = &mut context.cluster.races {
                    races.launch_dependents();
                }
                Flow::Next
            }
            Operation::Nothing => Flow::Next,
        }
    }
}

/// Sends the lanes with the same index as the first to their target; the others repeat the branch.
fn indexed_branch(context: &mut Context<'_>, index: Slot, targets: &[u32]) -> Flow {
    context.require(&[index]);
    let active = context.active;
    let value = context.value(index, active.trailing_zeros() as usize);
    let same = lanes(active).filter(|lane| context.value(index, *lane) == value);
    let same = same.fold(0, |mask, lane| mask | 1 << lane);
    let Some(target) = targets.get(value as usize) else {
        context.report(FindingClass::InvalidOperand, without_addresses(same), || {
            format!("branch target {value} of a list of {}", targets.len())
        });
        return Flow::Stop;
    };
    Flow::Branch { lanes: same, target: *target, again: active & !same }
}
