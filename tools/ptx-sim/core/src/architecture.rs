//! Architectures, and which code runs on them.

/// Architectures and the KiB of shared memory a block can have there (CUDA C++ Programming Guide, "Compute
/// Capabilities"), in ascending order.
const SHARED_KIB: [(u32, u64); 12] = [
    (70, 96),
    (72, 96),
    (75, 64),
    (80, 163),
    (86, 99),
    (87, 163),
    (89, 99),
    (90, 227),
    (100, 227),
    (103, 227),
    (120, 99),
    (121, 99),
];

/// Parses an architecture such as 90, 9.0, sm_90, sm_90a or compute_90; `None` for any other text. Does not check
/// whether the architecture exists.
pub fn parse_architecture(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let name = ["sm_", "sm", "compute_"].into_iter().find_map(|prefix| lower.strip_prefix(prefix)).unwrap_or(&lower);
    let name = name.strip_suffix(['a', 'f']).unwrap_or(name);
    let number = match name.split_once('.') {
        // The minor half of a compute capability is one digit.
        Some((major, minor)) if !major.is_empty() && minor.len() == 1 => format!("{major}{minor}"),
        _ => name.to_owned(),
    };
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
}

/// The known architectures, such as 80 for `sm_80`, in ascending order.
pub(crate) fn known() -> impl Iterator<Item = u32> {
    SHARED_KIB.iter().map(|(number, _)| *number)
}

/// Shared memory per block, bytes; `None` for an unknown architecture.
pub(crate) fn shared_bytes(architecture: u32) -> Option<u64> {
    SHARED_KIB.iter().find(|(known, _)| *known == architecture).map(|(_, kib)| kib * 1024)
}

/// Whether an architecture runs code for a `.target`: `sm_90a` needs exactly 90, `sm_80` 80 or more.
pub(crate) fn runs(architecture: u32, target: &str) -> bool {
    let digits = target.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    match digits.parse::<u32>() {
        Ok(number) if target.ends_with('a') => number == architecture,
        Ok(number) if target.ends_with('f') => number / 10 == architecture / 10 && number <= architecture,
        Ok(number) => number <= architecture,
        Err(_) => false,
    }
}

/// The first architecture that can run code for a `.target`.
pub(crate) fn first_that_runs(target: &str) -> Option<u32> {
    known().find(|architecture| runs(*architecture, target))
}

/// What to do about code for another architecture, for a message.
pub(crate) fn instead(target: &str) -> String {
    first_that_runs(target).map_or_else(String::new, |known| format!("; say --arch {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_has_many_names() {
        for text in ["90", "9.0", "sm_90", "sm_90a", "SM_90", "sm90", "90a", "compute_90"] {
            assert_eq!(parse_architecture(text), Some(90), "{text}");
        }
        assert_eq!(parse_architecture("12.0"), Some(120));
        for text in ["", "sm_", "h100", "sm_-90", "+90", "9.", ".9", "9.00", "99999999999", "9.0.0", "nan", "1e1"] {
            assert_eq!(parse_architecture(text), None, "{text}");
        }
    }

    #[test]
    fn code_runs_on_the_architecture_it_was_compiled_for_or_the_next_one() {
        for (target, expected) in [
            ("sm_80", Some(80)),
            ("sm_90a", Some(90)),
            ("sm_52", Some(70)),
            ("sm_88", Some(89)),
            ("sm_100f", Some(100)),
            ("sm_101a", None),
            ("sm_999", None),
            ("texmode", None),
        ] {
            assert_eq!(first_that_runs(target), expected, "{target}");
        }
    }
}
