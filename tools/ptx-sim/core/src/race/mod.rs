//! Data race detection by happens-before.
//!
//! Two accesses to the same byte race if at least one is a write and nothing orders them: neither program order of one
//! thread nor a chain of releases and acquires. Barriers, `bar.warp.sync` and strong accesses with fences release and
//! acquire. Whether the accesses coincide in the executed schedule does not matter.
//!
//! Asynchronous copies are made by an agent of their own per thread, and so are the shared memory reads of bulk copies
//! and `wgmma`, and the writes of bulk copies to global memory. Such an access is ordered after what its thread did
//! before issuing it. What the thread does after waiting for it, and what that releases, is ordered after the access.
//!
//! A grid that may begin while the previous one runs waits for its end with `griddepcontrol.wait`: accesses not ordered
//! after such a wait may race with that grid.
//!
//! A synchronisation mechanism needs two calls: [`Races::release`] when a thread arrives, into a [`clock::Clock`] kept
//! by the mechanism, and [`Races::acquire`] when a thread has waited.

mod access;
mod accesses;
mod agent;
mod announced;
mod announcements;
mod clock;
mod clocks;
mod cluster;
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
pub(crate) use announcements::{Announcements, Shard};
pub(crate) use cluster::{Arrival, Conflict, EarlierRead, Races, Shape};
pub(crate) use grid::{ClusterAccess, ClusterConflict, GridRaces, Trace};
pub(crate) use shadow::Kind;
pub(crate) use together::WarpAccess;
pub use unfinished::Unfinished;
