//! Whether a problem fits the memory of this machine.

use crate::error::{Error, Result};
use crate::inputs::COLUMNS;
use crate::problem::Shape;
use crate::reference::Reference;

/// fp16 rows held at once: three inputs being laid out from three generated ones, or three inputs, their copies in
/// simulated memory with its record of what was written, O, its copy and a copy to compare with.
const ROWS_HELD: usize = 12;

/// Requires that a run of `shape` fits the memory that is available, where the system says how much that is.
///
/// # Errors
/// [`Error::Invalid`] with both sizes.
pub fn check(shape: Shape) -> Result<()> {
    match available() {
        Some(available) => check_against(shape, available),
        None => Ok(()),
    }
}

/// Bytes of host memory that a run of `shape` takes at most.
fn needed(shape: Shape) -> u128 {
    let bytes_per_row = ROWS_HELD * COLUMNS * size_of::<half::f16>() + Reference::BYTES_PER_ROW;
    shape.rows() * bytes_per_row as u128
}

fn check_against(shape: Shape, available: u64) -> Result<()> {
    let needed = needed(shape);
    if needed <= u128::from(available) {
        return Ok(());
    }
    let gigabytes = |bytes: f64| bytes / 1e9;
    Err(Error::Invalid(format!(
        "{shape}: takes {:.1} GB of host memory with its reference; {:.1} GB are available",
        gigabytes(needed as f64),
        gigabytes(available as f64)
    )))
}

/// What Linux estimates to be available without swapping (`MemAvailable` of /proc/meminfo), bytes.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_larger_than_memory_is_refused_with_both_sizes() {
        let shape = |batch| Shape { batch, heads: 8, sequence: 512 };
        assert!(check_against(shape(32), 8 << 30).is_ok());
        let message = check_against(shape(1_000_000), 8 << 30).unwrap_err().to_string();
        assert!(message.contains("GB of host memory") && message.contains("8.6 GB are available"), "{message}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_says_how_much_memory_is_available() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
