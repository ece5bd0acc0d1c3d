//! Typed shared-memory tiles: every address that a kernel uses in shared memory comes from one.
//!
//! A tile is `ROWS × COLUMNS` elements in rows of whole 16-byte chunks, the unit of `cp.async`, `ldmatrix` and
//! 16-byte loads and stores. Constructing one evaluates const assertions: rows that are not a multiple of 16 bytes
//! (65 halves, 130 bytes: 15 of 16 copies misaligned) or whose `ldmatrix` reads conflict in the banks do not compile.

use core::marker::PhantomData;

/// Bytes of one chunk: a `cp.async` copy, an `ldmatrix` row, a 16-byte load or store.
pub const CHUNK_BYTES: u32 = 16;
/// Rows of an 8×8 matrix of `ldmatrix`, which are read together.
const MATRIX_ROWS: u32 = 8;
/// 16-byte groups that the 32 four-byte banks serve at once.
const BANK_GROUPS: u32 = 8;

/// An element type of a tile.
pub trait Element {
    /// Size in bytes.
    const BYTES: u32;
}

/// IEEE 754 binary16, an element of Q, K, V and O.
#[derive(Clone, Copy, Debug)]
pub struct F16;

impl Element for F16 {
    const BYTES: u32 = 2;
}

/// bfloat16, the other element of Q, K, V and O.
#[derive(Clone, Copy, Debug)]
pub struct Bf16;

impl Element for Bf16 {
    const BYTES: u32 = 2;
}

/// Where the chunk of a row is stored within that row.
pub trait Swizzle {
    /// Chunks that are permuted among each other; the chunks of a row must be a multiple of it.
    const SPAN: u32;

    /// Bits of the row index that are XORed into the chunk index.
    const ROW_MASK: u32;
}

/// Chunks in order.
#[derive(Clone, Copy, Debug)]
pub struct Linear;

impl Swizzle for Linear {
    const SPAN: u32 = 1;
    const ROW_MASK: u32 = 0;
}

/// The chunk index is XORed with the row index modulo 8, so that 8 rows of a 128-byte tile put the same chunk into
/// 8 different bank groups. The same pattern as the 128-byte swizzle mode of TMA and wgmma.
#[derive(Clone, Copy, Debug)]
pub struct Swizzle128;

impl Swizzle for Swizzle128 {
    const SPAN: u32 = 8;
    const ROW_MASK: u32 = 7;
}

/// A tile in shared memory at a base address that is a multiple of [`SharedTile::ALIGNMENT`].
#[derive(Debug)]
pub struct SharedTile<E, const ROWS: u32, const COLUMNS: u32, S> {
    base: u32,
    _layout: PhantomData<(E, S)>,
}

impl<E, const ROWS: u32, const COLUMNS: u32, S> Clone for SharedTile<E, ROWS, COLUMNS, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, const ROWS: u32, const COLUMNS: u32, S> Copy for SharedTile<E, ROWS, COLUMNS, S> {}

impl<E: Element, const ROWS: u32, const COLUMNS: u32, S: Swizzle> SharedTile<E, ROWS, COLUMNS, S> {
    /// Bytes from one row to the next.
    pub const PITCH: u32 = COLUMNS * E::BYTES;
    /// Size in bytes.
    pub const BYTES: u32 = ROWS * Self::PITCH;
    /// Chunks of one row.
    pub const CHUNKS_PER_ROW: u32 = Self::PITCH / CHUNK_BYTES;
    /// Alignment that the base address needs: one row of banks.
    pub const ALIGNMENT: u32 = 128;

    /// Proof, by evaluation, that every chunk is 16-byte aligned, inside the tile, and read without bank conflicts.
    const LAYOUT_IS_SOUND: () = {
        assert!(
            Self::PITCH.is_multiple_of(CHUNK_BYTES),
            "a shared tile's row pitch must be a multiple of 16 bytes, or 16-byte copies to its rows are misaligned"
        );
        assert!(
            Self::CHUNKS_PER_ROW.is_multiple_of(S::SPAN),
            "the swizzle permutes more chunks than a row of this shared tile has"
        );
        assert!(
            Self::matrix_reads_are_conflict_free(),
            "ldmatrix reads of this shared tile have bank conflicts: swizzle it or change its pitch"
        );
    };

    /// Whether the 8 rows of every 8×8 matrix lie in different bank groups.
    const fn matrix_reads_are_conflict_free() -> bool {
        let mut chunk = 0;
        while chunk < Self::CHUNKS_PER_ROW {
            let mut groups_seen = 0u32;
            let mut row = 0;
            while row < MATRIX_ROWS && row < ROWS {
                let group = 1 << (Self::offset(row, chunk) / CHUNK_BYTES % BANK_GROUPS);
                if groups_seen & group != 0 {
                    return false;
                }
                groups_seen |= group;
                row += 1;
            }
            chunk += 1;
        }
        true
    }

