//! Where the tensors of a launch lie in device memory, and whether they can lie there.

use core::ops::Range;

use crate::config::ELEMENT_BYTES;
use crate::limits::{LENGTHS_ALIGNMENT, TENSOR_ALIGNMENT};
use crate::packed::{Lengths, Packing};
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::tensor::Tensor;
use crate::view::View;

/// Bytes of an element of LSE, which is f32.
const LSE_ELEMENT_BYTES: u64 = 4;
/// Bytes of an ALiBi slope, which is f32.
pub const SLOPE_BYTES: u64 = 4;

/// Device addresses of the tensors of a launch, from which their views are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Q.
    pub q: u64,
    /// K.
    pub k: u64,
    /// V.
    pub v: u64,
    /// O.
    pub o: u64,
    /// LSE, f32, `[B,H,S]` contiguous; `None` when it is not wanted.
    pub lse: Option<u64>,
    /// The rows of Q and O at which the sequences of a packed problem begin, and behind them where the last one ends: i32
    /// `[sequences + 1]`. `None` when all sequences are of one length, or padded.
    pub cu_seqlens: Option<u64>,
    /// The same of K and V, where they have lengths of their own ([`Lengths::Separate`]).
    pub cu_seqlens_k: Option<u64>,
    /// Rows of Q that each sequence has of those that it has room for, i32 `[sequences]`; `None` for all of them. Only where
    /// K and V have lengths of their own. Rows of O behind them are not written.
    pub seqused_q: Option<u64>,
    /// The same of K and V.
    pub seqused_k: Option<u64>,
    /// The bias of a problem with one, of the type of Q, 2-byte aligned.
    pub bias: Option<u64>,
    /// The ALiBi slopes of a problem with them: f32, contiguous.
    pub alibi_slopes: Option<u64>,
}

impl Addresses {
    /// Those of Q, K, V and O, without anything else.
    pub const fn new(q: u64, k: u64, v: u64, o: u64) -> Self {
        let (cu_seqlens, cu_seqlens_k, seqused_q, seqused_k) = (None, None, None, None);
        let (lse, bias, alibi_slopes) = (None, None, None);
        Self { q, k, v, o, lse, cu_seqlens, cu_seqlens_k, seqused_q, seqused_k, bias, alibi_slopes }
    }

    /// Those of lengths, with their names.
    pub const fn lengths(&self) -> [(Tensor, Option<u64>); 4] {
        [
            (Tensor::CuSeqlens, self.cu_seqlens),
            (Tensor::CuSeqlensK, self.cu_seqlens_k),
            (Tensor::SequsedQ, self.seqused_q),
            (Tensor::SequsedK, self.seqused_k),
        ]
    }
}

/// Addresses of the first elements of the four tensors with views.
pub(super) struct FirstElements {
    pub q: u64,
    pub k: u64,
    pub v: u64,
    pub o: u64,
}

/// The addresses of the first elements of the tensors of `problem`, none of which overlaps an output.
pub(super) fn check(problem: &Problem, addresses: Addresses) -> Result<FirstElements, Refusal> {
    let (shape, views) = (problem.shape(), problem.views());
    let range = |tensor, address| {
        let bytes = problem.extent(tensor) * ELEMENT_BYTES;
        tensor_range(tensor, first_element(tensor, address, views.of(tensor))?, bytes)
    };
    let inputs = [
        (Tensor::Q, range(Tensor::Q, addresses.q)?),
        (Tensor::K, range(Tensor::K, addresses.k)?),
        (Tensor::V, range(Tensor::V, addresses.v)?),
    ];
    let o = (Tensor::O, range(Tensor::O, addresses.o)?);
    check_apart(&o, &inputs)?;
    // A problem's rows fit 64 bits, as its O does.
    let bytes = (shape.rows() as u64).saturating_mul(LSE_ELEMENT_BYTES);
    let lse = addresses.lse.map(|address| tensor_range(Tensor::Lse, address, bytes)).transpose()?;
    let lse = lse.map(|range| (Tensor::Lse, range));
    if let Some(lse) = &lse {
        check_apart(lse, &inputs)?;
        check_apart(lse, core::slice::from_ref(&o))?;
    }
    let score_mod = problem.score_mod();
    let elements = |count: Option<u64>, bytes| count.map(|count| (count, bytes));
    let bias = elements(score_mod.bias_extent(shape), ELEMENT_BYTES);
    let slopes = elements(score_mod.slopes(shape), SLOPE_BYTES);
    let [cu_seqlens, cu_seqlens_k, seqused_q, seqused_k] = addresses.lengths();
    let others = [
        lengths_range(problem, cu_seqlens)?,
        lengths_range(problem, cu_seqlens_k)?,
        lengths_range(problem, seqused_q)?,
        lengths_range(problem, seqused_k)?,
        elements_range(Tensor::Bias, addresses.bias, bias)?,
        elements_range(Tensor::Slopes, addresses.alibi_slopes, slopes)?,
    ];
    for other in others.into_iter().flatten() {
        check_apart(&o, core::slice::from_ref(&other))?;
        if let Some(lse) = &lse {
            check_apart(lse, core::slice::from_ref(&other))?;
        }
    }
    let [q, k, v] = inputs.map(|(_, range)| range.start);
    Ok(FirstElements { q, k, v, o: o.1.start })
}

