//! Reference values of some rows of O in f64, to discard wrong candidates before the fastest is chosen. `fa512` checks the whole
//! of O.

use half::{bf16, f16};

use crate::problem::Problem;
use crate::shape::{Element, Shape};

/// Rows per sequence that are checked, besides the last.
const ROWS: usize = 5;
/// Absolute and relative tolerance of an element.
const TOLERANCE: f64 = 2e-2;

/// Rows of O.
pub struct Reference {
    rows: Vec<Row>,
    element: Element,
}

struct Row {
    /// Index of its first element in O.
    at: usize,
    values: Vec<f64>,
}

/// The number that `bits` stand for.
fn number(element: Element, bits: u16) -> f64 {
    match element {
        Element::F16 => f16::from_bits(bits).to_f64(),
        Element::Bf16 => bf16::from_bits(bits).to_f64(),
    }
}

impl Reference {
    /// Rows of the first and the last sequence, of Q, K and V.
    pub fn new(problem: &Problem, q: &[u16], k: &[u16], v: &[u16]) -> Self {
        let queries = problem.queries;
        let last = queries.sequence - 1;
        let rows: std::collections::BTreeSet<usize> =
            (0..ROWS).map(|row| row * queries.sequence / ROWS).chain([last]).collect();
        let heads = std::collections::BTreeSet::from([(0, 0), (queries.batch - 1, queries.heads - 1)]);
        let all = heads.iter().flat_map(|&head| rows.iter().map(move |&row| (head, row)));
        Self {
            rows: all.map(|(head, row)| Row::new(problem, [q, k, v], head, row)).collect(),
            element: problem.element,
        }
    }

    /// Where `o` differs by more than the tolerance, as text; `None` if it does not.
    pub fn difference(&self, o: &[u16]) -> Option<String> {
        self.rows
            .iter()
            .flat_map(|row| row.values.iter().enumerate().map(|(column, &value)| (row.at + column, value)))
            .find_map(|(at, expected)| {
                let found = number(self.element, o[at]);
                let near = (found - expected).abs() <= TOLERANCE + TOLERANCE * expected.abs();
                (!near).then(|| format!("element {at} of O is {found}, not {expected:.4}"))
            })
    }
}

impl Row {
    fn new(problem: &Problem, [q, k, v]: [&[u16]; 3], (batch, head): (usize, usize), row: usize) -> Self {
        let (queries, keys) = (problem.queries, problem.keys);
        let columns = queries.columns;
        let at = |shape: Shape, row: usize| {
            let [of_batch, of_head, of_row, _] = shape.strides(problem.layout);
            batch * of_batch + head * of_head + row * of_row
        };
        let number = |bits: &u16| number(problem.element, *bits);
        let elements =
            |tensor: &[u16], place: usize| tensor[place..place + columns].iter().map(number).collect::<Vec<_>>();
        let query = elements(q, at(queries, row));
        let attended = match problem.causal {
            true => (row + 1 + keys.sequence).saturating_sub(queries.sequence),
            false => keys.sequence,
        };
        let scale = 1.0 / (columns as f64).sqrt();
        let scores: Vec<f64> = (0..attended)
            .map(|key| elements(k, at(keys, key)).iter().zip(&query).map(|(k, q)| k * q).sum::<f64>() * scale)
            .collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let mut values = vec![0.0; columns];
        for (key, weight) in weights.iter().enumerate() {
            for (value, v) in values.iter_mut().zip(elements(v, at(keys, key))) {
                *value += weight / sum * v;
            }
        }
        Self { at: at(queries, row), values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Layout;

    fn bits(numbers: impl Iterator<Item = f64>) -> Vec<u16> {
        numbers.map(|number| f16::from_f64(number).to_bits()).collect()
    }

    #[test]
    fn a_row_is_the_mean_of_the_values_that_it_attends_to() {
        let shape = Shape { batch: 1, heads: 2, sequence: 4, columns: 8 };
        let problem =
            Problem { queries: shape, keys: shape, layout: Layout::Bshd, element: Element::F16, causal: true };
        let zeros = vec![0; shape.elements()];
        // Value of key s in head h: s, and 10 more in head 1.
        let v = bits((0..shape.elements()).map(|at| (at / 16) as f64 + if at / 8 % 2 == 1 { 10.0 } else { 0.0 }));
        let reference = Reference::new(&problem, &zeros, &zeros, &v);
        let right =
            bits((0..shape.elements()).map(|at| (at / 16) as f64 / 2.0 + if at / 8 % 2 == 1 { 10.0 } else { 0.0 }));
        assert_eq!(reference.difference(&right), None);
        let mut wrong = right.clone();
        *wrong.last_mut().unwrap() = f16::NAN.to_bits();
        assert_eq!(reference.difference(&wrong), Some("element 63 of O is NaN, not 11.5000".into()));
        let full = Reference::new(&Problem { causal: false, ..problem }, &zeros, &zeros, &v);
        assert!(full.difference(&right).is_some(), "the first row attends to all keys");
    }

    #[test]
    fn a_query_before_every_key_is_zero() {
        let queries = Shape { batch: 1, heads: 1, sequence: 4, columns: 8 };
        let keys = Shape { sequence: 2, ..queries };
        let problem = Problem { queries, keys, layout: Layout::Bhsd, element: Element::F16, causal: true };
        let ones = bits(std::iter::repeat_n(1.0, 32));
        let reference = Reference::new(&problem, &ones, &ones[..16], &ones[..16]);
        let o = bits((0..32).map(|at| if at < 16 { 0.0 } else { 1.0 }));
        assert_eq!(reference.difference(&o), None);
    }
}
