//! A bias that waits in shared memory.

use crate::device::codegen::shared;
use crate::device::hidden;
use crate::device::lane::{Lane, Scores};
use crate::device::ptx::element::Element;
use crate::device::ptx::{cp_async, ldmatrix, memory, sync};
use crate::device::scores::bias::{Bias, ELEMENT_BYTES, add_pair, load_pair_before_end, pitch};
use crate::device::scores::place::Place;
use crate::device::unrolled;
use crate::shared_tile::{CHUNK_BYTES, Row, SharedTile, Swizzle128};
use contract::args::ForwardArgs;
use contract::config::{MMA_M, MMA_N, WARP_SIZE};

/// Keys of a step.
const KEYS: u32 = 64;

/// A bias that waits `TILES_AT` bytes after the beginning of shared memory. Each warp has 16 rows of 64 elements there, for one step: four
/// copies and four matrix loads of a lane.
///
/// That takes 16-byte aligned rows. The host chooses such a kernel if all rows are aligned like the first. If that one is not, pairs of
/// elements are loaded and stored in turn, which takes long.
#[derive(Clone, Copy)]
pub struct InSharedMemory<const TILES_AT: u32> {
    address: u64,
}

/// The rows of a warp.
type Rows<E> = SharedTile<E, MMA_M, Row<KEYS, Swizzle128>>;

/// Neighbouring elements of a row, which one lane copies.
struct Piece {
    /// Where they go.
    shared: u32,
    /// Where they are.
    address: u64,
    /// How many there are; zeros follow.
    elements: u32,
}

impl<const TILES_AT: u32> InSharedMemory<TILES_AT> {
    /// The warp's rows.
    #[inline(always)]
    fn rows<E: Element>(lane: Lane) -> Rows<E> {
        SharedTile::at(shared::dynamic_shared_mem() + TILES_AT + lane.warp * Rows::<E>::BYTES)
    }

    /// The lane's piece `i` of the step at `place`, of `ELEMENTS` elements. What lies behind the last row or key is not read.
    #[inline(always)]
    fn piece<E: Element, const ELEMENTS: u32>(self, args: &ForwardArgs, place: Place, lane: Lane, i: u32) -> Piece {
        let lanes_per_row = const { KEYS / ELEMENTS };
        let row = lane.index / lanes_per_row + i * const { WARP_SIZE * ELEMENTS / KEYS };
        let column = lane.index % lanes_per_row * ELEMENTS;
        let (of_queries, key) = (place.first_row + row, place.first_key + column);
        let keys = place.kv_length.saturating_sub(key).min(ELEMENTS);
        let byte = column * ELEMENT_BYTES;
        Piece {
            shared: Self::rows::<E>(lane).chunk(row, byte / CHUNK_BYTES) + byte % CHUNK_BYTES,
            address: self.address + of_queries as u64 * pitch(args) + (key * ELEMENT_BYTES) as u64,
            elements: if of_queries < place.length { keys } else { 0 },
        }
    }
}

/// Number of pieces of `elements` elements that a lane copies in a step.
const fn pieces(elements: u32) -> u32 {
    MMA_M * KEYS / elements / WARP_SIZE
}

impl<const TILES_AT: u32> Bias for InSharedMemory<TILES_AT> {
    type Fetched<const M_TILES: usize, const N_TILES: usize> = ();

    #[inline(always)]
    fn at(address: u64) -> Self {
        Self { address }
    }

    #[inline(always)]
    unsafe fn fetch<E: Element, const M_TILES: usize, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        place: Place,
        lane: Lane,
    ) {
        const { assert!(M_TILES == 1 && N_TILES as u32 * MMA_N == KEYS) };
        if self.address == 0 {
            return;
        }
        let has_one_row = pitch(args) == 0;
        // SAFETY: the warp is together, and its lanes have read what is overwritten. Elements of the bias are read at addresses that are
        // aligned like it.
        unsafe {
            // The same in all lanes.
            if (self.address | pitch(args)).is_multiple_of(CHUNK_BYTES as u64) {
                unrolled!(at most 4; for i in const { pieces(8) as usize } => {
                    if i == 0 || !has_one_row {
                        let piece = self.piece::<E, 8>(args, place, lane, i as u32);
                        cp_async::copy_part_of_16(piece.shared, piece.address, piece.elements * ELEMENT_BYTES);
                    }
                });
            } else {
                let (mut i, pieces) = (0, hidden::not_unrolled(if has_one_row { 1 } else { pieces(2) }));
                while i < pieces {
                    let piece = self.piece::<E, 2>(args, place, lane, i);
                    memory::store_shared_4(piece.shared, load_pair_before_end(piece.address, 0, piece.elements));
                    i += 1;
                }
            }
            cp_async::commit_group();
        }
    }

    #[inline(always)]
    unsafe fn add<E: Element, const M_TILES: usize, const N_TILES: usize>(
        self,
        args: &ForwardArgs,
        scores: &mut Scores<M_TILES, N_TILES>,
        (): (),
        lane: Lane,
    ) {
        if self.address == 0 {
            return;
        }
        let inverse_scale = args.score_mod.inverse_scale;
        // If all rows are the same, only the first ones were copied.
        let row = lane.index % if pitch(args) == 0 { 1 } else { MMA_M };
        cp_async::wait_until_fewer_than::<1>();
        // SAFETY: the warp is together; the barrier follows the lanes' waits for their copies.
        unsafe {
            sync::warp();
            unrolled!(at most 4; for pair in const { N_TILES / 2 } => {
                let chunk = Self::rows::<E>(lane).chunk(row, pair as u32 * 2 + lane.index / MMA_M);
                let [upper, lower, upper_right, lower_right] = ldmatrix::load_4(chunk);
                let (left, right) = (2 * pair, 2 * pair + 1);
                add_pair::<E>(&mut scores[0][left], 0, upper, inverse_scale);
                add_pair::<E>(&mut scores[0][left], 1, lower, inverse_scale);
                add_pair::<E>(&mut scores[0][right], 0, upper_right, inverse_scale);
                add_pair::<E>(&mut scores[0][right], 1, lower_right, inverse_scale);
            });
            // What all lanes have read may be overwritten.
            sync::warp();
        }
    }
}
