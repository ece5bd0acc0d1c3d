//! Contexts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sim_device::{Call, Code, Context, Error, Kind, PRIORITIES, Result};

use crate::border::driver_api;
use crate::devices::ordinal;
use crate::driver::{self, context, context_handle, current, current_handle, machine, with_stack};
use crate::types::{Handle, In, Out};

/// `CU_CTX_FLAGS_MASK`.
const FLAGS: u32 = 0xff;

/// Default limits by number (`CUlimit`): stack, printf, heap, two of device runtimes, L2 fetches, persisting L2.
const LIMITS: [usize; 7] = [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0];

/// Limits that were set, by context and number.
static LIMITS_SET: Mutex<Option<HashMap<(u64, u32), usize>>> = Mutex::new(None);

fn check_flags(flags: u32) -> Result<()> {
    if flags & !FLAGS == 0 { Ok(()) } else { Err(Error::invalid(format!("the flags are {flags:#x}"))) }
}

fn create(result: Out<Handle>, flags: u32, device: i32) -> Result<()> {
    let gpu = ordinal(device)?;
    result.require()?;
    check_flags(flags)?;
    let handle = context_handle(&machine()?.create_context(gpu, flags)?);
    with_stack(|stack| stack.push(handle));
    result.set(handle)
}

fn destroy(handle: Handle) -> Result<()> {
    let context = context(handle)?;
    if context.kind() == Kind::Primary {
        return Err(Error::new(Code::INVALID_CONTEXT, "a primary context is released, not destroyed"));
    }
    context.destroy()?;
    driver::forget_context(context.id());
    with_stack(|stack| stack.pop_if(|top| *top == handle));
    Ok(())
}

fn push(handle: Handle) -> Result<()> {
    context(handle)?;
    with_stack(|stack| stack.push(handle));
    Ok(())
}

fn pop(result: Out<Handle>) -> Result<()> {
    machine()?;
    let top = with_stack(Vec::pop).ok_or(Code::INVALID_CONTEXT)?;
    result.set_if_wanted(top);
    Ok(())
}

/// The context of `handle`; the current one for null.
fn given_or_current(handle: Handle) -> Result<std::sync::Arc<Context>> {
    if handle == Handle::NULL { current() } else { context(handle) }
}

fn limit_is_known(limit: u32) -> Result<()> {
    if (limit as usize) < LIMITS.len() { Ok(()) } else { Err(Code::UNSUPPORTED_LIMIT.into()) }
}

fn retire(gpu: u32, end: impl FnOnce() -> Result<()>) -> Result<()> {
    let primary = machine()?.primary(gpu)?;
    end()?;
    if let Some(primary) = primary.filter(|primary| !primary.is_alive()) {
        driver::forget_context(primary.id());
    }
    Ok(())
}

