//! Warp instructions per second by kind of instruction, with and without race checks. `cargo bench -p ptx-sim` prints a
//! table. Arguments: names of kernels to run (default all), and a number of threads (default 1).

use std::time::Instant;

use ptx_sim::{GlobalMemory, Launch, Module, Options, run};

/// Threads of a block.
const THREADS: u32 = 256;
/// Blocks, and iterations of each kernel's loop.
const LONG: [u32; 2] = [8, 256];
/// The same, with mostly starts and ends of blocks.
const MANY: [u32; 2] = [1024, 2];
/// Number of runs, of which the fastest counts.
const RUNS: usize = 5;

/// Name, blocks and iterations, and the body of the loop. `%rd1` is a global address per thread of the grid, `%r1` a
/// shared address per thread of the block, 16 bytes apart.
const KERNELS: [(&str, [u32; 2], &str); 7] = [
    (
        "integers",
        LONG,
        "add.s32 %r4, %r4, %r0; shl.b32 %r5, %r4, 3; xor.b32 %r4, %r4, %r5; mad.lo.s32 %r5, %r4, %r0, %r5;\n\
         and.b32 %r6, %r5, 255; setp.gt.u32 %p1, %r6, 7; selp.b32 %r4, %r5, %r4, %p1; add.s32 %r4, %r4, %r6;",
    ),
    (
        "floats",
        LONG,
        "fma.rn.f32 %f0, %f1, %f2, %f0; mul.rn.f32 %f3, %f0, %f1; add.rn.f32 %f3, %f3, %f2; max.f32 %f4, %f3, %f0;\n\
         fma.rn.f32 %f0, %f4, %f2, %f1; sub.rn.f32 %f0, %f0, %f3; ex2.approx.ftz.f32 %f5, %f1; min.f32 %f0, %f0, %f5;",
    ),
    ("global words", LONG, "ld.global.u32 %r4, [%rd1]; add.u32 %r4, %r4, 1; st.global.u32 [%rd1], %r4;"),
    ("many blocks", MANY, "ld.global.u32 %r4, [%rd1]; add.u32 %r4, %r4, 1; st.global.u32 [%rd1], %r4;"),
    (
        "shared words",
        LONG,
        "st.shared.u32 [%r2], %r4; bar.sync 0; ld.shared.u32 %r4, [%r3]; add.u32 %r4, %r4, 1; bar.sync 0;",
    ),
    (
        "shared vectors",
        LONG,
        "st.shared.v4.u32 [%r1], {%r4, %r4, %r4, %r4}; bar.sync 0; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1]; bar.sync 0;",
    ),
    (
        "tensor cores",
        LONG,
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r8,%r8,%r8,%r8}, {%r8,%r8}, {%f0,%f1,%f2,%f3};",
    ),
];

fn module(rounds: u32, body: &str) -> Module {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry e(.param .u64 memory) {{\n\
         .shared .align 16 .b8 tile[4096];\n\
         .reg .pred %p<2>; .reg .b32 %r<10>; .reg .f32 %f<6>; .reg .b64 %rd<3>;\n\
         ld.param.u64 %rd0, [memory]; mov.u32 %r0, %tid.x; mov.u32 %r9, %ctaid.x; mad.lo.u32 %r9, %r9, {THREADS}, %r0;\n\
         mul.wide.u32 %rd1, %r9, 4; add.u64 %rd1, %rd0, %rd1; mov.u32 %r1, tile; shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1;\n\
         xor.b32 %r3, %r0, 37; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r1; shl.b32 %r4, %r0, 4; add.u32 %r1, %r1, %r4;\n\
         mov.b32 %r8, 0x38003c00; cvt.rn.f32.u32 %f0, %r0; mov.f32 %f1, 0f3F000000; mov.f32 %f2, 0f3F400000; mov.f32 %f3, %f0;\n\
         mov.u32 %r9, {rounds};\nagain:\n{body}\n\
         sub.u32 %r9, %r9, 1; setp.ne.u32 %p0, %r9, 0; @%p0 bra again;\nret;\n}}"
    );
    Module::parse(&text, "speed.ptx").unwrap_or_else(|error| panic!("{error}"))
}

/// Millions of warp instructions per second.
fn speed(module: &Module, blocks: u32, threads: usize, races: bool) -> f64 {
    let options = Options { threads, races, ..Options::default() };
    let one = || {
        let mut memory = GlobalMemory::new();
        let bytes = vec![0; (4 * blocks * THREADS) as usize];
        let address = memory.allocate("memory", bytes.len() as u64).expect("memory");
        memory.write(address, &bytes).expect("an address");
        let launch = Launch {
            entry: "e",
            grid: [blocks, 1, 1],
            block: [THREADS, 1, 1],
            dynamic_shared_bytes: 0,
            params: &[&address.to_le_bytes()],
            architecture: 80,
        };
        let start = Instant::now();
        let report = run(module, &mut memory, &launch, &options).unwrap_or_else(|error| panic!("{error}"));
        let seconds = start.elapsed().as_secs_f64();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        report.counters.instructions as f64 / seconds / 1e6
    };
    (0..RUNS).map(|_| one()).fold(0.0, f64::max)
}

fn main() {
    let arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let (numbers, wanted): (Vec<String>, Vec<String>) =
        arguments.partition(|argument| argument.parse::<usize>().is_ok());
    let threads = numbers.first().and_then(|number| number.parse().ok()).unwrap_or(1);
    println!("{:<16} {:>12} {:>12}   million warp instructions a second", "", "with races", "without");
    for (name, [blocks, rounds], body) in KERNELS {
        if wanted.is_empty() || wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            let module = module(rounds, body);
            let speed = |races| speed(&module, blocks, threads, races);
            println!("{name:<16} {:>12.2} {:>12.2}", speed(true), speed(false));
        }
    }
}
