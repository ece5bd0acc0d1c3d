//! Loads, stores and atomics in every state space.

use crate::common::{Kernel, bytes, words};
use ptx_sim::FindingClass;

/// `%rd0` = output + 4·lane.
const OUTPUT: &str = "mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output;";
/// `%rd1` = input + 16·lane.
const INPUT: &str = "mul.wide.u32 %rd1, %lane, 16; add.u64 %rd1, %rd1, %input;";

fn kernel(body: &str) -> Kernel {
    let input: Vec<u32> = (0..128).map(|index| 0xff00_0000 + index).collect();
    Kernel::new(&format!("{OUTPUT}{INPUT}{body}")).with_input(bytes(&input)).with_output_bytes(128)
}

#[test]
fn vectors_are_loaded_in_order() {
    let body = "ld.global.nc.v4.u32 {%r0, %r1, %r2, %r3}, [%rd1]; st.global.u32 [%rd0], %r2;";
    assert_eq!(words(&kernel(body).run_clean())[5], 0xff00_0000 + 4 * 5 + 2);
    let body = "ld.global.v2.b64 {%rd2, %rd3}, [%rd1]; mov.b64 {%r0, %r1}, %rd3; st.global.b32 [%rd0], %r1;";
    assert_eq!(words(&kernel(body).run_clean())[5], 0xff00_0000 + 4 * 5 + 3);
}

#[test]
fn narrow_loads_are_extended() {
    let signed = words(&kernel("ld.global.s8 %r0, [%rd1+3]; st.global.u32 [%rd0], %r0;").run_clean());
    assert_eq!(signed[0], 0xffff_ffff);
    let unsigned = words(&kernel("ld.global.u8 %r0, [%rd1+3]; st.global.u32 [%rd0], %r0;").run_clean());
    assert_eq!(unsigned[0], 0xff);
    let untyped = words(&kernel("ld.global.b16 %r0, [%rd1+2]; st.global.u32 [%rd0], %r0;").run_clean());
    assert_eq!(untyped[0], 0xff00);
}

#[test]
fn shared_memory_is_reached_by_name_register_and_generic_address() {
    let body = ".shared .align 16 .b8 tile[256];\n\
        shl.b32 %r0, %lane, 2; mov.u32 %r1, tile; add.u32 %r1, %r1, %r0; st.shared.u32 [%r1], %lane;\n\
        bar.warp.sync 0xffffffff; cvt.u64.u32 %rd2, %r1; cvta.shared.u64 %rd3, %rd2; ld.u32 %r2, [%rd3];\n\
        ld.shared.u32 %r3, [tile+4]; add.u32 %r2, %r2, %r3; st.global.u32 [%rd0], %r2;";
    let expected: Vec<u32> = (0..32).map(|lane| lane + 1).collect();
    assert_eq!(words(&kernel(body).run_clean()), expected);
}

#[test]
fn elements_of_arrays_are_reached_by_their_index() {
    let body = ".shared .align 4 .u32 tile[4]; .shared .align 4 .b8 raw[8]; setp.ne.u32 %p0, %lane, 0; @%p0 exit;\n\
        mov.u32 %r0, tile; mov.u32 %r1, tile[3]; sub.u32 %r0, %r1, %r0; mov.u32 %r2, raw; mov.u32 %r3, raw[4];\n\
        sub.u32 %r2, %r3, %r2; st.shared.u32 tile[3], %r0; ld.shared.u32 %r1, [tile+12]; ld.const.u32 %r0, table[2];\n\
        st.global.v4.u32 [%rd0], {%r1, %r2, %r0, 7};";
    let variables = ".const .align 4 .u32 table[4] = {5, 6, 8, 9};\n";
    let output = words(&kernel(body).with_variables(variables).run_clean());
    assert_eq!(output[..4], [12, 4, 8, 7], "an index counts elements, of 4 bytes and of 1");
}

#[test]
fn local_memory_is_private_to_a_lane() {
    let body = ".local .align 8 .b8 depot[8]; mov.u64 %rd2, depot; cvta.local.u64 %rd3, %rd2;\n\
        st.u32 [%rd3+4], %lane; ld.local.u32 %r0, [%rd2+4]; st.global.u32 [%rd0], %r0;";
    let kernel = kernel(body);
    assert_eq!(words(&kernel.run_clean()), (0..32).collect::<Vec<u32>>());
    assert_eq!(kernel.run().report.counters.local_memory_instructions, 2);
}

