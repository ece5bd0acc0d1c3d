//! Source of rustc.ptx: `y[i] = shared[i ^ 1] / a` with `shared[i] = 2^(x[i], scaled and incremented i & 7 times)`.
#![no_std]
#![feature(abi_ptx, asm_experimental_arch, stdarch_nvptx)]

use core::arch::nvptx::{_block_dim_x, _block_idx_x, _syncthreads, _thread_idx_x};
use core::arch::{asm, global_asm};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

global_asm!(".extern .shared .align 1024 .b8 dynamic[];");

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Args {
    x: *const f32,
    y: *mut f32,
    size: u32,
    scale: f32,
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn neighbours(args: Args) {
    unsafe {
        let thread = _thread_idx_x() as u32;
        let index = _block_idx_x() as u32 * _block_dim_x() as u32 + thread;
        let mut value = 0.0;
        if index < args.size {
            value = *args.x.add(index as usize);
        }
        let mut rounds = index & 7;
        while rounds > 0 {
            value = value * args.scale + 1.0;
            rounds -= 1;
        }
        let power: f32;
        asm!("ex2.approx.ftz.f32 {}, {};", out(reg32) power, in(reg32) value);
        let address: u64;
        asm!("{{ .reg .u64 t; mov.u64 t, dynamic; cvta.shared.u64 {}, t; }}", out(reg64) address);
        let shared = address as *mut f32;
        *shared.add(thread as usize) = power;
        _syncthreads();
        if index < args.size {
            *args.y.add(index as usize) = *shared.add((thread ^ 1) as usize) / args.scale;
        }
    }
}
