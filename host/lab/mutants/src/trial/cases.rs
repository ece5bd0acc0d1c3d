//! Which problems an entry is tried on.

mod drawn;
mod packed;

use anyhow::Result;
use cli::check::UnitScaleBounds;
use cli::executor::sim::MULTIPROCESSORS;
use cli::inputs::{Distribution, Inputs, Lengths};
use cli::kernel::Kernel;
use cli::score_mod::{BiasForm, ScoreModForm};
use contract::args::Strides;
use contract::config::{Mask, Scores, Sequence, WARPGROUP_ROWS};
use contract::manifest::Entry;
use contract::problem::{Alignment, Problem, Shape, Slopes, Window};
use contract::refusal::Tensor;
use contract::tile::{Grid, Kind};
use contract::view::{Layout, View, Views};

use super::values::Values;

/// Columns of 16 bytes.
const CHUNK_COLUMNS: u32 = 8;

/// What an entry is tried on.
#[derive(Clone, Debug)]
pub struct Case {
    /// Before its rows are packed.
    problem: Problem,
    values: Values,
    /// Of packed sequences.
    lengths: Option<Lengths>,
    /// What their arrays hold on the device instead: bad values, of which a kernel makes the same sequences.
    arrays: Vec<(Tensor, Vec<u32>)>,
    /// Whether LSE is wanted.
    pub lse: bool,
    /// [`ptx_sim::Options::schedule`].
    pub schedule: u64,
    /// Of the simulated GPU.
    pub multiprocessors: u32,
}

impl Case {
    fn new(problem: Problem, values: Values) -> Self {
        let (lengths, arrays) = (None, Vec::new());
        Self { problem, values, lengths, arrays, lse: true, schedule: 0, multiprocessors: MULTIPROCESSORS }
    }

    fn of(problem: Problem, distribution: Distribution) -> Self {
        Self::new(problem, Values::Of(distribution))
    }

    /// The same rows as packed sequences of these lengths.
    fn packed(self, lengths: Vec<u32>) -> Self {
        Self { lengths: Some(Lengths::Shared(lengths)), ..self }
    }

    /// The inputs, and the bounds that apply to them beyond those that were derived.
    ///
    /// # Errors
    /// When something of it does not fit together.
    pub fn inputs(&self) -> Result<(Inputs, Option<UnitScaleBounds>)> {
        let inputs = self.values.inputs(self.problem)?;
        let bounds = match self.values {
            Values::Of(distribution) => UnitScaleBounds::applicable(Some(distribution), inputs.problem()),
            _ => None,
        };
        let inputs = match &self.lengths {
            Some(lengths) => inputs.with_lengths(lengths)?,
            None => inputs,
        };
        let with_array = |inputs: Inputs, (name, elements): &(Tensor, Vec<u32>)| inputs.with_array(*name, elements);
        Ok((self.arrays.iter().fold(inputs, with_array), bounds))
    }
}

