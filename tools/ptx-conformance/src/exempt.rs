//! Words of the simulator's decoders that no recorded instruction has.

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

/// Why no recorded instruction has a word of a decoder, if there is a reason.
pub fn reason(file: &str, word: &str) -> Option<&'static str> {
    WORDS.iter().find(|(in_file, known, _)| *in_file == file && *known == word).map(|(.., reason)| *reason)
}
