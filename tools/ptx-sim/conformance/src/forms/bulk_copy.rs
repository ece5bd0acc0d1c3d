//! Bulk copies between global and shared memory, with and without tensor maps.

use ptx_sim::{Swizzle, TensorElement, TensorMap};

use crate::case::{Case, MapPlace};
use crate::kernel::Kernel;

const THREADS: usize = 64;
/// Bytes of the tile in shared memory, of the output, and of the part of the input that is copied to the tile first.
const TILE: usize = 8192;

/// An mbarrier at `%r1` that waits for one arrival, and the tile at `%r2`, filled with the last part of the input; `%p2`
/// holds in one thread.
fn setup() -> String {
    format!(
        ".shared .align 1024 .b8 tile[{TILE}];\n.shared .align 8 .b64 gate;\nmov.u32 %r1, gate;\nmov.u32 %r2, tile;\n\
         setp.eq.u32 %p2, %thread, 0;\n@%p2 mbarrier.init.shared::cta.b64 [%r1], 1;\nfence.mbarrier_init.release.cluster;\n\
         shl.b32 %r3, %thread, 4;\nfill: add.u32 %r4, %r2, %r3;\ncvt.u64.u32 %rd1, %r3;\nadd.u64 %rd1, %rd1, %input;\n\
         ld.global.v2.b64 {{%rd4, %rd5}}, [%rd1+{}];\nst.shared.v2.b64 [%r4], {{%rd4, %rd5}};\nadd.u32 %r3, %r3, {};\n\
         setp.lt.u32 %p0, %r3, {TILE};\n@%p0 bra fill;\nfence.proxy.async;\nbar.sync 0;\n",
        INPUT - TILE,
        16 * THREADS
    )
}

/// Waits for the mbarrier. A thread gives up after a while, so that a wrong case does not hang a GPU.
const WAIT: &str = "mov.u32 %r5, 0;\nwait: add.u32 %r5, %r5, 1;\nsetp.gt.u32 %p3, %r5, 100000;\n@%p3 trap;\n\
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n@!%p1 bra wait;\n";

/// Copies the tile to the output.
fn copy_out() -> String {
    format!(
        "shl.b32 %r3, %thread, 4;\ndrain: add.u32 %r4, %r2, %r3;\ncvt.u64.u32 %rd1, %r3;\nadd.u64 %rd1, %rd1, %output;\n\
         ld.shared.v2.b64 {{%rd4, %rd5}}, [%r4];\nst.global.v2.b64 [%rd1], {{%rd4, %rd5}};\nadd.u32 %r3, %r3, {};\n\
         setp.lt.u32 %p0, %r3, {TILE};\n@%p0 bra drain;\n",
        16 * THREADS
    )
}

/// Copies the first bytes of the input, which a store changed, to the output.
fn copy_input() -> String {
    format!(
        "bar.sync 0;\nfence.proxy.async;\nshl.b32 %r3, %thread, 4;\ndrain: cvt.u64.u32 %rd1, %r3;\nadd.u64 %rd2, %rd1, %output;\n\
         add.u64 %rd1, %rd1, %input;\nld.global.v2.b64 {{%rd4, %rd5}}, [%rd1];\nst.global.v2.b64 [%rd2], {{%rd4, %rd5}};\n\
         add.u32 %r3, %r3, {};\nsetp.lt.u32 %p0, %r3, {TILE};\n@%p0 bra drain;\n",
        16 * THREADS
    )
}

/// A box of a tensor, and where it is copied from or to.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub map: TensorMap,
    origin: Vec<i32>,
    /// Offset in shared memory.
    offset: usize,
}

impl Tile {
    fn bytes(&self) -> u32 {
        let extents =
            self.map.box_sizes.iter().zip(&self.map.element_strides).map(|(size, stride)| size.div_ceil(*stride));
        extents.product::<u32>() * self.map.element.bytes() as u32
    }

