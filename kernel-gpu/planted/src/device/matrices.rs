//! Operands of `wgmma` in the stages, and what becomes of accumulators. Kernels of one warpgroup.

use kernel_gpu::codegen::thread::thread_idx_x;
use kernel_gpu::ptx::memory;
use kernel_gpu::ptx::mma::FragmentC;
use kernel_gpu::ptx::wgmma::{self, Accumulators, Descriptor, KMajor, Major, Registers};
use kernel_gpu::shared_tile::{F16, Row, SharedTile, Swizzle128};

use super::element;
use super::stages::{load_bytes_and_wait, stage};
use crate::Arguments;

/// Bytes of operand A: 64 rows of 64 halves.
pub const A_BYTES: u32 = 64 * 128;
/// Bytes of operand B: 16 rows of 64 halves, of which a product takes 8 columns.
pub const B_BYTES: u32 = 16 * 128;

/// The rows of an operand, as [`Descriptor`]s describe them.
pub type Rows = SharedTile<F16, 64, Row<64, Swizzle128>>;

/// The accumulators of a 64×8 tile.
pub type Tile = [FragmentC; 1];

/// Copies both operands from the input to the stages and waits for them.
#[inline(always)]
pub unsafe fn load(arguments: Arguments) {
    load_part(arguments, A_BYTES + B_BYTES);
}

/// The first `bytes` bytes of the operands.
#[inline(always)]
pub unsafe fn load_part(arguments: Arguments, bytes: u32) {
    load_bytes_and_wait(stage(0), arguments.input, bytes);
}

/// The operand that begins so many bytes behind the beginning of the stages.
#[inline(always)]
pub fn operand<M: Major>(offset: u32) -> Descriptor<M, Rows> {
    Descriptor::new(stage(0) + offset)
}

/// Starts D = A·B.
#[inline(always)]
pub unsafe fn multiply<B: Major>(a: Descriptor<KMajor, Rows>, b: Descriptor<B, Rows>) -> Tile {
    Tile::multiply::<F16, _, _>(a, b)
}

/// Starts the product of the operands that [`load`] brought.
#[inline(always)]
pub unsafe fn multiply_loaded() -> Tile {
    multiply(operand(0), operand::<KMajor>(A_BYTES))
}

/// Writes accumulators to the output.
#[inline(always)]
pub unsafe fn write_out(arguments: Arguments, mut d: Tile) {
    d.pin();
    let target = element(arguments.output, thread_idx_x(), 16);
    let [a, b, c, d] = d[0];
    memory::store_global_16(target, [a.to_bits(), b.to_bits(), c.to_bits(), d.to_bits()]);
}

/// Waits for all groups and writes accumulators to the output.
#[inline(always)]
pub unsafe fn wait_and_write_out(arguments: Arguments, d: Tile) {
    wgmma::wait_group::<0>();
    write_out(arguments, d);
}
