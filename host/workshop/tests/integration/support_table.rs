//! The support table of the documents says what the variants of this build compute.

use contract::config::{Element, HEAD_DIM, Mask, Sequence};
use contract::variants::VARIANTS;

use crate::support::ptx;

const DOCUMENT: &str = include_str!("../../../../docs/use/README.md");
/// The first cells of the table's head.
const HEAD: &str = "| GPU | `sm` | type | D | mask | sequences |";

/// What the variants that run on `architecture` compute, as the table writes it.
fn computed(architecture: u32) -> [String; 4] {
    let here = || VARIANTS.iter().filter(|variant| variant.config.family().runs_on(architecture));
    let types = Element::ALL.into_iter().filter(|&element| here().any(|variant| variant.element == element));
    let masks =
        [Mask::Full, Mask::Causal, Mask::Window].into_iter().filter(|&mask| here().any(|variant| variant.mask == mask));
    let sequences = [(Sequence::Any, "any"), (Sequence::Packed, "packed")]
        .into_iter()
        .filter(|(sequence, _)| here().any(|variant| variant.sequence == *sequence));
    let dimension = here().next().map(|_| HEAD_DIM.to_string());
    let listed = |names: Vec<&str>| if names.is_empty() { "–".into() } else { names.join(", ") };
    [
        listed(types.map(Element::name).collect()),
        dimension.unwrap_or("–".into()),
        listed(masks.map(Mask::name).collect()),
        listed(sequences.map(|(_, name)| name).collect()),
    ]
}

#[test]
fn every_row_says_what_the_variants_compute() {
    let rows =
        DOCUMENT.lines().skip_while(|line| !line.starts_with(HEAD)).skip(2).take_while(|line| line.starts_with('|'));
    let mut architectures = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_end_matches(" ¹")).collect();
        for architecture in cells[2].split(", ") {
            let architecture = architecture.parse().unwrap_or_else(|error| panic!("{row}: {error}"));
            assert_eq!(cells[3..7], computed(architecture), "sm_{architecture}");
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