    pub fn describe(&self) -> String {
        let TensorMap { element, sizes, strides, box_sizes, element_strides, swizzle, .. } = &self.map;
        let row = sizes[0] * element.bytes();
        let in_order = strides.is_sorted() && strides.iter().all(|stride| *stride >= row);
        let strides = if in_order { String::new() } else { format!(" strides {strides:?}") };
        let steps = if element_strides.iter().all(|stride| *stride == 1) {
            String::new()
        } else {
            format!(" steps {element_strides:?}")
        };
        format!(
            "{element:?} tensor {sizes:?}{strides} box {box_sizes:?}{steps} {swizzle:?} at {:?} to {}",
            self.origin, self.offset
        )
    }

    pub fn coordinates(&self) -> String {
        let origin: Vec<String> = self.origin.iter().map(i32::to_string).collect();
        format!("{{{}}}", origin.join(", "))
    }
}

pub(super) fn tile(sizes: &[u64], box_sizes: &[u32], origin: &[i32]) -> Tile {
    let mut stride = 2 * sizes[0].next_multiple_of(8);
    let mut strides = Vec::new();
    for size in &sizes[1..] {
        strides.push(stride);
        stride *= size;
    }
    let map = TensorMap {
        element: TensorElement::F16,
        address: 0,
        sizes: sizes.to_vec(),
        strides,
        box_sizes: box_sizes.to_vec(),
        element_strides: vec![1; sizes.len()],
        swizzle: Swizzle::None,
    };
    Tile { map, origin: origin.to_vec(), offset: 0 }
}

/// Tiles of every number of dimensions, swizzle and element, inside the tensor, across its edges, and outside. The first
/// coordinate is a multiple of 16 bytes: the hardware refuses others.
fn tiles() -> Vec<Tile> {
    let mut tiles = vec![
        tile(&[1000], &[64], &[104]),
        tile(&[1000], &[256], &[-16]),
        tile(&[1000], &[64], &[984]),
        tile(&[60, 15], &[24, 8], &[0, 0]),
        tile(&[60, 15], &[24, 8], &[40, 12]),
        tile(&[60, 15], &[24, 8], &[-8, -3]),
        tile(&[60, 15], &[8, 4], &[64, 20]),
        tile(&[57, 15], &[32, 4], &[40, 3]),
        tile(&[24, 6, 5], &[16, 4, 3], &[8, 1, 1]),
        tile(&[24, 6, 5], &[16, 4, 3], &[-8, 4, 3]),
        tile(&[24, 6, 5], &[16, 4, 3], &[16, -2, -1]),
        tile(&[24, 5, 4, 3], &[16, 3, 2, 2], &[8, 1, 1, 0]),
        tile(&[24, 5, 4, 3], &[16, 3, 2, 2], &[-8, 3, 3, 2]),
        tile(&[24, 5, 4, 3], &[16, 3, 2, 2], &[16, -1, -1, -1]),
        tile(&[24, 4, 3, 3, 3], &[16, 2, 2, 2, 2], &[8, 1, 1, 1, 1]),
        tile(&[24, 4, 3, 3, 3], &[16, 2, 2, 2, 2], &[16, 3, 2, 2, 2]),
        tile(&[24, 4, 3, 3, 3], &[16, 2, 2, 2, 2], &[-8, -1, -1, -1, -1]),
    ];
    for (swizzle, columns) in [(Swizzle::Bytes32, 16), (Swizzle::Bytes64, 32), (Swizzle::Bytes128, 64)] {
        for (origin, offset) in [([0, 0], 0), ([8, 3], 1024), ([-8, -3], 0), ([72, 9], 2048)] {
            let mut swizzled = tile(&[100, 20], &[columns, 16], &origin);
            swizzled.map.swizzle = swizzle;
            swizzled.offset = offset;
            tiles.push(swizzled);
        }
        // Targets that are no multiple of the pattern's period.
        for offset in [128, 640] {
            let mut swizzled = tile(&[100, 20], &[columns, 8], &[8, 2]);
            swizzled.map.swizzle = swizzle;
            swizzled.offset = offset;
            tiles.push(swizzled);
        }
        let mut deep = tile(&[72, 6, 5], &[columns, 4, 3], &[8, 1, -1]);
        deep.map.swizzle = swizzle;
        tiles.push(deep);
    }
    for (steps, origin) in [([1, 3], [0, 1]), ([1, 2], [-8, -1]), ([1, 8], [40, 3])] {
        let mut stepped = tile(&[60, 15], &[24, 8], &origin);
        stepped.map.element_strides = steps.to_vec();
        tiles.push(stepped);
    }
    for element in [
        TensorElement::U8,
        TensorElement::U16,
        TensorElement::U32,
        TensorElement::S32,
        TensorElement::U64,
        TensorElement::S64,
        TensorElement::Bf16,
        TensorElement::F32,
        TensorElement::F64,
    ] {
        let chunk = 16 / element.bytes() as i32;
        let mut other = tile(&[48, 8], &[32, 4], &[-chunk, 6]);
        other.map.element = element;
        other.map.strides = vec![48 * element.bytes()];
        tiles.push(other);
    }
    tiles
}

