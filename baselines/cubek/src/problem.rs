//! Supported problems of cubek-attention.

use crate::protocol::{Prepare, Refusal};
use crate::shape::{Element, Layout, Shape};

/// Maximum relative difference of the scale from 1/√D.
const SCALE_TOLERANCE: f64 = 1e-6;

/// A problem that cubek-attention computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// Q, and O.
    pub queries: Shape,
    /// K and V.
    pub keys: Shape,
    /// The order of dimensions of all tensors.
    pub layout: Layout,
    /// The type of all tensors.
    pub element: Element,
    /// Whether the mask is causal, aligned to the end: query i attends to keys up to i + S_k − S_q.
    pub causal: bool,
}

impl Problem {
    /// The problem of `request`, with tensors of these shapes.
    ///
    /// # Errors
    /// For options that cubek-attention does not support.
    pub fn new(request: &Prepare, queries: Shape, keys: Shape) -> Result<Self, Refusal> {
        let refuse = |what: &str| Err(Refusal::invalid(format!("cubek-attention {what}")));
        let element = match request.element.as_str() {
            "f16" => Element::F16,
            "bf16" => Element::Bf16,
            other => return refuse(&format!("is not asked for elements of type {other}; there are f16 and bf16")),
        };
        if (queries.batch, queries.columns) != (keys.batch, keys.columns) {
            return refuse(&format!("computes no {queries:?} with {keys:?}"));
        }
        if queries.heads != keys.heads {
            return refuse(&format!(
                "has as many heads of K and V as of Q; these are {} and {}",
                keys.heads, queries.heads
            ));
        }
        if request.bias.is_some() || request.slopes.is_some() {
            return refuse("adds nothing to scores");
        }
        if request.softcap.is_some() {
            return refuse("has no softcap");
        }
        let own = 1.0 / (queries.columns as f64).sqrt();
        if (request.scale / own - 1.0).abs() > SCALE_TOLERANCE {
            return refuse(&format!("has the scale 1/√D, {own}; this is {}", request.scale));
        }
        let last = keys.sequence as i64 - queries.sequence as i64;
        let causal = match request.rows_around {
            [None, None] => false,
            [None, Some(right)] if right == last => true,
            [None, Some(_)] => {
                return refuse("has a causal mask in which the last query attends to the last key, and no other");
            }
            _ => return refuse("has no windows"),
        };
        Ok(Self { queries, keys, layout: request.layout, element, causal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Request, request};
    use serde_json::{Value, json};

    const QUERIES: Shape = Shape { batch: 2, heads: 4, sequence: 100, columns: 64 };

    /// The problem of a plain request modified by `changes`.
    fn problem(changes: Value, queries: Shape, keys: Shape) -> Result<Problem, Refusal> {
        let mut plain = json!({"command": "prepare", "id": 0, "backend": "accelerated", "q": "q", "k": "k", "v": "v", "layout": "bhsd",
            "rows_around": [null, null], "scale": 0.125, "element": "f16", "bias": null, "slopes": null, "softcap": null});
        for (name, value) in changes.as_object().expect("changes") {
            plain[name] = value.clone();
        }
        let Ok(Request::Prepare(prepare)) = request(&plain.to_string()) else { panic!("not a request: {plain}") };
        Problem::new(&prepare, queries, keys)
    }

    fn refusal(changes: Value, keys: Shape) -> String {
        problem(changes, QUERIES, keys).expect_err("must be refused").error().to_owned()
    }

    #[test]
    fn full_and_causal_masks_are_computed() {
        assert!(!problem(json!({}), QUERIES, QUERIES).unwrap().causal);
        let causal = problem(json!({"rows_around": [null, 0], "element": "bf16"}), QUERIES, QUERIES).unwrap();
        assert_eq!((causal.causal, causal.element), (true, Element::Bf16));
        let longer = Shape { sequence: 150, ..QUERIES };
        assert!(problem(json!({"rows_around": [null, 50]}), QUERIES, longer).unwrap().causal, "aligned at the end");
    }

    #[test]
    fn what_there_is_no_argument_for_is_refused_with_the_reason() {
        let longer = Shape { sequence: 150, ..QUERIES };
        for (changes, keys, reason) in [
            (json!({"rows_around": [8, 0]}), QUERIES, "has no windows"),
            (json!({"rows_around": [null, 0]}), longer, "the last query attends to the last key"),
            (json!({"bias": "b"}), QUERIES, "adds nothing to scores"),
            (json!({"slopes": [[0.5]]}), QUERIES, "adds nothing to scores"),
            (json!({"softcap": 30.0}), QUERIES, "has no softcap"),
            (json!({"scale": 0.1}), QUERIES, "has the scale 1/√D, 0.125; this is 0.1"),
            (json!({"element": "f8"}), QUERIES, "elements of type f8"),
            (json!({}), Shape { heads: 2, ..QUERIES }, "these are 2 and 4"),
            (json!({}), Shape { columns: 32, ..QUERIES }, "computes no"),
        ] {
            let refused = refusal(changes, keys);
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
