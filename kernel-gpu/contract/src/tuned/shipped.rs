//! The rows that are shipped. Written by `cargo xtask bless` from `host/workshop/tuned.json`, which says what each rests on.

use super::Row;
use crate::class::SequenceClass::{self, Exactly, UpTo};
use crate::class::{HeadsClass, ShapeClass};
use crate::config::Mask::{self, Causal, Full};

/// The rows.
#[rustfmt::skip]
pub const SHIPPED: &[Row<'static>] = &[
    row("NVIDIA H200", 90, Exactly(512), Full, 0.25, "fa512_sm90a_tma_s512_full_64x64"),
    row("NVIDIA H200", 90, Exactly(512), Causal, 0.25, "fa512_sm90a_tma_s512_causal_64x64"),
    row("NVIDIA H200", 90, Exactly(512), Full, 0.5, "fa512_sm90a_s512_full_64x64"),
    row("NVIDIA H200", 90, Exactly(512), Causal, 0.5, "fa512_sm90a_s512_causal_64x64"),
    row("NVIDIA H200", 90, Exactly(512), Full, 1.0, "fa512_sm90a_tma_s512_full_512x64"),
    row("NVIDIA H200", 90, Exactly(512), Causal, 1.0, "fa512_sm90a_tma_s512_causal_512x64"),
    row("NVIDIA H200", 90, Exactly(512), Full, 2.0, "fa512_sm90a_tma_s512_full_512x64"),
    row("NVIDIA H200", 90, Exactly(512), Causal, 2.0, "fa512_sm90a_tma_s512_causal_512x64"),
    row("NVIDIA H200", 90, Exactly(512), Full, 8.0, "fa512_sm90a_tma_s512_full_512x64"),
    row("NVIDIA H200", 90, Exactly(512), Causal, 8.0, "fa512_sm90a_tma_s512_causal_512x64"),
    row("NVIDIA H200", 90, UpTo(256), Full, 0.25, "fa512_sm90a_tma_any_full_64x64"),
    row("NVIDIA H200", 90, UpTo(256), Causal, 0.25, "fa512_sm90a_tma_any_causal_64x64"),
    row("NVIDIA H200", 90, UpTo(256), Full, 0.5, "fa512_sm90a_tma_any_full_64x64"),
    row("NVIDIA H200", 90, UpTo(256), Causal, 0.5, "fa512_sm90a_tma_any_causal_64x64"),
    row("NVIDIA H200", 90, UpTo(256), Full, 1.0, "fa512_sm90a_tma_any_full_256x64"),
    row("NVIDIA H200", 90, UpTo(256), Causal, 1.0, "fa512_sm90a_tma_any_causal_256x64"),
    row("NVIDIA H200", 90, UpTo(256), Full, 2.0, "fa512_sm90a_tma_any_full_256x64"),
    row("NVIDIA H200", 90, UpTo(256), Causal, 2.0, "fa512_sm90a_tma_any_causal_256x64"),
    row("NVIDIA H200", 90, UpTo(1024), Full, 0.25, "fa512_sm90a_tma_any_full_64x64"),
    row("NVIDIA H200", 90, UpTo(1024), Causal, 0.25, "fa512_sm90a_tma_any_causal_64x64"),
    row("NVIDIA H200", 90, UpTo(1024), Full, 0.5, "fa512_sm90a_tma_any_full_256x64"),
    row("NVIDIA H200", 90, UpTo(1024), Causal, 0.5, "fa512_sm90a_tma_any_causal_256x64"),
    row("NVIDIA H200", 90, UpTo(1024), Full, 1.0, "fa512_sm90a_tma_any_full_256x64"),
    row("NVIDIA H200", 90, UpTo(1024), Causal, 1.0, "fa512_sm90a_tma_any_causal_256x64"),
    row("NVIDIA H200", 90, UpTo(1024), Full, 2.0, "fa512_sm90a_tma_any_full_256x64"),
    row("NVIDIA H200", 90, UpTo(1024), Causal, 2.0, "fa512_sm90a_tma_any_causal_256x64"),
    row("NVIDIA H200", 90, UpTo(2048), Full, 0.25, "fa512_sm90a_tma_any_full_64x64"),
    row("NVIDIA H200", 90, UpTo(2048), Causal, 0.25, "fa512_sm90a_tma_any_causal_64x64"),
    row("NVIDIA H200", 90, UpTo(2048), Full, 0.5, "fa512_sm90a_tma_any_full_256x64"),
    row("NVIDIA H200", 90, UpTo(2048), Causal, 0.5, "fa512_sm90a_tma_any_causal_256x64"),
    row("NVIDIA H200", 90, UpTo(2048), Full, 1.0, "fa512_sm90a_tma_any_full_256x64"),
    row("NVIDIA H200", 90, UpTo(2048), Causal, 1.0, "fa512_sm90a_tma_any_causal_256x64"),
];

const fn row(
    gpu: &'static str,
    architecture: u32,
    sequence: SequenceClass,
    mask: Mask,
    heads: f64,
    variant: &'static str,
) -> Row<'static> {
    let Some(heads) = HeadsClass::ending_at(heads) else { panic!("no class of heads ends there") };
    Row { gpu, architecture, class: ShapeClass { sequence, mask, heads }, variant }
}
