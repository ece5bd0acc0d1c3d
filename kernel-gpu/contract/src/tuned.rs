//! The tuned table: the fastest variant by GPU model and shape class.

mod shipped;

use crate::class::{SequenceClass, ShapeClass};
use crate::gpu::Gpu;

pub use shipped::SHIPPED;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// Name of the GPU that it was measured on, as the driver reports it.
    pub gpu: &'a str,
    /// That GPU's architecture, such as 90 for `sm_90`.
    pub architecture: u32,
    /// The shape class.
    pub class: ShapeClass,
    /// Name of the fastest variant.
    pub variant: &'a str,
}

/// The row for problems of `class` on `gpu`: of the same GPU model, else of the same architecture; of the class itself, else
/// of the one with the same mask and the nearest sequence length, and among those the nearest number of heads.
pub fn find<'a>(rows: impl Iterator<Item = Row<'a>>, gpu: &Gpu<'_>, class: &ShapeClass) -> Option<Row<'a>> {
    let alike = |row: &Row<'_>| row.architecture == gpu.architecture && row.class.mask == class.mask;
    let distance = |row: &Row<'_>| {
        let octaves = octaves(row.class.sequence, class.sequence)?;
        Some((row.gpu != gpu.name, octaves, row.class.heads.distance(class.heads)))
    };
    let rows = rows.filter(alike).filter_map(|row| Some((distance(&row)?, row)));
    rows.min_by_key(|(distance, _)| *distance).map(|(_, row)| row)
}

/// How many doublings lie between the lengths; `None` if kernels for one say nothing about the other.
fn octaves(one: SequenceClass, other: SequenceClass) -> Option<u32> {
    match (one, other) {
        (SequenceClass::UpTo(one), SequenceClass::UpTo(other)) => {
            Some(one.max(1).ilog2().abs_diff(other.max(1).ilog2()))
        }
        _ => (one == other).then_some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mask;
    use crate::problem::Shape;
    use crate::variants::VARIANTS;

    const H200: Gpu<'_> =
        Gpu { name: "NVIDIA H200", architecture: 90, multiprocessors: 132, shared_bytes_per_block: 227 * 1024 };

    fn class(batch: u32, sequence: u32) -> ShapeClass {
        ShapeClass::new(Shape::new(batch, 8, sequence), Mask::Full, H200.multiprocessors)
    }

    fn row<'a>(gpu: &'a str, batch: u32, sequence: u32, variant: &'a str) -> Row<'a> {
        Row { gpu, architecture: 90, class: class(batch, sequence), variant }
    }

    #[test]
    fn the_same_model_is_asked_before_another_of_its_architecture() {
        let rows = [row("NVIDIA H100", 64, 1024, "h100"), row("NVIDIA H200", 1, 1024, "h200")];
        let found = |gpu: &Gpu<'_>| find(rows.into_iter(), gpu, &class(64, 1024)).map(|row| row.variant);
        assert_eq!(found(&H200), Some("h200"), "though its heads are farther");
        assert_eq!(found(&Gpu { name: "NVIDIA GH200", ..H200 }), Some("h100"));
        assert_eq!(found(&Gpu { architecture: 89, ..H200 }), None);
    }

    #[test]
    fn the_nearest_length_decides_before_the_nearest_heads() {
        let rows = [row("g", 64, 16, "short"), row("g", 1, 4096, "long")];
        let found = |batch, sequence| find(rows.into_iter(), &H200, &class(batch, sequence)).map(|row| row.variant);
        assert_eq!(found(64, 8192), Some("long"), "though the short ones have as many heads");
        assert_eq!(found(1, 64), Some("short"));
    }

    #[test]
    fn the_nearest_heads_of_the_same_sequences_decide() {
        let rows = [row("g", 1, 1024, "few"), row("g", 64, 1024, "many"), row("g", 4, 512, "exact")];
        let found = |batch, sequence| find(rows.into_iter(), &H200, &class(batch, sequence)).map(|row| row.variant);
        assert_eq!(found(32, 1024), Some("many"));
        assert_eq!(found(2, 100), Some("few"), "another length of the same kernels");
        assert_eq!(found(64, 512), Some("exact"), "the length that has kernels of its own");
    }

    #[test]
    fn what_is_shipped_names_variants_that_are_there_and_accept_the_class() {
        for row in SHIPPED {
            let found = VARIANTS.iter().find(|variant| variant.entry == row.variant);
            let variant = found.unwrap_or_else(|| panic!("{} is not in the list of variants", row.variant));
            let length = match row.class.sequence {
                SequenceClass::Exactly(length) | SequenceClass::UpTo(length) => length,
            };
            assert!(variant.sequence.accepts(length) && variant.mask == row.class.mask, "{row:?}");
            assert!(variant.family().runs_on(row.architecture), "{row:?}");
        }
    }
}
