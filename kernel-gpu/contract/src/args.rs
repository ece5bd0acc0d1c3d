//! The arguments of the forward entries: [`ForwardArgs`] of every one, and behind it [`TensorMaps`] of those that copy through
//! them.

use core::num::NonZeroU32;

use crate::divisor::Divisor;
use crate::last_round::LastRound;
use crate::longest_first::HeadGroups;

pub use crate::tensor::Strides;

/// Arguments of a forward entry, passed by value; all device addresses.
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
    /// O, `[B,H,S,D]` by `o_strides`, 16-byte aligned; every element is written.
    pub o: u64,
    /// Log-sum-exp, f32, `[B,H,S]` contiguous, natural logarithm; 0 when it is not wanted.
    pub lse: u64,
    /// What is done to scores before the softmax, by entries that change them.
    pub score_mod: ScoreModArgs,
    /// The rows of Q and O at which packed sequences begin, and behind them where the last one ends, i32 `[sequences + 1]`,
    /// 4-byte aligned; 0 where all sequences are of one length, or have equal [room](Self::room).
    pub cu_seqlens: u64,
    /// The same of K and V; the same address where their sequences begin and end with those of Q.
    pub cu_seqlens_k: u64,
    /// Rows of Q that each packed sequence has of those that it has room for, i32 `[sequences]`, 4-byte aligned; 0 for all.
    pub seqused_q: u64,
    /// The same of K and V.
    pub seqused_k: u64,
    /// Strides of Q.
    pub q_strides: Strides,
    /// Strides of K.
    pub k_strides: Strides,
    /// Strides of V.
    pub v_strides: Strides,
    /// Strides of O.
    pub o_strides: Strides,
    /// `scale · log2(e)`, positive and finite: the kernels work in base 2 with the scale folded in. Of capped scores, which are
    /// between −1 and 1 before it is applied, `cap · log2(e)`.
    pub scale_log2: f32,
    /// Rows from a query's own back to the first key that it attends to, of entries with a window; negative where that lies behind
    /// it, `i32::MAX` for no limit.
    pub window_left: i32,
    /// Rows from a query's own on to the last key that it attends to, likewise, but at most the larger of the numbers of rows.
    pub window_right: i32,
    /// S, rows of Q and O; entries specialised for one sequence length require exactly that. Of packed sequences the rows of all: tensors then
    /// have the shape `[1,H,S,D]`.
    pub sequence: u32,
    /// Rows of K and V: those of Q too for entries specialised for one sequence length.
    pub kv_sequence: u32,
    /// Number of packed sequences; 0 where all sequences are of one length.
    pub sequences: u32,
    /// Rows of Q that each sequence has room for, where `cu_seqlens` is 0: sequence `s` begins at row `s · room`.
    pub room: u32,
    /// The same of K and V.
    pub kv_room: u32,
    /// All bits where the last query of each packed sequence is at its last key, for entries with a window; else 0: the first
    /// query is at the first key, or `window_left` and `window_right` say where it is.
    pub bottom_right: u32,
    /// 0: what follows is aligned as it would be without.
    pub reserved: u32,
    /// D, a multiple of 8, at most the columns of the entry's tiles; entries specialised for one sequence length require as
    /// many.
    pub head_dim: u32,
    /// H, number of heads of Q and O.
    pub heads: Divisor,
    /// Heads of Q that share a head of K and V; 1 where each has its own.
    pub group: Divisor,
    /// Query tiles of a head: `ceil(S / block_m)`, or [slots](crate::packed::slots) for them.
    pub query_tiles: Divisor,
    /// Query tiles of all heads, `B · H · query_tiles`: what the blocks of the launch share out among them.
    pub work_items: NonZeroU32,
    /// How the last round of items of one length is dealt out.
    pub last_round: LastRound,
    /// In which order items come whose lengths differ.
    pub head_groups: HeadGroups,
}

/// What is done to scores before their softmax ([`crate::problem::ScoreMod`]); entries that leave them alone do not read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreModArgs {
    /// Bias, `[B,H,S_q,S_k]` by `bias_strides`, of the type of Q, 2-byte aligned; 0 for none.
    pub bias: u64,
    /// ALiBi slopes, f32, 4-byte aligned; 0 for none.
    pub slopes: u64,
    /// Strides of the bias; any of them may be 0.
    pub bias_strides: Strides,
    /// `2 · scale · log2(e) / cap`: of a product q·k, what makes 2 to that power e^(2·s/cap), from which follows the tanh of its
    /// score s, which [`ForwardArgs::scale_log2`] makes a score again. 0 where scores are not capped.
    pub softcap_exponent: f32,
    /// `log2(e) / scale_log2`: what a term is multiplied by that is added to scores before `scale_log2` is applied.
    pub inverse_scale: f32,
    /// Slopes of a batch entry: H, or 0 where all have the same.
    pub slopes_batch: u32,
    /// The key at which query 0 is, for ALiBi's distances.
    pub first_position: i32,
}

impl ScoreModArgs {
    /// Leaves scores as they are.
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

/// Bytes of a tensor map.
pub const TENSOR_MAP_BYTES: u64 = 128;

/// The tensor maps of Q, K, V and O as the driver encodes them (`CUtensorMap`), passed by value: the kernel takes their
/// addresses in the `.param` space.
// A tensor map is aligned to 64 bytes. rustc cannot pass so much by value to an entry, and `cargo xtask ptx` writes it
// into the PTX instead.
#[cfg_attr(not(target_arch = "nvptx64"), repr(C, align(64)))]
#[cfg_attr(target_arch = "nvptx64", repr(C, align(16)))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMaps(pub [[u8; TENSOR_MAP_BYTES as usize]; 4]);

/// Alignment of [`TensorMaps`], bytes.
pub const TENSOR_MAPS_ALIGNMENT: u64 = 64;
/// The alignment that the device compiler gives them, bytes.
pub const TENSOR_MAPS_COMPILED_ALIGNMENT: u64 = 16;
/// Rows of the box that one copy through a tensor map moves to or from shared memory; a tile of more rows takes several
/// copies.
pub const TENSOR_MAP_ROWS: u32 = 64;
/// Most columns of that box: the widest swizzle spans 128 bytes.
pub const TENSOR_MAP_COLUMNS: u32 = 64;

/// Size and alignment of [`ForwardArgs`] in the `.param` space.
pub const FORWARD_ARGS_LAYOUT: core::alloc::Layout = core::alloc::Layout::new::<ForwardArgs>();

const _: () = assert!(
    FORWARD_ARGS_LAYOUT.size() == 5 * 8 + 56 + 4 * 8 + 4 * 24 + 11 * 4 + 3 * 12 + 4 + 36 + 44 + 4
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
    reserved,
    head_dim,
    heads,
    group,
    query_tiles,
    work_items,
    last_round,
    head_groups
);
