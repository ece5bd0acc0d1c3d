//! The mbarriers in the shared memory of a block (PTX ISA, "mbarrier").

use std::collections::{BTreeMap, HashSet};

use super::proxies::OrdinaryWrite;
use crate::unknown::UnknownBytes;

/// Bytes of an mbarrier, and its alignment.
pub(crate) const MBARRIER_BYTES: u64 = 8;
/// Largest count of arrivals, and largest magnitude of the bytes a phase waits for.
pub(crate) const LARGEST_COUNT: u64 = (1 << 20) - 1;
/// Bits of a state that hold the pending count; the phase is above them.
const PENDING_BITS: u32 = 20;

/// What the state returned by an arrival says of a phase. Kernels cannot look into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhaseState(pub u64);

impl PhaseState {
    /// Arrivals that were pending before the arrival.
    pub fn pending(self) -> u64 {
        self.0 & LARGEST_COUNT
    }

    /// The phase it belongs to.
    fn phase(self) -> u64 {
        self.0 >> PENDING_BITS
    }
}

/// An mbarrier.
#[derive(Debug)]
pub(crate) struct Mbarrier {
    /// Arrivals each phase waits for.
    pub expected: u64,
    /// Arrivals the current phase still waits for.
    pub pending: u64,
    /// Bytes of copies the current phase still waits for; negative when copies completed before they were expected.
    pub bytes: i64,
    /// Phases that completed.
    pub phase: u64,
    landings: Vec<Landing>,
    /// How it was initialised, while no fence lets the async proxy see it.
    initialised: Option<OrdinaryWrite>,
}

/// What an asynchronous copy wrote. Nobody may touch the bytes before the phase it belongs to was waited for.
#[derive(Debug)]
pub(crate) struct Landing {
    /// The phase of the mbarrier during which it completed.
    pub phase: u64,
    /// Index of the instruction.
    pub pc: u32,
    /// The warp and lane that issued it.
    pub warp: u32,
    pub lane: u32,
    /// Shared address.
    pub address: u64,
    pub data: Vec<u8>,
    /// What is not known of the data.
    pub unknown: UnknownBytes,
    /// Set for a `cp.async`, which its thread may wait for as well.
    pub tracked: Option<u64>,
}

/// What a wait waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The end of the phase that an arrival returned.
    State(PhaseState),
    /// The end of the current or preceding phase of a parity.
    Parity(u64),
}

/// The mbarriers of a block, by address.
#[derive(Debug, Default)]
pub(crate) struct Mbarriers {
    all: BTreeMap<u64, Mbarrier>,
    /// Number of operations so far that may have released a waiting warp.
    activity: u64,
    /// Pending copies of `cp.async` for which both their thread and an mbarrier wait.
    tracked: HashSet<u64>,
    next_tracked: u64,
    /// Completed phases of all mbarriers, including invalidated ones.
    pub completed: u64,
    /// The progress that [`Mbarriers::is_stuck`] saw last, and how often in a row.
    stalled: ([u64; 4], u32),
}

/// Why an operation on an mbarrier is wrong.
pub(crate) type Misuse = String;

impl Mbarriers {
    /// Clears everything.
    pub fn clear(&mut self) {
        *self = Mbarriers::default();
    }

    /// The mbarrier that the bytes overlap.
    pub fn overlapping(&self, address: u64, bytes: usize) -> Option<u64> {
        if self.all.is_empty() {
            return None;
        }
        let from = address.saturating_sub(MBARRIER_BYTES - 1);
        self.all.range(from..address.saturating_add(bytes as u64)).next().map(|(found, _)| *found)
    }

