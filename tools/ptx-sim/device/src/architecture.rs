//! Per-multiprocessor limits of each architecture (CUDA C++ Programming Guide, "Compute Capabilities").

/// Shared memory that the system reserves in each block since compute capability 8.0, bytes.
pub const RESERVED_SHARED_BYTES: u32 = 1024;
/// Dynamic plus static shared memory that a block gets without opting in to more, bytes.
pub const DEFAULT_SHARED_BYTES: u32 = 48 << 10;
/// 32-bit registers per multiprocessor, and the most that one block can use.
pub const REGISTERS: u32 = 64 << 10;
/// Maximum threads of a block.
pub const THREADS_PER_BLOCK: u32 = 1024;
/// Threads of a warp.
pub const WARP: u32 = 32;
/// Largest block in each dimension.
pub const BLOCK_EXTENT: [u32; 3] = [1024, 1024, 64];
/// Largest grid in each dimension.
pub const GRID_EXTENT: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// Constant memory, bytes.
pub const CONSTANT_BYTES: u32 = 64 << 10;

/// The limits of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// As in 90 for `sm_90`.
    pub number: u32,
    /// Maximum shared memory of a block that opts in, bytes.
    pub shared_bytes_per_block: u32,
    /// Shared memory per multiprocessor, bytes.
    pub shared_bytes: u32,
    /// Maximum resident threads per multiprocessor.
    pub threads: u32,
    /// Maximum resident blocks per multiprocessor.
    pub blocks: u32,
}

const fn row(number: u32, kib_per_block: u32, kib: u32, threads: u32, blocks: u32) -> Architecture {
    Architecture { number, shared_bytes_per_block: kib_per_block << 10, shared_bytes: kib << 10, threads, blocks }
}

/// The architectures that ptx-sim executes.
const ALL: [Architecture; 12] = [
    row(70, 96, 96, 2048, 32),
    row(72, 96, 96, 2048, 32),
    row(75, 64, 64, 1024, 16),
    row(80, 163, 164, 2048, 32),
    row(86, 99, 100, 1536, 16),
    row(87, 163, 164, 1536, 16),
    row(89, 99, 100, 1536, 24),
    row(90, 227, 228, 2048, 32),
    row(100, 227, 228, 2048, 32),
    row(103, 227, 228, 2048, 32),
    row(120, 99, 100, 1536, 24),
    row(121, 99, 100, 1536, 24),
];

impl Architecture {
    /// The limits of architecture `number` (90 for `sm_90`); an unknown number is an error that lists the known ones.
    pub fn find(number: u32) -> Result<Self, String> {
        ALL.into_iter().find(|known| known.number == number).ok_or_else(|| {
            let known: Vec<_> = ALL.iter().map(|known| known.number.to_string()).collect();
            format!("the simulator does not know sm_{number}, only {}", known.join(", "))
        })
    }

    /// The first one that runs code for `target`.
    pub fn first_that_runs(target: &str) -> Option<Self> {
        ALL.into_iter().find(|known| known.runs(target))
    }

    /// How a program is run on it, for a message.
    pub fn option(&self) -> String {
        format!("say --arch {0} (PTX_SIM_ARCH={0})", self.number)
    }

    /// Major and minor number of the compute capability.
    pub fn compute_capability(&self) -> (u32, u32) {
        (self.number / 10, self.number % 10)
    }

    /// Whether code for `target` (`sm_90a`, `sm_80` …) runs here: `sm_90a` needs exactly 90, `sm_80` 80 or more.
    pub fn runs(&self, target: &str) -> bool {
        let digits = target.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
        match digits.parse::<u32>() {
            Ok(number) if target.ends_with('a') => number == self.number,
            Ok(number) if target.ends_with('f') => number / 10 == self.number / 10 && number <= self.number,
            Ok(number) => number <= self.number,
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_runs_on_newer_gpus_unless_it_is_for_one_alone() {
        let hopper = Architecture::find(90).unwrap();
        for (target, expected) in [("sm_80", true), ("sm_90", true), ("sm_90a", true), ("sm_100", false), ("x", false)]
        {
            assert_eq!(hopper.runs(target), expected, "{target}");
        }
        assert!(!Architecture::find(100).unwrap().runs("sm_90a"));
    }

    #[test]
    fn an_unknown_architecture_is_refused_with_those_there_are() {
        let message = Architecture::find(42).unwrap_err();
        assert!(message.contains("sm_42, only 70, 72"), "{message}");
    }
}
