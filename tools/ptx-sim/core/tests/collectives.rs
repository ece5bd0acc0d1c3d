//! Shuffles, votes, barriers and divergence of correct kernels.

use crate::common::{Kernel, words};

/// Runs a body whose lanes leave a word in `%r0`; the words.
fn lanes(body: &str) -> Vec<u32> {
    let text = format!("{body}\nmul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output; st.global.u32 [%rd0], %r0;");
    words(&Kernel::new(&text).with_output_bytes(128).run_clean())
}

fn expect(body: &str, value: impl Fn(u32) -> u32) {
    assert_eq!(lanes(body), (0..32).map(value).collect::<Vec<u32>>(), "{body}");
}

#[test]
fn shuffles() {
    expect("shfl.sync.bfly.b32 %r0, %lane, 5, 31, 0xffffffff;", |lane| lane ^ 5);
    expect("shfl.sync.idx.b32 %r0, %lane, 7, 31, -1;", |_| 7);
    expect("shfl.sync.up.b32 %r0, %lane, 2, 0, -1;", |lane| if lane < 2 { lane } else { lane - 2 });
    expect("shfl.sync.down.b32 %r0, %lane, 3, 31, -1;", |lane| if lane > 28 { lane } else { lane + 3 });
    // Segments of eight lanes.
    expect("shfl.sync.idx.b32 %r0, %lane, 1, 0x181f, -1;", |lane| lane / 8 * 8 + 1);
    let valid = "shfl.sync.down.b32 %r1|%p0, %lane, 3, 31, -1; selp.u32 %r0, 1, 0, %p0;";
    expect(valid, |lane| u32::from(lane <= 28));
}

#[test]
fn votes_matches_and_reductions() {
    let test = "setp.lt.u32 %p0, %lane, 4;";
    expect(&format!("{test} vote.sync.ballot.b32 %r0, %p0, -1;"), |_| 0xf);
    expect(&format!("{test} vote.sync.ballot.b32 %r0, !%p0, -1;"), |_| !0xf);
    expect(&format!("{test} vote.sync.any.pred %p1, %p0, -1; selp.u32 %r0, 1, 0, %p1;"), |_| 1);
    expect(&format!("{test} vote.sync.all.pred %p1, %p0, -1; selp.u32 %r0, 1, 0, %p1;"), |_| 0);
    expect("redux.sync.add.u32 %r0, %lane, -1;", |_| 496);
    expect("sub.u32 %r1, %lane, 4; redux.sync.min.s32 %r0, %r1, -1;", |_| -4_i32 as u32);
    expect("and.b32 %r1, %lane, 1; match.any.sync.b32 %r0, %r1, -1;", |lane| 0x5555_5555 << (lane & 1));
    expect("match.all.sync.b32 %r0|%p0, %lane, -1;", |_| 0);
    expect("activemask.b32 %r0;", |_| u32::MAX);
}

#[test]
fn reductions_of_singles() {
    let of = |form: &str, values: [f32; 2]| {
        let [odd, even] = values.map(f32::to_bits);
        let body = format!(
            "and.b32 %r1, %lane, 1; setp.eq.u32 %p0, %r1, 1; selp.b32 %r2, {odd}, {even}, %p0;\n\
             redux.sync.{form}.f32 %r0, %r2, -1;"
        );
        let found = lanes(&body);
        assert_eq!(found, [found[0]; 32], "{form}");
        found[0]
    };
    const NAN: u32 = 0x7fff_ffff;
    for (form, values, expected) in [
        ("min", [1.5, -2.5], (-2.5_f32).to_bits()),
        ("max", [1.5, -2.5], 1.5_f32.to_bits()),
        ("max.abs", [1.5, -2.5], 2.5_f32.to_bits()),
        ("min.abs", [1.5, -2.5], 1.5_f32.to_bits()),
        ("min", [0.0, -0.0], (-0.0_f32).to_bits()),
        ("max", [0.0, -0.0], 0),
        ("min", [f32::NAN, 3.0], 3.0_f32.to_bits()),
        ("max", [f32::NAN, -f32::NAN], NAN),
        ("max.NaN", [f32::NAN, 3.0], NAN),
        ("min.abs.NaN", [3.0, f32::NAN], NAN),
        ("max.abs", [f32::NEG_INFINITY, 1.0], f32::INFINITY.to_bits()),
    ] {
        assert_eq!(of(form, values), expected, "{form} of {values:?}");
    }
}

