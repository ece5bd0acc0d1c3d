use super::*;
use crate::element::{Bits, Element};
use crate::inputs::Distribution;
use contract::config::Mask;
use contract::problem::Problem;
use contract::view::Layout;

fn problem(sequence: u32, mask: Mask) -> Problem {
    Problem::new(Shape::new(1, 1, sequence), mask, Layout::Bhsd).unwrap()
}

/// One row per entry: the first two columns are given, the others are 0.
fn tensor(rows: &[[f32; 2]]) -> Vec<Bits> {
    let wide = |row: &[f32; 2]| {
        let row = *row;
        (0..64).map(move |column| Element::F16.encode((*row.get(column).unwrap_or(&0.0)).into()))
    };
    rows.iter().flat_map(wide).collect()
}

fn reference(mask: Mask, q: &[[f32; 2]], k: &[[f32; 2]], v: &[[f32; 2]]) -> Reference {
    let problem = problem(q.len() as u32, mask).with_scale(1.0).unwrap();
    Reference::compute(&Inputs::new(problem, tensor(q), tensor(k), tensor(v)).unwrap(), |_| ())
}

#[test]
fn two_keys_by_hand() {
    // Query 0 scores 1 and −1, query 1 scores 0 and 0.
    let (q, k) = ([[1.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [-1.0, 0.0]]);
    let reference = reference(Mask::Full, &q, &k, &[[4.0, 1.0], [-2.0, 1.0]]);
    let (e, inverse) = (1f64.exp(), (-1f64).exp());
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} is not {b}");
    close(reference.elements[0][0].value, (4.0 * e - 2.0 * inverse) / (e + inverse));
    close(reference.elements[0][0].magnitude.into(), ((4.0 * e + 2.0 * inverse) / (e + inverse)) as f32 as f64);
    close(reference.elements[0][1].value, 1.0);
    close(reference.elements[0][2].value, 0.0);
    close(reference.rows[0].lse, (e + inverse).ln());
    close(reference.elements[1][0].value, 1.0);
    close(reference.rows[1].lse, 2f64.ln());
}

#[test]
fn causal_rows_attend_to_themselves_and_what_came_before() {
    let zeros = [[0.0; 2]; 3];
    let reference = reference(Mask::Causal, &zeros, &zeros, &[[3.0, 0.0], [6.0, 0.0], [9.0, 0.0]]);
    let firsts: Vec<_> = reference.elements.iter().map(|row| row[0].value).collect();
    assert_eq!(firsts, [3.0, 4.5, 6.0]);
    assert_eq!(reference.rows[0].lse, 0.0);
}

/// A direct implementation of the definition: exp without subtracting the maximum.
fn naive(inputs: &Inputs, batch: u32, head: u32, query: u32) -> (Vec<f64>, f64) {
    let keys = inputs.attended_keys(query);
    let q = inputs.q_row(batch, head, query);
    let decode = |bits| inputs.element().decode(bits);
    let weight = |key| {
        let k = inputs.k_row(batch, head, key);
        let mut score = 0.0;
        for column in 0..q.len() {
            score += decode(q[column]) * decode(k[column]);
        }
        (score * inputs.problem().scale()).exp()
    };
    let weights: Vec<f64> = keys.clone().map(weight).collect();
    let total: f64 = weights.iter().sum();
    let output = (0..q.len()).map(|column| {
        let values = keys.clone().map(|key| decode(inputs.v_row(batch, head, key)[column]));
        let terms = weights.iter().zip(values).map(|(weight, value)| weight * value);
        terms.sum::<f64>() / total
    });
    (output.collect(), total.ln())
}