/// Tiles of tensors whose dimensions are not in the order of their strides, that repeat along a dimension, or whose rows
/// overlap.
fn strided_tiles() -> Vec<Tile> {
    let all_strides = [
        [3 * 128, 128, 3 * 1024],
        [128, 0, 1024],
        [128, 1024, 0],
        [0, 128, 512],
        [0, 0, 0],
        [16, 256, 1024],
        [128, 1024, 16],
    ];
    all_strides
        .map(|strides| {
            let mut strided = tile(&[64, 8, 3, 2], &[64, 16, 1, 1], &[0, 3, 1, 1]);
            strided.map.strides = strides.to_vec();
            strided.map.swizzle = Swizzle::Bytes128;
            strided
        })
        .into()
}

/// Tiles that are stored through a tensor map in a parameter.
fn tiles_stored_by_a_parameter() -> [Tile; 2] {
    let mut deep = tile(&[72, 6, 5], &[64, 4, 3], &[8, 1, 1]);
    deep.map.swizzle = Swizzle::Bytes128;
    [tile(&[60, 15], &[24, 8], &[40, 12]), deep]
}

/// The cases of this class.
pub fn cases() -> Vec<Case> {
    let form = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
    let mut cases = vec![load(form, "[%r2+64], [%input+48], 1040, [%r1]", 1040)];
    cases.push(store("cp.async.bulk.global.shared::cta.bulk_group", "[%input+32], [%r2+16], 1008", ""));
    cases.push(store("cp.async.bulk.global.shared::cta.bulk_group", "[%input+32], [%r2+16], 1008", ".read"));
    cases.extend(prefetches());
    cases.push(prefetch_of_a_parameter());
    for tile in tiles() {
        cases.push(with_map(load_tile(&tile, MapPlace::Parameter), &tile, MapPlace::Parameter));
        // The hardware refuses to store a tile that begins before the tensor.
        if tile.origin.iter().all(|coordinate| *coordinate >= 0) {
            cases.push(with_map(store_tile(&tile, MapPlace::Global), &tile, MapPlace::Global));
        }
    }
    for tile in tiles_stored_by_a_parameter() {
        cases.push(with_map(store_tile(&tile, MapPlace::Parameter), &tile, MapPlace::Parameter));
    }
    for tile in strided_tiles() {
        cases.push(with_map(load_tile(&tile, MapPlace::Global), &tile, MapPlace::Global));
    }
    cases
}

fn load_tile(tile: &Tile, place: MapPlace) -> Kernel {
    let rank = tile.map.sizes.len();
    let form = format!("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes");
    let operands = format!("[%r2+{}], [%map, {}], [%r1]", tile.offset, tile.coordinates());
    load_named(&format!("{form} {} {place:?}", tile.describe()), &form, &operands, tile.bytes())
}

