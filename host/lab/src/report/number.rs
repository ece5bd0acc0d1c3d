//! Formats numbers for display.

/// A time in µs, with two decimals.
pub fn microseconds(time: f64) -> String {
    format!("{time:.2}")
}

/// A fraction in per cent.
pub fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// A ratio of times.
pub fn ratio(ratio: f64) -> String {
    if (0.1..1000.0).contains(&ratio) { format!("{ratio:.3}") } else { format!("{ratio:.2e}") }
}

/// A range, both ends written by `format`.
pub fn range(low: f64, high: f64, format: impl Fn(f64) -> String) -> String {
    format!("{}–{}", format(low), format(high))
}

/// A tick label of an axis whose ticks are `gap` apart, as short as possible while distinct.
pub fn tick(value: f64, gap: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if !(1e-3..1e6).contains(&size) => format!("{value:.0e}"),
        _ => {
            let decimals = (1.0 - gap.log10().floor()).clamp(0.0, 9.0) as usize;
            let digits = format!("{value:.decimals$}");
            let short = if decimals > 0 { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
            short.replace('-', "−")
        }
    }
}

/// `text`, truncated to at most `length` characters.
pub fn shortened(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        None => text.to_owned(),
        Some(_) => text.chars().take(length - 1).chain(['…']).collect(),
    }
}

/// Seconds since 1970-01-01 UTC as a date and time.
pub fn date(seconds: u64) -> String {
    let time = std::time::UNIX_EPOCH.checked_add(std::time::Duration::from_secs(seconds));
    // Beyond the year 9999 there is no such date.
    match time.filter(|_| seconds < 253_402_300_800) {
        Some(time) => humantime::format_rfc3339_seconds(time).to_string().replace('T', " ").replace('Z', " UTC"),
        None => format!("{seconds} s after 1970"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short_and_exact() {
        let ticks = [0.0, 0.002, 0.5, 20.0, -10.0, 50_000.0, 2e7, 1e-5].map(|value| tick(value, 0.001));
        assert_eq!(ticks, ["0", "0.002", "0.5", "20", "−10", "50000", "2e7", "1e-5"]);
        assert_eq!((tick(1.00002, 0.00002).as_str(), tick(30.0, 10.0).as_str()), ("1.00002", "30"));
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!((shortened("größer", 6).as_str(), shortened("größer", 5).as_str()), ("größer", "größ…"));
    }

    #[test]
    fn dates_are_utc_and_exist_for_every_number() {
        assert_eq!(date(1_795_252_022), "2026-11-21 09:07:02 UTC");
        assert_eq!(date(u64::MAX), format!("{} s after 1970", u64::MAX));
    }
}
