//! Asynchronous matrix products of a warpgroup (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
//!
//! Four warps, the first of which has an index that is a multiple of four, multiply a 64×16 matrix A by a 16×N matrix B.
//! Warp w of the four holds rows 16w to 16w + 15 of C and D (and of A, if it comes from registers), in the layout of
//! `mma.sync` ([`super::mma`]): one fragment per 8 columns of D, and one fragment of A.
//!
//! A product is in flight from its instruction to the [`wait_group`] that covers its group. Until then, the registers of D
//! must not be accessed, and those of A and the operands in shared memory must not be written. LLVM does not know this and
//! moves register accesses across assembly that does not name the registers: [`Registers::pin`] them after a wait and
//! before a fence.

use core::arch::asm;
use core::marker::PhantomData;

use super::element::Element;
use super::mma::{FragmentA, FragmentC};
use crate::device::unrolled;
use crate::shared_tile::{self, RowLayout, SharedTile};
use contract::config::{self, MMA_K};

/// Layout of an operand in shared memory: consecutive panels of consecutive rows, each as wide as the swizzle.
pub trait OperandLayout: Copy {
    /// Bytes of a row of a panel: 64 or 128, the span of the swizzle.
    const ROW_BYTES: u32;
    /// Number of panels.
    const PANELS: u32;
    /// Bytes of a panel.
    const PANEL_BYTES: u32;
}

impl<E: shared_tile::Element, const ROWS: u32, L: RowLayout> OperandLayout for SharedTile<E, ROWS, L> {
    const ROW_BYTES: u32 = Self::PITCH;
    const PANELS: u32 = 1;
    const PANEL_BYTES: u32 = Self::BYTES;
}

/// The dimension of an operand that is contiguous in shared memory.
pub trait Major: Copy {
    /// `imm-trans-a`, `imm-trans-b`.
    const TRANSPOSED: u32;

    /// Byte offset of the operand `steps` steps of 16 further along K.
    fn step_bytes<L: OperandLayout>(steps: u32) -> u32;
}

/// A row holds elements along K of one row of A or column of B: Q and K in Q·Kᵀ.
#[derive(Clone, Copy)]
pub struct KMajor;

impl Major for KMajor {
    const TRANSPOSED: u32 = 0;

    #[inline(always)]
    fn step_bytes<L: OperandLayout>(steps: u32) -> u32 {
        let bytes = steps * MMA_K * 2;
        bytes / L::ROW_BYTES * L::PANEL_BYTES + bytes % L::ROW_BYTES
    }
}

/// A row holds columns of B at one depth, such as V in P·V, or rows of A.
#[derive(Clone, Copy)]
pub struct NMajor;

impl Major for NMajor {
    const TRANSPOSED: u32 = 1;

    #[inline(always)]
    fn step_bytes<L: OperandLayout>(steps: u32) -> u32 {
        steps * MMA_K * L::ROW_BYTES
    }
}

/// Descriptor of an operand in shared memory (PTX ISA, "Matrix Descriptor").
///
/// The two halves are separate, since only the low one differs between operands: the descriptor of another operand is one
/// 32-bit addition away, without a carry.
#[derive(Clone, Copy)]
pub struct Descriptor<M, L> {
    low: u32,
    _operand: PhantomData<(M, L)>,
}

impl<M: Major, L: OperandLayout> Descriptor<M, L> {
    /// Leading byte offset, in the low half: distance between panels, if columns of B are in several panels. Ignored
    /// otherwise.
    const LEADING: u32 = if L::PANELS > 1 { encoded(L::PANEL_BYTES) << 16 } else { 1 << 16 };
    /// Stride byte offset, in the high half: distance between groups of 8 rows.
    const STRIDE: u32 = encoded(8 * L::ROW_BYTES);
    /// Swizzle mode, in the high half.
    const SWIZZLE: u32 = match L::ROW_BYTES {
        64 => 2 << 30,
        128 => 1 << 30,
        _ => panic!("no swizzle is as wide as a row of this operand"),
    };

    /// The operand whose rows begin at `address`, which must be aligned to 8 rows, since the swizzle works on address bits.
    #[inline(always)]
    pub fn new(address: u32) -> Self {
        Self { low: encoded(address) | Self::LEADING, _operand: PhantomData }
    }

    /// The operand `steps` steps of 16 further along K.
    #[inline(always)]
    pub fn step(self, steps: usize) -> Self {
        // Does not leave the address field: shared memory ends below 2¹⁸.
        Self { low: self.low + encoded(M::step_bytes::<L>(steps as u32)), ..self }
    }

