//! Some of many entries, with everything of which the many are made: for checks of what the same source becomes in each of them.

use std::collections::BTreeSet;
use std::fmt::Debug;

/// Of the entries `all`, few that have every option of them beside every width of tiles that has it in any of them.
///
/// An entry's options are its fields, also those of its tile and of the variants of enumerations in it, with their values; `columns` is the
/// width of its tiles, of which its arrays are made. Fields that are added are options, too.
pub fn cover<'a, T: Debug>(all: impl IntoIterator<Item = &'a T>, columns: impl Fn(&T) -> u32) -> Vec<&'a T> {
    let beside = |entry: &'a T| {
        let width = columns(entry);
        (entry, options(entry).into_iter().map(|option| (width, option)).collect::<BTreeSet<_>>())
    };
    let all: Vec<_> = all.into_iter().map(beside).collect();
    let mut missing: BTreeSet<_> = all.iter().flat_map(|(_, options)| options).collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let adds = |(_, options): &&(&T, BTreeSet<_>)| options.iter().filter(|option| missing.contains(option)).count();
        // The first of those that add most.
        let Some((entry, options)) = all.iter().rev().max_by_key(adds) else { break };
        missing.retain(|option| !options.contains(option));
        chosen.push(*entry);
    }
    chosen
}

/// The fields of an entry but its name, each with its value and behind those that it is part of, as `Debug` prints them.
fn options(entry: &impl Debug) -> BTreeSet<String> {
    let printed = format!("{entry:#?}");
    let (mut path, mut options) = (Vec::new(), BTreeSet::new());
    for line in printed.lines().map(str::trim).filter(|line| !line.starts_with("entry: ")) {
        if line.starts_with(['}', ')']) {
            path.pop();
            continue;
        }
        path.push(line);
        options.insert(path.concat());
        if !line.ends_with(['{', '(']) {
            path.pop();
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use contract::backward::variants::BACKWARD_VARIANTS;
    use contract::config::Family;
    use contract::tile::Configuration;
    use contract::variants::{VARIANTS, Variant};

    use super::{cover, options};

    #[test]
    fn options_are_those_of_the_tile_too() {
        let found = options(&VARIANTS[0]);
        let has = |path: &str| found.contains(path);
        assert!(has("Variant {mask: Full,") && has("Variant {sequence: Exact(512,"), "{found:#?}");
        assert!(has("Variant {config: Sm90Tma(Sm90Tma {warpgroups: 4,"), "{found:#?}");
        assert!(!found.iter().any(|option| option.contains(VARIANTS[0].entry)), "names are all different: {found:#?}");
    }

    /// Panics unless those chosen of `all` have the same of everything in `kinds`, and are fewer than half.
    fn assert_covers<T: Debug, K: PartialEq>(all: &[&T], columns: impl Fn(&T) -> u32, kinds: &[fn(&T) -> K]) {
        let chosen = cover(all.iter().copied(), &columns);
        for (entry, kind) in all.iter().flat_map(|entry| kinds.iter().map(move |kind| (entry, kind))) {
            let is_alike = |one: &&T| (columns(one), kind(one)) == (columns(entry), kind(entry));
            assert!(chosen.iter().any(is_alike), "none is like {entry:?}");
        }
        assert!(2 * chosen.len() < all.len(), "{} of {}", chosen.len(), all.len());
    }

    #[test]
    fn few_entries_have_every_option_beside_every_width() {
        for family in [Family::Sm80, Family::Sm90a] {
            let all: Vec<_> = VARIANTS.iter().filter(|variant| variant.family() == family).collect();
            let of_tile: fn(&Variant<'static>) -> String = |one| match one.config {
                Configuration::Sm80(tile) => format!("{:?}", tile.rescale),
                Configuration::Sm90Tma(tile) => format!("{:?}", tile.overlap),
            };
            assert_covers(
                &all,
                |one| one.config.columns(),
                &[
                    of_tile,
                    |one| format!("{:?}", one.mask),
                    |one| format!("{:?}", one.scores),
                    |one| format!("{:?}", one.sequence),
                    |one| format!("{:?}", one.element),
                    |one| format!("{:?}", (one.config.kind(), one.config.grid())),
                    |one| format!("keys of a step: {}", one.config.block_n()),
                    |one| format!("{:?}", one.leaves_parts),
                ],
            );
            let all: Vec<_> = BACKWARD_VARIANTS.iter().filter(|variant| variant.family() == family).collect();
            assert_covers(
                &all,
                |one| one.tile.columns(),
                &[
                    |one| format!("{:?}", one.mask),
                    |one| format!("{:?}", one.scores),
                    |one| format!("{:?}", one.computes_d_bias),
                    |one| format!("{:?}", one.sequence),
                    |one| format!("{:?}", one.element),
                    |one| format!("{:?}", std::mem::discriminant(&one.tile)),
                ],
            );
        }
    }
}
