//! Checks that a problem fits this machine's memory.

use crate::element::Bits;
use crate::error::{Error, Result};
use crate::reference::Reference;
use contract::problem::Problem;
use contract::tensor::Tensor;
use contract::view::View;

/// How many copies of each of Q, K, V and O exist at once. Inputs: the original, generated from values, and the copy in
/// simulated memory with its initialisation record. O: the output, its copy and a copy for comparison.
const COPIES: u128 = 3;

/// Checks that a run of `problem` fits the available memory, if the system reports it.
///
/// # Errors
/// [`Error::Invalid`] with both sizes.
pub fn check(problem: &Problem) -> Result<()> {
    match available() {
        Some(available) => check_against(problem, available),
        None => Ok(()),
    }
}

/// Upper bound of the host memory that a run of `problem` needs, bytes.
pub fn needed(problem: &Problem) -> u128 {
    let elements = spans(problem).map(|(_, span)| span).iter().sum::<u128>();
    let tensors = elements * COPIES * size_of::<Bits>() as u128;
    tensors + problem.shape().rows() * Reference::bytes_of_a_row(problem.shape().head_dim) as u128
}

/// Elements from the start of each tensor's buffer to its end.
fn spans(problem: &Problem) -> [(Tensor, u128); 4] {
    let span = |(tensor, view): (Tensor, View)| (tensor, u128::from(view.offset) + u128::from(problem.extent(tensor)));
    problem.views().named().map(span)
}

fn check_against(problem: &Problem, available: u64) -> Result<()> {
    let needed = needed(problem);
    if needed <= u128::from(available) {
        return Ok(());
    }
    let gigabytes = |bytes: f64| bytes / 1e9;
    let shape = problem.shape();
    let gaps = match spans(problem).into_iter().max_by_key(|(_, span)| *span) {
        Some((tensor, span)) if (span * size_of::<Bits>() as u128) as f64 > shape.bytes() => {
            format!("; with its offset and strides, {tensor} reaches over {span} elements")
        }
        _ => String::new(),
    };
    Err(Error::Invalid(format!(
        "{shape}: takes {:.1} GB of host memory with its reference; {:.1} GB are available{gaps}",
        gigabytes(needed as f64),
        gigabytes(available as f64)
    )))
}

/// Memory available without swapping, as estimated by Linux (`MemAvailable` in /proc/meminfo), bytes.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::args::Strides;
    use contract::config::Mask;
    use contract::problem::Shape;
    use contract::view::{Layout, Views};

    fn problem(batch: u32) -> Problem {
        Problem::new(Shape::new(batch, 8, 512), Mask::Full, Layout::Bhsd).unwrap()
    }

    #[test]
    fn a_problem_larger_than_memory_is_refused_with_both_sizes() {
        assert!(check_against(&problem(32), 8 << 30).is_ok());
        let message = check_against(&problem(1_000_000), 8 << 30).unwrap_err().to_string();
        assert!(message.contains("GB of host memory") && message.ends_with("8.6 GB are available"), "{message}");
    }

    #[test]
    fn gaps_before_and_between_rows_take_memory_too() {
        let contiguous = *problem(1).views();
        let far = View::new(Strides { head: 1 << 32, ..contiguous.k.strides });
        let behind = View { offset: 1 << 40, ..contiguous.q };
        for views in [Views { k: far, ..contiguous }, Views { q: behind, ..contiguous }] {
            let problem = problem(1).with_views(views).unwrap();
            let message = check_against(&problem, 8 << 30).unwrap_err().to_string();
            assert!(message.contains("GB of host memory") && message.contains(" reaches over "), "{message}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_says_how_much_memory_is_available() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
