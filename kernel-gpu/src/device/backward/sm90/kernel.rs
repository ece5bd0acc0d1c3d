//! The specialisation of a kernel of this family.

use crate::device::kernel::Kernel;
use crate::device::mask::Mask;
use crate::device::ptx::wgmma::{Accumulators, Registers};
use crate::device::scores::ScoreMod;
use crate::device::scores::differentiable::Differentiable;
use crate::device::tile::head_dim::HeadDim;
use crate::device::tma::mapped::Mapped;
use contract::backward::variants::TmaTile;

/// Rows of a step: of Q, dO and O, or of K and V.
pub const STEP: u32 = TmaTile::STEP;
/// 8-column tiles of the scores of a step.
pub const N_TILES: usize = 8;
/// 16-row steps along a step, the depth of the products that accumulate gradients.
pub const K_STEPS: usize = 4;

/// The specialisation of a backward kernel.
pub trait Sm90Backward:
    Kernel<
        Sequence: Mapped,
        ScoreMod: Differentiable,
        HeadDim: HeadDim<Output: Accumulators + Registers, Queries: Registers>,
    >
{
    /// How its blocks divide the work.
    const TILE: TmaTile;
    /// Computing warpgroups.
    const WARPGROUPS: u32 = Self::TILE.warpgroups;
    /// Whether a warpgroup keeps its own rows of both tensors in registers. Otherwise the products read them from shared memory, which costs
    /// twice as much of its bandwidth. What changes the scores takes those registers.
    const KEEPS_OWN_ROWS: bool = Self::HeadDim::COLUMNS <= 64 && !Self::IS_OF_ONE_TILE && !Self::ScoreMod::MODIFIES;
    /// Whether the products that accumulate gradients run beside the computation of the next step's P and dS. Beside wide accumulators there are
    /// no registers for both, and two blocks of a multiprocessor overlap with each other; under a mask it gains nothing.
    const OVERLAPS_STEPS: bool =
        Self::HeadDim::COLUMNS <= 64 && Self::TILE.blocks == 1 && Self::Mask::ALL_KEYS && !Self::HANDS_OVER;
    /// Whether dQ is computed by items of its own, not from the dS of the items of keys.
    const HAS_QUERY_ITEMS: bool = Self::TILE.has_query_items();
    /// Whether an item computes all gradients of a head, which has one tile of keys and one of queries.
    const IS_OF_ONE_TILE: bool = Self::TILE.is_of_one_tile();
    /// Whether warpgroups take [turns](crate::device::tma::turns) on the tensor cores. Under a mask they gain only beside a workspace.
    const TAKES_TURNS: bool = Self::WARPGROUPS > 1
        && (Self::SUMS_IN_WORKSPACE || Self::Mask::ALL_KEYS && (Self::OVERLAPS_STEPS || Self::HANDS_OVER));
    /// Whether a warpgroup more computes dQ from the dS of the keys.
    const HANDS_OVER: bool = Self::TILE.hands_over();
    /// Whether each product runs beside the computation that does not need it, as [`staggered`](super::staggered) does.
    const STAGGERS: bool = Self::SUMS_IN_WORKSPACE;
    /// Whether there are no registers for P beside dP and wide accumulators: P is rounded before dS is computed.
    const SAVES_REGISTERS: bool = Self::STAGGERS && Self::HeadDim::COLUMNS > 64;
    /// Whether dP starts together with S, where there are registers for it beside P.
    const STARTS_D_P_EARLY: bool = !Self::SAVES_REGISTERS;
    /// Whether it computes that of all queries of a head in shared memory.
    const KEEPS_DQ: bool = Self::TILE.keeps_dq();
    /// Whether it adds that of a step's queries to a sum in the workspace.
    const SUMS_IN_WORKSPACE: bool = Self::TILE.sums_in_workspace();
    /// Whether items that do begin at different queries: those of all keys have the same ones.
    const ROTATES: bool = Self::SUMS_IN_WORKSPACE && Self::Mask::ALL_KEYS;
    /// Whether blocks draw the numbers of such items.
    const DRAWS: bool = Self::SUMS_IN_WORKSPACE && !Self::ROTATES;
}
