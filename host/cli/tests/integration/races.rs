//! Findings of the simulator for kernels with one of their barriers removed.

use std::mem::discriminant;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use cli::executor::sim::{self, SimExecutor};
use cli::forward::Forward;
use cli::inputs::{Distribution, Inputs};
use cli::kernel::Kernel;
use cli::ptx_module::PtxModule;
use contract::config::{Element, Mask, Sequence};
use contract::manifest::Entry;
use contract::problem::{DEFAULT_HEAD_DIM, Shape};
use contract::tile::{Grid, Kind};
use contract::view::Layout;
use ptx_sim::FindingClass;

use crate::support::{multiply, ptx_entries};

const CLUSTER_BARRIER: &str = "barrier.cluster";
/// How the wait at a barrier of a cluster begins, behind the arrival.
const CLUSTER_WAIT: &str = "barrier.cluster.wait";

/// Whether a line of PTX is a barrier of a block or a warp, not of a cluster. Barriers with an explicit number and thread count only
/// order turns on the tensor cores; without them only the timing changes.
fn is_barrier(line: &str) -> bool {
    let line = line.trim_start();
    let is_turn = line.starts_with("bar.arrive") || line.starts_with("bar.sync") && line.contains(',');
    line.starts_with("bar") && !line.starts_with(CLUSTER_BARRIER) && !is_turn
}

/// The lines of an entry's body with a barrier that orders memory; excludes barriers that the source marks as only bringing lanes
/// together.
fn barriers(text: &str, entry: &str) -> Vec<usize> {
    let begins = |line: &str| line.contains(".entry") && line.contains(&format!("{entry}("));
    let lines = text.lines().enumerate();
    let body = lines.skip_while(|(_, line)| !begins(line)).take_while(|(_, line)| !line.starts_with('}'));
    let mut only_converges = false;
    let mut barriers = Vec::new();
    for (number, line) in body {
        match line.trim() {
            "// converge" => only_converges = true,
            "// barrier" => only_converges = false,
            line if is_barrier(line) => {
                barriers.extend((!only_converges).then_some(number));
                only_converges = false;
            }
            _ => {}
        }
    }
    barriers
}

/// The finding classes when `entry` runs without some lines of its PTX.
fn findings_without(
    left_out: &[usize],
    entry: &Entry,
    module: &PtxModule,
    inputs: &Inputs,
    multiprocessors: u32,
) -> Vec<FindingClass> {
    let kept = module
        .text()
        .unwrap()
        .lines()
        .enumerate()
        .map(|(number, text)| if left_out.contains(&number) { "" } else { text });
    let text = kept.collect::<Vec<_>>().join("\n");
    let module = PtxModule::new(module.file.clone(), text);
    let options = SimExecutor::default_options();
    let mut executor = SimExecutor::with_multiprocessors(sim::DEFAULT_ARCHITECTURE, multiprocessors, options).unwrap();
    let mut forward = Forward::prepare(&mut executor, &module, entry, inputs, true).unwrap();
    forward.execute().unwrap().execution.findings.iter().map(|finding| finding.class).collect()
}

