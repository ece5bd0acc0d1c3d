//! Typed shared-memory tiles: every address that a kernel uses in shared memory comes from one.
//!
//! A tile is `ROWS × COLUMNS` elements in rows of whole 16-byte chunks, the unit of `cp.async`, `ldmatrix` and
//! 16-byte loads and stores. Constructing one evaluates const assertions: rows that are not a multiple of 16 bytes
//! (65 halves, 130 bytes: 15 of 16 copies misaligned) or whose `ldmatrix` reads conflict in the banks do not compile.

use core::marker::PhantomData;

/// Bytes of one chunk: a `cp.async` copy, an `ldmatrix` row, a 16-byte load or store.
pub const CHUNK_BYTES: u32 = 16;
/// Rows of an `ldmatrix` 8×8 matrix, which are read together.
const MATRIX_ROWS: u32 = 8;
/// Number of 16-byte groups that the 32 four-byte banks serve at once.
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

/// Permutation of the chunks within a row.
pub trait Swizzle {
    /// Number of chunks that are permuted among each other, a power of two; a row's number of chunks is a multiple of it.
    const SPAN: u32;

    /// Number of neighbouring rows with the same permutation.
    const ROWS_ALIKE: u32;
}

/// The value XORed into the chunk index in `row`.
#[inline(always)]
const fn swizzle_of_row<S: Swizzle>(row: u32) -> u32 {
    row / S::ROWS_ALIKE % S::SPAN
}

/// Chunks in order.
#[derive(Clone, Copy, Debug)]
pub struct Linear;

impl Swizzle for Linear {
    const SPAN: u32 = 1;
    const ROWS_ALIKE: u32 = 1;
}

/// The chunk index is XORed with the row index modulo 8, so that 8 rows of a 128-byte tile put the same chunk into
/// 8 different bank groups. The same pattern as the 128-byte swizzle mode of TMA and wgmma.
#[derive(Clone, Copy, Debug)]
pub struct Swizzle128;

impl Swizzle for Swizzle128 {
    const SPAN: u32 = 8;
    const ROWS_ALIKE: u32 = 1;
}

/// The chunk index is XORed with half of the row index modulo 4, for tiles of 64-byte rows, two of which span all banks. The same
/// pattern as the 64-byte swizzle mode of TMA and wgmma.
#[derive(Clone, Copy, Debug)]
pub struct Swizzle64;

impl Swizzle for Swizzle64 {
    const SPAN: u32 = 4;
    const ROWS_ALIKE: u32 = 2;
}

/// Layout of the rows of a tile.
pub trait RowLayout {
    /// Elements per row.
    const COLUMNS: u32;
    /// Permutation of the chunks of a row.
    type Swizzle: Swizzle;
}

/// Rows of `COLUMNS` elements with swizzle `S`.
#[derive(Clone, Copy, Debug)]
pub struct Row<const COLUMNS: u32, S>(PhantomData<S>);

impl<const COLUMNS: u32, S: Swizzle> RowLayout for Row<COLUMNS, S> {
    const COLUMNS: u32 = COLUMNS;
    type Swizzle = S;
}

/// The division of the chunks of neighbouring rows with the same permutation into sections. In each section a thread has one chunk, and
/// neighbouring threads have neighbouring ones.
#[derive(Clone, Copy, Debug)]
pub struct Sections {
    /// Number of rows.
    pub rows: u32,
    /// Chunks of a section: the largest power of two that divides the rows' number of chunks.
    pub chunks: u32,
    /// Number of sections.
    pub count: usize,
    /// Distance in shared memory between chunks in the same place of consecutive sections: permutations stay within a section.
    pub bytes: u32,
    chunks_per_row: u32,
}

impl Sections {
    const fn new(rows: u32, chunks_per_row: u32) -> Self {
        let all = rows * chunks_per_row;
        let chunks = 1 << all.trailing_zeros();
        assert!(chunks <= chunks_per_row, "the first section is in the first row");
        Self { rows, chunks, count: (all / chunks) as usize, bytes: chunks * CHUNK_BYTES, chunks_per_row }
    }

    /// How many rows below, and how many chunks further, a thread's chunk of `section` is than its first one, which is in the first row.
    #[inline(always)]
    pub const fn distance(&self, first: u32, section: u32) -> (u32, i32) {
        let further = section * self.chunks;
        let rows = (further + first) / self.chunks_per_row;
        (rows, further as i32 - (rows * self.chunks_per_row) as i32)
    }
}

/// A tile in shared memory at a base address that is a multiple of [`SharedTile::ALIGNMENT`].
#[derive(Debug)]
pub struct SharedTile<E, const ROWS: u32, L> {
    base: u32,
    _layout: PhantomData<(E, L)>,
}

