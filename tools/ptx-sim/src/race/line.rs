//! What is remembered of the accesses to 16 bytes of memory: of all of them together, as long as every access is to all of them.

use smallvec::{SmallVec, smallvec};

use super::agent::Agent;
use super::clock::Clocks;
use super::shadow::{CELL_BYTES, Cell, Met, Record};

/// Cells of a line.
pub(super) const LINE_CELLS: usize = 4;
/// Bytes of a line.
pub(super) const LINE_BYTES: u64 = LINE_CELLS as u64 * CELL_BYTES;
/// All bytes of a cell, in a record.
const WHOLE_CELL: u8 = 0xf;

/// An access to a whole line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// To each cell, but for the value.
    record: Record,
    values: [u32; LINE_CELLS],
}

/// The accesses to a line that a later access may race with.
#[derive(Clone, Debug)]
pub(super) enum Line {
    /// Accesses to the whole line only.
    Whole(SmallVec<[Whole; 1]>),
    /// Any.
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
        Whole { record: Record { bytes: WHOLE_CELL, ..record }, values }
    }

    /// To one of the cells.
    fn of_cell(&self, cell: usize) -> Record {
        Record { value: self.values[cell], ..self.record }
    }
}

impl Line {
    /// The records of each cell.
    pub fn cells(&self) -> [SmallVec<[Record; 2]>; LINE_CELLS] {
        std::array::from_fn(|cell| match self {
            Line::Whole(records) => records.iter().map(|whole| whole.of_cell(cell)).collect(),
            Line::Split(cells) => cells[cell].records().into(),
        })
    }

    /// A write to one of its bytes.
    pub fn write_to(&self, byte: usize) -> Option<Record> {
        let (cell, bit) = (byte / CELL_BYTES as usize, byte % CELL_BYTES as usize);
        let writes = |record: &&Record| record.writes && record.bytes >> bit & 1 == 1;
        match self {
            Line::Whole(records) => records.iter().map(|whole| &whole.record).find(writes).copied(),
            Line::Split(cells) => cells[cell].records().iter().find(writes).copied(),
        }
    }

    /// Adds an access by `agent` to `count` bytes from byte `first` on, which writes `value` there if it writes; calls `meets`
    /// with what it meets in each cell without order.
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
        {
            access_whole(records, clocks, agent, whole).into_iter().flatten().for_each(meets);
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
                cells[cell].access(clocks, agent, new).into_iter().for_each(&mut meets);
            }
        }
        if is_whole && is_last_word {
            // Nothing else is remembered.
            *self = Line::Whole(smallvec![whole]);
        }
    }
}

/// Adds an access to a whole line, of which all cells have the same records but for the values; what it meets in each cell.
fn access_whole(
    records: &mut SmallVec<[Whole; 1]>,
    clocks: &Clocks,
    agent: Agent,
    new: Whole,
) -> [Option<Met>; LINE_CELLS] {
    let mut met = [None; LINE_CELLS];
    records.retain(|Whole { record, values }| {
        let is_open = met.iter().any(Option::is_none);
        record.make_way(clocks, agent, &new.record, is_open, |old, lane, is_copy| {
            for (cell, met) in met.iter_mut().enumerate() {
                let old = Record { value: values[cell], ..*old };
                *met = met.or_else(|| Some((old, lane, old.meets(clocks, &new.of_cell(cell), is_copy)?)));
            }
        })
    });
    let same = |old: &&mut Whole| old.record.is_like(&new.record) && old.values == new.values;
    match records.iter_mut().find(same) {
        Some(old) => old.record.lanes |= new.record.lanes,
        None => records.push(new),
    }
    met
}
