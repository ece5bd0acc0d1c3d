//! Compares the simulator with recorded results.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::path::Path;

use anyhow::Result;

use crate::case::{Case, Column};
use crate::exempt;
use crate::forms::Class;
use crate::rule::Rule;
use crate::simulator;
use crate::vectors::Vectors;

/// Runs the cases of a class in the simulator; returns a message for each result that differs from the recorded one.
///
/// # Errors
/// When there are no recorded results.
pub fn check(class: &Class, folder: &Path) -> Result<Vec<String>> {
    let vectors = Vectors::load(folder, class.name)?;
    let cases = class.cases();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    let unused = vectors.results.keys().filter(|name| !names.contains(name.as_str()));
    let mut messages: Vec<String> = unused.map(|name| format!("{name}: recorded, but there is no such case")).collect();
    // No rayon: a worker that waits for a launch, which has workers of its own, would start further cases meanwhile.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let compare_all = |cases: &[Case]| -> Vec<String> {
        let compare = |case: &Case| compare(case, &vectors).err().map(|error| format!("{}: {error:#}", case.name));
        cases.iter().filter_map(compare).collect()
    };
    std::thread::scope(|scope| {
        let chunks = cases.chunks(cases.len().div_ceil(threads).max(1));
        let workers: Vec<_> = chunks.map(|cases| scope.spawn(|| compare_all(cases))).collect();
        messages
            .extend(workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))));
    });
    Ok(messages)
}

fn compare(case: &Case, vectors: &Vectors) -> Result<()> {
    let Some(recorded) = vectors.results.get(&case.name) else {
        if exempt::waits(&case.name).is_some() {
            // A case must also run without findings.
            return simulator::output(case).map(drop);
        }
        anyhow::bail!("no result was recorded; `ptx-conformance record` does that on a machine with a GPU");
    };
    anyhow::ensure!(
        recorded.digest == case.digest(),
        "the case has changed since its result was recorded; record it again"
    );
    let expected = recorded.bytes()?;
    anyhow::ensure!(
        expected.len() == case.output_bytes,
        "{} bytes were recorded, not {}",
        expected.len(),
        case.output_bytes
    );
    let got = simulator::output(case)?;
    match case.rule.first_violation(&expected, &got) {
        None => Ok(()),
        Some(offset) => anyhow::bail!(describe(case, offset, &expected, &got)),
    }
}

/// What differs at a byte of the output, with the operands where they are known.
fn describe(case: &Case, offset: usize, expected: &[u8], got: &[u8]) -> String {
    let place = case.columns.results.iter().enumerate().find_map(|(index, column)| {
        let within = offset.checked_sub(column.offset)? / column.bytes;
        (within < case.threads as usize).then_some((index, column, within))
    });
    let differing = expected.iter().zip(got).filter(|(a, b)| a != b).count();
    let rule = match case.rule {
        Rule::Exact => String::new(),
        rule => format!(" ({rule:?})"),
    };
    let Some((index, column, thread)) = place else {
        let word = offset / 4 * 4;
        let end = (word + 4).min(expected.len());
        let show = |bytes: &[u8]| bytes[word..end].iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
        return format!(
            "the word at byte {word} of the output: the GPU gave 0x{}, the simulator 0x{}{rule}; {differing} of {} bytes differ",
            show(expected),
            show(got),
            expected.len()
        );
    };
    let value = |column: &Column, buffer: &[u8]| format!("{:#x}", column.value(buffer, thread));
    let operands: Vec<String> = case
        .columns
        .operands
        .iter()
        .map(|operand| format!("{} ({})", value(operand, &case.input), operand.kind))
        .collect();
    format!(
        "thread {thread}, operands {}: result {index} is {} on the GPU, {} in the simulator{rule}",
        operands.join(", "),
        value(column, expected),
        value(column, got)
    )
}

#[cfg(test)]
mod tests {
    use super::{Case, Vectors, compare, simulator};
    use crate::forms::CLASSES;
    use crate::vectors::Recorded;

    /// The message about a case when the stored output differs in one byte.
    fn message(name: &str, byte: usize) -> String {
        let cases: Vec<Case> = CLASSES.iter().flat_map(|class| class.cases()).collect();
        let case = cases.iter().find(|case| case.name == name).expect("there is such a case");
        let mut output = simulator::output(case).expect("the simulator runs it");
        let mut vectors = Vectors::default();
        vectors.results.insert(case.name.clone(), Recorded::new(case.digest(), &output));
        compare(case, &vectors).expect("nothing differs yet");
        output[byte] ^= 1;
        vectors.results.insert(case.name.clone(), Recorded::new(case.digest(), &output));
        compare(case, &vectors).expect_err("one byte differs").to_string()
    }

    #[test]
    fn a_difference_is_shown_with_its_operands() {
        // The second thread's result; the first threads go through the edges of the type.
        let text = message("add.u16", 2);
        assert!(text.starts_with("thread 1, operands 0x1 (u16), "), "{text}");
        assert!(text.contains(" on the GPU, ") && text.ends_with(" in the simulator"), "{text}");
    }

    #[test]
    fn a_difference_in_a_kernel_is_shown_with_its_place() {
        let text = message("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", 21);
        assert!(text.starts_with("the word at byte 20 of the output: "), "{text}");
    }

    #[test]
    fn a_case_that_changed_asks_to_be_recorded() {
        let case = &CLASSES[0].cases()[0];
        let mut vectors = Vectors::default();
        let missing = compare(case, &vectors).expect_err("nothing was recorded").to_string();
        assert!(missing.contains("no result was recorded"), "{missing}");
        vectors.results.insert(case.name.clone(), Recorded::new("0000".to_owned(), &[]));
        let changed = compare(case, &vectors).expect_err("the digest is another").to_string();
        assert!(changed.contains("record it again"), "{changed}");
    }
}
