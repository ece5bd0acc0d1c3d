//! Fuzz campaigns: how many random problems passed, and how close to their tolerances the results are.

use crate::report::content::{Block, Cell, Notice, Section, Table};
use crate::report::source::{Campaign, CampaignRow, Named};

/// The section of all campaigns, if there are any.
pub fn campaigns(campaigns: &[Named<Campaign>]) -> Option<Section> {
    let blocks = campaigns.iter().map(|Named { name, content }| block(name, content)).collect();
    let title = "Random problems against f64".into();
    (!campaigns.is_empty()).then_some(Section { id: "campaigns".into(), title, blocks })
}

fn block(name: &str, campaign: &Campaign) -> Block {
    let Campaign { passed, seed, device, git_commit, cases, passed_cases, distributions, failed } = campaign;
    let verdict = if *passed { "passed" } else { "did not pass" };
    Block {
        title: Some(name.to_owned()),
        text: vec![format!("The campaign {verdict}: {passed_cases} of {cases} cases have nothing wrong.")],
        warnings: failed
            .iter()
            .map(|failure| Notice::new("A case failed.".into(), &format!("repeat it: {}", failure.command)))
            .collect(),
        facts: vec![
            ("Device", format!("{}, sm_{}", device.name, device.architecture)),
            ("Seed", seed.to_string()),
            ("Git commit", git_commit.clone().unwrap_or_else(|| "unknown".into())),
        ],
        tables: vec![Table {
            caption:
                "Largest error of each case, in units of its tolerance (1 is the bound), by distribution of the inputs"
                    .into(),
            header: ["inputs", "cases", "passed", "median", "p95", "largest"].map(str::to_owned).into(),
            rows: distributions.iter().map(cells).collect(),
        }],
        ..Block::default()
    }
}

fn cells(row: &CampaignRow) -> Vec<Cell> {
    let count = |count: u64| Cell::number(count as f64, |_| count.to_string());
    let error = |error: Option<f64>| Cell::optional(error, |error| format!("{error:.3}"));
    let [median, p95, maximum] = row.worst.map_or([None; 3], |worst| [worst.median, worst.p95, worst.maximum]);
    let name = Cell::from(row.distribution.name());
    vec![name, count(row.cases), count(row.passed), error(median), error(p95), error(maximum)]
}
