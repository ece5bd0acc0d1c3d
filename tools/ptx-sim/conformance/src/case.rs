//! A kernel that executes one form, with its input and what is known about its results.

use ptx_sim::TensorMap;
use sha2::{Digest, Sha256};

use crate::rule::Rule;

/// The architecture for which cases are compiled and simulated.
pub const ARCHITECTURE: u32 = 90;
/// Name of the entry of every case.
pub const ENTRY: &str = "test";

/// A kernel, nearly always of one block, with its input.
#[derive(Clone, Debug)]
pub struct Case {
    /// Unique name: the form executed, and what distinguishes the case.
    pub name: String,
    /// The module. Its entry [`ENTRY`] has the parameters `output` and `input`, both addresses, and `map` when there is
    /// a tensor map.
    pub ptx: String,
    /// Blocks of the grid.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Contents of the input buffer.
    pub input: Vec<u8>,
    /// Bytes of the output buffer, which is all zeros at first.
    pub output_bytes: usize,
    /// The tensor map, whose address counts from the input buffer, and how it is passed in `map`.
    pub tensor_map: Option<(TensorMap, MapPlace)>,
    /// How the output is compared.
    pub rule: Rule,
    /// Layout of each thread's values, for messages.
    pub columns: Columns,
}

/// How a kernel receives a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapPlace {
    /// By value, in a parameter.
    Parameter,
    /// In global memory, by its address.
    Global,
}

/// Bytes of the input and output that belong to each thread.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Type and first byte of each operand; the values of the threads are contiguous.
    pub operands: Vec<Column>,
    /// The same of each result.
    pub results: Vec<Column>,
}

/// The values of one operand or result for all threads, contiguous.
#[derive(Clone, Debug)]
pub struct Column {
    /// The PTX type, for messages.
    pub kind: String,
    /// Offset of the first thread's value.
    pub offset: usize,
    /// Bytes of one value.
    pub bytes: usize,
}

impl Column {
    /// A thread's value in `buffer`.
    pub fn value(&self, buffer: &[u8], thread: usize) -> u64 {
        let start = self.offset + thread * self.bytes;
        let mut word = [0; 8];
        word[..self.bytes].copy_from_slice(&buffer[start..start + self.bytes]);
        u64::from_le_bytes(word)
    }
}

impl Case {
    /// SHA-256 of everything that determines the result, truncated to 16 hexadecimal digits: a stored result is valid only while
    /// the digest is unchanged.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(&self.ptx);
        hasher.update(self.threads.to_le_bytes());
        if self.blocks > 1 {
            hasher.update(self.blocks.to_le_bytes());
        }
        hasher.update(&self.input);
        hasher.update(format!("{:?}", self.tensor_map));
        hasher.update(self.output_bytes.to_le_bytes());
        hasher.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
