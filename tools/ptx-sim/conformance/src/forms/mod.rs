//! The forms, by class.

mod async_copy;
mod barrier;
mod bulk_copy;
mod bulk_reduce;
mod calls;
mod cluster;
mod lanewise;
mod matrix;
mod matrix_types;
mod memory;
mod moves;
mod tensor_maps;
mod warp;
mod wgmma;
mod wgmma_types;

use crate::case::Case;

/// Forms of one class, whose vectors share a file.
pub struct Class {
    /// Its name, which is that of the file.
    pub name: &'static str,
    /// Every case of the class.
    pub cases: fn() -> Vec<Case>,
}

impl Class {
    /// Every case of the class.
    pub fn cases(&self) -> Vec<Case> {
        (self.cases)()
    }
}

/// Every class.
pub const CLASSES: &[Class] = &[
    Class { name: "integer", cases: lanewise::integer },
    Class { name: "float", cases: lanewise::float },
    Class { name: "convert", cases: lanewise::convert },
    Class { name: "compare", cases: lanewise::compare },
    Class { name: "moves", cases: moves::cases },
    Class { name: "memory", cases: memory::cases },
    Class { name: "warp", cases: warp::cases },
    Class { name: "calls", cases: calls::cases },
    Class { name: "barrier", cases: barrier::cases },
    Class { name: "cluster", cases: cluster::cases },
    Class { name: "matrix", cases: || [matrix::cases(), matrix_types::cases()].concat() },
    Class { name: "wgmma", cases: || [wgmma::cases(), wgmma_types::cases()].concat() },
    Class { name: "async_copy", cases: async_copy::cases },
    Class { name: "bulk_copy", cases: || [bulk_copy::cases(), bulk_reduce::cases(), tensor_maps::cases()].concat() },
];
