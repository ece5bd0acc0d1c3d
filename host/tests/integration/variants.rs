//! Which entry is chosen for a problem and a device.

use fa512::executor::{Device, DeviceKind};
use fa512::problem::{Layout, Problem, Shape};
use fa512::variant::choose;
use kernel_gpu::config::{Mask, Sequence};

use crate::support::ptx;

fn device(architecture: u32, shared_bytes_per_block: u32) -> Device {
    Device {
        kind: DeviceKind::Gpu,
        name: "test device".into(),
        architecture,
        shared_bytes_per_block,
        l2_bytes: None,
        driver: None,
        uuid: None,
    }
}

fn problem(sequence: u32, mask: Mask) -> Problem {
    Problem::new(Shape { batch: 1, heads: 1, sequence }, mask, Layout::Bhsd).unwrap()
}

#[test]
fn a_specialised_entry_is_preferred_to_a_general_one() {
    for mask in [Mask::Full, Mask::Causal] {
        for (sequence, expected) in [(512, Sequence::Exact(512)), (511, Sequence::Any)] {
            let problem = problem(sequence, mask);
            let choice = choose(ptx(), &problem, &device(90, 227 * 1024), None).unwrap();
            assert_eq!((choice.entry.sequence, choice.entry.mask), (expected, mask));
            assert!(choice.reason.contains(&sequence.to_string()), "{}", choice.reason);
        }
    }
}

#[test]
fn an_entry_that_does_not_fit_the_device_is_passed_over() {
    let problem = problem(512, Mask::Full);
    let preferred = choose(ptx(), &problem, &device(90, 227 * 1024), None).unwrap().entry;
    let small = device(90, preferred.dynamic_shared_bytes - 1);
    let choice = choose(ptx(), &problem, &small, None).unwrap();
    assert_ne!(choice.entry.name, preferred.name);
    let message = choose(ptx(), &problem, &small, Some(&preferred.name)).unwrap_err().to_string();
    assert!(message.contains("bytes of shared memory per block; test device has"), "{message}");
}

#[test]
fn a_device_that_runs_no_entry_is_told_why_for_each() {
    let message = choose(ptx(), &problem(512, Mask::Full), &device(75, 64 * 1024), None).unwrap_err().to_string();
    assert!(message.starts_with("no variant of "), "{message}");
    assert!(message.contains("needs sm_80 or later; test device is sm_75"), "{message}");
    assert_eq!(message.lines().count(), 1 + ptx().entries().count(), "{message}");
}