    /// The operand, of one panel, and as another panel the columns at `address`, which must lie behind it.
    #[inline(always)]
    pub fn with_panel(self, address: u32) -> WithPanel<M, L> {
        let own = self.low & ADDRESS;
        WithPanel { low: (own | encoded(address) << 16) - (own << 16), _operand: PhantomData }
    }

    /// An operand of the same shape, `bytes` further on, with any major dimension. Opaque to the compiler, which would otherwise
    /// recompute the descriptors of all steps from scratch instead of by one addition.
    #[inline(always)]
    pub fn after<N: Major>(self, bytes: u32) -> Descriptor<N, L> {
        let mut low = self.low + encoded(bytes);
        // SAFETY: the assembly is only a comment.
        unsafe { asm!("// a descriptor: {}", inout(reg32) low, options(pure, nomem, nostack, preserves_flags)) };
        Descriptor { low, _operand: PhantomData }
    }
}

/// Descriptor of an operand of one panel with one more panel elsewhere, which stays where it is for all steps along K.
#[derive(Clone, Copy)]
pub struct WithPanel<M, L> {
    low: u32,
    _operand: PhantomData<(M, L)>,
}

impl<M: Major, L: OperandLayout> WithPanel<M, L> {
    /// The operand `steps` steps of 16 further along K; the other panel is that of the first step.
    #[inline(always)]
    pub fn step(self, steps: usize) -> Self {
        let further = encoded(M::step_bytes::<L>(steps as u32));
        // Does not leave either field: the other panel lies behind all steps.
        Self { low: self.low.wrapping_add(further.wrapping_sub(further << 16)), ..self }
    }
}

/// An operand in shared memory, with any layout.
pub trait Operand: Copy {
    /// `imm-trans-a`, `imm-trans-b`.
    const TRANSPOSED: u32;

    /// Its descriptor.
    fn bits(self) -> u64;
}

/// Implements [`Operand`] for a descriptor.
macro_rules! operand {
    ($descriptor:ident) => {
        impl<M: Major, L: OperandLayout> Operand for $descriptor<M, L> {
            const TRANSPOSED: u32 = M::TRANSPOSED;

            #[inline(always)]
            fn bits(self) -> u64 {
                let bits;
                // SAFETY: registers only.
                unsafe {
                    asm!(
                        "mov.b64 {}, {{{}, {}}};",
                        out(reg64) bits, in(reg32) self.low,
                        const Descriptor::<M, L>::STRIDE | Descriptor::<M, L>::SWIZZLE,
                        options(pure, nomem, nostack)
                    );
                }
                bits
            }
        }
    };
}

operand!(Descriptor);
operand!(WithPanel);

/// The address field of a descriptor.
const ADDRESS: u32 = 0x3fff;

/// An address or offset as encoded in a descriptor.
const fn encoded(bytes: u32) -> u32 {
    (bytes & 0x3_ffff) >> 4
}

/// The accumulators of one lane for a 64×N tile. `E` is the element type of A and B.
pub trait Accumulators: Sized {
    /// `wgmma.mma_async` with scale-d = 0: D = A·B.
    ///
    /// # Safety
    /// All warps of the warpgroup execute this together, after [`fence`]; both operands are initialised and visible to the
    /// async proxy. The result is not accessed before the wait for its group.
    unsafe fn multiply<E: Element, A: Operand, B: Operand>(a: A, b: B) -> Self;

    /// `wgmma.mma_async`: D += A·B.
    ///
    /// # Safety
    /// As for [`Accumulators::multiply`]; `self` was not accessed since the fence.
    unsafe fn multiply_accumulate<E: Element, A: Operand, B: Operand>(&mut self, a: A, b: B);

    /// `wgmma.mma_async` with A in registers: D += A·B if `accumulate`, else D = A·B.
    ///
    /// # Safety
    /// As for [`Accumulators::multiply_accumulate`]; `a` is not written between the fence and the wait;
    /// `accumulate` is uniform.
    unsafe fn multiply_fragment<E: Element, B: Operand>(&mut self, a: FragmentA, b: B, accumulate: bool);

    /// [`Accumulators::multiply_fragment`] with a B that has 8 more columns, for which `more` has the accumulators.
    ///
    /// # Safety
    /// As for [`Accumulators::multiply_fragment`], and for `more` as for `self`, which has fewer than 256 columns: a product has at most 256.
    // Without a body of their own, 256 columns.
    #[inline(always)]
    unsafe fn multiply_fragment_and<E: Element, B: Operand>(
        &mut self,
        _more: &mut FragmentC,
        _a: FragmentA,
        _b: B,
        _accumulate: bool,
    ) {
        // SAFETY: the caller's promise.
        unsafe { core::hint::unreachable_unchecked() }
    }
}

