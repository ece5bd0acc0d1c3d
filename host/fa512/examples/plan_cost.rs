//! Measures the CPU time of planning a launch, without a GPU: `cargo run --release -p fa512 --example plan_cost`.

use std::hint::black_box;
use std::time::Instant;

use fa512::{Gpu, GpuFacts, Layout, Mask, Plan, Problem, Shape};

fn main() {
    const BATCHES: u32 = 200;
    const ROUNDS: u32 = 1_000;
    for (name, architecture) in [("NVIDIA H200", 90), ("NVIDIA L4", 89)] {
        let facts = GpuFacts { name, architecture, multiprocessors: 132, shared_bytes_per_block: 99 << 10 };
        let gpu = Gpu::described(facts);
        for sequence in [512, 300, 2048] {
            let shape = Shape::new(8, 8, sequence);
            let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).expect("a problem");
            let batch = |_| {
                let begin = Instant::now();
                for _ in 0..ROUNDS {
                    black_box(Plan::new(black_box(&problem), black_box(&gpu)).expect("a plan"));
                }
                begin.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
            };
            // Other work on the machine lengthens some batches.
            let least = (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min);
            println!("{name}, S={sequence}: {least:.0} ns a plan");
        }
    }
}
