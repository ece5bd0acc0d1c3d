//! Chooses the entry that computes a problem on a device: the one that was asked for, else the one that the tuned table
//! names, else by the order of preference.

use std::cmp::Reverse;

use contract::config::Grid;
use contract::geometry::query_tiles;
use contract::manifest::Entry;

use crate::error::{Error, Result};
use crate::executor::{Device, PtxModule};
use crate::launch::{check_accepts, check_fits};
use crate::problem::{Problem, mask_name};
use crate::ptx_folder::PtxFolder;
use crate::tune::class::ShapeClass;
use crate::tune::table::{Hit, Table};

/// A chosen entry.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// The module it is in.
    pub module: &'a PtxModule,
    /// Why it was chosen, for people.
    pub reason: String,
}

/// Chooses among the entries of `folder`, with its tuned table, as [`choose_among`].
///
/// # Errors
/// As [`choose_among`].
pub fn choose<'a>(
    folder: &'a PtxFolder,
    problem: &Problem,
    device: &Device,
    requested: Option<&str>,
) -> Result<Choice<'a>> {
    choose_among(folder.entries().collect(), folder.tuned(), problem, device, requested)
}

/// Chooses the entry called `requested`; else the one that `table` names for problems of this class on this GPU or one of
/// its architecture; else the first of `entries`, which are in order of preference, that accepts `problem` and fits
/// `device`, or where that one's tiles are fewer than multiprocessors the one of its kind with the smallest tiles.
///
/// # Errors
/// [`Error::Invalid`] when there is no such entry, it does not accept the problem, or none does; the message says why
/// each was passed over.
pub fn choose_among<'a>(
    entries: Vec<(&'a Entry, &'a PtxModule)>,
    table: &Table,
    problem: &Problem,
    device: &Device,
    requested: Option<&str>,
) -> Result<Choice<'a>> {
    if let Some(name) = requested {
        return choose_by_name(&entries, problem, device, name);
    }
    let class = ShapeClass::new(problem.shape(), problem.mask(), device.multiprocessors);
    match table.find(device, &class) {
        None => choose_by_preference(&entries, problem, device, ", for which nothing was tuned"),
        Some(hit) => match choose_by_name(&entries, problem, device, &hit.class.variant) {
            Ok(choice) => Ok(Choice { reason: reason_of(&hit, device, &class), ..choice }),
            Err(_) => {
                let why = why_not(&entries, problem, device, &hit.class.variant);
                choose_by_preference(
                    &entries,
                    problem,
                    device,
                    &format!("; the tuned table's choice is passed over: {why}"),
                )
            }
        },
    }
}

fn check(entry: &Entry, problem: &Problem, device: &Device) -> Result<()> {
    check_accepts(entry, problem)?;
    check_fits(entry, device)
}

fn choose_by_name<'a>(
    entries: &[(&'a Entry, &'a PtxModule)],
    problem: &Problem,
    device: &Device,
    name: &str,
) -> Result<Choice<'a>> {
    let Some(&(entry, module)) = entries.iter().find(|(entry, _)| entry.name == name) else {
        let names: Vec<_> = entries.iter().map(|(entry, _)| entry.name.as_str()).collect();
        return Err(Error::Invalid(format!("there is no variant {name}; there are: {}", names.join(", "))));
    };
    check(entry, problem, device)?;
    Ok(Choice { entry, module, reason: "asked for by name".into() })
}

/// Why the entry that a table names is not launched, in a few words.
fn why_not(entries: &[(&Entry, &PtxModule)], problem: &Problem, device: &Device, name: &str) -> String {
    match entries.iter().find(|(entry, _)| entry.name == name) {
        None => format!("{name} is not in this PTX"),
        Some((entry, _)) => check(entry, problem, device).err().map(|error| error.to_string()).unwrap_or_default(),
    }
}

fn reason_of(hit: &Hit<'_>, device: &Device, class: &ShapeClass) -> String {
    let gpu = match hit.gpu.name == device.name {
        true => hit.gpu.name.clone(),
        false => format!("{}, which is sm_{} too", hit.gpu.name, device.architecture),
    };
    match hit.class.class == *class {
        true => format!("tuned: the fastest for {class} on {gpu}"),
        false => format!("tuned: the fastest for {} on {gpu}, the nearest to {class}", hit.class.class),
    }
}

fn choose_by_preference<'a>(
    entries: &[(&'a Entry, &'a PtxModule)],
    problem: &Problem,
    device: &Device,
    because: &str,
) -> Result<Choice<'a>> {
    let mut passed_over = Vec::new();
    let mut acceptable = Vec::new();
    for &(entry, module) in entries {
        match check(entry, problem, device) {
            Ok(()) => acceptable.push((entry, module)),
            Err(error) => passed_over.push(format!("\n  {error}")),
        }
    }
    let Some(&(first, module)) = acceptable.first() else {
        return Err(Error::Invalid(format!(
            "no variant runs this problem on {}:{}",
            device.name,
            passed_over.concat()
        )));
    };
    let kind = format!(
        "for sequence {}, {} mask, sm_{}{because}",
        problem.shape().sequence,
        mask_name(problem.mask()),
        device.architecture
    );
    let tiles = |entry: &Entry| tiles(entry, problem);
    if tiles(first) < u64::from(device.multiprocessors) {
        let of_its_kind = acceptable.iter().filter(|(entry, _)| {
            (entry.family, entry.sequence) == (first.family, first.sequence) && tiles(entry) > tiles(first)
        });
        let smallest = of_its_kind.min_by_key(|(entry, _)| (Reverse(tiles(entry)), entry.config.grid != Grid::OneShot));
        if let Some(&(entry, module)) = smallest {
            let reason = format!(
                "small tiles, since {} has {} multiprocessors for {} tiles of the first in order of preference {kind}",
                device.name,
                device.multiprocessors,
                tiles(first)
            );
            return Ok(Choice { entry, module, reason });
        }
    }
    Ok(Choice { entry: first, module, reason: format!("first in order of preference {kind}") })
}

