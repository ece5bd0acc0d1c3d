//! What kernels share whose tiles a producer loads by TMA, whatever instructions multiply them: the layout of shared memory, the ring of
//! stages, the coordinates of tensor maps.

pub mod computed;
pub mod context;
pub mod copies;
pub mod kernel;
pub mod mapped;
pub mod memory;
pub mod ring;
pub mod rows;
pub mod turns;
