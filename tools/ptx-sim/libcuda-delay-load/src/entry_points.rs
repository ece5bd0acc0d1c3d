//! The functions that other code links to, and the table they jump through.

use crate::functions::for_every_function;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// `CUDA_ERROR_STUB_LIBRARY`: what every function returns before libcuda was loaded.
pub const CUDA_ERROR_STUB_LIBRARY: u32 = 34;

/// `CUDA_ERROR_NOT_SUPPORTED`: what a function returns if the loaded libcuda does not export it.
pub const CUDA_ERROR_NOT_SUPPORTED: u32 = 801;

extern "C" fn not_loaded() -> u32 {
    CUDA_ERROR_STUB_LIBRARY
}

extern "C" fn not_supported() -> u32 {
    CUDA_ERROR_NOT_SUPPORTED
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("libcuda exists for x86-64 and AArch64; a jump for another architecture belongs in `jump_through!`");

/// The whole body of an entry point: jumps to the address in a slot of the table, leaving registers and stack as the
/// caller set them up, so that no signature needs to be known.
#[cfg(target_arch = "x86_64")]
macro_rules! jump_through {
    ($slot:expr) => {
        std::arch::naked_asm!(
            "jmp qword ptr [rip + {table} + {offset}]",
            table = sym TABLE,
            offset = const size_of::<Slot>() * $slot,
        )
    };
}

// x16 is the register that the procedure call standard sets aside for veneers such as this one.
#[cfg(target_arch = "aarch64")]
macro_rules! jump_through {
    ($slot:expr) => {
        std::arch::naked_asm!(
            "adrp x16, {table} + {offset}",
            "ldr x16, [x16, #:lo12:{table} + {offset}]",
            "br x16",
            table = sym TABLE,
            offset = const size_of::<Slot>() * $slot,
        )
    };
}

/// Address that an entry point jumps to.
type Slot = AtomicPtr<c_void>;

macro_rules! define_entry_points {
    ($($name:ident)*) => {
        /// Index of a function in [`NAMES`] and [`TABLE`].
        #[allow(non_camel_case_types)]
        enum Index {
            $($name,)*
            Count,
        }

        /// Names of the functions in libcuda.
        const NAMES: [&CStr; Index::Count as usize] = [$(c_str(concat!(stringify!($name), "\0"))),*];

        static TABLE: [Slot; Index::Count as usize] =
            [const { Slot::new(not_loaded as *mut c_void) }; Index::Count as usize];

        // As `no_mangle` functions the linker keeps them whatever the order of the libraries that refer to them.
        $(
            /// Jumps to the function of this name in libcuda.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            #[allow(non_snake_case)]
            extern "C" fn $name() {
                jump_through!(Index::$name as usize)
            }
        )*
    };
}

const fn c_str(name: &str) -> &CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("an identifier with a NUL at its end is a C string"),
    }
}

for_every_function!(define_entry_points);

/// Points every entry point at the address `find` knows for its name, or at a function that returns
/// [`CUDA_ERROR_NOT_SUPPORTED`].
///
/// # Safety
///
/// The addresses must be those of the functions named, and stay valid for as long as the program runs.
pub unsafe fn resolve(mut find: impl FnMut(&CStr) -> Option<*mut c_void>) {
    for (slot, name) in TABLE.iter().zip(NAMES) {
        slot.store(find(name).unwrap_or(not_supported as *mut c_void), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::NAMES;
    use std::collections::BTreeSet;
    use std::path::PathBuf;
    use std::process::Command;

    fn cust_raw_source() -> String {
        let metadata = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version=1", "--locked"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        assert!(metadata.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&metadata.stderr));
        let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("cargo metadata prints JSON");
        let packages = metadata["packages"].as_array().expect("a list of packages");
        let cust_raw = packages.iter().find(|package| package["name"] == "cust_raw").expect("cust_raw is a dependency");
        let manifest = PathBuf::from(cust_raw["manifest_path"].as_str().expect("a path"));
        std::fs::read_to_string(manifest.with_file_name("src").join("cuda.rs")).expect("cust_raw has src/cuda.rs")
    }

    #[test]
    fn every_function_of_cust_raw_has_an_entry_point() {
        let source = cust_raw_source();
        let declared: BTreeSet<&str> = source
            .lines()
            .filter_map(|line| line.trim().strip_prefix("pub fn cu"))
            .filter_map(|rest| rest.split('(').next())
            .collect();
        let defined: BTreeSet<&str> =
            NAMES.iter().map(|name| name.to_str().unwrap().strip_prefix("cu").unwrap()).collect();
        assert!(declared.len() > 300, "only {} functions found in the source of cust_raw", declared.len());
        let missing: Vec<_> = declared.difference(&defined).map(|name| format!("cu{name}")).collect();
        assert!(missing.is_empty(), "add these to functions.rs: {missing:?}");
    }
}
