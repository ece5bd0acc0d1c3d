//! Compares what a kernel wrote with the reference.

mod severity;

use rayon::prelude::*;

use crate::element::{Bits, Element, Encoding};
use crate::inputs::{Distribution, Inputs, row_of, row_start};
use crate::reference::{ElementReference, Reference, RowReference, Rule};
use contract::problem::{Problem, Shape};

pub use severity::Severities;

/// What O is filled with before a launch: a NaN of every element type whose payload arithmetic does not produce (the
/// hardware's is 0x7fff), so that an element that still holds it was not written.
pub const O_POISON: Bits = 0xffda;
/// What LSE is filled with before a launch, chosen like [`O_POISON`].
pub const LSE_POISON: u32 = 0xffa5_5a5a;

/// Bounds for Q, K and V of unit scale and scores of a few units, which every kernel must keep.
///
/// They are asked in addition to the bounds from rounding analysis (see [`output_tolerance`] and [`lse_tolerance`]),
/// which hold for all inputs.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct UnitScaleBounds {
    /// |ΔO| may be this much …
    pub output_absolute: f64,
    /// … plus this much of |O|.
    pub output_relative: f64,
    /// ‖ΔO‖ may be this much of ‖O‖ (Frobenius norms).
    pub output_frobenius: f64,
    /// |ΔLSE| may be this much.
    pub lse_absolute: f64,
}

impl UnitScaleBounds {
    /// The bounds that the kernels are accepted by.
    pub const fn acceptance(element: Element) -> Self {
        let coarseness = match element {
            Element::F16 => 1.0,
            // It has 8 significant bits, not 11: roundings of O and of the weights, of whose sum LSE is the logarithm, are eight
            // times as large.
            Element::Bf16 => 8.0,
        };
        Self {
            output_absolute: 2e-3 * coarseness,
            output_relative: 1e-3 * coarseness,
            output_frobenius: 6e-4 * coarseness,
            lse_absolute: 1e-3 * coarseness,
        }
    }

    /// The bounds, when they apply to inputs of `distribution` (`None`: of unknown origin). A larger scale than 1 would
    /// amplify rounding errors of the scores.
    ///
    /// The other distributions are held to the analysed bounds only: relative to ‖O‖ no error is small when V cancels,
    /// and relative to a unit none is when logits are large.
    pub fn applicable(distribution: Option<Distribution>, problem: &Problem) -> Option<Self> {
        let unit_scale = matches!(distribution, Some(Distribution::Normal | Distribution::Uniform));
        (unit_scale && problem.scale() <= 1.0).then(|| Self::acceptance(problem.element()))
    }
}

/// Relative error of one f32 operation of a tensor core, which truncates.
const F32_TRUNCATION: f64 = 1.0 / (1 << 23) as f64;
/// Error of a score in units of Σ|q·k|: 8 truncations, for four `mma` steps and the scaling of score and maximum.
const SCORE_ERROR: f64 = 8.0 * F32_TRUNCATION;
/// Keys that one `mma` adds to an accumulator.
const KEYS_PER_STEP: f64 = 16.0;
/// Rows that a thread compares at a time.
const ROWS_PER_TASK: usize = 64;

/// Beyond this error of a score its weight can be off by more than f32 can express, and nothing can be said of the row.
const LARGEST_SCORE_ERROR: f64 = 44.0;

/// Whether the scores of `row` may be so large (from about 4·10⁷) that f32 does not tell them apart, or something beyond it.
fn unresolvable(row: &RowReference) -> bool {
    SCORE_ERROR * row.score_magnitude > LARGEST_SCORE_ERROR || row.beyond_f32
}

