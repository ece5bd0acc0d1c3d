//! Decoded entries: registers, variables, and static properties of each instruction. The effects of instructions are in
//! `isa`.

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
