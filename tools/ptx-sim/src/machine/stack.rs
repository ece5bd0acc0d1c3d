//! The local memory of a thread: a frame for the entry and for each function that runs.

use crate::memory::{Bytes, OutOfBounds, State};
use crate::program::FrameLayout;
use crate::unknown::{Read, Unknown, UnknownBytes};

/// Least distance of frames: an address that leaves its frame meets no other.
const RED_ZONE: u64 = 32;
/// Frames are at multiples of this.
const ALIGNMENT: u64 = 16;

/// The local memory of one call, and what it goes back to.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Its first address.
    pub base: u64,
    /// The end of what loads and stores reach, from `base` on.
    reachable: u64,
    /// Its end.
    end: u64,
    /// The call, but for the entry.
    pub caller: Option<Caller>,
}

/// What a function goes back to.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Number of the function that was called.
    pub function: usize,
    /// Index of the call in the program.
    pub call: u32,
    /// Index of the instruction that calls.
    pub pc: u32,
    /// What the registers of the function held, where it may have been running, and what was not known of that.
    pub saved: Vec<(u64, Option<Unknown>)>,
}

/// The local memory of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    bytes: Bytes,
    frames: Vec<Frame>,
}

impl Stack {
    /// Begins a thread whose entry has that frame.
    pub fn start(&mut self, entry: FrameLayout) {
        self.frames.clear();
        self.push(entry, None);
    }

    /// The frame that runs.
    pub fn top(&self) -> Option<&Frame> {
        self.frames.last()
    }

    /// All frames, that of the entry first.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Adds a frame of which nothing is written; its first address.
    pub fn push(&mut self, layout: FrameLayout, caller: Option<Caller>) -> u64 {
        let free = self.frames.last().map_or(0, |frame| frame.end + RED_ZONE);
        let base = free.next_multiple_of(layout.alignment.max(ALIGNMENT));
        let (end, reachable) = (base + layout.bytes, layout.reachable());
        self.bytes.renew(base, layout.bytes as usize);
        self.frames.push(Frame { base, reachable, end, caller });
        base
    }

    /// Takes the frame that runs away.
    pub fn pop(&mut self) -> Option<Frame> {
        self.frames.pop()
    }

    /// Makes the frame that runs larger; the address of the new bytes.
    pub fn allocate(&mut self, bytes: u64, alignment: u64) -> u64 {
        let Some(frame) = self.frames.last_mut() else { return 0 };
        let address = frame.end.next_multiple_of(alignment.max(1));
        frame.end = address + bytes;
        frame.reachable = frame.end - frame.base;
        self.bytes.renew(address, bytes as usize);
        address
    }

    /// The end of the frame that runs.
    pub fn end(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.end)
    }

    /// Takes away what was added to the frame that runs since its end was there; false when it never was.
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

    /// Reads `data.len()` bytes of one frame.
    pub fn load(&self, address: u64, data: &mut [u8]) -> Result<State, OutOfBounds> {
        self.check(address, data.len())?;
        self.bytes.load(address, data)
    }

    /// Writes `data` to one frame.
    pub fn store(&mut self, address: u64, data: &[u8]) -> Result<bool, OutOfBounds> {
        self.check(address, data.len())?;
        self.bytes.store(address, data)
    }

    /// The first address of the frame that runs.
    pub fn base(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.base)
    }

    /// What is not known of bytes that were read just now.
    pub fn unknown(&self, read: Read, data: &mut [u8]) -> UnknownBytes {
        self.bytes.unknown(read, data)
    }

    /// Says what is not known of bytes that were written just now.
    pub fn set_unknown(&mut self, address: u64, unknown: &UnknownBytes) {
        self.bytes.set_unknown(address, unknown);
    }

    /// The bytes of a read of something that a call passes, and what is not known of them.
    pub fn passed(&self, read: Read) -> (Vec<u8>, UnknownBytes) {
        let mut data = vec![0; read.bytes as usize];
        let unknown = match self.bytes.load(read.address, &mut data) {
            Ok(state) if state.uninitialised => self.bytes.unknown(read, &mut data),
            _ => UnknownBytes::default(),
        };
        (data, unknown)
    }

    /// Writes bytes that a call passes, of which some are not known.
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
