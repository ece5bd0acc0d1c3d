//! Linking: all added PTX becomes one PTX text, which is returned instead of a cubin and can be loaded.

use std::sync::{Arc, Mutex, PoisonError};

use sim_device::{Code, Error, Problem, Result};

use crate::border::driver_api;
use crate::driver::{current, handle, lookup, machine, remove};
use crate::image::ImageData;
use crate::jit::JitOptions;
use crate::modules::read_file;
use crate::types::{Handle, Host, In, Out, Text};

/// Kind of input (`CUjitInputType`).
fn input(kind: u32) -> Input {
    match kind {
        1 => Input::Ptx,
        2 => Input::FatBinary,
        _ => Input::Other(format!("input of type {kind}")),
    }
}

/// Directives that appear once, at the start.
const HEADER: [&str; 3] = [".version", ".target", ".address_size"];

/// Input of a linker.
pub enum Input {
    /// PTX.
    Ptx,
    /// A fat binary that holds PTX.
    FatBinary,
    /// PTX or a fat binary, told apart by its first bytes.
    Any,
    /// Another kind, by name.
    Other(String),
}

/// State of a link (`CUlinkState`, `nvJitLinkHandle`).
#[derive(Default)]
pub struct Link {
    texts: Mutex<Vec<String>>,
    /// The result, which lives as long as the state.
    linked: Mutex<Option<Arc<[u8]>>>,
}

impl Link {
    /// Adds PTX.
    ///
    /// # Errors
    /// [`Code::NO_BINARY_FOR_GPU`] for input that is not PTX; [`Code::INVALID_PTX`] with the line.
    pub fn add(&self, input: &Input, data: Vec<u8>) -> Result<()> {
        let image = |data: Vec<u8>| ImageData::of(&[data, vec![0; 8]].concat()).ptx();
        let text = match input {
            Input::Ptx => String::from_utf8_lossy(&data).trim_end_matches('\0').to_owned(),
            Input::FatBinary | Input::Any => image(data)?,
            Input::Other(name) => {
                let text = format!(
                    "{name} is to be linked: the simulator links PTX only, not machine code, LTO IR or NVVM IR; give the linker PTX, \
                     which compilers make for a virtual architecture, as in compute_90, and without link-time optimisation"
                );
                return Err(Error::new(Code::NO_BINARY_FOR_GPU, text).of(Problem::NotSimulated));
            }
        };
        // Errors are reported now, with the line numbers of this input.
        if let Ok(machine) = machine()
            && let Some(error) = machine.load_library(&text, None)?.error()
        {
            return Err(error.clone());
        }
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        Ok(())
    }

    /// All added PTX as one text that ends in NUL.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] if nothing was added.
    pub fn complete(&self) -> Result<Arc<[u8]>> {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, more) = texts.split_first().ok_or_else(|| Error::invalid("nothing was added to what is linked"))?;
        let is_header = |line: &&str| HEADER.iter().any(|directive| line.trim_start().starts_with(directive));
        let more = more.iter().flat_map(|text| text.lines().filter(|line| !is_header(line)));
        let mut text = first.clone();
        more.for_each(|line| text += &format!("\n{line}"));
        text.push('\0');
        let linked = Arc::from(text.into_bytes());
        let mut place = self.linked.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(place.get_or_insert(linked).clone())
    }
}

fn create(options: JitOptions, result: Out<Handle>) -> Result<()> {
    let context = current()?;
    options.check()?;
    result.require()?;
    result.set(handle(&Arc::new(Link::default()), Some(&context)))
}

fn add(state: Handle, kind: u32, data: Result<Vec<u8>>, options: JitOptions) -> Result<()> {
    let link = lookup::<Link>(state, "state of a linker")?;
    options.check()?;
    options.logged(data.and_then(|data| link.add(&input(kind), data)))
}

driver_api! {
    fn cuLinkCreate_v2(count: u32, numbers: In<u32>, values: Out<usize>, result: Out<Handle>) {
        create(JitOptions { count, numbers, values }, result)
    }

    fn cuLinkCreate(count: u32, numbers: In<u32>, values: Out<usize>, result: Out<Handle>) {
        create(JitOptions { count, numbers, values }, result)
    }

    fn cuLinkAddData_v2(state: Handle, kind: u32, data: Host, bytes: usize, _name: Text, count: u32, numbers: In<u32>, values: Out<usize>) {
        add(state, kind, data.bytes(bytes), JitOptions { count, numbers, values })
    }

    fn cuLinkAddData(state: Handle, kind: u32, data: Host, bytes: usize, _name: Text, count: u32, numbers: In<u32>, values: Out<usize>) {
        add(state, kind, data.bytes(bytes), JitOptions { count, numbers, values })
    }

    fn cuLinkAddFile_v2(state: Handle, kind: u32, path: Text, count: u32, numbers: In<u32>, values: Out<usize>) {
        add(state, kind, path.get().and_then(|path| read_file(&path)), JitOptions { count, numbers, values })
    }

    fn cuLinkAddFile(state: Handle, kind: u32, path: Text, count: u32, numbers: In<u32>, values: Out<usize>) {
        add(state, kind, path.get().and_then(|path| read_file(&path)), JitOptions { count, numbers, values })
    }

    fn cuLinkComplete(state: Handle, image: Out<*const u8>, bytes: Out<usize>) {
        let linked = lookup::<Link>(state, "state of a linker")?.complete()?;
        bytes.set_if_wanted(linked.len());
        image.set(linked.as_ptr())
    }

    fn cuLinkDestroy(state: Handle) {
        remove::<Link>(state, "state of a linker").map(drop)
    }
}
