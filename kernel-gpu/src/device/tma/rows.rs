//! 64 rows of Q, K, V or O in shared memory, in the layout of tensor map boxes and `wgmma` operands.

use core::marker::PhantomData;

use crate::device::kernel::Kernel;
use crate::device::ptx::wgmma::OperandLayout;
use crate::device::tile::head_dim::HeadDim;
use crate::device::tma::kernel::ROWS;
use crate::shared_tile::{RowLayout, SharedTile};

/// 64 rows in consecutive panels, each with a range of columns.
#[derive(Clone, Copy)]
pub struct Rows<K> {
    base: u32,
    _kernel: PhantomData<K>,
}

/// The part of a row in a panel.
type PanelRow<K> = <<K as Kernel>::HeadDim as HeadDim>::Panel;
/// 64 rows of a panel: a tensor map's box.
type Panel<K> = SharedTile<<K as Kernel>::Element, ROWS, PanelRow<K>>;

impl<K: Kernel> Rows<K> {
    /// Number of panels.
    pub const PANELS: u32 = K::HeadDim::PANELS;
    /// Columns of a panel.
    pub const PANEL_COLUMNS: u32 = PanelRow::<K>::COLUMNS;
    /// Bytes of all panels.
    pub const BYTES: u32 = Self::PANELS * Panel::<K>::BYTES;

    /// The rows at `base`, a shared-memory address that is a multiple of 1024, since swizzles work on address bits.
    #[inline(always)]
    pub fn at(base: u32) -> Self {
        Self { base, _kernel: PhantomData }
    }

    /// Address of the first row.
    #[inline(always)]
    pub fn address(&self) -> u32 {
        self.panel(0)
    }

    /// Address of a panel.
    #[inline(always)]
    pub fn panel(&self, panel: u32) -> u32 {
        Panel::<K>::at(self.base + panel * Panel::<K>::BYTES).chunk(0, 0)
    }

    /// Shared-memory address of 16-byte chunk `chunk` of row `row` of the first panel.
    #[inline(always)]
    pub fn chunk(&self, row: u32, chunk: u32) -> u32 {
        Panel::<K>::at(self.base).chunk(row, chunk)
    }

    /// The chunk whose index is larger by `chunks` than that of the chunk at `address`, which is in the first panel and has none of
    /// these index bits set.
    #[inline(always)]
    pub fn chunk_after(address: u32, chunks: u32) -> u32 {
        let (panel, chunks) = (chunks / Panel::<K>::CHUNKS_PER_ROW, chunks % Panel::<K>::CHUNKS_PER_ROW);
        Panel::<K>::relative_chunk(address, 0, chunks) + panel * Panel::<K>::BYTES
    }
}

impl<K: Kernel> OperandLayout for Rows<K> {
    const ROW_BYTES: u32 = Panel::<K>::PITCH;
    const PANELS: u32 = K::HeadDim::PANELS;
    const PANEL_BYTES: u32 = Panel::<K>::BYTES;
}
