//! The support table in the documents matches the variants of this build.

use contract::config::{Element, Mask, Scores, Sequence};
use contract::variants::VARIANTS;

use crate::support::ptx;

const DOCUMENT: &str = include_str!("../../../../docs/use/README.md");
/// The first cells of the table's head.
const HEAD: &str = "| GPU | `sm` | type | D ¹ | mask | sequences | scores ² |";
const MASKS: [Mask; 3] = [Mask::Full, Mask::Causal, Mask::Window];
const SEQUENCES: [(Sequence, &str); 2] = [(Sequence::Any, "any"), (Sequence::Packed, "packed")];
const SCORES: [(Scores, &str); 2] = [(Scores::Unmodified, "plain"), (Scores::Modified, "modified")];

/// The largest head dimension that the variants on `architecture` compute for this combination. Those that change scores apply every
/// mask as a window, and some of them serve windows of scores that are not changed.
fn largest(architecture: u32, element: Element, mask: Mask, sequence: Sequence, scores: Scores) -> Option<u32> {
    let mask = if scores == Scores::Modified { Mask::Window } else { mask };
    let computes = |&variant: &_| {
        let contract::variants::Variant { element: e, mask: m, sequence: s, scores: c, config, .. } = variant;
        let applies = (m, c) == (mask, scores) || mask == Mask::Window && variant.serves_windows();
        (e, s) == (element, sequence) && applies && config.family().runs_on(architecture)
    };
    VARIANTS.iter().filter(|variant| computes(variant)).map(|variant| *variant.head_dims().end()).max()
}

/// The cells of types, head dimensions, masks, sequences and scores for `architecture`.
///
/// # Panics
/// Where a combination is missing: then a row cannot say it.
fn computed(architecture: u32) -> [String; 5] {
    let mut found = Vec::new();
    for element in Element::ALL {
        for mask in MASKS {
            for (scores, _) in SCORES {
                found.extend(SEQUENCES.map(|(sequence, _)| largest(architecture, element, mask, sequence, scores)));
            }
        }
    }
    assert!(found.iter().all(|largest| *largest == found[0]), "sm_{architecture}: {found:?}");
    match found[0] {
        None => ["–"; 5].map(str::to_owned),
        Some(largest) => [
            Element::ALL.map(Element::name).join(", "),
            format!("8 to {largest}"),
            MASKS.map(Mask::name).join(", "),
            SEQUENCES.map(|(_, name)| name).join(", "),
            SCORES.map(|(_, name)| name).join(", "),
        ],
    }
}

#[test]
fn every_row_says_what_the_variants_compute() {
    let rows =
        DOCUMENT.lines().skip_while(|line| !line.starts_with(HEAD)).skip(2).take_while(|line| line.starts_with('|'));
    let mut architectures = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for architecture in cells[2].split(", ") {
            let architecture = architecture.parse().unwrap_or_else(|error| panic!("{row}: {error}"));
            assert_eq!(cells[3..8], computed(architecture), "sm_{architecture}");
            architectures.push(architecture);
        }
    }
    architectures.sort();
    assert_eq!(architectures, [70, 75, 80, 86, 89, 90, 100, 103, 120]);
}

#[test]
fn it_names_the_version_of_the_ptx() {
    for module in &ptx().manifest().modules {
        let named = format!("The PTX is `.version {}`", module.ptx_version);
        assert!(DOCUMENT.contains(&named), "{}: {named}", module.target);
    }
}