/// Ordinary scores, such that are far apart, and such that the softmax has to begin again, over the shortest sequence that `entry`
/// accepts and that takes two steps of the pipeline, or three. With packed ones there are some of a single row besides: so many that
/// every block has a third item, for which the first one's place in shared memory is used again.
fn inputs(entry: &Entry) -> [Inputs; 3] {
    const SINGLE_ROWS: u32 = 40;
    let generate_of = |shape: Shape| {
        let shape = shape.with_head_dim(entry.config.columns());
        let problem = Kernel::Forward(entry).problem(shape, Layout::Bhsd).unwrap();
        let [normal, far_apart] = [Distribution::Normal, Distribution::LargeLogits]
            .map(|distribution| Inputs::generate(problem, distribution, 1).unwrap());
        let begins_again = with_large_later_keys(&normal);
        [normal, far_apart, begins_again]
    };
    let generate = |sequence: u32| generate_of(Shape::new(1, 1, sequence));
    let two_steps = 2 * entry.config.block_n();
    // Behind the first step of a guess is a checkpoint, at which all warps meet, too.
    let steps = if entry.config.kind() == Kind::Sm80 { 3 * entry.config.block_n() } else { two_steps };
    match entry.sequence {
        Sequence::Packed => {
            let lengths: Vec<u32> = std::iter::once(steps).chain([1; SINGLE_ROWS as usize]).collect();
            generate(steps + SINGLE_ROWS).map(|inputs| inputs.packed(&lengths).unwrap())
        }
        // Two steps for each of four blocks.
        Sequence::Any if entry.config.grid() == Grid::SplitKeys && entry.mask == Mask::Full => {
            generate_of(Shape::new(1, 1, 60).with_kv_sequence(4 * two_steps))
        }
        // Two blocks, for as many keys as there are, and one step for each of them: the other half is masked.
        Sequence::Any if entry.config.grid() == Grid::SplitKeys => {
            generate_of(Shape::new(1, 1, two_steps).with_kv_sequence(2 * two_steps))
        }
        // Two blocks: none waits for another one.
        Sequence::Any if entry.mask == Mask::Full => {
            generate_of(Shape::new(1, 1, steps.min(2 * entry.config.block_m())).with_kv_sequence(steps))
        }
        Sequence::Any => generate(steps),
        Sequence::Exact(sequence) => generate(sequence),
    }
}

/// Inputs whose scores are far apart from key 16 on: larger than those of the keys from which shifts are guessed.
fn with_large_later_keys(inputs: &Inputs) -> Inputs {
    const GUESSED_FROM: usize = 16;
    let [q, mut k, v] = inputs.storages().map(|storage| storage.to_vec());
    multiply(&mut k[GUESSED_FROM * inputs.columns()..], inputs.element(), 64.0);
    Inputs::new(*inputs.problem(), q, k, v).unwrap()
}

/// Multiprocessors on which a single item is computed in parts.
const MANY_MULTIPROCESSORS: u32 = 64;

/// Inputs that are computed in parts there, if `entry` leaves any.
fn in_parts(entry: &Entry) -> Option<Inputs> {
    let keys = 12 * entry.config.block_n() + 2;
    let rows = if entry.mask == Mask::Full { 20 } else { keys };
    let shape = Shape::new(1, 1, rows).with_kv_sequence(keys).with_head_dim(entry.config.columns());
    entry.leaves_parts.then(|| {
        Inputs::generate(Kernel::Forward(entry).problem(shape, Layout::Bhsd).unwrap(), Distribution::Normal, 1).unwrap()
    })
}

/// Several items for every block of one multiprocessor, if `entry` has blocks with more than one: a strip ends otherwise before another
/// of its warpgroup than as the last. An item's tile of a bias is used again for the next.
fn of_several_items(entry: &Entry) -> Option<Inputs> {
    let items = 3 * entry.config.min_blocks();
    let generate = |shape: Shape| {
        let shape = shape.with_head_dim(entry.config.columns());
        Inputs::generate(Kernel::Forward(entry).problem(shape, Layout::Bhsd).unwrap(), Distribution::Normal, 1).unwrap()
    };
    match entry.sequence {
        _ if entry.config.grid() != Grid::Persistent => None,
        Sequence::Any => Some(generate(Shape::new(1, items, 20).with_kv_sequence(10))),
        Sequence::Packed => {
            let lengths = vec![entry.config.block_m(); items as usize];
            Some(generate(Shape::new(1, 1, lengths.iter().sum())).packed(&lengths).unwrap())
        }
        Sequence::Exact(_) => None,
    }
}

/// What decides which barriers an entry of the usual type and width has. Sizes of tiles do not.
fn structure(entry: &Entry) -> impl PartialEq {
    let options = serde_json::to_value(entry.config).unwrap();
    let options: Vec<_> =
        options.as_object().unwrap().clone().into_iter().filter(|(_, value)| !value.is_number()).collect();
    let has_groups = entry.config.key_groups() > 1;
    (options, has_groups, entry.mask, discriminant(&entry.sequence), entry.scores, entry.leaves_parts)
}

