//! A launch that was validated before it exists.

use std::num::NonZero;
use std::ops::Range;

use contract::args::{ForwardArgs, Strides};
use contract::config::{Loads, Mask, Sequence};
use contract::divisor::Divisor;
use contract::geometry::{MAXIMUM_WORK_ITEMS, blocks, query_tiles, work_items};
use contract::last_round::LastRound;
use contract::manifest::{ArgumentLayout, Entry};

use crate::error::{Error, Result};
use crate::executor::Device;
use crate::problem::{Problem, mask_name};
use crate::tensor_map;

/// Alignment of every tensor in device memory, bytes.
pub const TENSOR_ALIGNMENT: u64 = 16;
/// Alignment of every tensor map in device memory, bytes.
pub const TENSOR_MAP_ALIGNMENT: u64 = 64;

/// One kernel launch. Only planned and validated launches can be made, so an executor can trust its fields.
#[derive(Clone, Debug)]
pub struct Launch {
    entry: String,
    blocks: u32,
    threads: u32,
    dynamic_shared_bytes: u32,
    overlaps_previous: bool,
    args: ForwardArgs,
}

/// How the heads of the last of several rounds are dealt out: in strips where an item of `entry` is a whole head with strips
/// of one length.
fn last_round(entry: &Entry, work_items: u32, blocks: u32) -> LastRound {
    if entry.config.passes > 1 && entry.mask == Mask::Full {
        LastRound::in_strips(work_items, blocks)
    } else {
        LastRound::whole(work_items, blocks)
    }
}

/// Device addresses of the tensors of a launch: of their first elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Q, fp16.
    pub q: u64,
    /// K, fp16.
    pub k: u64,
    /// V, fp16.
    pub v: u64,
    /// O, fp16.
    pub o: u64,
    /// LSE, f32, `[B,H,S]` contiguous; `None` when it is not wanted.
    pub lse: Option<u64>,
    /// Tensor maps of Q, K, V and O; `None` for an entry that does not copy through them.
    pub tensor_maps: Option<[u64; 4]>,
}

impl Launch {
    /// Plans the launch of `entry` for `problem` on `device`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the entry does not accept the problem or does not fit the device, when there are more work
    /// items than one launch can have, or when a tensor or tensor map is null, misaligned, beyond the 64-bit address space,
    /// or an output overlaps another tensor.
    pub fn plan(problem: &Problem, entry: &Entry, addresses: Addresses, device: &Device) -> Result<Self> {
        check_accepts(entry, problem)?;
        check_fits(entry, device)?;
        check_addresses(problem, addresses)?;
        let shape = problem.shape();
        let query_tiles = query_tiles(shape.sequence, entry.config.block_m);
        let work_items = work_items(shape.batch, shape.heads, query_tiles).ok_or_else(|| {
            Error::Invalid(format!(
                "batch {} × heads {} × {query_tiles} query tiles are more than one launch computes \
                 ({MAXIMUM_WORK_ITEMS}); split the batch",
                shape.batch, shape.heads
            ))
        })?;
        let [q_map, k_map, v_map, o_map] = check_tensor_maps(entry, addresses.tensor_maps)?;
        let strides = problem.strides();
        let blocks = blocks(entry.config.grid, work_items, device.multiprocessors, entry.config.min_blocks);
        let last_round = last_round(entry, work_items, blocks);
        let args = ForwardArgs {
            q: addresses.q,
            k: addresses.k,
            v: addresses.v,
            o: addresses.o,
            lse: addresses.lse.unwrap_or(0),
            q_map,
            k_map,
            v_map,
            o_map,
            q_strides: strides.q,
            k_strides: strides.k,
            v_strides: strides.v,
            o_strides: strides.o,
            scale_log2: problem.scale_log2(),
            sequence: shape.sequence,
            heads: Divisor::new(positive(shape.heads)),
            query_tiles: Divisor::new(positive(query_tiles)),
            work_items: positive(work_items),
            last_round,
        };
        Ok(Self {
            entry: entry.name.clone(),
            blocks,
            threads: entry.threads,
            dynamic_shared_bytes: entry.dynamic_shared_bytes,
            overlaps_previous: entry.waits_for_previous_grid,
            args,
        })
    }

    /// Name of the `.entry`.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// Blocks of the grid (x dimension; y and z are 1).
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Threads of a block (x dimension; y and z are 1).
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Dynamic shared memory of a block, bytes.
    pub fn dynamic_shared_bytes(&self) -> u32 {
        self.dynamic_shared_bytes
    }

    /// Whether it may begin while the launch before it on the stream ends: the kernel waits for that one by itself.
    pub fn overlaps_previous(&self) -> bool {
        self.overlaps_previous
    }

    /// The kernel's only argument.
    pub fn args(&self) -> &ForwardArgs {
        &self.args
    }

