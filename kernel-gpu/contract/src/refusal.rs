//! Why a problem, a variant or an address is refused.

use core::fmt;
use core::ops::Range;

use crate::config::{Element, Family, Mask, Scores, Sequence};
use crate::limits::{
    LENGTHS_ALIGNMENT, MAXIMUM_HEAD_DIM, MAXIMUM_SCALE, MAXIMUM_SEQUENCE, MAXIMUM_SOFTCAP, MAXIMUM_WORK_ITEMS,
    MINIMUM_SOFTCAP, ROW_ALIGNMENT, STRIDE_LIMIT, TENSOR_ALIGNMENT,
};
use crate::shape::Shape;
use crate::tensor::Strides;

pub use crate::tensor::{Dimension, Tensor};

/// Why something is refused: what was wrong, what was received, what would be accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// A dimension of the shape is 0.
    EmptyDimension {
        /// Its name: `batch`, `heads`, `kv_heads`, `sequence` or `kv_sequence`.
        name: &'static str,
    },
    /// The sequence is longer than the kernels count.
    SequenceTooLong {
        /// Which one: `sequence` or `kv_sequence`.
        name: &'static str,
        /// Its rows.
        sequence: u32,
    },
    /// A kernel for one sequence length, or packed sequences, with other numbers of rows of K and V than of Q.
    OtherKvSequence {
        /// Rows of Q.
        sequence: u32,
        /// Rows of K and V.
        kv_sequence: u32,
    },
    /// The heads of Q cannot share those of K and V evenly.
    KvHeads {
        /// Heads of Q.
        heads: u32,
        /// Heads of K and V.
        kv_heads: u32,
    },
    /// A row has no columns, too many, or ends within a 16-byte chunk.
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
    /// The problem is packed, and the kernel is for sequences of one length.
    Packed,
    /// The kernel is for packed problems.
    NotPacked,
    /// Sequences are to be padded whose number does not divide that of the rows.
    UnequalRoom {
        /// Rows of all.
        rows: u32,
        /// Their number.
        sequences: u32,
    },
    /// Batch entries are to be padded sequences, and do not lie one behind the other.
    EntriesApart {
        /// Of this tensor.
        tensor: Tensor,
        /// Its batch stride, in elements.
        stride: u64,
        /// What it must be.
        expected: u64,
    },
    /// A packed problem comes without the address of its lengths.
    NoLengths {
        /// Which ones.
        lengths: Tensor,
    },
    /// The address of lengths comes with a problem that does not have them.
    UnexpectedLengths {
        /// Which ones.
        lengths: Tensor,
    },
    /// Lengths are at an address where no i32 can be.
    LengthsAddress {
        /// Which ones.
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
    /// The softcap is not a number that kernels compute with.
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
    /// A bias for packed sequences.
    PackedBias,
    /// ALiBi slopes for each batch entry, and packed sequences.
    PackedSlopes,
    /// The kernel changes scores and the problem does not, or the other way round.
    OtherScores {
        /// Whether the kernel changes scores.
        computed: Scores,
    },
    /// The problem has a bias or slopes and no address of them comes with it.
    NoAddress {
        /// The tensor.
        tensor: Tensor,
    },
    /// An address of a bias or slopes comes with a problem that has none.
    UnexpectedAddress {
        /// The tensor.
        tensor: Tensor,
    },
    /// A bias or slopes are at an address where none of their elements can be.
    ElementAddress {
        /// The tensor.
        tensor: Tensor,
        /// The address.
        address: u64,
        /// Bytes of an element.
        element: u64,
    },
    /// Rows would not be 16-byte aligned.
    MisalignedStride {
        /// Of this tensor.
        tensor: Tensor,
        /// Along this dimension.
        dimension: Dimension,
        /// The stride, in elements.
        stride: u64,
    },
    /// The first row would not be 16-byte aligned.
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
        /// The least that would keep them apart.
        least: u64,
    },
    /// The kernel is for other sequence lengths.
    OtherSequence {
        /// S of the problem.
        sequence: u32,
        /// What the kernel accepts.
        accepted: Sequence,
    },
    /// The kernel computes rows of other sizes.
    OtherHeadDim {
        /// D of the problem.
        head_dim: u32,
        /// The least that the kernel computes.
        least: u32,
        /// The most that it computes.
        most: u32,
    },
    /// The kernel computes tensors of another element type.
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
    /// The kernel copies through tensor maps, and none describes a tensor.
    NoTensorMap {
        /// The tensor.
        tensor: Tensor,
        /// The dimension whose stride is too large.
        dimension: Dimension,
        /// That stride, in bytes.
        bytes: u64,
    },
    /// The GPU lacks the kernel's instructions.
    OtherArchitecture {
        /// Family of the kernel.
        family: Family,
        /// Architecture of the GPU, as in 90 for `sm_90`.
        architecture: u32,
    },
    /// The GPU gives a block less shared memory than the kernel needs.
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
                 cu_seqlens, have as many of both"
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
                "a bias has a row for each query of a batch; packed sequences have none (ALiBi and softcap do)",
            ),
            Refusal::PackedSlopes => {
                formatter.write_str("alibi_slopes of packed sequences are [heads], the same for all sequences")
            }
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
                "{rows} rows are not of {sequences} sequences with equal room; a padded batch has as many for each"
            ),
            Refusal::EntriesApart { tensor, stride, expected } => write!(
                formatter,
                "{tensor} has a batch stride of {stride} elements; a padded batch needs its entries one behind the other, with \
                 {expected}"
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
                "{lengths} is given, but the problem is not one whose keys have lengths of their own; make it one"
            ),
            Refusal::LengthsAddress { lengths, address } => write!(
                formatter,
                "{lengths} is at address {address:#x}; it must be a non-zero multiple of {LENGTHS_ALIGNMENT}"
            ),
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