impl<E, const ROWS: u32, L> Clone for SharedTile<E, ROWS, L> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, const ROWS: u32, L> Copy for SharedTile<E, ROWS, L> {}

impl<E: Element, const ROWS: u32, L: RowLayout> SharedTile<E, ROWS, L> {
    /// Bytes from one row to the next.
    pub const PITCH: u32 = L::COLUMNS * E::BYTES;
    /// Size in bytes.
    pub const BYTES: u32 = ROWS * Self::PITCH;
    /// Chunks of one row.
    pub const CHUNKS_PER_ROW: u32 = Self::PITCH / CHUNK_BYTES;
    /// How neighbouring threads divide the chunks of a row.
    pub const ROW_SECTIONS: Sections = Sections::new(1, Self::CHUNKS_PER_ROW);
    /// The same of contiguous rows, in whole lines of memory: for rows of 192 bytes, of two rows together.
    pub const LINE_SECTIONS: Sections = match Self::CHUNKS_PER_ROW.is_power_of_two() {
        true => Self::ROW_SECTIONS,
        false => Sections::new(L::Swizzle::ROWS_ALIKE, Self::CHUNKS_PER_ROW),
    };
    /// Number of rows after which the swizzle repeats.
    pub const SWIZZLE_ROWS: u32 = L::Swizzle::SPAN * L::Swizzle::ROWS_ALIKE;
    /// Required alignment of the base address: one row of banks.
    pub const ALIGNMENT: u32 = 128;

