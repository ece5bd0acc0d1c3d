//! Device addresses of a launch's tensors, and their checks.

use core::ops::Range;

use crate::spec::config::ELEMENT_BYTES;
use crate::spec::limits::{LENGTHS_ALIGNMENT, TENSOR_ALIGNMENT};
use crate::spec::packing::{Lengths, Packing};
use crate::spec::problem::Problem;
use crate::spec::refusal::Refusal;
use crate::spec::tensor::Tensor;
use crate::spec::view::{RowsAt, View};

/// Bytes of an element of LSE, which is f32.
const LSE_ELEMENT_BYTES: u64 = 4;
/// Bytes of an ALiBi slope, which is f32.
pub const SLOPE_BYTES: u64 = 4;

/// Device addresses of a launch's tensors, which their views count from.
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
    /// LSE, f32, `[B,H,S]` contiguous; `None` if not requested.
    pub lse: Option<u64>,
    /// First row of each packed sequence in Q and O, then the end of the last: i32 `[sequences + 1]`. `None` if all sequences
    /// have one length, or are padded.
    pub cu_seqlens: Option<u64>,
    /// The same for K and V, if they have other lengths than Q ([`Lengths::Separate`]).
    pub cu_seqlens_k: Option<u64>,
    /// Rows of Q that each sequence uses, i32 `[sequences]`; `None`: all. Only if K and V have other lengths than Q. Rows of O
    /// beyond them are not written.
    pub seqused_q: Option<u64>,
    /// The same for K and V.
    pub seqused_k: Option<u64>,
    /// The bias, if the problem has one, of the type of Q, 2-byte aligned.
    pub bias: Option<u64>,
    /// The ALiBi slopes, if the problem has them: f32, contiguous.
    pub alibi_slopes: Option<u64>,
    /// The workspace, if the plan needs one ([`Plan::workspace_bytes`](super::Plan::workspace_bytes)), 16-byte aligned. It may contain
    /// anything, and nothing else may use it until the launches have completed.
    pub workspace: Option<u64>,
}

impl Addresses {
    /// Addresses of Q, K, V and O only.
    pub const fn new(q: u64, k: u64, v: u64, o: u64) -> Self {
        let (cu_seqlens, cu_seqlens_k, seqused_q, seqused_k) = (None, None, None, None);
        let (lse, bias, alibi_slopes, workspace) = (None, None, None, None);
        Self { q, k, v, o, lse, cu_seqlens, cu_seqlens_k, seqused_q, seqused_k, bias, alibi_slopes, workspace }
    }

    /// The addresses of the length arrays, with their names.
    pub const fn lengths(&self) -> [(Tensor, Option<u64>); 4] {
        [
            (Tensor::CuSeqlens, self.cu_seqlens),
            (Tensor::CuSeqlensK, self.cu_seqlens_k),
            (Tensor::SequsedQ, self.seqused_q),
            (Tensor::SequsedK, self.seqused_k),
        ]
    }
}

/// Addresses of the first elements of Q, K, V and O.
pub(crate) struct FirstElements {
    pub q: u64,
    pub k: u64,
    pub v: u64,
    pub o: u64,
    /// The workspace; 0 if none is needed.
    pub workspace: u64,
}

/// The addresses of the first elements of the tensors of `problem` and of a workspace of `workspace_bytes`, checked: aligned, and no
/// output overlaps another tensor.
pub(crate) fn check(problem: &Problem, workspace_bytes: u64, addresses: Addresses) -> Result<FirstElements, Refusal> {
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
    if check_apart(&o, &inputs).is_err() {
        // Rows of O may lie between those of an input.
        let rows =
            |(tensor, range): &(Tensor, Range<u64>)| RowsAt::new(range.start, views.of(*tensor), shape.of(*tensor));
        for input in inputs.iter().filter(|input| !rows(&o).are_apart_from(&rows(input))) {
            check_apart(&o, core::slice::from_ref(input))?;
        }
    }
    // A problem's rows fit 64 bits, since its O does.
    let bytes = (shape.rows() as u64).saturating_mul(LSE_ELEMENT_BYTES);
    let lse = addresses.lse.map(|address| tensor_range(Tensor::Lse, address, bytes)).transpose()?;
    let lse = lse.map(|range| (Tensor::Lse, range));
    if let Some(lse) = &lse {
        check_apart(lse, &inputs)?;
        check_apart(lse, core::slice::from_ref(&o))?;
    }
    let others = others(problem, &addresses)?;
    for other in others.iter().flatten() {
        check_apart(&o, core::slice::from_ref(other))?;
        if let Some(lse) = &lse {
            check_apart(lse, core::slice::from_ref(other))?;
        }
    }
    let workspace = workspace_range(addresses.workspace, workspace_bytes)?;
    if let Some(workspace) = &workspace {
        check_apart(workspace, &inputs)?;
        check_apart(workspace, core::slice::from_ref(&o))?;
        for other in lse.iter().chain(others.iter().flatten()) {
            check_apart(workspace, core::slice::from_ref(other))?;
        }
    }
    let [q, k, v] = inputs.map(|(_, range)| range.start);
    Ok(FirstElements { q, k, v, o: o.1.start, workspace: workspace.map_or(0, |(_, range)| range.start) })
}

