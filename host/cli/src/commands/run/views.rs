//! Command-line strides and offsets of individual tensors.

use std::str::FromStr;

use crate::error::Result;
use contract::args::Strides;
use contract::problem::Problem;
use contract::view::{View, Views};

/// One of the four tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tensor {
    Q,
    K,
    V,
    O,
}

impl Tensor {
    fn view(self, views: &mut Views) -> &mut View {
        match self {
            Tensor::Q => &mut views.q,
            Tensor::K => &mut views.k,
            Tensor::V => &mut views.v,
            Tensor::O => &mut views.o,
        }
    }
}

impl FromStr for Tensor {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        match name {
            "Q" | "q" => Ok(Tensor::Q),
            "K" | "k" => Ok(Tensor::K),
            "V" | "v" => Ok(Tensor::V),
            "O" | "o" => Ok(Tensor::O),
            _ => Err(format!("{name:?} is not a tensor; there are Q, K, V and O")),
        }
    }
}

/// The strides of a tensor, `TENSOR=BATCH,HEAD,ROW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorStride {
    tensor: Tensor,
    strides: Strides,
}

/// The offset of a tensor, `TENSOR=ELEMENTS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorOffset {
    tensor: Tensor,
    elements: u64,
}

impl FromStr for TensorStride {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (tensor, strides) = assignment(text)?;
        let numbers: Vec<u64> = strides.split(',').map(number).collect::<std::result::Result<_, _>>()?;
        let [batch, head, row] = numbers[..] else {
            return Err(format!("{strides:?} has {} strides; there are three: batch,head,row", numbers.len()));
        };
        Ok(Self { tensor, strides: Strides { batch, head, row } })
    }
}

impl FromStr for TensorOffset {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (tensor, elements) = assignment(text)?;
        Ok(Self { tensor, elements: number(elements)? })
    }
}

fn assignment(text: &str) -> std::result::Result<(Tensor, &str), String> {
    let (tensor, value) = text.split_once('=').ok_or_else(|| format!("{text:?} has no ="))?;
    Ok((tensor.parse()?, value))
}

fn number(text: &str) -> std::result::Result<u64, String> {
    text.trim().parse().map_err(|error| format!("{text:?} is not a number of elements: {error}"))
}

/// `problem` with the requested strides and offsets.
pub fn apply(problem: Problem, strides: &[TensorStride], offsets: &[TensorOffset]) -> Result<Problem> {
    let mut views = *problem.views();
    for TensorStride { tensor, strides } in strides {
        tensor.view(&mut views).strides = *strides;
    }
    for TensorOffset { tensor, elements } in offsets {
        tensor.view(&mut views).offset = *elements;
    }
    Ok(problem.with_views(views)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::config::Mask;
    use contract::problem::Shape;
    use contract::view::Layout;

    #[test]
    fn strides_and_offsets_go_to_their_tensor() {
        let problem = Problem::new(Shape::new(1, 2, 3), Mask::Full, Layout::Bhsd).unwrap();
        let strides = ["k=900,400,72", "O=0,512,64"].map(|text| text.parse().unwrap());
        let offsets = ["O=16", "V=8"].map(|text| text.parse().unwrap());
        let applied = apply(problem, &strides, &offsets).unwrap();
        assert_eq!(applied.views().k.strides, Strides { batch: 900, head: 400, row: 72 });
        assert_eq!(applied.views().o.strides.head, 512);
        assert_eq!(applied.views().q.strides, problem.views().q.strides);
        assert_eq!(applied.views().named().map(|(_, view)| view.offset), [0, 0, 8, 16]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let stride = |text: &str| text.parse::<TensorStride>().unwrap_err();
        assert_eq!(stride("Q"), "\"Q\" has no =");
        assert_eq!(stride("X=1,2,3"), "\"X\" is not a tensor; there are Q, K, V and O");
        assert_eq!(stride("Q=1,2"), "\"1,2\" has 2 strides; there are three: batch,head,row");
        assert!(stride("Q=1,2,-3").starts_with("\"-3\" is not a number of elements"));
    }
}
