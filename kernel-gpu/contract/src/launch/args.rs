//! Arguments of the forward entries: [`ForwardArgs`] for all of them, and a second argument, [`TensorMaps`], for those that
//! copy through tensor maps.

use core::num::NonZeroU32;

use crate::schedule::divisor::Divisor;
use crate::schedule::last_round::LastRound;
use crate::schedule::longest_first::HeadGroups;

pub use crate::spec::tensor::Strides;

/// First argument of a forward entry, passed by value. All addresses are device addresses.
///
/// Both sides of the launch read this definition: the host writes its bytes, the kernel reads its fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ForwardArgs {
    /// Q, `[B,H,S,D]` by `q_strides`, 16-byte aligned.
    pub q: u64,
    /// K, `[B,H,S,D]` by `k_strides`, 16-byte aligned.
    pub k: u64,
    /// V, `[B,H,S,D]` by `v_strides`, 16-byte aligned.
    pub v: u64,
    /// O, `[B,H,S,D]` by `o_strides`, 16-byte aligned; every element is written, except rows that `seqused_q` excludes.
    pub o: u64,
    /// Log-sum-exp, f32, `[B,H,S]` contiguous, natural logarithm; 0 if not requested.
    pub lse: u64,
    /// Score modifications, read by entries that support them.
    pub score_mod: ScoreModArgs,
    /// First row of each packed sequence in Q and O, then the end of the last: i32 `[sequences + 1]`, 4-byte aligned. 0 if all
    /// sequences have one length, or equal [room](Self::room).
    pub cu_seqlens: u64,
    /// The same for K and V; the same address if their sequences are those of Q.
    pub cu_seqlens_k: u64,
    /// Rows of Q that each packed sequence uses, i32 `[sequences]`, 4-byte aligned; 0: all.
    pub seqused_q: u64,
    /// The same for K and V.
    pub seqused_k: u64,
    /// What the [parts](crate::schedule::parts) of items leave for one another, 16-byte aligned; 0 if the keys of items are not split.
    pub part_results: u64,
    /// Strides of Q.
    pub q_strides: Strides,
    /// Strides of K.
    pub k_strides: Strides,
    /// Strides of V.
    pub v_strides: Strides,
    /// Strides of O.
    pub o_strides: Strides,
    /// `scale · log2(e)`, positive and finite: the kernels compute in base 2 with the scale folded in. With softcap it is
    /// `cap · log2(e)`, applied to scores between −1 and 1.
    pub scale_log2: f32,
    /// Rows from a query back to the first key that it attends to, for entries with a window. Negative if that key is after the
    /// query; `i32::MAX` for no limit.
    pub window_left: i32,
    /// Rows from a query forward to the last key that it attends to, likewise; at most the larger of the numbers of rows.
    pub window_right: i32,
    /// S, rows of Q and O; entries specialised for one sequence length require exactly that. For packed sequences the total number of
    /// rows: tensors then have shape `[1,H,S,D]`.
    pub sequence: u32,
    /// Rows of K and V; equal to those of Q for entries specialised for one sequence length.
    pub kv_sequence: u32,
    /// Number of packed sequences; 0 if all sequences have one length.
    pub sequences: u32,
    /// Rows of Q reserved for each sequence if `cu_seqlens` is 0: sequence `s` begins at row `s · room`.
    pub room: u32,
    /// The same for K and V.
    pub kv_room: u32,
    /// For entries with a window: all bits set if the last query of each packed sequence is at its last key. Else 0: the first
    /// query is at the first key, or at the position that `window_left` and `window_right` account for.
    pub bottom_right: u32,
    /// Number of parts of an item that the launch combines; 0 if it attends to keys.
    pub combined_parts: u32,
    /// D, a multiple of 8, at most the columns of the entry's tiles. Entries specialised for one sequence length require D to
    /// equal them.
    pub head_dim: u32,
    /// H, number of heads of Q and O.
    pub heads: Divisor,
    /// Heads of Q that share a head of K and V; 1 without sharing.
    pub group: Divisor,
    /// Query tiles of a head: `ceil(S / block_m)`; for packed sequences their [slots](crate::schedule::packed::slots).
    pub query_tiles: Divisor,
    /// Query tiles of all heads, `B · H · query_tiles`, distributed over the blocks of the launch.
    pub work_items: NonZeroU32,
    /// How the last round is distributed if all items have one length.
    pub last_round: LastRound,
    /// The order of items if their lengths differ.
    pub head_groups: HeadGroups,
}