    /// Initialises an mbarrier that expects `count` arrivals; `write` says by which warp and when.
    pub fn init(&mut self, address: u64, count: u64, write: OrdinaryWrite) -> Result<(), Misuse> {
        let overlapped = self.overlapping(address, MBARRIER_BYTES as usize);
        if let Some(other) = overlapped {
            self.all.remove(&other);
        }
        let (landings, initialised) = (Vec::new(), Some(write));
        let new = Mbarrier { expected: count, pending: count, bytes: 0, phase: 0, landings, initialised };
        self.all.insert(address, new);
        self.activity += 1;
        if overlapped.is_some() {
            return Err("it is initialised a second time without mbarrier.inval".to_owned());
        }
        if !(1..=LARGEST_COUNT).contains(&count) {
            return Err(format!("it is initialised for {count} arrivals; 1 to {LARGEST_COUNT} are possible"));
        }
        Ok(())
    }

    /// A warp executes a fence that makes its mbarrier initialisations visible to the async proxy.
    pub fn fence(&mut self, warp: u32, epoch: u64) {
        for barrier in self.all.values_mut() {
            barrier.initialised = barrier.initialised.filter(|write| !write.is_covered_by(warp, epoch));
        }
    }

    /// Invalidates an mbarrier.
    pub fn invalidate(&mut self, address: u64) -> Result<(), Misuse> {
        self.activity += 1;
        self.all.remove(&address).map(drop).ok_or_else(missing)
    }

    /// The mbarrier at an address.
    pub fn get(&self, address: u64) -> Option<&Mbarrier> {
        self.all.get(&address)
    }

    fn get_mut(&mut self, address: u64) -> Result<&mut Mbarrier, Misuse> {
        self.activity += 1;
        self.all.get_mut(&address).ok_or_else(missing)
    }

    /// Performs `count` arrivals; with `drops`, later phases expect that many fewer. Returns the state before.
    pub fn arrive(&mut self, address: u64, count: u64, drops: bool) -> Result<PhaseState, Misuse> {
        let barrier = self.get_mut(address)?;
        let state = PhaseState(barrier.phase << PENDING_BITS | barrier.pending);
        if count == 0 || count > LARGEST_COUNT {
            return Err(format!("{count} arrivals at once; 1 to {LARGEST_COUNT} are possible"));
        }
        if count > barrier.pending {
            return Err(format!(
                "{count} more arrivals in phase {}, which waits for {} of {} only",
                barrier.phase, barrier.pending, barrier.expected
            ));
        }
        barrier.pending -= count;
        if drops {
            barrier.expected = barrier.expected.saturating_sub(count);
        }
        self.completed += barrier.complete_if_done();
        Ok(state)
    }

    /// Adds `bytes` to the pending transaction count of the current phase.
    pub fn expect_bytes(&mut self, address: u64, bytes: u64) -> Result<(), Misuse> {
        self.completed += self.get_mut(address)?.add_bytes(i64::try_from(bytes).unwrap_or(i64::MAX))?;
        Ok(())
    }

    /// Subtracts `bytes` copied bytes from the transaction count of the current phase.
    pub fn complete_bytes(&mut self, address: u64, bytes: u64) -> Result<(), Misuse> {
        self.completed += self.get_mut(address)?.add_bytes(-i64::try_from(bytes).unwrap_or(i64::MAX))?;
        Ok(())
    }

    /// Adds the writes of a copy to the current phase.
    pub fn add_landing(&mut self, address: u64, landing: Landing) -> Result<(), Misuse> {
        let barrier = self.get_mut(address)?;
        barrier.landings.push(Landing { phase: barrier.phase, ..landing });
        Ok(())
    }

    /// An identifier for a copy for which its thread and an mbarrier wait.
    pub fn track(&mut self) -> u64 {
        self.next_tracked += 1;
        self.tracked.insert(self.next_tracked);
        self.next_tracked
    }

    /// Whether a copy completes now; false if it has completed already.
    pub fn lands(&mut self, tracked: Option<u64>) -> bool {
        tracked.is_none_or(|identity| self.tracked.remove(&identity))
    }

