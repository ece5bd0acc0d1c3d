//! Clusters of one block, and what belongs to Hopper's warps.

use crate::common::{Kernel, words};
use ptx_sim::FindingClass;

/// Stores a word of each thread, left in `%r0`.
const STORE: &str = "mul.wide.u32 %rd0, %lane, 4; add.u64 %rd0, %rd0, %output; st.global.u32 [%rd0], %r0;";

fn kernel(body: &str) -> Kernel {
    Kernel::new(&format!("{body}\n{STORE}")).on_hopper().with_threads(128).with_output_bytes(512)
}

#[test]
fn every_block_is_a_cluster_of_its_own() {
    let body = "mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, %cluster_nctarank; mov.u32 %r2, %clusterid.x;\n\
        mov.u32 %r3, %nclusterid.x; mov.u32 %r4, %cluster_nctaid.y; add.u32 %r0, %r0, %r1; add.u32 %r0, %r0, %r2;\n\
        add.u32 %r0, %r0, %r3; add.u32 %r0, %r0, %r4;";
    assert_eq!(words(&kernel(body).run_clean()), [3; 128]);
}

#[test]
fn addresses_of_the_own_block() {
    let body = ".shared .align 4 .u32 word; mov.u32 %r1, word; mapa.shared::cluster.u32 %r2, %r1, 0;\n\
        st.shared::cluster.u32 [%r2], 7; bar.sync 0; ld.shared::cta.u32 %r0, [word];";
    assert_eq!(words(&kernel(body).run_clean()), [7; 128]);
    let finding = kernel(&body.replace("%r1, 0;", "%r1, 1;")).run_faulty(FindingClass::InvalidOperand);
    assert!(finding.message.contains("outside the cluster"), "{finding}");
}

#[test]
fn the_clusters_barrier_orders_warps() {
    let body = ".shared .align 4 .b8 tile[512]; shl.b32 %r0, %lane, 2; mov.u32 %r1, tile; add.u32 %r2, %r1, %r0;\n\
        st.shared.u32 [%r2], %lane; barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n\
        xor.b32 %r0, %r0, 256; add.u32 %r2, %r1, %r0; ld.shared.u32 %r0, [%r2];\n\
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
    assert_eq!(words(&kernel(body).run_clean()), (0..128).map(|thread| thread ^ 64).collect::<Vec<u32>>());
}

#[test]
fn threads_that_ended_arrived_at_the_clusters_barrier() {
    let body = "mov.u32 %r0, 1; setp.ge.u32 %p0, %lane, 64; @%p0 exit; barrier.cluster.arrive.aligned;\n\
        barrier.cluster.wait.aligned;";
    assert_eq!(words(&kernel(body).run_clean())[..64], [1; 64]);
}

#[test]
fn waiting_for_the_cluster_without_arriving() {
    let body = "mov.u32 %r0, 1; barrier.cluster.wait.aligned;";
    let finding = kernel(body).run_faulty(FindingClass::InvalidOperand);
    assert!(finding.message.contains("never executed barrier.cluster.arrive"), "{finding}");
}

#[test]
fn one_lane_is_elected() {
    let body = "mov.u32 %r0, 0; elect.sync _|%p0, 0xffffffff; @%p0 mov.u32 %r0, 1;\n\
        redux.sync.add.u32 %r0, %r0, 0xffffffff; fence.proxy.async; fence.proxy.async.shared::cta;\n\
        fence.mbarrier_init.release.cluster; griddepcontrol.wait; griddepcontrol.launch_dependents;";
    assert_eq!(words(&kernel(body).run_clean()), [1; 128]);
}

#[test]
fn registers_of_warpgroups() {
    let body = "mov.u32 %r0, 1; setmaxnreg.dec.sync.aligned.u32 40; setmaxnreg.inc.sync.aligned.u32 240;";
    assert_eq!(words(&kernel(body).run_clean()), [1; 128]);
    let split = "mov.u32 %r0, 1; setp.ge.u32 %p0, %lane, 64; @%p0 bra out; setmaxnreg.dec.sync.aligned.u32 40;\nout:";
    let finding = kernel(split).run_faulty(FindingClass::CollectiveLanesMissing);
    assert!(finding.message.contains("warps 0-3 executed it [1, 1, 0, 0] times"), "{finding}");
    for registers in ["20", "41", "264"] {
        let body = body.replace("40", registers);
        let Err(error) = kernel(&body).try_run() else { panic!("setmaxnreg of {registers} registers ran") };
        assert!(error.to_string().contains("multiple of 8 from 24 to 256"), "{error}");
    }
}

#[test]
fn registers_of_all_warpgroups_together() {
    let run = |registers: u32| {
        let body = format!("setmaxnreg.inc.sync.aligned.u32 {registers}; mov.u32 %r0, 1;\n{STORE}");
        Kernel::new(&body).on_hopper().with_threads(512).with_output_bytes(2048)
    };
    assert_eq!(words(&run(128).run_clean()), [1; 512]);
    let finding = run(136).run_faulty(FindingClass::Deadlock);
    assert!(finding.message.contains("ask for 69632 registers together and keep them, of 65536"), "{finding}");
}

#[test]
fn registers_that_leave_room_for_other_blocks() {
    let run = |directives: &str, taken: u32| {
        let body = format!(
            "mov.u32 %r0, 1; setp.lt.u32 %p0, %lane, 128; @%p0 bra takers; setmaxnreg.dec.sync.aligned.u32 24; bra all;\n\
             takers: setmaxnreg.inc.sync.aligned.u32 {taken};\nall: {STORE}"
        );
        Kernel::new(&body).on_hopper().with_threads(256).with_output_bytes(1024).with_directives(directives)
    };
    for (directives, most) in [("", 256), (".minnctapersm 2", 232), (".minnctapersm 3", 136), (".maxnreg 100", 168)] {
        assert_eq!(words(&run(directives, most).run_clean()), [1; 256]);
        if most < 256 {
            let finding = run(directives, most + 8).run_faulty(FindingClass::Deadlock);
            assert!(finding.message.contains("setmaxnreg.inc waits for ever"), "{directives}: {finding}");
        }
    }
}
