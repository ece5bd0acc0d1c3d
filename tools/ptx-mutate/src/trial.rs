//! Runs an entry, mutated or not, through all checks of a kernel.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Context, Result, bail};
use contract::args::Strides;
use contract::config::{Mask, Scores, Sequence};
use contract::manifest::Entry;
use contract::problem::{Alignment, Problem, Shape, Slopes};
use contract::refusal::Tensor;
use contract::tile::Grid;
use contract::view::{Layout, View, Views};
use ptx_sim::{FindingClass, Options};
use serde::Serialize;
use workshop::check::{self, UnitScaleBounds};
use workshop::element::{Bits, Encoding};
use workshop::error::Error;
use workshop::executor::sim::{DEFAULT_ARCHITECTURE, SimExecutor};
use workshop::forward::{Forward, Outcome};
use workshop::inputs::{Distribution, Inputs, Lengths};
use workshop::launch;
use workshop::ptx_module::PtxModule;
use workshop::reference::Reference;
use workshop::score_mod::{BiasForm, ScoreModForm};

/// Instruction limit of a mutant, as a multiple of the kernel's count, before it counts as endless.
const PATIENCE: u64 = 4;
/// A directive that every module contains.
const ADDRESS_SIZE: &str = ".address_size 64";
/// Added to the module, so that dynamic shared memory does not begin at address 0, where a base that is not added to an
/// offset would not be missed.
const STATIC_SHARED: &str = ".shared .align 1024 .b8 before_the_dynamic_part[1024];";
/// Seed of the inputs.
const INPUT_SEED: u64 = 512;

/// Outcome of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The simulator reported a finding.
    Finding(FindingClass),
    /// O or LSE were wrong, or an input was changed.
    WrongResult,
    /// The simulator or the host refused it before execution.
    Refused,
    /// Not detected: the instruction is never executed.
    NotExecuted,
    /// Not detected.
    Survived,
}

/// Inputs with their expected outputs.
struct Case {
    inputs: Inputs,
    reference: Reference,
    bounds: Option<UnitScaleBounds>,
    lse: bool,
    /// [`Options::schedule`].
    schedule: u64,
}

impl Case {
    fn generate(problem: Problem, distribution: Distribution) -> Result<Self> {
        let inputs = Inputs::generate(problem, distribution, INPUT_SEED)?;
        let bounds = UnitScaleBounds::applicable(Some(distribution), inputs.problem());
        Ok(Self::new(inputs, bounds))
    }

    /// Every score is −128: far below the start of a maximum that wrongly begins at 0.
    fn low_scores(problem: Problem) -> Result<Self> {
        let values = Inputs::generate(problem, Distribution::Normal, INPUT_SEED)?;
        let [_, _, v] = values.storages();
        Ok(Self::new(Inputs::new(problem, filled(problem, -4.0), filled(problem, 4.0), v.clone())?, None))
    }

    /// Rows of large and of small scores, eight at a time in turns: a shift that comes of another row is far off. All scores
    /// of a row are about the same, so that large rows find their shift in any of them and none overflows.
    fn uneven_rows(problem: Problem) -> Result<Self> {
        let normal = Inputs::generate(problem, Distribution::Normal, INPUT_SEED)?;
        let [q, k, v] = normal.storages();
        let in_every_eighth_column = |storage: &[Bits], value: f32, all_rows: bool| {
            let elements = storage.iter().enumerate().map(|(index, &element)| {
                let is_large = all_rows || (index / columns(&problem) / 8).is_multiple_of(2);
                if index % 8 == 0 && is_large { problem.element().encode(value.into()) } else { element }
            });
            elements.collect::<Vec<_>>()
        };
        let (queries, keys) = (in_every_eighth_column(q, 40.0, false), in_every_eighth_column(k, 4.0, true));
        Ok(Self::new(Inputs::new(problem, queries, keys, v.clone())?, None))
    }

    /// The same scores for all keys but the second 64, which are larger by 9 in base 2: p of 2⁹ under a shift that comes of the
    /// first ones, just too many for the softmax that keeps it. What the first keys add to O then matters as long as it is
    /// rescaled by 2⁻⁹, no more and no less.
    fn late_rise(problem: Problem) -> Result<Self> {
        let sequence = problem.shape().sequence as usize;
        let rises = |index: usize| (64..128).contains(&(index / columns(&problem) % sequence));
        let keys = elementwise(problem, |index| if rises(index) { 0.785_156_25 } else { 0.0 });
        Ok(Self::new(Inputs::new(problem, filled(problem, 1.0), keys, filled(problem, 64.0))?, None))
    }

