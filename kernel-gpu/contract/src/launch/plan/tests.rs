extern crate std;

use super::*;
use crate::choose::cost::SHIPPED;
use crate::launch::args::Strides;
use crate::launch::variants::VARIANTS;
use crate::schedule::tile::{Configuration, Grid, Sm90Tma};
use crate::spec::config::Element;
use crate::spec::packing::{Lengths, Packing};
use crate::spec::problem::{Alignment, ScoreMod, Shape, Window};
use crate::spec::view::{Layout, View, Views};
use std::string::{String, ToString};

const ADDRESSES: Addresses = Addresses { lse: Some(5 << 20), ..Addresses::new(1 << 20, 2 << 20, 3 << 20, 4 << 20) };
const GPU: Gpu<'_> =
    Gpu { name: "test device", architecture: 90, multiprocessors: 132, shared_bytes_per_block: 227 * 1024 };

fn problem(batch: u32, sequence: u32) -> Problem {
    Problem::new(Shape::new(batch, 2, sequence), Mask::Full, Layout::Bhsd).unwrap()
}

/// A problem of packed sequences with `rows` rows in total.
fn packed(sequences: u32, rows: u32) -> Problem {
    problem(1, rows).packed(Packing::new(sequences, rows)).unwrap()
}

fn variant(sequence: Sequence) -> Variant<'static> {
    let accepts = |variant: &&Variant<'_>| {
        variant.sequence == sequence && variant.mask == Mask::Full && !variant.config.uses_tensor_maps()
    };
    *VARIANTS.iter().find(accepts).expect("a full-mask variant of that length without tensor maps")
}

fn any() -> Variant<'static> {
    variant(Sequence::Any)
}

const TMA: Sm90Tma = Sm90Tma { grid: Grid::Persistent, ..Sm90Tma::new(4, 8) };

/// A variant with tensor maps.
fn tma() -> Variant<'static> {
    let (element, sequence, mask) = (Element::F16, Sequence::Any, Mask::Full);
    let config = Configuration::Sm90Tma(TMA);
    Variant {
        entry: "tma",
        config,
        element,
        sequence,
        mask,
        scores: Scores::Unmodified,
        waits_for_previous_grid: true,
        leaves_parts: false,
    }
}

