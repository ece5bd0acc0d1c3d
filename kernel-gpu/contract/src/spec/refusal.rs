//! Why a problem, a variant or an address is refused. Messages say what was received and what is accepted.

use core::fmt;
use core::ops::Range;

use crate::spec::config::{Element, Family, Mask, Scores, Sequence};
use crate::spec::limits::{
    LENGTHS_ALIGNMENT, MAXIMUM_HEAD_DIM, MAXIMUM_SCALE, MAXIMUM_SEQUENCE, MAXIMUM_SOFTCAP, MAXIMUM_WORK_ITEMS,
    MINIMUM_SOFTCAP, ROW_ALIGNMENT, STRIDE_LIMIT, TENSOR_ALIGNMENT,
};
use crate::spec::shape::Shape;
use crate::spec::tensor::Strides;

pub use crate::spec::tensor::{Dimension, Tensor};

/// Why something is refused: what is wrong, what was received, what is accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// A dimension of the shape is 0.
    EmptyDimension {
        /// Its name: `batch`, `heads`, `kv_heads`, `sequence` or `kv_sequence`.
        name: &'static str,
    },
    /// A sequence is longer than the kernels support.
    SequenceTooLong {
        /// Which one: `sequence` or `kv_sequence`.
        name: &'static str,
        /// Its rows.
        sequence: u32,
    },
    /// K and V have another number of rows than Q, which kernels for one length, and packed sequences with shared lengths, refuse.
    OtherKvSequence {
        /// Rows of Q.
        sequence: u32,
        /// Rows of K and V.
        kv_sequence: u32,
    },
    /// The heads of Q cannot be distributed evenly over those of K and V.
    KvHeads {
        /// Heads of Q.
        heads: u32,
        /// Heads of K and V.
        kv_heads: u32,
    },
    /// D is 0, too large, or not a multiple of a 16-byte chunk.
    HeadDim {
        /// D.
        head_dim: u32,
    },
    /// A contiguous tensor of the shape has strides that do not fit 64 bits.
    TensorTooLarge {
        /// The shape.
        shape: Shape,
    },
    /// A packed problem has more than one batch entry.
    PackedBatch {
        /// B.
        batch: u32,
    },
    /// The problem is packed; the kernel is for sequences of one length.
    Packed,
    /// The problem is not packed; the kernel is for packed sequences.
    NotPacked,
    /// The rows of a padded problem do not divide evenly into its sequences.
    UnequalRoom {
        /// Total number of rows.
        rows: u32,
        /// Number of sequences.
        sequences: u32,
    },
    /// The batch entries of a padded problem do not lie one after another.
    EntriesApart {
        /// Of this tensor.
        tensor: Tensor,
        /// Its batch stride, in elements.
        stride: u64,
        /// What it must be.
        expected: u64,
    },
    /// The address of a length array of a packed problem is missing.
    NoLengths {
        /// Which array.
        lengths: Tensor,
    },
    /// The address of a length array is given that the problem does not have.
    UnexpectedLengths {
        /// Which array.
        lengths: Tensor,
    },
    /// The address of a length array is null or misaligned.
    LengthsAddress {
        /// Which array.
        lengths: Tensor,
        /// The address.
        address: u64,
    },
    /// The scale is negative.
    NegativeScale {
        /// The scale.
        scale: f64,
    },
    /// The scale is not finite or too large.
    ScaleOutOfRange {
        /// The scale.
        scale: f64,
    },
    /// The softcap is outside the supported range.
    SoftcapOutOfRange {
        /// The softcap.
        softcap: f64,
    },
    /// A bias does not fit 64-bit addresses.
    BiasTooLarge {
        /// The shape of the problem.
        shape: Shape,
        /// Strides of the bias.
        strides: Strides,
    },
    /// Packed sequences have a bias.
    PackedBias,
    /// The gradient of a bias is asked for, and the problem has no bias.
    NoBias,
    /// The kernel copies a bias 16 bytes at a time, and not all of its rows are apart by multiples of that.
    UnalignedBias,
    /// The kernel supports score modifications and the problem has none, or vice versa.
    OtherScores {
        /// Whether the kernel supports them.
        computed: Scores,
    },
    /// The problem has a bias or slopes, but their address is missing.
    NoAddress {
        /// The tensor.
        tensor: Tensor,
    },
    /// The address of a bias or slopes is given, but the problem has none.
    UnexpectedAddress {
        /// The tensor.
        tensor: Tensor,
    },
    /// The launch needs a workspace, and none is given.
    NoWorkspace {
        /// Its size.
        bytes: u64,
    },
    /// The address of a bias or slopes is null or misaligned.
    ElementAddress {
        /// The tensor.
        tensor: Tensor,
        /// The address.
        address: u64,
        /// Bytes of an element.
        element: u64,
    },
    /// A stride would misalign rows, which must be 16-byte aligned.
    MisalignedStride {
        /// Of this tensor.
        tensor: Tensor,
        /// Along this dimension.
        dimension: Dimension,
        /// The stride, in elements.
        stride: u64,
    },
    /// An offset would misalign the first row, which must be 16-byte aligned.
    MisalignedOffset {
        /// Of this tensor.
        tensor: Tensor,
        /// The offset, in elements.
        offset: u64,
    },
    /// A tensor does not fit 64-bit addresses.
    ViewTooLarge {
        /// The tensor.
        tensor: Tensor,
        /// Its shape.
        shape: Shape,
        /// Elements before its first one.
        offset: u64,
        /// Its strides, in elements.
        strides: Strides,
    },
    /// Two rows of an output share memory.
    RowsOverlap {
        /// The output.
        tensor: Tensor,
        /// The dimension whose entries overlap.
        dimension: Dimension,
        /// Its stride, in elements.
        stride: u64,
        /// The smallest stride without overlap.
        least: u64,
    },
    /// The kernel is for other sequence lengths.
    OtherSequence {
        /// S of the problem.
        sequence: u32,
        /// What the kernel accepts.
        accepted: Sequence,
    },
    /// The kernel is for other head dimensions.
    OtherHeadDim {
        /// D of the problem.
        head_dim: u32,
        /// The smallest D that the kernel computes.
        least: u32,
        /// The largest D that it computes.
        most: u32,
    },
    /// The kernel is for heads of other numbers of rows.
    OtherRows {
        /// The shape.
        shape: Shape,
    },
    /// The kernel computes dBias and it is not asked for, or vice versa.
    OtherGradients {
        /// Whether the kernel computes dBias.
        computes_d_bias: bool,
    },
    /// The kernel is for another element type.
    OtherElement {
        /// Element type of the problem.
        element: Element,
        /// Element type of the kernel.
        computed: Element,
    },
    /// The kernel applies another mask.
    OtherMask {
        /// Mask of the problem.
        mask: Mask,
        /// Mask of the kernel.
        computed: Mask,
    },
    /// The kernel copies through tensor maps, which cannot describe a tensor's stride.
    NoTensorMap {
        /// The tensor.
        tensor: Tensor,
        /// The dimension with the stride.
        dimension: Dimension,
        /// The stride, in bytes.
        bytes: u64,
    },
    /// The GPU lacks the kernel's instructions.
    OtherArchitecture {
        /// Family of the kernel.
        family: Family,
        /// Architecture of the GPU, such as 90 for `sm_90`.
        architecture: u32,
    },
    /// The kernel needs more shared memory per block than the GPU has.
    SharedMemory {
        /// Bytes that a block needs.
        needed: u32,
        /// Bytes that a block can have.
        available: u32,
    },
    /// There are more work items than one launch can have.
    TooManyWorkItems {
        /// The shape.
        shape: Shape,
        /// Query tiles of a head.
        query_tiles: u32,
    },
    /// An address is null or misaligned.
    Address {
        /// Of this tensor.
        tensor: Tensor,
        /// The address of its first element.
        address: u64,
    },
    /// A tensor ends beyond the address space.
    BeyondAddresses {
        /// The tensor.
        tensor: Tensor,
        /// The address of its first element.
        address: u64,
        /// Its size in bytes.
        bytes: u64,
    },
    /// An output shares memory with another tensor.
    Overlap {
        /// The output.
        output: Tensor,
        /// Its addresses.
        at: Range<u64>,
        /// The other tensor.
        other: Tensor,
        /// Its addresses.
        other_at: Range<u64>,
    },
}

