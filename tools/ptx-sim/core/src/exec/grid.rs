//! A whole launch: its blocks in parallel.

use std::sync::{Mutex, PoisonError};

use super::resident::Residents;
use super::turns::Outcome;
use crate::context::{EXCUSE, VOLATILE};
use crate::counters::Counters;
use crate::finding::{Finding, Findings, LaneAddress, OtherAccess};
use crate::isa::Operation;
use crate::launch::{BoxLoad, LaunchError, Options, Report};
use crate::machine::{Machine, Place};
use crate::race::{Agent, ClusterAccess, ClusterConflict, Engine, GlobalAccess, GridRaces, Kind, Touched};

/// Runs every block of the grid.
pub(crate) fn run_grid(
    machine: &Machine<'_>,
    operations: &[Operation],
    options: &Options,
) -> Result<Report, LaunchError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build();
    let pool = pool.map_err(|error| LaunchError::Threads(error.to_string()))?;
    let residents = Residents::new(machine, operations);
    let warps = machine.blocks_of_cluster() * machine.warps_of_block();
    let merged = Mutex::new(Merged::new(warps as usize));
    // Clusters are merged in their order, so that a report does not depend on timing.
    let merge = |merged: &mut Merged| {
        while let Some((number, outcome)) = residents.take_next() {
            merged.add(machine, number, outcome);
        }
    };
    let hand_on = || {
        if let Ok(mut merged) = merged.try_lock() {
            merge(&mut merged);
        }
    };
    pool.scope(|scope| {
        for _ in 0..pool.current_num_threads() {
            scope.spawn(|_| residents.work(hand_on));
        }
    });
    let mut merged = merged.into_inner().unwrap_or_else(PoisonError::into_inner);
    merge(&mut merged);
    Ok(Report {
        accesses: if options.accesses { accesses(machine, &merged.races) } else { Vec::new() },
        findings: merged.findings.into_list(options.max_findings),
        counters: merged.counters,
        printed: merged.printed,
        box_loads: merged.box_loads,
        ends_before_previous: merged.ends_before_previous,
    })
}

/// What the clusters so far did.
struct Merged {
    findings: Findings,
    counters: Counters,
    printed: Vec<u8>,
    box_loads: Vec<BoxLoad>,
    races: GridRaces,
    ends_before_previous: bool,
}

impl Merged {
    fn new(warps: usize) -> Merged {
        Merged {
            findings: Findings::default(),
            counters: Counters::default(),
            printed: Vec::new(),
            box_loads: Vec::new(),
            races: GridRaces::new(warps),
            ends_before_previous: false,
        }
    }

    /// Adds the next cluster.
    fn add(&mut self, machine: &Machine<'_>, number: u64, outcome: Outcome) {
        self.findings.merge(outcome.findings);
        self.counters += outcome.counters;
        self.printed.extend(outcome.printed);
        self.box_loads.extend(outcome.box_loads);
        self.ends_before_previous |= outcome.trace.ends_before_previous;
        for conflict in self.races.add(number, outcome.trace) {
            let line = machine.program.instructions[conflict.later.pc as usize].line;
            self.findings.add(conflict.kind.into(), line, 1, || race_of_clusters(machine, &conflict));
        }
    }
}

/// What the launch did in global memory.
fn accesses(machine: &Machine<'_>, races: &GridRaces) -> Vec<GlobalAccess> {
    let described = |touched: Touched| {
        let Touched { pc, writes, is_strong, address, bytes } = touched;
        let instruction = &machine.program.instructions[pc as usize];
        let source = machine.module.source(instruction.location).0;
        GlobalAccess { address, bytes, writes, is_strong, ptx_line: instruction.line, source }
    };
    races.touched().into_iter().map(described).collect()
}

/// What the block whose bulk copy races may have missed.
const WAIT_FOR_WRITES: &str = "wait for its bulk copies (cp.async.bulk.wait_group; wait_group.read does not wait for their \
                               writes) and ";

/// A race between two clusters.
fn race_of_clusters(machine: &Machine<'_>, conflict: &ClusterConflict) -> Finding {
    let ClusterConflict { later, earlier, address, kind, is_excused, both_synchronise } = *conflict;
    let instruction = |access: ClusterAccess| &machine.program.instructions[access.pc as usize];
    let (Place { block: [x, y, z], .. }, warp) = machine.warp_place(earlier.cluster, earlier.agent.warp);
    let effect = |writes: bool| if writes { "write" } else { "read" };
    let is_by_bulk_copy = [later, earlier].iter().any(|access| access.agent.engine == Engine::BulkWrites);
    let message = format!(
        "a {} in global memory{}, {}, races with the {}{} in line {} of the PTX by block ({x}, {y}, {z}), warp {}, lane {}: {}{}",
        effect(later.writes),
        later.agent.engine.by(),
        machine.memory.describe(address, 1),
        effect(earlier.writes),
        earlier.agent.engine.by(),
        instruction(earlier).line,
        warp,
        earlier.agent.lane,
        match both_synchronise {
            _ if kind == Kind::Volatile => format!("nothing orders the two, {VOLATILE}"),
            false => "nothing orders blocks of one launch but atomic operations and fences".to_owned(),
            true => format!(
                "no atomic operation or flag of one block orders them: the block that comes first has to {}execute a fence of \
                 the GPU's scope (__threadfence) between its access and the operation or flag by which it tells, and the \
                 other one behind the operation or flag that it reads",
                if is_by_bulk_copy { WAIT_FOR_WRITES } else { "" }
            ),
        },
        if is_excused { EXCUSE } else { "" }
    );
    let location = |access: ClusterAccess| {
        let Agent { warp, lane, .. } = access.agent;
        machine.location(instruction(access), access.cluster, warp, Some(lane))
    };
    Finding {
        class: kind.into(),
        message,
        ptx_file: machine.module.file().to_owned(),
        at: location(later),
        address: Some(address),
        lanes: vec![LaneAddress { lane: later.agent.lane, address: Some(address) }],
        other: Some(OtherAccess { writes: earlier.writes, engine: earlier.agent.engine, at: location(earlier) }),
        occurrences: 1,
    }
}
