//! A decoded entry: its registers and variables, and what is known about each of its instructions. What an instruction does is
//! in `isa`.

mod function;
mod instruction;
mod layout;
mod operand;
mod reach;
mod special;

pub(crate) use function::{Call, Callee, FrameLayout, Function, Passed, function_at};
pub(crate) use instruction::{Class, Collective, Instruction, Program};
pub(crate) use layout::Layout;
pub use layout::ModuleVariable;
pub(crate) use operand::{Address, Destination, Guard, Initial, Slot};
pub(crate) use reach::Reach;
pub(crate) use special::Special;
