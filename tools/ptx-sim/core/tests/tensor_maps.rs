//! `tensormap.replace`: maps that kernels make and change.

use crate::common::{Kernel, bytes, eight_by_eight, words};
use ptx_sim::{Finding, FindingClass, TensorElement};

/// `gate` for one arrival at `%r1`, `tile` at `%r2`, `map` in shared memory at `%r3`, all zeros; `%r4` is the thread's word of the
/// tile and `%rd1` that of the output; `%leader` is thread 0. The map goes to the output, 256 bytes from its beginning.
const SETUP: &str = ".shared .align 8 .b64 gate; .shared .align 128 .b8 tile[128]; .shared .align 128 .b8 own[128]; .reg .pred %leader;\n\
    mov.u32 %r1, gate; mov.u32 %r2, tile; mov.u32 %r3, own; shl.b32 %r4, %lane, 2; mul.wide.u32 %rd1, %r4, 1;\n\
    add.u64 %rd1, %rd1, %output; add.u32 %r5, %r3, %r4; st.shared.u32 [%r5], 0; add.u32 %r4, %r4, %r2; setp.eq.u32 %leader, %lane, 0;\n\
    @%leader mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster; bar.warp.sync 0xffffffff;\n";
/// Makes a map of the input: 8 × 8 words, boxes of 8 × 4.
const MAKE: &str = "@%leader tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r3], %input;\n\
    @%leader tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r3], 1;\n\
    mov.u32 %r6, 8; mov.u32 %r7, 4; mov.u64 %rd3, 32; mov.u32 %r8, 1;\n\
    @%leader tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r3], 0, %r6;\n\
    @%leader tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r3], 1, %r7;\n\
    @%leader tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3], 0, %r6;\n\
    @%leader tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3], 1, %r6;\n\
    @%leader tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r3], 0, %rd3;\n\
    @%leader tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r3], 0, %r8;\n\
    @%leader tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r3], 1, %r8;\n\
    @%leader tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r3], 2;\n\
    @%leader tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r3], 0;\n\
    @%leader tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r3], 0;\n\
    @%leader tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r3], 0;\n";
const RELEASE: &str = "bar.warp.sync 0xffffffff; add.u64 %rd4, %output, 256;\n\
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd4], [%r3], 128;\n\
    bar.warp.sync 0xffffffff; fence.proxy.tensormap::generic.acquire.gpu [%rd4], 128;\n";
const LOAD: &str = "@%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;\n\
    @%leader cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd4, {0, 2}], [%r1];\n\
    wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra wait;\n\
    ld.shared.u32 %r9, [%r4]; st.global.u32 [%rd1], %r9;\n";

fn kernel(parts: &[&str]) -> Kernel {
    let kernel = Kernel::new(&format!("{SETUP}{}", parts.concat())).on_hopper().with_version("8.5");
    kernel.with_input(bytes(&(0..128).collect::<Vec<u32>>())).with_output_bytes(512)
}

fn found(parts: &[&str]) -> Finding {
    kernel(parts).first_finding()
}

#[test]
fn a_map_is_made_on_the_device() {
    let output = kernel(&[MAKE, RELEASE, LOAD]).run_clean();
    assert_eq!(words(&output)[..32], (16..48).collect::<Vec<u32>>());
}

#[test]
fn fields_of_a_map_are_changed() {
    // By value, the map is copied word by word to shared memory, and its address is moved on by two rows there.
    let copy: String = (0..16)
        .map(|word| format!("ld.param.b64 %rd7, [map+{0}]; @%leader st.shared.b64 [%r3+{0}], %rd7;\n", 8 * word))
        .collect();
    let address =
        "add.u64 %rd8, %input, 64; @%leader tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r3], %rd8;\n";
    let map = eight_by_eight(TensorElement::U32);
    let run = |address: &str| words(&kernel(&[&copy, address, RELEASE, LOAD]).with_tensor_map(map.clone()).run_clean());
    assert_eq!(run("")[..32], (16..48).collect::<Vec<u32>>());
    assert_eq!(run(address)[..32], (32..64).collect::<Vec<u32>>());
}

#[test]
fn maps_that_are_not_finished() {
    let unfinished = MAKE
        .replace("global_dim.shared::cta.b1024.b32 [%r3], 1, %r6", "global_dim.shared::cta.b1024.b32 [%r3], 1, %r8");
    let finding = found(&[
        &unfinished.replace(
            "global_stride.shared::cta.b1024.b64 [%r3], 0, %rd3",
            "global_stride.shared::cta.b1024.b64 [%r3], 0, 24",
        ),
        RELEASE,
        LOAD,
    ]);
    assert_eq!(finding.class, FindingClass::InvalidOperand, "{finding}");
    assert!(finding.message.contains("no tensor map at the address"), "{finding}");
}

#[test]
fn what_no_map_has_is_found() {
    for (replaced, said) in [
        (
            "box_dim.shared::cta.b1024.b32 [%r3], 1, 257",
            "a value of 257 in a field of a tensor map that holds 1 to 256",
        ),
        ("global_dim.shared::cta.b1024.b32 [%r3], 2, 8", "dimension 2 of a tensor map that has 2"),
        ("global_stride.shared::cta.b1024.b64 [%r3], 1, 32", "of which 1 have this field"),
        ("rank.shared::cta.b1024.b32 [%r3], 5", "holds 0 to 4"),
    ] {
        let finding = found(&[MAKE, &format!("@%leader tensormap.replace.tile.{replaced};\n")]);
        assert_eq!(finding.class, FindingClass::InvalidOperand, "{finding}");
        assert!(finding.message.contains(said), "{finding}");
    }
    let elsewhere =
        "@%leader st.shared.u32 [%r3], 7; @%leader tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r3], 1;\n";
    assert!(found(&[elsewhere]).message.contains("no tensor map at the address"));
    let misaligned = "@%leader tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r3+32], 1;\n";
    assert_eq!(found(&[misaligned]).class, FindingClass::Misaligned);
}

#[test]
fn what_is_not_known_is_refused() {
    for form in [
        "fill_mode.shared::cta.b1024.b32 [%r3], 1",
        "interleave_layout.shared::cta.b1024.b32 [%r3], 2",
        "swizzle_mode.shared::cta.b1024.b32 [%r3], 4",
        "elemtype.shared::cta.b1024.b32 [%r3], 8",
        "swizzle_atomicity.shared::cta.b1024.b32 [%r3], 0",
    ] {
        let Err(error) = kernel(&[&format!("tensormap.replace.tile.{form};")]).try_run() else { panic!("{form} ran") };
        assert!(error.to_string().contains("tensormap.replace"), "{error}");
    }
    let Err(error) = kernel(&[MAKE]).with_version("8.3").try_run() else { panic!("it ran") };
    assert!(error.to_string().contains("before PTX 8.5"), "{error}");
}
