//! Which entry is chosen for a problem and a device.

use cli::device::{Device, DeviceKind};
use cli::variant::choose;
use contract::config::{Family, Mask, Sequence};
use contract::manifest::Entry;
use contract::problem::{Problem, Shape};
use contract::view::Layout;

use crate::support::ptx;

fn device(architecture: u32, shared_bytes_per_block: u32) -> Device {
    Device {
        kind: DeviceKind::Gpu,
        name: "test device".into(),
        architecture,
        shared_bytes_per_block,
        multiprocessors: 132,
        l2_bytes: None,
        driver: None,
        uuid: None,
    }
}

fn problem(sequence: u32, mask: Mask) -> Problem {
    Problem::new(Shape::new(1, 1, sequence), mask, Layout::Bhsd).unwrap()
}

#[test]
fn a_specialised_entry_is_preferred_to_a_general_one_of_its_tile() {
    let mut specialised = 0;
    for mask in [Mask::Full, Mask::Causal] {
        for (heads, sequence) in [(1, 512), (32, 512), (256, 512), (1, 511), (256, 511)] {
            let problem = Problem::new(Shape::new(1, heads, sequence), mask, Layout::Bhsd).unwrap();
            let choice = choose(ptx(), &problem, &device(90, 227 * 1024), None).unwrap();
            assert!(choice.entry.sequence.accepts(sequence) && choice.entry.mask == mask, "{}", choice.entry.name);
            assert!(choice.reason.starts_with("expected to take "), "{}", choice.reason);
            let exact = Sequence::Exact(sequence);
            let alike = |entry: &Entry| {
                (entry.config, entry.mask, entry.element) == (choice.entry.config, mask, choice.entry.element)
            };
            let has_own = ptx().entries().any(|(entry, _)| alike(entry) && entry.sequence == exact);
            assert_eq!(choice.entry.sequence == exact, has_own, "{}", choice.entry.name);
            specialised += u32::from(has_own);
        }
    }
    assert!(specialised > 0, "no choice was of a tile that has both");
}

#[test]
fn a_family_made_for_the_device_is_preferred_to_one_that_runs_everywhere() {
    for (architecture, expected) in
        [(80, Family::Sm80), (86, Family::Sm80), (89, Family::Sm80), (90, Family::Sm90a), (100, Family::Sm80)]
    {
        for (sequence, mask) in [(512, Mask::Full), (512, Mask::Causal), (77, Mask::Full), (77, Mask::Causal)] {
            let choice = choose(ptx(), &problem(sequence, mask), &device(architecture, 99 * 1024), None).unwrap();
            assert_eq!(choice.entry.family(), expected, "sm_{architecture}, sequence {sequence}");
            assert!(choice.reason.contains(" µs at the speed of NVIDIA H"), "{}", choice.reason);
        }
    }
}

#[test]
fn an_entry_for_another_architecture_is_refused_by_name() {
    let hopper = ptx().entries().find(|(entry, _)| entry.family() == Family::Sm90a).expect("there is one").0;
    let message = choose(ptx(), &problem(512, hopper.mask), &device(89, 99 * 1024), Some(&hopper.name)).unwrap_err();
    assert!(message.to_string().contains("needs sm_90, as H100"), "{message}");
    let portable = "fa512_sm80_any_full_128x64";
    let choice = choose(ptx(), &problem(512, Mask::Full), &device(90, 227 * 1024), Some(portable)).unwrap();
    assert_eq!((choice.entry.name.as_str(), choice.reason.as_str()), (portable, "asked for by name"));
}

#[test]
fn an_entry_that_does_not_fit_the_device_is_passed_over() {
    let problem = problem(512, Mask::Full);
    let preferred = choose(ptx(), &problem, &device(90, 227 * 1024), None).unwrap().entry;
    let small = device(90, preferred.dynamic_shared_bytes - 1);
    let choice = choose(ptx(), &problem, &small, None).unwrap();
    assert_ne!(choice.entry.name, preferred.name);
    let message = choose(ptx(), &problem, &small, Some(&preferred.name)).unwrap_err().to_string();
    assert!(message.contains("bytes of shared memory per block; this GPU has"), "{message}");
}

#[test]
fn a_device_that_runs_no_entry_is_told_why_in_one_line() {
    let message = choose(ptx(), &problem(512, Mask::Full), &device(75, 64 * 1024), None).unwrap_err().to_string();
    assert!(message.starts_with("no variant runs this problem on sm_75:"), "{message}");
    assert!(message.contains("needs sm_80 or later; this GPU is sm_75"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}