#[test]
fn initialised_variables_of_a_module() {
    let variables = ".const .align 4 .u32 table[2] = {7, 0x10};\n.global .align 4 .b8 text[4] = {1, 2, 3, 4};\n\
        .global .align 8 .u64 pointer = generic(text)+2;\n.global .align 4 .u32 counter;\n";
    let body = "ld.const.u32 %r0, [table+4]; ld.global.u64 %rd2, [pointer]; ld.u8 %r1, [%rd2];\n\
        ld.global.u32 %r2, [counter]; add.u32 %r0, %r0, %r1; add.u32 %r0, %r0, %r2; st.global.u32 [%rd0], %r0;";
    assert_eq!(words(&kernel(body).with_variables(variables).run_clean())[3], 0x13);
}

#[test]
fn global_variables_live_as_long_as_the_memory() {
    let variables = ".global .align 4 .u32 counter = 5;\n";
    let body = "atom.global.add.u32 %r0, [counter], 1; st.global.u32 [%rd0], %r0;";
    let kernel = kernel(body).with_variables(variables);
    assert_eq!(words(&kernel.run_clean()), (5..37).collect::<Vec<u32>>());
}

#[test]
fn atomics_of_all_blocks_add_up() {
    let body = "atom.global.add.u32 %r0, [%input], 1; red.global.max.s32 [%input+4], %lane;\n\
        bar.sync 0; membar.gl; ld.volatile.global.u32 %r1, [%input+4]; st.global.u32 [%rd0], %r1;";
    let zeros = vec![0; 512];
    let output = words(&kernel(body).with_input(zeros).with_blocks(64).run_clean());
    assert_eq!(output, [31; 32]);
    let count = "atom.global.add.u32 %r0, [%input], 1; setp.eq.u32 %p0, %r0, 2047; @%p0 st.global.u32 [%output], 2048;";
    let output = words(&Kernel::new(count).with_blocks(64).with_output_bytes(4).run_clean());
    assert_eq!(output, [2048]);
}

#[test]
fn every_atomic_operation() {
    let result = |operation: &str, initial: u32| {
        let body = format!(
            ".shared .align 4 .u32 word; setp.ne.u32 %p0, %lane, 0; @%p0 bra done; st.shared.u32 [word], {initial};\n\
             atom.shared.{operation}; ld.shared.u32 %r1, [word]; st.global.v2.u32 [%output], {{%r0, %r1}}; done:"
        );
        words(&Kernel::new(&body).with_output_bytes(8).run_clean())
    };
    assert_eq!(result("exch.b32 %r0, [word], 9", 4), [4, 9]);
    assert_eq!(result("cas.b32 %r0, [word], 4, 9", 4), [4, 9]);
    assert_eq!(result("cas.b32 %r0, [word], 5, 9", 4), [4, 4]);
    assert_eq!(result("inc.u32 %r0, [word], 4", 4), [4, 0]);
    assert_eq!(result("dec.u32 %r0, [word], 7", 0), [0, 7]);
    assert_eq!(result("min.s32 %r0, [word], -3", 4), [4, -3_i32 as u32]);
    assert_eq!(result("xor.b32 %r0, [word], 6", 4), [4, 2]);
    assert_eq!(result("add.f32 %r0, [word], 0f3F800000", 0x4000_0000), [0x4000_0000, 0x4040_0000]);
}

#[test]
fn bank_conflicts_and_sectors_are_counted() {
    let with_stride = |stride: u32| {
        let body = format!(
            ".shared .align 16 .b8 tile[4096]; mul.lo.u32 %r0, %lane, {stride}; mov.u32 %r1, tile; add.u32 %r1, %r1, %r0;\n\
             st.shared.u32 [%r1], %lane; st.global.u32 [%rd0], %lane;"
        );
        kernel(&body).run().report.counters
    };
    let straight = with_stride(4);
    assert_eq!((straight.shared_wavefronts, straight.shared_bank_conflicts), (1, 0));
    assert_eq!((straight.global_sectors, straight.global_bytes_written), (4, 128));
    let column = with_stride(128);
    assert_eq!((column.shared_wavefronts, column.shared_bank_conflicts), (32, 31));
    let broadcast = with_stride(0);
    assert_eq!(broadcast.shared_wavefronts, 1);
}

