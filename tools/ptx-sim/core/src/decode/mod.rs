//! Syntax to operands of instructions: names, modifiers, and what nobody took. What is not known is refused by name and line,
//! never guessed.

mod calls;
mod form;
mod names;
mod refusal;
mod signatures;

pub(crate) use form::Form;
pub(crate) use names::Decoder;
pub(crate) use refusal::{Decode, Refusal, invalid, unsupported};
pub(crate) use signatures::Signatures;