/// Query tiles of all heads.
fn tiles(entry: &Entry, problem: &Problem) -> u64 {
    let shape = problem.shape();
    u64::from(shape.batch) * u64::from(shape.heads) * u64::from(query_tiles(shape.sequence, entry.config.block_m))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::DeviceKind;
    use crate::problem::{Layout, Shape};
    use crate::tune::plan::tests::case;
    use crate::tune::table::{TunedClass, TunedGpu};
    use contract::config::{Family, Mask, Sequence};
    use contract::variants::VARIANTS;

    const MULTIPROCESSORS: u32 = 132;

    fn device(name: &str, architecture: u32) -> Device {
        Device {
            kind: DeviceKind::Gpu,
            name: name.into(),
            architecture,
            shared_bytes_per_block: 227 * 1024,
            multiprocessors: MULTIPROCESSORS,
            l2_bytes: None,
            driver: None,
            uuid: None,
        }
    }

    /// Three entries for S = 512 with the full mask: large tiles first, then small ones, then one of small tiles and a
    /// persistent grid.
    fn entries() -> Vec<Entry> {
        let shipped = VARIANTS.iter().find(|variant| {
            (variant.family, variant.mask, variant.sequence) == (Family::Sm80, Mask::Full, Sequence::Any)
        });
        let mut small: Entry = shipped.expect("a general variant").into();
        small.name = "small".into();
        small.config.block_m = 64;
        let (mut large, mut persistent) = (small.clone(), small.clone());
        large.name = "large".into();
        large.config.block_m = 256;
        persistent.name = "persistent".into();
        persistent.config.grid = Grid::Persistent;
        vec![large, persistent, small]
    }

    fn table(variant: &str, batch: u32) -> Table {
        let case = case(batch, 8, 1024, Mask::Full);
        let class = ShapeClass::new(case.shape, case.mask, MULTIPROCESSORS);
        let classes = vec![TunedClass { class, variant: variant.into(), case, median_us: None, against: None }];
        let gpu = TunedGpu { name: "NVIDIA H200".into(), architecture: 90, multiprocessors: MULTIPROCESSORS, classes };
        Table { gpus: vec![gpu] }
    }

    fn chosen(table: &Table, device: &Device, batch: u32, requested: Option<&str>) -> (String, String) {
        let (entries, module) = (entries(), PtxModule { file: "a.ptx".into(), text: String::new() });
        let entries = entries.iter().map(|entry| (entry, &module)).collect();
        let shape = Shape { batch, heads: 8, sequence: 1024 };
        let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
        let choice = choose_among(entries, table, &problem, device, requested).unwrap();
        (choice.entry.name.clone(), choice.reason)
    }

    #[test]
    fn the_tuned_table_decides_and_the_reason_says_what_it_rests_on() {
        let (name, reason) = chosen(&table("small", 64), &device("NVIDIA H200", 90), 64, None);
        assert_eq!(name, "small");
        assert_eq!(
            reason,
            "tuned: the fastest for sequences up to 1024, full mask, up to 4 heads a multiprocessor on NVIDIA H200"
        );
        let (name, reason) = chosen(&table("small", 64), &device("NVIDIA H100", 90), 1, None);
        assert_eq!(name, "small");
        assert!(reason.contains("NVIDIA H200, which is sm_90 too"), "{reason}");
        assert!(reason.contains("the nearest to sequences up to 1024, full mask, up to 0.25 heads"), "{reason}");
    }

    #[test]
    fn a_variant_that_is_asked_for_overrides_the_table() {
        let (name, reason) = chosen(&table("small", 64), &device("NVIDIA H200", 90), 64, Some("large"));
        assert_eq!((name.as_str(), reason.as_str()), ("large", "asked for by name"));
    }

    #[test]
    fn a_gpu_that_was_never_tuned_gets_the_first_in_order_of_preference() {
        let (name, reason) = chosen(&table("small", 64), &device("NVIDIA L4", 89), 64, None);
        assert_eq!(name, "large");
        let expected = "first in order of preference for sequence 1024, full mask, sm_89, for which nothing was tuned";
        assert_eq!(reason, expected);
    }

    #[test]
    fn without_a_table_few_heads_get_small_tiles_of_a_one_shot_grid() {
        let (name, reason) = chosen(&Table::default(), &device("NVIDIA L4", 89), 4, None);
        assert_eq!(name, "small");
        assert!(reason.contains("132 multiprocessors for 128 tiles of the first"), "{reason}");
        assert_eq!(chosen(&Table::default(), &device("NVIDIA L4", 89), 5, None).0, "large", "160 tiles fill it");
    }

    #[test]
    fn a_tuned_variant_that_is_not_there_is_passed_over_with_a_word() {
        let (name, reason) = chosen(&table("gone", 64), &device("NVIDIA H200", 90), 64, None);
        assert_eq!(name, "large");
        assert!(reason.contains("the tuned table's choice is passed over: gone is not in this PTX"), "{reason}");
    }
}
