//! The local memory of a thread: one frame for the entry and one per active function call.

use crate::memory::{Bytes, OutOfBounds, State};
use crate::program::FrameLayout;
use crate::unknown::{Read, Unknown, UnknownBytes};

/// Minimum distance of frames: an address that leaves its frame hits no other.
const RED_ZONE: u64 = 32;
/// Alignment of frames.
const ALIGNMENT: u64 = 16;

/// The local memory of one call, and its return information.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Its first address.
    pub base: u64,
    /// Bytes accessible to loads and stores, from `base` on.
    reachable: u64,
    /// Its end.
    end: u64,
    /// The call; `None` for the entry.
    pub caller: Option<Caller>,
}

/// Return information of a call.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Number of the called function.
    pub function: usize,
    /// Index of the call in the program.
    pub call: u32,
    /// Index of the call instruction.
    pub pc: u32,
    /// Saved registers of a recursive function, with their undetermined bits.
    pub saved: Vec<(u64, Option<Unknown>)>,
}

/// The local memory of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    bytes: Bytes,
    frames: Vec<Frame>,
}

impl Stack {
    /// Starts a thread with the frame of its entry.
    pub fn start(&mut self, entry: FrameLayout) {
        self.frames.clear();
        self.push(entry, None);
    }

    /// The current frame.
    pub fn top(&self) -> Option<&Frame> {
        self.frames.last()
    }

    /// All frames, the entry's first.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Pushes an unwritten frame and returns its address.
    pub fn push(&mut self, layout: FrameLayout, caller: Option<Caller>) -> u64 {
        let free = self.frames.last().map_or(0, |frame| frame.end + RED_ZONE);
        let base = free.next_multiple_of(layout.alignment.max(ALIGNMENT));
        let (end, reachable) = (base + layout.bytes, layout.reachable());
        self.bytes.renew(base, layout.bytes as usize);
        self.frames.push(Frame { base, reachable, end, caller });
        base
    }

    /// Pops the current frame.
    pub fn pop(&mut self) -> Option<Frame> {
        self.frames.pop()
    }

    /// Extends the current frame and returns the address of the new bytes.
    pub fn allocate(&mut self, bytes: u64, alignment: u64) -> u64 {
        let Some(frame) = self.frames.last_mut() else { return 0 };
        let address = frame.end.next_multiple_of(alignment.max(1));
        frame.end = address + bytes;
        frame.reachable = frame.end - frame.base;
        self.bytes.renew(address, bytes as usize);
        address
    }

    /// The end of the current frame.
    pub fn end(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.end)
    }

    /// Shrinks the current frame to an earlier end; false if its end was never there.
    pub fn shrink(&mut self, end: u64) -> bool {
        match self.frames.last_mut() {
            Some(frame) if (frame.base..=frame.end).contains(&end) => {
                frame.end = end;
                frame.reachable = frame.reachable.min(end - frame.base);
                true
            }
            _ => false,
        }
    }

    /// Reads `data.len()` bytes of a frame.
    pub fn load(&self, address: u64, data: &mut [u8]) -> Result<State, OutOfBounds> {
        self.check(address, data.len())?;
        self.bytes.load(address, data)
    }

    /// Writes `data` to a frame.
    pub fn store(&mut self, address: u64, data: &[u8]) -> Result<bool, OutOfBounds> {
        self.check(address, data.len())?;
        self.bytes.store(address, data)
    }

    /// The address of the current frame.
    pub fn base(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.base)
    }

    /// The undetermined bits of bytes just read.
    pub fn unknown(&self, read: Read, data: &mut [u8]) -> UnknownBytes {
        self.bytes.unknown(read, data)
    }

    /// Sets the undetermined bits of bytes just written.
    pub fn set_unknown(&mut self, address: u64, unknown: &UnknownBytes) {
        self.bytes.set_unknown(address, unknown);
    }

    /// Reads bytes passed by a call, with their undetermined bits.
    pub fn passed(&self, read: Read) -> (Vec<u8>, UnknownBytes) {
        let mut data = vec![0; read.bytes as usize];
        let unknown = match self.bytes.load(read.address, &mut data) {
            Ok(state) if state.uninitialised => self.bytes.unknown(read, &mut data),
            _ => UnknownBytes::default(),
        };
        (data, unknown)
    }

    /// Writes bytes passed by a call, with their undetermined bits.
    pub fn pass(&mut self, address: u64, data: &[u8], unknown: &UnknownBytes) {
        if self.bytes.store(address, data).is_ok() && !unknown.is_empty() {
            self.bytes.set_unknown(address, unknown);
        }
    }

    fn check(&self, address: u64, bytes: usize) -> Result<(), OutOfBounds> {
        let after = self.frames.partition_point(|frame| frame.base <= address);
        let Some(frame) = after.checked_sub(1).map(|index| &self.frames[index]) else { return Ok(()) };
        let (size, offset) = (frame.reachable, address - frame.base);
        if offset.checked_add(bytes as u64).is_some_and(|end| end <= size) {
            return Ok(());
        }
        if address >= frame.end + RED_ZONE && self.bytes.contains(address, 1) {
            return Err(OutOfBounds("where a function had local variables that has returned".to_owned()));
        }
        match offset.checked_add(bytes as u64) {
            _ if size == 0 => Err(OutOfBounds("where no local variable lies".to_owned())),
            Some(end) if offset < size => {
                Err(OutOfBounds(format!("the last {} bytes are past the end of its {size} bytes", end - size)))
            }
            _ => Err(OutOfBounds(format!("{} bytes past the end of its {size} bytes", offset - size))),
        }
    }
}