/// How far a kernel's O, of elements of type `rounded`, may lie from `element` of a row that attends to `attended` keys.
///
/// With scores off by at most δ, weights are off by the factor exp(±2δ). Each weight p is rounded to the element type
/// before it meets V, which adds p·2⁻¹¹ in fp16, or 2⁻²⁵ where p is subnormal, and p·2⁻⁸ in bf16; products are added in
/// f32, 16 keys at a time. All of that is proportional to Σp|v|/Σp. The sum Σp is off by as much relative to |O|, and O is
/// rounded to the element type once more.
pub fn output_tolerance(rounded: Element, element: &ElementReference, row: &RowReference, attended: u32) -> f64 {
    let keys = f64::from(attended);
    let accumulation = (keys / KEYS_PER_STEP + 4.0) * F32_TRUNCATION;
    let weights = (2.0 * SCORE_ERROR * row.score_magnitude).exp_m1() + accumulation;
    let products = (weights + rounded.rounding()) * f64::from(element.magnitude);
    let quotient = (weights + 2.0 * rounded.rounding()) * element.value.abs();
    products + quotient + rounded.smallest_rounding() * (keys * row.value_magnitude + 1.0)
}

/// How far a kernel's LSE may lie from that of `row`: the error of the largest score, the roundings of LSE itself, and
/// those of the logarithm and of Σp, whose terms may be rounded to the element type.
pub fn lse_tolerance(rounded: Element, row: &RowReference) -> f64 {
    2.0 * rounded.rounding() + SCORE_ERROR * row.score_magnitude + 4.0 * F32_TRUNCATION * row.lse.abs()
}

/// O and LSE as a kernel left them.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// O by the problem's view, filled with [`O_POISON`] before the launch, gaps included.
    pub o: Vec<Bits>,
    /// LSE `[B,H,S]`, filled with [`LSE_POISON`] before the launch; `None` when it was not asked for.
    pub lse: Option<Vec<f32>>,
}

/// An element and what was found there.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Deviation {
    /// `[batch, head, row, column]`, or `[batch, head, row]` with a column of 0 for LSE.
    pub index: [u32; 4],
    /// What the reference says.
    pub expected: f64,
    /// What the kernel wrote.
    pub actual: f64,
    /// The bound on their difference; 0 where a NaN or infinity was expected.
    pub tolerance: f64,
}

impl Deviation {
    /// |actual − expected|; ∞ when only one of them is a number.
    pub fn error(&self) -> f64 {
        let error = (self.actual - self.expected).abs();
        if error.is_nan() { f64::INFINITY } else { error }
    }

    /// The error in units of its tolerance; ∞ when only one of the values is a number.
    pub fn severity(&self) -> f64 {
        let severity = self.error() / self.tolerance;
        if severity.is_nan() { f64::INFINITY } else { severity }
    }
}

/// How one output compares with the reference.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Comparison {
    /// Elements compared.
    pub elements: u64,
    /// Elements that are not what they may be.
    pub wrong: u64,
    /// Elements that still hold the poison; they count as wrong too.
    pub unwritten: u64,
    /// Largest |Δ| among the elements that are constrained; ∞ when one is a number and should not be, or the reverse.
    pub largest_error: f64,
    /// The element furthest from the reference in units of its tolerance, or one that is no number where it should be.
    pub worst: Option<Deviation>,
    /// The errors of the elements that are constrained, in units of their tolerances.
    pub severities: Severities,
    /// Σ Δ² over the elements whose value is constrained.
    squared_error: f64,
    /// Σ of the squared reference over the same elements.
    squared_reference: f64,
}

impl Comparison {
    /// ‖Δ‖ / ‖reference‖ (Frobenius norms); 0 when both are 0.
    pub fn relative_frobenius(&self) -> f64 {
        if self.squared_error == 0.0 { 0.0 } else { (self.squared_error / self.squared_reference).sqrt() }
    }

