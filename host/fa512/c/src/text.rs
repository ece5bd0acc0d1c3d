//! Strings passed to C.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

thread_local! {
    /// Message of the thread's last call that failed.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps `message` for the calling thread.
pub fn keep(message: &str) {
    let message = CString::new(message.replace('\0', "")).unwrap_or_default();
    // While the thread exits, its storage is gone and nothing can ask for the message.
    let _ = LAST.try_with(|last| *last.borrow_mut() = message);
}

/// The calling thread's message, valid until the next one is kept.
pub fn kept() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Copies `words` and a NUL into `text`, truncated between characters to fit `size`.
///
/// # Safety
/// `text` is null or points to `size` bytes.
pub unsafe fn copy(words: &str, text: *mut c_char, size: usize) {
    if text.is_null() || size == 0 {
        return;
    }
    let mut length = words.len().min(size - 1);
    while !words.is_char_boundary(length) {
        length -= 1;
    }
    // SAFETY: the length and the NUL fit into `size` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(words.as_ptr().cast(), text, length);
        text.add(length).write(0);
    }
}