impl core::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::EmptyDimension { name } => write!(formatter, "{name} is 0; it must be at least 1"),
            Refusal::SequenceTooLong { name, sequence } => {
                write!(formatter, "{name} is {sequence}; it must be at most {MAXIMUM_SEQUENCE}")
            }
            Refusal::OtherKvSequence { sequence, kv_sequence } => write!(
                formatter,
                "K and V have {kv_sequence} rows and Q has {sequence}; kernels for one sequence length, and packed sequences with one \
                 cu_seqlens, need equal numbers"
            ),
            Refusal::KvHeads { heads, kv_heads } => write!(
                formatter,
                "Q has {heads} heads, and K and V have {kv_heads}; the heads of Q must be a multiple of those of K and V"
            ),
            Refusal::HeadDim { head_dim } => {
                write!(
                    formatter,
                    "head_dim is {head_dim}; it must be a multiple of {ROW_ALIGNMENT} from {ROW_ALIGNMENT} to {MAXIMUM_HEAD_DIM}"
                )?;
                let missing = head_dim.wrapping_neg() % ROW_ALIGNMENT as u32;
                match (1..MAXIMUM_HEAD_DIM).contains(head_dim) {
                    true => {
                        let columns = if missing == 1 { "column" } else { "columns" };
                        write!(formatter, ": add {missing} {columns} of zeros to Q, K and V, and give the scale")
                    }
                    false => Ok(()),
                }
            }
            Refusal::TensorTooLarge { shape } => {
                write!(formatter, "a tensor of {shape} has strides that do not fit 64 bits; make it smaller")
            }
            Refusal::NegativeScale { scale } => {
                write!(formatter, "scale is {scale}; it must not be negative (negate Q and pass {} instead)", -scale)
            }
            Refusal::ScaleOutOfRange { scale } => {
                write!(formatter, "scale is {scale}; it must be finite, at least 0 and at most {MAXIMUM_SCALE:e}")
            }
            Refusal::SoftcapOutOfRange { softcap } => write!(
                formatter,
                "softcap is {softcap}; it must be from {MINIMUM_SOFTCAP} to {MAXIMUM_SOFTCAP}, or absent"
            ),
            Refusal::BiasTooLarge { shape, strides } => {
                write!(
                    formatter,
                    "a bias of {shape} with {strides:?} does not fit 64-bit addresses; make its strides smaller"
                )
            }
            Refusal::PackedBias => formatter.write_str(
                "packed sequences cannot have a bias, which has a row for each query of a batch (ALiBi and softcap work)",
            ),
            Refusal::NoBias => formatter.write_str("the gradient of a bias was asked for, and the problem has no bias"),
            Refusal::UnalignedBias => formatter
                .write_str("copies 16 bytes of the bias at a time; its strides must be multiples of 8 elements for that"),
            Refusal::OtherScores { computed: Scores::Modified } => {
                formatter.write_str("is for problems with a softcap, ALiBi or a bias, and this one has none")
            }
            Refusal::OtherScores { computed: Scores::Unmodified } => {
                formatter.write_str("computes neither softcap nor ALiBi nor a bias")
            }
            Refusal::NoAddress { tensor } => {
                write!(formatter, "{tensor} is missing; the problem has one, and its address is needed")
            }
            Refusal::UnexpectedAddress { tensor } => {
                write!(formatter, "{tensor} is given, but the problem has none; make it a problem with one")
            }
            Refusal::NoWorkspace { bytes } => {
                write!(formatter, "workspace is missing; the plan needs one of {bytes} bytes, or has to be made without")
            }
            Refusal::ElementAddress { tensor, address, element } => {
                write!(formatter, "{tensor} is at address {address:#x}; it must be a non-zero multiple of {element}")
            }
            Refusal::MisalignedStride { tensor, dimension, stride } => write!(
                formatter,
                "{tensor} has a {dimension} stride of {stride} elements; it must be a multiple of {ROW_ALIGNMENT}, so that \
                 rows are 16-byte aligned"
            ),
            Refusal::MisalignedOffset { tensor, offset } => {
                write!(formatter, "{tensor} starts at element {offset}; it must start at a multiple of {ROW_ALIGNMENT}")
            }
            Refusal::ViewTooLarge { tensor, shape, offset, strides } => {
                write!(formatter, "{tensor} of {shape} with {strides:?}")?;
                if *offset > 0 {
                    write!(formatter, " from element {offset} on")?;
                }
                formatter.write_str(" does not fit 64-bit addresses; make its strides smaller")
            }
            Refusal::RowsOverlap { tensor, dimension, stride, least } => write!(
                formatter,
                "{tensor} has a {dimension} stride of {stride} elements, so that its rows overlap; it must be at least \
                 {least}"
            ),
            Refusal::OtherSequence { sequence, accepted: Sequence::Exact(length) } => {
                write!(formatter, "does not accept sequence {sequence}, only exactly {length}")
            }
            Refusal::OtherSequence { sequence, accepted: Sequence::Any } => {
                write!(formatter, "does not accept sequence {sequence}, only 1 or more")
            }
            Refusal::OtherSequence { sequence, accepted: Sequence::Packed } => {
                write!(formatter, "does not accept sequence {sequence}, only packed sequences")
            }
            Refusal::PackedBatch { batch } => {
                write!(formatter, "a packed problem has batch {batch}; it must be 1, with the rows of all sequences")
            }
            Refusal::Packed => formatter.write_str("computes sequences of one length, not packed ones"),
            Refusal::NotPacked => formatter.write_str("computes packed sequences, not a batch of one length"),
            Refusal::UnequalRoom { rows, sequences } => write!(
                formatter,
                "{rows} rows do not divide into {sequences} sequences of equal room, as a padded batch needs"
            ),
            Refusal::EntriesApart { tensor, stride, expected } => write!(
                formatter,
                "{tensor} has a batch stride of {stride} elements; a padded batch needs its entries one after another, \
                 {expected} apart"
            ),
            Refusal::NoLengths { lengths } => write!(
                formatter,
                "{lengths} is missing; a packed problem needs the address of the rows at which its sequences begin"
            ),
            Refusal::UnexpectedLengths { lengths: Tensor::CuSeqlens } => {
                formatter.write_str("cu_seqlens is given, but the problem is not packed; make it a packed problem")
            }
            Refusal::UnexpectedLengths { lengths } => write!(
                formatter,
                "{lengths} is given, but the problem has no separate lengths of K and V; make it one that has"
            ),
            Refusal::LengthsAddress { lengths, address } => write!(
                formatter,
                "{lengths} is at address {address:#x}; it must be a non-zero multiple of {LENGTHS_ALIGNMENT}"
            ),
            Refusal::OtherRows { shape } => write!(formatter, "does not compute heads of so many rows: {shape}"),
            Refusal::OtherGradients { computes_d_bias: true } => formatter.write_str("computes dBias, too"),
            Refusal::OtherGradients { computes_d_bias: false } => formatter.write_str("does not compute dBias"),
            Refusal::OtherHeadDim { head_dim, least, most } => {
                formatter.write_str("computes a head_dim ")?;
                match least {
                    _ if least == most => write!(formatter, "of exactly {most}")?,
                    1 => write!(formatter, "of at most {most}")?,
                    _ => write!(formatter, "from {least} to {most}")?,
                }
                write!(formatter, ", the problem's is {head_dim}")
            }
            Refusal::OtherElement { element, computed } => {
                write!(formatter, "computes {} tensors, the problem's are {}", computed.name(), element.name())
            }
            Refusal::OtherMask { mask, computed } => {
                write!(formatter, "computes a {} mask, not a {} one", computed.name(), mask.name())
            }
            Refusal::NoTensorMap { tensor, dimension, bytes } => write!(
                formatter,
                "copies {tensor} through a tensor map, which cannot describe its {dimension} stride of {bytes} bytes; it \
                 must be below {STRIDE_LIMIT}"
            ),
            Refusal::OtherArchitecture { family, architecture } => {
                write!(formatter, "needs {}; this GPU is sm_{architecture}", family.requirement())
            }
            Refusal::SharedMemory { needed, available } => {
                write!(formatter, "needs {needed} bytes of shared memory per block; this GPU has {available}")
            }
            Refusal::TooManyWorkItems { shape: Shape { batch, heads, .. }, query_tiles } => write!(
                formatter,
                "batch {batch} × heads {heads} × {query_tiles} query tiles are more than one launch computes \
                 ({MAXIMUM_WORK_ITEMS}); split the batch"
            ),
            Refusal::Address { tensor, address } => write!(
                formatter,
                "{tensor} is at address {address:#x}; it must be a non-zero multiple of {TENSOR_ALIGNMENT}"
            ),
            Refusal::BeyondAddresses { tensor, address, bytes } => {
                write!(formatter, "{tensor} at address {address:#x} with {bytes} bytes ends beyond 64-bit addresses")
            }
            Refusal::Overlap { output, at, other, other_at } => write!(
                formatter,
                "{output} at {at:#x?} overlaps {other} at {other_at:#x?}; outputs need memory of their own"
            ),
        }
    }
}
