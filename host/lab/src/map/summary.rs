//! Summarises a map: the best peer's time over ours at each point, and how good the choice among our kernels is.

use super::record::{Map, OURS, Outcome, Point};
use cli::record::Case;

/// The ratio that 95 % of the points should reach.
pub const AHEAD: f64 = 1.15;

/// From this time on, start and end no longer dominate a call, µs.
const LONG_US: f64 = 8.0;
/// Upper ends of the ranges of sequence lengths that are summarised.
const LENGTHS: [u32; 4] = [64, 200, 1000, u32::MAX];

/// Our time at a point compared with others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing<'a> {
    /// The case.
    pub case: Case,
    /// The kernel that was launched.
    pub kernel: &'a str,
    /// Its median, µs.
    pub ours_us: f64,
    /// The fastest contender that is not ours, with its median in µs.
    pub peer: Option<(&'a str, f64)>,
    /// The fastest of our kernels, with its median in µs: the chosen one, or a better one if all were timed.
    pub best: (&'a str, f64),
}

impl<'a> Standing<'a> {
    /// The standing at `point`; `None` if our kernel was not timed.
    pub fn new(point: &'a Point) -> Option<Self> {
        let timed = |outcome: &'a Outcome| Some((outcome, outcome.median_us()?));
        let timed: Vec<_> = point.results.iter().filter_map(timed).collect();
        let kernels = || timed.iter().filter_map(|(outcome, us)| Some((outcome.kernel.as_deref()?, *us)));
        let peers = timed.iter().filter(|(outcome, _)| outcome.kernel.is_none());
        let fastest = |a: &(&str, f64), b: &(&str, f64)| a.1.total_cmp(&b.1);
        let (ours, ours_us) = timed.iter().find(|(outcome, _)| outcome.contender == OURS)?;
        Some(Self {
            case: point.case,
            kernel: ours.kernel.as_deref()?,
            ours_us: *ours_us,
            peer: peers.map(|(outcome, us)| (outcome.contender.as_str(), *us)).min_by(fastest),
            best: kernels().min_by(fastest)?,
        })
    }

    /// The best peer's time over ours; below 1 if we are slower. `None` if no peer was timed.
    pub fn ratio(&self) -> Option<f64> {
        self.peer.map(|(_, us)| us / self.ours_us)
    }

    /// Our time over that of the fastest of our kernels: 1 if the choice was right.
    pub fn regret(&self) -> f64 {
        self.ours_us / self.best.1
    }
}

/// The points of `map` at which our kernel was timed.
pub fn standings(map: &Map) -> Vec<Standing<'_>> {
    map.points.iter().filter_map(Standing::new).collect()
}

/// The points with a ratio to a peer, lowest first.
pub fn by_ratio<'s, 'a>(standings: &'s [Standing<'a>]) -> Vec<(f64, &'s Standing<'a>)> {
    let mut ranked: Vec<_> = standings.iter().filter_map(|standing| Some((standing.ratio()?, standing))).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    ranked
}

/// The points where another of our kernels was faster than the chosen one, largest regret first.
pub fn by_regret<'s, 'a>(standings: &'s [Standing<'a>]) -> Vec<(f64, &'s Standing<'a>)> {
    let regrets = standings.iter().map(|standing| (standing.regret(), standing));
    let mut ranked: Vec<_> = regrets.filter(|(regret, _)| *regret > 1.0).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked
}

/// Ratios to the best peer over all points, over long calls, and by ranges of the sequence length, each with its name;
/// empty groups are left out.
pub fn spreads(standings: &[Standing]) -> Vec<(String, Spread)> {
    let spread = |of: &dyn Fn(&Standing) -> bool| {
        Spread::new(standings.iter().filter(|standing| of(standing)).filter_map(Standing::ratio))
    };
    let is_long = |standing: &Standing| standing.ours_us >= LONG_US;
    let mut spreads =
        vec![("all".to_owned(), spread(&|_| true)), (format!("calls of {LONG_US} µs and more"), spread(&is_long))];
    let mut begin = 0;
    for end in LENGTHS {
        let of_length = |standing: &Standing| (begin + 1..=end).contains(&standing.case.shape.sequence);
        let name = if end == u32::MAX { format!("S over {begin}") } else { format!("S up to {end}") };
        let both = spread(&|standing| is_long(standing) && of_length(standing));
        spreads.push((format!("{name}, calls of {LONG_US} µs and more"), both));
        begin = end;
    }
    spreads.into_iter().filter_map(|(name, spread)| Some((name, spread?))).collect()
}

