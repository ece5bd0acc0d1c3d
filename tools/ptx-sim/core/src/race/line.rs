//! Access history of a 16-byte line of memory. It is kept for the whole line as long as every access covers the line,
//! by one lane or by lanes that execute an instruction together.

use smallvec::{SmallVec, smallvec};

use super::agent::Agent;
use super::clocks::Clocks;
use super::shadow::{CELL_BYTES, Cell, Met, Record};

/// Cells per line.
pub(super) const LINE_CELLS: usize = 4;
/// Bytes per line.
pub(super) const LINE_BYTES: u64 = LINE_CELLS as u64 * CELL_BYTES;
/// Mask of all bytes of a cell, in a record.
const WHOLE_CELL: u8 = 0xf;

/// For each cell of a line, the lanes that access it.
type LanesOfCells = [u32; LINE_CELLS];

/// An access to a whole line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// The access to each cell, except for the value; its lanes are those of the first cell.
    record: Record,
    values: [u32; LINE_CELLS],
    lanes: LanesOfCells,
}

/// The accesses to a line with which a later access may race.
#[derive(Clone, Debug)]
pub(super) enum Line {
    /// Accesses that cover the line.
    Whole(SmallVec<[Whole; 1]>),
    /// Any accesses, by cell.
    Split(Box<[Cell; LINE_CELLS]>),
}

impl Default for Line {
    fn default() -> Line {
        Line::Whole(SmallVec::new())
    }
}

impl Whole {
    fn new(record: Record, value: [u8; LINE_BYTES as usize]) -> Whole {
        let mut values = [0; LINE_CELLS];
        for (value, bytes) in values.iter_mut().zip(value.as_chunks::<{ CELL_BYTES as usize }>().0) {
            *value = u32::from_le_bytes(*bytes);
        }
        Whole::by_lanes(record, values, [record.lanes; LINE_CELLS])
    }

    /// An access with one lane per cell; a write stores the given value there.
    pub fn by_lanes(record: Record, values: [u32; LINE_CELLS], lanes: LanesOfCells) -> Whole {
        Whole { record: Record { bytes: WHOLE_CELL, lanes: lanes[0], value: 0, ..record }, values, lanes }
    }

    /// The access to one of the cells.
    fn of_cell(&self, cell: usize) -> Record {
        Record { value: self.values[cell], lanes: self.lanes[cell], ..self.record }
    }

    fn set_lanes(&mut self, lanes: LanesOfCells) {
        (self.record.lanes, self.lanes) = (lanes[0], lanes);
    }

    /// Whether all cells have the same lanes.
    fn is_uniform(&self) -> bool {
        self.lanes == [self.lanes[0]; LINE_CELLS]
    }

    /// The agent, in the group of `agent`, that accesses a cell.
    fn agent(&self, agent: Agent, cell: usize) -> Agent {
        Agent { lane: self.lanes[cell].trailing_zeros(), ..agent }
    }

    /// The lanes of each cell for which this access must still be remembered after `new`: none if `new` stands for it.
    /// `None` if the cells differ in that. Adds the unordered conflicts of `new` in each cell to `met`.
    fn beside(&self, clocks: &Clocks, agent: Agent, new: &Whole, met: &mut MetInLine) -> Option<LanesOfCells> {
        let mut remaining = [0; LINE_CELLS];
        for (cell, remaining) in remaining.iter_mut().enumerate() {
            let (mut old, new) = (self.of_cell(cell), new.of_cell(cell));
            let agent = Agent { lane: new.lanes.trailing_zeros(), ..agent };
            let remains = old.make_way(clocks, agent, &new, |old, lanes, is_copy| {
                met.extend(old.meets(clocks, &new, is_copy).map(|meeting| (*old, lanes, meeting)));
            });
            *remaining = if remains { old.lanes } else { 0 };
        }
        let is_same = remaining.iter().all(|lanes| (*lanes == 0) == (remaining[0] == 0));
        is_same.then_some(remaining)
    }

