//! Groups of several warps as CUDA's cooperative groups write them, and the shared memory in front of the block's own that their
//! headers keep them in: `compiled/tiles.ptx` was made by nvcc 13.0 with `-O3 -lineinfo` from the source beside it.

use crate::common::{Kernel, bytes, words};
use ptx_sim::{FindingClass, GlobalMemory, Launch, Module, Options, run};

#[test]
fn sums_of_two_warps() {
    let module = Module::parse(include_str!("compiled/tiles.ptx"), "tiles.ptx").expect("nvcc's PTX");
    let mut memory = GlobalMemory::new();
    let input: Vec<u32> = (0..128).map(|index| index * index).collect();
    let from = memory.allocate("in", 512).expect("allocating");
    memory.write(from, &bytes(&input)).expect("writing");
    let to = memory.allocate("out", 512).expect("allocating");
    let launch = Launch {
        entry: "sums_of_64",
        grid: [1; 3],
        block: [128, 1, 1],
        dynamic_shared_bytes: 0,
        params: &[&to.to_le_bytes(), &from.to_le_bytes()],
        architecture: 80,
    };
    for schedule in 0..4 {
        let options = Options { schedule, ..Options::default() };
        let report = run(&module, &mut memory, &launch, &options).expect("running");
        assert_eq!(report.findings, []);
        let mut output = vec![0; 512];
        memory.read(to, &mut output).expect("reading");
        let sum = |half: usize| input[64 * half..64 * (half + 1)].iter().sum::<u32>();
        let expected: Vec<u32> = (0..128).map(|rank| sum(1 - rank / 64)).collect();
        assert_eq!(words(&output), expected);
    }
}

#[test]
fn the_memory_of_the_headers_is_there_for_who_asks_for_it_and_begins_as_zeros() {
    let own = ".shared .align 4 .b8 tile[4]; st.shared.u32 [tile], 7;";
    let load = "ld.shared.u32 %r1, [%r0+64]; st.global.u32 [%output], %r1;";
    let finding =
        Kernel::new(&format!("{own} mov.u32 %r0, 0; {load}")).with_threads(1).run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("960 bytes before the first of its 4 bytes"), "{finding}");
    let asks = "mov.u32 %r0, %reserved_smem_offset_1;";
    let output = Kernel::new(&format!("{own} {asks} {load}")).with_threads(1).run_clean();
    assert_eq!(output[..4], [0; 4]);
    let store = "st.shared.u32 [%r0+64], 9;";
    let output = Kernel::new(&format!("{own} {asks} {store} {load}")).with_threads(1).run_clean();
    assert_eq!(output[..4], bytes(&[9])[..]);
    // The next block on the same multiprocessor finds zeros again.
    let blocks = Kernel::new(&format!("{asks} ld.shared.u32 %r1, [%r0+64]; {store} red.global.add.u32 [%input], %r1;"));
    let outcome = blocks.with_threads(1).with_blocks(300).with_input([0; 4]).run();
    assert_eq!(outcome.report.findings, []);
    let input = outcome.memory.allocations().find(|buffer| buffer.name == "input").map(|buffer| buffer.start);
    let mut total = [1; 4];
    outcome.memory.read(input.expect("there is one"), &mut total).expect("reading");
    assert_eq!(total, [0; 4]);
}
