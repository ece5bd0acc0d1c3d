//! Exemptions: words of the simulator's decoders without a recorded instruction, and cases without a recorded result, with
//! reasons.

use std::collections::HashSet;
use std::sync::LazyLock;

/// File, word or `*` for all of them, reason.
const WORDS: &[(&str, &str, &str)] = &[
    ("memory", "v8", "accesses of 32 bytes need sm_100"),
    ("memory", "L2::evict_first", "on ld and st only with .v8.b32 and .v4.b64, which need sm_100"),
    ("memory", "L2::evict_normal", "on ld and st only with .v8.b32 and .v4.b64, which need sm_100"),
    ("memory", "L2::evict_last", "on ld and st only with .v8.b32 and .v4.b64, which need sm_100"),
    ("warp", "abs", "of redux.sync on .f32, which needs sm_100"),
    ("warp", "NaN", "of redux.sync on .f32, which needs sm_100"),
    ("bulk_copy", "overwritten", "a word of a message"),
    ("bulk_reduce", "overwritten", "a word of a message"),
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
    ("control", "brkpt", "ends the launch: there is no result"),
    ("memory", "discard", "leaves memory with any contents: there is no result"),
    ("product", "*", "types, which the decoders of mma and wmma take"),
    ("system", "*", "functions of the system, whose results are texts, addresses, or the end of the launch"),
    (
        "texture",
        "*",
        "textures are objects that a driver makes: cases have none; tested against the formulas of the programming guide",
    ),
    ("surface", "*", "surfaces are objects that a driver makes: cases have none; tested against other computations"),
    ("geometry", "*", "of instructions on textures and surfaces"),
    ("wgmma", "k16", "a part of the shape, which the decoder takes apart"),
];

/// Reason of cases for which no GPU was available.
const NO_GPU: &str = "to be recorded; accepted by ptxas, and tested against other computations in ptx-sim";
/// Names of cases without a result, with alternatives in braces: their forms were added when no GPU was available.
const WAITING: &[&str] = &[];

/// Why a case has no result, if it is exempt.
pub fn waits(case: &str) -> Option<&'static str> {
    static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| waiting().collect());
    NAMES.contains(case).then_some(NO_GPU)
}

/// Every exempt case.
pub fn waiting() -> impl Iterator<Item = String> {
    WAITING.iter().flat_map(|pattern| ptx_sim::expand_forms(pattern))
}

/// Whether a form runs on sm_100 only, so that no GPU here can record it.
pub fn needs_sm_100(form: &str) -> bool {
    form.ends_with(".f32x2")
}

/// Why a decoder word has no recorded instruction, if it is exempt.
pub fn reason(file: &str, word: &str) -> Option<&'static str> {
    WORDS
        .iter()
        .find(|(in_file, known, _)| *in_file == file && (*known == word || *known == "*"))
        .map(|(.., reason)| *reason)
}
