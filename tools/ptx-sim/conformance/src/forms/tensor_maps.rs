//! Tensor maps that kernels make (`tensormap.replace`) and release (`tensormap.cp_fenceproxy`), seen by the copies that use them.

use crate::case::Case;
use crate::kernel::Kernel;
use crate::values::Values;

/// `gate` for one arrival at `%r1`, `tile` at `%r2`, a map in shared memory at `%r3`, all zeros; `%r4` is the thread's word of the tile,
/// `%rd1` that of the output, and `%rd4` where the map goes; `%p2` holds in thread 0.
const SETUP: &str = ".shared .align 8 .b64 gate;\n.shared .align 128 .b8 tile[128];\n.shared .align 128 .b8 own[128];\n\
    mov.u32 %r1, gate;\nmov.u32 %r2, tile;\nmov.u32 %r3, own;\nshl.b32 %r4, %thread, 2;\nmul.wide.u32 %rd1, %r4, 1;\n\
    add.u64 %rd1, %rd1, %output;\nadd.u32 %r5, %r3, %r4;\nst.shared.u32 [%r5], 0;\nadd.u32 %r4, %r4, %r2;\n\
    add.u64 %rd4, %input, 512;\nsetp.eq.u32 %p2, %thread, 0;\n@%p2 mbarrier.init.shared::cta.b64 [%r1], 1;\n\
    fence.mbarrier_init.release.cluster;\nbar.warp.sync 0xffffffff;\n";
const RELEASE: &str = "bar.warp.sync 0xffffffff;\n\
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.SCOPE.sync.aligned [%rd4], [%r3], 128;\n\
    bar.warp.sync 0xffffffff;\nfence.proxy.tensormap::generic.acquire.SCOPE [%rd4], 128;\n";
/// Gives up after a while, so that a wrong case does not hang a GPU.
const LOAD: &str = "@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;\n\
    @%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd4, {0, 2}], [%r1];\n\
    mov.u32 %r9, 0;\nwait: add.u32 %r9, %r9, 1;\nsetp.gt.u32 %p3, %r9, 100000;\n@%p3 trap;\n\
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n@!%p1 bra wait;\nld.shared.u32 %r9, [%r4];\nst.global.u32 [%rd1], %r9;\n";

/// The cases of tensor maps.
pub fn cases() -> Vec<Case> {
    // Elements, their bytes, and the fields that say so.
    let kinds = [
        ("u8", 1, 0),
        ("u16", 2, 1),
        ("u32", 4, 2),
        ("s64", 8, 5),
        ("f16", 2, 6),
        ("f32", 4, 7),
        ("f64", 8, 9),
        ("bf16", 2, 10),
    ];
    let made = kinds.into_iter().map(|(name, bytes, number)| {
        // Rows of 32 bytes, of which a box has four.
        let replace = |field: &str, rest: &str| {
            let width = if field.starts_with("global_address") || field.starts_with("global_stride") { 64 } else { 32 };
            format!("@%p2 tensormap.replace.tile.{field}.shared::cta.b1024.b{width} [%r3], {rest};\n")
        };
        let fields = [
            ("global_address", "%input".to_owned()),
            ("rank", "1".to_owned()),
            ("box_dim", format!("0, {}", 32 / bytes)),
            ("box_dim", "1, 4".to_owned()),
            ("global_dim", format!("0, {}", 32 / bytes)),
            ("global_dim", "1, 16".to_owned()),
            ("global_stride", "0, 32".to_owned()),
            ("element_stride", "0, 1".to_owned()),
            ("element_stride", "1, 1".to_owned()),
            ("elemtype", number.to_string()),
            ("interleave_layout", "0".to_owned()),
            ("swizzle_mode", "1".to_owned()),
            ("fill_mode", "0".to_owned()),
        ];
        let scope = ["cta", "cluster", "gpu", "sys"][number as usize % 4];
        let make: String = fields.iter().map(|(field, rest)| replace(field, rest)).collect();
        let name = format!("tensormap.replace of a map of {name}");
        let input = Values::of(&name).bytes(1024);
        let body = format!("{SETUP}{make}{}{LOAD}", RELEASE.replace("SCOPE", scope));
        Kernel::new(name, body).version("8.5").input(input).output(128).finish()
    });
    made.collect()
}