    /// Whether the phase of a wait is complete.
    pub fn is_over(&self, address: u64, wait: Wait) -> Result<bool, Misuse> {
        let barrier = self.all.get(&address).ok_or_else(missing)?;
        match wait {
            Wait::Parity(parity) if parity > 1 => Err(format!("a phase parity of {parity}; it is 0 or 1")),
            Wait::Parity(parity) => Ok(barrier.phase % 2 != parity),
            Wait::State(state) if state.phase() + 1 < barrier.phase || state.phase() > barrier.phase => Err(format!(
                "the state of phase {}, while phase {} is current; only this one and the one before can be waited for",
                state.phase(),
                barrier.phase
            )),
            Wait::State(state) => Ok(barrier.phase != state.phase()),
        }
    }

    /// Takes the writes of the copies of completed phases.
    pub fn take_landings(&mut self, address: u64) -> Vec<Landing> {
        let Some(barrier) = self.all.get_mut(&address) else { return Vec::new() };
        let phase = barrier.phase;
        barrier.landings.extract_if(.., |landing| landing.phase < phase).collect()
    }

    /// Invalidates all mbarriers; pending copies complete, each with the address of its mbarrier.
    pub fn take_unobserved(&mut self) -> Vec<(u64, Landing)> {
        let all = std::mem::take(&mut self.all).into_iter();
        let mut landings: Vec<(u64, Landing)> = all
            .flat_map(|(address, barrier)| barrier.landings.into_iter().map(move |landing| (address, landing)))
            .collect();
        landings.retain(|(_, landing)| self.lands(landing.tracked));
        landings
    }

    /// Whether time-outs of waits were tried often without any progress, neither here nor in the `others`, the block's
    /// other state.
    pub fn is_stuck(&mut self, others: [u64; 3]) -> bool {
        /// A loop may wait for several mbarriers alternately.
        const ROUNDS: u32 = 16;
        let [phases, arrived, exited] = others;
        let seen = [self.activity, phases, arrived, exited];
        let (last, rounds) = self.stalled;
        let rounds = if last == seen { rounds + 1 } else { 0 };
        self.stalled = (seen, rounds);
        rounds >= ROUNDS
    }
}

fn missing() -> Misuse {
    "there is no mbarrier: it was not initialised, or invalidated".to_owned()
}

impl Mbarrier {
    /// The warp that initialised it, if the initialisation may be invisible to the async proxy.
    pub fn unfenced(&self) -> Option<u32> {
        self.initialised.map(|write| write.warp)
    }

    /// Changes the pending counts of the phase; returns the number of phases completed.
    fn add_bytes(&mut self, bytes: i64) -> Result<u64, Misuse> {
        let sum = self.bytes.saturating_add(bytes);
        if sum.unsigned_abs() > LARGEST_COUNT {
            return Err(format!(
                "phase {} would wait for {sum} bytes; at most {LARGEST_COUNT} are possible",
                self.phase
            ));
        }
        self.bytes = sum;
        Ok(self.complete_if_done())
    }

    /// Number of phases completed: 0 or 1.
    fn complete_if_done(&mut self) -> u64 {
        let is_done = self.pending == 0 && self.bytes == 0;
        if is_done {
            self.phase += 1;
            self.pending = self.expected;
        }
        u64::from(is_done)
    }

    /// The pending counts of the current phase, in words.
    pub fn describe(&self) -> String {
        let Mbarrier { expected, pending, bytes, phase, .. } = self;
        let parity = phase % 2;
        format!("phase {phase}, parity {parity}: {pending} of {expected} arrivals and {bytes} bytes pending")
    }
}

impl Landing {
    /// The writes of a copy issued by a lane; the phase is set when the copy is added to an mbarrier.
    pub fn new(pc: u32, warp: u32, lane: usize, address: u64, data: (Vec<u8>, UnknownBytes)) -> Landing {
        let (data, unknown) = data;
        Landing { phase: 0, pc, warp, lane: lane as u32, address, data, unknown, tracked: None }
    }

    /// The same for a copy for which its thread may wait as well.
    pub fn tracked_as(self, identity: u64) -> Landing {
        Landing { tracked: Some(identity), ..self }
    }
}