/// A `wgmma.mma_async` with `$columns` columns: `$mode` is how it uses the accumulators `$d`, `$a` the template of
/// operand A with values `$value`, and `$transposed` that of the transpositions.
macro_rules! multiply {
    ($columns:literal, $($operands:tt)*) => {
        match E::TYPE {
            config::Element::F16 => multiply!(@ ".f32.f16.f16", $columns, $($operands)*),
            config::Element::Bf16 => multiply!(@ ".f32.bf16.bf16", $columns, $($operands)*),
        }
    };
    (
        @ $types:literal, $columns:literal, $mode:ident $d:ident, scale-d $scale_d:expr,
        $a:literal from $($class:ident $value:expr),+; $b:ident, $transposed:literal $($major:ident)+;
        $first:literal $($rest:literal)*
    ) => {
        instruction!(
            "{{",
            "\t.reg .pred %adds;",
            "\tsetp.ne.b32 %adds, {}, 0;",
            concat!(
                "\twgmma.mma_async.sync.aligned.m64n", $columns, "k16", $types, " {{{}, {}, {}, {}",
                $(four_more!($rest),)* "}}, ", $a, ", {}, %adds, 1, 1, ", $transposed, ";"
            ),
            // Indented, since a brace at the start of a line ends an entry.
            "\t}}",
            in(reg32) u32::from($scale_d),
            $mode(reg32) $d[$first][0], $mode(reg32) $d[$first][1],
            $mode(reg32) $d[$first][2], $mode(reg32) $d[$first][3],
            $(
                $mode(reg32) $d[$rest][0], $mode(reg32) $d[$rest][1],
                $mode(reg32) $d[$rest][2], $mode(reg32) $d[$rest][3],
            )*
            $(in($class) $value,)+
            in(reg64) $b.bits(),
            $(const $major::TRANSPOSED,)+
            options(nostack)
        )
    };
}

/// Placeholders of another fragment in the template.
macro_rules! four_more {
    ($fragment:literal) => {
        ", {}, {}, {}, {}"
    };
}

/// Implements [`Accumulators`] for tiles of `$columns` columns, consisting of the fragments `$fragment…`, which `$last` makes `$all`, if a
/// product has so many.
macro_rules! tile {
    ($columns:literal columns: $($fragment:literal)+; $all:literal: $last:literal) => {
        tile! { @ $columns: $($fragment)+;
            #[inline(always)]
            unsafe fn multiply_fragment_and<E: Element, B: Operand>(
                &mut self,
                more: &mut FragmentC,
                a: FragmentA,
                b: B,
                accumulate: bool,
            ) {
                // Named one by one, the registers stay what they are.
                let mut all = [$(self[$fragment],)+ *more];
                let d = bits_of(&mut all);
                multiply!(
                    $all, inout d, scale-d accumulate,
                    "{{{}, {}, {}, {}}}" from reg32 a[0], reg32 a[1], reg32 a[2], reg32 a[3]; b, "{}" B;
                    $($fragment)+ $last
                );
                $(self[$fragment] = all[$fragment];)+
                *more = all[$last];
            }
        }
    };
    ($columns:literal columns: $($fragment:literal)+) => {
        tile! { @ $columns: $($fragment)+; }
    };
    (@ $columns:literal: $($fragment:literal)+; $($multiply_fragment_and:tt)*) => {
        impl Accumulators for [FragmentC; $columns / 8] {
            #[inline(always)]
            unsafe fn multiply<E: Element, A: Operand, B: Operand>(a: A, b: B) -> Self {
                let mut accumulators = [[0.0; 4]; $columns / 8];
                let d = bits_of(&mut accumulators);
                multiply!($columns, out d, scale-d false, "{}" from reg64 a.bits(); b, "{}, {}" A B; $($fragment)+);
                accumulators
            }

            #[inline(always)]
            unsafe fn multiply_accumulate<E: Element, A: Operand, B: Operand>(&mut self, a: A, b: B) {
                let d = bits_of(self);
                multiply!($columns, inout d, scale-d true, "{}" from reg64 a.bits(); b, "{}, {}" A B; $($fragment)+);
            }

            #[inline(always)]
            unsafe fn multiply_fragment<E: Element, B: Operand>(&mut self, a: FragmentA, b: B, accumulate: bool) {
                let d = bits_of(self);
                multiply!(
                    $columns, inout d, scale-d accumulate,
                    "{{{}, {}, {}, {}}}" from reg32 a[0], reg32 a[1], reg32 a[2], reg32 a[3]; b, "{}" B; $($fragment)+
                );
            }

            $($multiply_fragment_and)*
        }
    };
}

