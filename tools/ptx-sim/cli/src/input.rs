//! Reading PTX files, with helpful errors for other files.

use std::path::Path;

use ptx_diagnostics::files::read_bytes;

/// Maximum size of a PTX file, bytes.
pub const LARGEST_FILE: u64 = 1 << 30;

/// Magic bytes of files that are passed instead of PTX, with their kind and what to do.
const OTHERS: [(&[u8], &str); 6] = [
    (
        b"\x7fELF",
        "a cubin, an object file or a program: machine code. Compile to PTX (nvcc -ptx -O3 -lineinfo kernel.cu), or take the \
         PTX out of it, if there is any (cuobjdump -xptx all FILE)",
    ),
    (
        b"\x50\xed\x55\xba",
        "a fat binary. Take the PTX out of it (cuobjdump -xptx all FILE), or compile to PTX (nvcc -ptx -O3 -lineinfo kernel.cu)",
    ),
    (b"BC\xc0\xde", "LLVM bitcode. Compile it to PTX (llc -march=nvptx64 -mcpu=sm_80 FILE)"),
    (b"!<arch>", "an archive of object files. Compile to PTX (nvcc -ptx -O3 -lineinfo kernel.cu)"),
    (b"\x1f\x8b", "compressed (gzip). Unpack it first"),
    (b"PK\x03\x04", "a zip archive. Unpack it first"),
];

/// Words that occur in CUDA sources and not in PTX.
const CUDA_WORDS: [&str; 4] = ["__global__", "#include", "@triton.jit", "extern \"C\""];

/// The text of a PTX file.
///
/// # Errors
/// If it cannot be read, or is another kind of file, with what to do.
pub fn read_ptx(path: &Path) -> Result<String, String> {
    let name = path.display();
    let bytes = read_bytes(path, LARGEST_FILE).map_err(|error| format!("{name}: {error}"))?;
    if let Some((_, what)) = OTHERS.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(format!("{name} is not PTX but {what}"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{name} is not PTX: byte {at} is not text. Compile to PTX with nvcc -ptx -O3 -lineinfo kernel.cu")
    })?;
    // PTX from a driver's buffer may end in NUL.
    let text = text.trim_end_matches('\0');
    if !text.contains(".version") && CUDA_WORDS.iter().any(|word| text.contains(word)) {
        return Err(format!("{name} is source code, not PTX. Compile it first: nvcc -ptx -O3 -lineinfo {name}"));
    }
    Ok(text.to_owned())
}