/// What an entry is tried on, the quickest first: most mutants get no further.
pub fn of(entry: &Entry) -> Result<Vec<Case>> {
    let is_of_any_length = !matches!(entry.sequence, Sequence::Exact(_));
    let (first, second) = match entry.sequence {
        Sequence::Exact(length) => (shape(1, 1, length), shape(2, 2, length)),
        // Keys beyond a step, and beyond two, so that every family comes to its second and third; of those as many as it takes for
        // rows in both halves of a strip of 16.
        Sequence::Any => (shape(1, 1, entry.config.block_n() + 1), shape(2, 2, 2 * entry.config.block_n() + 10)),
        Sequence::Packed => (shape(1, 1, entry.config.block_n() + 1), shape(1, 4, 2 * entry.config.block_n() + 10)),
    };
    // Two whole rounds of a persistent grid, and on four multiprocessors three heads that are left.
    let many = shape(1, if entry.config.grid() == Grid::Persistent { 11 } else { 6 }, second.sequence);
    // One whole round, and a head that is left.
    let one_left = shape(1, 5, second.sequence);
    // Long enough for rows of two strips of 16, and keys behind those that the first shift is taken from.
    let lone = shape(1, 4, if is_of_any_length { 2 * entry.config.block_n() + 2 } else { first.sequence });
    // The smaller one of two steps.
    let risen = if is_of_any_length { second } else { first };
    let mut cases = vec![
        Case::of(contiguous(first, entry)?, Distribution::Normal),
        Case::of(apart(second, entry)?, Distribution::Normal),
        Case::of(contiguous(many, entry)?, Distribution::Adversarial),
        // Heads of Q that share those of K and V.
        Case::of(apart(shape(second.batch, 4, second.sequence).with_kv_heads(2), entry)?, Distribution::Normal),
        Case::of(contiguous(one_left, entry)?, Distribution::LargeLogits),
        Case::of(contiguous(second, entry)?, Distribution::NonFinite),
        Case::new(contiguous(first, entry)?, Values::LowScores),
        Case::new(contiguous(second, entry)?, Values::UnevenRows),
        Case::new(contiguous(risen, entry)?, Values::LateRise),
        Case::new(contiguous(first, entry)?, Values::OpposedColumns(8)),
        Case::new(contiguous(first, entry)?, Values::OpposedColumns(1)),
        Case::new(contiguous(first, entry)?, Values::EqualProducts),
        // A head for each place of a row in what a warp of the sm_80 family computes.
        Case::new(contiguous(lone, entry)?, Values::LoneRise(64.min(lone.sequence - 33))),
        Case::new(contiguous(first, entry)?, Values::SteepStart),
        Case::new(contiguous(risen, entry)?, Values::LateUnevenRise),
        Case::new(contiguous(lone, entry)?, Values::Peaks(entry.config.block_n())),
        Case { lse: false, ..Case::of(contiguous(first, entry)?, Distribution::Normal) },
    ];
    if entry.config.kind() != Kind::Sm80 {
        // Eleven strips of 16 rows and more in each of eight heads, for as many places of a peak.
        let peaks = if is_of_any_length { shape(1, 8, 2 * entry.config.block_n() + 50) } else { lone };
        cases.push(Case::new(contiguous(peaks, entry)?, Values::LonePeaks));
    }
    if entry.config.grid() == Grid::Persistent {
        // A multiprocessor that is not needed where what is left is dealt out in four parts.
        let left = Case::of(contiguous(shape(1, 6, second.sequence), entry)?, Distribution::Normal);
        cases.push(Case { multiprocessors: 5, ..left });
        // Warps that come to each other's barriers in other orders; where keys go through the stages in a ring, in so many rounds
        // that a strip before the last ends where the ring does.
        let rounds = shape(1, if is_of_any_length { 15 } else { many.heads }, many.sequence);
        for schedule in 1..=2 {
            let case = Case::of(contiguous(rounds, entry)?, Distribution::Normal);
            cases.push(Case { schedule, ..case });
        }
    }
    if entry.config.kind() == Kind::Sm80 {
        cases.push(Case::new(contiguous(risen, entry)?, Values::EarlyUnevenRise));
    }
    if entry.config.kind() == Kind::Sm80 && is_of_any_length {
        // Keys that matter most behind the first checkpoint, which raises the shifts.
        cases.push(Case::new(contiguous(shape(1, 1, 288), entry)?, Values::FaintRest));
        // More steps than stages, so that those come again: in the only pass, and where the block begins again.
        let steps = (entry.config.stages() + 1) * entry.config.block_n();
        for (rest, distribution) in [(2, Distribution::Normal), (entry.config.block_n() / 2, Distribution::LargeLogits)]
        {
            cases.push(Case::of(contiguous(shape(1, 1, steps + rest), entry)?, distribution));
        }
    }
    if entry.config.grid() == Grid::SplitKeys {
        cases.extend(split_keys(entry)?);
    }
    if entry.leaves_parts {
        cases.extend(parts(entry)?);
    }
    if entry.scores == Scores::Modified {
        cases.extend(score_mods(entry, second)?);
    }
    if is_of_any_length {
        cases.extend(of_any_length(entry, second, many.heads)?);
    }
    cases.extend(groups_of_heads(entry)?);
    if entry.sequence == Sequence::Packed {
        return packed::of(entry, cases);
    }
    if is_of_any_length {
        cases.extend(drawn::shapes(entry)?);
    }
    Ok(cases)
}

