//! The effects of an instruction on the machine, with every check. [`Context`] is what an instruction sees; the other
//! files implement its operations.

mod access;
mod asynchronous;
mod checks;
mod faults;
mod left;
mod mbarrier;
mod neighbour;
mod place;
mod races;
mod shared_loads;
mod together;
mod traffic;
mod unknown;
mod view;
mod wgmma;

pub(crate) use faults::Faults;
pub(crate) use left::Left;
pub(crate) use neighbour::ENDS_TOO_EARLY;
pub(crate) use place::Place;
pub(crate) use races::{EXCUSE, VOLATILE};
pub(crate) use traffic::{Direction, Traffic};
pub(crate) use view::{Context, Flow, without_addresses};
