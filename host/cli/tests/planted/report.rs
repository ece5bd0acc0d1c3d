//! Findings as text independent of the compiler's numbering and of line numbers.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use ptx_sim::Finding;
use regex::{Captures, Regex};

/// Registers and labels, which the compiler numbers.
static COMPILER_NUMBER: LazyLock<Regex> = LazyLock::new(|| regex("(%[a-z]+|\\$L__BB)[0-9_]+"));
/// Lines of the PTX, in the place of a finding and in its words.
static PTX_LINE: LazyLock<Regex> = LazyLock::new(|| regex("(planted\\.ptx:|\\bline )[0-9]+"));
/// The line with the entry in the list of planted bugs, from which every kernel is inlined.
static LIST_PLACE: LazyLock<Regex> = LazyLock::new(|| regex("\n *inlined at kernel-gpu/planted/src/lib\\.rs:[0-9:]+"));
/// A place in the compiler's own library, whose path depends on the compiler, before the place that called it.
static LIBRARY_PLACE: LazyLock<Regex> = LazyLock::new(|| regex("from [^\n]*library/[^\n]*\n *inlined at"));
/// Places in Rust sources.
static RUST_PLACE: LazyLock<Regex> = LazyLock::new(|| regex("([a-z0-9_/-]+\\.rs):([0-9]+):[0-9]+"));
/// Sources of planted kernels: in the folder of their class.
static KERNEL: LazyLock<Regex> = LazyLock::new(|| regex("/planted/src/device/[a-z_]+/(mod|hopper)\\.rs$"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is constant")
}

/// Where an output is not that of the clean twin.
pub fn difference(output: &[u8], clean: &[u8]) -> Option<String> {
    let words = |bytes: &[u8]| -> Vec<u32> {
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
    };
    let (output, clean) = (words(output), words(clean));
    let mut pairs = output.iter().zip(&clean).enumerate().filter(|(_, (output, clean))| output != clean);
    let (index, (found, expected)) = pairs.next()?;
    let others = pairs.count();
    Some(format!(
        "wrong result: word {index} of the output is {found:#x}, of the clean twin {expected:#x}; {others} more differ\n"
    ))
}

/// All findings: without the compiler's own library, without the numbers of registers, labels and PTX lines; lines of the kernels are quoted instead of
/// numbered, and of other sources only the file is named.
pub fn text(findings: &[Finding]) -> String {
    findings.iter().map(|finding| normalise(&finding.to_string()) + "\n\n").collect()
}

fn normalise(finding: &str) -> String {
    let text = COMPILER_NUMBER.replace_all(finding, "$1");
    let text = PTX_LINE.replace_all(&text, "$1…");
    let text = LIST_PLACE.replace_all(&text, "");
    let text = LIBRARY_PLACE.replace_all(&text, "from");
    RUST_PLACE.replace_all(&text, quote).into_owned()
}

/// The file of a place; in a kernel also the code in its line.
fn quote(place: &Captures<'_>) -> String {
    let (file, line) = (&place[1], &place[2]);
    if !KERNEL.is_match(file) {
        return file.to_owned();
    }
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap_or_default();
    let index = line.parse::<usize>().unwrap_or(1).saturating_sub(1);
    format!("{file}: {}", source.lines().nth(index).unwrap_or_default().trim())
}