    /// The same low score for all keys, −384, to which every product of two elements adds as much: one that meets an element
    /// `width` columns off adds the opposite. A maximum of scores of which a sixteenth is wrong is so large that no p is left.
    fn opposed_columns(problem: Problem, width: usize) -> Result<Self> {
        let values = Inputs::generate(problem, Distribution::Normal, INPUT_SEED)?;
        let [_, _, v] = values.storages();
        let alternating =
            |value: f32| elementwise(problem, |index| if index % (2 * width) < width { value } else { -value });
        Ok(Self::new(Inputs::new(problem, alternating(4.0), alternating(-12.0), v.clone())?, None))
    }

    /// One row of each head has large scores of its last keys, another one in each: a shift that comes of the first keys will not
    /// do for it, and nothing else says so.
    fn lone_rise(problem: Problem) -> Result<Self> {
        let values = Inputs::generate(problem, Distribution::Normal, INPUT_SEED)?;
        let [_, _, v] = values.storages();
        let sequence = problem.shape().sequence as usize;
        let (row, head) =
            (|index: usize| index / columns(&problem) % sequence, |index| index / columns(&problem) / sequence);
        let is_large = |index: usize| row(index) == sequence - 1 - 8 * head(index);
        let queries = elementwise(problem, |index| if is_large(index) { 4.0 } else { 0.0 });
        let keys = elementwise(problem, |index| if row(index) >= 64.min(sequence - 33) { 12.0 } else { 0.0 });
        Ok(Self::new(Inputs::new(problem, queries, keys, v.clone())?, None))
    }

    /// Scores that rise by 24 from key to key up to the 16th: under a causal mask, one too many for a row makes all others
    /// vanish.
    fn steep_start(problem: Problem) -> Result<Self> {
        let values = Inputs::generate(problem, Distribution::Normal, INPUT_SEED)?;
        let [_, _, v] = values.storages();
        let sequence = problem.shape().sequence as usize;
        let height = |index: usize| (index / columns(&problem) % sequence).min(15) as f32;
        Ok(Self::new(
            Inputs::new(problem, filled(problem, 4.0), elementwise(problem, |index| 0.75 * height(index)), v.clone())?,
            None,
        ))
    }

    /// Rows of large and of small scores, eight at a time in turns, whose first 64 scores are all 0: a shift that comes of
    /// those will not do for the large ones, and one that comes of all of them, but of another row, will do for neither.
    fn late_uneven_rise(problem: Problem) -> Result<Self> {
        let values = Inputs::generate(problem, Distribution::Normal, INPUT_SEED)?;
        let [_, _, v] = values.storages();
        let sequence = problem.shape().sequence as usize;
        let row = |index: usize| index / columns(&problem);
        let queries = elementwise(problem, |index| if (row(index) / 8).is_multiple_of(2) { 4.0 } else { 0.0 });
        let keys = elementwise(problem, |index| if row(index) % sequence >= 64 { 12.0 } else { 0.0 });
        Ok(Self::new(Inputs::new(problem, queries, keys, v.clone())?, None))
    }

    /// The same rows as packed sequences of these lengths.
    fn packed(self, lengths: &[u32]) -> Result<Self> {
        let Self { inputs, bounds, lse, schedule, .. } = self;
        Ok(Self { lse, schedule, ..Self::new(inputs.packed(lengths)?, bounds) })
    }

    /// The same rows as packed sequences of these lengths, and of these of their own for keys.
    fn separate(self, queries: &[u32], keys: &[u32]) -> Result<Self> {
        let Self { inputs, bounds, lse, schedule, .. } = self;
        let inputs = inputs.with_lengths(&Lengths::separate(queries, keys)?)?;
        Ok(Self { lse, schedule, ..Self::new(inputs, bounds) })
    }

    fn new(inputs: Inputs, bounds: Option<UnitScaleBounds>) -> Self {
        let reference = Reference::compute(&inputs, |_| ());
        Self { inputs, reference, bounds, lse: true, schedule: 0 }
    }
}

/// Columns of a row.
fn columns(problem: &Problem) -> usize {
    problem.shape().head_dim as usize
}

/// A contiguous tensor of `problem` with equal elements.
fn filled(problem: Problem, value: f32) -> Vec<Bits> {
    elementwise(problem, |_| value)
}

/// A contiguous tensor of `problem` with elements given by their indices.
fn elementwise(problem: Problem, value: impl Fn(usize) -> f32) -> Vec<Bits> {
    let elements = problem.extent(Tensor::Q) as usize;
    (0..elements).map(|index| problem.element().encode(value(index).into())).collect()
}

