//! The constants in kernel-gpu/README.md have the values that the kernels of S = 512 have.
//!
//! The values come from the contract's tiles and from the files of the kernels that declare them, compiled here for the host. Files that
//! have instructions of the device are replaced by what the constants need of them, or read as text.
#![allow(dead_code, reason = "the kernels' files have more than their constants")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::marker::PhantomData;
use std::path::Path;

use contract::config;
use contract::tile::{Sm80, Sm90Tma};
use contract::variants::tiles;
use element::Element;
use kernel::Kernel;
use kernel_gpu::shared_tile::{self, F16};
use mask::{Causal, Full, Mask};
use tma::TmaKernel;

#[path = "../src/device/ptx/element.rs"]
mod element;
#[path = "../src/device/kernel.rs"]
mod kernel;
#[path = "../src/device/mask.rs"]
mod mask;
#[path = "../src/device/tma/kernel.rs"]
mod tma;

mod device {
    pub mod ptx {
        pub(crate) use crate::{element, wgmma};
    }
    pub mod tile {
        pub(crate) use crate::head_dim;
    }
    pub mod tma {
        pub(crate) use crate::mapped;
    }
    pub(crate) use crate::{kernel, mask, scores, sequence};
}

mod head_dim {
    pub trait HeadDim {
        const COLUMNS: u32;
        type Output;
    }
}

mod mapped {
    pub trait Mapped: crate::sequence::Sequence {
        const IS_LOOKED_UP: bool;
    }
}

mod math {
    pub fn pack_f16(_: f32, _: f32) -> u32 {
        unreachable!("only constants are evaluated")
    }
    pub use pack_f16 as pack_bf16;

    pub fn unpack_f16(_: u32) -> [f32; 2] {
        unreachable!("only constants are evaluated")
    }
}

mod scores {
    pub trait ScoreMod {
        const MODIFIES: bool;
    }
}

mod sequence {
    pub trait Sequence {
        const HAS_TAIL: bool;
    }
}

mod wgmma {
    pub trait Accumulators {}
    pub trait Registers {}
}

/// 64 columns.
struct Columns;

impl head_dim::HeadDim for Columns {
    const COLUMNS: u32 = config::HEAD_DIM;
    type Output = ();
}

impl wgmma::Accumulators for () {}
impl wgmma::Registers for () {}

/// 512 rows.
struct Exact;

impl sequence::Sequence for Exact {
    const HAS_TAIL: bool = false;
}

impl mapped::Mapped for Exact {
    const IS_LOOKED_UP: bool = false;
}

/// No score modifications.
struct Unmodified;

impl scores::ScoreMod for Unmodified {
    const MODIFIES: bool = false;
}

/// The tiles of the kernels of S = 512 with a mask.
trait Tiles: Mask + 'static {
    const HOPPER: Sm90Tma;
    const SM80: Sm80;
}

impl Tiles for Full {
    const HOPPER: Sm90Tma = tiles::fa512_sm90a_tma_s512_full_512x64;
    const SM80: Sm80 = tiles::fa512_sm80_s512_full_128x64;
}

impl Tiles for Causal {
    const HOPPER: Sm90Tma = tiles::fa512_sm90a_tma_s512_causal_512x64;
    const SM80: Sm80 = tiles::fa512_sm80_s512_causal_128x32;
}

/// The Hopper kernel with mask `M`, as `entries.rs` declares it.
struct Entry<M>(PhantomData<M>);

impl<M> Clone for Entry<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Entry<M> {}

impl<M: Tiles> Kernel for Entry<M> {
    type Element = F16;
    type HeadDim = Columns;
    type Sequence = Exact;
    type Mask = M;
    type ScoreMod = Unmodified;
}

impl<M: Tiles> TmaKernel for Entry<M> {
    const TILE: Sm90Tma = M::HOPPER;
}

const README: &str = include_str!("../README.md");
/// Values of a constant, under the full mask and under the causal one.
type Values = [String; 2];

/// The rows of the README's tables of constants: `| name | full | causal | meaning |`.
fn rows() -> BTreeMap<String, Values> {
    let mut rows = BTreeMap::new();
    for line in README.lines() {
        if let ["", name, full, causal, _, ""] = line.split('|').map(str::trim).collect::<Vec<_>>()[..]
            && let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'))
        {
            let before = rows.insert(name.to_owned(), [full, causal].map(str::to_owned));
            assert_eq!(before, None, "{name} has two rows");
        }
    }
    rows
}

/// The text of `const name: …` in `source`.
fn literal<'a>(source: &'a str, name: &str) -> &'a str {
    let (_, declaration) =
        source.split_once(&format!("const {name}: ")).unwrap_or_else(|| panic!("there is no {name}"));
    let value = declaration.split_once(" = ").and_then(|(_, value)| value.split_once(';'));
    value.unwrap_or_else(|| panic!("{name} has no value")).0
}

