//! Maps: the best peer's time over ours at every point, the means, and the worst points.

use crate::map::record::Map;
use crate::map::summary::{AHEAD, Spread, Standing, by_ratio, by_regret, spreads, standings};
use crate::report::content::{Block, Cell, Section, Table, WidePlot};
use crate::report::heat::{NARROW, WIDE, draw};
use crate::report::number::{date, microseconds, ratio};
use crate::report::source::Named;

/// Number of worst points in a table.
const WORST: usize = 20;

/// The section of all maps, if there are any.
pub fn maps(maps: &[Named<Map>]) -> Option<Section> {
    let blocks = maps.iter().map(|Named { name, content }| block(name, content)).collect();
    (!maps.is_empty()).then_some(Section { id: "maps".into(), title: "Maps".into(), blocks })
}

fn block(name: &str, map: &Map) -> Block {
    let standings = standings(map);
    let tables = [means(&standings), slowest(&standings), misjudged(&standings)];
    Block {
        title: Some(name.to_owned()),
        verdict: verdict(&standings),
        wide_plot: plot(&standings),
        facts: facts(map),
        tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
        ..Block::default()
    }
}

fn verdict(standings: &[Standing]) -> Option<String> {
    let spread = Spread::new(standings.iter().filter_map(Standing::ratio))?;
    let Spread { count, mean, lowest, below_one, .. } = spread;
    Some(format!(
        "Ahead of the best peer at {} of {count} points, by {mean:.2} times as a geometric mean; {lowest:.2} at the worst.",
        count - below_one
    ))
}

fn plot(standings: &[Standing]) -> Option<WidePlot> {
    let caption = "The best peer’s time over ours, by batch × heads and sequence length";
    Some(WidePlot {
        caption: caption.into(),
        description: format!("Squares: {caption}; the tables below have the means and the lowest"),
        wide: draw(standings, &WIDE)?.svg(""),
        narrow: draw(standings, &NARROW)?.svg(""),
    })
}

fn facts(map: &Map) -> Vec<(&'static str, String)> {
    let header = &map.header;
    let libraries = header.libraries.iter().map(|(name, version)| format!("{name} {version}"));
    let mut facts = vec![
        ("GPU", header.environment.device.name.clone()),
        ("Begun", date(header.started_at)),
        ("Points", map.points.len().to_string()),
        ("Contenders", header.contenders.join(", ")),
        ("Git commit", header.git_commit.clone().unwrap_or_else(|| "unknown".into())),
        ("Command", header.command.join(" ")),
    ];
    facts.extend((!header.libraries.is_empty()).then(|| ("Libraries", libraries.collect::<Vec<_>>().join(", "))));
    facts
}

fn means(standings: &[Standing]) -> Table {
    let count = |count: usize| Cell::number(count as f64, |_| count.to_string());
    let row = |(name, spread): (String, Spread)| {
        let Spread { mean, lowest, below_one, below_ahead, count: points, .. } = spread;
        let numbers = [Cell::number(mean, ratio), Cell::number(lowest, ratio)];
        let counts = [below_one, below_ahead, points].map(count);
        [Cell::from(name)].into_iter().chain(numbers).chain(counts).collect()
    };
    let ahead = format!("below {AHEAD}");
    Table {
        caption: "The best peer’s time over ours".into(),
        header: ["points", "geometric mean", "lowest", "below 1", &ahead, "number"].map(str::to_owned).into(),
        rows: spreads(standings).into_iter().map(row).collect(),
    }
}

fn slowest(standings: &[Standing]) -> Table {
    let row = |(of_peer, standing): (f64, &Standing)| {
        let (peer, us) = standing.peer.unwrap_or_default();
        cells(standing, of_peer, us, [peer, standing.kernel])
    };
    Table {
        caption: "Where the best peer is nearest or ahead".into(),
        header: ["case", "peer / ours", "ours, µs", "peer, µs", "best peer", "kernel"].map(str::to_owned).into(),
        rows: by_ratio(standings).into_iter().take(WORST).map(row).collect(),
    }
}

fn misjudged(standings: &[Standing]) -> Table {
    let row = |(regret, standing): (f64, &Standing)| {
        cells(standing, regret, standing.best.1, [standing.best.0, standing.kernel])
    };
    Table {
        caption: "Where another of our kernels is faster than the one that is chosen".into(),
        header: ["case", "chosen / best", "chosen, µs", "best, µs", "best", "chosen"].map(str::to_owned).into(),
        rows: by_regret(standings).into_iter().take(WORST).map(row).collect(),
    }
}

/// The cells of a point: its case, a ratio, our time, another time, two names.
fn cells(standing: &Standing, of_times: f64, other_us: f64, names: [&str; 2]) -> Vec<Cell> {
    let times = [standing.ours_us, other_us].map(|us| Cell::number(us, microseconds));
    let first = [Cell::from(standing.case.to_string()), Cell::number(of_times, ratio)];
    first.into_iter().chain(times).chain(names.map(Cell::from)).collect()
}
