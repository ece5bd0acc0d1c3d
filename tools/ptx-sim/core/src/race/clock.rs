//! Vector clocks: what each thread of a cluster knows about the others, and of events in other clusters (usually single blocks): what
//! their threads released at GPU scope and a thread acquired (PTX ISA, "Memory Consistency Model", "Scope", "Release and Acquire
//! Patterns").

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::lanes::LANES;

/// For each agent, the time up to which its accesses have happened before some point; and the number of completed
/// phases of each mbarrier. Agents are the threads of a cluster, followed by their asynchronous engines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(super) times: Vec<u32>,
    /// Completed phases, by number of the mbarrier.
    pub(super) phases: Vec<u64>,
    /// Whether a wait for the previous grid has happened before it.
    pub(super) after_previous_grid: bool,
    /// Blocks of the cluster that have begun before it: one bit per rank.
    pub(super) begun: u32,
    /// Events of other clusters that happened before it.
    pub(super) foreign: Option<Arc<Foreign>>,
    /// Events before a GPU-scope fence that happened before it: a strong write announces them to other clusters,
    /// whichever thread of the cluster executed the fence.
    pub(super) published: Option<Arc<Foreign>>,
}

/// Raises each element of `mine` to at least its counterpart.
fn join<T: Copy + Default + Ord>(mine: &mut Vec<T>, theirs: &[T]) {
    if mine.len() < theirs.len() {
        mine.resize(theirs.len(), T::default());
    }
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = (*mine).max(*theirs);
    }
}

/// Raises element `index` of `mine` to at least `value`; missing elements count as 0.
fn raise<T: Copy + Default + Ord>(mine: &mut Vec<T>, index: usize, value: T) {
    if value == T::default() {
        return;
    }
    if mine.len() <= index {
        mine.resize(index + 1, T::default());
    }
    mine[index] = mine[index].max(value);
}

/// Whether each element of `mine` is at least its counterpart; missing elements count as 0.
fn includes<T: Copy + Default + Ord>(mine: &[T], theirs: &[T]) -> bool {
    let (common, rest) = theirs.split_at(theirs.len().min(mine.len()));
    // No early exit, which would prevent vectorisation.
    let is_before = common.iter().zip(mine).fold(true, |all, (theirs, mine)| all & (theirs <= mine));
    is_before && rest.iter().all(|theirs| *theirs == T::default())
}

impl Clock {
    /// Joins `other`: everything that happened before either.
    pub fn join(&mut self, other: &Clock) {
        join(&mut self.times, &other.times);
        join(&mut self.phases, &other.phases);
        self.after_previous_grid |= other.after_previous_grid;
        self.begun |= other.begun;
        join_shared(&mut self.foreign, &other.foreign);
        join_shared(&mut self.published, &other.published);
    }

    /// Whether all accesses up to `time` of some of a group's lanes happened before it.
    pub fn covers(&self, group: usize, lanes: u32, time: u32) -> bool {
        crate::lanes::lanes(lanes).all(|lane| self.time(group * LANES + lane) >= time)
    }

    /// The clock without memory accesses: completed phases and begun blocks only.
    pub fn without_memory(&self) -> Clock {
        Clock { phases: self.phases.clone(), begun: self.begun, ..Clock::default() }
    }

    /// Records that `ended` phases of an mbarrier have completed.
    pub fn end_phases(&mut self, mbarrier: usize, ended: u64) {
        raise(&mut self.phases, mbarrier, ended);
    }

    /// Whether everything in the other clock has happened before this one too.
    pub fn includes(&self, other: &Clock) -> bool {
        includes(&self.times, &other.times)
            && includes(&self.phases, &other.phases)
            && self.after_previous_grid >= other.after_previous_grid
            && self.begun & other.begun == other.begun
            && includes_shared(&self.foreign, &other.foreign)
            && includes_shared(&self.published, &other.published)
    }

    pub(super) fn time(&self, agent: usize) -> u32 {
        self.times.get(agent).copied().unwrap_or(0)
    }

    pub(super) fn advance(&mut self, agent: usize, time: u32) {
        raise(&mut self.times, agent, time);
    }
}

/// Progress of other clusters that happened before some point, by index of the cluster in the grid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Foreign {
    clusters: BTreeMap<u64, Arc<Clock>>,
    /// Address of the announcement that was read: the strong accesses there that announced it have happened before as
    /// well.
    places: BTreeSet<u64>,
}

impl Foreign {
    /// Events of one cluster.
    pub fn of(cluster: u64, clock: Arc<Clock>) -> Foreign {
        Foreign { clusters: BTreeMap::from([(cluster, clock)]), places: BTreeSet::new() }
    }

    /// The same, as read at an address.
    pub fn read_at(&self, address: u64) -> Foreign {
        let mut read = self.clone();
        read.places.insert(address);
        read
    }

    /// Whether an announcement of a cluster was read at an address.
    pub fn was_read_at(&self, cluster: u64, address: u64) -> bool {
        self.places.contains(&address) && self.clusters.contains_key(&cluster)
    }

    /// Events of a cluster.
    pub fn clock(&self, cluster: u64) -> Option<&Arc<Clock>> {
        self.clusters.get(&cluster)
    }

    /// Joins `other`.
    pub fn join(&mut self, other: &Foreign) {
        self.places.extend(&other.places);
        for (cluster, clock) in &other.clusters {
            match self.clusters.get_mut(cluster) {
                None => {
                    self.clusters.insert(*cluster, clock.clone());
                }
                Some(mine) if Arc::ptr_eq(mine, clock) || mine.includes(clock) => {}
                Some(mine) if clock.includes(mine) => *mine = clock.clone(),
                Some(mine) => Arc::make_mut(mine).join(clock),
            }
        }
    }

    /// Whether everything in `other` is known.
    pub fn includes(&self, other: &Foreign) -> bool {
        let knows = |(cluster, clock): (&u64, &Arc<Clock>)| {
            self.clusters.get(cluster).is_some_and(|mine| Arc::ptr_eq(mine, clock) || mine.includes(clock))
        };
        other.clusters.iter().all(knows) && other.places.is_subset(&self.places)
    }
}

/// What a thread knows about other clusters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    pub acquired: Option<Arc<Foreign>>,
    /// What it has observed, but not acquired, because no liberties are taken.
    pub observed: Option<Arc<Foreign>>,
}

impl Knowledge {
    /// Whether it is none.
    pub fn is_none(&self) -> bool {
        self.acquired.is_none() && self.observed.is_none()
    }

    /// Whether the two share their parts.
    pub fn is(&self, other: &Knowledge) -> bool {
        let part = |known: &Option<Arc<Foreign>>| known.as_ref().map(Arc::as_ptr);
        part(&self.acquired) == part(&other.acquired) && part(&self.observed) == part(&other.observed)
    }
}

/// The join of two optional values.
pub(super) fn join_shared(mine: &mut Option<Arc<Foreign>>, theirs: &Option<Arc<Foreign>>) {
    match (mine.as_mut(), theirs) {
        (_, None) => {}
        (None, Some(theirs)) => *mine = Some(theirs.clone()),
        (Some(known), Some(theirs)) if Arc::ptr_eq(known, theirs) || known.includes(theirs) => {}
        (Some(known), Some(theirs)) if theirs.includes(known) => *known = theirs.clone(),
        (Some(known), Some(theirs)) => Arc::make_mut(known).join(theirs),
    }
}

/// Whether everything in the other optional value is known.
fn includes_shared(mine: &Option<Arc<Foreign>>, theirs: &Option<Arc<Foreign>>) -> bool {
    match (mine, theirs) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs) || mine.includes(theirs),
    }
}
