//! The kernels' PTX, embedded by `build.rs`.

use std::ffi::CString;

use crate::error::Error;
use crate::merged::{Side, part};

/// The PTX of one entry, compressed with that of another.
pub struct Embedded {
    /// Name of the `.entry`.
    pub entry: &'static str,
    /// `.version`, such as `8.0`: the driver must be new enough for it.
    pub ptx_version: &'static str,
    /// `.target`, such as `sm_90a`.
    pub target: &'static str,
    side: Side,
    merged_bytes: usize,
    text_bytes: usize,
    parameter_bytes: &'static [usize],
    zlib: &'static [u8],
}

/// The embedded kernels; empty if the library was built without PTX.
#[allow(non_upper_case_globals, reason = "streams are called as the entries in them")]
pub static KERNELS: &[Embedded] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

impl Embedded {
    /// The kernel `entry`, whose launches pass arguments of `passed` bytes.
    ///
    /// # Errors
    /// When the library was built without it, or its parameters have other sizes.
    pub fn find(entry: &'static str, passed: &[usize]) -> Result<&'static Self, Error> {
        let kernel = KERNELS.iter().find(|kernel| kernel.entry == entry).ok_or(Error::NoKernel { entry })?;
        let taken = kernel.parameter_bytes;
        if taken != passed {
            let why = format!("it takes arguments of {taken:?} bytes, not of {passed:?}");
            return Err(Error::OtherKernel { entry, why });
        }
        Ok(kernel)
    }

    /// The decompressed PTX, ending in NUL as the driver expects it.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn ptx(&self) -> Result<CString, Error> {
        let damaged = |why: String| Error::OtherKernel { entry: self.entry, why };
        let merged = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(self.zlib, self.merged_bytes);
        let text = part(&merged.map_err(|error| damaged(error.to_string()))?, self.side);
        if text.len() != self.text_bytes {
            return Err(damaged(format!("it has {} bytes, not {}", text.len(), self.text_bytes)));
        }
        CString::new(text).map_err(|error| damaged(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::{argument_bytes, backward_argument_bytes};
    use contract::backward::variants::BACKWARD_VARIANTS;
    use contract::variants::VARIANTS;

    #[test]
    fn every_embedded_kernel_is_whole_and_holds_its_entry_alone() {
        for kernel in KERNELS {
            let ptx = kernel.ptx().unwrap();
            let text = ptx.to_str().unwrap();
            assert_eq!(text.matches(".entry").count(), 1, "{}", kernel.entry);
            assert!(text.contains(&format!(".entry {}(", kernel.entry)), "{}", kernel.entry);
            assert!(text.starts_with(&format!(".version {}\n.target {}\n", kernel.ptx_version, kernel.target)));
        }
    }

    /// What is said of a kernel with these bytes, compressed, of which the first entry has 4.
    fn refusal(merged: &[u8], merged_bytes: usize, damage: impl Fn(&mut Vec<u8>)) -> Option<String> {
        let mut zlib = miniz_oxide::deflate::compress_to_vec_zlib(merged, 9);
        damage(&mut zlib);
        let kernel = Embedded {
            entry: "fa512_one",
            ptx_version: "8.0",
            target: "sm_80",
            side: Side::First,
            merged_bytes,
            text_bytes: 4,
            parameter_bytes: &[],
            zlib: zlib.leak(),
        };
        kernel.ptx().err().map(|error| error.to_string())
    }

    #[test]
    fn a_damaged_kernel_is_refused() {
        let merged = b"a\n-b\n+c\n";
        assert_eq!(refusal(merged, merged.len(), |_| {}), None);
        for length in 0..miniz_oxide::deflate::compress_to_vec_zlib(merged, 9).len() {
            assert!(refusal(merged, merged.len(), |zlib| zlib.truncate(length)).is_some(), "of {length} bytes");
            assert!(refusal(merged, merged.len(), |zlib| zlib[length] ^= 1).is_some(), "byte {length}");
        }
        assert!(refusal(merged, merged.len() - 1, |_| {}).is_some(), "longer than the index says");
        let shorter = refusal(b"a\n+b\n", 8, |_| {}).expect("it is short");
        assert!(shorter.contains("it has 2 bytes, not 4"), "{shorter}");
        assert!(refusal(b"a\n\0\n", 8, |_| {}).is_some(), "a NUL within");
    }

    #[test]
    fn every_variant_is_embedded_with_the_arguments_it_is_passed_or_none_is() {
        if KERNELS.is_empty() {
            return;
        }
        let forward = VARIANTS.iter().map(|variant| (variant.entry, argument_bytes(variant)));
        let backward = BACKWARD_VARIANTS.iter().map(|variant| (variant.entry, backward_argument_bytes(variant)));
        for (entry, passed) in forward.chain(backward) {
            if let Err(error) = Embedded::find(entry, passed) {
                panic!("{error}");
            }
        }
    }

    #[test]
    fn a_kernel_that_is_not_there_is_named_with_what_makes_it() {
        let error = Embedded::find("fa512_none", &[]).err().expect("there is none").to_string();
        assert!(error.contains("without the kernel fa512_none") && error.contains("cargo xtask ptx"), "{error}");
    }
}
