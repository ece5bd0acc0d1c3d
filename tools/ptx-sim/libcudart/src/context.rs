//! The GPU of a thread, and its primary context.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::driver::call;
use crate::handles::Handle;
use crate::status::Result;

thread_local! {
    static DEVICE: Cell<i32> = const { Cell::new(0) };
}

/// The current GPU of this thread.
pub fn current() -> i32 {
    DEVICE.get()
}

/// Sets it.
pub fn set(device: i32) {
    DEVICE.set(device);
}

/// Makes the primary context of this thread's GPU current, unless the program has made another context current.
pub fn enter() -> Result<()> {
    static PRIMARY: Mutex<Option<HashMap<i32, Handle>>> = Mutex::new(None);
    let mut now: Handle = 0;
    call!(cuCtxGetCurrent(&mut now))?;
    let device = current();
    let mut primary = PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
    let primary = primary.get_or_insert_default();
    let wanted = match primary.get(&device) {
        Some(context) => *context,
        None => {
            let mut context = 0;
            call!(cuDevicePrimaryCtxRetain(&mut context, device))?;
            primary.insert(device, context);
            context
        }
    };
    let is_ours = now == 0 || primary.values().any(|known| *known == now);
    if is_ours && now != wanted {
        call!(cuCtxSetCurrent(wanted))?;
    }
    Ok(())
}