/// A tensor and the addresses of its memory.
pub(crate) type Occupied = (Tensor, Range<u64>);

/// The memory ranges of the other inputs that `problem` has: lengths, bias and slopes.
pub(crate) fn others(problem: &Problem, addresses: &Addresses) -> Result<[Option<Occupied>; 6], Refusal> {
    let (score_mod, shape) = (problem.score_mod(), problem.shape());
    let elements = |count: Option<u64>, bytes| count.map(|count| (count, bytes));
    let bias = elements(score_mod.bias_extent(shape), ELEMENT_BYTES);
    let slopes = elements(score_mod.slopes(shape, problem.packing()), SLOPE_BYTES);
    let [cu_seqlens, cu_seqlens_k, seqused_q, seqused_k] = addresses.lengths();
    Ok([
        lengths_range(problem, cu_seqlens)?,
        lengths_range(problem, cu_seqlens_k)?,
        lengths_range(problem, seqused_q)?,
        lengths_range(problem, seqused_k)?,
        elements_range(Tensor::Bias, addresses.bias, bias)?,
        elements_range(Tensor::Slopes, addresses.alibi_slopes, slopes)?,
    ])
}

/// The memory range of the workspace; `None` if no bytes of it are needed.
fn workspace_range(address: Option<u64>, bytes: u64) -> Result<Option<(Tensor, Range<u64>)>, Refusal> {
    if bytes == 0 {
        return Ok(None);
    }
    let address = address.ok_or(Refusal::NoWorkspace { bytes })?;
    Ok(Some((Tensor::Workspace, tensor_range(Tensor::Workspace, address, bytes)?)))
}

/// The memory range of length array `tensor` of a packed problem, if given.
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

/// Number of elements of length array `tensor` for `problem`; `None` if the problem does not have it.
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

/// Whether a problem that has this length array requires it.
const fn lengths_are_needed(problem: &Problem, tensor: Tensor) -> bool {
    lengths_elements(problem, tensor).is_some() && matches!(tensor, Tensor::CuSeqlens | Tensor::CuSeqlensK)
}

/// The address of the first element of `view`.
pub(crate) fn first_element(tensor: Tensor, address: u64, view: View) -> Result<u64, Refusal> {
    if address == 0 || address % TENSOR_ALIGNMENT != 0 {
        return Err(Refusal::Address { tensor, address });
    }
    let bytes = view.offset * ELEMENT_BYTES;
    address.checked_add(bytes).ok_or(Refusal::BeyondAddresses { tensor, address, bytes })
}

pub(crate) fn tensor_range(tensor: Tensor, address: u64, bytes: u64) -> Result<Range<u64>, Refusal> {
    if address == 0 || address % TENSOR_ALIGNMENT != 0 {
        return Err(Refusal::Address { tensor, address });
    }
    range_from(tensor, address, bytes)
}

/// The range of `bytes` bytes at `address`.
pub(crate) fn range_from(tensor: Tensor, address: u64, bytes: u64) -> Result<Range<u64>, Refusal> {
    match address.checked_add(bytes) {
        Some(end) => Ok(address..end),
        None => Err(Refusal::BeyondAddresses { tensor, address, bytes }),
    }
}

/// The range of a tensor of `elements` (number, bytes of each), if the problem has it.
pub(crate) fn elements_range(
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

pub(crate) fn check_apart((output, at): &(Tensor, Range<u64>), others: &[(Tensor, Range<u64>)]) -> Result<(), Refusal> {
    for (other, other_at) in others {
        if at.start < other_at.end && other_at.start < at.end {
            let (output, other) = (*output, *other);
            return Err(Refusal::Overlap { output, at: at.clone(), other, other_at: other_at.clone() });
        }
    }
    Ok(())
}
