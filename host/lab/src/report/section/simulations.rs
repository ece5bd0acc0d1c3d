//! Launches in the simulator: instruction mix and bank conflicts.

use super::profiles::share_plot;
use crate::report::content::{Block, Cell, Section, Table};
use crate::report::source::{Named, Simulation};
use cli::error::Result;

/// Suffix of the counters that add up to all instructions.
const CLASS: &str = "_instructions";
/// A counter with that suffix that is already included in others.
const LOCAL: &str = "local_memory_instructions";

/// The section of all simulations, if there are any.
pub fn simulations(simulations: &[Named<Simulation>]) -> Result<Option<Section>> {
    if simulations.is_empty() {
        return Ok(None);
    }
    let blocks = simulations.iter().map(|Named { name, content }| block(name, content)).collect::<Result<_>>()?;
    let title = "Instruction mix and bank conflicts in the simulator".into();
    Ok(Some(Section { id: "simulations".into(), title, blocks }))
}

fn block(name: &str, simulation: &Simulation) -> Result<Block> {
    let counters = &simulation.counters;
    let verdict = match (simulation.passed, simulation.findings.len()) {
        (true, _) => "passed".into(),
        (false, findings) => format!("failed, with {findings} findings"),
    };
    let facts = vec![
        ("Kernel", simulation.variant.clone()),
        ("Case", simulation.problem.to_string()),
        ("Checks", verdict),
        ("PTX", format!("{}, SHA-256 {}", simulation.ptx.file, simulation.ptx.sha256)),
        ("Git commit", simulation.ptx.git_commit.clone().unwrap_or_else(|| "unknown".into())),
        (
            "Bank conflicts",
            format!("{} of {} shared-memory wavefronts", counters.shared_bank_conflicts, counters.shared_wavefronts),
        ),
    ];
    let all = counters.instructions.max(1) as f64;
    let classes = counters.entries().filter(|(name, _)| name.ends_with(CLASS) && *name != LOCAL);
    let mut shares: Vec<(String, f64)> =
        classes.map(|(name, count)| (name.trim_end_matches(CLASS).replace('_', " "), count as f64 / all)).collect();
    shares.retain(|(_, share)| *share > 0.0);
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let rows = counters.entries().map(|(name, count)| {
        vec![Cell::from(name.replace('_', " ")), Cell::number(count as f64, |_| count.to_string())]
    });
    let table = Table {
        caption: format!("{name}: what the simulator counted"),
        header: ["what", "count"].map(str::to_owned).into(),
        rows: rows.collect(),
    };
    Ok(Block {
        title: Some(name.to_owned()),
        facts,
        plots: share_plot(shares, "Instructions by class", &simulation.variant)?.into_iter().collect(),
        tables: vec![table],
        ..Block::default()
    })
}