/// What an entry that splits keys over the blocks of a cluster is tried on beyond the others.
fn split_keys(entry: &Entry) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    // Clusters of two blocks on four multiprocessors, of which one has no key of the first rows under a causal mask, and of three.
    let two_tiles = shape(1, 1, 100).with_kv_sequence(260);
    // So many tiles for one block that all stages are filled again.
    let rounds = shape(1, 1, (2 * entry.config.stages() + 2) * entry.config.block_n());
    for problem in [contiguous(shape(1, 1, 200), entry)?, apart(two_tiles, entry)?, contiguous(rounds, entry)?] {
        cases.push(Case::of(problem, Distribution::Normal));
    }
    // Clusters of four blocks, each of which has the largest score of some rows.
    let parts = Case::new(contiguous(shape(1, 1, 512), entry)?, Values::Peaks(entry.config.block_n()));
    cases.push(Case { multiprocessors: 5 * 512 / entry.config.block_m(), ..parts });
    // Clusters of two, both of which have keys of the rows behind the first strip, whatever the mask.
    let two_parts = Case::of(contiguous(shape(1, 1, 4 * entry.config.block_n()), entry)?, Distribution::Normal);
    cases.push(Case { multiprocessors: 10 * entry.config.block_n() / entry.config.block_m(), ..two_parts });
    // Clusters of three, each of which has the largest score of some rows, and whose threads combine rows twice.
    let parts =
        Case::new(contiguous(shape(1, 1, 6 * entry.config.block_n()), entry)?, Values::Peaks(entry.config.block_n()));
    cases.push(Case { multiprocessors: 24, ..parts });
    if entry.mask == Mask::Full {
        // Clusters of eight blocks and of five, likewise.
        for (blocks, rows) in [(8, 60), (5, entry.config.block_m() - 4)] {
            let few_rows = shape(1, 1, rows).with_kv_sequence(blocks * 4 * entry.config.block_n());
            let peaks = Case::new(contiguous(few_rows, entry)?, Values::Peaks(entry.config.block_n()));
            // And such that every block matters to every row.
            let even = Case::of(contiguous(few_rows, entry)?, Distribution::Normal);
            cases.extend([peaks, even].map(|case| Case { multiprocessors: 2 * blocks, ..case }));
        }
        let few_rows = shape(1, 1, 60).with_kv_sequence(6 * entry.config.block_n() + 2);
        cases.push(Case::of(apart(few_rows, entry)?, Distribution::LargeLogits));
    }
    Ok(cases)
}

/// What an entry that leaves parts is tried on beyond the others: few of them, and under the full mask so many that warps share them, each
/// of which has the largest score of some rows; a part with a few keys, and strips without rows.
fn parts(entry: &Entry) -> Result<Vec<Case>> {
    let (rows, step) = (entry.config.block_m(), entry.config.block_n());
    let few_rows = |keys| shape(1, 1, rows / 2 + 3).with_kv_sequence(keys);
    let shapes = match entry.mask {
        Mask::Full => vec![(few_rows(13 * step + 2), 2), (few_rows(26 * step + step / 2), 16)],
        _ => vec![(shape(1, 1, 12 * step + 2), 1000)],
    };
    let mut cases = Vec::new();
    for (shape, multiprocessors) in shapes {
        let peaks = Case::new(contiguous(shape, entry)?, Values::Peaks(step));
        let large = Case::of(apart(shape, entry)?, Distribution::LargeLogits);
        // Shifts beside which that of a part without keys would be the largest.
        let low = Case::new(contiguous(shape, entry)?, Values::LowScores);
        cases.extend([peaks, large, low].map(|case| Case { multiprocessors, ..case }));
    }
    if entry.mask == Mask::Causal {
        // Whole steps, and an odd number of them: if they are taken for one more, the last part begins a step later. A rise in its
        // last step has its block begin again, which looks for that anew, and all rows but one attend to all of their keys alike.
        let odd = Case::new(contiguous(shape(1, 1, 13 * step), entry)?, Values::LoneRise(12 * step));
        cases.push(Case { multiprocessors: 1000, ..odd });
    }
    Ok(cases)
}