/// One entry of each structure, of the usual type and width.
fn structures() -> Vec<(&'static Entry, &'static PtxModule)> {
    let is_usual = |entry: &Entry| (entry.element, entry.config.columns()) == (Element::F16, DEFAULT_HEAD_DIM);
    let mut chosen: Vec<(&Entry, &PtxModule)> = Vec::new();
    for (entry, module) in ptx_entries().filter(|(entry, _)| is_usual(entry)) {
        if chosen.iter().all(|(other, _)| structure(other) != structure(entry)) {
            chosen.push((entry, module));
        }
    }
    chosen
}

#[test]
fn a_kernel_without_one_of_its_barriers_has_a_race() {
    let (entries, next) = (structures(), AtomicUsize::new(0));
    let work = || {
        while let Some((entry, module)) = entries.get(next.fetch_add(1, Relaxed)) {
            each_barrier_orders_memory(entry, module);
        }
    };
    // By far the longest of the tests: on one core, it would be left at the end.
    thread::scope(|scope| {
        (0..thread::available_parallelism().map_or(1, usize::from)).for_each(|_| drop(scope.spawn(work)))
    });
}

/// Fails if `entry` has no race without one of its barriers.
fn each_barrier_orders_memory(entry: &Entry, module: &PtxModule) {
    // Those that take the least time first: most barriers are missed there.
    let mut inputs: Vec<_> = of_several_items(entry).map(|inputs| (inputs, 1)).into_iter().collect();
    inputs.extend(self::inputs(entry).map(|inputs| (inputs, sim::MULTIPROCESSORS)));
    inputs.extend(in_parts(entry).map(|inputs| (inputs, MANY_MULTIPROCESSORS)));
    let barriers = barriers(module.text().unwrap(), &entry.name);
    let line_of = |line: usize| module.text().unwrap().lines().nth(line).unwrap_or_default().trim();
    // Blocks that split keys have the rest of theirs with their cluster.
    let fewest = if entry.config.grid() == Grid::SplitKeys { 1 } else { 2 };
    assert!(barriers.len() >= fewest, "{} has the barriers {barriers:?}", entry.name);
    for line in barriers {
        let shows_race = |(inputs, multiprocessors): &(Inputs, u32)| {
            findings_without(&[line], entry, module, inputs, *multiprocessors).contains(&FindingClass::Race)
        };
        let what = format!("{} alone without `{}` in line {}", entry.name, line_of(line), line + 1);
        assert!(inputs.iter().any(shows_race), "{what} has no race");
    }
}

/// Blocks that split keys wait for each other twice: until all parts are written, and until all have read them.
#[test]
fn blocks_that_do_not_wait_for_the_others_of_their_cluster_are_found() {
    for (entry, module) in ptx_entries().filter(|(entry, _)| entry.config.grid() == Grid::SplitKeys) {
        let begins = |line: &str| line.contains(".entry") && line.contains(&format!("{}(", entry.name));
        let body = module.text().unwrap().lines().enumerate().skip_while(|(_, line)| !begins(line));
        let body = body.take_while(|(_, line)| !line.starts_with('}'));
        let is_cluster_barrier = |(_, line): &(usize, &str)| line.trim().starts_with(CLUSTER_BARRIER);
        let instructions: Vec<_> = body.filter(is_cluster_barrier).collect();
        // Two barriers of the warps that compute, and of the others. The code for each number of parts may have its own arrival.
        let barriers: Vec<_> =
            instructions.split_inclusive(|(_, line)| line.trim().starts_with(CLUSTER_WAIT)).collect();
        assert_eq!(barriers.len(), 4, "{}", entry.name);
        let [inputs, ..] = inputs(entry);
        for (barrier, class) in [FindingClass::Race, FindingClass::BlockLifetime].into_iter().enumerate() {
            let of_all_warps = barriers.iter().skip(barrier).step_by(2).copied().flatten();
            let left_out: Vec<usize> = of_all_warps.map(|(number, _)| *number).collect();
            let found = findings_without(&left_out, entry, module, &inputs, sim::MULTIPROCESSORS);
            assert!(found.contains(&class), "{} without barrier {barrier} of its cluster: {found:?}", entry.name);
        }
    }
}
