//! What is needed to reproduce and judge a record: the machine, the protocol, the implementations.

use crate::report::content::{Block, Cell, Table};
use crate::report::number::date;
use cli::record::{BenchRecord, GpuState, Implementation, Kernel, Row, Telemetry};
use cli::statistics::Interval;
use cli::timing::L2;

/// The environment, and the implementation of each contender.
pub fn blocks(record: &BenchRecord) -> [Block; 2] {
    let environment =
        Block { title: Some("Environment and protocol".into()), facts: facts(record), ..Block::default() };
    let tables = [implementations(record), telemetry(record)];
    let code = Block {
        title: Some("What ran".into()),
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
        ..Block::default()
    };
    [environment, code]
}

fn facts(record: &BenchRecord) -> Vec<(&'static str, String)> {
    let environment = &record.environment;
    let device = &environment.device;
    let timing = &record.protocol.timing;
    let mut facts = vec![
        ("Command", record.command.join(" ")),
        ("Started", date(record.started_at)),
        ("Device", format!("{}, sm_{}", device.name, device.architecture)),
    ];
    facts.extend(device.uuid.clone().map(|uuid| ("GPU", uuid)));
    facts.extend(device.driver.clone().map(|version| ("CUDA driver API", version)));
    match &environment.telemetry {
        Telemetry::Nvml { driver_version, power_limit_watts, maximum_sm_clock_mhz, .. } => {
            facts.push(("Driver", driver_version.clone()));
            facts.extend(power_limit_watts.map(|limit| ("Power limit", format!("{limit:.0} W"))));
            facts.extend(maximum_sm_clock_mhz.map(|clock| ("Highest clock", format!("{clock} MHz"))));
        }
        Telemetry::Absent { reason } => facts.push(("Telemetry", format!("none: {reason}"))),
    }
    facts.extend([
        ("Platform", format!("{}, {} threads", environment.platform, environment.processor_threads)),
        ("fa512", environment.program_version.clone()),
        (
            "A sample",
            format!("at least {:.0} µs of calls, after {:.0} ms of warm-up", timing.sample_us, timing.warm_up_ms),
        ),
        ("Kernels of ours", overlap(timing.overlap).into()),
        ("L2 cache", l2(timing.l2)),
        ("Inputs", format!("{}, seed {}", record.protocol.distribution.name(), record.protocol.input_seed)),
        ("Order seed", record.protocol.order_seed.to_string()),
    ]);
    facts
}

fn overlap(overlap: bool) -> &'static str {
    match overlap {
        true => "begin while the one before ends, where they wait by themselves for what it leaves",
        false => "begin when the one before is complete",
    }
}

fn l2(l2: L2) -> String {
    match l2 {
        L2::Warm => "warm: every call on the same inputs".into(),
        L2::Cold { bytes } => format!("cold: calls rotate over inputs larger than twice its {} MiB", bytes >> 20),
    }
}

/// The distinct implementations of each contender.
fn implementations(record: &BenchRecord) -> Table {
    let mut rows: Vec<[String; 4]> = Vec::new();
    for row in &record.rows {
        let Some(implementation) = &row.implementation else { continue };
        let row = described(&row.contender, implementation);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    Table {
        caption: "Code under each name".into(),
        header: ["contender", "code", "from", "git commit"].map(str::to_owned).into(),
        rows: rows.into_iter().map(|row| row.map(Cell::from).into()).collect(),
    }
}

fn described(contender: &str, implementation: &Implementation) -> [String; 4] {
    let (code, from, commit) = match implementation {
        Implementation::Ptx { kernel: Kernel { entry, config }, file, sha256, code_generator, git_commit, .. } => (
            config.map_or_else(
                || format!("{entry}, which is no more"),
                |config| {
                    let (rows, keys, warps, stages) =
                        (config.block_m(), config.block_n(), config.warps(), config.stages());
                    format!("{entry}: tiles {rows}×{keys}, {warps} warps, {stages} stages")
                },
            ),
            format!("{file}, SHA-256 {sha256}, by {} {}", code_generator.name, code_generator.version),
            git_commit.clone().unwrap_or_else(|| "unknown".into()),
        ),
        Implementation::Library { function, versions } => {
            let versions: Vec<_> = versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
            (function.clone(), versions.join(", "), "–".into())
        }
    };
    [contender.to_owned(), code, from, commit]
}

/// The distinct states of the GPU.
fn telemetry(record: &BenchRecord) -> Table {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in &record.rows {
        let Some(state) = row.measurement().and_then(|measurement| measurement.gpu.as_ref()) else { continue };
        let row = state_cells(row, state);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    Table {
        caption: "What the GPU did meanwhile, lowest to highest reading".into(),
        header: ["case", "multiprocessors MHz", "memory MHz", "power W", "temperature °C", "clocks held back by"]
            .map(str::to_owned)
            .into(),
        rows: rows.into_iter().map(|row| row.into_iter().map(Cell::from).collect()).collect(),
    }
}

fn state_cells(row: &Row, state: &GpuState) -> Vec<String> {
    let whole = |Interval { low, high }: Interval| {
        if low == high { format!("{low:.0}") } else { format!("{low:.0}–{high:.0}") }
    };
    let reasons = if state.throttle_reasons.is_empty() { "nothing".into() } else { state.throttle_reasons.join(", ") };
    let readings = [state.sm_clock_mhz, state.memory_clock_mhz, state.power_watts, state.temperature_celsius];
    std::iter::once(row.case.to_string()).chain(readings.map(whole)).chain([reasons]).collect()
}