    /// The bytes of [`Self::args`], as they go to the `.param` space.
    pub fn argument_bytes(&self) -> &[u8] {
        // SAFETY: ForwardArgs is repr(C) and has no padding (its definition asserts that its size is the sum of its
        // fields'), so all of its bytes are initialised.
        unsafe { std::slice::from_raw_parts((&raw const self.args).cast(), size_of::<ForwardArgs>()) }
    }
}

/// A dimension of a [`Problem`], none of which is 0.
fn positive(dimension: u32) -> NonZero<u32> {
    NonZero::new(dimension).expect("a problem has no empty dimension")
}

/// Requires that `entry` computes `problem`.
///
/// # Errors
/// [`Error::Invalid`] with what the entry accepts.
pub fn check_accepts(entry: &Entry, problem: &Problem) -> Result<()> {
    let name = &entry.name;
    if entry.arguments != ArgumentLayout::forward() {
        return Err(Error::Invalid(format!(
            "{name} takes arguments of another layout than this program passes: its PTX belongs to another build \
             (`cargo xtask ptx` makes a matching one)"
        )));
    }
    let sequence = problem.shape().sequence;
    if !entry.sequence.accepts(sequence) {
        let accepted = match entry.sequence {
            Sequence::Exact(length) => format!("exactly {length}"),
            Sequence::Any => "1 or more".into(),
        };
        return Err(Error::Invalid(format!("{name} does not accept sequence {sequence}, only {accepted}")));
    }
    if entry.mask != problem.mask() {
        return Err(Error::Invalid(format!(
            "{name} computes a {} mask, not a {} one",
            mask_name(entry.mask),
            mask_name(problem.mask())
        )));
    }
    match entry.config.loads {
        Loads::CpAsync => Ok(()),
        Loads::Tma => tensor_map::check(name, problem),
    }
}

/// Requires that `device` can run `entry`.
///
/// # Errors
/// [`Error::Invalid`] with what the entry needs and the device has.
pub fn check_fits(entry: &Entry, device: &Device) -> Result<()> {
    if !entry.family.runs_on(device.architecture) {
        return Err(Error::Invalid(format!(
            "{} needs {}; {} is sm_{}",
            entry.name,
            entry.family.requirement(),
            device.name,
            device.architecture
        )));
    }
    if device.shared_bytes_per_block < entry.dynamic_shared_bytes {
        return Err(Error::Invalid(format!(
            "{} needs {} bytes of shared memory per block; {} has {}",
            entry.name, entry.dynamic_shared_bytes, device.name, device.shared_bytes_per_block
        )));
    }
    Ok(())
}

fn check_addresses(problem: &Problem, addresses: Addresses) -> Result<()> {
    let strides = problem.strides();
    let half = |strides: Strides| u128::from(problem.extent(strides)) * size_of::<half::f16>() as u128;
    let inputs = [
        tensor_range("Q", addresses.q, half(strides.q))?,
        tensor_range("K", addresses.k, half(strides.k))?,
        tensor_range("V", addresses.v, half(strides.v))?,
    ];
    let output = tensor_range("O", addresses.o, half(strides.o))?;
    check_apart("O", &output, ["Q", "K", "V"].into_iter().zip(&inputs))?;
    let Some(lse) = addresses.lse else { return Ok(()) };
    let lse = tensor_range("LSE", lse, problem.shape().rows() * size_of::<f32>() as u128)?;
    check_apart("LSE", &lse, ["Q", "K", "V", "O"].into_iter().zip(inputs.iter().chain([&output])))
}

/// The tensor maps as the arguments of `entry` have them.
fn check_tensor_maps(entry: &Entry, maps: Option<[u64; 4]>) -> Result<[u64; 4]> {
    let maps = match entry.config.loads {
        Loads::CpAsync => return Ok([0; 4]),
        Loads::Tma => maps.unwrap_or_default(),
    };
    match maps.iter().find(|&&address| address == 0 || !address.is_multiple_of(TENSOR_MAP_ALIGNMENT)) {
        None => Ok(maps),
        Some(address) => Err(Error::Invalid(format!(
            "a tensor map is at address {address:#x}; {} needs those of Q, K, V and O, each at a non-zero multiple of \
             {TENSOR_MAP_ALIGNMENT}",
            entry.name
        ))),
    }
}

fn tensor_range(name: &str, address: u64, bytes: u128) -> Result<Range<u64>> {
    if address == 0 || !address.is_multiple_of(TENSOR_ALIGNMENT) {
        return Err(Error::Invalid(format!(
            "{name} is at address {address:#x}; it must be a non-zero multiple of {TENSOR_ALIGNMENT}"
        )));
    }
    let end = u64::try_from(u128::from(address) + bytes).map_err(|_| {
        Error::Invalid(format!("{name} at address {address:#x} with {bytes} bytes ends beyond 64-bit addresses"))
    })?;
    Ok(address..end)
}