fn launch(problem: &Problem, variant: Variant<'static>, addresses: Addresses) -> Launch<'static> {
    Plan::new(problem, variant, &GPU).unwrap().bind(addresses).unwrap()
}

fn refusal(problem: &Problem, variant: Variant<'_>, gpu: &Gpu<'_>) -> String {
    Plan::new(problem, variant, gpu).unwrap_err().to_string()
}

#[test]
fn a_launch_carries_the_geometry_and_arguments_of_the_problem() {
    let bound = launch(&problem(3, 130), any(), ADDRESSES);
    let query_tiles = 130u32.div_ceil(any().config.block_m());
    assert_eq!(bound.blocks(), 3 * 2 * query_tiles);
    assert_eq!(bound.threads(), any().config.threads());
    assert_eq!(bound.args().query_tiles.get().get(), query_tiles);
    assert_eq!(bound.args().work_items.get(), bound.blocks(), "a block for each");
    assert_eq!(bound.tensor_maps(), None);
    assert_eq!(bound.args().lse, 5 << 20);
    assert_eq!(bound.args().scale_log2, (0.125 * std::f64::consts::LOG2_E) as f32);
    assert_eq!(launch(&problem(3, 130), any(), Addresses { lse: None, ..ADDRESSES }).args().lse, 0);
}

#[test]
fn only_whole_heads_with_strips_of_one_length_are_dealt_out_in_strips() {
    // 200 heads: as many items, or twice as many.
    let last_round = |passes, mask| {
        let config = Configuration::Sm90Tma(Sm90Tma { passes, ..TMA });
        let variant = Variant { config, mask, sequence: Sequence::Exact(512), ..tma() };
        let problem = Problem::new(Shape::new(100, 2, 512), mask, Layout::Bhsd).unwrap();
        Plan::new(&problem, variant, &GPU).unwrap().args.last_round
    };
    assert_eq!(last_round(2, Mask::Full), LastRound::in_strips(200, 132));
    assert!(last_round(2, Mask::Full).is_split());
    assert_eq!(last_round(2, Mask::Causal), LastRound::whole(200, 132));
    assert_eq!(last_round(1, Mask::Full), LastRound::whole(400, 132));
}

#[test]
fn a_persistent_grid_has_the_blocks_that_the_device_has_room_for() {
    for (batch, sequence, items, expected) in [(100, 8, 200, 132), (3, 500, 12, 12)] {
        let bound = launch(&problem(batch, sequence), tma(), ADDRESSES);
        assert_eq!(bound.blocks(), expected, "batch {batch}");
        assert_eq!(bound.args().work_items.get(), items);
        assert_eq!(bound.threads(), (16 + 4) * 32);
    }
}

#[test]
fn a_launch_that_leaves_places_free_asks_for_the_shared_memory_of_even_shares() {
    let config = Configuration::Sm90Tma(Sm90Tma { grid: Grid::Persistent, min_blocks: 3, ..Sm90Tma::new(1, 3) });
    let small = Variant { config, ..tma() };
    for (batch, is_spread) in [(66, false), (67, true), (132, true), (133, false)] {
        let bound = launch(&problem(batch, 8), small, ADDRESSES);
        assert_eq!(bound.dynamic_shared_bytes(), config.shared_bytes());
        assert_eq!(bound.launched_shared_bytes() > config.shared_bytes(), is_spread, "{} blocks", bound.blocks());
    }
}

#[test]
fn a_variant_that_copies_through_tensor_maps_has_those_of_its_tensors() {
    let problem = problem(3, 8);
    let o = View { offset: 64, ..problem.views().o };
    let problem = problem.with_views(Views { o, ..*problem.views() }).unwrap();
    let mut bound = launch(&problem, tma(), ADDRESSES);
    let maps = bound.tensor_maps().expect("it copies through them");
    assert_eq!(maps.map(|map| map.address), [1 << 20, 2 << 20, 3 << 20, (4 << 20) + 128]);
    assert_eq!(maps[3], TensorMap::of(&problem, Tensor::O, (4 << 20) + 128, 64));
    let encoded = TensorMaps([1, 2, 3, 4].map(|byte| [byte; TENSOR_MAP_BYTES as usize]));
    bound.set_tensor_maps(encoded);
    assert_eq!(bound.encoded_tensor_maps(), Some(&encoded));
    assert_eq!(launch(&problem, any(), ADDRESSES).encoded_tensor_maps(), None);
    let k = View::new(Strides { batch: 1 << 39, ..problem.views().k.strides });
    let apart = problem.with_views(Views { k, ..*problem.views() }).unwrap();
    assert!(refusal(&apart, tma(), &GPU).contains("copies K through a tensor map"));
}

#[test]
fn a_variant_refuses_what_it_was_not_compiled_for() {
    let exact = variant(Sequence::Exact(512));
    assert!(refusal(&problem(1, 511), exact, &GPU).contains("does not accept sequence 511, only exactly 512"));
    let causal = Problem::new(problem(1, 8).shape(), Mask::Causal, Layout::Bhsd).unwrap();
    assert!(refusal(&causal, any(), &GPU).contains("computes a full mask, not a causal one"));
}

#[test]
fn rows_must_fit_the_tiles_and_fill_those_of_an_exact_length() {
    let of = |head_dim, sequence| {
        Problem::new(Shape::new(1, 2, sequence).with_head_dim(head_dim), Mask::Full, Layout::Bshd).unwrap()
    };
    let narrow = of(40, 512);
    let bound = launch(&narrow, tma(), ADDRESSES);
    assert_eq!((bound.args().head_dim, bound.args().q_strides.row), (40, 80));
    assert_eq!(bound.tensor_maps().unwrap()[0].sizes[0], 40);
    assert!(refusal(&of(72, 8), tma(), &GPU).contains("computes a head_dim of at most 64, the problem's is 72"));
    let exact = Variant { sequence: Sequence::Exact(512), ..tma() };
    launch(&of(64, 512), exact, ADDRESSES);
    assert!(refusal(&narrow, exact, &GPU).contains("computes a head_dim of exactly 64, the problem's is 40"));
}

#[test]
fn a_gpu_that_is_too_old_or_too_small_is_refused() {
    for &variant in VARIANTS.iter().filter(|variant| variant.mask == Mask::Full) {
        for architecture in [75, 80, 89, 90, 100] {
            let fits = variant.check_fits(&Gpu { architecture, ..GPU });
            assert_eq!(fits.is_ok(), variant.family().runs_on(architecture), "{} on sm_{architecture}", variant.entry);
        }
        let shape = problem(1, 512).shape().with_head_dim(variant.config.columns());
        let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap().with_element(variant.element);
        let problem = match variant.sequence {
            Sequence::Packed => problem.packed(Packing::new(3, 512)).unwrap(),
            Sequence::Exact(_) | Sequence::Any => problem,
        };
        let message = refusal(&problem, variant, &Gpu { architecture: 75, ..GPU });
        assert!(message.contains(&std::format!("needs {}", variant.family().requirement())), "{message}");
    }
    let small = Gpu { shared_bytes_per_block: 16, ..GPU };
    assert!(refusal(&problem(1, 8), any(), &small).contains("shared memory"));
}

#[test]
fn a_launch_has_no_more_than_the_maximum_of_work_items() {
    let broadcast = View::new(Strides { batch: 0, head: 0, row: 64 });
    let shape = Shape::new(1 << 30, 2, 1);
    let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
    let views = Views { o: problem.views().o, ..Views::all(broadcast) };
    let problem = problem.with_views(views).unwrap();
    assert!(refusal(&problem, any(), &GPU).contains("split the batch"));
}

#[test]
fn packed_sequences_and_a_batch_of_one_length_have_kernels_of_their_own() {
    let message = refusal(&packed(3, 512), any(), &GPU);
    assert!(message.contains("one length, not packed"), "{message}");
    let message = refusal(&problem(1, 512), variant(Sequence::Packed), &GPU);
    assert!(message.contains("packed sequences, not a batch"), "{message}");
    let refused = |problem: Problem, sequences| problem.packed(Packing::new(sequences, 1)).unwrap_err().to_string();
    assert!(refused(problem(2, 512), 3).contains("a packed problem has batch 2"));
    assert!(refused(problem(1, 512), 0).contains("sequences is 0"));
}

#[test]
fn a_packed_launch_has_a_slot_for_every_tile_and_the_address_of_the_lengths() {
    let variant = variant(Sequence::Packed);
    let plan = Plan::new(&packed(3, 1_000), variant, &GPU).unwrap();
    assert_eq!(plan.blocks(), 2 * (1_000 / variant.config.block_m() + 3));
    let bound = plan.bind(Addresses { cu_seqlens: Some(6 << 20), ..ADDRESSES }).unwrap();
    let ForwardArgs { cu_seqlens, sequence: rows, sequences, .. } = *bound.args();
    assert_eq!((cu_seqlens, rows, sequences), (6 << 20, 1_000, 3));
    let refused = |cu_seqlens| plan.bind(Addresses { cu_seqlens, ..ADDRESSES }).unwrap_err().to_string();
    assert!(refused(None).contains("cu_seqlens is missing"));
    assert!(refused(Some(6 << 20 | 2)).contains("cu_seqlens is at address 0x600002"));
    assert!(refused(Some(0)).contains("non-zero multiple of 4"));
    assert!(refused(Some(u64::MAX - 3)).contains("beyond 64-bit addresses"));
    assert!(refused(Some(ADDRESSES.o + 4)).contains("O at"), "an output must not be written over the lengths");
    let unexpected = Plan::new(&problem(1, 8), any(), &GPU).unwrap();
    let unexpected = unexpected.bind(Addresses { cu_seqlens: Some(6 << 20), ..ADDRESSES }).unwrap_err();
    assert!(unexpected.to_string().contains("the problem is not packed"));
}

/// A problem of two sequences whose K and V have other lengths than Q.
fn separate() -> Problem {
    let shape = Shape::new(1, 2, 1_000).with_kv_sequence(300);
    Problem::new(shape, Mask::Full, Layout::Bshd).unwrap().packed(Packing::separate(2, 600)).unwrap()
}

#[test]
fn keys_with_lengths_of_their_own_come_with_a_second_array() {
    let packed_variant = variant(Sequence::Packed);
    let lengths = Addresses { cu_seqlens: Some(6 << 20), ..ADDRESSES };
    let shared = launch(&packed(3, 1_000), packed_variant, lengths);
    assert_eq!(shared.args().cu_seqlens_k, 6 << 20, "the keys have the lengths of the queries");
    let both = Addresses { cu_seqlens_k: Some(7 << 20), seqused_q: Some(8 << 20), ..lengths };
    let ForwardArgs { cu_seqlens, cu_seqlens_k, seqused_q, seqused_k, sequence, kv_sequence, room, .. } =
        *launch(&separate(), packed_variant, both).args();
    assert_eq!([cu_seqlens, cu_seqlens_k, seqused_q, seqused_k], [6 << 20, 7 << 20, 8 << 20, 0]);
    assert_eq!((sequence, kv_sequence, room), (1_000, 300, 0));
    let plan = Plan::new(&separate(), packed_variant, &GPU).unwrap();
    let refused = |addresses| plan.bind(addresses).unwrap_err().to_string();
    assert!(refused(lengths).contains("cu_seqlens_k is missing"));
    assert!(refused(Addresses { seqused_k: Some(6), ..both }).contains("seqused_k is at address 0x6"));
    let over = refused(Addresses { cu_seqlens_k: Some(ADDRESSES.o), ..both });
    assert!(over.contains("overlaps cu_seqlens_k"), "{over}");
    let plan = Plan::new(&packed(3, 1_000), packed_variant, &GPU).unwrap();
    assert!(plan.bind(both).unwrap_err().to_string().contains("cu_seqlens_k is given"));
}

#[test]
fn entries_of_a_padded_batch_have_equal_room_and_no_beginnings() {
    let shape = Shape::new(4, 2, 250).with_kv_sequence(70);
    let padded = Problem::new(shape, Mask::Full, Layout::Bshd).unwrap().padded().unwrap();
    assert_eq!(padded.shape(), Shape::new(1, 2, 1_000).with_kv_sequence(280));
    let bound = launch(&padded, variant(Sequence::Packed), Addresses { seqused_k: Some(6 << 20), ..ADDRESSES });
    let ForwardArgs { cu_seqlens, cu_seqlens_k, seqused_k, room, kv_room, sequences, .. } = *bound.args();
    assert_eq!([cu_seqlens, cu_seqlens_k, seqused_k], [0, 0, 6 << 20]);
    assert_eq!((room, kv_room, sequences), (250, 70, 4));
    let plan = Plan::new(&padded, variant(Sequence::Packed), &GPU).unwrap();
    let unexpected = plan.bind(Addresses { cu_seqlens: Some(6 << 20), ..ADDRESSES }).unwrap_err().to_string();
    assert!(unexpected.contains("cu_seqlens is given"), "{unexpected}");
    let heads_first = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap().padded().unwrap_err().to_string();
    assert!(heads_first.contains("Q has a batch stride of 32000 elements; a padded batch needs"), "{heads_first}");
    let uneven = Packing { sequences: 3, longest: 9, lengths: Lengths::Padded };
    let uneven = problem(1, 10).packed(uneven).unwrap_err().to_string();
    assert!(uneven.contains("10 rows do not divide into 3 sequences"), "{uneven}");
    let long = Shape::new(1 << 10, 1, 1 << 20);
    let long = Problem::new(long, Mask::Full, Layout::Bshd).unwrap().padded().unwrap_err().to_string();
    assert!(long.contains("sequence is 1073741824"), "{long}");
}

#[test]
fn only_the_device_knows_where_queries_are_that_end_at_their_last_key() {
    let causal = separate().with_window(Window::CAUSAL);
    assert_eq!((causal.mask(), causal.simplified().mask()), (Mask::Causal, Mask::Causal));
    let at_last = causal.aligned(Alignment::BottomRight);
    assert_eq!((at_last.mask(), at_last.simplified().mask()), (Mask::Window, Mask::Window));
    let window = |left, right| at_last.with_window(Window { left, right }).simplified().mask();
    // The widest useful window: 299 keys before a query, and after it as many as there are queries after it.
    assert_eq!(window(Some(299), Some(999)), Mask::Full);
    assert_eq!(window(Some(298), Some(999)), Mask::Window);
    assert_eq!(window(None, Some(998)), Mask::Window);
    assert_eq!(at_last.attended_keys(3, 10, 30), 0..24);
    let is_window = |variant: &&Variant<'_>| variant.sequence == Sequence::Packed && variant.mask == Mask::Window;
    let variant = VARIANTS.iter().find(is_window).expect("packed windows");
    let args = |problem: &Problem| Plan::new(problem, *variant, &GPU).unwrap().args;
    let looked_up = args(&at_last);
    assert_eq!((looked_up.window_left, looked_up.window_right, looked_up.bottom_right), (1 << 30, 0, u32::MAX));
    // Without a limit, queries before the first key see up to the last key.
    let back = at_last.with_window(Window { left: Some(4), right: None });
    assert_eq!(args(&back).window_right, 1_000);
    assert_eq!(
        args(&at_last.aligned(Alignment::TopLeft).with_window(Window { left: Some(5), right: None })).bottom_right,
        0
    );
    let shared = packed(3, 1_000).with_window(Window { left: Some(5), right: None }).aligned(Alignment::BottomRight);
    assert_eq!(args(&shared).bottom_right, 0, "as many keys as queries are no difference");
}

#[test]
fn addresses_are_checked() {
    let plan = Plan::new(&problem(1, 8), any(), &GPU).unwrap();
    let refused = |addresses| plan.bind(addresses).unwrap_err().to_string();
    assert!(refused(Addresses { k: (2 << 20) + 8, ..ADDRESSES }).contains("K is at address 0x200008"));
    assert!(refused(Addresses { q: 0, ..ADDRESSES }).contains("Q is at address 0x0"));
    assert!(refused(Addresses { v: u64::MAX - 15, ..ADDRESSES }).contains("beyond 64-bit addresses"));
    assert!(refused(Addresses { o: ADDRESSES.q, ..ADDRESSES }).contains("O at"));
    assert!(refused(Addresses { lse: Some(ADDRESSES.o), ..ADDRESSES }).contains("LSE at"));
    assert!(refused(Addresses { lse: Some(ADDRESSES.v), ..ADDRESSES }).contains("LSE at"));
    assert!(refused(Addresses { lse: Some(0), ..ADDRESSES }).contains("LSE is at address 0x0"));
}

/// A problem with all score modifications; its bias is the same in both batch entries.
fn modified() -> Problem {
    let bias = Strides { batch: 0, head: 130 * 72, row: 72 };
    let score_mod = ScoreMod { softcap: Some(50.0), alibi: Some(Slopes::PerBatchAndHead), bias: Some(bias) };
    let shape = Shape::new(2, 3, 130).with_kv_sequence(70);
    let problem = Problem::new(shape, Mask::Causal, Layout::Bhsd).unwrap().aligned(Alignment::BottomRight);
    problem.with_score_mod(score_mod).unwrap()
}

fn modifying(sequence: Sequence) -> Variant<'static> {
    let is_such = |variant: &&Variant<'_>| variant.scores == Scores::Modified && variant.sequence == sequence;
    *VARIANTS.iter().find(is_such).expect("there is one")
}