/// What an entry for any length is tried on beyond the others; `second` is the shape of two steps and more that those have, and `heads`
/// how many give blocks several work items.
fn of_any_length(entry: &Entry, second: Shape, heads: u32) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    // Rows that are a chunk shorter than those of the tiles, half as long, and one chunk long, as far as they are computed.
    let columns = entry.config.columns();
    let head_dims = entry.variant().head_dims();
    for columns in [columns - 8, columns / 2, 8].into_iter().filter(|columns| head_dims.contains(columns)) {
        cases.push(Case::of(with_rows_of(columns, second, entry)?, Distribution::Normal));
    }
    if head_dims.contains(&(columns - 8)) {
        // The same where a block begins again.
        let first = shape(1, 1, entry.config.block_n() + 1);
        cases.push(Case::of(with_rows_of(columns - 8, first, entry)?, Distribution::LargeLogits));
    }
    cases.extend(other_keys(entry, second.sequence)?);
    if entry.mask == Mask::Window {
        // Windows that end at a key's own place, at the edges of tiles, and on one side only; and 8 keys further, which other elements
        // of a tile compare. Rows behind all keys have the begin of their window in a last tile that is whole.
        let tile = entry.config.block_n();
        let behind = shape(1, 2, 2 * tile + WARPGROUP_ROWS / 2).with_kv_sequence(2 * tile);
        let windows = [
            (second, Some(0), Some(0)),
            (second, Some(tile - 1), Some(1)),
            (second, Some(17), None),
            (second, None, Some(3)),
            (second, Some(8), Some(8)),
            (second, Some(tile + 8), Some(tile)),
            (behind, Some(8), Some(0)),
            (behind, Some(16), Some(8)),
        ];
        for (shape, left, right) in windows {
            let problem = contiguous(shape, entry)?.with_window(Window { left, right });
            cases.push(Case::of(problem, Distribution::Normal));
        }
    }
    // Fewer keys than the first shifts are taken from.
    cases.push(Case::new(contiguous(shape(1, 1, 5), entry)?, Values::LowScores));
    // Maxima that grow in a last tile that is whole.
    cases.push(Case::of(contiguous(shape(1, 3, 2 * entry.config.block_n()), entry)?, Distribution::Adversarial));
    // Fewer keys than a tile, of which the first 16 are not enough.
    let short = shape(1, 3, entry.config.block_n() - 3);
    cases.push(Case::of(contiguous(short, entry)?, Distribution::LargeLogits));
    // The end behind each 16 rows of what a block computes.
    for length in (2 * entry.config.block_n()..=entry.config.block_m()).step_by(16) {
        cases.push(Case::of(contiguous(shape(1, 1, length), entry)?, Distribution::Uniform));
    }
    // Two work items whose tiles together fill all stages, and a third.
    let half_a_ring = shape(1, heads, entry.config.stages() / 2 * entry.config.block_n());
    if entry.config.grid() == Grid::Persistent {
        cases.push(Case::of(contiguous(half_a_ring, entry)?, Distribution::Normal));
    }
    let has_two_strips = entry.config.grid() == Grid::Persistent && entry.config.block_m() == 2 * WARPGROUP_ROWS;
    if has_two_strips && (entry.sequence, entry.mask) == (Sequence::Any, Mask::Full) {
        // One whole round and an item that is left, dealt out in strips, with so many tiles that a warpgroup without a strip has to
        // give back each of its stages: fewer pass where it is one short every four tiles.
        let keys = (4 * entry.config.stages() + 6) * entry.config.block_n();
        let problem = contiguous(shape(1, 3, entry.config.block_m()).with_kv_sequence(keys), entry)?;
        cases.push(Case { multiprocessors: 2, ..Case::of(problem, Distribution::Normal) });
    }
    // Whole tiles in every stage of the pipeline, even where the first steps are not part of the loop, and stages that are
    // filled again.
    for tiles in entry.config.stages() + 1..=entry.config.stages() + 3 {
        let problem = contiguous(shape(1, 1, tiles * entry.config.block_n() + 2), entry)?;
        cases.push(Case::of(problem, Distribution::Normal));
    }
    cases.extend(ends(entry)?);
    Ok(cases)
}

