//! `cp.async.bulk`: destination and time of copies, with and without tensor maps.

use crate::common::{Kernel, bytes, words};
use ptx_sim::{FindingClass, GlobalMemory, MemoryError, Options, Swizzle, TensorElement, TensorMap};

/// An mbarrier at `%r1` that waits for one arrival, and `tile` at `%r2`; `%leader` is thread 0.
const SETUP: &str = ".shared .align 8 .b64 gate; .shared .align 1024 .b8 tile[4096]; .reg .pred %leader;\n\
    mov.u32 %r1, gate; mov.u32 %r2, tile; setp.eq.u32 %leader, %lane, 0;\n\
    @%leader mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster; bar.sync 0;\n";
const EXPECT: &str = "@%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1024;\n";
const LOAD: &str =
    "@%leader cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%input], 1024, [%r1];\n";
const WAIT: &str = "wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra wait;\n";
/// `%r3` = tile + 16·thread, `%rd0` = output + 16·thread.
const PLACES: &str =
    "shl.b32 %r3, %lane, 4; mul.wide.u32 %rd0, %r3, 1; add.u64 %rd0, %rd0, %output; add.u32 %r3, %r3, %r2;\n";
const COPY_OUT: &str = "ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [%r3]; st.global.v4.u32 [%rd0], {%r4,%r5,%r6,%r7};\n";

fn input() -> Vec<u32> {
    (1..=256).collect()
}

fn kernel(parts: &[&str]) -> Kernel {
    let body = format!("{SETUP}{PLACES}{}", parts.concat());
    Kernel::new(&body).on_hopper().with_threads(64).with_input(bytes(&input())).with_output_bytes(1024)
}

#[test]
fn a_load_lands_when_its_phase_is_waited_for() {
    assert_eq!(words(&kernel(&[EXPECT, LOAD, WAIT, COPY_OUT]).run_clean()), input());
    assert_eq!(words(&kernel(&[LOAD, EXPECT, WAIT, COPY_OUT]).run_clean()), input());
}

#[test]
fn reading_before_waiting() {
    // A thread that comes later may find the copy there: a race.
    let findings = kernel(&[EXPECT, LOAD, "bar.sync 0;", COPY_OUT, WAIT]).run().report.findings;
    let finding = &findings[0];
    assert_eq!(finding.class, FindingClass::AsyncCopyNotWaited, "{finding}");
    assert!(finding.at.instruction.contains("ld.shared.v4"), "{finding}");
}

#[test]
fn a_load_nobody_waits_for() {
    let finding = kernel(&[EXPECT, LOAD]).run_faulty(FindingClass::AsyncCopyNotWaited);
    assert!(finding.message.contains("without anybody having waited for phase 0 of the mbarrier"), "{finding}");
    assert!(finding.at.instruction.contains("cp.async.bulk"), "{finding}");
}

#[test]
fn loading_over_a_load_in_flight() {
    let twice = EXPECT.replace("1024", "2048");
    let finding = kernel(&[&twice, LOAD, LOAD, WAIT]).run_faulty(FindingClass::AsyncCopyNotWaited);
    assert!(finding.message.contains("1024-byte bulk copy overlaps"), "{finding}");
}

#[test]
fn more_bytes_expected_than_copied() {
    let finding = kernel(&[&EXPECT.replace("1024", "1040"), LOAD, WAIT]).run().report.findings.remove(0);
    assert_eq!(finding.class, FindingClass::Deadlock);
    assert!(finding.message.contains("0 of 1 arrivals and 16 bytes pending"), "{finding}");
}

#[test]
fn alignment_and_size() {
    for (wrong, said) in
        [("[%r2+8]", "destination of a 1024-byte bulk copy"), ("[%input+8]", "1024-byte read in global")]
    {
        let right = if wrong.contains("r2") { "[%r2]" } else { "[%input]" };
        let load = LOAD.replace(right, wrong);
        let finding = kernel(&[EXPECT, &load, WAIT]).run_faulty(FindingClass::Misaligned);
        assert!(finding.message.contains(said), "{finding}");
    }
    let finding = kernel(&["mov.u32 %r8, 24;", &LOAD.replace("1024", "%r8")]).run_faulty(FindingClass::InvalidOperand);
    assert!(finding.message.contains("a bulk copy of 24 bytes; it must be a multiple of 16"), "{finding}");
    let finding = kernel(&[EXPECT, &LOAD.replace("[%r2]", "[%r2+3200]"), WAIT]).run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("offset 3200 of `tile`"), "{finding}");
}