#[test]
fn changes_of_scores_reach_the_kernel_with_their_addresses() {
    let addresses = Addresses { bias: Some((7 << 20) + 2), alibi_slopes: Some(8 << 20), ..ADDRESSES };
    let args = *launch(&modified(), modifying(Sequence::Any), addresses).args();
    let score_mod = args.score_mod;
    assert_eq!((score_mod.bias, score_mod.slopes), ((7 << 20) + 2, 8 << 20));
    assert_eq!((score_mod.bias_strides.batch, score_mod.bias_strides.row), (0, 72));
    assert_eq!((score_mod.slopes_batch, score_mod.first_position), (3, -60));
    let log2_e = core::f32::consts::LOG2_E;
    assert!((args.scale_log2 - 50.0 * log2_e).abs() < 1e-5, "the cap is what tanh is multiplied by");
    assert!((score_mod.inverse_scale - 0.02).abs() < 1e-8);
    assert!((score_mod.softcap_exponent - 2.0 * log2_e / 8.0 / 50.0).abs() < 1e-8);
}

#[test]
fn a_bias_is_refused_where_it_cannot_be_read_or_would_be_overwritten() {
    let plan = Plan::new(&modified(), modifying(Sequence::Any), &GPU).unwrap();
    let good = Addresses { bias: Some(7 << 20), alibi_slopes: Some(8 << 20), ..ADDRESSES };
    let refused = |addresses| plan.bind(addresses).unwrap_err().to_string();
    assert!(refused(Addresses { bias: None, ..good }).contains("bias is missing"));
    assert!(refused(Addresses { alibi_slopes: None, ..good }).contains("alibi_slopes is missing"));
    assert!(refused(Addresses { bias: Some(7), ..good }).contains("must be a non-zero multiple of 2"));
    assert!(refused(Addresses { alibi_slopes: Some(6), ..good }).contains("must be a non-zero multiple of 4"));
    assert!(refused(Addresses { bias: Some(ADDRESSES.o + 4), ..good }).contains("overlaps bias"));
    assert!(refused(Addresses { bias: Some(u64::MAX - 1), ..good }).contains("beyond 64-bit addresses"));
    let plain = Plan::new(&problem(3, 130), any(), &GPU).unwrap();
    let unexpected = plain.bind(Addresses { bias: good.bias, ..ADDRESSES }).unwrap_err().to_string();
    assert!(unexpected.contains("bias is given, but the problem has none"), "{unexpected}");
}