    /// Adds one element, of a type in which numbers from `largest` on are infinite. `tolerance` is asked only where the value
    /// is constrained.
    fn add(
        &mut self,
        index: [u32; 4],
        largest: f64,
        rule: Rule,
        (expected, actual): (f64, f64),
        tolerance: impl FnOnce() -> f64,
    ) {
        self.elements += 1;
        let tolerance = match rule {
            Rule::Close => tolerance(),
            Rule::CloseOrNan if !actual.is_nan() => tolerance(),
            Rule::CloseOrNan | Rule::Anything => return,
            Rule::Nan if actual.is_nan() => return,
            Rule::Nan => return self.reject(Deviation { index, expected, actual, tolerance: 0.0 }),
        };
        let deviation = Deviation { index, expected, actual, tolerance };
        let overflow = actual.is_infinite() && expected.is_finite();
        if actual == expected || (overflow && actual.signum() * expected + tolerance >= largest) {
            self.squared_reference += if expected.is_finite() { expected * expected } else { 0.0 };
            self.severities.add(0.0);
            return;
        }
        let error = deviation.error();
        self.severities.add(deviation.severity());
        self.squared_error += error * error;
        self.squared_reference += expected * expected;
        self.largest_error = self.largest_error.max(error);
        self.keep_worst(deviation);
        self.wrong += u64::from(deviation.severity() > 1.0);
    }

    fn reject(&mut self, deviation: Deviation) {
        self.wrong += 1;
        self.severities.add(f64::INFINITY);
        self.largest_error = f64::INFINITY;
        self.keep_worst(deviation);
    }

    fn keep_worst(&mut self, deviation: Deviation) {
        if self.worst.is_none_or(|worst| worst.severity() < deviation.severity()) {
            self.worst = Some(deviation);
        }
    }

    fn merge(mut self, later: Self) -> Self {
        self.elements += later.elements;
        self.wrong += later.wrong;
        self.unwritten += later.unwritten;
        self.largest_error = self.largest_error.max(later.largest_error);
        self.squared_error += later.squared_error;
        self.squared_reference += later.squared_reference;
        self.severities.merge(&later.severities);
        if let Some(worst) = later.worst {
            self.keep_worst(worst);
        }
        self
    }
}

/// How the outputs of a launch compare with the reference.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// O.
    pub output: Comparison,
    /// LSE; absent when it was not asked for.
    pub lse: Option<Comparison>,
    /// ‖ΔO‖ / ‖O‖.
    pub output_frobenius: f64,
    /// Elements before and between the rows of O that the kernel wrote to.
    pub overwritten_gaps: u64,
    /// The bounds that were asked besides those from rounding analysis.
    pub unit_scale_bounds: Option<UnitScaleBounds>,
}

impl Report {
    /// Whether no element still holds the poison.
    pub fn everything_written(&self) -> bool {
        self.output.unwritten == 0 && self.lse.as_ref().is_none_or(|lse| lse.unwritten == 0)
    }

    /// Whether the outputs are right.
    pub fn passed(&self) -> bool {
        let frobenius = self.unit_scale_bounds.is_none_or(|bounds| self.output_frobenius <= bounds.output_frobenius);
        let lse = self.lse.as_ref().is_none_or(|lse| lse.wrong == 0);
        self.output.wrong == 0 && lse && frobenius && self.overwritten_gaps == 0
    }
}