#[test]
fn lanes_that_diverge_meet_again() {
    let body = "mov.u32 %r0, 0; and.b32 %r1, %lane, 3;\nloop: setp.eq.u32 %p0, %r1, 0; @%p0 bra out;\n\
        add.u32 %r0, %r0, 10; sub.u32 %r1, %r1, 1; bra loop;\nout: activemask.b32 %r2; popc.b32 %r2, %r2; add.u32 %r0, %r0, %r2;";
    expect(body, |lane| lane % 4 * 10 + 32);
}

#[test]
fn indexed_branches() {
    let body = "and.b32 %r1, %lane, 3; ts: .branchtargets zero, one, two, one; brx.idx %r1, ts;\n\
        zero: mov.u32 %r0, 100; bra join;\none: mov.u32 %r0, 200; bra join;\ntwo: mov.u32 %r0, 300;\n\
        join: activemask.b32 %r2; popc.b32 %r2, %r2; add.u32 %r0, %r0, %r2;";
    expect(body, |lane| [132, 232, 332, 232][lane as usize % 4]);
}

#[test]
fn collectives_of_a_branch_need_only_their_mask() {
    let body = "setp.lt.u32 %p0, %lane, 16; mov.u32 %r0, 0; @!%p0 bra out;\n\
        shfl.sync.bfly.b32 %r0, %lane, 1, 31, 0xffff; bar.warp.sync 0xffff;\nout:";
    expect(body, |lane| if lane < 16 { lane ^ 1 } else { 0 });
}

/// `%r1` = the mask of the lane's tile of 8, as cooperative groups and `cub::WarpReduce` of fewer than 32 lanes give it.
const TILE_MASK: &str = "and.b32 %r1, %lane, 24; mov.u32 %r2, 0xff; shl.b32 %r1, %r2, %r1;\n";

#[test]
fn lanes_with_different_masks_execute_by_mask() {
    let tile = |body: &str, value: fn(u32) -> u32| expect(&format!("{TILE_MASK}{body}"), value);
    tile("shfl.sync.bfly.b32 %r0, %lane, 3, 31, %r1;", |lane| lane ^ 3);
    tile("redux.sync.add.u32 %r0, %lane, %r1;", |lane| (0..8).map(|other| lane / 8 * 8 + other).sum());
    tile("redux.sync.max.u32 %r0, %lane, %r1;", |lane| lane | 7);
    let test = "setp.lt.u32 %p0, %lane, 12;";
    tile(&format!("{test} vote.sync.ballot.b32 %r0, %p0, %r1;"), |lane| 0xfff & 0xff << (lane & 24));
    tile(&format!("{test} vote.sync.all.pred %p1, %p0, %r1; selp.u32 %r0, 1, 0, %p1;"), |lane| u32::from(lane < 8));
    tile(&format!("{test} vote.sync.uni.pred %p1, %p0, %r1; selp.u32 %r0, 1, 0, %p1;"), |lane| {
        u32::from(lane / 8 != 1)
    });
    tile("and.b32 %r2, %lane, 1; match.any.sync.b32 %r0, %r2, %r1;", |lane| (0x55 << (lane & 1)) << (lane & 24));
    tile("shr.u32 %r2, %lane, 3; match.all.sync.b32 %r0|%p0, %r2, %r1;", |lane| 0xff << (lane & 24));
}

#[test]
fn lanes_with_different_masks_stay_together_afterwards() {
    let body = format!("{TILE_MASK} bar.warp.sync %r1; activemask.b32 %r0;");
    expect(&body, |_| u32::MAX);
}

#[test]
fn a_labelled_partition_reduces_each_part() {
    // Lanes with the same remainder by 3 add up their indices.
    let body = "rem.u32 %r1, %lane, 3; match.any.sync.b32 %r2, %r1, -1; redux.sync.add.u32 %r0, %lane, %r2;";
    expect(body, |lane| (0..32).filter(|other| other % 3 == lane % 3).sum());
}

#[test]
fn tiles_that_diverge_wait_for_their_own_lanes_only() {
    // Half of each tile takes another way to the same instruction; the last tile never comes.
    let body = format!(
        "{TILE_MASK} mov.u32 %r0, 99; setp.ge.u32 %p0, %lane, 24; @%p0 bra out; and.b32 %r3, %lane, 1;\n\
         setp.eq.u32 %p1, %r3, 0; @%p1 bra meet; add.u32 %r3, %r3, 1;\n\
         meet: shfl.sync.idx.b32 %r0, %lane, 1, 0x181f, %r1;\nout:"
    );
    expect(&body, |lane| if lane < 24 { lane / 8 * 8 + 1 } else { 99 });
}

