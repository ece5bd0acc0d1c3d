//! Images from which modules are loaded.

use sim_device::{Code, Error, Problem, Result, fat_binary};

use crate::driver;
use crate::types::{Host, In, Text};

/// First word of the wrapper of a fat binary in a program; a pointer to the fat binary follows.
const WRAPPER: u32 = 0x4662_43b1;

/// Image from which a module is loaded: PTX or another format.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct ImageData(*const u8);

impl ImageData {
    /// Our own data, which ends in NUL.
    pub fn of(data: &[u8]) -> Self {
        debug_assert!(data.ends_with(&[0]));
        Self(data.as_ptr())
    }

    /// The PTX of the image; for a fat binary, the PTX for the simulated GPUs.
    pub fn ptx(self) -> Result<String> {
        if self.0.is_null() {
            return Err(Error::invalid("the image is null"));
        }
        if self.begins_with(b"\x7fELF") {
            let text = "the image is a cubin; the simulator executes PTX only: have it compiled to PTX, as by nvcc -ptx, by NVRTC for \
                        compute_90 in place of sm_90, or by Program.compile(\"ptx\") of cuda.core";
            return Err(Error::new(Code::NO_BINARY_FOR_GPU, text).of(Problem::NotSimulated));
        }
        if self.begins_with(&WRAPPER.to_le_bytes()) {
            // The pointer to the fat binary follows the magic number and a version.
            let inner = In::<usize>::at_address(self.0 as usize).at(1)?;
            return Self(inner as *const u8).fat_binary();
        }
        if self.begins_with(&fat_binary::MAGIC.to_le_bytes()) {
            return self.fat_binary();
        }
        Text(self.0.cast()).get()
    }

    /// Whether it begins with these bytes, of which only the last may be NUL.
    fn begins_with(self, magic: &[u8]) -> bool {
        // SAFETY: every image has a first byte, and continues after every byte that is not NUL.
        magic.iter().enumerate().all(|(at, byte)| unsafe { *self.0.add(at) } == *byte)
    }

    fn fat_binary(self) -> Result<String> {
        let header: [u8; fat_binary::HEADER_BYTES] = In::at_address(self.0 as usize).get()?;
        let data = Host(self.0.cast_mut().cast()).bytes(fat_binary::size(&header)?)?;
        fat_binary::ptx(&data, &driver::config()?.architecture)
    }
}
