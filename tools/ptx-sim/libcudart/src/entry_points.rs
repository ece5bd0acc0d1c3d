//! Driver entry points, and lookups of kernels and GPUs by name.

use std::ffi::{c_char, c_void};

use crate::context::enter;
use crate::devices::VERSION;
use crate::driver::call;
use crate::handles::Handle;
use crate::registry::function;
use crate::status::{Status, put, runtime_api};

/// `cudaErrorPeerAccessUnsupported`, `cudaErrorPeerAccessNotEnabled`.
const NO_PEER_ACCESS: Status = Status(217);
const PEER_ACCESS_NOT_ENABLED: Status = Status(705);
/// `cudaEnablePerThreadDefaultStream`.
const PER_THREAD_FUNCTIONS: u64 = 2;

runtime_api! {
    fn cudaGetDriverEntryPoint(name: *const c_char, result: *mut *mut c_void, flags: u64, status: *mut u32) {
        call!(cuGetProcAddress_v2(name, result, VERSION, flags, status))
    }

    fn cudaGetDriverEntryPoint_ptsz(name: *const c_char, result: *mut *mut c_void, flags: u64, status: *mut u32) {
        call!(cuGetProcAddress_v2(name, result, VERSION, flags | PER_THREAD_FUNCTIONS, status))
    }

    fn cudaGetDriverEntryPointByVersion(name: *const c_char, result: *mut *mut c_void, version: u32, flags: u64, status: *mut u32) {
        call!(cuGetProcAddress_v2(name, result, version as i32, flags, status))
    }

    fn cudaGetDriverEntryPointByVersion_ptsz(
        name: *const c_char,
        result: *mut *mut c_void,
        version: u32,
        flags: u64,
        status: *mut u32,
    ) {
        call!(cuGetProcAddress_v2(name, result, version as i32, flags | PER_THREAD_FUNCTIONS, status))
    }

    fn cudaGetFuncBySymbol(result: *mut Handle, stub: *const c_void) {
        put(result, function(stub)?)
    }

    fn cudaFuncGetName(name: *mut *const c_char, stub: *const c_void) {
        let function = function(stub)?;
        call!(cuFuncGetName(name, function))
    }

    fn cudaFuncGetParamInfo(stub: *const c_void, index: usize, offset: *mut usize, bytes: *mut usize) {
        let function = function(stub)?;
        call!(cuFuncGetParamInfo(function, index, offset, bytes))
    }

    fn cudaDeviceGetByPCIBusId(device: *mut i32, text: *const c_char) {
        call!(cuDeviceGetByPCIBusId(device, text))
    }

    fn cudaChooseDevice(device: *mut i32, _properties: *const c_void) {
        // All versions are the same.
        put(device, 0)
    }

    fn cudaGetDeviceFlags(flags: *mut u32) {
        enter()?;
        call!(cuCtxGetFlags(flags))
    }

    fn cudaDeviceEnablePeerAccess(_peer: i32, _flags: u32) {
        Err(NO_PEER_ACCESS)
    }

    fn cudaDeviceDisablePeerAccess(_peer: i32) {
        Err(PEER_ACCESS_NOT_ENABLED)
    }

    fn cudaDeviceGetP2PAttribute(value: *mut i32, number: u32, from: i32, to: i32) {
        call!(cuDeviceGetP2PAttribute(value, number, from, to))
    }

    fn cudaCtxResetPersistingL2Cache() {
        enter()
    }

    fn cudaDeviceGetCacheConfig(config: *mut u32) {
        put(config, 0)
    }

    fn cudaThreadSynchronize() {
        enter()?;
        call!(cuCtxSynchronize())
    }
}
