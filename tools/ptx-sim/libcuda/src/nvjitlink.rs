//! nvJitLink, the linker of numba and cuda.core: all added PTX is returned as one PTX text instead of a cubin.
//!
//! The functions match `nvJitLink.h` of CUDA 13. The header gives each function a name per CUDA version, to which C and C++
//! programs link; the plain name is for programs that look names up.

use std::sync::{Arc, Mutex, PoisonError};

use sim_device::{Code, Error, Result};

use crate::border::border;
use crate::driver::{find, forget, handle};
use crate::links::{Input, Link};
use crate::modules::read_file;
use crate::types::{Handle, Host, In, Out, Text};

/// The last CUDA version whose nvJitLink packages do not ask to link LTO IR: they pass PTX to it, or to the driver.
const VERSION: (u32, u32) = (12, 2);

/// A link and its errors.
#[derive(Default)]
struct JitLink {
    link: Link,
    errors: Mutex<String>,
}

impl JitLink {
    fn logged<T>(&self, result: Result<T>) -> Result<T> {
        if let Some(message) = result.as_ref().err().and_then(|error| error.message.as_ref()) {
            *self.errors.lock().unwrap_or_else(PoisonError::into_inner) += &format!("ptx-sim: {message}\n");
        }
        result
    }

    fn errors(&self) -> String {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Kind of input of an `nvJitLinkInputType`.
fn input(kind: u32) -> Input {
    match kind {
        2 => Input::Ptx,
        4 => Input::FatBinary,
        10 => Input::Any,
        1 => Input::Other("a cubin".to_owned()),
        3 => Input::Other("LTO IR".to_owned()),
        _ => Input::Other(format!("input of type {kind}")),
    }
}

/// The `nvJitLinkResult` of a driver code.
fn result(code: u32) -> u32 {
    const CODES: [(Code, u32); 4] =
        [(Code::SUCCESS, 0), (Code::INVALID_PTX, 4), (Code::UNKNOWN, 6), (Code::NO_BINARY_FOR_GPU, 8)];
    const INVALID_INPUT: u32 = 3;
    CODES.iter().find(|(known, _)| known.0 == code).map_or(INVALID_INPUT, |(_, result)| *result)
}

fn link(handle: Handle) -> Result<Arc<JitLink>> {
    find(handle).ok_or_else(|| Error::invalid(format!("{:#x} is nothing that nvJitLinkCreate made", handle.0)))
}

fn linked(handle: Handle) -> Result<Arc<[u8]>> {
    link(handle)?.link.complete()
}

fn set_bytes(place: Host, bytes: &[u8]) -> Result<()> {
    place.require(bytes.len() as u64)?;
    sim_device::HostMemory::write(&place, 0, bytes);
    Ok(())
}

fn set_text(place: Host, text: &str) -> Result<()> {
    set_bytes(place, format!("{text}\0").as_bytes())
}

/// Defines the functions, each under its plain name and its versioned names.
macro_rules! nvjitlink_api {
    ($(fn $name:ident $arguments:tt $body:block)*) => {$(
        nvjitlink_function! { $name $arguments $body
            "_12_0" "_12_1" "_12_2" "_12_3" "_12_4" "_12_5" "_12_6" "_12_8" "_12_9" "_13_0" "_13_1" "_13_2" "_13_3" "_13_4" "_13_5"
        }
    )*};
}

macro_rules! nvjitlink_function {
    ($name:ident $arguments:tt $body:block $($version:literal)*) => {
        nvjitlink_body! { $name $arguments $body }
        $(nvjitlink_version! { $name $arguments $version })*
    };
}

macro_rules! nvjitlink_body {
    ($name:ident ($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        #[doc = concat!("`", stringify!($name), "` of nvJitLink.")]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            result(border(stringify!($name), move || $body))
        }
    };
}

macro_rules! nvjitlink_version {
    ($name:ident ($($argument:ident: $type:ty),* $(,)?) $version:literal) => {
        const _: () = {
            #[unsafe(export_name = concat!("__", stringify!($name), $version))]
            unsafe extern "C" fn versioned($($argument: $type),*) -> u32 {
                // SAFETY: the caller's promises are those of the function without a version.
                unsafe { $name($($argument),*) }
            }
        };
    };
}

nvjitlink_api! {
    fn nvJitLinkCreate(made: Out<Handle>, _options: u32, _texts: In<Text>) {
        made.require()?;
        made.set(handle(&Arc::new(JitLink::default()), None))
    }

    fn nvJitLinkDestroy(made: Out<Handle>) {
        let given = made.get()?;
        let gone = link(given)?;
        forget(|object, _| std::ptr::addr_eq(object, Arc::as_ptr(&gone)));
        made.set(Handle::NULL)
    }

    fn nvJitLinkAddData(given: Handle, kind: u32, data: Host, bytes: usize, _name: Text) {
        let link = link(given)?;
        link.logged(data.bytes(bytes).and_then(|data| link.link.add(&input(kind), data)))
    }

    fn nvJitLinkAddFile(given: Handle, kind: u32, path: Text) {
        let link = link(given)?;
        link.logged(path.get().and_then(|path| read_file(&path)).and_then(|data| link.link.add(&input(kind), data)))
    }

    fn nvJitLinkComplete(given: Handle) {
        let link = link(given)?;
        link.logged(link.link.complete().map(drop))
    }

    fn nvJitLinkGetLinkedCubinSize(given: Handle, bytes: Out<usize>) {
        bytes.set(linked(given)?.len())
    }

    fn nvJitLinkGetLinkedCubin(given: Handle, image: Host) {
        set_bytes(image, &linked(given)?)
    }

    fn nvJitLinkGetLinkedPtxSize(given: Handle, bytes: Out<usize>) {
        bytes.set(linked(given)?.len())
    }

    fn nvJitLinkGetLinkedPtx(given: Handle, text: Host) {
        set_bytes(text, &linked(given)?)
    }

    fn nvJitLinkGetErrorLogSize(given: Handle, bytes: Out<usize>) {
        bytes.set(link(given)?.errors().len() + 1)
    }

    fn nvJitLinkGetErrorLog(given: Handle, text: Host) {
        set_text(text, &link(given)?.errors())
    }

    fn nvJitLinkGetInfoLogSize(given: Handle, bytes: Out<usize>) {
        link(given)?;
        bytes.set(1)
    }

    fn nvJitLinkGetInfoLog(given: Handle, text: Host) {
        link(given)?;
        set_text(text, "")
    }

    fn nvJitLinkVersion(major: Out<u32>, minor: Out<u32>) {
        major.set(VERSION.0)?;
        minor.set(VERSION.1)
    }
}
