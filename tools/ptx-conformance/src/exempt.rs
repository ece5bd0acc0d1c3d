//! What no GPU has given a result for, and why: words of the simulator's decoders that no recorded instruction has, and cases
//! that wait to be recorded.

/// File, word, reason.
const WORDS: &[(&str, &str, &str)] = &[
    ("memory", "v8", "accesses of 32 bytes need sm_100"),
    ("memory", "L2::evict_first", "on ld and st only with .v8.b32 and .v4.b64, which need sm_100"),
    ("memory", "L2::evict_normal", "on ld and st only with .v8.b32 and .v4.b64, which need sm_100"),
    ("memory", "L2::evict_last", "on ld and st only with .v8.b32 and .v4.b64, which need sm_100"),
    ("bulk_copy", "overwritten", "a word of a message"),
    ("wgmma", "read", "a word of a message"),
    ("control", "trap", "ends the launch: there is no result"),
    ("wgmma", "m64n", "a part of the shape, which the decoder takes apart"),
    ("cache_policy", "L2", "a hint: no result depends on it"),
    ("cache_policy", "L2::cache_hint", "a hint: no result depends on it"),
    ("cache_policy", "L2::evict_first", "a hint: no result depends on it"),
    ("cache_policy", "L2::evict_last", "a hint: no result depends on it"),
    ("cache_policy", "L2::evict_normal", "a hint: no result depends on it"),
    ("cache_policy", "L2::evict_unchanged", "a hint: no result depends on it"),
    ("cache_policy", "createpolicy", "a hint: no result depends on it"),
    ("cache_policy", "fractional", "a hint: no result depends on it"),
    ("cache_policy", "range", "a hint: no result depends on it"),
    ("memory", "applypriority", "a hint: no result depends on it"),
    ("control", "pmevent", "seen by profilers only: there is no result"),
    ("control", "mask", "of pmevent, which has no result"),
    ("convert", "isspacep", "its operands are addresses, which differ from launch to launch"),
    ("operation", "isspacep", "its operands are addresses, which differ from launch to launch"),
    ("wgmma", "k16", "a part of the shape, which the decoder takes apart"),
];

/// Name of a case that has no result yet, reason.
const WAITING: &[(&str, &str)] = &[];

/// Why a case has no result, if there is a reason.
pub fn waits(case: &str) -> Option<&'static str> {
    WAITING.iter().find(|(known, _)| *known == case).map(|(_, reason)| *reason)
}

/// Every case that is said to have no result.
pub fn waiting() -> impl Iterator<Item = &'static str> {
    WAITING.iter().map(|(case, _)| *case)
}

/// Why no recorded instruction has a word of a decoder, if there is a reason.
pub fn reason(file: &str, word: &str) -> Option<&'static str> {
    WORDS.iter().find(|(in_file, known, _)| *in_file == file && *known == word).map(|(.., reason)| *reason)
}