fn store_tile(tile: &Tile, place: MapPlace) -> Kernel {
    let rank = tile.map.sizes.len();
    let form = format!("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group");
    let operands = format!("[%map, {}], [%r2+{}]", tile.coordinates(), tile.offset);
    store_named(&format!("{form} {} {place:?}", tile.describe()), &form, &operands, ".read")
}

fn with_map(kernel: Kernel, tile: &Tile, place: MapPlace) -> Case {
    kernel.tensor_map(tile.map.clone(), place).finish()
}

fn load(form: &str, operands: &str, bytes: u32) -> Case {
    load_named(form, form, operands, bytes).finish()
}

/// Bytes of the input.
const INPUT: usize = 2 * TILE;

/// What lies where a copy reads, and where it writes.
#[derive(Clone, Copy)]
enum Reads {
    Global,
    Shared,
}

/// Distinct words where the copy reads and equal ones where it writes.
fn base(name: &str, body: String, reads: Reads) -> Kernel {
    let distinct = (0..TILE as u16 / 2).flat_map(|index| index.wrapping_mul(0x9e37).to_le_bytes());
    let equal = std::iter::repeat_n(0x11, TILE);
    let input = match reads {
        Reads::Global => distinct.chain(equal).collect(),
        Reads::Shared => equal.chain(distinct).collect(),
    };
    Kernel::new(name, body).threads(THREADS as u32).input(input).output(TILE)
}

fn load_named(name: &str, form: &str, operands: &str, bytes: u32) -> Kernel {
    let body = format!(
        "{}@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {bytes};\n@%p2 {form} {operands};\n{WAIT}{}",
        setup(),
        copy_out()
    );
    base(name, body, Reads::Global)
}

pub(super) fn store(form: &str, operands: &str, waits: &str) -> Case {
    store_named(&format!("{form} wait_group{waits}"), form, operands, waits).finish()
}

pub(super) fn store_named(name: &str, form: &str, operands: &str, waits: &str) -> Kernel {
    // Reading back what was written needs the whole copy done, not only its reads.
    let first = if waits.is_empty() { String::new() } else { format!("@%p2 cp.async.bulk.wait_group{waits} 0;\n") };
    let body = format!(
        "{}@%p2 {form} {operands};\n@%p2 cp.async.bulk.commit_group;\n{first}@%p2 cp.async.bulk.wait_group 0;\n{}",
        setup(),
        copy_input()
    );
    base(name, body, Reads::Shared)
}

fn prefetches() -> Vec<Case> {
    let load = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint";
    let forms = [
        ("cp.async.bulk.prefetch.L2.global", "[%input], 1024"),
        ("prefetch.tensormap", "[%map]"),
        ("cp.async.bulk.prefetch.tensor.2d.L2.global.tile", "[%map, {0, 0}]"),
    ];
    let case = |(form, operands): (&str, &str)| {
        let body = format!(
            "{}mov.b64 %rd9, 0x12f0000000000000;\n@%p2 {form} {operands};\n\
             @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1024;\n@%p2 {load} [%r2], [%input], 1024, [%r1], %rd9;\n{WAIT}{}",
            setup(),
            copy_out()
        );
        with_map(base(form, body, Reads::Global), &tile(&[60, 15], &[24, 8], &[0, 0]), MapPlace::Global)
    };
    forms.map(case).into()
}

/// A tensor map in a parameter is prefetched, by both of its addresses, and used.
fn prefetch_of_a_parameter() -> Case {
    let tile = tile(&[60, 15], &[24, 8], &[0, 0]);
    let body = format!(
        "{}mov.b64 %rd8, map;\n@%p2 prefetch.param.tensormap [%rd8];\n@%p2 prefetch.tensormap [%map];\n\
         @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {};\n\
         @%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%map, {}], [%r1];\n{WAIT}{}",
        setup(),
        tile.bytes(),
        tile.coordinates(),
        copy_out()
    );
    with_map(base("prefetch.tensormap of a parameter", body, Reads::Global), &tile, MapPlace::Parameter)
}