#[test]
fn a_load_needs_an_mbarrier() {
    let finding = kernel(&[&LOAD.replace("[%r1]", "[%r2+2048]")]).run_faulty(FindingClass::MbarrierMisuse);
    assert!(finding.message.contains("there is no mbarrier"), "{finding}");
}

const FILL: &str = "add.u32 %r4, %lane, 100; st.shared.v4.u32 [%r3], {%r4,%r4,%r4,%r4};\n";
const FENCE: &str = "fence.proxy.async.shared::cta;\n";
const STORE: &str = "bar.sync 0; @%leader cp.async.bulk.global.shared::cta.bulk_group [%output], [%r2], 1024;\n\
    @%leader cp.async.bulk.commit_group;\n";
const WAIT_GROUP: &str = "@%leader cp.async.bulk.wait_group.read 0; bar.sync 0;\n";

#[test]
fn a_store_after_a_fence() {
    let expected: Vec<u32> = (0..256).map(|word| word / 4 + 100).collect();
    assert_eq!(words(&kernel(&[FILL, FENCE, STORE, WAIT_GROUP, FILL]).run_clean()), expected);
    // The thread that synchronised with those that wrote may execute the fence as well.
    let later = STORE.replace("bar.sync 0;", "bar.sync 0; @%leader fence.proxy.async;");
    assert_eq!(words(&kernel(&[FILL, &later, WAIT_GROUP]).run_clean()), expected);
}

#[test]
fn a_store_without_a_fence() {
    let finding = kernel(&[FILL, STORE, WAIT_GROUP]).run_faulty(FindingClass::MissingProxyFence);
    assert!(finding.at.instruction.contains("cp.async.bulk.global"), "{finding}");
    assert!(finding.message.contains("of warp 0"), "{finding}");
    // The second warp's writes are not covered by a fence that the first one executes before they synchronise.
    let half = "@%leader fence.proxy.async;";
    let finding = kernel(&[FILL, half, STORE, WAIT_GROUP]).run_faulty(FindingClass::MissingProxyFence);
    assert!(finding.message.contains("of warp 1"), "{finding}");
}

#[test]
fn a_load_over_ordinary_writes() {
    assert_eq!(words(&kernel(&[FILL, FENCE, "bar.sync 0;", EXPECT, LOAD, WAIT, COPY_OUT]).run_clean()), input());
    let kernel = kernel(&[FILL, "bar.sync 0;", EXPECT, LOAD, WAIT, COPY_OUT]);
    let finding = kernel.run_faulty(FindingClass::MissingProxyFence);
    assert!(finding.message.contains("is overwritten by the async proxy"), "{finding}");
}

#[test]
fn mbarriers_of_loads_have_to_be_fenced() {
    let kernel = |fence: &str| {
        let body =
            SETUP.replace("fence.mbarrier_init.release.cluster;", fence) + PLACES + EXPECT + LOAD + WAIT + COPY_OUT;
        Kernel::new(&body).on_hopper().with_threads(64).with_input(bytes(&input())).with_output_bytes(1024)
    };
    assert_eq!(words(&kernel(FENCE).run_clean()), input());
    let finding = kernel("").run_faulty(FindingClass::MissingProxyFence);
    assert!(finding.message.contains("offset 0 of `gate`, which warp 0 initialised"), "{finding}");
    // Whoever synchronised with the thread that initialised may execute the fence as well.
    let late = SETUP.replace("fence.mbarrier_init.release.cluster; bar.sync 0;", "bar.sync 0; fence.proxy.async;");
    let body = late + PLACES + EXPECT + LOAD + WAIT + COPY_OUT;
    Kernel::new(&body).on_hopper().with_threads(64).with_input(bytes(&input())).with_output_bytes(1024).run_clean();
}

#[test]
fn writing_over_what_a_store_reads() {
    let finding =
        kernel(&[FILL, FENCE, STORE, "bar.sync 0;", FILL, WAIT_GROUP]).run_faulty(FindingClass::AsyncCopyNotWaited);
    assert!(finding.message.contains("warp 0 lane 0 has not waited for"), "{finding}");
    let one_too_few = WAIT_GROUP.replace("read 0", "read 1");
    kernel(&[FILL, FENCE, STORE, &one_too_few, FILL]).run_faults_of(FindingClass::AsyncCopyNotWaited);
}

