//! Tensor maps and addresses that no kernel should use: a finding or a result, never a panic, and the run goes on.

use crate::common::{Kernel, words};
use ptx_sim::{FindingClass, Swizzle, TENSOR_MAP_BYTES, TensorElement, TensorMap};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// An mbarrier at `%r1` and a tile at `%r2`.
const SETUP: &str = ".shared .align 8 .b64 gate; .shared .align 1024 .b8 tile[65536]; mov.u32 %r1, gate; mov.u32 %r2, tile;\n\
    mbarrier.init.shared::cta.b64 [%r1], 1; fence.proxy.async;\n";
/// Says in the output that the end was reached.
const END: &str = "st.global.u32 [%output], 7;";
/// Where the simulator puts the first buffer, which is the output.
const OUTPUT: u64 = 0x0007_0000_0000;

/// Runs a body in one thread to its end; the classes of the findings.
fn classes(body: &str, input: &[u8]) -> Vec<FindingClass> {
    let kernel = Kernel::new(&format!("{body}{END}")).on_hopper().with_threads(1);
    let outcome = kernel.with_input(input).with_output_bytes(4096).run();
    assert_eq!(words(&outcome.output)[0], 7, "the run did not go on: {:#?}\n{body}", outcome.report.findings);
    outcome.report.findings.into_iter().map(|finding| finding.class).collect()
}

/// Every use of a tensor map with so many dimensions that lies in the input, at some coordinates.
fn uses(coordinates: &[i32]) -> String {
    let rank = coordinates.len();
    let list: Vec<String> = coordinates.iter().map(i32::to_string).collect();
    let place = format!("[%input, {{{}}}]", list.join(", "));
    format!(
        "{SETUP}prefetch.tensormap [%input];\n\
         cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile {place};\n\
         cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], {place}, [%r1];\n\
         cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group {place}, [%r2];\n\
         cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
    )
}

/// One of `edges`, or anything up to the last of them.
fn pick(random: &mut ChaCha8Rng, edges: &[u64]) -> u64 {
    match random.random_range(0..=edges.len()) {
        index if index < edges.len() => edges[index],
        _ => random.random_range(0..=edges[edges.len() - 1]),
    }
}

/// A map that is accepted, of extreme sizes, strides and addresses; its boxes are small.
fn extreme_map(random: &mut ChaCha8Rng) -> TensorMap {
    let rank = random.random_range(1..=5_usize);
    let address = pick(random, &[0, OUTPUT, OUTPUT + 16, 1 << 46, 1 << 63, u64::MAX - 15]) / 16 * 16;
    TensorMap {
        element: [TensorElement::U8, TensorElement::F16, TensorElement::F64][random.random_range(0..3)],
        address,
        sizes: (0..rank).map(|_| pick(random, &[1, 2, 64, 1 << 31, (1 << 31) + 1, 1 << 32]).max(1)).collect(),
        strides: (1..rank).map(|_| pick(random, &[0, 16, 64, 1 << 39, (1 << 40) - 16]) / 16 * 16).collect(),
        box_sizes: (0..rank).map(|dimension| if dimension == 0 { 32 } else { random.random_range(1..=3) }).collect(),
        element_strides: (0..rank)
            .map(|dimension| if dimension == 0 { 1 } else { random.random_range(1..=8) })
            .collect(),
        swizzle: Swizzle::None,
    }
}

#[test]
fn extreme_tensor_maps_and_coordinates() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for _ in 0..400 {
        let map = extreme_map(&mut random);
        let bytes = map.encode("map").unwrap_or_else(|error| panic!("{error}: {map:?}"));
        let coordinates: Vec<i32> = (0..map.sizes.len())
            .map(|_| match random.random_range(0..6) {
                0 => i32::MIN,
                1 => i32::MAX,
                2 => 0,
                3 => random.random_range(-64..64),
                4 => i32::MAX / 16 * 16,
                _ => random.random(),
            })
            .collect();
        let body = uses(&coordinates);
        for class in classes(&body, &bytes) {
            use FindingClass::{AsyncCopyNotWaited, InvalidOperand, Misaligned, OutOfBounds, Race, Uninitialised};
            let expected = [AsyncCopyNotWaited, InvalidOperand, Misaligned, OutOfBounds, Race, Uninitialised];
            assert!(expected.contains(&class), "{class:?} of {map:?} at {coordinates:?}");
        }
    }
}

#[test]
fn bytes_that_are_no_tensor_map() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let good = TensorMap {
        element: TensorElement::F16,
        address: OUTPUT,
        sizes: vec![64, 8],
        strides: vec![128],
        box_sizes: vec![64, 4],
        element_strides: vec![1, 1],
        swizzle: Swizzle::Bytes128,
    };
    let good = good.encode("map").expect("a good map");
    let copy = format!(
        "{SETUP}cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%input, {{0, 0}}], [%r1];\n"
    );
    let is_refused = |bytes: &[u8]| classes(&copy, bytes) == [FindingClass::InvalidOperand];
    assert!(!is_refused(&good), "the map itself is one");
    for _ in 0..100 {
        let mut flipped = good;
        flipped[random.random_range(0..TENSOR_MAP_BYTES)] ^= 1 << random.random_range(0..8);
        assert!(is_refused(&flipped), "{flipped:?}");
        let mut moved = good;
        moved.rotate_left(random.random_range(1..TENSOR_MAP_BYTES));
        assert!(is_refused(&moved), "{moved:?}");
        let mut noise = [0; TENSOR_MAP_BYTES];
        random.fill(&mut noise);
        assert!(is_refused(&noise), "{noise:?}");
    }
    // Half a map, and the rest of it elsewhere.
    let classes = classes(&copy, &good[..64]);
    assert!(classes.contains(&FindingClass::OutOfBounds), "{classes:?}");
}

#[test]
fn addresses_of_parameters_where_other_memory_is_meant() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let instructions = [
        "ld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%rd3];",
        "st.global.u64 [%rd3], %rd3;",
        "st.u8 [%rd3], 1;",
        "ld.shared.u32 %r4, [%rd3];",
        "ld.local.u32 %r4, [%rd3];",
        "ld.param.v4.b64 {%rd4,%rd5,%rd6,%rd7}, [%rd3];",
        "ld.param.u8 %r4, [%rd2+-1];",
        "atom.cas.b64 %rd4, [%rd3], %rd3, %rd3;",
        "atom.global.add.u32 %r4, [%rd3], 1;",
        "red.shared.add.u32 [%rd3], 1;",
        "cp.async.cg.shared.global [%r2], [%rd3], 16; cp.async.wait_all;",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r2], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd3], 16, [%r1];",
        "mbarrier.init.b64 [%rd3], 1;",
        "mbarrier.arrive.b64 %rd4, [%rd3];",
        "prefetch.tensormap [%rd3];",
        "prefetch.global.L2 [%rd3];",
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd3, {0}], [%r2];",
    ];
    for instruction in instructions {
        for offset in
            [0, 1, 4, 8, u64::from(u32::MAX), 1 << 32, u64::MAX, random.random(), random.random_range(0..1 << 17)]
        {
            let body = format!(
                "{SETUP}mov.b64 %rd2, input; mov.b64 %rd8, {offset}; cvta.param.u64 %rd3, %rd2; add.u64 %rd3, %rd3, %rd8;\n\
                 {instruction}\n"
            );
            let found = classes(&body, &[0; 64]);
            let reads_a_parameter = instruction.starts_with("ld.param") || instruction.starts_with("prefetch.global");
            assert!(!found.is_empty() || reads_a_parameter, "{instruction} at offset {offset:#x}: nothing was found");
        }
    }
}
