//! Fat binaries as nvcc embeds them in programs: machine code and PTX for several architectures, optionally compressed.
//!
//! NVIDIA does not document the format; this follows what `fatbinary` of CUDA 11 to 13 writes.

use std::io::Read;

use crate::architecture::Architecture;
use crate::code::Code;
use crate::error::{Error, Result};
use crate::problem::Problem;

/// The first word of a fat binary.
pub const MAGIC: u32 = 0xba55_ed50;
/// Bytes of the header: magic number, version, header size, size of the rest.
pub const HEADER_BYTES: usize = 16;
/// Maximum size of a fat binary, and of the PTX in one, bytes.
const LARGEST: u64 = 1 << 30;

/// Kind of an entry that is PTX.
const PTX: u16 = 1;
/// Flags of an entry: compressed with LZ4, with Zstandard.
const LZ4: u64 = 0x2000;
const ZSTANDARD: u64 = 0x8000;

/// Size in bytes of the fat binary that begins with `header`, from its own fields.
///
/// # Errors
/// [`Code::INVALID_IMAGE`] if it is not a fat binary.
pub fn size(header: &[u8; HEADER_BYTES]) -> Result<usize> {
    let own = number(header, 6, 2).unwrap_or(0);
    let rest = number(header, 8, 8).unwrap_or(0);
    let is_one = number(header, 0, 4) == Some(MAGIC.into()) && own >= HEADER_BYTES as u64 && rest <= LARGEST;
    if is_one { Ok((own + rest) as usize) } else { Err(damaged("its header")) }
}

/// The PTX of a fat binary for an architecture: among those that run there, the one with the newest target.
///
/// # Errors
/// [`Code::NO_BINARY_FOR_GPU`] with the available entries if none runs; [`Code::INVALID_IMAGE`] if it is damaged.
pub fn ptx(data: &[u8], architecture: &Architecture) -> Result<String> {
    let mut rest = data.get(number(data, 6, 2).unwrap_or(0) as usize..).ok_or_else(|| damaged("its header"))?;
    let mut best: Option<(u64, String)> = None;
    let mut others = Vec::new();
    let mut newer = None;
    while !rest.is_empty() {
        let entry = Entry::read(rest).ok_or_else(|| damaged("an entry"))?;
        rest = &rest[entry.bytes..];
        if entry.kind != PTX {
            others.push(format!("machine code for sm_{}", entry.architecture));
            continue;
        }
        let text = entry.text()?;
        match target(&text) {
            Some(target) if architecture.runs(target) => {
                if best.as_ref().is_none_or(|(known, _)| *known < entry.architecture) {
                    best = Some((entry.architecture, text));
                }
            }
            target => {
                others.push(format!("PTX for {}", target.unwrap_or("nothing")));
                newer = newer.or_else(|| target.and_then(Architecture::first_that_runs));
            }
        }
    }
    best.map(|(_, text)| text).ok_or_else(|| {
        let others = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
        let number = architecture.number;
        let text = format!(
            "the fat binary has no PTX that runs on sm_{number}, but {others}; {}compile with -arch=compute_{number}, so that \
             PTX is in it; device code that is linked (-rdc=true, for dynamic parallelism) keeps none",
            newer.map_or(String::new(), |newer| format!("{}, or ", newer.option()))
        );
        Error::new(Code::NO_BINARY_FOR_GPU, text).of(Problem::NotSimulated)
    })
}

/// One entry: the code for one architecture.
struct Entry<'a> {
    kind: u16,
    architecture: u64,
    flags: u64,
    /// Size of the entry, bytes.
    bytes: usize,
    content: &'a [u8],
    /// Size of the content after decompression, bytes.
    decompressed: u64,
}

impl<'a> Entry<'a> {
    /// The entry at the start of `data`.
    fn read(data: &'a [u8]) -> Option<Self> {
        let (header, padded) = (number(data, 4, 4)?, number(data, 8, 8)?);
        let end = header.checked_add(padded).filter(|end| header >= 0x40 && *end <= data.len() as u64)?;
        let content = &data[header as usize..end as usize];
        let flags = number(data, 0x28, 8)?;
        let compressed = number(data, 0x10, 4)?;
        let is_compressed = flags & (LZ4 | ZSTANDARD) != 0;
        Some(Self {
            kind: number(data, 0, 2)? as u16,
            architecture: number(data, 0x1c, 4)?,
            flags,
            bytes: end as usize,
            content: if is_compressed { content.get(..compressed as usize)? } else { content },
            decompressed: number(data, 0x38, 8)?,
        })
    }

