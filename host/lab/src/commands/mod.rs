//! The program's commands, one file each.

pub mod entries;
pub mod map;
pub mod plot;
pub mod report;
pub mod tune;