/// Compares `outputs` with `reference`, which must both be of `inputs`.
///
/// # Panics
/// When `outputs` or `reference` are of another shape.
pub fn check(
    inputs: &Inputs,
    reference: &Reference,
    outputs: &Outputs,
    unit_scale_bounds: Option<UnitScaleBounds>,
) -> Report {
    let problem = inputs.problem();
    let Shape { heads, sequence, .. } = problem.shape();
    let view = problem.views().o;
    let row_index = |row: usize| {
        let head = (row / sequence as usize) as u32;
        [head / heads, head % heads, (row % sequence as usize) as u32]
    };
    let rows = (0..reference.rows.len()).into_par_iter();
    let parts: Vec<_> = rows
        .fold_chunks(ROWS_PER_TASK, <(Comparison, Comparison)>::default, |(mut output, mut lse), row| {
            let index = row_index(row);
            let [batch, head, query] = index;
            let expected = &reference.rows[row];
            let actual = row_of(&outputs.o, view, inputs.columns(), batch, head, query);
            compare_row(&mut output, inputs, index, (&reference.elements[row], expected), actual, unit_scale_bounds);
            if let Some(values) = &outputs.lse {
                compare_lse(&mut lse, problem.element(), index, (expected, values[row]), unit_scale_bounds);
            }
            (output, lse)
        })
        .collect();
    // In order, so that sums are rounded alike whichever thread took which part.
    let (output, lse) = parts.into_iter().fold(<(Comparison, Comparison)>::default(), |(output, lse), later| {
        (output.merge(later.0), lse.merge(later.1))
    });
    Report {
        output_frobenius: output.relative_frobenius(),
        overwritten_gaps: overwritten_gaps(problem, &outputs.o),
        output,
        lse: outputs.lse.as_ref().map(|_| lse),
        unit_scale_bounds,
    }
}

fn compare_row(
    comparison: &mut Comparison,
    inputs: &Inputs,
    [batch, head, query]: [u32; 3],
    (elements, row): (&[ElementReference], &RowReference),
    actual: &[Bits],
    bounds: Option<UnitScaleBounds>,
) {
    let rounded = inputs.element();
    for (column, (element, &actual)) in elements.iter().zip(actual).enumerate() {
        let index = [batch, head, query, column as u32];
        if actual == O_POISON {
            comparison.unwritten += 1;
            comparison.elements += 1;
            let deviation = Deviation { index, expected: element.value, actual: f64::NAN, tolerance: 0.0 };
            comparison.reject(deviation);
            continue;
        }
        let rule = if unresolvable(row) { Rule::Anything } else { element.rule };
        comparison.add(index, rounded.overflow(), rule, (element.value, rounded.decode(actual)), || {
            let analysed = output_tolerance(rounded, element, row, inputs.attended_keys(query).len() as u32);
            bounds.map_or(analysed, |bounds| {
                analysed.min(bounds.output_absolute + bounds.output_relative * element.value.abs())
            })
        });
    }
}

fn compare_lse(
    comparison: &mut Comparison,
    rounded: Element,
    [batch, head, query]: [u32; 3],
    (row, actual): (&RowReference, f32),
    bounds: Option<UnitScaleBounds>,
) {
    let index = [batch, head, query, 0];
    if actual.to_bits() == LSE_POISON {
        comparison.unwritten += 1;
        comparison.elements += 1;
        return comparison.reject(Deviation { index, expected: row.lse, actual: f64::NAN, tolerance: 0.0 });
    }
    let rule = match row.lse {
        _ if unresolvable(row) => Rule::Anything,
        lse if lse.is_nan() => Rule::Nan,
        _ => Rule::Close,
    };
    comparison.add(index, f64::INFINITY, rule, (row.lse, actual.into()), || {
        let analysed = lse_tolerance(rounded, row);
        bounds.map_or(analysed, |bounds| analysed.min(bounds.lse_absolute))
    });
}

