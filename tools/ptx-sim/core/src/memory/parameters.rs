//! The parameters of an entry: named, widely spaced, read-only memory (PTX ISA, "Kernel Function Parameters").

use super::error::OutOfBounds;

/// Gap between parameters. PTX does not define their relative placement, so an address that leaves its parameter must
/// hit no other.
const RED_ZONE: u64 = 64 << 10;

/// Address of the next parameter after one that ends at `end`. It has exactly the declared alignment and no greater
/// one, so that code that relies on more alignment than declared is detected.
pub(crate) fn parameter_address(end: u64, alignment: u64) -> u64 {
    let free = if end == 0 { 0 } else { end + RED_ZONE };
    free.next_multiple_of(2 * alignment) + alignment
}

/// One parameter, with the bytes of the launch.
#[derive(Debug)]
struct Parameter {
    name: String,
    address: u64,
    bytes: Vec<u8>,
}

impl Parameter {
    fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }

    fn distance(&self, address: u64) -> u64 {
        self.address.saturating_sub(address).max(address.saturating_sub(self.end()))
    }
}

/// The parameters of a launch.
#[derive(Debug, Default)]
pub(crate) struct Parameters(Vec<Parameter>);

impl Parameters {
    /// Adds a parameter after all others. An empty one has no address.
    pub fn add(&mut self, name: &str, address: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.0.push(Parameter { name: name.to_owned(), address, bytes: bytes.to_owned() });
    }

    /// Reads `data.len()` bytes of one parameter.
    pub fn load(&self, address: u64, data: &mut [u8]) -> Result<(), OutOfBounds> {
        let after = self.0.partition_point(|parameter| parameter.address <= address);
        let bytes = after.checked_sub(1).and_then(|index| {
            let parameter = &self.0[index];
            let start = usize::try_from(address - parameter.address).ok()?;
            parameter.bytes.get(start..start.checked_add(data.len())?)
        });
        match bytes {
            Some(bytes) => data.copy_from_slice(bytes),
            None => return Err(OutOfBounds(self.describe(address, data.len() as u64))),
        }
        Ok(())
    }

    /// What is at `address`, in words.
    pub fn describe(&self, address: u64, bytes: u64) -> String {
        let Some(parameter) = self.0.iter().min_by_key(|parameter| parameter.distance(address)) else {
            return "the entry has no parameters".to_owned();
        };
        let what = format!("parameter `{}` ({} bytes)", parameter.name, parameter.bytes.len());
        if address < parameter.address {
            return format!("{} bytes before {what}", parameter.address - address);
        }
        if address >= parameter.end() {
            return format!("{} bytes past the end of {what}", address - parameter.end());
        }
        match bytes.saturating_sub(parameter.end() - address) {
            0 => format!("offset {} of {what}", address - parameter.address),
            beyond => format!("the last {beyond} bytes are past the end of {what}"),
        }
    }
}
