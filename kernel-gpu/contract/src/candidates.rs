//! Candidates of a tuning run: variants that are compiled to be measured, beside those that are shipped.
//!
//! `fa512 tune plan` writes them, `cargo xtask ptx --variants` compiles them, `fa512 tune run` measures them.

extern crate alloc;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::config::{Epilogue, Family, Grid, Loads, Mask, Queries, RESCALE_ON_OVERFLOW, Sequence, TileConfig};
use crate::manifest::Entry;
use crate::variants::Variant;

/// What a file with a [`Pool`] says that it is.
pub const KIND: &str = "fa512-tuning-plan";
/// Version of its form; a reader refuses any other.
pub const VERSION: u32 = 1;

/// The part of a tuning plan that the compiler needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// Architecture that the candidates are meant for, as in 90 for `sm_90`.
    pub architecture: u32,
    /// What is to be compiled.
    pub candidates: Vec<Candidate>,
}

/// One entry that is to be compiled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Candidate {
    /// Name of the `.entry`.
    pub name: String,
    /// Instruction family.
    pub family: Family,
    /// Tile configuration.
    pub config: TileConfig,
    /// Sequence lengths the entry accepts.
    pub sequence: Sequence,
    /// Mask the entry applies.
    pub mask: Mask,
}

impl Candidate {
    /// The word that the variant list has for its family and loads.
    fn kind(&self) -> &'static str {
        match (self.family, self.config.loads) {
            (Family::Sm80, _) => "Sm80",
            (Family::Sm90a, Loads::CpAsync) => "Sm90a",
            (Family::Sm90a, Loads::Tma) => "Sm90aTma",
        }
    }

    /// The entry's declaration as `variants.rs` includes it for the device.
    ///
    /// What `Debug` writes of a [`TileConfig`] is the expression that makes it, whatever its fields are.
    pub fn declaration(&self) -> String {
        let sequence = match self.sequence {
            Sequence::Exact(length) => format!("Exact<{length}>"),
            Sequence::Any => "Any".into(),
        };
        let Self { name, config, mask, .. } = self;
        format!("entry! {{ {} {name}, sequence::{sequence}, mask::{mask:?}, {config:?} }}\n", self.kind())
    }

    /// The line of the variant list in `variants.rs` that ships it.
    pub fn listing(&self) -> String {
        let Self { name, config, sequence, mask, .. } = self;
        let TileConfig { block_m, block_n, warps, stages, min_blocks, passes, .. } = config;
        let mut tile =
            format!("{block_m} x {block_n}, {warps} warps, {stages} stages, {min_blocks} blocks, {passes} passes");
        if config.grid == Grid::Persistent {
            tile += ", persistent";
        }
        if self.family == Family::Sm80 && config.queries == Queries::Shared {
            tile += ", shared queries";
        }
        if config.fma_exponentials > 0 {
            tile += &format!(", {} of 8 exponentials", config.fma_exponentials);
        }
        if config.unroll > 0 {
            tile += &format!(", unroll {}", config.unroll);
        }
        if config.rescale_threshold != RESCALE_ON_OVERFLOW {
            tile += &format!(", rescale threshold {}", config.rescale_threshold);
        }
        if config.epilogue == Epilogue::Exchange {
            tile += ", exchange epilogue";
        }
        format!("{name}: {} {{ {tile} }}, {sequence:?}, {mask:?};", self.kind())
    }
}

impl From<&Variant<'_>> for Candidate {
    fn from(variant: &Variant<'_>) -> Self {
        Self {
            name: variant.entry.to_string(),
            family: variant.family,
            config: variant.config,
            sequence: variant.sequence,
            mask: variant.mask,
        }
    }
}

impl From<&Candidate> for Entry {
    fn from(candidate: &Candidate) -> Self {
        Entry::new(&candidate.name, candidate.family, candidate.config, candidate.sequence, candidate.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate() -> Candidate {
        let config = TileConfig {
            block_m: 256,
            block_n: 64,
            warps: 8,
            stages: 8,
            passes: 2,
            grid: Grid::Persistent,
            ..TileConfig::SM_90A_TMA
        };
        Candidate { name: "x".into(), family: Family::Sm90a, config, sequence: Sequence::Exact(512), mask: Mask::Full }
    }

    #[test]
    fn a_declaration_is_the_source_of_an_entry() {
        let source = candidate().declaration();
        assert!(
            source.starts_with("entry! { Sm90aTma x, sequence::Exact<512>, mask::Full, TileConfig { block_m: 256, ")
        );
        assert!(source.contains("passes: 2") && source.contains("grid: Persistent"), "{source}");
        let any = Candidate { sequence: Sequence::Any, mask: Mask::Causal, ..candidate() };
        assert!(any.declaration().contains("sequence::Any, mask::Causal"), "{}", any.declaration());
    }

    #[test]
    fn a_listing_is_a_line_of_the_variant_list() {
        let line = "x: Sm90aTma { 256 x 64, 8 warps, 8 stages, 1 blocks, 2 passes, persistent }, Exact(512), Full;";
        assert_eq!(candidate().listing(), line);
        let queries = Queries::Shared;
        let config = TileConfig { block_m: 64, queries, fma_exponentials: 2, unroll: 1, ..TileConfig::SM_80 };
        let line = Candidate { family: Family::Sm80, config, ..candidate() }.listing();
        assert!(line.starts_with("x: Sm80 { 64 x 0,"), "{line}");
        assert!(line.contains(", shared queries, 2 of 8 exponentials, unroll 1 }"), "{line}");
        let config = TileConfig { rescale_threshold: 0, epilogue: Epilogue::Exchange, ..candidate().config };
        let line = Candidate { config, ..candidate() }.listing();
        assert!(line.contains(", persistent, rescale threshold 0, exchange epilogue }"), "{line}");
    }
}