#[test]
fn others_may_write_over_what_a_store_reads_when_they_know_of_its_wait() {
    // The second warp writes long after the first one has waited; but only a barrier says so.
    let late = format!(
        "mov.u32 %r9, 0; spin: add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 5000; @%p2 bra spin;\n\
         setp.lt.u32 %p3, %lane, 32; @%p3 bra out;\n{FILL}out:\n"
    );
    let wait = WAIT_GROUP.replace("bar.sync 0;", "");
    let finding = kernel(&[FILL, FENCE, STORE, "bar.sync 0;", &wait, &late]).run_faulty(FindingClass::Race);
    assert!(finding.message.contains("races with the read by a bulk copy"), "{finding}");
    kernel(&[FILL, FENCE, STORE, "bar.sync 0;", WAIT_GROUP, &late]).run_clean();
}

#[test]
fn everybody_has_to_wait_for_a_load() {
    // The first warp waits, the second one does not.
    let only_first = format!("setp.ge.u32 %p2, %lane, 32; @%p2 bra out;\n{WAIT}out: {COPY_OUT}");
    let finding = kernel(&[EXPECT, LOAD, "bar.sync 0;", &only_first]).run().report.findings.remove(0);
    assert!(matches!(finding.class, FindingClass::Race | FindingClass::AsyncCopyNotWaited), "{finding}");
}

#[test]
fn a_store_nobody_waits_for() {
    let finding = kernel(&[FILL, FENCE, STORE]).run_faulty(FindingClass::AsyncCopyNotWaited);
    assert!(finding.message.contains("without having waited for this copy to read"), "{finding}");
}

/// 16 rows of 64 halves, of which boxes have 8 rows and as many columns as a swizzled row holds.
fn map(swizzle: Swizzle) -> TensorMap {
    let columns = match swizzle {
        Swizzle::None => 24,
        Swizzle::Bytes32 => 16,
        Swizzle::Bytes64 => 32,
        Swizzle::Bytes128 => 64,
    };
    TensorMap {
        element: TensorElement::F16,
        address: 0,
        sizes: vec![60, 15],
        strides: vec![128],
        box_sizes: vec![columns, 8],
        element_strides: vec![1, 1],
        swizzle,
    }
}

/// The value of an element of the tensor; zero outside.
fn element(column: i32, row: i32) -> u16 {
    let inside = (0..60).contains(&column) && (0..15).contains(&row);
    if inside { (row * 64 + column + 1) as u16 } else { 0 }
}

fn tensor() -> Vec<u8> {
    (0..1024).flat_map(|index: u16| (index + 1).to_le_bytes()).collect()
}

/// The box at a position in its shared-memory layout, with the published swizzle patterns.
fn expected(map: &TensorMap, (column, row): (i32, i32)) -> Vec<u16> {
    let columns = map.box_sizes[0] as usize;
    let mut halves = vec![0; columns * 8];
    for index in 0..columns * 8 {
        let (x, y) = (index % columns, index / columns);
        let chunk = match map.swizzle {
            Swizzle::None => x / 8,
            Swizzle::Bytes32 => (x / 8) ^ (y / 4 % 2),
            Swizzle::Bytes64 => (x / 8) ^ (y / 2 % 4),
            Swizzle::Bytes128 => (x / 8) ^ (y % 8),
        };
        halves[y * columns + chunk * 8 + x % 8] = element(column + x as i32, row + y as i32);
    }
    halves
}

fn tensor_kernel(map: TensorMap, body: &str) -> Kernel {
    Kernel::new(&format!("{SETUP}{PLACES}{body}"))
        .on_hopper()
        .with_threads(64)
        .with_input(tensor())
        .with_output_bytes(2048)
        .with_tensor_map(map)
}

#[test]
fn boxes_of_tensors() {
    for swizzle in [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128] {
        for (column, row) in [(0, 0), (16, 8), (40, 12), (-8, -3)] {
            let map = map(swizzle);
            let box_bytes = map.box_sizes.iter().product::<u32>() * 2;
            let body = format!(
                "@%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {box_bytes}; mov.u32 %r8, {row};\n\
                 @%leader cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
                 [%r2], [%map, {{{column}, %r8}}], [%r1];\n{WAIT}setp.ge.u32 %p2, %lane, {}; @%p2 exit;\n{COPY_OUT}",
                box_bytes / 16
            );
            let expected = expected(&map, (column, row));
            let output = tensor_kernel(map, &body).run_clean();
            let halves: Vec<u16> = output.chunks_exact(2).map(|half| u16::from_le_bytes([half[0], half[1]])).collect();
            assert_eq!(halves[..expected.len()], expected, "{swizzle:?} at {column}, {row}");
        }
    }
}

