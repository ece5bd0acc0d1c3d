//! The clusters that are on the GPU together, on any number of threads. Nearly every cluster is one block; the blocks of one
//! with several run in turns on the same thread.
//!
//! A cluster runs until it ends, or waits for another one: then it is put aside, with all its state, and others go on. As many
//! blocks as fit the GPU may have begun, so that blocks that wait for each other all get there, whatever the number of threads.
//! Those behind them begin when others have ended, as on hardware.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::cluster::Cluster;
use super::schedule::Schedule;
use super::turns::{Outcome, Running, Slice};
use crate::isa::Operation;
use crate::machine::Machine;

/// Clusters of which the order of beginning is shuffled together.
const BATCH: u64 = 64;

/// The clusters of a grid.
pub(super) struct Residents<'m> {
    machine: &'m Machine<'m>,
    operations: &'m [Operation],
    clusters: u64,
    /// Most clusters at a time.
    capacity: usize,
    state: Mutex<State<'m>>,
    /// Somebody came back with a cluster.
    returned: Condvar,
}

#[derive(Default)]
struct State<'m> {
    /// The next to begin, of those below `ordered`.
    order: VecDeque<u64>,
    ordered: u64,
    /// Begun and put aside, the one that waits longest first.
    waiting: VecDeque<Running<'m>>,
    /// Ended, to be used again.
    free: Vec<Cluster<'m>>,
    /// Begun and not ended.
    resident: usize,
    /// How often clusters began, ended or changed global memory.
    changes: u64,
    /// What those did that ended, by number, until it is taken.
    ended: BTreeMap<u64, Outcome>,
    /// How many were taken.
    taken: u64,
}

impl State<'_> {
    /// Whether every cluster that was put aside waits in vain, unless another one changes something.
    fn is_quiet(&self) -> bool {
        // The one that came back last is the most likely to have changed something.
        let mut waiting = self.waiting.iter().rev();
        !self.waiting.is_empty() && waiting.all(|running| running.patience.is_over(self.changes))
    }

    /// Whether every cluster that has begun was put aside.
    fn all_wait(&self) -> bool {
        self.waiting.len() == self.resident
    }
}

impl<'m> Residents<'m> {
    /// None has begun.
    pub fn new(machine: &'m Machine<'m>, operations: &'m [Operation]) -> Residents<'m> {
        let clusters = machine.clusters().into_iter().map(u64::from).product();
        Residents {
            machine,
            operations,
            clusters,
            capacity: machine.resident_clusters(),
            state: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<'m>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs clusters until there is nothing to do for this thread; calls `hand_on` whenever one has ended.
    pub fn work(&self, hand_on: impl Fn()) {
        while let Some(mut running) = self.next() {
            match running.run() {
                Slice::Ended(outcome) => {
                    self.end(running, *outcome);
                    hand_on();
                }
                Slice::Waits { changed } => self.put_aside(running, changed),
            }
        }
    }

    /// What a cluster did, when all before it were taken; all there is once the grid was stopped.
    pub fn take_next(&self) -> Option<(u64, Outcome)> {
        let mut state = self.state();
        let (number, _) = state.ended.first_key_value()?;
        if *number != state.taken && !self.machine.is_stopped() {
            return None;
        }
        state.taken += 1;
        state.ended.pop_first()
    }

    /// The cluster that goes on or begins next.
    fn next(&self) -> Option<Running<'m>> {
        let mut state = self.state();
        // Whether nothing will ever change is known when the last cluster has come back.
        while state.is_quiet() && !self.can_begin(&state) && !state.all_wait() && !self.machine.is_stopped() {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if self.machine.is_stopped() {
            self.end_all(&mut state);
            return None;
        }
        if state.resident < self.capacity
            && let Some(number) = self.next_to_begin(&mut state)
        {
            state.resident += 1;
            state.changes += 1;
            let cluster = state.free.pop();
            drop(state);
            let cluster = cluster.unwrap_or_else(|| Cluster::new(self.machine, self.operations));
            return Some(Running::start(cluster, number));
        }
        state.waiting.pop_front()
    }

    /// Whether another cluster can begin.
    fn can_begin(&self, state: &State<'m>) -> bool {
        state.resident < self.capacity && (!state.order.is_empty() || state.ordered < self.clusters)
    }

    fn next_to_begin(&self, state: &mut State<'m>) -> Option<u64> {
        if state.order.is_empty() && state.ordered < self.clusters {
            let end = self.clusters.min(state.ordered + BATCH);
            let mut batch: Vec<u64> = (state.ordered..end).collect();
            Schedule::new(self.machine.schedule, u64::MAX - state.ordered).order(&mut batch);
            (state.ordered, state.order) = (end, batch.into());
        }
        state.order.pop_front()
    }

    fn end(&self, running: Running<'m>, outcome: Outcome) {
        let mut state = self.state();
        state.resident -= 1;
        state.changes += 1;
        state.ended.insert(running.number, outcome);
        state.free.push(running.cluster);
        self.returned.notify_all();
    }

    /// Lets others go on before a cluster that waits, if there are any that can.
    fn put_aside(&self, mut running: Running<'m>, changed: bool) {
        let mut state = self.state();
        state.changes += u64::from(changed);
        let mut patience = std::mem::take(&mut running.patience);
        patience.wait(state.changes, || running.fingerprint());
        running.patience = patience;
        state.waiting.push_back(running);
        if state.all_wait() && !self.can_begin(&state) && state.is_quiet() {
            self.report_deadlock(&mut state);
            self.machine.stop();
        }
        self.returned.notify_all();
    }

    /// Ends the clusters that were put aside.
    fn end_all(&self, state: &mut State<'m>) {
        for mut running in std::mem::take(&mut state.waiting) {
            let outcome = running.stop();
            state.ended.insert(running.number, outcome);
        }
    }

    fn report_deadlock(&self, state: &mut State<'m>) {
        let blocks = self.machine.blocks_of_cluster() as usize;
        let (resident, capacity) = (blocks * state.resident, blocks * self.capacity);
        let to_come = blocks as u64 * (self.clusters - state.ordered + state.order.len() as u64);
        let Some(running) = state.waiting.iter_mut().min_by_key(|running| running.number) else { return };
        running.report_waiting(|| {
            let mut text =
                "no block of the grid can go on: this one waits for a value in memory that nobody changes any \
                            more"
                    .to_owned();
            if resident > 1 {
                text.push_str(&format!(", as {} others do", resident - 1));
            }
            if to_come > 0 {
                text.push_str(&format!("; {to_come} blocks cannot begin, as {capacity} fill the GPU"));
            }
            text
        });
    }
}