tile!(8 columns: 0; 16: 1);
tile!(32 columns: 0 1 2 3; 40: 4);
tile!(64 columns: 0 1 2 3 4 5 6 7; 72: 8);
tile!(96 columns: 0 1 2 3 4 5 6 7 8 9 10 11; 104: 12);
tile!(128 columns: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; 136: 16);
tile!(192 columns: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23; 200: 24);
tile!(256 columns: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);

/// Registers used by products: accumulators or fragments of A.
pub trait Registers {
    /// Names the registers in assembly that emits no instruction, so that the compiler moves no access to them across this
    /// point.
    fn pin(&mut self);
}

impl<const FRAGMENTS: usize> Registers for [FragmentA; FRAGMENTS] {
    #[inline(always)]
    fn pin(&mut self) {
        unrolled!(at most 32; for n in FRAGMENTS => {
            let [a, b, c, d] = &mut self[n];
            // SAFETY: the assembly is only a comment. Volatile, so that it keeps its place among the surrounding instructions.
            unsafe {
                asm!(
                    "// pinned: {}, {}, {}, {}",
                    inout(reg32) *a, inout(reg32) *b, inout(reg32) *c, inout(reg32) *d,
                    options(nomem, nostack, preserves_flags)
                );
            }
        });
    }
}

/// Copies the fragments to other registers. ptxas serialises products if the registers that one reads were written while another
/// was in flight.
#[inline(always)]
pub fn copied<const FRAGMENTS: usize>(fragments: [FragmentA; FRAGMENTS]) -> [FragmentA; FRAGMENTS] {
    let mut copies = [[0; 4]; FRAGMENTS];
    unrolled!(at most 32; for n in FRAGMENTS => {
        unrolled!(at most 4; for i in 4 => {
            // SAFETY: the assembly only moves registers. Volatile, so that it stays after the preceding wait.
            unsafe { asm!("mov.b32 {}, {};", out(reg32) copies[n][i], in(reg32) fragments[n][i], options(nomem, nostack)) };
        });
    });
    copies
}

impl<const FRAGMENTS: usize> Registers for [FragmentC; FRAGMENTS] {
    #[inline(always)]
    fn pin(&mut self) {
        bits_of(self).pin();
    }
}

/// The accumulators as bits. All assembly here takes bits: with a code generator that has typed registers (libNVVM), an `f32`
/// operand would be moved to and from another register, which touches accumulators in flight. Between two pieces of assembly
/// that take bits no move is needed.
#[inline(always)]
fn bits_of<const FRAGMENTS: usize>(fragments: &mut [FragmentC; FRAGMENTS]) -> &mut [[u32; 4]; FRAGMENTS] {
    // SAFETY: f32 and u32 have the same size and alignment, and every bit pattern is valid for both.
    unsafe { &mut *(&raw mut *fragments).cast() }
}

impl<R: Registers> Registers for [R; 1] {
    #[inline(always)]
    fn pin(&mut self) {
        self[0].pin();
    }
}

impl<A: Registers, B: Registers> Registers for (A, B) {
    #[inline(always)]
    fn pin(&mut self) {
        self.0.pin();
        self.1.pin();
    }
}

/// `wgmma.fence.sync.aligned`: orders the warpgroup's earlier register accesses before the products that follow.
///
/// # Safety
/// All warps of the warpgroup execute this together.
#[inline(always)]
pub unsafe fn fence() {
    instruction!("wgmma.fence.sync.aligned;", options(nostack));
}

/// `wgmma.commit_group.sync.aligned`: the products since the last commit become one group.
///
/// # Safety
/// As for [`fence`].
#[inline(always)]
pub unsafe fn commit_group() {
    instruction!("wgmma.commit_group.sync.aligned;", options(nostack));
}

/// `wgmma.wait_group.sync.aligned`: waits for all groups but the latest `PENDING`.
///
/// # Safety
/// As for [`fence`].
#[inline(always)]
pub unsafe fn wait_group<const PENDING: u32>() {
    instruction!("wgmma.wait_group.sync.aligned {};", const PENDING, options(nostack));
}
