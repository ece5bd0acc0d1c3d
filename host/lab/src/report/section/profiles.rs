//! Launches under ncu: utilisations and warp stalls.

use crate::report::content::{Block, Cell, Section, Table};
use crate::report::number::{microseconds, percent, shortened};
use crate::report::plot::{Bar, Label, Plot, Style, bars};
use crate::report::source::Named;
use cli::error::Result;
use cli::ncu::Profile;

/// The section of all profiles, if there are any.
pub fn profiles(profiles: &[Named<Profile>]) -> Result<Option<Section>> {
    if profiles.is_empty() {
        return Ok(None);
    }
    let blocks = profiles.iter().map(|Named { name, content }| block(name, content)).collect::<Result<_>>()?;
    Ok(Some(Section { id: "profiles".into(), title: "Profiles".into(), blocks }))
}

fn block(name: &str, profile: &Profile) -> Result<Block> {
    let mut facts = vec![("Kernel", profile.kernel.clone())];
    facts.extend(profile.case.map(|case| ("Case", case.to_string())));
    facts.extend(profile.device.clone().map(|device| ("Device", device)));
    facts.push(("Launch", format!("grid {}, block {}", profile.grid, profile.block)));
    // The list of metrics alone would be longer than the rest of the page.
    let words: Vec<_> = profile.ncu.iter().map(|word| shortened(word, 60)).collect();
    if !words.is_empty() {
        facts.push(("ncu", words.join(" ")));
    }
    let plots = [used(profile)?, stalls(profile)?].into_iter().flatten();
    Ok(Block {
        title: Some(name.to_owned()),
        facts,
        plots: plots.collect(),
        tables: vec![numbers(profile), stall_table(profile)],
        ..Block::default()
    })
}

/// Utilisations of a kernel's resources.
fn utilisations(profile: &Profile) -> [(&'static str, Option<f64>); 7] {
    [
        ("tensor cores", profile.tensor),
        ("exponentials (XU pipe)", profile.exponentials),
        ("issue slots", profile.issue),
        ("device memory", profile.dram.utilisation),
        ("L2", profile.l2.utilisation),
        ("occupancy", profile.occupancy.achieved),
        ("bank conflicts, of shared wavefronts", profile.bank_conflicts.share()),
    ]
}

fn used(profile: &Profile) -> Result<Option<Plot>> {
    let known = utilisations(profile).into_iter().filter_map(|(name, part)| Some((name.to_owned(), part?)));
    share_plot(known.collect(), "What the launch used", &profile.kernel)
}

fn stalls(profile: &Profile) -> Result<Option<Plot>> {
    const SHOWN: usize = 7;
    let longest = profile.stalls.iter().take(SHOWN).map(|stall| (stall.reason.clone(), stall.share));
    share_plot(longest.collect(), "Where the warps’ time went", &profile.kernel)
}

/// A bar plot of fractions.
pub fn share_plot(shares: Vec<(String, f64)>, caption: &str, of_what: &str) -> Result<Option<Plot>> {
    if shares.is_empty() {
        return Ok(None);
    }
    let bar = |(name, share): (String, f64)| Bar {
        label: Label { name, value: percent(share) },
        value: (100.0 * share).max(0.0),
        interval: None,
        style: Style::nth(0),
        marked: false,
    };
    Ok(Some(Plot {
        caption: caption.into(),
        description: format!("Bars: {caption} for {of_what}, in per cent, as in the table below"),
        svg: bars(shares.into_iter().map(bar).collect(), "%")?,
    }))
}

fn numbers(profile: &Profile) -> Table {
    let whole = |value: f64| format!("{value:.0}");
    let mut rows: Vec<Vec<Cell>> = utilisations(profile)
        .into_iter()
        .map(|(name, part)| vec![Cell::from(name), Cell::optional(part, percent)])
        .collect();
    rows.extend([
        vec!["occupancy that the launch allows".into(), Cell::optional(profile.occupancy.theoretical, percent)],
        vec!["duration under ncu, µs".into(), Cell::optional(profile.duration_us, microseconds)],
        vec![
            "device memory, TB/s".into(),
            Cell::optional(profile.dram.terabytes_per_second, |rate| format!("{rate:.2}")),
        ],
        vec!["L2 hit rate".into(), Cell::optional(profile.l2.hit_rate, percent)],
        vec!["shared-memory bank conflicts".into(), Cell::optional(profile.bank_conflicts.conflicts, whole)],
        vec!["shared-memory wavefronts".into(), Cell::optional(profile.bank_conflicts.wavefronts, whole)],
        vec!["registers of a thread".into(), Cell::optional(profile.registers, whole)],
        vec!["accesses to local memory".into(), Cell::optional(profile.local_accesses, whole)],
    ]);
    Table { caption: "Utilisation and conflicts".into(), header: ["what", "value"].map(str::to_owned).into(), rows }
}

fn stall_table(profile: &Profile) -> Table {
    let row = |stall: &cli::ncu::Stall| {
        vec![Cell::from(stall.reason.clone()), Cell::number(stall.share, percent), stall.meaning().into()]
    };
    Table {
        caption: "Where the warps’ time went".into(),
        header: ["reason", "share", "meaning"].map(str::to_owned).into(),
        rows: profile.stalls.iter().map(row).collect(),
    }
}
