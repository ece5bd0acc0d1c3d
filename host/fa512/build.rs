//! Embeds the kernels' PTX into the library, compressed.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "build/merge.rs"]
mod merge;
#[path = "src/merged.rs"]
mod merged;
#[path = "build/package.rs"]
mod package;
#[path = "build/split.rs"]
mod split;

/// Environment variable that names a folder written by `cargo xtask ptx`.
const PTX_FOLDER: &str = "FA512_PTX_DIR";
/// Environment variable that says whether the line tables of such PTX are embedded: `kept` or `left-out`, as in packages.
const LINE_TABLES: &str = "FA512_LINE_TABLES";
/// The PTX files in such a folder that hold kernels. Other files there (probes) are not shipped.
const PTX_FILES: [&str; 4] = ["sm_90a.ptx", "sm_80.ptx", "backward_sm_90a.ptx", "backward_sm_80.ptx"];

fn main() {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/merged.rs");
    let out = PathBuf::from(variable("OUT_DIR"));
    if env::var_os("CARGO_FEATURE_KERNELS").is_none() {
        fs::write(out.join("embedded.rs"), "&[]").expect("OUT_DIR is written to");
        return;
    }
    println!("cargo::rerun-if-env-changed={PTX_FOLDER}");
    println!("cargo::rerun-if-env-changed={LINE_TABLES}");
    let table = match find(&out) {
        Ok(Some(folder)) => table(&folder),
        Ok(None) => {
            println!(
                "cargo::warning=fa512 is built without kernels, and its calls will say so: there is no PTX. `cargo xtask ptx` \
                 makes it; {PTX_FOLDER} names a folder that has it"
            );
            Ok("&[]".to_owned())
        }
        Err(error) => Err(error),
    };
    match table {
        Ok(table) => fs::write(out.join("embedded.rs"), table).expect("OUT_DIR is written to"),
        Err(error) => println!("cargo::error={error}"),
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}

/// The folder of compressed kernels: the crate's own, else one made in `out` from the PTX folder that [`PTX_FOLDER`]
/// names or that lies in the checkout's `target`. `None` if there is no PTX.
fn find(out: &Path) -> Result<Option<PathBuf>, String> {
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let packaged = package.join("kernels");
    // Cargo writes the original manifest into every packed crate, and only there.
    let is_packed = package.join("Cargo.toml.orig").is_file();
    if is_packed && packaged.join(package::INDEX).is_file() {
        println!("cargo::rerun-if-changed={}", packaged.display());
        return Ok(Some(packaged));
    }
    let loose = match env::var_os(PTX_FOLDER) {
        Some(folder) => PathBuf::from(folder),
        None => package.join("../../target/ptx"),
    };
    let files = PTX_FILES.map(|file| loose.join(file));
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    if !files.iter().any(|file| file.is_file()) {
        return match env::var_os(PTX_FOLDER) {
            Some(_) => {
                Err(format!("{PTX_FOLDER} names {}, where there is no {}", loose.display(), PTX_FILES.join(" or ")))
            }
            None => Ok(None),
        };
    }
    let lines = lines()?;
    let mut entries = Vec::new();
    for file in files.iter().filter(|file| file.is_file()) {
        let ptx = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        entries.extend(split::split(&ptx, lines).map_err(|refusal| format!("{}: {refusal}", file.display()))?);
    }
    let folder = out.join("kernels");
    package::write(&folder, &entries, lines)?;
    Ok(Some(folder))
}

/// Whether line tables are embedded: they are unless [`LINE_TABLES`] says otherwise, so that findings name lines of the checkout.
fn lines() -> Result<split::Lines, String> {
    match env::var_os(LINE_TABLES) {
        None => Ok(split::Lines::Kept),
        Some(value) if value == "kept" => Ok(split::Lines::Kept),
        Some(value) if value == "left-out" => Ok(split::Lines::LeftOut),
        Some(value) => Err(format!("{LINE_TABLES} is {value:?}; it may be `kept` or `left-out`")),
    }
}

/// Source text of a slice of `Embedded`, with an element per kernel in `folder`.
fn table(folder: &Path) -> Result<String, String> {
    let (mut streams, mut table) = (BTreeSet::new(), String::new());
    for kernel in package::read(folder)? {
        let file = folder.join(kernel.file());
        let package::Indexed { name, stream, side, ptx_version, target, merged_bytes, text_bytes, parameter_bytes } =
            kernel;
        writeln!(
            table,
            "Embedded {{ entry: {name:?}, ptx_version: {ptx_version:?}, target: {target:?}, side: Side::{side:?}, \
             merged_bytes: {merged_bytes}, text_bytes: {text_bytes}, parameter_bytes: &{parameter_bytes:?}, zlib: {stream} }},"
        )
        .expect("a String takes everything");
        streams.insert(format!("static {stream}: &[u8] = include_bytes!({file:?});\n"));
    }
    let streams: String = streams.into_iter().collect();
    Ok(format!("{{\n{streams}&[\n{table}]\n}}"))
}
