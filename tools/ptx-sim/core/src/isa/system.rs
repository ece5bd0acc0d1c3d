//! Functions that modules only declare: those of the system that CUDA's device code calls (CUDA C++ Programming Guide,
//! "Formatted Output", "Assertion", "Dynamic Global Memory Allocation and Operations").

use super::passing::{Values, gather, scatter};
use crate::context::{Context, Faults, Flow, Place, without_addresses};
use crate::finding::{FindingClass, LaneAddress};
use crate::lanes::{lane_list, lanes};
use crate::memory::FreeError;
use crate::printf::{Arguments, print};
use crate::program::Call;

/// Maximum length of a string that is read.
const LONGEST_TEXT: u64 = 1 << 16;
/// Maximum output of a block.
const MOST_PRINTED: usize = 1 << 20;

/// A function of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// `vprintf(format, arguments)`.
    Print,
    /// `__assertfail(assertion, file, line, function, bytes of a character)`.
    AssertFail,
    /// `malloc(bytes)`.
    Allocate,
    /// `free(address)`.
    Free,
}

impl System {
    /// The function called `name`, with arguments and results of these sizes.
    pub fn of(name: &str, sizes: &[Vec<u64>; 2]) -> Option<System> {
        let (function, expected): (_, [&[u64]; 2]) = match name {
            "vprintf" => (System::Print, [&[8, 8], &[4]]),
            "__assertfail" => (System::AssertFail, [&[8, 8, 4, 8, 8], &[]]),
            "malloc" => (System::Allocate, [&[8], &[8]]),
            "free" => (System::Free, [&[8], &[]]),
            _ => return None,
        };
        (sizes.each_ref().map(Vec::as_slice) == expected).then_some(function)
    }

    /// Whether it allocates or frees memory of the device heap.
    pub fn uses_heap(self) -> bool {
        matches!(self, System::Allocate | System::Free)
    }

    /// Executes it in the active lanes.
    pub fn execute(self, context: &mut Context<'_>, call: &Call) -> Flow {
        let active = context.active;
        if self == System::AssertFail {
            let arguments = arguments(context, active.trailing_zeros() as usize, call);
            fail(context, &arguments);
            return Flow::Stop;
        }
        for lane in lanes(active) {
            let arguments = arguments(context, lane, call);
            let result = match self {
                System::Print => u64::from(print_in(context, lane, arguments[0], arguments[1])),
                System::Allocate => context.machine.memory.heap_allocate(arguments[0]),
                System::Free | System::AssertFail => {
                    free(context, lane, arguments[0]);
                    continue;
                }
            };
            let values = Values { data: result.to_le_bytes().to_vec(), ..Values::default() };
            let base = context.warp.local[lane].base();
            scatter(context.warp, lane, base, &call.results, &values);
        }
        Flow::Next
    }
}

/// The arguments of a lane; uninitialised ones are reported and count as 0.
fn arguments(context: &mut Context<'_>, lane: usize, call: &Call) -> Vec<u64> {
    let base = context.warp.local[lane].base();
    let values = call.arguments.iter().enumerate().map(|(index, passed)| {
        let values = gather(context, lane, base, &[*passed]);
        if !values.unknown.is_empty() {
            context.report(FindingClass::Uninitialised, without_addresses(1 << lane), || {
                format!("argument {} of the call was never written", index + 1)
            });
            return 0;
        }
        values.data.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    });
    values.collect()
}

/// The string at a generic address, up to the first zero byte.
fn text(context: &mut Context<'_>, faults: &mut Faults, lane: usize, address: u64) -> Vec<u8> {
    let mut text = Vec::new();
    for offset in 0..LONGEST_TEXT {
        let mut byte = [0];
        context.read(faults, Place::new(lane, None, address.wrapping_add(offset), 1), &mut byte);
        if byte[0] == 0 {
            break;
        }
        text.push(byte[0]);
    }
    text
}

/// The arguments of `vprintf`, each aligned to its size.
struct Packed<'c, 'm, 'f> {
    context: &'c mut Context<'m>,
    faults: &'f mut Faults,
    lane: usize,
    next: u64,
}

impl Arguments for Packed<'_, '_, '_> {
    fn number(&mut self, bytes: usize) -> u64 {
        let address = self.next.next_multiple_of(bytes as u64);
        self.next = address.wrapping_add(bytes as u64);
        let mut data = [0; 8];
        self.context.read(self.faults, Place::new(self.lane, None, address, bytes as u64), &mut data[..bytes]);
        u64::from_le_bytes(data)
    }

    fn text(&mut self) -> Vec<u8> {
        let address = self.number(8);
        text(self.context, self.faults, self.lane, address)
    }
}

/// Prints, and returns the number of arguments.
fn print_in(context: &mut Context<'_>, lane: usize, template: u64, arguments: u64) -> u32 {
    let mut faults = Faults::default();
    let template = text(context, &mut faults, lane, template);
    let mut packed = Packed { context, faults: &mut faults, lane, next: arguments };
    let (text, count) = print(&template, &mut packed);
    context.report_faults(faults);
    let room = MOST_PRINTED.saturating_sub(context.cluster.printed.len());
    context.cluster.printed.extend(text.into_iter().take(room));
    count
}

fn fail(context: &mut Context<'_>, arguments: &[u64]) {
    let [assertion, file, line, function, _] = *arguments else { return };
    let (active, lane) = (context.active, context.active.trailing_zeros() as usize);
    let mut faults = Faults::default();
    let [assertion, file, function] = [assertion, file, function]
        .map(|address| String::from_utf8_lossy(&text(context, &mut faults, lane, address)).into_owned());
    context.report_faults(faults);
    context.report(FindingClass::AssertionFailed, without_addresses(active), || {
        format!("`{assertion}` does not hold in {}: {file}:{line}, {function}", lane_list(active))
    });
}

fn free(context: &mut Context<'_>, lane: usize, address: u64) {
    if address == 0 {
        return;
    }
    let Err(error) = context.machine.memory.heap_free(address) else { return };
    let which = vec![LaneAddress { lane: lane as u32, address: Some(address) }];
    let place = context.machine.memory.describe(address, 1);
    context.report(FindingClass::HeapMisuse, which, || match error {
        FreeError::Freed => format!("free of {address:#x}, {place}: it was freed before"),
        FreeError::NoBlock => format!("free of {address:#x}, which malloc never gave: {place}"),
    });
}