#[test]
fn wide_shared_accesses_take_a_wavefront_for_each_eight_lanes() {
    let body = ".shared .align 16 .b8 tile[512]; shl.b32 %r0, %lane, 4; mov.u32 %r1, tile; add.u32 %r1, %r1, %r0;\n\
        st.shared.v4.u32 [%r1], {%lane, %lane, %lane, %lane}; st.global.u32 [%rd0], %lane;";
    let counters = kernel(body).run().report.counters;
    assert_eq!((counters.shared_wavefronts, counters.shared_bank_conflicts), (4, 0));
}

#[test]
fn spaces_of_generic_addresses() {
    let body = ".shared .align 4 .u32 word; .local .align 4 .u32 own; mov.u64 %rd0, word; cvta.shared.u64 %rd0, %rd0;\n\
        mov.u64 %rd1, own; cvta.local.u64 %rd1, %rd1; mov.u32 %r0, 0;\n\
        isspacep.shared %p0, %rd0; isspacep.global %p1, %rd0; isspacep.local %p2, %rd1; isspacep.shared::cta %p3, %rd1;\n\
        isspacep.global %p4, %output; isspacep.local %p5, %output;\n\
        @%p0 or.b32 %r0, %r0, 1; @%p1 or.b32 %r0, %r0, 2; @%p2 or.b32 %r0, %r0, 4; @%p3 or.b32 %r0, %r0, 8;\n\
        @%p4 or.b32 %r0, %r0, 16; @%p5 or.b32 %r0, %r0, 32; st.global.u32 [%output], %r0;";
    assert_eq!(words(&Kernel::new(body).run_clean())[0], 1 | 4 | 16, "only the space an address lies in is true");
}

#[test]
fn constant_variables_have_a_space_of_their_own() {
    let body = "mov.u64 %rd0, factors; cvta.const.u64 %rd0, %rd0; add.u64 %rd1, %rd0, 7; add.u64 %rd2, %rd0, 8; mov.u32 %r0, 0;\n\
        isspacep.const %p0, %rd0; isspacep.const %p1, %rd1; isspacep.const %p2, %rd2; isspacep.const %p3, %output;\n\
        isspacep.global %p4, %rd0; isspacep.global %p5, %output;\n\
        @%p0 or.b32 %r0, %r0, 1; @%p1 or.b32 %r0, %r0, 2; @%p2 or.b32 %r0, %r0, 4; @%p3 or.b32 %r0, %r0, 8;\n\
        @%p4 or.b32 %r0, %r0, 16; @%p5 or.b32 %r0, %r0, 32; st.global.u32 [%output], %r0;";
    let kernel = Kernel::new(body).with_variables(".const .align 4 .u32 factors[2] = {3, 4};");
    assert_eq!(words(&kernel.run_clean())[0], 1 | 2 | 32, "the first and the last byte of it, and no other address");
}

#[test]
fn cache_policies_change_no_result() {
    let body = ".shared .align 16 .b8 tile[16]; createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd0, 0.5;\n\
        createpolicy.fractional.L2::evict_first.b64 %rd1; createpolicy.range.global.L2::evict_last.b64 %rd2, [%input], 64, 128;\n\
        createpolicy.cvt.L2.b64 %rd3, 7; setp.ne.u32 %p0, %lane, 0; @%p0 exit;\n\
        cp.async.cg.shared.global.L2::cache_hint [tile], [%input], 16, %rd2; cp.async.wait_all;\n\
        ld.shared.u32 %r0, [tile]; ld.global.L2::cache_hint.u32 %r1, [%input+4], %rd0; add.u32 %r0, %r0, %r1;\n\
        st.global.L2::cache_hint.u32 [%output], %r0, %rd1;\n\
        atom.global.L2::cache_hint.add.u32 %r2, [%output], 5, %rd3; red.global.add.L2::cache_hint.u32 [%output], 6, %rd3;\n\
        applypriority.global.L2::evict_normal [%input], 128; pmevent 7; pmevent.mask 0xff;";
    let output = Kernel::new(body).with_input(bytes(&[30, 1, 0, 0])).run_clean();
    assert_eq!(words(&output)[0], 42, "hints leave values as they are");
    Kernel::new("createpolicy.fractional.L2::evict_last.b64 %rd0, %f0;").run_faulty(FindingClass::Uninitialised);
}
