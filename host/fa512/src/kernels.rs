//! The loaded kernels of this process. Each is loaded on first use, once for all contexts and GPUs.
//!
//! A launch of a loaded kernel takes two atomic loads and no lock.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use contract::backward::variants::{BACKWARD_VARIANTS, BackwardVariant};
use contract::variants::{VARIANTS, Variant};

use crate::driver::Driver;
use crate::embedded::Embedded;
use crate::error::Error;
use crate::library::{Library, LoadedKernel};
use crate::stream::Stream;
use crate::submit::{argument_bytes, backward_argument_bytes};

/// A kernel's place in the table of loaded ones.
#[derive(Clone, Copy)]
pub struct Kernel {
    entry: &'static str,
    /// Sizes of the arguments that its launches pass, bytes.
    argument_bytes: &'static [usize],
    /// The most dynamic shared memory that its launches ask for, bytes.
    shared_bytes: u32,
    slot: &'static Slot,
}

/// The state of a kernel: loaded or not, and prepared for which GPUs.
struct Slot {
    loaded: OnceLock<LoadedKernel>,
    /// One flag per GPU: whether the kernel's dynamic shared memory is allowed there.
    prepared: OnceLock<Box<[AtomicBool]>>,
    /// Held while the kernel is loaded or prepared, so that one thread does it once.
    loading: Mutex<()>,
}

impl Slot {
    const fn new() -> Self {
        Self { loaded: OnceLock::new(), prepared: OnceLock::new(), loading: Mutex::new(()) }
    }

    /// The kernel, if it is loaded and its dynamic shared memory is allowed on GPU `gpu`.
    fn ready(&self, gpu: usize) -> Option<LoadedKernel> {
        let kernel = *self.loaded.get()?;
        self.prepared.get()?.get(gpu)?.load(Ordering::Acquire).then_some(kernel)
    }
}

static SLOTS: [Slot; VARIANTS.len()] = [const { Slot::new() }; VARIANTS.len()];
static BACKWARD_SLOTS: [Slot; BACKWARD_VARIANTS.len()] = [const { Slot::new() }; BACKWARD_VARIANTS.len()];

impl fmt::Debug for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.entry)
    }
}

impl Kernel {
    /// The kernel of the variant with this entry.
    ///
    /// # Errors
    /// When there is no such variant.
    pub fn of(entry: &'static str) -> Result<Self, Error> {
        let index = VARIANTS.iter().position(|variant| variant.entry == entry).ok_or(Error::NoKernel { entry })?;
        Ok(Self::of_variant(&VARIANTS[index], &SLOTS[index]))
    }

    fn of_variant(variant: &'static Variant<'static>, slot: &'static Slot) -> Self {
        let (argument_bytes, shared_bytes) = (argument_bytes(variant), variant.config.most_shared_bytes());
        Self { entry: variant.entry, argument_bytes, shared_bytes, slot }
    }

    /// The kernel of a backward variant, one of the list.
    ///
    /// # Errors
    /// When it is not.
    pub fn of_backward(variant: &BackwardVariant) -> Result<Self, Error> {
        let BackwardVariant { entry, tile, .. } = *variant;
        let index = BACKWARD_VARIANTS.iter().position(|one| one.entry == entry).ok_or(Error::NoKernel { entry })?;
        let (argument_bytes, shared_bytes) = (backward_argument_bytes(variant), tile.shared_bytes());
        Ok(Self { entry, argument_bytes, shared_bytes, slot: &BACKWARD_SLOTS[index] })
    }

    /// The kernel, for a launch on GPU `gpu` and `stream`.
    ///
    /// # Errors
    /// When it is not loaded and the stream is capturing, or when the driver cannot load it.
    #[inline]
    pub fn get(self, driver: &Driver, gpu: usize, stream: Stream) -> Result<LoadedKernel, Error> {
        match self.slot.ready(gpu) {
            Some(kernel) => Ok(kernel),
            None if stream.is_capturing(driver)? => Err(Error::NotLoaded { entry: self.entry }),
            None => self.load(driver, gpu),
        }
    }

    /// Loads the kernel for GPU `gpu`, which is that of the current context, and into that context.
    ///
    /// # Errors
    /// When the driver cannot load it.
    pub fn warm_up(self, driver: &Driver, gpu: usize) -> Result<(), Error> {
        let kernel = self.slot.ready(gpu).map_or_else(|| self.load(driver, gpu), Ok)?;
        kernel.function(driver, self.entry).map(drop)
    }

    #[cold]
    fn load(self, driver: &Driver, gpu: usize) -> Result<LoadedKernel, Error> {
        let Self { entry, argument_bytes, shared_bytes, slot } = self;
        // A thread that panicked here left no half-loaded kernel: `loaded` and `prepared` are set last.
        let _loading = slot.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel = match slot.loaded.get() {
            Some(loaded) => *loaded,
            None => {
                let loaded = load(entry, argument_bytes)?;
                *slot.loaded.get_or_init(|| loaded)
            }
        };
        let prepared = slot.prepared.get_or_init(|| (0..driver.gpus).map(|_| AtomicBool::new(false)).collect());
        kernel.allow_dynamic_shared(driver, entry, shared_bytes, gpu)?;
        if let Some(prepared) = prepared.get(gpu) {
            prepared.store(true, Ordering::Release);
        }
        Ok(kernel)
    }
}

/// Loads the library of `entry`, which stays loaded for the lifetime of the process.
fn load(entry: &'static str, argument_bytes: &[usize]) -> Result<LoadedKernel, Error> {
    let embedded = Embedded::find(entry, argument_bytes)?;
    let ptx = embedded.ptx()?;
    let name = format!("{} (PTX {}, {})", embedded.entry, embedded.ptx_version, embedded.target);
    let library = Library::load(&ptx, name)?;
    let kernel = library.kernel(entry)?;
    library.keep();
    Ok(kernel)
}
