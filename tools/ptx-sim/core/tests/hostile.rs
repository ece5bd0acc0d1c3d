//! Text that is barely or not PTX: an error, never a panic or an endless loop.

use std::time::{Duration, Instant};

use ptx_sim::{GlobalMemory, Launch, Module, Options, run};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// PTX written by compilers.
const REAL: [&str; 3] =
    [include_str!("compiled/nvcc.ptx"), include_str!("compiled/rustc.ptx"), include_str!("compiled/small_calls.ptx")];
/// Words and signs that PTX is made of, and some that it is not.
const WORDS: &[&str] = &[
    ".visible",
    ".entry",
    ".reg",
    ".shared",
    ".param",
    ".b32",
    ".u64",
    ".pred",
    ".f32",
    ".align",
    ".loc",
    ".file",
    ".section",
    ".extern",
    ".global",
    ".version",
    ".target",
    "add.s32",
    "ld.global.v4.f32",
    "mma.sync.aligned",
    "@%p1",
    "@!",
    "%r<4294967295>",
    "%r<3>",
    "%r0",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    ",",
    ";",
    ":",
    "+",
    "-",
    "|",
    "0",
    "1",
    "0x",
    "0f3f80",
    "0xffffffffffffffff",
    "99999999999999999999",
    "1e999",
    "\"",
    "/*",
    "*/",
    "//",
    "\n",
    "\u{0}",
    "\u{fffd}",
    "é",
    "label:",
    "bra label",
    "tex.2d.v4.f32.f32",
    "suld.b.2d.b32.trap",
    "ret;",
];
/// Time limit for all texts of a test, each of which takes microseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Parses a text and prepares and runs its entries, if it has any; only a panic or a hang is wrong.
fn survive(text: &str) {
    let Ok(module) = Module::parse(text, "hostile.ptx") else { return };
    for entry in module.entries() {
        let sizes: Vec<u64> = module.parameters(entry).into_iter().flatten().map(|parameter| parameter.bytes).collect();
        if sizes.iter().sum::<u64>() > 1 << 16 {
            continue;
        }
        let params: Vec<Vec<u8>> = sizes.iter().map(|bytes| vec![0; *bytes as usize]).collect();
        let params: Vec<&[u8]> = params.iter().map(Vec::as_slice).collect();
        let launch = Launch {
            entry,
            grid: [1; 3],
            block: [32, 1, 1],
            dynamic_shared_bytes: 0,
            params: &params,
            architecture: 90,
        };
        let options = Options { threads: 1, instructions_per_warp: 1000, ..Options::default() };
        // Findings and refusals are both fine.
        drop(run(&module, &mut GlobalMemory::new(), &launch, &options));
    }
}

/// Does something to texts until all are done; fails when that takes too long.
fn all_survive(texts: impl Iterator<Item = String>) {
    let start = Instant::now();
    for text in texts {
        let before = start.elapsed();
        survive(&text);
        let elapsed = start.elapsed();
        assert!(elapsed - before < PATIENCE / 10, "{:?} for one text:\n{text}", elapsed - before);
        assert!(elapsed < PATIENCE, "{elapsed:?} so far");
    }
}

/// The next place at or after `at` where a text can be cut.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|index| text.is_char_boundary(*index)).unwrap_or(text.len())
}

#[test]
fn truncated_anywhere() {
    for text in REAL {
        let steps = (0..text.len()).step_by(7);
        all_survive(steps.map(|end| text[..boundary(text, end)].to_owned()));
    }
}

#[test]
fn one_place_changed() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for text in REAL {
        let changed = (0..1500).map(|_| {
            let start = boundary(text, random.random_range(0..text.len()));
            let end = boundary(text, start + random.random_range(0..12));
            let word = WORDS[random.random_range(0..WORDS.len())];
            format!("{}{word}{}", &text[..start], &text[end.min(text.len())..])
        });
        all_survive(changed);
    }
}

#[test]
fn lines_exchanged_doubled_and_left_out() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    for text in REAL {
        let lines: Vec<&str> = text.lines().collect();
        let changed = (0..1500).map(|_| {
            let mut lines = lines.clone();
            for _ in 0..random.random_range(1..4) {
                let [a, b] = [0; 2].map(|_| random.random_range(0..lines.len()));
                match random.random_range(0..3) {
                    0 => lines.swap(a, b),
                    1 => lines.insert(a, lines[b]),
                    _ => drop(lines.remove(a)),
                }
            }
            lines.join("\n")
        });
        all_survive(changed);
    }
}

#[test]
fn words_in_any_order() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let header = ".version 8.0\n.target sm_90a\n.address_size 64\n";
    let texts = (0..3000).map(|index| {
        let count = random.random_range(1..60);
        let words: Vec<&str> = (0..count).map(|_| WORDS[random.random_range(0..WORDS.len())]).collect();
        let body = words.join(" ");
        match index % 3 {
            0 => body,
            1 => format!("{header}{body}"),
            _ => format!("{header}.visible .entry e() {{\n{body}\n}}"),
        }
    });
    all_survive(texts);
}

#[test]
fn deep_nesting_and_long_lists() {
    let header = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry e() {\n";
    let texts = ["{", "(", "[", "{ {", "-", "!", "@", "a|", "x,", "ld.b32 {{", ".reg .b32 %r<100000>;\n", "l:\n", "/*"]
        .map(|part| format!("{header}{}", part.repeat(20_000)));
    all_survive(texts.into_iter());
}