    /// The tile at `base`, a shared-memory address that is a multiple of [`SharedTile::ALIGNMENT`].
    #[inline(always)]
    pub const fn at(base: u32) -> Self {
        const { Self::LAYOUT_IS_SOUND };
        Self { base, _layout: PhantomData }
    }

    /// Bytes from the base to chunk `chunk` of row `row`.
    #[inline(always)]
    const fn offset(row: u32, chunk: u32) -> u32 {
        row * Self::PITCH + (chunk ^ (row & S::ROW_MASK)) * CHUNK_BYTES
    }

    /// Shared-memory address of 16-byte chunk `chunk` of row `row`.
    #[inline(always)]
    pub const fn chunk(self, row: u32, chunk: u32) -> u32 {
        self.base + Self::offset(row, chunk)
    }

    /// Shared-memory address of a chunk, from the `address` of another: `rows` rows below it and in the column whose index
    /// differs from its own by the bits of `chunks`. One exclusive or, where [`Self::chunk`] begins anew.
    ///
    /// Neither is a carry: the bits of `rows` are clear in the row of `address`, and those of `chunks` are below 8.
    #[inline(always)]
    pub const fn relative_chunk(address: u32, rows: u32, chunks: u32) -> u32 {
        const { assert!(Self::PITCH.is_multiple_of(Self::ALIGNMENT), "chunks of a row differ in other bits, too") };
        (address ^ ((chunks ^ (rows & S::ROW_MASK)) * CHUNK_BYTES)) + rows * Self::PITCH
    }

    /// Part `index` of the tile's parts of `COUNT` rows, a tile of its own: the swizzle repeats after so many rows.
    #[inline(always)]
    pub const fn part<const COUNT: u32>(self, index: u32) -> SharedTile<E, COUNT, COLUMNS, S> {
        const {
            assert!(COUNT.is_multiple_of(S::ROW_MASK + 1), "the swizzle does not repeat after so many rows");
            assert!(ROWS.is_multiple_of(COUNT), "the tile does not consist of such parts");
        }
        SharedTile::at(self.base + index * SharedTile::<E, COUNT, COLUMNS, S>::BYTES)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::BTreeSet;

    type Tile = SharedTile<F16, 64, 64, Swizzle128>;

    #[test]
    fn chunks_cover_the_tile_exactly_once_and_are_aligned() {
        let tile = Tile::at(1024);
        let addresses: BTreeSet<u32> =
            (0..64).flat_map(|row| (0..8).map(move |chunk| tile.chunk(row, chunk))).collect();
        let expected: BTreeSet<u32> = (0..64 * 8).map(|index| 1024 + index * CHUNK_BYTES).collect();
        assert_eq!(addresses, expected);
    }

    #[test]
    fn eight_rows_of_a_matrix_lie_in_eight_bank_groups() {
        let tile = Tile::at(0);
        for chunk in 0..8 {
            for first_row in (0..64).step_by(8) {
                let groups: BTreeSet<u32> =
                    (first_row..first_row + 8).map(|row| tile.chunk(row, chunk) / CHUNK_BYTES % BANK_GROUPS).collect();
                assert_eq!(groups.len(), 8, "rows {first_row}.. of chunk {chunk} share bank groups");
            }
        }
    }

    #[test]
    fn a_chunk_is_found_from_any_other() {
        let tile = Tile::at(1024 + 128);
        let rows = (0..64).flat_map(|row| (0..64).filter(move |rows| row & rows == 0).map(move |rows| (row, rows)));
        for (row, rows) in rows {
            for (chunk, chunks) in (0..8).flat_map(|chunk| (0..8).map(move |chunks| (chunk, chunks))) {
                let found = Tile::relative_chunk(tile.chunk(row, chunk), rows, chunks);
                assert_eq!(found, tile.chunk(row + rows, chunk ^ chunks), "{row} + {rows}, {chunk} ^ {chunks}");
            }
        }
    }

    #[test]
    fn a_part_has_the_addresses_of_its_rows() {
        let tile = Tile::at(1024);
        let part = tile.part::<16>(3);
        for (row, chunk) in (0..16).flat_map(|row| (0..8).map(move |chunk| (row, chunk))) {
            assert_eq!(part.chunk(row, chunk), tile.chunk(48 + row, chunk));
        }
    }

    #[test]
    fn a_padded_pitch_of_whole_chunks_is_accepted_without_a_swizzle() {
        assert_eq!(SharedTile::<F16, 8, 72, Linear>::at(0).chunk(1, 0), 144);
    }
}
