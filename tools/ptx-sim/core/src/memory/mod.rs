//! The memories of a GPU, each with a record of which bytes were written.

mod arrays;
mod buffer;
mod bytes;
mod error;
mod global;
mod heap;
mod host;
mod left_undetermined;
mod parameters;
mod shared;
mod spaces;
mod tensor_map;
mod tensor_map_bytes;
mod texels;
mod texture_objects;
mod undetermined;

pub use buffer::HostWords;
pub(crate) use bytes::{Bytes, State};
pub use error::MemoryError;
pub(crate) use error::OutOfBounds;
pub use global::{Allocation, GlobalMemory};
pub(crate) use heap::FreeError;
pub(crate) use parameters::{Parameters, parameter_address};
pub(crate) use shared::SharedMemory;
pub(crate) use spaces::{SYSTEM_SHARED_BYTES, generic_address, resolve, space_address};
pub(crate) use tensor_map::TENSOR_MAP_ALIGNMENT;
pub use tensor_map::{Swizzle, TENSOR_MAP_BYTES, TensorElement, TensorMap};
pub(crate) use tensor_map_bytes::{TensorMapField, replace as replace_in_tensor_map};
pub use texels::{Channel, Geometry, TexelFormat, Texels};
pub use texture_objects::{AddressMode, Filter, Sampler, Texture};
pub(crate) use undetermined::Storing;
pub use undetermined::{Undetermined, UndeterminedStore};
