//! Which bits of a result depend on undetermined bits of the operands.
//!
//! This is determined by trying: a bit that changes when the undetermined bits change depends on them; a bit that was
//! never seen to change is taken as determined. So comparisons with a mask, selections that ignore an operand, and
//! products with zero are determined without a rule per instruction, and every bit that is called undetermined really
//! is.

/// Values tried for the undetermined bits.
const PATTERNS: [u64; 8] = [
    u64::MAX,
    0,
    0x5555_5555_5555_5555,
    0xaaaa_aaaa_aaaa_aaaa,
    // The sign bits of every width, and all others.
    0x8000_0000_8000_8080,
    0x7fff_ffff_7fff_7f7f,
    1,
    0x3c00_3c00_3f80_0001,
];
/// Number of rounds with random values for all operands.
const RANDOM_ROUNDS: u64 = 24;

/// The bits of the results of `function` that depend on undetermined bits of its operands. Operands in the same `slot`
/// have the same value.
pub(super) fn dependent_bits(
    function: impl Fn(&[u64; 4]) -> [u64; 2],
    operands: &[u64; 4],
    unknown: &[u64; 4],
    slots: &[u32; 4],
    masks: [u64; 2],
) -> [u64; 2] {
    let base = function(operands);
    let mut found = [0; 2];
    let mut is_done = |choose: &dyn Fn(usize) -> Option<u64>| {
        let mut tried = *operands;
        for (index, value) in tried.iter_mut().enumerate() {
            if let Some(pattern) = choose(index) {
                *value = *value & !unknown[index] | pattern & unknown[index];
            }
        }
        let result = function(&tried);
        for ((found, result), base) in found.iter_mut().zip(result).zip(base) {
            *found |= result ^ base;
        }
        masks[0] & !found[0] == 0 && masks[1] & !found[1] == 0
    };
    let neighbours = operands.iter().flat_map(|value| [*value, value.wrapping_add(1), value.wrapping_sub(1)]);
    let patterns: Vec<u64> = PATTERNS.into_iter().chain(neighbours).collect();
    // All operands together, then each one separately.
    let groups = std::iter::once(None).chain(slots.iter().map(Some));
    for group in groups {
        for pattern in &patterns {
            let is_meant = |index: usize| group.is_none_or(|slot| slots[index] == *slot);
            if is_done(&|index| is_meant(index).then_some(*pattern)) {
                return found;
            }
        }
    }
    for round in 0..RANDOM_ROUNDS {
        if is_done(&|index| Some(mixed(round << 32 | u64::from(slots[index])))) {
            break;
        }
    }
    found
}

/// A pseudo-random value (splitmix64).
fn mixed(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u32::MAX as u64;

    /// The undetermined bits of a 32-bit result of two operands.
    fn of(function: impl Fn(u64, u64) -> u64, operands: [u64; 2], unknown: [u64; 2]) -> u64 {
        let [a, b] = operands;
        let [ua, ub] = unknown;
        let compute = |v: &[u64; 4]| [function(v[0], v[1]) & ALL, 0];
        dependent_bits(compute, &[a, b, 0, 0], &[ua, ub, 0, 0], &[0, 1, 2, 2], [ALL, 0])[0]
    }

    #[test]
    fn logic_is_exact() {
        assert_eq!(of(|a, b| a & b, [0, 0xff], [ALL, 0]), 0xff);
        assert_eq!(of(|a, b| a | b, [0, 0xff], [ALL, 0]), ALL & !0xff);
        assert_eq!(of(|a, b| a ^ b, [5, 9], [0xf0, 0x0f]), 0xff);
        assert_eq!(of(|a, b| a & b, [0, 0], [ALL, ALL]), ALL);
        assert_eq!(of(|a, b| a << b, [0, 8], [0xff, 0]), 0xff00);
        assert_eq!(of(|a, _| a ^ a, [0, 0], [ALL, 0]), 0);
    }

    #[test]
    fn comparisons_depend_on_what_decides_them() {
        for threshold in [0_u64, 1, 12345, 0x7fff_ffff, 0x8000_0000, ALL] {
            assert_eq!(of(|a, b| u64::from(a == b), [7, threshold], [ALL, 0]), 1, "equal to {threshold}");
            let less = of(|a, b| u64::from(a < b), [7, threshold], [ALL, 0]);
            assert_eq!(less, u64::from(threshold != 0), "less than {threshold}");
            let signed = of(|a, b| u64::from((a as u32 as i32) < b as u32 as i32), [7, threshold], [ALL, 0]);
            assert_eq!(signed, u64::from(threshold != 0x8000_0000), "signed less than {threshold}");
        }
        assert_eq!(of(|a, b| u64::from(a == b), [0x100, 0x200], [0xff, 0]), 0, "a known bit differs");
    }

    #[test]
    fn sums_and_products_depend_from_the_lowest_bit_on() {
        assert_eq!(of(|a, b| a.wrapping_add(b), [0, 3], [0xff00, 0]) & 0xff, 0);
        assert_eq!(of(|a, b| a.wrapping_add(b), [0, 3], [ALL, 0]), ALL);
        assert_eq!(of(|a, b| a.wrapping_mul(b), [0, 0], [ALL, 0]), 0);
        let float = |a: u64, b: u64| u64::from((f32::from_bits(a as u32) * f32::from_bits(b as u32)).to_bits());
        assert_ne!(of(float, [0, 1.5_f32.to_bits().into()], [ALL, 0]), 0);
    }
}