#[test]
fn agrees_with_the_definition_for_every_mask_and_layout() {
    for mask in [Mask::Full, Mask::Causal, Mask::Window] {
        for layout in [Layout::Bhsd, Layout::Bshd] {
            let shape = Shape::new(2, 3, 70).with_head_dim(if layout == Layout::Bhsd { 64 } else { 40 });
            let element = if mask == Mask::Full { Element::F16 } else { Element::Bf16 };
            let problem = Problem::new(shape, mask, layout).unwrap().with_element(element);
            let inputs = Inputs::generate(problem, Distribution::Normal, 1).unwrap();
            let reference = Reference::compute(&inputs, |_| ());
            for (index, (elements, row)) in reference.elements.iter().zip(&reference.rows).enumerate() {
                let [head, query] = [index / 70, index % 70].map(|index| index as u32);
                let (output, lse) = naive(&inputs, head / 3, head % 3, query);
                assert!((row.lse - lse).abs() < 1e-12, "{mask:?} {layout:?} row {index}");
                for (element, output) in elements.iter().zip(output) {
                    assert!((element.value - output).abs() < 1e-12, "{mask:?} {layout:?} row {index}");
                    assert_eq!(element.rule, Rule::Close);
                }
            }
        }
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let reference = reference(Mask::Full, &[[60_000.0, 0.0]; 2], &[[60_000.0, 0.0]; 2], &[[1.0, 0.0], [3.0, 0.0]]);
    assert_eq!(reference.elements[0][0].value, 2.0);
    assert_eq!(reference.rows[0].lse, 3.6e9 + 2f64.ln());
}

#[test]
fn sums_beyond_f32_are_known() {
    let largest = Element::Bf16.largest() as f32;
    let beyond = |q: f32, k: f32, v: f32| {
        let problem = problem(1, Mask::Full).with_scale(0.0).unwrap().with_element(Element::Bf16);
        let row = |value| std::iter::once(value).chain([0.0; 63]);
        let [q, k, v] = [q, k, v].map(|value| row(value).map(|x| Element::Bf16.encode(x.into())).collect::<Vec<_>>());
        Reference::compute(&Inputs::new(problem, q, k, v).unwrap(), |_| ()).rows[0].beyond_f32
    };
    assert!(!beyond(1.0, largest, 1e30) && !beyond(1e19, 1e19, 1e30));
    assert!(beyond(2.0, largest, 1.0) && beyond(1.0, 1.0, largest));
    assert!(!beyond(f32::INFINITY, 1.0, f32::INFINITY), "infinities have rules of their own");
}

#[test]
fn progress_counts_every_row() {
    let counted = std::sync::atomic::AtomicU64::new(0);
    let inputs = Inputs::generate(problem(130, Mask::Full), Distribution::Constant, 0).unwrap();
    Reference::compute(&inputs, |rows| {
        counted.fetch_add(rows, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(counted.into_inner(), 130);
}

const INFINITY: f32 = f32::INFINITY;
const ONES: [[f32; 2]; 2] = [[1.0, 1.0]; 2];

fn rules(reference: &Reference) -> Vec<[Rule; 2]> {
    reference.elements.iter().map(|row| [row[0].rule, row[1].rule]).collect()
}

#[test]
fn a_nan_or_infinite_score_makes_its_row_nan() {
    for poison in [f32::NAN, INFINITY] {
        let reference = reference(Mask::Causal, &ONES, &[[1.0, 1.0], [poison, 1.0]], &ONES);
        assert_eq!(rules(&reference), [[Rule::Close; 2], [Rule::Nan; 2]], "key 1 is masked for row 0");
        assert_eq!(reference.rows[0].lse, 2.0);
        assert!(reference.rows[1].lse.is_nan());
    }
}

#[test]
fn a_key_of_score_minus_infinity_is_ignored() {
    let reference = reference(Mask::Full, &ONES, &[[-INFINITY, 1.0], [1.0, 1.0]], &[[5.0, 0.0], [7.0, 0.0]]);
    assert_eq!(reference.elements[0][0].value, 7.0);
    assert_eq!(reference.rows[0].lse, 2.0);
}

#[test]
fn a_row_without_finite_scores_is_zero() {
    let minus = [[-INFINITY, 1.0]; 2];
    let reference = reference(Mask::Full, &ONES, &minus, &[[5.0, INFINITY], [7.0, 0.0]]);
    assert_eq!(rules(&reference), [[Rule::Close, Rule::CloseOrNan]; 2]);
    assert_eq!(reference.elements[0][0].value, 0.0);
    assert_eq!(reference.rows[0].lse, f64::NEG_INFINITY);
}

#[test]
fn non_finite_values_reach_the_rows_that_attend_to_them() {
    for (poison, rule) in [(f32::NAN, Rule::Nan), (INFINITY, Rule::Close), (-INFINITY, Rule::Close)] {
        let reference = reference(Mask::Causal, &ONES, &ONES, &[[5.0, 1.0], [poison, 1.0]]);
        assert_eq!(rules(&reference), [[Rule::CloseOrNan, Rule::Close], [rule, Rule::Close]]);
        assert_eq!(reference.elements[0][0].value, 5.0);
        assert_eq!(reference.elements[1][0].value.to_bits(), f64::from(poison).to_bits(), "{poison}");
    }
}

#[test]
fn infinities_of_both_signs_are_nan() {
    let reference = reference(Mask::Full, &ONES, &ONES, &[[INFINITY, 1.0], [-INFINITY, 1.0]]);
    assert_eq!(rules(&reference), [[Rule::Nan, Rule::Close]; 2]);
}

#[test]
fn an_infinity_whose_weight_may_round_to_zero_may_be_nan() {
    let rule_for = |key: f32| {
        let reference = reference(Mask::Full, &ONES, &[[key, 0.0], [0.0, 0.0]], &[[INFINITY, 1.0], [1.0, 1.0]]);
        assert_eq!(reference.elements[0][0].value, f64::INFINITY);
        reference.elements[0][0].rule
    };
    assert_eq!(rule_for(-9.0), Rule::Close, "exp(−9) > 2⁻¹⁴");
    assert_eq!(rule_for(-10.0), Rule::CloseOrNan, "exp(−10) < 2⁻¹⁴");
    assert_eq!(rule_for(-1000.0), Rule::CloseOrNan, "0 even in f64");
}

#[test]
fn a_scale_of_zero_attends_uniformly_and_keeps_infinite_scores() {
    let problem = problem(2, Mask::Full).with_scale(0.0).unwrap();
    let compute = |k: &[[f32; 2]]| {
        let inputs = Inputs::new(problem, tensor(&ONES), tensor(k), tensor(&[[5.0, 1.0], [7.0, 1.0]])).unwrap();
        Reference::compute(&inputs, |_| ()).elements[0][0].value
    };
    assert_eq!(compute(&[[1.0, 3.0], [-2.0, 0.5]]), 6.0);
    assert_eq!(compute(&[[1.0, 3.0], [-INFINITY, 0.5]]), 5.0);
}