#[test]
fn synchronising_by_mask_orders_the_lanes_of_each_mask() {
    let body = |mask: &str| {
        format!(
            "{TILE_MASK} .shared .align 4 .b8 tile[128]; mov.u32 %r4, tile; shl.b32 %r5, %lane, 2; add.u32 %r5, %r5, %r4;\n\
             st.shared.u32 [%r5], %lane; bar.warp.sync {mask}; xor.b32 %r6, %r5, 4; ld.shared.u32 %r0, [%r6];"
        )
    };
    expect(&body("%r1"), |lane| lane ^ 1);
    let alone = format!("mov.u32 %r1, %lanemask_eq; {}", body("%r1").replace(TILE_MASK, ""));
    Kernel::new(&format!("{alone} red.global.add.u32 [%input], %r0;")).run_faulty(ptx_sim::FindingClass::Race);
}

#[test]
fn guarded_instructions_leave_other_lanes_alone() {
    expect("mov.u32 %r0, 1; setp.gt.u32 %p0, %lane, 29; @%p0 mov.u32 %r0, 2;", |lane| 1 + u32::from(lane > 29));
    expect("mov.u32 %r0, 1; setp.gt.u32 %p0, %lane, 29; @!%p0 mov.u32 %r0, 2;", |lane| 2 - u32::from(lane > 29));
}

#[test]
fn special_registers() {
    expect("mov.u32 %r0, %laneid;", |lane| lane);
    expect("mov.u32 %r0, %lanemask_lt;", |lane| (1 << lane) - 1);
    expect("mov.u32 %r0, %lanemask_ge;", |lane| u32::MAX << lane);
    expect("mov.u32 %r0, %ntid.x; mov.u32 %r1, %nctaid.y; add.u32 %r0, %r0, %r1;", |_| 33);
}

#[test]
fn registers_of_the_place_of_a_block() {
    expect("mov.u32 %r0, %smid; mov.u32 %r1, %nsmid; setp.lt.u32 %p0, %r0, %r1; selp.u32 %r0, 1, 0, %p0;", |_| 1);
    expect("mov.u64 %rd0, %gridid; cvt.u32.u64 %r0, %rd0; mov.b32 %r1, %envreg3; or.b32 %r0, %r0, %r1;", |_| 0);
    Kernel::new("mov.b32 %r0, %envreg32;").try_run().err().expect("there are 32 of them");
}

#[test]
fn barrier_orders_warps() {
    let body = ".shared .align 4 .b8 tile[512]; shl.b32 %r0, %lane, 2; mov.u32 %r1, tile; add.u32 %r2, %r1, %r0;\n\
        st.shared.u32 [%r2], %lane; bar.sync 0; xor.b32 %r0, %r0, 256; add.u32 %r2, %r1, %r0; ld.shared.u32 %r0, [%r2];\n\
        mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output; st.global.u32 [%rd0], %r0;";
    let output = words(&Kernel::new(body).with_threads(128).with_output_bytes(512).run_clean());
    assert_eq!(output, (0..128).map(|thread| thread ^ 64).collect::<Vec<u32>>());
}

#[test]
fn reductions_at_barriers() {
    let body = "setp.lt.u32 %p0, %lane, 50; bar.red.popc.u32 %r0, 0, %p0; bar.red.and.pred %p1, 1, %p0;\n\
        bar.red.or.pred %p2, 1, 64, %p0; selp.u32 %r1, 100, 0, %p1; selp.u32 %r2, 1000, 0, %p2;\n\
        add.u32 %r0, %r0, %r1; add.u32 %r0, %r0, %r2; mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output;\n\
        st.global.u32 [%rd0], %r0;";
    assert_eq!(words(&Kernel::new(body).with_threads(64).with_output_bytes(256).run_clean()), [1050; 64]);
}

#[test]
fn producers_arrive_and_consumers_wait() {
    let body = ".shared .align 4 .u32 word; setp.ge.u32 %p0, %lane, 32; @%p0 bra consumer;\n\
        st.shared.u32 [word], 77; bar.arrive 3, 64; bra done;\n\
        consumer: bar.sync 3, 64; ld.shared.u32 %r0, [word]; st.global.u32 [%output], %r0;\ndone:";
    assert_eq!(words(&Kernel::new(body).with_threads(64).with_output_bytes(4).run_clean()), [77]);
}

#[test]
fn a_warp_may_wait_in_a_loop_for_another() {
    let body = ".shared .align 4 .u32 flag; setp.eq.u32 %p0, %lane, 0; @%p0 st.shared.u32 [flag], 0; bar.sync 0;\n\
        setp.ge.u32 %p1, %lane, 32; @%p1 bra second;\n\
        wait: ld.volatile.shared.u32 %r0, [flag]; setp.eq.u32 %p2, %r0, 0; @%p2 bra wait;\n\
        @%p0 st.global.u32 [%output], %r0; bra done;\nsecond: st.volatile.shared.u32 [flag], 9;\ndone:";
    assert_eq!(words(&Kernel::new(body).with_threads(64).with_output_bytes(4).run_clean()), [9]);
}

