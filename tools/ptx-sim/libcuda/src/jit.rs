//! JIT options, and the logs for the caller.

use std::sync::Arc;

use sim_device::{Error, Library, Result};

use crate::types::{Host, In, Out};

/// `CU_JIT_INFO_LOG_BUFFER` and its size, `CU_JIT_ERROR_LOG_BUFFER` and its size.
const LOGS: [(u32, u32); 2] = [(3, 4), (5, 6)];
/// Number of `CUjit_option`s.
const JIT_OPTIONS: u32 = 35;

/// Options for the JIT compiler: numbers, and values that are numbers or pointers.
#[derive(Clone, Copy)]
pub struct JitOptions {
    /// Number of options.
    pub count: u32,
    /// The option numbers.
    pub numbers: In<u32>,
    /// The values.
    pub values: Out<usize>,
}

impl JitOptions {
    /// No options.
    pub fn none() -> Self {
        Self { count: 0, numbers: In::nowhere(), values: Out::nowhere() }
    }

    fn index(self, option: u32) -> Option<usize> {
        (0..self.count as usize).find(|index| self.numbers.at(*index).is_ok_and(|number| number == option))
    }

    /// Requires known options.
    pub fn check(self) -> Result<()> {
        for number in self.numbers.all(self.count as usize)? {
            if number >= JIT_OPTIONS {
                return Err(Error::invalid(format!("{number} is not an option of the compiler")));
            }
        }
        if self.count > 0 { self.values.require() } else { Ok(()) }
    }

    /// Writes the logs: empty, or an error.
    fn log(self, error: Option<&str>) {
        for ((buffer, size), text) in LOGS.into_iter().zip(["", error.unwrap_or_default()]) {
            let (Some(buffer), Some(size)) = (self.index(buffer), self.index(size)) else { continue };
            if let (Ok(address), Ok(bytes)) = (self.values.at(buffer), self.values.at(size)) {
                // The size takes 32 bits of the slot.
                let written = Host(address as *mut _).set_text(text, bytes as u32 as usize);
                let _ = self.values.element(size).set(written);
            }
        }
    }

    /// Logs why a library does not compile. Requests for its kernels return the code, too.
    pub fn library(self, library: Result<Arc<Library>>) -> Result<Arc<Library>> {
        let error = library.as_ref().map_or_else(Some, |library| library.error()).cloned();
        let _ = self.logged(error.map_or(Ok(()), Err));
        library
    }

    /// `result`, with an error also written to the caller's log.
    pub fn logged<T>(self, result: Result<T>) -> Result<T> {
        let message = result.as_ref().err().and_then(|error| error.message.clone());
        let message = message.map(|message| format!("ptx-sim: {message}"));
        self.log(message.as_deref());
        result
    }
}