fn check_apart<'a>(
    name: &str,
    range: &Range<u64>,
    others: impl Iterator<Item = (&'a str, &'a Range<u64>)>,
) -> Result<()> {
    for (other_name, other) in others {
        if range.start < other.end && other.start < range.end {
            return Err(Error::Invalid(format!(
                "{name} at {range:#x?} overlaps {other_name} at {other:#x?}; outputs need memory of their own"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::DeviceKind;
    use crate::problem::{Layout, Shape};
    use contract::config::{Family, Grid, Loads, Mask, TileConfig};
    use contract::variants::{VARIANTS, Variant};

    const ADDRESSES: Addresses =
        Addresses { q: 1 << 20, k: 2 << 20, v: 3 << 20, o: 4 << 20, lse: Some(5 << 20), tensor_maps: None };

    const MAPS: [u64; 4] = [64, 128, 192, 256];

    fn maps(args: &ForwardArgs) -> [u64; 4] {
        [args.q_map, args.k_map, args.v_map, args.o_map]
    }

    fn device() -> Device {
        Device {
            kind: DeviceKind::Simulator,
            name: "test device".into(),
            architecture: 90,
            shared_bytes_per_block: 227 * 1024,
            multiprocessors: 132,
            l2_bytes: None,
            driver: None,
            uuid: None,
        }
    }

    fn problem(batch: u32, sequence: u32) -> Problem {
        Problem::new(Shape { batch, heads: 2, sequence }, Mask::Full, Layout::Bhsd).unwrap()
    }

    fn entry(sequence: Sequence) -> Entry {
        let accepts = |variant: &&_| {
            let variant: &contract::variants::Variant = variant;
            variant.sequence == sequence && variant.mask == Mask::Full && variant.config.loads == Loads::CpAsync
        };
        VARIANTS.iter().find(accepts).expect("a full-mask variant of that length without tensor maps").into()
    }

    fn any() -> Entry {
        entry(Sequence::Any)
    }

    /// An entry whose tiles come through tensor maps.
    fn tma() -> Entry {
        let config = TileConfig {
            block_m: 256,
            block_n: 64,
            warps: 16,
            stages: 8,
            grid: Grid::Persistent,
            ..TileConfig::SM_90A_TMA
        };
        let variant =
            Variant { entry: "tma", family: Family::Sm90a, config, sequence: Sequence::Any, mask: Mask::Full };
        Entry::from(&variant)
    }

    fn refusal(problem: &Problem, entry: &Entry, addresses: Addresses, device: &Device) -> String {
        Launch::plan(problem, entry, addresses, device).unwrap_err().to_string()
    }

    #[test]
    fn a_plan_carries_the_geometry_and_arguments_of_the_problem() {
        let entry = any();
        let launch = Launch::plan(&problem(3, 130), &entry, ADDRESSES, &device()).unwrap();
        let query_tiles = 130u32.div_ceil(entry.config.block_m);
        assert_eq!(launch.blocks(), 3 * 2 * query_tiles);
        assert_eq!(launch.threads(), entry.config.threads());
        assert_eq!(launch.args().query_tiles.get().get(), query_tiles);
        assert_eq!(launch.args().work_items.get(), launch.blocks(), "a block for each");
        assert_eq!(maps(launch.args()), [0; 4]);
        assert_eq!(launch.args().lse, 5 << 20);
        assert_eq!(launch.args().scale_log2, (0.125 * std::f64::consts::LOG2_E) as f32);
        let without = Launch::plan(&problem(3, 130), &entry, Addresses { lse: None, ..ADDRESSES }, &device()).unwrap();
        assert_eq!(without.args().lse, 0);
    }

    #[test]
    fn only_whole_heads_with_strips_of_one_length_are_dealt_out_in_strips() {
        let entry = |passes, mask| {
            let config = TileConfig { block_m: 256 * passes, passes, ..tma().config };
            Entry::from(&Variant { entry: "tma", family: Family::Sm90a, config, sequence: Sequence::Exact(512), mask })
        };
        let apart = |tensor: u64| tensor << 30;
        let [q, k, v, o] = [1, 2, 3, 4].map(apart);
        let with_maps = Addresses { q, k, v, o, lse: None, tensor_maps: Some(MAPS) };
        // 200 heads, and as many items or twice that.
        let last_round = |passes, mask| {
            let problem = Problem::new(Shape { batch: 100, heads: 2, sequence: 512 }, mask, Layout::Bhsd).unwrap();
            Launch::plan(&problem, &entry(passes, mask), with_maps, &device()).unwrap().args().last_round
        };
        assert_eq!(last_round(2, Mask::Full), LastRound::in_strips(200, 132));
        assert!(last_round(2, Mask::Full).is_split());
        assert_eq!(last_round(2, Mask::Causal), LastRound::whole(200, 132));
        assert_eq!(last_round(1, Mask::Full), LastRound::whole(400, 132));
    }

    #[test]
    fn a_persistent_grid_has_the_blocks_that_the_device_has_room_for() {
        let with_maps = Addresses { tensor_maps: Some(MAPS), ..ADDRESSES };
        for (batch, sequence, items, expected) in [(100, 8, 200, 132), (3, 500, 12, 12)] {
            let launch = Launch::plan(&problem(batch, sequence), &tma(), with_maps, &device()).unwrap();
            assert_eq!(launch.blocks(), expected, "batch {batch}");
            assert_eq!(launch.args().work_items.get(), items);
            assert_eq!(launch.threads(), (16 + 4) * 32);
            assert_eq!(maps(launch.args()), MAPS);
        }
    }

    #[test]
    fn an_entry_that_loads_through_tensor_maps_needs_them() {
        let refused = |tensor_maps, problem: &Problem| {
            refusal(problem, &tma(), Addresses { tensor_maps, ..ADDRESSES }, &device())
        };
        let message = refused(None, &problem(1, 8));
        assert!(message.contains("tma needs those of Q, K, V and O"), "{message}");
        assert!(refused(Some([64, 128, 192, 200]), &problem(1, 8)).contains("a tensor map is at address 0xc8"));
        let apart = problem(4, 8);
        let k = Strides { batch: 1 << 39, ..apart.strides().k };
        let apart = apart.with_strides(crate::problem::TensorStrides { k, ..*apart.strides() }).unwrap();
        let message = refused(Some(MAPS), &apart);
        assert!(message.contains("tma copies K through a tensor map"), "{message}");
    }

    #[test]
    fn an_entry_refuses_what_it_was_not_compiled_for() {
        let exact = entry(Sequence::Exact(512));
        assert!(
            refusal(&problem(1, 511), &exact, ADDRESSES, &device())
                .contains("does not accept sequence 511, only exactly 512")
        );
        let causal = Problem::new(problem(1, 8).shape(), Mask::Causal, Layout::Bhsd).unwrap();
        assert!(refusal(&causal, &any(), ADDRESSES, &device()).contains("computes a full mask, not a causal one"));
        let mut other_build = any();
        other_build.arguments.size += 8;
        assert!(refusal(&problem(1, 8), &other_build, ADDRESSES, &device()).contains("another build"));
    }

    #[test]
    fn a_device_that_is_too_old_or_too_small_is_refused() {
        for variant in VARIANTS.iter().filter(|variant| variant.mask == Mask::Full) {
            let entry = Entry::from(variant);
            let problem = problem(1, 512);
            for architecture in [75, 80, 89, 90, 100] {
                let device = Device { architecture, ..device() };
                let fits = check_fits(&entry, &device);
                assert_eq!(fits.is_ok(), variant.family.runs_on(architecture), "{} on sm_{architecture}", entry.name);
            }
            let old = Device { architecture: 75, ..device() };
            let message = refusal(&problem, &entry, ADDRESSES, &old);
            assert!(message.contains(&format!("needs {}", variant.family.requirement())), "{message}");
        }
        let small = Device { shared_bytes_per_block: 16, ..device() };
        assert!(refusal(&problem(1, 8), &any(), ADDRESSES, &small).contains("shared memory"));
    }

    #[test]
    fn a_launch_has_no_more_than_the_maximum_of_work_items() {
        let broadcast = Strides { batch: 0, head: 0, row: 64 };
        let shape = Shape { batch: 1 << 30, heads: 2, sequence: 1 };
        let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
        let strides = crate::problem::TensorStrides { q: broadcast, k: broadcast, v: broadcast, ..*problem.strides() };
        let problem = problem.with_strides(strides).unwrap();
        let addresses = Addresses { o: 1 << 40, ..ADDRESSES };
        assert!(refusal(&problem, &any(), Addresses { lse: None, ..addresses }, &device()).contains("split the batch"));
    }

    #[test]
    fn addresses_are_checked() {
        let problem = problem(1, 8);
        let refused = |addresses| refusal(&problem, &any(), addresses, &device());
        assert!(refused(Addresses { k: (2 << 20) + 8, ..ADDRESSES }).contains("K is at address 0x200008"));
        assert!(refused(Addresses { q: 0, ..ADDRESSES }).contains("Q is at address 0x0"));
        assert!(refused(Addresses { v: u64::MAX - 15, ..ADDRESSES }).contains("beyond 64-bit addresses"));
        assert!(refused(Addresses { o: ADDRESSES.q, ..ADDRESSES }).contains("O at"));
        assert!(refused(Addresses { lse: Some(ADDRESSES.o), ..ADDRESSES }).contains("LSE at"));
    }
}
