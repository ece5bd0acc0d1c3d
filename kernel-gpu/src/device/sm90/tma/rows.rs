//! 64 rows of Q, K, V or O in shared memory, as boxes of tensor maps and operands of `wgmma` are.

use core::marker::PhantomData;

use super::kernel::{ROWS, TmaKernel};
use crate::device::attention::head_dim::HeadDim;
use crate::device::attention::kernel::Kernel;
use crate::device::ptx::wgmma::OperandLayout;
use crate::shared_tile::{RowLayout, SharedTile};

/// 64 rows: panels one behind the other, each with the rows of some columns.
#[derive(Clone, Copy)]
pub struct Rows<K> {
    base: u32,
    _kernel: PhantomData<K>,
}

/// The columns of a row that a panel has.
type PanelRow<K> = <<K as Kernel>::HeadDim as HeadDim>::Panel;
/// 64 rows of a panel: a box.
type Panel<K> = SharedTile<<K as Kernel>::Element, ROWS, PanelRow<K>>;

impl<K: TmaKernel> Rows<K> {
    /// Panels.
    pub const PANELS: u32 = K::HeadDim::PANELS;
    /// Columns of a panel.
    pub const PANEL_COLUMNS: u32 = PanelRow::<K>::COLUMNS;
    /// Bytes of all panels.
    pub const BYTES: u32 = Self::PANELS * Panel::<K>::BYTES;

    /// The rows at `base`, a shared-memory address that is a multiple of 1024: swizzles are those of address bits.
    #[inline(always)]
    pub fn at(base: u32) -> Self {
        Self { base, _kernel: PhantomData }
    }

    /// Where they begin.
    #[inline(always)]
    pub fn address(&self) -> u32 {
        self.panel(0)
    }

    /// Where a panel begins.
    #[inline(always)]
    pub fn panel(&self, panel: u32) -> u32 {
        Panel::<K>::at(self.base + panel * Panel::<K>::BYTES).chunk(0, 0)
    }

    /// Shared-memory address of 16-byte chunk `chunk` of row `row` of the first panel.
    #[inline(always)]
    pub fn chunk(&self, row: u32, chunk: u32) -> u32 {
        Panel::<K>::at(self.base).chunk(row, chunk)
    }

    /// The chunk whose index is `chunks` beyond that of the one at `address`, a chunk of the first panel whose index has none of
    /// these bits.
    #[inline(always)]
    pub fn chunk_after(address: u32, chunks: u32) -> u32 {
        let (panel, chunks) = (chunks / Panel::<K>::CHUNKS_PER_ROW, chunks % Panel::<K>::CHUNKS_PER_ROW);
        Panel::<K>::relative_chunk(address, 0, chunks) + panel * Panel::<K>::BYTES
    }
}

impl<K: TmaKernel> OperandLayout for Rows<K> {
    const ROW_BYTES: u32 = Panel::<K>::PITCH;
    const PANELS: u32 = K::HeadDim::PANELS;
    const PANEL_BYTES: u32 = Panel::<K>::BYTES;
}
