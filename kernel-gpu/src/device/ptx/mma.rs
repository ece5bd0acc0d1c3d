//! Warp-level matrix multiply-accumulate (PTX ISA, "Warp-level Matrix Instructions: mma.sync", m16n8k16).
//!
//! With g = lane / 4 and t = lane mod 4:
//! A (16×16, row): registers hold (row, columns) (g, 2t..), (g+8, 2t..), (g, 2t+8..), (g+8, 2t+8..), two elements each.
//! B (16×8, column): registers hold (rows, column) (2t.., g), (2t+8.., g), two elements each.
//! C, D (16×8): registers hold (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1).

use core::arch::asm;

use super::element::Element;
use contract::config;

/// A 16×16 fragment of packed pairs of elements.
pub type FragmentA = [u32; 4];
/// A 16×8 fragment of f32.
pub type FragmentC = [f32; 4];

/// `mma.sync.aligned.m16n8k16.row.col.f32`: C += A·B, of elements `E`.
///
/// # Safety
/// Every lane of the warp executes this together.
#[inline(always)]
pub unsafe fn multiply_accumulate<E: Element>(c: &mut FragmentC, a: FragmentA, b: [u32; 2]) {
    // SAFETY: warp together.
    unsafe {
        match E::TYPE {
            config::Element::F16 => multiply!("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", c, a, b),
            config::Element::Bf16 => multiply!("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", c, a, b),
        }
    }
}

/// The instruction with the given operands.
macro_rules! multiply {
    ($instruction:literal, $c:ident, $a:ident, $b:ident) => {{
        let [mut c0, mut c1, mut c2, mut c3] = *$c;
        // Not `pure`: a collective instruction must not be moved into a branch.
        asm!(
            concat!(
                $instruction,
                " {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};"
            ),
            inout(reg32) c0, inout(reg32) c1, inout(reg32) c2, inout(reg32) c3,
            in(reg32) $a[0], in(reg32) $a[1], in(reg32) $a[2], in(reg32) $a[3],
            in(reg32) $b[0], in(reg32) $b[1],
            options(nomem, nostack)
        );
        *$c = [c0, c1, c2, c3];
    }};
}
use multiply;
