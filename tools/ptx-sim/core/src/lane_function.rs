//! A function of one lane's operands, evaluated for a whole warp by one call. The loop over the lanes is compiled together with
//! the function, using the 256-bit vectors of `x86-64-v3` if the processor has them.

use crate::lanes::{LANES, lanes};

/// The values of a register in all lanes.
pub(crate) type Row = [u64; LANES];

/// With at least this many active lanes, all lanes are computed, vectorised.
#[cfg(target_arch = "x86_64")]
const VECTORISED: u32 = 8;

/// A function of up to four operands. It must be total, since inactive lanes may be computed, too.
pub(crate) trait LaneFunction<const RESULTS: usize>: Send + Sync {
    /// The results in one lane.
    fn of_lane(&self, operands: &[u64; 4]) -> [u64; RESULTS];

    /// The results, restricted to the bits of `masks`, in the active lanes; arbitrary in the others.
    fn of_lanes(&self, operands: [&Row; 4], active: u32, masks: [u64; RESULTS]) -> [Row; RESULTS];
}

impl<const RESULTS: usize, F: Fn(&[u64; 4]) -> [u64; RESULTS] + Send + Sync> LaneFunction<RESULTS> for F {
    #[inline(never)]
    fn of_lane(&self, operands: &[u64; 4]) -> [u64; RESULTS] {
        self(operands)
    }

    fn of_lanes(&self, operands: [&Row; 4], active: u32, masks: [u64; RESULTS]) -> [Row; RESULTS] {
        #[cfg(target_arch = "x86_64")]
        if active.count_ones() >= VECTORISED
            && let Some(vectors) = pulp::x86::V3::try_new()
        {
            return vectors.vectorize(InVectors { function: self, operands, masks });
        }
        let mut results = [[0; LANES]; RESULTS];
        for lane in lanes(active) {
            let found = self.of_lane(&operands.map(|operand| operand[lane]));
            for ((row, result), mask) in results.iter_mut().zip(found).zip(masks) {
                row[lane] = result & mask;
            }
        }
        results
    }
}

/// The results in all lanes.
#[cfg(target_arch = "x86_64")]
struct InVectors<'a, F, const RESULTS: usize> {
    function: &'a F,
    operands: [&'a Row; 4],
    masks: [u64; RESULTS],
}

#[cfg(target_arch = "x86_64")]
impl<const RESULTS: usize, F: Fn(&[u64; 4]) -> [u64; RESULTS]> pulp::NullaryFnOnce for InVectors<'_, F, RESULTS> {
    type Output = [Row; RESULTS];

    #[inline(always)]
    fn call(self) -> [Row; RESULTS] {
        let InVectors { function, operands: [a, b, c, d], masks } = self;
        let mut results = [[0; LANES]; RESULTS];
        for lane in 0..LANES {
            let found = function(&[a[lane], b[lane], c[lane], d[lane]]);
            for ((row, result), mask) in results.iter_mut().zip(found).zip(masks) {
                row[lane] = result & mask;
            }
        }
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_get_the_same_together_and_one_by_one() {
        let function = |v: &[u64; 4]| [v[0].wrapping_mul(v[1]) ^ v[2], u64::from(v[3] < v[0])];
        let row = |seed: u64| std::array::from_fn(|lane| (seed + lane as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let rows: [Row; 4] = [row(1), row(2), row(3), row(4)];
        for active in [u32::MAX, 0xffff, 0b111, 1 << 31] {
            let [first, second] = function.of_lanes(rows.each_ref(), active, [u32::MAX.into(), u64::MAX]);
            for lane in lanes(active) {
                let [one, two] = function.of_lane(&rows.map(|row| row[lane]));
                assert_eq!([first[lane], second[lane]], [one & u64::from(u32::MAX), two], "lane {lane} of {active:#x}");
            }
        }
    }
}