#[test]
fn names_in_braces_hide_those_outside() {
    let body = "mov.u32 %r0, 1; { .reg .b32 %r0; mov.u32 %r0, 5; { .reg .pred p; setp.eq.u32 p, %r0, 5; @p bra inner; }\n\
        inner: add.u32 %r0, %r0, 1; mov.u32 %r1, %r0; } add.u32 %r0, %r0, %r1;";
    expect(body, |_| 7);
}

#[test]
fn partial_warps_pass_barriers() {
    let body = "bar.sync 0; bar.warp.sync -1; st.global.u32 [%output], 3; bar.sync 0;";
    assert_eq!(words(&Kernel::new(body).with_threads(40).with_output_bytes(4).run_clean()), [3]);
}

/// Runs a body of one warp with `lock` and `count`, zero, in shared memory; what it leaves in the output's first word.
fn locked(body: &str) -> Vec<u8> {
    let text = format!(
        ".shared .align 4 .u32 lock; .shared .align 4 .u32 count; setp.eq.u32 %p0, %lane, 0;\n\
         @%p0 st.shared.u32 [lock], 0; @%p0 st.shared.u32 [count], 0; bar.sync 0;\n{body}\n\
         bar.sync 0; ld.shared.u32 %r9, [count]; st.global.u32 [%output], %r9;"
    );
    Kernel::new(&text).with_output_bytes(4).run_clean()
}

#[test]
fn a_lock_taken_lane_by_lane() {
    // The lane that has the lock leaves the loop; the others stay in front of it.
    let body = "take: atom.acquire.cta.shared.cas.b32 %r0, [lock], 0, 1; setp.ne.u32 %p1, %r0, 0; @%p1 bra take;\n\
        ld.shared.u32 %r1, [count]; add.u32 %r1, %r1, 1; st.shared.u32 [count], %r1;\n\
        atom.release.cta.shared.exch.b32 %r2, [lock], 0;";
    assert_eq!(words(&locked(body)), [32], "each lane counts once while it has the lock");
}

#[test]
fn a_lock_with_back_off_and_a_long_critical_section() {
    let body = "mov.u32 %r3, 8;\ntake: atom.acquire.cta.shared.cas.b32 %r0, [lock], 0, 1; setp.eq.u32 %p1, %r0, 0;\n\
        @%p1 bra taken; nanosleep.u32 %r3; setp.lt.u32 %p2, %r3, 256; @%p2 shl.b32 %r3, %r3, 1; bra take;\n\
        taken: mov.u32 %r4, 0;\nwork: add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 50; @%p3 bra work;\n\
        ld.shared.u32 %r1, [count]; add.u32 %r1, %r1, 1; st.shared.u32 [count], %r1;\n\
        st.release.cta.shared.u32 [lock], 0;";
    assert_eq!(words(&locked(body)), [32], "each lane counts once while it has the lock");
}

#[test]
fn lanes_wait_for_a_chain_of_others() {
    // Each lane waits in a loop of its own kind for the lane above it.
    let body = "and.b32 %r5, %lane, 1; setp.eq.u32 %p1, %r5, 1; sub.u32 %r6, 31, %lane; @%p1 bra odd;\n\
        even: ld.acquire.cta.shared.u32 %r0, [lock]; setp.ne.u32 %p2, %r0, %r6; @%p2 bra even; bra turn;\n\
        odd: ld.acquire.cta.shared.u32 %r0, [lock]; setp.ne.u32 %p2, %r0, %r6; @%p2 bra odd;\n\
        turn: ld.shared.u32 %r1, [count]; add.u32 %r1, %r1, %r6; st.shared.u32 [count], %r1;\n\
        add.u32 %r0, %r0, 1; st.release.cta.shared.u32 [lock], %r0;";
    assert_eq!(words(&locked(body)), [496], "the lanes add up 0 to 31, one after the other");
}

#[test]
fn compare_and_swap_loops_stay_converged() {
    let body = "ld.relaxed.cta.shared.u32 %r0, [count];\n\
        again: mov.u32 %r1, %r0; add.u32 %r2, %r1, %lane; atom.shared.cas.b32 %r0, [count], %r1, %r2;\n\
        setp.ne.u32 %p1, %r0, %r1; @%p1 bra again; activemask.b32 %r3; setp.ne.u32 %p2, %r3, -1; @%p2 trap;";
    assert_eq!(words(&locked(body)), [496], "the lanes add up their indices");
}
