//! A machine with two simulated GPUs of two multiprocessors (or the real ones, with `FA512_TEST_GPU=1`), reached through
//! cudarc, which shares the driver with the library under test as any other library would.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod attention;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

/// File in which the simulator reports findings.
fn report() -> &'static PathBuf {
    static REPORT: OnceLock<PathBuf> = OnceLock::new();
    REPORT.get_or_init(|| {
        let report =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-findings.txt", env!("CARGO_CRATE_NAME")));
        // The simulator appends to an existing file.
        let _ = std::fs::remove_file(&report);
        report
    })
}

/// Creates the machine, once per process. `None`, with a message on stderr, if the library was built without kernels.
pub fn machine() -> Option<()> {
    machine_of("90")
}

/// [`machine`] with GPUs of `architecture`, such as `80` for `sm_80`. The first test of a process decides.
pub fn machine_of(architecture: &str) -> Option<()> {
    static MACHINE: OnceLock<()> = OnceLock::new();
    if fa512::kernels().next().is_none() {
        eprintln!("not tested: fa512 was built without kernels; `cargo xtask ptx` makes them");
        return None;
    }
    MACHINE.get_or_init(|| {
        if std::env::var_os("FA512_TEST_GPU").is_none() {
            simulate(architecture);
        }
    });
    Some(())
}

/// Loads the simulated driver under the driver's usual name.
fn simulate(architecture: &str) {
    for (name, value) in [
        ("PTX_SIM_GPUS", "2"),
        ("PTX_SIM_ARCH", architecture),
        ("PTX_SIM_MULTIPROCESSORS", "2"),
        ("PTX_SIM_THREADS", "1"),
    ] {
        // SAFETY: the first test to come here is the only one to go on; nothing else reads the environment meanwhile.
        unsafe { std::env::set_var(name, value) };
    }
    // SAFETY: as above.
    unsafe { std::env::set_var("PTX_SIM_REPORT", report()) };
    let test = std::env::current_exe().expect("a test has a path");
    let library = test.with_file_name("liblibcuda_sim.so");
    let name = CString::new(library.to_str().expect("UTF-8")).expect("no NUL");
    const RTLD_NOW: c_int = 2;
    // SAFETY: the name ends in NUL. The library's soname is libcuda.so.1, so a later load of that name gets this library.
    if unsafe { dlopen(name.as_ptr(), RTLD_NOW) }.is_null() {
        // SAFETY: the call before failed, so there is an error text.
        let error = unsafe { CStr::from_ptr(dlerror()) }.to_string_lossy();
        panic!("no simulated driver, which `cargo xtask test -- -p fa512` builds: {}: {error}", library.display());
    }
}

/// The simulator's findings so far.
pub fn findings() -> String {
    std::fs::read_to_string(report()).unwrap_or_default()
}

/// Number of GPUs.
pub fn gpus() -> usize {
    usize::try_from(CudaContext::device_count().expect("a driver")).expect("a number")
}

/// A context of GPU `gpu` with a stream, current on the calling thread.
pub fn gpu(gpu: usize) -> Arc<CudaStream> {
    let context = CudaContext::new(gpu).expect("a GPU");
    context.bind_to_thread().expect("a context");
    context.new_stream().expect("a stream")
}

/// The stream in the library's type.
pub fn raw(stream: &CudaStream) -> fa512::Stream {
    fa512::Stream::from_raw(stream.cu_stream().cast())
}

/// The device address of a slice.
pub fn address<T>(slice: &CudaSlice<T>, stream: &CudaStream) -> u64 {
    slice.device_ptr(stream).0
}
