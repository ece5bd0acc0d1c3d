//! A map as tables.

use std::fmt::Write;

use crate::map::fit::regret_of;
use crate::map::record::{Map, Outcome, Time};
use crate::map::summary::{AHEAD, Spread, Standing, by_ratio, by_regret, spreads, standings};
use crate::map::times::Times;
use comfy_table::CellAlignment;
use contract::cost::{self, Costs};

use cli::commands::output;

/// Default number of worst points shown.
pub const SHOWN: usize = 10;

/// Failures, the worst points, and the means.
pub fn map(map: &Map, worst: usize) -> String {
    let standings = standings(map);
    let mut text = format!("{}, {} points\n", map.header.environment.device.name, map.points.len());
    text += &failures(map);
    let slowest = by_ratio(&standings).into_iter().take(worst);
    text += &ranked(["peer / ours", "ours µs", "peer µs", "case", "best peer", "kernel"], slowest, |standing| {
        let (peer, us) = standing.peer.unwrap_or_default();
        (us, peer, standing.kernel)
    });
    let misjudged = by_regret(&standings).into_iter().take(worst);
    text += &ranked(["chosen / best", "chosen µs", "best µs", "case", "best", "chosen"], misjudged, |standing| {
        (standing.best.1, standing.best.0, standing.kernel)
    });
    text += &means(&standings);
    text += &predicted(map);
    text
}

/// How good the choice by predicted times is at these points.
fn predicted(map: &Map) -> String {
    let regret = |costs| regret_of(&Times::of(map, "").ok()?, costs).ok().flatten();
    let costs = Costs::find(cost::SHIPPED, &map.header.environment.device.gpu());
    match costs.and_then(|costs| Some((regret(costs)?, costs.gpu))) {
        Some((Spread { mean, highest, .. }, gpu)) => format!(
            "time of the kernel that is predicted to be the fastest (by constants of {gpu}) over that of the fastest: mean {mean:.3}, \
             worst {highest:.3}\n"
        ),
        None => String::new(),
    }
}

fn failures(map: &Map) -> String {
    let line = |case: &dyn std::fmt::Display, outcome: &Outcome| match &outcome.time {
        Time::Measured { .. } => None,
        Time::Wrong { reason } => Some(format!(" WRONG: {} in {case}: {reason}\n", outcome.contender)),
        Time::NotRun { reason } => Some(format!(" not run: {} in {case}: {reason}\n", outcome.contender)),
    };
    map.points.iter().flat_map(|point| point.results.iter().filter_map(|outcome| line(&point.case, outcome))).collect()
}

/// A table of points with their ratios. Our time and the case stand between the columns of `rest`.
fn ranked<'s, 'a: 's>(
    header: [&str; 6],
    points: impl Iterator<Item = (f64, &'s Standing<'a>)>,
    rest: impl Fn(&Standing<'a>) -> (f64, &'a str, &'a str),
) -> String {
    let mut table = output::table();
    table.set_header(header);
    for (ratio, standing) in points {
        let (other_us, first, second) = rest(standing);
        let times = [standing.ours_us, other_us].map(|us| format!("{us:.2}"));
        let names = [standing.case.to_string(), first.to_owned(), second.to_owned()];
        table.add_row([format!("{ratio:.3}")].into_iter().chain(times).chain(names));
    }
    rendered(table, 3)
}

/// Geometric means of the ratios to the best peer, and of the chosen kernel's time over the best kernel's.
fn means(standings: &[Standing]) -> String {
    let mut table = output::table();
    table.set_header(["peer / ours", "lowest", "< 1", &format!("< {AHEAD}"), "points", ""]);
    for (name, spread) in spreads(standings) {
        let counts = [spread.below_one, spread.below_ahead, spread.count].map(|count| count.to_string());
        let ratios = [spread.mean, spread.lowest].map(|ratio| format!("{ratio:.3}"));
        table.add_row(ratios.into_iter().chain(counts).chain([name]));
    }
    let mut text = rendered(table, 5);
    if let Some(spread) = Spread::new(standings.iter().map(Standing::regret)) {
        let _ = writeln!(
            text,
            "time of the chosen kernel over that of the fastest of those timed: mean {:.3}, worst {:.3}",
            spread.mean, spread.highest
        );
    }
    text
}

/// `table` as text, its first `numbers` columns right-aligned; empty if it has no rows.
fn rendered(mut table: comfy_table::Table, numbers: usize) -> String {
    if table.is_empty() {
        return String::new();
    }
    table.column_iter_mut().take(numbers).for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    format!("\n{}\n", output::fitted(table))
}