/// Where `tensor`, lengths of a packed problem, lies, if it is given.
fn lengths_range(
    problem: &Problem,
    (tensor, address): (Tensor, Option<u64>),
) -> Result<Option<(Tensor, Range<u64>)>, Refusal> {
    let Some(address) = address else {
        return match lengths_are_needed(problem, tensor) {
            true => Err(Refusal::NoLengths { lengths: tensor }),
            false => Ok(None),
        };
    };
    let elements = lengths_elements(problem, tensor).ok_or(Refusal::UnexpectedLengths { lengths: tensor })?;
    if address == 0 || address % LENGTHS_ALIGNMENT != 0 {
        return Err(Refusal::LengthsAddress { lengths: tensor, address });
    }
    Ok(Some((tensor, range_from(tensor, address, elements * LENGTHS_ALIGNMENT)?)))
}

/// Elements of `tensor`, lengths that `problem` may come with; `None` for those that it does not have.
pub const fn lengths_elements(problem: &Problem, tensor: Tensor) -> Option<u64> {
    let Some(Packing { sequences, lengths, .. }) = problem.packing() else { return None };
    match (tensor, lengths) {
        (Tensor::CuSeqlens, Lengths::Shared | Lengths::Separate) | (Tensor::CuSeqlensK, Lengths::Separate) => {
            Some(sequences as u64 + 1)
        }
        (Tensor::SequsedQ | Tensor::SequsedK, Lengths::Separate | Lengths::Padded) => Some(sequences as u64),
        _ => None,
    }
}

/// Whether a problem that has them does not do without.
const fn lengths_are_needed(problem: &Problem, tensor: Tensor) -> bool {
    lengths_elements(problem, tensor).is_some() && matches!(tensor, Tensor::CuSeqlens | Tensor::CuSeqlensK)
}

/// The address of the first element of `view`.
fn first_element(tensor: Tensor, address: u64, view: View) -> Result<u64, Refusal> {
    if address == 0 || address % TENSOR_ALIGNMENT != 0 {
        return Err(Refusal::Address { tensor, address });
    }
    let bytes = view.offset * ELEMENT_BYTES;
    address.checked_add(bytes).ok_or(Refusal::BeyondAddresses { tensor, address, bytes })
}

fn tensor_range(tensor: Tensor, address: u64, bytes: u64) -> Result<Range<u64>, Refusal> {
    if address == 0 || address % TENSOR_ALIGNMENT != 0 {
        return Err(Refusal::Address { tensor, address });
    }
    range_from(tensor, address, bytes)
}

/// So many bytes from `address` on.
fn range_from(tensor: Tensor, address: u64, bytes: u64) -> Result<Range<u64>, Refusal> {
    match address.checked_add(bytes) {
        Some(end) => Ok(address..end),
        None => Err(Refusal::BeyondAddresses { tensor, address, bytes }),
    }
}

/// Where a tensor of so many elements of so many bytes lies, which a problem has or not.
fn elements_range(
    tensor: Tensor,
    address: Option<u64>,
    elements: Option<(u64, u64)>,
) -> Result<Option<(Tensor, Range<u64>)>, Refusal> {
    let (address, (count, element)) = match (address, elements) {
        (None, None) => return Ok(None),
        (None, Some(_)) => return Err(Refusal::NoAddress { tensor }),
        (Some(_), None) => return Err(Refusal::UnexpectedAddress { tensor }),
        (Some(address), Some(elements)) => (address, elements),
    };
    if address == 0 || address % element != 0 {
        return Err(Refusal::ElementAddress { tensor, address, element });
    }
    Ok(Some((tensor, range_from(tensor, address, count.saturating_mul(element))?)))
}

fn check_apart((output, at): &(Tensor, Range<u64>), others: &[(Tensor, Range<u64>)]) -> Result<(), Refusal> {
    for (other, other_at) in others {
        if at.start < other_at.end && other_at.start < at.end {
            let (output, other) = (*output, *other);
            return Err(Refusal::Overlap { output, at: at.clone(), other, other_at: other_at.clone() });
        }
    }
    Ok(())
}