driver_api! {
    fn cuDevicePrimaryCtxRetain(result: Out<Handle>, device: i32) {
        let gpu = ordinal(device)?;
        result.require()?;
        result.set(context_handle(&machine()?.retain_primary(gpu)?))
    }

    fn cuDevicePrimaryCtxRelease(device: i32) {
        let gpu = ordinal(device)?;
        retire(gpu, || machine()?.release_primary(gpu))
    }

    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        let gpu = ordinal(device)?;
        retire(gpu, || machine()?.release_primary(gpu))
    }

    fn cuDevicePrimaryCtxReset(device: i32) {
        let gpu = ordinal(device)?;
        retire(gpu, || machine()?.reset_primary(gpu))
    }

    fn cuDevicePrimaryCtxReset_v2(device: i32) {
        let gpu = ordinal(device)?;
        retire(gpu, || machine()?.reset_primary(gpu))
    }

    fn cuDevicePrimaryCtxSetFlags(device: i32, flags: u32) {
        check_flags(flags)?;
        machine()?.set_primary_flags(ordinal(device)?, flags)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) {
        check_flags(flags)?;
        machine()?.set_primary_flags(ordinal(device)?, flags)
    }

    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) {
        let gpu = ordinal(device)?;
        flags.set(machine()?.primary_flags(gpu)?)?;
        active.set(machine()?.primary(gpu)?.is_some().into())
    }

    fn cuCtxCreate_v2(result: Out<Handle>, flags: u32, device: i32) {
        create(result, flags, device)
    }

    fn cuCtxCreate_v3(result: Out<Handle>, affinity: In<u64>, count: i32, flags: u32, device: i32) {
        if !affinity.is_null() && count > 0 {
            return Err(Error::new(Code::UNSUPPORTED_EXEC_AFFINITY, "execution affinity is not simulated"));
        }
        create(result, flags, device)
    }

    fn cuCtxCreate_v4(result: Out<Handle>, parameters: In<[usize; 3]>, flags: u32, device: i32) {
        if !parameters.is_null() && parameters.get()?.iter().any(|part| *part != 0) {
            return Err(Error::unsupported("execution affinity and CUDA in graphics are not simulated"));
        }
        create(result, flags, device)
    }

    fn cuCtxCreate(result: Out<Handle>, flags: u32, device: i32) {
        create(result, flags, device)
    }

    fn cuCtxDestroy_v2(handle: Handle) {
        destroy(handle)
    }

    fn cuCtxDestroy(handle: Handle) {
        destroy(handle)
    }

    fn cuCtxSetCurrent(handle: Handle) {
        machine()?;
        if handle != Handle::NULL {
            context(handle)?;
        }
        with_stack(|stack| {
            stack.pop();
            if handle != Handle::NULL {
                stack.push(handle);
            }
        });
        Ok(())
    }

    fn cuCtxGetCurrent(result: Out<Handle>) {
        machine()?;
        result.set(current_handle())
    }

    fn cuCtxPushCurrent_v2(handle: Handle) {
        push(handle)
    }

    fn cuCtxPushCurrent(handle: Handle) {
        push(handle)
    }

    fn cuCtxPopCurrent_v2(result: Out<Handle>) {
        pop(result)
    }

    fn cuCtxPopCurrent(result: Out<Handle>) {
        pop(result)
    }

    fn cuCtxAttach(result: Out<Handle>, _flags: u32) {
        current()?;
        result.set(current_handle())
    }

    fn cuCtxDetach(handle: Handle) {
        context(handle).map(drop)
    }

    fn cuCtxGetDevice(device: Out<i32>) {
        device.set(current()?.gpu() as i32)
    }

    fn cuCtxGetDevice_v2(device: Out<i32>, handle: Handle) {
        device.set(given_or_current(handle)?.gpu() as i32)
    }

    fn cuCtxSynchronize() {
        current()?.synchronize()
    }

    fn cuCtxSynchronize_v2(handle: Handle) {
        given_or_current(handle)?.synchronize()
    }

    fn cuCtxGetFlags(flags: Out<u32>) {
        flags.set(current()?.flags())
    }

    fn cuCtxSetFlags(flags: u32) {
        check_flags(flags)?;
        current()?.set_flags(flags);
        Ok(())
    }

    fn cuCtxGetId(handle: Handle, id: Out<u64>) {
        id.set(given_or_current(handle)?.id())
    }

    fn cuCtxGetApiVersion(handle: Handle, version: Out<u32>) {
        given_or_current(handle)?;
        version.set(3020)
    }

    fn cuCtxGetLimit(value: Out<usize>, limit: u32) {
        let context = current()?;
        limit_is_known(limit)?;
        let set = LIMITS_SET.lock().unwrap_or_else(PoisonError::into_inner);
        let set = set.as_ref().and_then(|set| set.get(&(context.id(), limit)).copied());
        value.set(set.unwrap_or(LIMITS[limit as usize]))
    }

    fn cuCtxSetLimit(limit: u32, value: usize) {
        let context = current()?;
        limit_is_known(limit)?;
        let mut set = LIMITS_SET.lock().unwrap_or_else(PoisonError::into_inner);
        set.get_or_insert_default().insert((context.id(), limit), value);
        Ok(())
    }

    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        current()?;
        least.set_if_wanted(PRIORITIES.0);
        greatest.set_if_wanted(PRIORITIES.1);
        Ok(())
    }

    fn cuCtxGetCacheConfig(config: Out<u32>) {
        current()?;
        config.set(0)
    }

    fn cuCtxSetCacheConfig(_config: u32) {
        current()?.check(Call::Asynchronous)
    }

    fn cuCtxGetSharedMemConfig(config: Out<u32>) {
        current()?;
        config.set(1)
    }

    fn cuCtxSetSharedMemConfig(_config: u32) {
        current()?.check(Call::Asynchronous)
    }

    fn cuCtxResetPersistingL2Cache() {
        current()?.check(Call::Asynchronous)
    }

    fn cuCtxEnablePeerAccess(handle: Handle, flags: u32) {
        current()?;
        context(handle)?;
        if flags != 0 {
            return Err(Error::invalid(format!("the flags are {flags}; they have to be 0")));
        }
        Err(Error::new(Code::PEER_ACCESS_UNSUPPORTED, "simulated GPUs reach each other by copies only"))
    }

    fn cuCtxDisablePeerAccess(handle: Handle) {
        current()?;
        context(handle)?;
        Err(Code::PEER_ACCESS_NOT_ENABLED.into())
    }
}