#[test]
fn boxes_that_skip_elements() {
    let map = TensorMap { element_strides: vec![1, 3], ..map(Swizzle::None) };
    let body = format!(
        "@%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 144;\n\
         @%leader cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%map, {{0, 1}}], [%r1];\n\
         {WAIT}setp.ge.u32 %p2, %lane, 9; @%p2 exit;\n{COPY_OUT}"
    );
    let output = tensor_kernel(map, &body).run_clean();
    let first: Vec<u16> = (0..3).map(|row| u16::from_le_bytes([output[row * 48], output[row * 48 + 1]])).collect();
    assert_eq!(first, [element(0, 1), element(0, 4), element(0, 7)]);
}

#[test]
fn loads_of_boxes_are_listed_if_the_options_say_so() {
    // Nothing waits for them, which is a finding, and the list is there all the same.
    let load = |column: &str, row: &str| {
        format!(
            "@%leader cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes \
             [%r2], [%map, {{{column}, {row}}}], [%r1];\n"
        )
    };
    let body = format!("mov.u32 %r7, %ctaid.x;\n{}{}", load("0", "%r7"), load("16", "5"));
    let kernel = || tensor_kernel(map(Swizzle::None), &body).with_blocks(2);
    let listed = kernel().with_options(Options { box_loads: true, ..Options::default() }).run().report.box_loads;
    let places: Vec<_> = listed.iter().map(|load| (load.block, load.warp, load.origin.clone())).collect();
    let expected = [(0, [0, 0]), (0, [16, 5]), (1, [0, 1]), (1, [16, 5])];
    assert_eq!(places, expected.map(|(block, origin)| ([block, 0, 0], 0, origin.to_vec())));
    assert_eq!(kernel().run().report.box_loads, [], "by default they are not");
}

#[test]
fn a_box_wholly_outside_needs_memory_where_its_tensor_begins() {
    let load = |column: i32, row: i32| {
        format!(
            "@%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 512;\n\
             @%leader cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes \
             [%r2], [%map, {{{column}, {row}}}], [%r1];\n{WAIT}"
        )
    };
    let inside = map(Swizzle::Bytes64);
    // Eight rows before the memory.
    let before = TensorMap { address: 0_u64.wrapping_sub(8 * 128), ..inside.clone() };
    for (column, row) in [(64, 8), (0, 15), (0, -8), (-32, 8)] {
        tensor_kernel(inside.clone(), &load(column, row)).run_clean();
        let finding = tensor_kernel(before.clone(), &load(column, row)).run_faulty(FindingClass::OutOfBounds);
        assert!(finding.message.contains("a box wholly outside its tensor"), "{column}, {row}: {finding}");
    }
    for (column, row) in [(0, 8), (32, 14)] {
        tensor_kernel(before.clone(), &load(column, row)).run_clean();
    }
}

#[test]
fn so_does_the_prefetch_of_one() {
    let prefetch =
        |row: i32| format!("@%leader cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%map, {{0, {row}}}];\n");
    let inside = map(Swizzle::Bytes64);
    let before = TensorMap { address: 0_u64.wrapping_sub(8 * 128), ..inside.clone() };
    tensor_kernel(inside, &prefetch(15)).run_clean();
    tensor_kernel(before.clone(), &prefetch(8)).run_clean();
    let finding = tensor_kernel(before, &prefetch(15)).run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("a box wholly outside its tensor"), "{finding}");
}

#[test]
fn prefetches_of_boxes_wholly_outside_are_counted() {
    let prefetches = [0, 8, 15, 16, -4]
        .map(|row| format!("@%leader cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%map, {{0, {row}}}];\n"));
    let report = tensor_kernel(map(Swizzle::Bytes64), &prefetches.concat()).run().report;
    assert_eq!(report.counters.prefetches_outside, 2, "the boxes at rows 15 and 16 of a tensor of 15: {report:?}");
}