    /// The lanes of each cell whose access is not ordered before `new`.
    fn concurrent(&self, clocks: &Clocks, agent: Agent, new: &Whole) -> LanesOfCells {
        let Record { group, time, .. } = self.record;
        let of_cell = |cell| clocks.concurrent(new.agent(agent, cell), group.into(), self.lanes[cell], time);
        if group == new.record.group && self.lanes == new.lanes && clocks.is_of_threads(group.into()) {
            // Each lane is ordered after itself.
            return [0; LINE_CELLS];
        }
        if self.is_uniform() && new.is_uniform() { [of_cell(0); LINE_CELLS] } else { std::array::from_fn(of_cell) }
    }

    /// As [`Record::make_way`] for the read `new`: the lanes of this access that must still be remembered, given the
    /// unordered lanes `concurrent`. `None` if the two may conflict or the cells differ.
    fn beside_read(&self, concurrent: LanesOfCells, new: &Whole) -> Option<LanesOfCells> {
        if self.record.writes {
            return (concurrent == [0; LINE_CELLS]).then_some(self.lanes);
        }
        let mut remaining = self.lanes;
        for cell in 0..LINE_CELLS {
            if concurrent[cell] == 0 {
                remaining[cell] = 0;
            } else if self.record.group == new.record.group {
                remaining[cell] &= !new.lanes[cell];
            }
        }
        let is_same = remaining.iter().all(|lanes| (*lanes == 0) == (remaining[0] == 0));
        is_same.then_some(remaining)
    }
}

impl Line {
    /// Records by cell.
    pub fn cells(&self) -> [SmallVec<[Record; 2]>; LINE_CELLS] {
        std::array::from_fn(|cell| match self {
            Line::Whole(records) => records.iter().map(|whole| whole.of_cell(cell)).collect(),
            Line::Split(cells) => cells[cell].records().into(),
        })
    }

    /// Calls `visit` with every record, cell by cell.
    pub fn each_record(&self, mut visit: impl FnMut(usize, Record)) {
        for cell in 0..LINE_CELLS {
            match self {
                Line::Whole(records) => records.iter().for_each(|whole| visit(cell, whole.of_cell(cell))),
                Line::Split(cells) => cells[cell].records().iter().for_each(|record| visit(cell, *record)),
            }
        }
    }

    /// A write to one of its bytes.
    pub fn write_to(&self, byte: usize) -> Option<Record> {
        let (cell, bit) = (byte / CELL_BYTES as usize, byte % CELL_BYTES as usize);
        let writes = |record: &&Record| record.writes && record.bytes >> bit & 1 == 1;
        match self {
            Line::Whole(records) => records.iter().find(|whole| whole.record.writes).map(|whole| whole.of_cell(cell)),
            Line::Split(cells) => cells[cell].records().iter().find(writes).copied(),
        }
    }

    /// Adds an access by `agent` to `count` bytes from byte `first`; a write stores `value`. Calls `meets` with the
    /// unordered conflicts of each cell.
    pub fn access(
        &mut self,
        clocks: &Clocks,
        agent: Agent,
        new: Record,
        (first, count): (usize, usize),
        value: [u8; LINE_BYTES as usize],
        mut meets: impl FnMut(Met),
    ) {
        let whole = Whole::new(new, value);
        let is_whole = count == LINE_BYTES as usize;
        let is_last_word = new.is_last_word();
        if let Line::Whole(records) = self
            && is_whole
            && (is_last_word || !new.writes)
            && let Some(met) = access_whole(records, clocks, agent, whole)
        {
            met.into_iter().for_each(meets);
            return;
        }
        let cells = match self {
            Line::Split(cells) => cells,
            Line::Whole(_) => {
                *self = Line::Split(Box::new(self.cells().map(Cell::new)));
                return self.access(clocks, agent, new, (first, count), value, meets);
            }
        };
        for (cell, start) in (0..).step_by(CELL_BYTES as usize).enumerate().take(LINE_CELLS) {
            let (from, to) = (first.max(start), (first + count).min(start + CELL_BYTES as usize));
            if from < to {
                let bytes = ((1 << (to - from)) - 1) << (from - start);
                let new = Record { bytes, ..whole.of_cell(cell) };
                cells[cell].access(clocks, agent, new, &mut meets);
            }
        }
        if is_whole && is_last_word {
            // No other access is remembered.
            *self = Line::Whole(smallvec![whole]);
        }
    }

