//! Source locations of driver calls in Python programs.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// A Python object.
type Object = *mut c_void;

/// Maximum frames inspected.
const FRAMES: usize = 200;

/// Path fragments of Python's own files and of installed packages.
const OF_PACKAGES: [&str; 3] = ["/site-packages/", "/dist-packages/", "/lib/python3"];

unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Declares the used part of Python's C API, and looks it up in the process.
macro_rules! python_api {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?),* $(,)?) => {
        /// The used part of Python's C API.
        #[derive(Clone, Copy)]
        #[allow(non_snake_case)]
        struct Python {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Python {
            /// The API of the Python in this process, if any.
            fn look_up() -> Option<Self> {
                Some(Self {$(
                    $name: {
                        let name = concat!(stringify!($name), "\0").as_ptr().cast();
                        // SAFETY: a null pointer searches all libraries of the process; the name ends in NUL.
                        let address = unsafe { dlsym(std::ptr::null_mut(), name) };
                        // SAFETY: a library that exports this name is Python, whose documentation has this signature.
                        unsafe { std::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn($($argument),*) $(-> $result)?>>(address) }?
                    },
                )*})
            }
        }
    };
}

python_api! {
    Py_IsInitialized: fn() -> c_int,
    PyGILState_GetThisThreadState: fn() -> *mut c_void,
    PyGILState_Ensure: fn() -> c_int,
    PyGILState_Release: fn(c_int),
    PyErr_Occurred: fn() -> Object,
    PyErr_Clear: fn(),
    PyEval_GetFrame: fn() -> Object,
    PyFrame_GetBack: fn(Object) -> Object,
    PyFrame_GetCode: fn(Object) -> Object,
    PyFrame_GetLineNumber: fn(Object) -> c_int,
    PyObject_GetAttrString: fn(Object, *const c_char) -> Object,
    PyUnicode_AsUTF8: fn(Object) -> *const c_char,
    Py_IncRef: fn(Object),
    Py_DecRef: fn(Object),
}

/// Function, file and line of the innermost frame of the program itself; `None` on threads without Python frames.
///
/// Takes the GIL: the caller must hold no lock of ours.
pub fn line() -> Option<String> {
    static PYTHON: OnceLock<Option<Python>> = OnceLock::new();
    let python = (*PYTHON.get_or_init(Python::look_up))?;
    // SAFETY: both may be called at any time on any thread.
    if unsafe { (python.Py_IsInitialized)() == 0 || (python.PyGILState_GetThisThreadState)().is_null() } {
        return None;
    }
    // SAFETY: Python is running and this thread belongs to it.
    let state = unsafe { (python.PyGILState_Ensure)() };
    let line = python.own_line();
    // SAFETY: the value that `PyGILState_Ensure` returned on this thread.
    unsafe { (python.PyGILState_Release)(state) };
    line
}

impl Python {
    /// As [`line()`]; the thread holds the GIL.
    fn own_line(&self) -> Option<String> {
        // SAFETY: the thread holds the GIL for all calls below; the frame is a borrowed reference and is owned from here on.
        let mut frame = unsafe {
            // No API call is allowed while an exception is pending.
            if !(self.PyErr_Occurred)().is_null() {
                return None;
            }
            let frame = (self.PyEval_GetFrame)();
            (self.Py_IncRef)(frame);
            frame
        };
        let mut found = None;
        for _ in 0..FRAMES {
            if frame.is_null() || found.is_some() {
                break;
            }
            found = self.describe(frame);
            // SAFETY: this frame and the next one are owned references.
            frame = unsafe {
                let back = (self.PyFrame_GetBack)(frame);
                (self.Py_DecRef)(frame);
                back
            };
        }
        // SAFETY: the frame is an owned reference or null.
        unsafe { (self.Py_DecRef)(frame) };
        found
    }

    /// Function, file and line of a frame, unless it belongs to a package.
    fn describe(&self, frame: Object) -> Option<String> {
        // SAFETY: the frame is alive; the code object is an owned reference.
        let (code, line) = unsafe { ((self.PyFrame_GetCode)(frame), (self.PyFrame_GetLineNumber)(frame)) };
        let texts = (self.text(code, c"co_filename"), self.text(code, c"co_name"));
        // SAFETY: as above.
        unsafe { (self.Py_DecRef)(code) };
        let (file, name) = (texts.0?, texts.1?);
        let is_own = !file.starts_with('<') && !OF_PACKAGES.iter().any(|part| file.contains(part));
        is_own.then(|| format!("{name} ({file}:{line})"))
    }

    fn text(&self, object: Object, attribute: &CStr) -> Option<String> {
        // SAFETY: the object is alive; the value is an owned reference, and its text lives as long.
        unsafe {
            let value = (self.PyObject_GetAttrString)(object, attribute.as_ptr());
            let text = if value.is_null() { std::ptr::null() } else { (self.PyUnicode_AsUTF8)(value) };
            let copied = (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
            (self.PyErr_Clear)();
            (self.Py_DecRef)(value);
            copied
        }
    }
}