/// Elements of O's buffer that belong to no row and no longer hold the poison.
fn overwritten_gaps(problem: &Problem, storage: &[Bits]) -> u64 {
    let rows = problem.shape().rows() as usize;
    let columns = problem.shape().head_dim as usize;
    if storage.len() == rows * columns {
        return 0;
    }
    let Shape { batch, heads, sequence, .. } = problem.shape();
    let mut in_row = vec![false; storage.len()];
    for (batch, head) in (0..batch).flat_map(|batch| (0..heads).map(move |head| (batch, head))) {
        for row in 0..sequence {
            let start = row_start(problem.views().o, batch, head, row);
            in_row[start..][..columns].fill(true);
        }
    }
    let overwritten = |(value, in_row): &(&Bits, bool)| !in_row && **value != O_POISON;
    storage.iter().zip(in_row).filter(overwritten).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::args::Strides;
    use contract::config::Mask;
    use contract::view::{Layout, View, Views};

    const SHAPE: Shape = Shape::new(2, 2, 40);

    struct Case {
        inputs: Inputs,
        reference: Reference,
        outputs: Outputs,
        bounds: Option<UnitScaleBounds>,
    }

    impl Case {
        /// Outputs that are the reference, rounded.
        fn new(distribution: Distribution, row_stride: u64) -> Self {
            Self::of(Element::F16, distribution, row_stride)
        }

        fn of(type_: Element, distribution: Distribution, row_stride: u64) -> Self {
            let problem = Problem::new(SHAPE, Mask::Causal, Layout::Bhsd).unwrap().with_element(type_);
            let head = u64::from(SHAPE.sequence) * row_stride;
            let o = Strides { batch: u64::from(SHAPE.heads) * head, head, row: row_stride };
            let o = View::new(o);
            let problem = problem.with_views(Views { o, ..*problem.views() }).unwrap();
            let inputs = Inputs::generate(problem, distribution, 3).unwrap();
            let reference = Reference::compute(&inputs, |_| ());
            let mut storage = vec![O_POISON; problem.extent(o) as usize];
            for (row, elements) in reference.elements.iter().enumerate() {
                for (column, element) in elements.iter().enumerate() {
                    storage[row * row_stride as usize + column] = type_.encode(element.value);
                }
            }
            let lse = Some(reference.rows.iter().map(|row| row.lse as f32).collect());
            let bounds = UnitScaleBounds::applicable(Some(distribution), &problem);
            Self { inputs, reference, outputs: Outputs { o: storage, lse }, bounds }
        }

        fn normal() -> Self {
            Self::new(Distribution::Normal, 64)
        }

        /// A row that must be NaN.
        fn nan_row(&self) -> usize {
            let is_nan = |row: &[ElementReference]| row[0].rule == Rule::Nan;
            self.reference.elements.iter().position(is_nan).expect("non-finite inputs give a NaN row")
        }

        /// Changes the elements of O, which are without gaps.
        fn change(&mut self, change: impl Fn(usize, f64) -> f64) {
            let type_ = self.inputs.element();
            for (index, bits) in self.outputs.o.iter_mut().enumerate() {
                *bits = type_.encode(change(index, type_.decode(*bits)));
            }
        }

        fn check(&self) -> Report {
            check(&self.inputs, &self.reference, &self.outputs, self.bounds)
        }
    }

    #[test]
    fn a_report_does_not_depend_on_the_threads_that_make_it() {
        let case = Case::normal();
        let error = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| case.check().output_frobenius)
        };
        let alone = error(1);
        (2..=8).for_each(|threads| assert_eq!(error(threads), alone, "{threads} threads"));
    }

    #[test]
    fn a_correctly_rounded_result_passes_for_every_distribution() {
        for &distribution in <Distribution as clap::ValueEnum>::value_variants() {
            for type_ in Element::ALL {
                let report = Case::of(type_, distribution, 64).check();
                assert!(report.passed(), "{distribution:?} {type_:?}: {report:?}");
                assert_eq!(report.output.elements, 2 * 2 * 40 * 64);
                assert_eq!(report.lse.unwrap().elements, 2 * 2 * 40);
            }
        }
    }

    #[test]
    fn the_worst_element_is_named() {
        let mut case = Case::normal();
        let element = (2 * 40 + 7) * 64 + 9;
        case.change(|index, value| if index == element { value + 0.01 } else { value });
        let report = case.check();
        assert!(!report.passed());
        assert_eq!(report.output.wrong, 1);
        assert_eq!(report.output.worst.unwrap().index, [1, 0, 7, 9]);
        assert!((report.output.largest_error - 0.01).abs() < 2e-3);
    }

    #[test]
    fn many_small_errors_exceed_the_frobenius_bound() {
        let mut case = Case::normal();
        case.change(|_, value| value * 1.0009);
        let report = case.check();
        assert_eq!(report.output.wrong, 0, "each element is within its own bound: {report:?}");
        assert!(!report.passed());
    }

    #[test]
    fn bf16_may_be_off_by_eight_times_as_much() {
        for (factor, passes) in [(1.004, true), (1.012, false)] {
            let mut case = Case::of(Element::Bf16, Distribution::Normal, 64);
            case.outputs.o = case
                .reference
                .elements
                .iter()
                .flatten()
                .map(|element| Element::Bf16.encode(element.value * factor))
                .collect();
            let report = case.check();
            assert_eq!(report.passed(), passes, "{factor}: {report:?}");
        }
        let [f16, bf16] = Element::ALL.map(UnitScaleBounds::acceptance);
        assert_eq!(bf16.output_frobenius, 8.0 * f16.output_frobenius);
    }

    #[test]
    fn the_poison_is_no_number_of_either_type() {
        assert!(Element::ALL.iter().all(|element| element.decode(O_POISON).is_nan()));
    }

    #[test]
    fn lse_is_compared() {
        let mut case = Case::normal();
        case.outputs.lse.as_mut().unwrap()[41] += 2e-3;
        let report = case.check();
        assert!(!report.passed());
        assert_eq!(report.lse.unwrap().worst.unwrap().index, [0, 1, 1, 0]);
    }

    #[test]
    fn base_two_instead_of_natural_logarithms_fail() {
        let mut case = Case::normal();
        case.outputs.lse.as_mut().unwrap().iter_mut().for_each(|lse| *lse *= std::f32::consts::LOG2_E);
        assert!(!case.check().passed());
    }

    #[test]
    fn unwritten_elements_are_counted() {
        let mut case = Case::normal();
        case.outputs.o[5] = O_POISON;
        case.outputs.lse.as_mut().unwrap()[6] = f32::from_bits(LSE_POISON);
        let report = case.check();
        assert!(!report.passed());
        assert_eq!((report.output.unwritten, report.lse.unwrap().unwritten), (1, 1));
    }

    #[test]
    fn unwritten_elements_fail_even_where_nan_is_right() {
        let mut case = Case::new(Distribution::NonFinite, 64);
        let row = case.nan_row();
        case.outputs.o[row * 64] = O_POISON;
        assert_eq!(case.check().output.unwritten, 1);
    }

    #[test]
    fn nan_where_a_number_belongs_fails() {
        let mut case = Case::normal();
        case.outputs.o[5] = Element::F16.encode(f64::NAN);
        let report = case.check();
        assert_eq!(report.output.wrong, 1, "{report:?}");
        assert_eq!(report.output.largest_error, f64::INFINITY);
    }

    #[test]
    fn a_number_where_nan_belongs_fails() {
        let mut case = Case::new(Distribution::NonFinite, 64);
        let row = case.nan_row();
        case.outputs.o[row * 64..][..64].fill(Element::F16.encode(1.0));
        case.outputs.lse.as_mut().unwrap()[row] = 1.0;
        let report = case.check();
        assert_eq!((report.output.wrong, report.lse.unwrap().wrong), (64, 1));
    }

    #[test]
    fn a_number_where_minus_infinity_belongs_fails() {
        let mut case = Case::new(Distribution::NonFinite, 64);
        let row = case.reference.rows.iter().position(|row| row.lse == f64::NEG_INFINITY);
        case.outputs.lse.as_mut().unwrap()[row.expect("one head has no finite scores")] = -1e30;
        assert_eq!(case.check().lse.unwrap().wrong, 1);
    }

    #[test]
    fn writes_between_rows_fail() {
        let mut case = Case::new(Distribution::Normal, 72);
        assert!(case.check().passed());
        case.outputs.o[70] = 0;
        let report = case.check();
        assert_eq!(report.overwritten_gaps, 1);
        assert!(!report.passed());
    }

    #[test]
    fn writes_before_the_first_row_fail() {
        let mut case = Case::normal();
        let views = *case.inputs.problem().views();
        let o = View { offset: 16, ..views.o };
        let problem = case.inputs.problem().with_views(Views { o, ..views }).unwrap();
        let [q, k, v] = case.inputs.storages().map(Clone::clone);
        case.inputs = Inputs::new(problem, q, k, v).unwrap();
        case.outputs.o.splice(..0, [O_POISON; 16]);
        assert!(case.check().passed());
        case.outputs.o[15] = 0;
        assert_eq!(case.check().overwritten_gaps, 1);
    }

    #[test]
    fn an_infinity_is_right_only_where_it_belongs() {
        let compare = |rule, actual| {
            let mut comparison = Comparison::default();
            comparison.add([0; 4], 65_520.0, rule, (f64::INFINITY, actual), || f64::INFINITY);
            comparison.wrong
        };
        assert_eq!(compare(Rule::Close, f64::INFINITY), 0);
        for wrong in [f64::NEG_INFINITY, 65_504.0, f64::NAN] {
            assert_eq!(compare(Rule::Close, wrong), 1, "{wrong}");
        }
        assert_eq!(compare(Rule::CloseOrNan, f64::NAN), 0);
        assert_eq!(compare(Rule::CloseOrNan, f64::NEG_INFINITY), 1);
    }

    #[test]
    fn a_value_that_rounds_beyond_fp16_may_become_infinite() {
        let element = ElementReference { value: 65_500.0, magnitude: 65_500.0, rule: Rule::Close };
        let row = RowReference { lse: 0.0, score_magnitude: 1.0, value_magnitude: 65_504.0, beyond_f32: false };
        let compare = |actual| {
            let mut comparison = Comparison::default();
            comparison.add([0; 4], Element::F16.overflow(), Rule::Close, (element.value, actual), || {
                output_tolerance(Element::F16, &element, &row, 16)
            });
            comparison.wrong
        };
        assert_eq!(compare(f64::INFINITY), 0);
        assert_eq!(compare(f64::NEG_INFINITY), 1);
    }

    #[test]
    fn a_row_whose_scores_f32_cannot_tell_apart_need_only_be_written() {
        let problem = Problem::new(Shape::new(1, 1, 1), Mask::Full, Layout::Bhsd).unwrap();
        let inputs = Inputs::generate(problem, Distribution::Constant, 0).unwrap();
        let mut reference = Reference::compute(&inputs, |_| ());
        reference.rows[0].score_magnitude = 1e9;
        let report = |o| {
            let outputs = Outputs { o: vec![o; 64], lse: Some(vec![f32::NEG_INFINITY]) };
            check(&inputs, &reference, &outputs, None)
        };
        assert!(report(Element::F16.encode(f64::NAN)).passed());
        assert!(!report(O_POISON).passed());
    }

    #[test]
    fn large_values_are_judged_by_their_size() {
        let row = RowReference { lse: 3.0, score_magnitude: 10.0, value_magnitude: 1000.0, beyond_f32: false };
        let tolerance = |magnitude, value| {
            output_tolerance(Element::F16, &ElementReference { value, magnitude, rule: Rule::Close }, &row, 512)
        };
        assert!((0.4..0.8).contains(&tolerance(1000.0, 0.0)), "{}", tolerance(1000.0, 0.0));
        assert!((1.4..2.0).contains(&tolerance(1000.0, 1000.0)), "{}", tolerance(1000.0, 1000.0));
        assert!(tolerance(0.0, 0.0) < 0.02, "{}", tolerance(0.0, 0.0));
    }
}
