//! The kernels' PTX, embedded by `build.rs`.

use std::ffi::CString;

use crate::error::Error;

/// The compressed PTX of one entry.
pub struct Embedded {
    /// Name of the `.entry`.
    pub entry: &'static str,
    /// `.version`, such as `8.0`: the driver must be new enough for it.
    pub ptx_version: &'static str,
    /// `.target`, such as `sm_90a`.
    pub target: &'static str,
    text_bytes: usize,
    parameter_bytes: &'static [usize],
    zlib: &'static [u8],
}

/// The embedded kernels; empty if the library was built without PTX.
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
        let text = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(self.zlib, self.text_bytes);
        CString::new(text.map_err(|error| damaged(error.to_string()))?).map_err(|error| damaged(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::{BACKWARD_ARGUMENT_BYTES, argument_bytes};
    use contract::backward::variants::BACKWARD_VARIANTS;
    use contract::variants::VARIANTS;

    #[test]
    fn every_embedded_kernel_is_whole_and_holds_its_entry_alone() {
        for kernel in KERNELS {
            let ptx = kernel.ptx().unwrap();
            let text = ptx.to_str().unwrap();
            assert_eq!(text.len(), kernel.text_bytes, "{}", kernel.entry);
            assert_eq!(text.matches(".entry").count(), 1, "{}", kernel.entry);
            assert!(text.contains(&format!(".entry {}(", kernel.entry)), "{}", kernel.entry);
            assert!(text.starts_with(&format!(".version {}\n.target {}\n", kernel.ptx_version, kernel.target)));
        }
    }

    #[test]
    fn every_variant_is_embedded_with_the_arguments_it_is_passed_or_none_is() {
        if KERNELS.is_empty() {
            return;
        }
        let forward = VARIANTS.iter().map(|variant| (variant.entry, argument_bytes(variant)));
        let backward = BACKWARD_VARIANTS.iter().map(|variant| (variant.entry, BACKWARD_ARGUMENT_BYTES));
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
