//! Limits of a launch, and the alignment of its tensors. Checks compare with these constants, and messages name
//! them.

/// Longest sequence: the end of the last tile of Q, plus as many keys, must fit a signed 32-bit integer.
pub const MAXIMUM_SEQUENCE: u32 = (1 << 30) - 512;
/// Maximum columns of a row: those of the widest tiles.
pub const MAXIMUM_HEAD_DIM: u32 = 256;
/// Maximum number of work items of a launch: blocks in the x dimension of a grid (CUDA C++ Programming Guide,
/// "Technical Specifications").
pub const MAXIMUM_WORK_ITEMS: u64 = (1 << 31) - 1;

/// Largest scale: up to it, the scores of standard normal Q and K are ones that f32 resolves
/// (docs/use/README.md#edges), and no finite fp16 Q and K make one overflow.
pub const MAXIMUM_SCALE: f64 = 1e5;
/// Smallest effective scale; a smaller one (also 0) is replaced by it. It makes every finite score 0 to working precision,
/// and −∞ · scale is still −∞.
pub const MINIMUM_SCALE: f64 = f32::MIN_POSITIVE as f64;
/// [`MINIMUM_SCALE`] with score modifications. A bias is divided by the scale; below 3·10⁸ it then does not overflow.
pub const MINIMUM_MODIFIED_SCALE: f64 = 1e-30;
/// Smallest softcap: below it, scores would no longer distinguish keys.
pub const MINIMUM_SOFTCAP: f64 = 1e-3;
/// Largest softcap: above it, the f32 rounding error of tanh, 2⁻²³ of the cap, would be visible in O.
pub const MAXIMUM_SOFTCAP: f64 = 1e3;

/// Elements of a 16-byte chunk: offsets and strides of rows must be multiples of it.
pub const ROW_ALIGNMENT: u64 = 8;
/// Alignment of every tensor in device memory, bytes.
pub const TENSOR_ALIGNMENT: u64 = 16;
/// Alignment of `cu_seqlens` and `seqused`, and the size of their elements, bytes.
pub const LENGTHS_ALIGNMENT: u64 = 4;
/// Strides of a tensor map, in bytes, are below this (CUDA driver API, `cuTensorMapEncodeTiled`). They may be 0, and in any
/// order: copies of an H200 through such maps are among the vectors of `tools/ptx-sim/conformance`.
pub const STRIDE_LIMIT: u64 = 1 << 40;
