//! Diagnoses as text.

use crate::diagnose::facts::{Fact, Source};
use crate::diagnose::{Evidence, Judgment, Verdict};
use crate::record::sizes;

use super::Diagnosis;
use crate::commands::output;
use contract::config::Element;

/// How many undecided rules are named, unless all are shown.
const UNDECIDED_SHOWN: usize = 4;

/// One paragraph per diagnosis; every rule with `all`.
pub fn render(diagnoses: &[Diagnosis], all: bool) -> String {
    let paragraphs: Vec<_> = diagnoses.iter().map(|diagnosis| paragraph(diagnosis, all)).collect();
    paragraphs.join("\n")
}

fn paragraph(diagnosis: &Diagnosis, all: bool) -> String {
    let mut text = heading(diagnosis);
    let fired: Vec<_> = diagnosis.judgments.iter().filter_map(fired).collect();
    match fired.split_first() {
        Some(((first, evidence), others)) => {
            text += &format!(" bottleneck  {}: {}\n", first.rule.name, first.rule.bottleneck);
            text += &format!(" evidence    {}\n", list(evidence));
            text += &format!(" next        {}\n", first.rule.experiment);
            text += &format!(" source      {}\n", first.rule.source);
            for (judgment, evidence) in others {
                text += &format!(" also        {}: {}\n", judgment.rule.name, list(evidence));
            }
        }
        None => text += " bottleneck  not found: no rule that can be decided fires\n",
    }
    text = output::wrapped(&text);
    text += &undecided(diagnosis, if all { usize::MAX } else { UNDECIDED_SHOWN });
    if all {
        let not_fired = diagnosis.judgments.iter().filter_map(|judgment| match &judgment.verdict {
            Verdict::DoesNotFire { evidence } => Some(format!(
                " not fired   {}: {} is {}, not {}\n",
                judgment.rule.name,
                evidence.condition.fact.name(),
                evidence.condition.fact.quantity().show(evidence.value),
                evidence.condition
            )),
            _ => None,
        });
        text += &output::wrapped(&not_fired.collect::<String>());
    }
    text
}

fn heading(diagnosis: &Diagnosis) -> String {
    let case = diagnosis.case.map_or("an unknown case".to_owned(), |case| case.to_string());
    let names: Vec<_> = diagnosis.contender.iter().chain(&diagnosis.kernel).map(String::as_str).collect();
    format!("{case}: {}\n", names.join(", "))
}

fn fired(judgment: &Judgment) -> Option<(&Judgment, &[Evidence])> {
    match &judgment.verdict {
        Verdict::Fires { evidence } => Some((judgment, evidence)),
        _ => None,
    }
}

fn list(evidence: &[Evidence]) -> String {
    evidence.iter().map(Evidence::to_string).collect::<Vec<_>>().join(", ")
}

/// The undecided rules, grouped by the measurement that would decide them; at most `most` by name.
fn undecided(diagnosis: &Diagnosis, most: usize) -> String {
    let sources = [
        (Source::Bench, "a bench record: fa512 bench --json FILE", None),
        (Source::BenchAgainstOthers, "a bench record with other contenders: fa512 bench --contender all", None),
        (Source::Ceilings, "a bench record with the GPU's measured ceilings", None),
        (Source::Profile, "a profile", Some(profile_command(diagnosis))),
    ];
    let mut text = String::new();
    for (source, what, command) in sources {
        let needs = |missing: &[Fact]| missing.iter().any(|fact| fact.source() == source);
        let rules: Vec<_> = diagnosis
            .judgments
            .iter()
            .filter(|judgment| matches!(&judgment.verdict, Verdict::Undecided { missing } if needs(missing)))
            .map(|judgment| judgment.rule.name)
            .collect();
        let shown = rules.len().min(most);
        let more = match rules.len() - shown {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if !rules.is_empty() {
            let line = format!(" undecided   {}{more} (needs {what})\n", rules[..shown].join(", "));
            text += &output::wrapped(&line);
            // On one line, so that it can be copied.
            text += &command.map_or(String::new(), |command| format!("             {command}\n"));
        }
    }
    text
}

fn profile_command(diagnosis: &Diagnosis) -> String {
    let (Some(kernel), Some(case)) = (&diagnosis.kernel, diagnosis.case) else {
        return "fa512 profile".into();
    };
    let element = if case.element == Element::F16 { String::new() } else { format!(" --type {}", case.element.name()) };
    format!(
        "fa512 profile --variant {kernel} --shape {} --mask {}{element} --layout {}",
        sizes(case.shape),
        case.mask.name(),
        case.layout.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::facts::Facts;
    use crate::record::Case;
    use contract::config::Mask;
    use contract::problem::Shape;
    use contract::view::Layout;

    #[test]
    fn the_profile_that_is_asked_for_is_of_the_case() {
        let case = |shape, element| Case::plain(shape, element, Mask::Causal, Layout::Bhsd);
        let command = |case| {
            profile_command(&Diagnosis {
                contender: None,
                kernel: Some("entry".into()),
                case: Some(case),
                profiled: false,
                facts: Facts::default(),
                judgments: Vec::new(),
            })
        };
        let narrow = command(case(Shape::new(4, 8, 512), Element::F16));
        assert_eq!(narrow, "fa512 profile --variant entry --shape 4x8x512 --mask causal --layout bhsd");
        let wide = command(case(Shape::new(4, 8, 512).with_head_dim(128), Element::Bf16));
        assert!(wide.contains(" --shape 4x8x512x128 --mask causal --type bf16 "), "{wide}");
    }
}
