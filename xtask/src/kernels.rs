//! The library's own way from a PTX folder to compressed kernels, which its build script goes, too.

/// Two texts in one.
#[path = "../../host/fa512/build/merge.rs"]
mod merge;
/// One of two merged texts.
#[path = "../../host/fa512/src/merged.rs"]
mod merged;
/// A folder of compressed kernels.
#[path = "../../host/fa512/build/package.rs"]
#[allow(dead_code, reason = "only the build script reads what is written here")]
pub mod package;
/// One text for each entry of a module.
#[path = "../../host/fa512/build/split.rs"]
pub mod split;

/// The PTX files of a folder that hold kernels which are shipped.
pub const PTX_FILES: [&str; 4] = ["sm_90a.ptx", "sm_80.ptx", "backward_sm_90a.ptx", "backward_sm_80.ptx"];

/// What makes the library's build script embed kernels as they are shipped: an environment variable and its value.
pub const WITHOUT_LINE_TABLES: (&str, &str) = ("FA512_LINE_TABLES", "left-out");