/// The end of the keys in every 8 of a tile, at an even and an odd place, one before 16 keys and at its edges: of the first tile, of
/// one in the loop, and where threads copy, of one that comes to a stage that was used. Where threads copy, some of the rows are a
/// chunk shorter than those of the tiles: a thread that copies the chunk behind the last row's end reads beyond the tensor.
fn ends(entry: &Entry) -> Result<Vec<Case>> {
    let tile = entry.config.block_n();
    let in_every = |keys: u32, places: &'static [u32]| {
        (0..tile).step_by(keys as usize).flat_map(|first| places.iter().map(move |place| first + place))
    };
    let mut lengths: Vec<u32> = in_every(8, &[2, 3]).chain([1, 15, tile - 1, tile]).collect();
    lengths.extend(in_every(16, &[3, 10]).chain([tile]).map(|length| tile + length));
    let mut cases = Vec::new();
    let threads_copy = entry.config.kind() != Kind::Sm90Tma;
    let mut add = |heads: u32, keys: u32| -> Result<()> {
        // A block of rows that attend to all keys; a causal mask has one of them behind the keys.
        let rows = match entry.mask {
            Mask::Full => keys.min(entry.config.block_m()),
            Mask::Causal => keys + entry.config.block_m(),
            Mask::Window => keys,
        };
        let columns = if threads_copy && keys % 2 == 1 { columns(entry) - CHUNK_COLUMNS } else { columns(entry) };
        let problem = with_rows_of(columns, shape(1, heads, rows).with_kv_sequence(keys), entry)?;
        cases.push(Case::new(problem, Values::LowRise));
        Ok(())
    };
    // Of 16 keys or fewer, the first shift is right in sm_80 kernels, and nothing but the third head has a block begin again.
    let heads = if entry.config.kind() == Kind::Sm80 { 3 } else { 2 };
    for keys in lengths {
        add(heads, keys)?;
    }
    if threads_copy {
        // Rows that all threads copy at once.
        let together = (entry.config.threads() * CHUNK_COLUMNS / columns(entry)).max(8);
        for keys in in_every(together, &[3]) {
            add(1, entry.config.stages() * tile + keys)?;
        }
    }
    Ok(cases)
}

/// More bytes of K and V than what blocks share in L2, so that a causal kernel takes heads in groups: one by one, and where tiles
/// have 128 rows or more several together, more of them in the last group.
fn groups_of_heads(entry: &Entry) -> Result<Vec<Case>> {
    let (block_m, keys_of_64_columns) = (entry.config.block_m(), |keys: u32| keys * 64 / columns(entry));
    let (heads, rows, keys) = match (entry.mask, entry.sequence) {
        (Mask::Causal, Sequence::Exact(length)) => (5, length, length),
        (Mask::Causal, Sequence::Any) if block_m < 128 => (4, block_m + 1, keys_of_64_columns(280)),
        (Mask::Causal, Sequence::Any) => (5, 9 * block_m - 3, keys_of_64_columns(430)),
        _ => return Ok(Vec::new()),
    };
    let problem = contiguous(shape(1, heads, rows).with_kv_sequence(keys), entry)?;
    // Blocks of more rows have a multiprocessor for themselves.
    let multiprocessors = match block_m {
        ..128 => 1..=1,
        128 => 1..=2,
        _ => 2..=2,
    };
    Ok(multiprocessors
        .map(|multiprocessors| Case { multiprocessors, ..Case::of(problem, Distribution::Normal) })
        .collect())
}

/// Other numbers of keys than rows of Q: fewer by more than a tile, and more. A strip behind the keys has a last tile that only the
/// end masks: in the second half of 16 keys, and in the last 8 of a tile.
fn other_keys(entry: &Entry, sequence: u32) -> Result<Vec<Case>> {
    let tile = entry.config.block_n();
    let mut cases = Vec::new();
    for (rows, keys) in [(13 + tile + 64, 13), (2 * tile + 32, tile - 3), (tile - 3, sequence)] {
        // A causal mask whose last row is at the last key is a window.
        let alignments = Alignment::ALL.into_iter();
        for alignment in
            alignments.filter(|alignment| (entry.mask, *alignment) != (Mask::Causal, Alignment::BottomRight))
        {
            let problem = apart(shape(1, 2, rows).with_kv_sequence(keys), entry)?.aligned(alignment);
            cases.push(Case::of(problem, Distribution::Normal));
            if entry.mask == Mask::Window {
                // Rows far behind all keys attend to these.
                let window = Window { left: None, right: Some(3) };
                cases.push(Case::of(problem.with_window(window), Distribution::Normal));
            }
        }
    }
    Ok(cases)
}

