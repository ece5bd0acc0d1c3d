//! Reads and checks `fa512_problem`.

use attention::contract::problem::check_head_dim;
use attention::{
    Alignment, Element, Layout, Lengths, Mask, Options, Packing, Problem, ScoreMod, Shape, Slopes, Strides, View,
    Views, Window,
};

use crate::status::Failure;

/// `FA512_NO_OVERLAP`.
const NO_OVERLAP: u32 = 1;
/// `FA512_NO_POINTER_CHECKS`.
const NO_POINTER_CHECKS: u32 = 2;
/// `FA512_BOTTOM_RIGHT`.
const BOTTOM_RIGHT: u32 = 4;
/// `FA512_KEY_LENGTHS`.
const KEY_LENGTHS: u32 = 8;
/// `FA512_PADDED`.
const PADDED: u32 = 16;
/// `FA512_SLOPES_PER_BATCH`.
const SLOPES_PER_BATCH: u32 = 32;
/// `FA512_MASK_FULL`.
const MASK_FULL: u32 = 0;
/// `FA512_MASK_CAUSAL`.
const MASK_CAUSAL: u32 = 1;
/// `FA512_MASK_WINDOW`.
const MASK_WINDOW: u32 = 2;
/// `FA512_UNLIMITED`.
const UNLIMITED: i32 = -1;
/// Size of the struct's first version, the smallest that a program can have.
const FIRST_SIZE: usize = 144;
/// Upper bound on the size of any version; a larger `size` is garbage.
const LARGEST_SIZE: usize = 4096;

/// `fa512_strides`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawStrides {
    pub batch: u64,
    pub head: u64,
    pub row: u64,
}

/// `fa512_problem`. Any bit pattern is valid.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawProblem {
    size: usize,
    batch: u32,
    heads: u32,
    sequence: u32,
    head_dim: u32,
    dtype: u32,
    mask: u32,
    flags: u32,
    reserved: u32,
    scale: f64,
    q: RawStrides,
    k: RawStrides,
    v: RawStrides,
    o: RawStrides,
    sequences: u32,
    longest: u32,
    window_left: i32,
    window_right: i32,
    kv_heads: u32,
    kv_sequence: u32,
    softcap: f64,
    bias: usize,
    bias_strides: RawStrides,
    alibi_slopes: usize,
    workspace: usize,
}

const _: () = assert!(size_of::<RawProblem>() >= FIRST_SIZE && size_of::<RawProblem>() <= LARGEST_SIZE);

/// A checked `fa512_problem`.
pub struct Call {
    /// The problem to compute.
    pub problem: Problem,
    /// The options of the call.
    pub options: Options,
    /// Address of the bias, if there is one.
    pub bias: Option<u64>,
    /// Address of the ALiBi slopes, if there are any.
    pub alibi_slopes: Option<u64>,
    /// Address of the workspace, if there is one.
    pub workspace: Option<u64>,
}

/// An optional address; 0 means none.
pub fn given(address: usize) -> Option<u64> {
    (address != 0).then_some(address as u64)
}

/// Size of the caller's struct, in bytes.
///
/// # Errors
/// When `problem` is null or misaligned, or its `size` is that of no version.
///
/// # Safety
/// `problem` is null or points to a `size_t`.
pub unsafe fn size(problem: *const RawProblem) -> Result<usize, Failure> {
    if problem.is_null() {
        return Err(Failure::Invalid("problem is NULL".into()));
    }
    if !problem.is_aligned() {
        return Err(Failure::Invalid(format!("problem is at {problem:p}, where no struct can be")));
    }
    // SAFETY: it is aligned and not null, and the caller promises a readable `size`.
    let size = unsafe { (&raw const (*problem).size).read() };
    if !(FIRST_SIZE..=LARGEST_SIZE).contains(&size) || size % align_of::<RawProblem>() != 0 {
        return Err(Failure::Invalid(format!("size is {size}; it must be sizeof(fa512_problem)")));
    }
    Ok(size)
}

/// The problem at `problem`; `None` if a dimension is 0 and there is nothing to compute.
///
/// # Errors
/// Names the field that is not acceptable.
///
/// # Safety
/// `problem` is null or points to `size` bytes, `size` being its first field.
pub unsafe fn read(problem: *const RawProblem) -> Result<Option<Call>, Failure> {
    // SAFETY: the caller's promise includes that of `size`.
    let size = unsafe { size(problem) }?;
    // SAFETY: the caller promises `size` readable bytes.
    let bytes = unsafe { std::slice::from_raw_parts(problem.cast::<u8>(), size) };
    let known = size.min(size_of::<RawProblem>());
    if bytes[known..].iter().any(|&byte| byte != 0) {
        return Err(Failure::Unsupported("problem has fields that this version of the library does not know".into()));
    }
    let mut raw = RawProblem::default();
    // SAFETY: both are at least `known` bytes, and any bit pattern is a valid `RawProblem`.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut raw).cast(), known) };
    raw.check()
}

/// One side of the window, in keys; `None`: no limit.
fn side(keys: i32, name: &str) -> Result<Option<u32>, Failure> {
    match u32::try_from(keys) {
        Ok(keys) => Ok(Some(keys)),
        Err(_) if keys == UNLIMITED => Ok(None),
        Err(_) => {
            let accepted = "a number of keys, or FA512_UNLIMITED (-1)";
            Err(Failure::Invalid(format!("{name} is {keys}; it must be {accepted}")))
        }
    }
}

