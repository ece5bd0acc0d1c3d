//! The latest instructions of a warp: they tell what became of a value that it read.

/// Instructions kept; a power of two.
const KEPT: usize = 256;

/// An executed instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Executed {
    /// Its index.
    pub pc: u32,
    /// The lanes that reached it.
    pub here: u32,
    /// Those whose guard is true.
    pub active: u32,
    /// The time of a load, as the detection of races counts it.
    pub time: u32,
}

/// The latest instructions of a warp.
pub(crate) struct Recent {
    ring: Box<[Executed; KEPT]>,
    /// Instructions so far.
    count: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self { ring: Box::new([Executed::default(); KEPT]), count: 0 }
    }
}

impl Recent {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds an instruction.
    pub fn push(&mut self, executed: Executed) {
        self.ring[self.count % KEPT] = executed;
        self.count += 1;
    }

    /// The instructions in order.
    pub fn iter(&self) -> impl Iterator<Item = &Executed> {
        let first = self.count.saturating_sub(KEPT);
        (first..self.count).map(|index| &self.ring[index % KEPT])
    }

    /// Whether it has every load of a time.
    pub fn has_loads_of(&self, time: u32) -> bool {
        self.count <= KEPT
            || self.iter().map(|executed| executed.time).find(|time| *time > 0).is_some_and(|first| first < time)
    }
}
