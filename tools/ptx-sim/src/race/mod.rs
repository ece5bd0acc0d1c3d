//! Data races, by happens-before.
//!
//! Two accesses to the same byte, at least one of them a write, race unless something orders them: program order of one
//! thread, or a chain of releases and acquires. Barriers, `bar.warp.sync` and strong accesses with fences release and
//! acquire; whether the accesses met in the schedule that was executed does not matter.
//!
//! An asynchronous copy is made by an agent of its own for each thread, and so are the reads of shared memory by bulk
//! copies and `wgmma`. It comes after what its thread did before issuing it, and what the thread does after waiting for it,
//! and whoever that releases, comes after the copy.
//!
//! A grid that may begin while the one before it runs waits for its end with `griddepcontrol.wait`: what nothing orders behind
//! such a wait may meet that grid.
//!
//! A mechanism that orders threads needs two calls: [`Races::release`] where a thread arrives, into a [`clock::Clock`] that the
//! mechanism keeps, and [`Races::acquire`] where a thread has waited.

mod access;
mod accesses;
mod agent;
mod announced;
mod clock;
mod cluster;
mod foreign;
mod grid;
mod known;
mod line;
mod pages;
mod shadow;
mod together;
mod unfinished;

pub(crate) use access::Access;
pub use accesses::GlobalAccess;
pub(crate) use accesses::Touched;
pub use agent::Engine;
pub(crate) use agent::{Agent, Scope, Semantics, Strength};
pub(crate) use cluster::{Arrival, Conflict, Races, Shape};
pub(crate) use foreign::{Announcements, Shard};
pub(crate) use grid::{ClusterAccess, ClusterConflict, GridRaces, Trace};
pub(crate) use together::WarpAccess;
pub use unfinished::Unfinished;