    /// The PTX.
    fn text(&self) -> Result<String> {
        let most = self.decompressed;
        if most > LARGEST {
            return Err(damaged("the size of its PTX"));
        }
        let mut text = Vec::new();
        if self.flags & ZSTANDARD != 0 {
            let decoder = ruzstd::decoding::StreamingDecoder::new(self.content);
            let read = decoder.ok().and_then(|decoder| decoder.take(most).read_to_end(&mut text).ok());
            read.ok_or_else(|| damaged("its compressed PTX"))?;
        } else if self.flags & LZ4 != 0 {
            text =
                lz4_flex::block::decompress(self.content, most as usize).map_err(|_| damaged("its compressed PTX"))?;
        } else {
            text.extend(self.content);
        }
        // What follows is padding.
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        text.truncate(end);
        String::from_utf8(text).map_err(|_| damaged("its PTX, which is not text"))
    }
}

/// The little-endian number of `bytes` bytes at `offset`.
fn number(data: &[u8], offset: usize, bytes: usize) -> Option<u64> {
    let mut wide = [0; 8];
    wide[..bytes].copy_from_slice(data.get(offset..offset + bytes)?);
    Some(u64::from_le_bytes(wide))
}

/// The `.target` of PTX.
fn target(text: &str) -> Option<&str> {
    let after = text.split(".target").nth(1)?;
    after.split([' ', '\t', ',', '\n', '\r']).find(|word| !word.is_empty())
}

fn damaged(what: &str) -> Error {
    Error::new(Code::INVALID_IMAGE, format!("the fat binary is damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() { ret; }\n";

    /// An entry as `fatbinary` writes it.
    fn entry(kind: u16, architecture: u32, flags: u64, content: &[u8], decompressed: usize) -> Vec<u8> {
        let mut entry = vec![0; 0x40];
        let padded = content.len().next_multiple_of(8);
        entry[..2].copy_from_slice(&kind.to_le_bytes());
        entry[4..8].copy_from_slice(&0x40_u32.to_le_bytes());
        entry[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        entry[0x10..0x14].copy_from_slice(&(content.len() as u32).to_le_bytes());
        entry[0x1c..0x20].copy_from_slice(&architecture.to_le_bytes());
        entry[0x28..0x30].copy_from_slice(&flags.to_le_bytes());
        entry[0x38..].copy_from_slice(&(decompressed as u64).to_le_bytes());
        entry.extend(content);
        entry.resize(0x40 + padded, 0);
        entry
    }

    fn fat_binary(entries: &[Vec<u8>]) -> Vec<u8> {
        let content = entries.concat();
        let mut data = MAGIC.to_le_bytes().to_vec();
        data.extend([1, 0, 16, 0]);
        data.extend((content.len() as u64).to_le_bytes());
        data.extend(content);
        data
    }

    fn hopper() -> Architecture {
        Architecture::find(90).unwrap()
    }

    #[test]
    fn the_newest_ptx_that_runs_is_taken_compressed_or_not() {
        let newer = TEXT.replace("sm_80", "sm_90");
        let newest = TEXT.replace("sm_80", "sm_100");
        let packed = lz4_flex::block::compress(newer.as_bytes());
        let data = fat_binary(&[
            entry(2, 80, 0, b"machine code", 0),
            entry(PTX, 80, 0, TEXT.as_bytes(), 0),
            entry(PTX, 90, LZ4, &packed, newer.len()),
            entry(PTX, 100, 0, newest.as_bytes(), 0),
        ]);
        assert_eq!(size(data[..16].as_array().unwrap()).unwrap(), data.len());
        assert_eq!(ptx(&data, &hopper()).unwrap(), newer);
        assert_eq!(ptx(&data, &Architecture::find(80).unwrap()).unwrap(), TEXT);
    }

    #[test]
    fn without_ptx_that_runs_it_is_told_what_there_is() {
        let newest = TEXT.replace("sm_80", "sm_100");
        let data = fat_binary(&[entry(2, 80, 0, b"code", 0), entry(PTX, 100, 0, newest.as_bytes(), 0)]);
        let message = ptx(&data, &hopper()).unwrap_err().message.unwrap();
        assert!(
            message.contains(
                "no PTX that runs on sm_90, but machine code for sm_80, PTX for sm_100; say --arch 100 (PTX_SIM_ARCH=100), or"
            ),
            "{message}"
        );
    }

    #[test]
    fn damage_is_an_error() {
        let packed = lz4_flex::block::compress(TEXT.as_bytes());
        for flags in [0, LZ4, ZSTANDARD] {
            let data = fat_binary(&[entry(PTX, 80, flags, &packed, TEXT.len())]);
            for at in 0..data.len() {
                let _ = ptx(&data[..at], &hopper());
                for bits in [0xff, 0x80, 1] {
                    let mut damaged = data.clone();
                    damaged[at] ^= bits;
                    let _ = ptx(&damaged, &hopper());
                }
            }
        }
        assert!(ptx(b"", &hopper()).is_err());
    }
}