/// Score modifications ([`crate::spec::problem::ScoreMod`]). Entries that do not support them do not read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreModArgs {
    /// Bias, `[B,H,S_q,S_k]` by `bias_strides`, of the type of Q, 2-byte aligned; 0: none.
    pub bias: u64,
    /// ALiBi slopes, f32, 4-byte aligned; 0: none.
    pub slopes: u64,
    /// Strides of the bias; any may be 0.
    pub bias_strides: Strides,
    /// `2 · scale · log2(e) / cap`. With x this times q·k, 2^x = e^(2·s/cap) for the score s, from which tanh(s/cap) is computed;
    /// [`ForwardArgs::scale_log2`] then multiplies by the cap. 0: no softcap.
    pub softcap_exponent: f32,
    /// `log2(e) / scale_log2`: factor on terms that are added to scores before `scale_log2` is applied.
    pub inverse_scale: f32,
    /// Slopes per batch entry, or per packed sequence: H, or 0 if all share them.
    pub slopes_batch: u32,
    /// Key position of query 0, for ALiBi's distances.
    pub first_position: i32,
}

impl ScoreModArgs {
    /// No score modifications.
    pub const NONE: Self = Self {
        bias: 0,
        slopes: 0,
        bias_strides: Strides { batch: 0, head: 0, row: 0 },
        softcap_exponent: 0.0,
        inverse_scale: 0.0,
        slopes_batch: 0,
        first_position: 0,
    };
}

/// Size of a tensor map, bytes.
pub const TENSOR_MAP_BYTES: u64 = 128;

/// The encoded tensor maps of Q, K, V and O (`CUtensorMap`), passed by value. The kernel takes their addresses in the
/// `.param` space.
// A tensor map must be aligned to 64 bytes. rustc cannot pass an argument of that alignment to an entry, so
// `cargo xtask ptx` writes the alignment into the PTX.
#[cfg_attr(not(target_arch = "nvptx64"), repr(C, align(64)))]
#[cfg_attr(target_arch = "nvptx64", repr(C, align(16)))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMaps(pub [[u8; TENSOR_MAP_BYTES as usize]; 4]);

/// Required alignment of [`TensorMaps`], bytes.
pub const TENSOR_MAPS_ALIGNMENT: u64 = 64;
/// Alignment that the device compiler emits for them, bytes.
pub const TENSOR_MAPS_COMPILED_ALIGNMENT: u64 = 16;

/// Size and alignment of [`ForwardArgs`] in the `.param` space.
pub const FORWARD_ARGS_LAYOUT: core::alloc::Layout = core::alloc::Layout::new::<ForwardArgs>();

const _: () = assert!(
    FORWARD_ARGS_LAYOUT.size() == 5 * 8 + 56 + 5 * 8 + 4 * 24 + 11 * 4 + 3 * 12 + 4 + 36 + 44 + 4
        && FORWARD_ARGS_LAYOUT.align() == 8
);

/// Name, offset and size in bytes of one field of [`ForwardArgs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Field name.
    pub name: &'static str,
    /// Offset from the start of the argument, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
}

macro_rules! fields {
    ($($name:ident),*) => {
        &[$(Field {
            name: stringify!($name),
            offset: core::mem::offset_of!(ForwardArgs, $name),
            size: size_of_field(|args: &ForwardArgs| &args.$name),
        }),*]
    };
}

const fn size_of_field<T>(_: fn(&ForwardArgs) -> &T) -> usize {
    size_of::<T>()
}

/// The fields of [`ForwardArgs`] in order, for the manifest.
pub const FORWARD_ARGS_FIELDS: &[Field] = fields!(
    q,
    k,
    v,
    o,
    lse,
    score_mod,
    cu_seqlens,
    cu_seqlens_k,
    seqused_q,
    seqused_k,
    part_results,
    q_strides,
    k_strides,
    v_strides,
    o_strides,
    scale_log2,
    window_left,
    window_right,
    sequence,
    kv_sequence,
    sequences,
    room,
    kv_room,
    bottom_right,
    combined_parts,
    head_dim,
    heads,
    group,
    query_tiles,
    work_items,
    last_round,
    head_groups
);