    /// Compile-time proof that every chunk is 16-byte aligned, inside the tile, and read without bank conflicts.
    const LAYOUT_IS_SOUND: () = {
        assert!(
            Self::PITCH.is_multiple_of(CHUNK_BYTES),
            "a shared tile's row pitch must be a multiple of 16 bytes, or 16-byte copies to its rows are misaligned"
        );
        assert!(
            Self::CHUNKS_PER_ROW.is_multiple_of(L::Swizzle::SPAN),
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
        row * Self::PITCH + (chunk ^ swizzle_of_row::<L::Swizzle>(row)) * CHUNK_BYTES
    }

    /// Shared-memory address of 16-byte chunk `chunk` of row `row`.
    #[inline(always)]
    pub const fn chunk(self, row: u32, chunk: u32) -> u32 {
        self.base + Self::offset(row, chunk)
    }

    /// Shared-memory address of another chunk, from the `address` of one: `rows` rows below, in the column whose index differs by
    /// XOR with `chunks` within the span of the swizzle, and is larger by the remaining bits. Costs one XOR and an addition, where
    /// [`Self::chunk`] starts from scratch.
    ///
    /// There must be no carry within the span: the bits of `rows` are clear in the row of `address`, or the swizzle repeats after `rows`.
    #[inline(always)]
    pub const fn relative_chunk(address: u32, rows: u32, chunks: u32) -> u32 {
        const {
            assert!(L::Swizzle::SPAN * CHUNK_BYTES <= Self::ALIGNMENT, "a tile may begin within a span of the swizzle");
        }
        let within = chunks % L::Swizzle::SPAN;
        let swizzled = (within ^ swizzle_of_row::<L::Swizzle>(rows)) * CHUNK_BYTES;
        (address ^ swizzled) + rows * Self::PITCH + (chunks - within) * CHUNK_BYTES
    }

    /// Part `index` of the tile in parts of `COUNT` rows, as a tile of its own: the swizzle repeats after that many rows.
    #[inline(always)]
    pub const fn part<const COUNT: u32>(self, index: u32) -> SharedTile<E, COUNT, L> {
        const {
            assert!(COUNT.is_multiple_of(Self::SWIZZLE_ROWS), "the swizzle does not repeat after so many rows");
            assert!(ROWS.is_multiple_of(COUNT), "the tile does not consist of such parts");
        }
        SharedTile::at(self.base + index * SharedTile::<E, COUNT, L>::BYTES)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::BTreeSet;

    type Tile<L> = SharedTile<F16, 64, L>;

    /// Expands for the rows of heads of 32, 64, 96 and 128 columns.
    macro_rules! for_every_row {
        ($check:ident) => {
            $check::<Row<32, Swizzle64>>();
            $check::<Row<64, Swizzle128>>();
            $check::<Row<96, Swizzle64>>();
            $check::<Row<128, Swizzle128>>();
        };
    }

    fn places<L: RowLayout>() -> impl Iterator<Item = (u32, u32)> {
        (0..64).flat_map(|row| (0..Tile::<L>::CHUNKS_PER_ROW).map(move |chunk| (row, chunk)))
    }

    #[test]
    fn chunks_cover_the_tile_exactly_once_and_are_aligned() {
        fn check<L: RowLayout>() {
            let tile = Tile::<L>::at(1024);
            let addresses: BTreeSet<u32> = places::<L>().map(|(row, chunk)| tile.chunk(row, chunk)).collect();
            let expected: BTreeSet<u32> =
                (0..Tile::<L>::BYTES / CHUNK_BYTES).map(|index| 1024 + index * CHUNK_BYTES).collect();
            assert_eq!(addresses, expected, "{} columns", L::COLUMNS);
        }
        for_every_row!(check);
    }

    #[test]
    fn eight_rows_of_a_matrix_lie_in_eight_bank_groups() {
        fn check<L: RowLayout>() {
            let tile = Tile::<L>::at(0);
            for (first_row, chunk) in places::<L>().filter(|(row, _)| row % 8 == 0) {
                let groups: BTreeSet<u32> =
                    (first_row..first_row + 8).map(|row| tile.chunk(row, chunk) / CHUNK_BYTES % BANK_GROUPS).collect();
                assert_eq!(groups.len(), 8, "rows {first_row}.. of chunk {chunk} of {} columns", L::COLUMNS);
            }
        }
        for_every_row!(check);
    }

    #[test]
    fn a_chunk_is_found_from_any_other() {
        fn check<L: RowLayout>() {
            let (tile, span) = (Tile::<L>::at(1024 + 128), L::Swizzle::SPAN);
            let is_relative = |row, rows| row & rows == 0 || rows % Tile::<L>::SWIZZLE_ROWS == 0 && row + rows < 64;
            let is_in_row = |chunk, chunks| chunk / span + chunks / span < Tile::<L>::CHUNKS_PER_ROW / span;
            for (row, chunk) in places::<L>() {
                let others = places::<L>().filter(|&(rows, chunks)| is_relative(row, rows) && is_in_row(chunk, chunks));
                for (rows, chunks) in others {
                    let found = Tile::<L>::relative_chunk(tile.chunk(row, chunk), rows, chunks);
                    let column = (chunk ^ (chunks % span)) + chunks / span * span;
                    assert_eq!(found, tile.chunk(row + rows, column), "{row} + {rows}, {chunk} and {chunks}");
                }
            }
        }
        for_every_row!(check);
    }

    #[test]
    fn sections_divide_the_chunks_of_their_rows() {
        fn check<L: RowLayout>() {
            let tile = Tile::<L>::at(1024);
            for sections in [Tile::<L>::ROW_SECTIONS, Tile::<L>::LINE_SECTIONS] {
                let mut addresses = BTreeSet::new();
                for (group, first) in
                    (0..64 / sections.rows).flat_map(|group| (0..sections.chunks).map(move |c| (group, c)))
                {
                    let first_row = group * sections.rows;
                    for section in 0..sections.count as u32 {
                        let (rows, chunks) = sections.distance(first, section);
                        let address = tile.chunk(first_row, first) + section * sections.bytes;
                        assert_eq!(
                            address,
                            tile.chunk(first_row + rows, first.wrapping_add_signed(chunks)),
                            "{sections:?} of {} columns",
                            L::COLUMNS
                        );
                        addresses.insert(address);
                    }
                }
                assert_eq!(
                    addresses.len() as u32,
                    Tile::<L>::BYTES / CHUNK_BYTES,
                    "{sections:?} of {} columns",
                    L::COLUMNS
                );
            }
        }
        for_every_row!(check);
        let line = Tile::<Row<96, Swizzle64>>::LINE_SECTIONS;
        assert_eq!((line.rows, line.bytes, line.count), (2, 128, 3), "192-byte rows in lines of 128 bytes");
        assert_eq!(Tile::<Row<96, Swizzle64>>::ROW_SECTIONS.count, 3);
        assert_eq!(Tile::<Row<128, Swizzle128>>::LINE_SECTIONS.count, 1);
    }

    #[test]
    fn a_part_has_the_addresses_of_its_rows() {
        fn check<L: RowLayout>() {
            let tile = Tile::<L>::at(1024);
            let part = tile.part::<16>(3);
            for (row, chunk) in places::<L>().filter(|(row, _)| *row < 16) {
                assert_eq!(part.chunk(row, chunk), tile.chunk(48 + row, chunk), "{} columns", L::COLUMNS);
            }
        }
        for_every_row!(check);
    }

    #[test]
    fn a_padded_pitch_of_whole_chunks_is_accepted_without_a_swizzle() {
        assert_eq!(SharedTile::<F16, 8, Row<72, Linear>>::at(0).chunk(1, 0), 144);
    }
}
