//! The calls that a lane is in.

use super::grid::Machine;
use super::stack::{Caller, Stack};
use super::warp::Warp;
use crate::finding::CallSite;

/// Calls of a finding at most: a recursion may be deep.
const CALLS_SHOWN: usize = 16;

impl Machine<'_> {
    /// The calls that a lane of a warp is in, innermost first.
    pub fn calls(&self, warp: &Warp, lane: usize) -> Vec<CallSite> {
        let frames = warp.local.get(lane).map_or(&[][..], Stack::frames);
        let callers = frames.iter().rev().filter_map(|frame| frame.caller.as_ref()).take(CALLS_SHOWN);
        let site = |caller: &Caller| {
            let instruction = &self.program.instructions[caller.pc as usize];
            let function = self.program.functions[caller.function].as_ref();
            let (source, inlined_at) = self.module.source(instruction.location);
            CallSite {
                function: function.map_or(String::new(), |function| function.name.clone()),
                ptx_line: instruction.line,
                source,
                inlined_at,
            }
        };
        callers.map(site).collect()
    }
}
