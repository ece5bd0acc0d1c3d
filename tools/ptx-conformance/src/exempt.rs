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
    ("wgmma", "k16", "a part of the shape, which the decoder takes apart"),
];

/// Name of a case that has no result yet, reason.
const WAITING: &[(&str, &str)] = &[
    ("cvta.param", NO_GPU),
    ("prefetch.tensormap of a parameter", NO_GPU),
    (
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group F16 tensor [60, 15] box [24, 8] None at [40, 12] to 0 Parameter",
        NO_GPU,
    ),
    (
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group F16 tensor [72, 6, 5] box [64, 4, 3] Bytes128 at [8, 1, 1] to 0 Parameter",
        NO_GPU,
    ),
];
const NO_GPU: &str = "written where there is no GPU; `ptx-conformance record` records it";

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