/// Summary of a set of ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Number of ratios.
    pub count: usize,
    /// Geometric mean.
    pub mean: f64,
    /// Minimum.
    pub lowest: f64,
    /// Maximum.
    pub highest: f64,
    /// Number of ratios below 1.
    pub below_one: usize,
    /// Number of ratios below [`AHEAD`].
    pub below_ahead: usize,
}

impl Spread {
    /// Summarises positive `ratios`; `None` if there are none.
    pub fn new(ratios: impl IntoIterator<Item = f64>) -> Option<Self> {
        let ratios: Vec<f64> = ratios.into_iter().collect();
        let count = Some(ratios.len()).filter(|&count| count > 0)?;
        let below = |limit: f64| ratios.iter().filter(|&&ratio| ratio < limit).count();
        Some(Self {
            count,
            mean: (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / count as f64).exp(),
            lowest: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            highest: ratios.iter().copied().fold(0.0, f64::max),
            below_one: below(1.0),
            below_ahead: below(AHEAD),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{measured, point};
    use super::*;
    use crate::map::record::Time;

    #[test]
    fn a_point_stands_by_the_best_peer_and_the_best_of_our_kernels() {
        let lost = Outcome {
            contender: "torch:flex".into(),
            kernel: None,
            parts: 1,
            time: Time::NotRun { reason: "it does not know it".into() },
        };
        let point = point(
            (4, 8, 512),
            vec![
                measured(OURS, Some("large"), 10.0),
                measured("variant:small", Some("small"), 8.0),
                measured("torch:cudnn", None, 12.0),
                measured("torch:flash", None, 15.0),
                lost,
            ],
        );
        let standing = Standing::new(&point).expect("it was timed");
        assert_eq!(
            (standing.kernel, standing.peer, standing.best),
            ("large", Some(("torch:cudnn", 12.0)), ("small", 8.0))
        );
        assert_eq!((standing.ratio(), standing.regret()), (Some(1.2), 1.25));
    }

    #[test]
    fn a_point_without_our_time_has_no_standing_and_one_without_peers_no_ratio() {
        assert_eq!(Standing::new(&point((1, 1, 16), vec![measured("torch:cudnn", None, 12.0)])), None);
        let alone = point((1, 1, 16), vec![measured(OURS, Some("large"), 10.0)]);
        let standing = Standing::new(&alone).expect("it was timed");
        assert_eq!((standing.ratio(), standing.regret()), (None, 1.0));
    }

    #[test]
    fn points_are_ranked_and_summed_up_by_length() {
        let beside = |sequence, ours, peer| {
            point((1, 1, sequence), vec![measured(OURS, Some("large"), ours), measured("torch:cudnn", None, peer)])
        };
        let misjudged =
            point((1, 1, 2000), vec![measured(OURS, Some("large"), 20.0), measured("v", Some("small"), 16.0)]);
        let points = [beside(64, 10.0, 8.0), beside(65, 10.0, 20.0), beside(500, 2.0, 6.0), misjudged];
        let standings: Vec<_> = points.iter().filter_map(Standing::new).collect();
        assert_eq!(by_ratio(&standings).iter().map(|ranked| ranked.0).collect::<Vec<_>>(), [0.8, 2.0, 3.0]);
        assert_eq!(by_regret(&standings).iter().map(|ranked| ranked.0).collect::<Vec<_>>(), [1.25]);
        let spreads: Vec<_> = spreads(&standings).into_iter().map(|(name, spread)| (name, spread.count)).collect();
        let long = "calls of 8 µs and more";
        let expected = [
            ("all".to_owned(), 3),
            (long.to_owned(), 2),
            (format!("S up to 64, {long}"), 1),
            (format!("S up to 200, {long}"), 1),
        ];
        assert_eq!(spreads, expected, "500 is a short call, 2,000 has no peer");
    }

    #[test]
    fn the_mean_of_ratios_is_geometric() {
        let spread = Spread::new([0.5, 2.0, 1.0, 1.1]).unwrap();
        assert!((spread.mean - 1.1f64.powf(0.25)).abs() < 1e-12);
        assert_eq!((spread.count, spread.lowest, spread.highest), (4, 0.5, 2.0));
        assert_eq!((spread.below_one, spread.below_ahead), (1, 3));
        assert_eq!(Spread::new([]), None);
    }
}
