//! Operations of streams and graphs.

use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, Result};
use crate::memory::{Moved, grouped};
use crate::objects::{Call, Context, Copy, Fill, Life, Operation, Place, Recorded};
use crate::order::{Clock, Line};
use crate::problem::Problem;
use crate::stream_races::{Access, By, Touched};

/// Bytes copied at a time.
const CHUNK: u64 = 1 << 20;

impl Operation {
    /// Checks the operation before it is executed.
    pub(crate) fn check(&self, context: &Context) -> Result<()> {
        match self {
            Operation::Launch(launch) => launch.check(),
            Operation::Copy(copy) => copy.check(context),
            Operation::Fill(fill) => fill.check(context),
            _ => Ok(()),
        }
    }

    /// Executes it for a stream of `context`. Does nothing after a kernel has left an error.
    pub(crate) fn execute(&self, context: &Context, during: &mut During) -> Result<()> {
        if context.state(Call::Asynchronous)?.has_fault() {
            return Ok(());
        }
        if !matches!(self, Operation::Launch(_) | Operation::Graph(_)) {
            context.machine().dependents.end(during.line);
        }
        match self {
            Operation::Launch(launch) => launch.function.context().execute(launch, during),
            Operation::Copy(copy) => {
                copy.execute(context)?;
                during.add(context, || copy.describe(context), || copy.accesses());
                Ok(())
            }
            Operation::Fill(fill) => {
                fill.execute(context)?;
                during.add(context, || fill.describe(context), || fill.accesses());
                Ok(())
            }
            Operation::Record(event) => {
                event.record(Recorded::At(Instant::now(), during.clock.clone()));
                Ok(())
            }
            Operation::Call(function) => {
                function();
                Ok(())
            }
            Operation::Graph(graph) => graph.execute(context, during),
            Operation::Life(life) => {
                let Life { address, bytes, ends } = *life;
                let effect = if ends { "frees" } else { "allocates" };
                let access = Access { by: By::Life(effect), ..Access::plain(address, bytes, true) };
                let name = || {
                    let what = if ends { "the call that frees" } else { "the allocation of" };
                    format!("{what} {} bytes{}", grouped(bytes), context.machine().caller(""))
                };
                during.add(context, name, || vec![access]);
                Ok(())
            }
            Operation::Empty => Ok(()),
        }
    }
}

/// State of the work in progress.
pub(crate) struct During {
    /// Everything that happened before its end.
    pub clock: Clock,
    /// Its memory accesses.
    pub touched: Touched,
    /// The stream that executes it.
    pub line: Line,
}

impl During {
    /// Adds a copy, fill or launch, if stream races are detected.
    pub fn add(&mut self, context: &Context, name: impl FnOnce() -> String, accesses: impl FnOnce() -> Vec<Access>) {
        if context.machine().config().options.races {
            self.touched.add(name(), accesses());
        }
    }
}

/// The context through which work of `context` accesses `address`.
fn owner(context: &Context, address: u64, what: &str) -> Result<Arc<Context>> {
    context.machine().reached_through(address, context).ok_or_else(|| match address {
        0 => Error::invalid(format!("{what} a null pointer")).of(Problem::NullPointer),
        _ => Error::invalid(format!("{what} {address:#x}, which is no device memory")).of(Problem::HostPointer),
    })
}

impl Copy {
    /// Its description in messages.
    fn describe(&self, context: &Context) -> String {
        format!("a copy of {} bytes{}", grouped(self.bytes), context.machine().caller(""))
    }

    fn accesses(&self) -> Vec<Access> {
        let ends = [(&self.source, false), (&self.destination, true)];
        let reached = ends.into_iter().filter_map(|(place, writes)| match place {
            _ if self.bytes == 0 => None,
            // Kernels may access it too.
            Place::Host(memory) if memory.is_page_locked() => Some(Access::plain(memory.address(), self.bytes, writes)),
            Place::Host(_) => None,
            Place::Device(_) | Place::Array(..) => place.address().ok().map(|at| Access::plain(at, self.bytes, writes)),
        });
        reached.collect()
    }

    /// Whether the call returns only when the copy is complete: a copy to host memory that is not page-locked.
    pub(crate) fn is_waited_for(&self) -> bool {
        matches!(&self.destination, Place::Host(memory) if !memory.is_page_locked())
    }

    /// Requires both ends to lie in live allocations.
    pub fn check(&self, context: &Context) -> Result<()> {
        for (place, what) in [(&self.destination, "a copy to"), (&self.source, "a copy from")] {
            if self.bytes == 0 {
                continue;
            }
            if let Place::Array(array, _) = place {
                array.check_live()?;
            }
            if let Place::Device(address) = place {
                let owner = owner(context, *address, what)?;
                owner.check_range(*address, self.bytes).map_err(|error| prefixed(error, what, &owner, context))?;
            }
        }
        Ok(())
    }