/// Each change of scores alone, a bias of every form, and one whose rows begin between two elements of a pair, unless
/// its kernels need padded ones.
fn score_mods(entry: &Entry, Shape { sequence, .. }: Shape) -> Result<Vec<Case>> {
    let none = ScoreModForm { padded_bias: entry.config.has_bias_tiles(), ..ScoreModForm::NONE };
    let softcap = ScoreModForm { softcap: Some(2.0), ..none };
    let alone = if entry.sequence == Sequence::Packed {
        vec![softcap]
    } else {
        let slopes = ScoreModForm { alibi: Some(Slopes::PerBatchAndHead), ..none };
        let biases = BiasForm::ALL.map(|bias| ScoreModForm { bias: Some(bias), ..none });
        [softcap, slopes].into_iter().chain(biases).collect()
    };
    let keys = if entry.sequence == Sequence::Packed { sequence } else { sequence | 1 };
    // So many heads that a block of a persistent grid has several work items.
    let heads = match entry.config.grid() {
        Grid::Persistent if entry.sequence == Sequence::Packed => 8,
        Grid::Persistent => 4,
        _ => 2,
    };
    let problem = |form: ScoreModForm| -> Result<Problem> {
        let shape = shape(2, heads, sequence).with_kv_sequence(keys);
        let shape = if entry.sequence == Sequence::Packed { Shape { batch: 1, ..shape } } else { shape };
        let problem = contiguous(shape, entry)?;
        Ok(problem.with_score_mod(form.of(problem.shape()))?)
    };
    let mut cases: Vec<Case> =
        alone.into_iter().map(|form| Ok(Case::of(problem(form)?, Distribution::Normal))).collect::<Result<_>>()?;
    if entry.sequence == Sequence::Any {
        // The end of a bias in every 8 keys of a tile, at an odd and an even place.
        let tile = entry.config.block_n();
        for (keys, bias) in (0..tile).step_by(8).zip(BiasForm::ALL.into_iter().cycle()) {
            for keys in [keys + 3, tile + keys + 4] {
                let shape = shape(1, 1, 20).with_kv_sequence(keys);
                let form = ScoreModForm { bias: Some(bias), ..none };
                let problem = contiguous(shape, entry)?.with_score_mod(form.of(shape))?;
                cases.push(Case::of(problem, Distribution::Normal));
            }
        }
    }
    Ok(cases)
}

fn shape(batch: u32, heads: u32, sequence: u32) -> Shape {
    Shape::new(batch, heads, sequence)
}

/// Columns of the rows that fill an entry's tiles.
fn columns(entry: &Entry) -> u32 {
    entry.config.columns()
}

/// A problem that `entry` computes, whose rows fill its tiles.
fn contiguous(shape: Shape, entry: &Entry) -> Result<Problem> {
    with_rows_of(columns(entry), shape, entry)
}

/// A problem that `entry` computes, of rows of so many columns.
fn with_rows_of(columns: u32, shape: Shape, entry: &Entry) -> Result<Problem> {
    in_layout(Layout::Bhsd, columns, shape, entry)
}

/// The same in another layout. Rows whose elements are all the same have the scores that they have with 64 columns and the
/// default scale, whatever their number.
fn in_layout(layout: Layout, columns: u32, shape: Shape, entry: &Entry) -> Result<Problem> {
    let problem = Kernel::Forward(entry).problem(shape.with_head_dim(columns), layout)?;
    Ok(problem.with_scale(8.0 / f64::from(columns))?)
}

/// A problem in which no two strides are the same, nor any two elements next to each other that need not be.
fn apart(shape: Shape, entry: &Entry) -> Result<Problem> {
    let columns = u64::from(entry.config.columns());
    let view = |tensor, gap: u64| {
        let Shape { heads, sequence, .. } = shape.of(tensor);
        let row = columns + gap;
        let head = row * u64::from(sequence) + 8 * row;
        View::new(Strides { batch: head * u64::from(heads) + 24 * row, head, row })
    };
    let [q, k, v, o] = [(Tensor::Q, 8), (Tensor::K, 16), (Tensor::V, 24), (Tensor::O, 32)].map(|(t, gap)| view(t, gap));
    Ok(contiguous(shape, entry)?.with_views(Views { q, k, v, o })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::cost::SHIPPED;
    use contract::gpu::Gpu;
    use contract::plan::Plan;
    use contract::variants::VARIANTS;

    #[test]
    fn parts_are_left_in_the_cases_for_them() {
        for variant in VARIANTS.iter().filter(|variant| variant.leaves_parts) {
            let in_parts = |case: &Case| {
                let Case { problem, multiprocessors, .. } = *case;
                let gpu = Gpu { name: "", architecture: 90, multiprocessors, shared_bytes_per_block: 227 << 10 };
                Plan::new(&problem, *variant, &gpu).unwrap().with_workspace(SHIPPED, &gpu).parts()
            };
            let parts: Vec<u32> = parts(&Entry::from(variant)).unwrap().iter().map(in_parts).collect();
            assert!(parts.iter().all(|&parts| parts > 1), "{}: {parts:?}", variant.entry);
            assert!(variant.mask != Mask::Full || parts.iter().any(|&parts| parts > 8), "{}: {parts:?}", variant.entry);
        }
    }
}