impl RawProblem {
    /// The window that `mask`, `window_left` and `window_right` describe.
    fn window(self) -> Result<Window, Failure> {
        let window = match self.mask {
            MASK_FULL => Window::UNLIMITED,
            MASK_CAUSAL => Window::CAUSAL,
            MASK_WINDOW => {
                return Ok(Window {
                    left: side(self.window_left, "window_left")?,
                    right: side(self.window_right, "window_right")?,
                });
            }
            mask => {
                let accepted = "FA512_MASK_FULL (0), FA512_MASK_CAUSAL (1) or FA512_MASK_WINDOW (2)";
                return Err(Failure::Invalid(format!("mask is {mask}; it must be {accepted}")));
            }
        };
        for (keys, name) in [(self.window_left, "window_left"), (self.window_right, "window_right")] {
            if keys != 0 {
                let message = format!("{name} is {keys} and mask {}; a window needs FA512_MASK_WINDOW (2)", self.mask);
                return Err(Failure::Invalid(message));
            }
        }
        Ok(window)
    }

    /// The score modifications that the fields describe.
    fn score_mod(self) -> Result<ScoreMod, Failure> {
        let RawStrides { batch, head, row } = self.bias_strides;
        if self.bias == 0 && self.bias_strides != RawStrides::default() {
            return Err(Failure::Invalid("bias_strides are given, and bias is NULL".into()));
        }
        let of_batches = self.flags & SLOPES_PER_BATCH != 0;
        if self.alibi_slopes == 0 && of_batches {
            return Err(Failure::Invalid("FA512_SLOPES_PER_BATCH is set, and alibi_slopes is NULL".into()));
        }
        let slopes = if of_batches { Slopes::PerBatchAndHead } else { Slopes::PerHead };
        Ok(ScoreMod {
            softcap: (self.softcap != 0.0).then_some(self.softcap),
            alibi: given(self.alibi_slopes).map(|_| slopes),
            bias: given(self.bias).map(|_| Strides { batch, head, row }),
        })
    }

    /// `problem` as packed or padded sequences, if the fields say so.
    fn with_sequences(self, problem: Problem) -> Result<Problem, Failure> {
        let is_padded = self.flags & PADDED != 0;
        let lengths = if self.flags & KEY_LENGTHS == 0 { Lengths::Shared } else { Lengths::Separate };
        let refused = |message: String| Err(Failure::Invalid(message));
        match (self.sequences, self.longest) {
            (0, 0) if lengths == Lengths::Separate => {
                refused("flags have FA512_KEY_LENGTHS and sequences is 0; it is for packed sequences".into())
            }
            (0, 0) if is_padded => Ok(problem.padded()?),
            (0, 0) => Ok(problem),
            (0, longest) => refused(format!("longest is {longest} and sequences 0; both are for packed sequences")),
            (sequences, _) if is_padded => {
                refused(format!("flags have FA512_PADDED and sequences is {sequences}; sequences are packed or padded"))
            }
            (sequences, longest) => Ok(problem.packed(Packing { lengths, ..Packing::new(sequences, longest) })?),
        }
    }

    fn check(self) -> Result<Option<Call>, Failure> {
        let Self { batch, heads, sequence, head_dim, dtype, flags, reserved, .. } = self;
        check_head_dim(head_dim)?;
        let element = match dtype {
            0 => Element::F16,
            1 => Element::Bf16,
            dtype => {
                let accepted = "FA512_FLOAT16 (0) or FA512_BFLOAT16 (1)";
                return Err(Failure::Invalid(format!("dtype is {dtype}; it must be {accepted}")));
            }
        };
        let window = self.window()?;
        if flags & !(NO_OVERLAP | NO_POINTER_CHECKS | BOTTOM_RIGHT | KEY_LENGTHS | PADDED | SLOPES_PER_BATCH) != 0 {
            return Err(Failure::Invalid(format!(
                "flags are {flags:#x}, of which this version knows 0x1, 0x2, 0x4, 0x8, 0x10 and 0x20"
            )));
        }
        if reserved != 0 {
            return Err(Failure::Invalid(format!("reserved is {reserved}; it must be 0")));
        }
        let score_mod = self.score_mod()?;
        if batch == 0 || heads == 0 || sequence == 0 {
            return Ok(None);
        }
        let unless_given = |given: u32, otherwise: u32| if given == 0 { otherwise } else { given };
        let (kv_heads, kv_sequence) = (unless_given(self.kv_heads, heads), unless_given(self.kv_sequence, sequence));
        let shape = Shape { batch, heads, kv_heads, sequence, kv_sequence, head_dim };
        let alignment = if flags & BOTTOM_RIGHT == 0 { Alignment::TopLeft } else { Alignment::BottomRight };
        let contiguous = Problem::new(shape, Mask::Full, Layout::Bhsd)?.with_element(element);
        let contiguous = contiguous.with_window(window).aligned(alignment);
        let views = *contiguous.views();
        let view = |strides: RawStrides, otherwise: View| match strides {
            RawStrides { batch: 0, head: 0, row: 0 } => otherwise,
            RawStrides { batch, head, row } => View::new(Strides { batch, head, row }),
        };
        let problem = contiguous.with_views(Views {
            q: view(self.q, views.q),
            k: view(self.k, views.k),
            v: view(self.v, views.v),
            o: view(self.o, views.o),
        })?;
        let problem = match self.scale {
            scale if scale == 0.0 || scale.is_nan() => problem,
            scale => problem.with_scale(scale)?,
        };
        let problem = self.with_sequences(problem)?.with_score_mod(score_mod)?;
        let options =
            Options::default().overlap(flags & NO_OVERLAP == 0).check_pointers(flags & NO_POINTER_CHECKS == 0);
        let (bias, alibi_slopes) = (given(self.bias), given(self.alibi_slopes));
        let workspace = given(self.workspace);
        Ok(Some(Call { problem, options, bias, alibi_slopes, workspace }))
    }
}
