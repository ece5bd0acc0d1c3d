//! Merges two texts that have most lines in common, so that these are compressed once.

use super::merged::{Side, part};

/// Most lines that are skipped to find instructions that are alike again.
const MOST_SKIPPED: usize = 15;

/// The text of which [`part`] makes `first` and `second` again.
///
/// # Errors
/// When a line of both begins with a sign, or the last one does not end.
pub fn merge(first: &str, second: &str) -> Result<String, String> {
    let mut merged = String::with_capacity(first.len() + second.len());
    let (one, other): (Vec<&str>, Vec<&str>) = (first.lines().collect(), second.lines().collect());
    let (mut one, mut other) = (one.as_slice(), other.as_slice());
    loop {
        let common = one.iter().zip(other).take_while(|(one, other)| one == other).count();
        one[..common].iter().for_each(|line| push(&mut merged, "", line));
        (one, other) = (&one[common..], &other[common..]);
        if one.is_empty() && other.is_empty() {
            break;
        }
        let (skipped, skipped_other) = different(one, other);
        // A line beside its counterpart, which the compressor then finds close by.
        for line in 0..skipped.max(skipped_other) {
            one[..skipped].get(line).into_iter().for_each(|line| push(&mut merged, "-", line));
            other[..skipped_other].get(line).into_iter().for_each(|line| push(&mut merged, "+", line));
        }
        (one, other) = (&one[skipped..], &other[skipped_other..]);
    }
    for (text, side) in [(first, Side::First), (second, Side::Second)] {
        if part(merged.as_bytes(), side) != text.as_bytes() {
            return Err("a line of it begins with `-` or `+`, or does not end".into());
        }
    }
    Ok(merged)
}

fn push(merged: &mut String, sign: &str, line: &str) {
    merged.extend([sign, line, "\n"]);
}

/// How many lines of either text come before instructions that are alike; of texts that begin with such, one each.
fn different(one: &[&str], other: &[&str]) -> (usize, usize) {
    if one.is_empty() || other.is_empty() {
        return (one.len(), other.len());
    }
    let alike = |&(skipped, skipped_other): &(usize, usize)| match (one.get(skipped), other.get(skipped_other)) {
        (Some(one), Some(other)) => instruction(one) == instruction(other),
        _ => false,
    };
    let nearest = (0..=MOST_SKIPPED).flat_map(|both| (0..=both).map(move |skipped| (skipped, both - skipped)));
    nearest.into_iter().find(alike).filter(|found| *found != (0, 0)).unwrap_or((1, 1))
}

/// The first word of a line of PTX.
fn instruction(line: &str) -> Option<&str> {
    line.split_ascii_whitespace().next()
}
