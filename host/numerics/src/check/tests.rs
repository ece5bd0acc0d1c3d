use super::*;
use crate::inputs::Distribution;
use contract::args::Strides;
use contract::config::Mask;
use contract::problem::Problem;
use contract::refusal::Tensor;
use contract::view::{Layout, View, Views};

const SHAPE: Shape = Shape::new(2, 2, 40);

struct Case {
    inputs: Inputs,
    reference: Reference,
    outputs: Outputs,
    bounds: Option<UnitScaleBounds>,
}

impl Case {
    /// Outputs equal to the reference, rounded.
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
        let mut storage = vec![O_POISON; problem.extent(Tensor::O) as usize];
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

    /// Changes the elements of O, which is contiguous.
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
fn writes_to_rows_of_no_sequence_fail() {
    let problem = Problem::new(Shape::new(2, 1, 3), Mask::Full, Layout::Bshd).unwrap();
    let lengths = crate::inputs::Lengths::Padded(Some(vec![2, 0]), None);
    let inputs = Inputs::generate(problem, Distribution::Normal, 3).unwrap().with_lengths(&lengths).unwrap();
    let reference = Reference::compute(&inputs, |_| ());
    let mut outputs = Outputs { o: vec![O_POISON; 6 * 64], lse: Some(vec![f32::from_bits(LSE_POISON); 6]) };
    for row in 0..2 {
        let elements = reference.elements[row].iter().map(|element| Element::F16.encode(element.value));
        outputs.o.splice(row * 64..(row + 1) * 64, elements);
        outputs.lse.as_mut().unwrap()[row] = reference.rows[row].lse as f32;
    }
    assert!(check(&inputs, &reference, &outputs, None).passed());
    (outputs.o[2 * 64], outputs.lse.as_mut().unwrap()[4]) = (0, 0.0);
    let report = check(&inputs, &reference, &outputs, None);
    assert_eq!((report.overwritten_gaps, report.output.wrong), (2, 0));
    outputs.o[64] = O_POISON;
    assert_eq!(check(&inputs, &reference, &outputs, None).output.unwritten, 1);
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