/// The constants of the kernels with mask `M`.
fn constants<M: Tiles>() -> Vec<(&'static str, String)> {
    let (hopper, sm80) = (M::HOPPER, M::SM80);
    let rows: &[(&str, &dyn Display)] = &[
        ("WARPGROUPS", &Entry::<M>::WARPGROUPS),
        ("Sm90Tma::passes", &hopper.passes),
        ("ROWS", &tma::ROWS),
        ("Sm90Tma::block_m", &hopper.block_m()),
        ("KEYS", &tma::KEYS),
        ("HEAD_DIM", &hopper.columns()),
        ("N_TILES", &tma::N_TILES),
        ("K_STEPS", &tma::K_STEPS),
        ("STAGES", &Entry::<M>::STAGES),
        ("Sm90Tma::threads", &hopper.threads()),
        ("Sm90Tma::min_blocks", &hopper.min_blocks),
        ("Sm90Tma::launch_registers", &hopper.launch_registers()),
        ("CONSUMER_REGISTERS", &hopper.consumer_registers()),
        ("PRODUCER_REGISTERS", &hopper.producer_registers()),
        ("Sm90Tma::accumulator_registers", &hopper.accumulator_registers()),
        ("Sm90Tma::query_rows", &hopper.query_rows()),
        ("Sm90Tma::mbarriers", &hopper.mbarriers()),
        ("Sm90Tma::ones_bytes", &hopper.ones_bytes()),
        ("Sm90Tma::shared_bytes", &hopper.shared_bytes()),
        ("Sm90Tma::grid", &format!("{:?}", hopper.grid)),
        ("SPLITS_KEYS", &hopper.splits_keys()),
        ("IS_CAUSAL", &Entry::<M>::IS_CAUSAL),
        ("TAKES_TURNS", &Entry::<M>::TAKES_TURNS),
        ("OVERLAPS", &Entry::<M>::OVERLAPS),
        ("GUESSES_SHIFTS", &Entry::<M>::GUESSES_SHIFTS),
        ("SUMS_BY_PRODUCT", &Entry::<M>::SUMS_BY_PRODUCT),
        ("COMPLETES_AFTER_OUTPUT", &Entry::<M>::COMPLETES_AFTER_OUTPUT),
        ("FIRST_VALUES_APART", &Entry::<M>::FIRST_VALUES_APART),
        ("FINDS_ITEMS_AHEAD", &Entry::<M>::FINDS_ITEMS_AHEAD),
        ("LARGEST_EXPONENT", &F16::LARGEST_EXPONENT),
        ("HEADROOM", &F16::HEADROOM),
        ("GUESSED_FROM", &literal(include_str!("../src/device/softmax/mod.rs"), "GUESSED_FROM")),
        ("FIRST_TILES", &literal(include_str!("../src/device/forward/sm90/producer.rs"), "FIRST_TILES")),
        ("Sm80::block_m", &sm80.block_m),
        ("Sm80::block_n", &sm80.block_n),
        ("Sm80::warps", &sm80.warps),
        ("Sm80::m_tiles", &sm80.m_tiles()),
        ("Sm80::k_steps", &sm80.k_steps()),
        ("Sm80::stages", &sm80.stages),
        ("Sm80::threads", &sm80.threads()),
        ("Sm80::min_blocks", &sm80.min_blocks),
        ("Sm80::shared_bytes", &sm80.shared_bytes()),
        ("Sm80::k_steps_together", &sm80.k_steps_together()),
        ("CHECKED_AFTER", &literal(include_str!("../src/device/forward/sm80/pipeline.rs"), "CHECKED_AFTER")),
    ];
    rows.iter().map(|(name, value)| (*name, value.to_string())).collect()
}

#[test]
fn the_readme_states_the_constants_of_the_kernels() {
    let constants = constants::<Full>().into_iter().zip(constants::<Causal>());
    let constants: BTreeMap<_, _> =
        constants.map(|((name, full), (_, causal))| (name.to_owned(), [full, causal])).collect();
    let stated = rows();
    let names: BTreeSet<_> = constants.keys().chain(stated.keys()).collect();
    let differing = names.into_iter().filter(|&name| constants.get(name) != stated.get(name));
    let problems: Vec<String> = differing
        .map(|name| format!("{name} is {:?}, in the README {:?}", constants.get(name), stated.get(name)))
        .collect();
    assert!(problems.is_empty(), "kernel-gpu/README.md, [full, causal]:\n{}", problems.join("\n"));
}

/// The identifiers of the Rust files below `folder`.
fn identifiers(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            identifiers(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.extend(words(&fs::read_to_string(&entry).expect("a readable file")).map(str::to_owned));
        }
    }
}

/// The identifiers in a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Names of the sources in the README: code spans that are a name or a path of names, and what its listings call.
fn names() -> impl Iterator<Item = &'static str> {
    let is_name = |text: &&str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
    let (text, listings): (Vec<_>, Vec<_>) = README.split("```").enumerate().partition(|(part, _)| part % 2 == 0);
    let spans = text.into_iter().flat_map(|(_, text)| text.split('`').skip(1).step_by(2));
    let called =
        listings.into_iter().flat_map(|(_, listing)| listing.split('(')).filter_map(|before| words(before).last());
    spans.filter(is_name).flat_map(words).chain(called)
}

#[test]
fn the_readme_uses_names_of_the_sources() {
    let mut sources = BTreeSet::new();
    for folder in ["src", "contract/src"] {
        identifiers(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut sources);
    }
    let unknown: BTreeSet<_> = names().filter(|&name| !sources.contains(name)).collect();
    assert!(unknown.is_empty(), "no source below kernel-gpu has these names of kernel-gpu/README.md: {unknown:?}");
}