#[test]
fn stores_of_boxes() {
    // A box comes in and goes out again at another place; what lies outside the tensor is not written.
    let body = format!(
        "@%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1024;\n\
         @%leader cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%map, {{0, 0}}], [%r1];\n\
         {WAIT}@%leader cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {{0, 8}}], [%r2];\n\
         @%leader cp.async.bulk.commit_group; @%leader cp.async.bulk.wait_group 0; bar.sync 0;\n\
         mul.wide.u32 %rd3, %lane, 32; add.u64 %rd4, %rd3, %input; ld.global.v4.u32 {{%r4,%r5,%r6,%r7}}, [%rd4];\n\
         add.u64 %rd5, %rd3, %output; st.global.v4.u32 [%rd5], {{%r4,%r5,%r6,%r7}};\n\
         ld.global.v4.u32 {{%r4,%r5,%r6,%r7}}, [%rd4+16]; st.global.v4.u32 [%rd5+16], {{%r4,%r5,%r6,%r7}};"
    );
    let output = tensor_kernel(map(Swizzle::Bytes128), &body).run_clean();
    for row in 0..16 {
        for column in 0..64 {
            let offset = (row * 64 + column) * 2;
            let expected = match ((8..15).contains(&row), column < 60) {
                (false, _) => row * 64 + column + 1,
                (true, true) => (row - 8) * 64 + column + 1,
                // The last of the chunks of 16 bytes that a row is written in reaches beyond its 60 columns.
                (true, false) => 0,
            };
            let got = u16::from_le_bytes([output[offset], output[offset + 1]]);
            assert_eq!(usize::from(got), expected, "row {row}, column {column}");
        }
    }
}

#[test]
fn wrong_uses_of_tensor_maps() {
    let load = "@%leader cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%map, {0, 0}], [%r1];\n\
        @%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1024;\n";
    let run = |load: &str, class| tensor_kernel(map(Swizzle::Bytes128), load).run_faulty(class);
    let finding = run(&format!("{}{WAIT}", load.replace("[%r2]", "[%r2+64]")), FindingClass::Misaligned);
    assert!(finding.message.contains("multiple of 128"), "{finding}");
    let finding = run(&load.replace("2d", "1d").replace("{0, 0}", "{0}"), FindingClass::InvalidOperand);
    assert!(finding.message.contains("the tensor map has 2 dimensions, not 1"), "{finding}");
    let finding = run(&format!("{}{WAIT}", load.replace("{0, 0}", "{4, 0}")), FindingClass::Misaligned);
    assert!(finding.message.contains("a box at 4 in the first dimension of a tensor, which are 8 bytes"), "{finding}");
    let store = "@%leader cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {0, -1}], [%r2];\n";
    let finding = run(store, FindingClass::InvalidOperand);
    assert!(finding.message.contains("only loads may begin before the tensor"), "{finding}");
    let finding = run(&load.replace("%map", "%input"), FindingClass::InvalidOperand);
    assert!(finding.message.contains("no tensor map"), "{finding}");
}

#[test]
fn tensor_maps_that_the_hardware_refuses() {
    let good = TensorMap { address: 1 << 40, ..map(Swizzle::Bytes64) };
    let wrong = [
        (TensorMap { address: 8, ..good.clone() }, "0x8 is not a multiple of 16"),
        (TensorMap { strides: vec![120], ..good.clone() }, "strides [120]"),
        (TensorMap { strides: vec![], ..good.clone() }, "2 sizes, 0 strides"),
        (TensorMap { sizes: vec![0, 1], ..good.clone() }, "sizes [0, 1]"),
        (TensorMap { box_sizes: vec![32, 257], ..good.clone() }, "box sizes [32, 257]"),
        (TensorMap { box_sizes: vec![64, 8], ..good.clone() }, "rows of 128 bytes with Bytes64"),
        (TensorMap { element_strides: vec![1, 9], ..good.clone() }, "element strides [1, 9]"),
        (
            TensorMap { sizes: vec![], strides: vec![], box_sizes: vec![], element_strides: vec![], ..good.clone() },
            "0 sizes",
        ),
    ];
    let mut memory = GlobalMemory::new();
    for (map, said) in wrong {
        let error = memory.allocate_tensor_map("map", map).expect_err(said);
        assert!(matches!(error, MemoryError::TensorMap { .. }) && error.to_string().contains(said), "{error}");
    }
    memory.allocate_tensor_map("map", good).expect("a good map");
}