#[test]
fn only_kernels_that_change_scores_compute_such_problems_and_no_others() {
    let refusal = |problem: &Problem, variant| Plan::new(problem, variant, &GPU).unwrap_err().to_string();
    assert!(refusal(&modified(), any()).contains("computes neither softcap nor ALiBi nor a bias"));
    assert!(refusal(&problem(3, 130), modifying(Sequence::Any)).contains("this one has none"));
}

#[test]
fn a_bias_that_cannot_be_copied_16_bytes_at_a_time_is_computed_by_kernels_that_load_it_otherwise() {
    let with_row = |row| {
        let bias = Strides { batch: 0, head: 0, row };
        problem(3, 130).with_score_mod(ScoreMod { bias: Some(bias), ..ScoreMod::NONE }).unwrap()
    };
    for variant in VARIANTS.iter().filter(|variant| variant.scores == Scores::Modified) {
        let computes = |row| variant.check_accepts(&with_row(row));
        let aligned = computes(136);
        assert_eq!(computes(0), aligned, "{}: one row for all queries", variant.entry);
        let expected = if variant.config.has_bias_tiles() { aligned.and(Err(Refusal::UnalignedBias)) } else { aligned };
        assert_eq!(computes(130), expected, "{}", variant.entry);
    }
}

#[test]
fn changes_of_scores_that_no_kernel_makes_are_refused() {
    let plain = problem(1, 130);
    let refused = |problem: Problem, score_mod| problem.with_score_mod(score_mod).unwrap_err().to_string();
    for softcap in [0.0, -1.0, 1e4, f64::NAN, f64::INFINITY] {
        let message = refused(plain, ScoreMod { softcap: Some(softcap), ..ScoreMod::NONE });
        assert!(message.contains("must be from 0.001 to 1000"), "{message}");
    }
    let strides = Strides { batch: 0, head: 0, row: u64::MAX / 8 };
    assert!(refused(plain, ScoreMod { bias: Some(strides), ..ScoreMod::NONE }).contains("64-bit addresses"));
    let packed = plain.packed(Packing::new(3, 100)).unwrap();
    let bias = ScoreMod { bias: Some(Strides { batch: 0, head: 0, row: 0 }), ..ScoreMod::NONE };
    assert!(refused(packed, bias).contains("packed sequences cannot have a bias"));
    for (slopes, number) in [(Slopes::PerHead, 2), (Slopes::PerBatchAndHead, 6)] {
        let score_mod = ScoreMod { alibi: Some(slopes), ..ScoreMod::NONE };
        assert_eq!(
            packed.with_score_mod(score_mod).unwrap().score_mod().slopes(packed.shape(), packed.packing()),
            Some(number)
        );
    }
}

