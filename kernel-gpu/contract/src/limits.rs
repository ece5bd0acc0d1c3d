//! What a launch accepts at most and at least, and how it wants its tensors aligned: the numbers that checks compare with and
//! messages name.

/// Longest sequence: the end of the last tile of Q and as many keys behind it are counted in 32 bits with a sign.
pub const MAXIMUM_SEQUENCE: u32 = (1 << 30) - 512;
/// Most columns of a row: as many as the widest tiles have.
pub const MAXIMUM_HEAD_DIM: u32 = 128;
/// Largest number of work items of a launch: of blocks in the x dimension of a grid (CUDA C++ Programming Guide,
/// "Technical Specifications").
pub const MAXIMUM_WORK_ITEMS: u64 = (1 << 31) - 1;

/// Largest scale: up to here no finite fp16 Q and K make a score overflow f32 (128 · 65504² · 1e26 · log2 e < 2¹²⁸).
pub const MAXIMUM_SCALE: f64 = 1e26;
/// Smallest scale that is applied as such; one below it (0 included) acts as this one, which makes every finite score 0
/// to working precision and still keeps −∞ · scale at −∞.
pub const MINIMUM_SCALE: f64 = f32::MIN_POSITIVE as f64;
/// [`MINIMUM_SCALE`] of changed scores, to which a bias is added divided by the scale: below 3·10⁸ it does not overflow.
pub const MINIMUM_MODIFIED_SCALE: f64 = 1e-30;
/// Smallest softcap: below it, no score could tell two keys apart.
pub const MINIMUM_SOFTCAP: f64 = 1e-3;
/// Largest softcap: above it, the rounding of tanh in f32, 2⁻²³ of the cap, would be seen in O.
pub const MAXIMUM_SOFTCAP: f64 = 1e3;

/// Elements of a 16-byte chunk: every row must start on a multiple of it.
pub const ROW_ALIGNMENT: u64 = 8;
/// Alignment of every tensor in device memory, bytes.
pub const TENSOR_ALIGNMENT: u64 = 16;
/// Alignment of `cu_seqlens` and `seqused`, and bytes of each of their elements.
pub const LENGTHS_ALIGNMENT: u64 = 4;
/// Strides of a tensor map, in bytes, are below this (CUDA driver API, `cuTensorMapEncodeTiled`). They may be 0 and in any
/// order: what an H200 copied through such maps is among the vectors of `tools/ptx-conformance`.
pub const STRIDE_LIMIT: u64 = 1 << 40;
