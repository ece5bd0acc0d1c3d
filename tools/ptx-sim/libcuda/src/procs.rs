//! `cuGetProcAddress`: lookup of functions by name.

use std::ffi::c_void;
use std::ptr;
use std::sync::Once;

use sim_device::{Code, Error, Problem, Result};

use crate::border::{Address, driver_api};
use crate::driver;
use crate::symbols::SYMBOLS;
use crate::types::{In, Out, Text};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD_DEFAULT_STREAM: u64 = 2;
/// `CU_GET_PROC_ADDRESS_SUCCESS`, `_SYMBOL_NOT_FOUND`, `_VERSION_NOT_SUFFICIENT`.
const FOUND: u32 = 0;
const NO_SUCH_SYMBOL: u32 = 1;
const NEEDS_NEWER: u32 = 2;

/// Message to programs that contain NVIDIA's CUDA runtime.
const STATIC_RUNTIME: &str = "the program has NVIDIA's own CUDA runtime in it, as nvcc links it unless told otherwise: it calls the driver \
                              by interfaces that are not public; calls that go by it fail; link the program with -cudart shared, and run it by ptx-sim run";

/// Address of an exported function.
fn address(symbol: &str) -> Option<*const ()> {
    let all = crate::functions().flat_map(|functions| functions.iter());
    all.into_iter().find(|(name, _)| *name == symbol).map(|(_, Address(address))| *address)
}

/// The function `name` for a program of CUDA `version` on a driver of this version: the newest function of that name that the
/// program knows, or the reason why there is none.
fn resolve(name: &str, version: i32, per_thread: bool) -> Result<*const (), u32> {
    let newest_known = driver::version() as i32;
    let named = SYMBOLS.iter().filter(|symbol| symbol.base == name);
    let newest =
        named.clone().filter(|symbol| symbol.version <= version.min(newest_known)).max_by_key(|symbol| symbol.version);
    let symbol = match newest {
        Some(newest) => newest.symbol,
        None if named.clone().any(|symbol| symbol.version <= newest_known) => return Err(NEEDS_NEWER),
        // A name with a version suffix is taken literally.
        None => name,
    };
    let twins = ["_ptsz", "_ptds"].map(|suffix| format!("{symbol}{suffix}"));
    let twin = twins.iter().filter(|_| per_thread).find_map(|twin| address(twin));
    twin.or_else(|| address(symbol)).ok_or(NO_SUCH_SYMBOL)
}

fn get(name: Text, result: Out<*mut c_void>, version: i32, flags: u64, status: Out<u32>) -> Result<()> {
    let name = name.get()?;
    result.set(ptr::null_mut())?;
    if flags > 3 {
        return Err(Error::invalid(format!("the flags are {flags:#x}")));
    }
    match resolve(&name, version, flags & PER_THREAD_DEFAULT_STREAM != 0) {
        Ok(address) => {
            status.set_if_wanted(FOUND);
            result.set(address.cast_mut().cast())
        }
        Err(reason) => {
            status.set_if_wanted(reason);
            // The newer form of the function returns the reason in its status.
            if status.is_wanted() { Ok(()) } else { Err(Code::NOT_FOUND.into()) }
        }
    }
}

driver_api! {
    fn cuGetProcAddress(name: Text, result: Out<*mut c_void>, version: i32, flags: u64) {
        get(name, result, version, flags, Out::nowhere())
    }

    fn cuGetProcAddress_v2(name: Text, result: Out<*mut c_void>, version: i32, flags: u64, status: Out<u32>) {
        get(name, result, version, flags, status)
    }

    fn cuGetProcAddress_v2_ptsz(name: Text, result: Out<*mut c_void>, version: i32, flags: u64, status: Out<u32>) {
        get(name, result, version, flags | PER_THREAD_DEFAULT_STREAM, status)
    }

    fn cuGetExportTable(result: Out<*const c_void>, _identifier: In<[u8; 16]>) {
        result.set(ptr::null())?;
        // The CUDA runtime requests tables that NVIDIA does not document.
        static TOLD: Once = Once::new();
        TOLD.call_once(|| driver::problem(Problem::PrivateInterface, STATIC_RUNTIME));
        Err(Code::NOT_FOUND.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_the_newest_function_that_it_knows() {
        let same = |name: &str, version, per_thread, symbol: &str| {
            assert_eq!(resolve(name, version, per_thread).ok(), address(symbol), "{name} of {version}");
        };
        same("cuMemAlloc", 3020, false, "cuMemAlloc_v2");
        same("cuMemAlloc", 13_000, false, "cuMemAlloc_v2");
        same("cuCtxCreate", 11_040, false, "cuCtxCreate_v3");
        same("cuCtxCreate", 13_000, false, "cuCtxCreate_v4");
        same("cuLaunchKernel", 13_000, true, "cuLaunchKernel_ptsz");
        same("cuMemcpyHtoD", 13_000, true, "cuMemcpyHtoD_v2_ptds");
        same("cuStreamBeginCapture", 10_000, false, "cuStreamBeginCapture");
        same("cuGraphInstantiate", 12_000, false, "cuGraphInstantiateWithFlags");
    }

    #[test]
    fn what_is_too_new_or_unknown_is_told_apart() {
        assert_eq!(resolve("cuLaunchKernelEx", 11_000, false), Err(NEEDS_NEWER));
        assert_eq!(resolve("cuNoSuchThing", 13_000, false), Err(NO_SUCH_SYMBOL));
    }

    #[test]
    fn every_symbol_of_the_table_is_exported() {
        assert!(SYMBOLS.len() > 500, "{} symbols", SYMBOLS.len());
        let missing: Vec<_> =
            SYMBOLS.iter().map(|symbol| symbol.symbol).filter(|symbol| address(symbol).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