/// The checks of one entry.
pub struct Trial {
    entry: Entry,
    file: String,
    cases: Vec<Case>,
    instructions_per_warp: u64,
}

impl Trial {
    /// The checks of `entry` with `ptx` as its text; the entry itself must pass all of them.
    ///
    /// # Errors
    /// If the entry cannot be run or fails a check.
    pub fn new(entry: &Entry, file: &str, ptx: &str) -> Result<Self> {
        let cases = cases(entry)?;
        let (entry, file) = (entry.clone(), file.to_owned());
        let mut trial = Self { entry, file, cases, instructions_per_warp: Options::default().instructions_per_warp };
        let mut most = 0;
        for case in &trial.cases {
            let outcome = trial.execute(ptx, case)?;
            let verdict = judge(case, &outcome);
            if verdict != Verdict::Survived {
                bail!(
                    "{} does not pass the checks itself: {verdict:?} on {:?}",
                    trial.entry.name,
                    case.inputs.problem()
                );
            }
            let counters = outcome.execution.counters.context("the simulator counts")?;
            most = most.max(counters.instructions / counters.blocks.max(1));
        }
        // A warp executes at most about half of what the warps of an average block execute together.
        trial.instructions_per_warp = most.saturating_mul(PATIENCE);
        Ok(trial)
    }

