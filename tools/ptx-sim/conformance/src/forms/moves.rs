//! Copies between registers, packing and unpacking, special registers.

use crate::case::Case;
use crate::kernel::Kernel;
use crate::lanewise::{Row, exact, sequence};

const ROWS: &[Row] = &[
    exact("mov.{b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64,pred}", "T = T"),
    sequence("mov.b32 packing b16", "b32 = b16 b16", "mov.b32 d0, {a0, a1};"),
    sequence("mov.b64 packing b32", "b64 = b32 b32", "mov.b64 d0, {a0, a1};"),
    sequence("mov.b64 packing b16", "b64 = b16 b16 b16 b16", "mov.b64 d0, {a0, a1, a2, a3};"),
    sequence("mov.b32 unpacking b16", "b16 b16 = b32", "mov.b32 {d0, d1}, a0;"),
    sequence("mov.b64 unpacking b32", "b32 b32 = b64", "mov.b64 {d0, d1}, a0;"),
    sequence("mov.b64 unpacking b16", "b16 b16 b16 b16 = b64", "mov.b64 {d0, d1, d2, d3}, a0;"),
];

/// Special registers with a value that the launch decides.
const REGISTERS: [&str; 27] = [
    "%tid.x",
    "%tid.y",
    "%tid.z",
    "%ntid.x",
    "%ntid.y",
    "%ntid.z",
    "%ctaid.x",
    "%ctaid.y",
    "%ctaid.z",
    "%nctaid.x",
    "%nctaid.y",
    "%nctaid.z",
    "%laneid",
    "%lanemask_eq",
    "%lanemask_lt",
    "%lanemask_le",
    "%lanemask_gt",
    "%lanemask_ge",
    "%clusterid.x",
    "%nclusterid.x",
    "%cluster_ctaid.x",
    "%cluster_nctaid.x",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%dynamic_smem_size",
    "%tid.x",
    "WARP_SZ",
];

/// The cases of this class.
pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = ROWS.iter().flat_map(Row::cases).collect();
    cases.push(special_registers());
    cases
}

fn special_registers() -> Case {
    let registers: String = REGISTERS
        .iter()
        .enumerate()
        .map(|(index, register)| format!("mov.u32 %r1, {register};\nst.global.u32 [%rd1+{}], %r1;\n", 4 * index))
        .collect();
    let bytes = 4 * REGISTERS.len();
    let body = format!("mad.wide.u32 %rd1, %thread, {bytes}, %output;\n{registers}");
    Kernel::new("mov.u32 of special registers", body).threads(64).output(64 * bytes).finish()
}