/// The same further apart, for tensors with many keys.
const FAR_APART: Addresses = Addresses { lse: Some(5 << 24), ..Addresses::new(1 << 24, 2 << 24, 3 << 24, 4 << 24) };

/// Few queries with many keys, which kernels that leave parts compute faster in parts.
fn few_queries() -> (Problem, Variant<'static>) {
    let shape = Shape::new(1, 3, 20).with_kv_sequence(5000);
    let leaves =
        |variant: &&Variant<'_>| variant.leaves_parts && variant.mask == Mask::Full && variant.config.columns() == 64;
    (Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap(), *VARIANTS.iter().find(leaves).expect("there is one"))
}

#[test]
fn parts_are_left_in_a_workspace_and_combined_by_a_second_launch() {
    let (problem, variant) = few_queries();
    let without = Plan::new(&problem, variant, &GPU).unwrap();
    assert_eq!((without.parts(), without.workspace_bytes()), (1, 0));
    assert_eq!(without.bind(FAR_APART).unwrap().combining().map(|launch| launch.grid()), None);

    let plan = without.with_workspace(SHIPPED, &GPU);
    let parts = plan.parts();
    assert!(parts > 8 && plan.workspace_bytes() > 0, "{parts} parts");
    let launch = plan.bind(Addresses { workspace: Some(8 << 24), ..FAR_APART }).unwrap();
    assert_eq!((launch.grid(), launch.args().part_results, launch.args().combined_parts), ([3, parts], 8 << 24, 0));
    let combining = launch.combining().expect("parts to combine");
    assert_eq!(combining.args().combined_parts, parts);
    assert_eq!((combining.grid()[0], combining.threads()), (3, launch.threads()));
    assert!(combining.combining().is_none(), "nothing follows it");
    // What needs no workspace ignores one.
    let unused = without.bind(Addresses { workspace: Some(1), ..FAR_APART }).unwrap();
    assert_eq!((unused.grid(), unused.args().part_results), ([3, 1], 0));
}

#[test]
fn a_workspace_is_checked_as_a_tensor_is() {
    let (problem, variant) = few_queries();
    let plan = Plan::new(&problem, variant, &GPU).unwrap().with_workspace(SHIPPED, &GPU);
    let refused = |workspace| plan.bind(Addresses { workspace, ..FAR_APART }).unwrap_err().to_string();
    assert!(refused(None).contains("workspace is missing"), "{}", refused(None));
    assert!(refused(Some((8 << 24) + 8)).contains("workspace is at address"));
    for tensor in [FAR_APART.q, FAR_APART.k, FAR_APART.o, 5 << 24] {
        assert!(refused(Some(tensor)).contains("workspace at"), "{}", refused(Some(tensor)));
    }
    assert!(refused(Some(u64::MAX - 15)).contains("beyond 64-bit addresses"));
}