    /// The outcome of `ptx`, a mutant of the entry's text.
    ///
    /// # Errors
    /// If the simulator panics, which is a bug.
    pub fn run(&self, ptx: &str) -> Result<Verdict> {
        for case in &self.cases {
            let outcome = catch_unwind(AssertUnwindSafe(|| self.execute(ptx, case)));
            let verdict = match outcome {
                Ok(Ok(outcome)) => judge(case, &outcome),
                Ok(Err(_)) => Verdict::Refused,
                Err(_) => bail!("the simulator panicked"),
            };
            if verdict != Verdict::Survived {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Survived)
    }

    fn execute(&self, ptx: &str, case: &Case) -> Result<Outcome, Error> {
        let options = Options {
            threads: 1,
            instructions_per_warp: self.instructions_per_warp,
            schedule: case.schedule,
            ..Options::default()
        };
        let mut simulator = SimExecutor::with_options(DEFAULT_ARCHITECTURE, options)?;
        let text = ptx.replacen(ADDRESS_SIZE, &format!("{ADDRESS_SIZE} {STATIC_SHARED}"), 1);
        let module = PtxModule { file: self.file.clone(), text: text.into() };
        Forward::prepare(&mut simulator, &module, &self.entry, &case.inputs, case.lse)?.execute()
    }
}

fn judge(case: &Case, outcome: &Outcome) -> Verdict {
    if let Some(finding) = outcome.execution.findings.first() {
        return Verdict::Finding(finding.class);
    }
    let report = check::check(&case.inputs, &case.reference, &outcome.outputs, case.bounds);
    let right = report.passed() && outcome.changed_inputs.is_empty() && outcome.damaged_guards.is_empty();
    if right { Verdict::Survived } else { Verdict::WrongResult }
}

/// Test cases, quickest first: most mutants get no further.
fn cases(entry: &Entry) -> Result<Vec<Case>> {
    let is_of_any_length = !matches!(entry.sequence, Sequence::Exact(_));
    let (first, second) = match entry.sequence {
        Sequence::Exact(length) => (shape(1, 1, length), shape(2, 2, length)),
        // One and two keys beyond a step, so that every family comes to its second and third.
        Sequence::Any => (shape(1, 1, entry.config.block_n() + 1), shape(2, 2, 2 * entry.config.block_n() + 2)),
        Sequence::Packed => (shape(1, 1, entry.config.block_n() + 1), shape(1, 4, 2 * entry.config.block_n() + 2)),
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
        Case::generate(contiguous(first, entry)?, Distribution::Normal)?,
        Case::generate(apart(second, entry)?, Distribution::Normal)?,
        Case::generate(contiguous(many, entry)?, Distribution::Adversarial)?,
        // Heads of Q that share those of K and V.
        Case::generate(apart(shape(second.batch, 4, second.sequence).with_kv_heads(2), entry)?, Distribution::Normal)?,
        Case::generate(contiguous(one_left, entry)?, Distribution::LargeLogits)?,
        Case::generate(contiguous(second, entry)?, Distribution::NonFinite)?,
        Case::low_scores(contiguous(first, entry)?)?,
        Case::uneven_rows(contiguous(second, entry)?)?,
        Case::late_rise(contiguous(risen, entry)?)?,
        Case::opposed_columns(contiguous(first, entry)?, 8)?,
        Case::opposed_columns(contiguous(first, entry)?, 1)?,
        // A head for each place of a row in what a warp of the sm_80 family computes.
        Case::lone_rise(contiguous(lone, entry)?)?,
        Case::steep_start(contiguous(first, entry)?)?,
        Case::late_uneven_rise(contiguous(risen, entry)?)?,
        Case { lse: false, ..Case::generate(contiguous(first, entry)?, Distribution::Normal)? },
    ];
    if entry.config.grid() == Grid::Persistent {
        // Warps that come to each other's barriers in other orders; where keys go through the stages in a ring, in so many rounds
        // that a strip before the last ends where the ring does.
        let rounds = shape(1, if is_of_any_length { 15 } else { many.heads }, many.sequence);
        for schedule in 1..=2 {
            let case = Case::generate(contiguous(rounds, entry)?, Distribution::Normal)?;
            cases.push(Case { schedule, ..case });
        }
    }
    if entry.config.key_groups() > 1 {
        // More steps than stages, so that those come again: in the only pass, and where the block begins again.
        let steps = (entry.config.stages() + 1) * entry.config.block_n();
        for (rest, distribution) in [(2, Distribution::Normal), (entry.config.block_n() / 2, Distribution::LargeLogits)]
        {
            cases.push(Case::generate(contiguous(shape(1, 1, steps + rest), entry)?, distribution)?);
        }
    }
    if entry.config.grid() == Grid::SplitKeys {
        // Clusters of two blocks on four multiprocessors, of which one has no key of the first rows under a causal mask, and of three.
        let two_tiles = shape(1, 1, 100).with_kv_sequence(260);
        // So many tiles for one block that all stages are filled again.
        let rounds = shape(1, 1, (2 * entry.config.stages() + 2) * entry.config.block_n());
        for problem in [contiguous(shape(1, 1, 200), entry)?, apart(two_tiles, entry)?, contiguous(rounds, entry)?] {
            cases.push(Case::generate(problem, Distribution::Normal)?);
        }
        if entry.mask == Mask::Full {
            let few_rows = shape(1, 1, 60).with_kv_sequence(6 * entry.config.block_n() + 2);
            cases.push(Case::generate(apart(few_rows, entry)?, Distribution::LargeLogits)?);
        }
    }
    if entry.scores == Scores::Modified {
        cases.extend(score_mods(entry, second)?);
    }
    if is_of_any_length {
        // Rows that are a chunk shorter than those of the tiles, half as long, and one chunk long, as far as they are computed.
        let columns = entry.config.columns();
        let head_dims = entry.variant().head_dims();
        for columns in [columns - 8, columns / 2, 8].into_iter().filter(|columns| head_dims.contains(columns)) {
            cases.push(Case::generate(with_rows_of(columns, second, entry)?, Distribution::Normal)?);
        }
        if entry.sequence == Sequence::Any {
            // Fewer keys than rows of Q, by more than a tile, and more.
            let Shape { sequence, .. } = second;
            for (rows, keys) in [(sequence + entry.config.block_n(), 3), (entry.config.block_n() - 3, sequence)] {
                for alignment in Alignment::ALL.into_iter().filter(|_| entry.mask != Mask::Causal) {
                    let problem = apart(shape(1, 2, rows).with_kv_sequence(keys), entry)?.aligned(alignment);
                    cases.push(Case::generate(problem, Distribution::Normal)?);
                }
            }
        }
        // Fewer keys than the first shifts are taken from.
        cases.push(Case::low_scores(contiguous(shape(1, 1, 5), entry)?)?);
        // Maxima that grow in a last tile that is whole.
        cases.push(Case::generate(
            contiguous(shape(1, 3, 2 * entry.config.block_n()), entry)?,
            Distribution::Adversarial,
        )?);
        // Fewer keys than a tile, of which the first 16 are not enough.
        let short = shape(1, 3, entry.config.block_n() - 3);
        cases.push(Case::generate(contiguous(short, entry)?, Distribution::LargeLogits)?);
        // The end behind each 16 rows of what a block computes.
        for length in (2 * entry.config.block_n()..=entry.config.block_m()).step_by(16) {
            cases.push(Case::generate(contiguous(shape(1, 1, length), entry)?, Distribution::Uniform)?);
        }
        // Two work items whose tiles together fill all stages, and a third.
        let half_a_ring = shape(1, many.heads, entry.config.stages() / 2 * entry.config.block_n());
        if entry.config.grid() == Grid::Persistent {
            cases.push(Case::generate(contiguous(half_a_ring, entry)?, Distribution::Normal)?);
        }
        // Whole tiles in every stage of the pipeline, even where the first steps are not part of the loop, and stages that are
        // filled again.
        for tiles in entry.config.stages() + 1..=entry.config.stages() + 3 {
            let problem = contiguous(shape(1, 1, tiles * entry.config.block_n() + 2), entry)?;
            cases.push(Case::generate(problem, Distribution::Normal)?);
        }
        // The end at every place of a tile, of the first one and of one in the loop.
        for length in 1..=2 * entry.config.block_n() {
            cases.push(Case::generate(contiguous(shape(1, 1, length), entry)?, Distribution::Uniform)?);
        }
    }
    if entry.sequence == Sequence::Packed {
        return packed(entry, cases);
    }
    Ok(cases)
}

/// Each change of scores alone, a bias of every form, and one whose rows begin between two elements of a pair.
fn score_mods(entry: &Entry, Shape { sequence, .. }: Shape) -> Result<Vec<Case>> {
    let none = ScoreModForm::default();
    let softcap = ScoreModForm { softcap: Some(2.0), ..none };
    let alone = if entry.sequence == Sequence::Packed {
        vec![softcap]
    } else {
        let slopes = ScoreModForm { alibi: Some(Slopes::PerBatchAndHead), ..none };
        let biases = BiasForm::ALL.map(|bias| ScoreModForm { bias: Some(bias), ..none });
        [softcap, slopes].into_iter().chain(biases).collect()
    };
    let keys = if entry.sequence == Sequence::Packed { sequence } else { sequence | 1 };
    let problem = |form: ScoreModForm| -> Result<Problem> {
        let shape = shape(2, 2, sequence).with_kv_sequence(keys);
        let shape = if entry.sequence == Sequence::Packed { Shape { batch: 1, ..shape } } else { shape };
        let problem = contiguous(shape, entry)?;
        Ok(problem.with_score_mod(form.of(problem.shape()))?)
    };
    alone.into_iter().map(|form| Case::generate(problem(form)?, Distribution::Normal)).collect()
}

/// Each of `cases` as a single packed sequence, and before all but the first of them several sequences: at the edges of tiles,
/// empty, of one row, and so many that the search for a block's takes all of its turns.
fn packed(entry: &Entry, cases: Vec<Case>) -> Result<Vec<Case>> {
    let (block_m, block_n) = (entry.config.block_m(), entry.config.block_n());
    let several = [
        vec![block_n + 1, 0, 1, block_m, block_m - 1, block_n],
        vec![0, 0, 3 * block_m + 5, 0, 2],
        (0..37).map(|index| index * 5 % 11).collect(),
    ];
    let mut packed = Vec::new();
    for case in cases {
        let rows = case.inputs.problem().shape().sequence;
        packed.push(case.packed(&[rows])?);
    }
    for lengths in several.into_iter().rev() {
        for distribution in [Distribution::NonFiniteValues, Distribution::Normal] {
            let rows = shape(1, 3, lengths.iter().sum());
            packed.insert(1, Case::generate(apart(rows, entry)?, distribution)?.packed(&lengths)?);
        }
    }
    // Keys with lengths of their own: the last tile of a strip may lie wholly before the strip's rows.
    let (queries, keys) = ([2 * block_m + 3, block_n, 5, 0], [block_n, 2 * block_n + 1, 0, 9]);
    let rows = shape(1, 3, queries.iter().sum()).with_kv_sequence(keys.iter().sum());
    packed.insert(1, Case::generate(apart(rows, entry)?, Distribution::Normal)?.separate(&queries, &keys)?);
    Ok(packed)
}

fn shape(batch: u32, heads: u32, sequence: u32) -> Shape {
    Shape::new(batch, heads, sequence)
}

/// A problem that `entry` computes, whose rows fill its tiles.
fn contiguous(shape: Shape, entry: &Entry) -> Result<Problem> {
    with_rows_of(entry.config.columns(), shape, entry)
}

/// A problem that `entry` computes, of rows of so many columns. Those whose elements are all the same have the scores that they
/// have with 64 columns and the default scale, whatever their number.
fn with_rows_of(columns: u32, shape: Shape, entry: &Entry) -> Result<Problem> {
    let problem = launch::problem(entry, shape.with_head_dim(columns), Layout::Bhsd)?;
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