    /// Adds a plain access to the whole line by lanes that execute an instruction together, one per cell; `agent` is
    /// any of them. False, with nothing changed, if there is a conflict or the cells would differ.
    pub fn access_together(&mut self, clocks: &Clocks, agent: Agent, new: Whole) -> bool {
        let is_ordered = |old: &Whole| old.concurrent(clocks, agent, &new) == [0; LINE_CELLS];
        match self {
            Line::Whole(records) if new.record.writes => {
                if !records.iter().all(is_ordered) {
                    return false;
                }
                records.clear();
                records.push(new);
                true
            }
            Line::Whole(records) => {
                let remaining = |old: &Whole| old.beside_read(old.concurrent(clocks, agent, &new), &new);
                let mut changes = false;
                let is_simple = records.iter().all(|old| {
                    remaining(old).is_some_and(|lanes| {
                        changes |= lanes != old.lanes;
                        true
                    })
                });
                if changes && is_simple {
                    keep(records, |old| remaining(old).unwrap_or_default());
                }
                if is_simple {
                    add(records, new);
                }
                is_simple
            }
            Line::Split(cells) if new.record.writes => {
                let meets =
                    |(cell, old): (usize, &Cell)| old.meets_any(clocks, new.agent(agent, cell), &new.of_cell(cell));
                let is_alone = !cells.iter().enumerate().any(meets);
                if is_alone {
                    *self = Line::Whole(smallvec![new]);
                }
                is_alone
            }
            Line::Split(_) => false,
        }
    }
}

/// Reduces each access to its `remaining` lanes.
fn keep(records: &mut SmallVec<[Whole; 1]>, mut remaining: impl FnMut(&Whole) -> LanesOfCells) {
    records.retain(|old| {
        old.set_lanes(remaining(old));
        old.record.lanes != 0
    });
}

/// Adds an access to the remaining ones.
fn add(records: &mut SmallVec<[Whole; 1]>, new: Whole) {
    let same = |old: &&mut Whole| old.record.is_like(&new.record) && old.values == new.values;
    match records.iter_mut().find(same) {
        Some(old) => old.set_lanes(std::array::from_fn(|cell| old.lanes[cell] | new.lanes[cell])),
        None => records.push(new),
    }
}

/// Conflicts of an access to a line.
type MetInLine = SmallVec<[Met; LINE_CELLS]>;

/// Adds an access by `agent` to a whole line and returns its conflicts in each cell. `None`, with nothing changed, if
/// the cells would differ.
fn access_whole(records: &mut SmallVec<[Whole; 1]>, clocks: &Clocks, agent: Agent, new: Whole) -> Option<MetInLine> {
    let mut met = MetInLine::new();
    if records.iter().all(Whole::is_uniform) {
        records.retain(|old| make_way(old, clocks, agent, &new, &mut met));
    } else {
        let remaining = records.iter().map(|old| old.beside(clocks, agent, &new, &mut met));
        let mut remaining = remaining.collect::<Option<Vec<_>>>()?.into_iter();
        keep(records, |_| remaining.next().unwrap_or_default());
    }
    add(records, new);
    Some(met)
}

/// As [`Record::make_way`] for a whole line in which the cells of both accesses differ only in values.
fn make_way(old: &mut Whole, clocks: &Clocks, agent: Agent, new: &Whole, met: &mut MetInLine) -> bool {
    let Whole { record, values, .. } = old;
    let remains = record.make_way(clocks, agent, &new.record, |old, lanes, is_copy| {
        for (cell, value) in values.iter().enumerate() {
            let old = Record { value: *value, ..*old };
            met.extend(old.meets(clocks, &new.of_cell(cell), is_copy).map(|meeting| (old, lanes, meeting)));
        }
    });
    old.set_lanes([old.record.lanes; LINE_CELLS]);
    remains
}
