//! The lanes of a warp and masks of them.

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// The indices of the lanes of a mask, in order.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> + Clone {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(lane)
    })
}

/// Text for the lanes of a mask, such as `lanes 0-3, 7`.
pub(crate) fn lane_list(mask: u32) -> String {
    let mut parts = Vec::new();
    let mut rest = mask;
    while rest != 0 {
        let first = rest.trailing_zeros();
        let length = (rest >> first).trailing_ones();
        parts.push(if length == 1 { first.to_string() } else { format!("{first}-{}", first + length - 1) });
        rest &= u32::MAX.checked_shl(first + length).unwrap_or(0);
    }
    let noun = if mask.is_power_of_two() { "lane" } else { "lanes" };
    format!("{noun} {}", parts.join(", "))
}
