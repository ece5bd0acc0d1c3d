//! Shared-memory layouts that would fault or crawl on the hardware do not compile.
//!
//! Each file of `tests/layout` says on its first line what the compiler must answer. Only that message is compared, not
//! the whole diagnostic, which changes with every compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the compiler says about a file: the text of its diagnostics, or nothing when it compiles.
fn compile(source: &Path) -> Option<String> {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.file_stem().expect("a file name"));
    let result = Command::new(compiler)
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "-o"])
        .arg(output)
        .arg(source)
        .output()
        .expect("rustc runs");
    (!result.status.success()).then(|| String::from_utf8_lossy(&result.stderr).into_owned())
}

#[test]
fn only_sound_shared_tiles_compile() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/layout");
    let mut sources: Vec<PathBuf> =
        folder.read_dir().expect("the folder of cases").map(|entry| entry.expect("an entry").path()).collect();
    sources.sort();
    assert!(sources.len() >= 6, "cases are missing from {}", folder.display());

    for source in sources {
        let text = std::fs::read_to_string(&source).expect("a readable case");
        let expectation = text.lines().next().unwrap_or_default();
        match (expectation.strip_prefix("//! expected error: "), compile(&source)) {
            (Some(message), Some(diagnostics)) => assert!(
                diagnostics.contains(message),
                "{} fails with another error than {message:?}:\n{diagnostics}",
                source.display()
            ),
            (Some(message), None) => panic!("{} compiles, but should fail with {message:?}", source.display()),
            (None, diagnostics) => {
                assert_eq!(expectation, "//! expected: compiles", "first line of {}", source.display());
                assert_eq!(diagnostics, None, "{} should compile", source.display());
            }
        }
    }
}