    fn execute(&self, context: &Context) -> Result<()> {
        self.check(context)?;
        let (mut unwritten, mut is_told) = (Unwritten::default(), false);
        for offset in (0..self.bytes).step_by(CHUNK as usize) {
            let bytes = CHUNK.min(self.bytes - offset);
            let Moved { parts, undetermined } = match &self.source {
                Place::Device(_) | Place::Array(..) => {
                    let address = self.source.address()?;
                    let owner = owner(context, address, "a copy from")?;
                    owner.state(Call::Asynchronous)?.memory.written(address + offset, bytes)?
                }
                Place::Host(memory) => {
                    let mut data = vec![0; bytes as usize];
                    memory.read(offset, &mut data);
                    Moved::of(data)
                }
            };
            match &self.destination {
                Place::Device(_) | Place::Array(..) => {
                    let address = self.destination.address()?;
                    let owner = owner(context, address, "a copy to")?;
                    let mut state = owner.state(Call::Asynchronous)?;
                    state.memory.put(address + offset, bytes, Moved { parts, undetermined })?;
                }
                Place::Host(memory) => {
                    // Unwritten bytes arrive as zeros.
                    let mut data = vec![0; bytes as usize];
                    parts
                        .iter()
                        .for_each(|(at, part)| data[*at as usize..*at as usize + part.len()].copy_from_slice(part));
                    memory.write(offset, &data);
                    unwritten.add(offset, bytes, &parts);
                    is_told |= !undetermined.is_empty();
                }
            }
        }
        if let Some(first) = unwritten.first {
            let address = self.source.address()?;
            let owner = owner(context, address, "a copy from")?;
            if is_told {
                return owner.tell_copied(address, self.bytes, &self.describe(context));
            }
            owner.tell_unwritten(address, self.bytes, first, unwritten.count);
        }
        Ok(())
    }
}

impl Place {
    /// The first address in device memory.
    fn address(&self) -> Result<u64> {
        match self {
            Place::Device(address) => Ok(*address),
            Place::Array(array, offset) => array.address(*offset, Call::Asynchronous),
            Place::Host(_) => Err(Error::invalid("memory of the host")),
        }
    }
}

/// The never-written bytes of a copy.
#[derive(Default)]
struct Unwritten {
    first: Option<u64>,
    count: u64,
}

impl Unwritten {
    /// Adds the unwritten ones of the `bytes` bytes at `offset`, of which `parts` were written.
    fn add(&mut self, offset: u64, bytes: u64, parts: &[(u64, Vec<u8>)]) {
        let mut end = 0;
        for (at, part) in parts {
            if *at > end {
                self.first.get_or_insert(offset + end);
            }
            end = at + part.len() as u64;
        }
        if end < bytes {
            self.first.get_or_insert(offset + end);
        }
        self.count += bytes - parts.iter().map(|(_, part)| part.len() as u64).sum::<u64>();
    }
}

impl Fill {
    /// Its description in messages.
    fn describe(&self, context: &Context) -> String {
        let bytes = self.row_bytes().saturating_mul(self.height);
        format!("a fill of {} bytes{}", grouped(bytes), context.machine().caller(""))
    }

    fn accesses(&self) -> Vec<Access> {
        let row = self.row_bytes();
        let rows = if row == 0 { 0 } else { self.height };
        (0..rows).map(|line| Access::plain(self.address + line * self.pitch, row, true)).collect()
    }

    fn row_bytes(&self) -> u64 {
        self.width.saturating_mul(self.value.len() as u64)
    }

    /// Requires every row to lie in an allocation, and the address to be aligned to the size of the value.
    pub fn check(&self, context: &Context) -> Result<()> {
        let what = "a fill of";
        let (row, size) = (self.row_bytes(), self.value.len() as u64);
        if row == 0 || self.height == 0 {
            return Ok(());
        }
        if !self.address.is_multiple_of(size) || (self.height > 1 && !self.pitch.is_multiple_of(size)) {
            return Err(Error::invalid(format!(
                "{what} {size}-byte values at {:#x}, which is not a multiple of {size}",
                self.address
            )));
        }
        if self.height > 1 && self.pitch < row {
            return Err(Error::invalid(format!("{what} rows of {row} bytes that lie {} bytes apart", self.pitch)));
        }
        let bytes = (self.height - 1).saturating_mul(self.pitch).saturating_add(row);
        let owner = owner(context, self.address, what)?;
        owner.check_range(self.address, bytes).map_err(|error| prefixed(error, what, &owner, context))
    }

    fn execute(&self, context: &Context) -> Result<()> {
        self.check(context)?;
        let row = self.row_bytes();
        let values = (CHUNK / self.value.len() as u64).min(self.width.max(1)) as usize;
        let chunk = self.value.repeat(values);
        for line in 0..self.height {
            for offset in (0..row).step_by(chunk.len()) {
                let address = self.address + line * self.pitch + offset;
                let data = &chunk[..(row - offset).min(chunk.len() as u64) as usize];
                owner(context, address, "a fill of")?.state(Call::Asynchronous)?.memory.write(address, data)?;
            }
        }
        Ok(())
    }
}

/// Adds the attempted operation to `error`, and the owner of the memory if it is another context's.
fn prefixed(error: Error, what: &str, owner: &Context, context: &Context) -> Error {
    let whose = if owner.id() == context.id() { String::new() } else { format!(", of {}", owner.describe()) };
    match error.message {
        Some(message) => Error { message: Some(format!("{what} {message}{whose}")), ..error },
        None => error,
    }
}
