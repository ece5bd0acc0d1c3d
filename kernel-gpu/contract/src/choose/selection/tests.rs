extern crate std;

use super::*;
use crate::choose::cost::{Constants, KernelClass, LastRound, Placement, SHIPPED};
use crate::launch::variants::VARIANTS;
use crate::schedule::tile::{Configuration, Sm80, Sm90Tma};
use crate::spec::config::{Element, Family, Mask, Scores, Sequence};
use crate::spec::limits::MAXIMUM_HEAD_DIM;
use crate::spec::packing::Packing;
use crate::spec::problem::{ScoreMod, Shape, Slopes, Window};
use crate::spec::tensor::Strides;
use crate::spec::view::{Layout, View, Views};
use std::string::{String, ToString};

const MULTIPROCESSORS: u32 = 132;

fn gpu(name: &str, architecture: u32) -> Gpu<'_> {
    Gpu { name, architecture, multiprocessors: MULTIPROCESSORS, shared_bytes_per_block: 227 * 1024 }
}

/// Variants of one kind, large tiles first.
fn variants() -> [Variant<'static>; 2] {
    let variant = |entry, tile| {
        let config = Configuration::Sm80(tile);
        Variant {
            entry,
            config,
            element: Element::F16,
            sequence: Sequence::Any,
            mask: Mask::Full,
            scores: Scores::Unmodified,
            waits_for_previous_grid: false,
            leaves_parts: false,
        }
    };
    [variant("large", Sm80::new(256, 64, 8, 2)), variant("small", Sm80::new(64, 64, 4, 2))]
}

/// [`variants`], with small tiles for both grids.
fn variants_of_either_grid() -> [Variant<'static>; 3] {
    let variant = |entry, tile| {
        let config = Configuration::Sm90Tma(tile);
        Variant {
            entry,
            config,
            element: Element::F16,
            sequence: Sequence::Any,
            mask: Mask::Full,
            scores: Scores::Unmodified,
            waits_for_previous_grid: true,
            leaves_parts: false,
        }
    };
    let (large, small) = (Sm90Tma::new(4, 8), Sm90Tma::new(1, 4));
    let persistent = Sm90Tma { grid: Grid::Persistent, ..small };
    [variant("large", large), variant("persistent", persistent), variant("small", small)]
}

fn problem(batch: u32) -> Problem {
    Problem::new(Shape::new(batch, 8, 1024), Mask::Full, Layout::Bhsd).unwrap()
}

fn chosen(gpu: &Gpu<'_>, batch: u32) -> (&'static str, String) {
    let problem = problem(batch);
    let choice = choose(variants().into_iter(), &[], &problem, gpu, Workspace::None);
    let choice = choice.unwrap_or_else(|none| panic!("{none}"));
    (choice.plan.variant().entry, choice.reason.to_string())
}

#[test]
fn a_window_as_wide_as_the_sequences_is_none() {
    let window = |left, right| problem(64).with_window(Window { left: Some(left), right: Some(right) });
    let chosen = |problem: &Problem| {
        let variants = VARIANTS.iter().copied();
        let choice = choose(variants, &[], problem, &gpu("NVIDIA H200", 90), Workspace::None);
        choice.unwrap_or_else(|none| panic!("{none}")).plan.variant().mask
    };
    assert_eq!(chosen(&window(1023, 1023)), Mask::Full);
    assert_eq!(chosen(&window(1023, 0)), Mask::Causal);
    assert_eq!(chosen(&window(1022, 0)), Mask::Window);
}

#[test]
fn a_gpu_without_predictions_gets_the_first_in_order_of_preference() {
    let (name, reason) = chosen(&gpu("NVIDIA L4", 89), 64);
    assert_eq!(name, "large");
    assert_eq!(reason, "first in order of preference for sequence 1024, full mask, sm_89");
}

#[test]
fn without_predictions_few_heads_get_small_tiles() {
    let (name, reason) = chosen(&gpu("NVIDIA L4", 89), 4);
    assert_eq!(name, "small");
    assert!(reason.contains("132 multiprocessors for 128 tiles of the first"), "{reason}");
    assert_eq!(chosen(&gpu("NVIDIA L4", 89), 5).0, "large", "160 tiles fill it");
}

#[test]
fn among_small_tiles_those_of_a_one_shot_grid_come_first() {
    let variants = variants_of_either_grid().into_iter();
    let (problem, gpu) = (problem(4), gpu("NVIDIA H200", 90));
    let choice = choose(variants, &[], &problem, &gpu, Workspace::None).unwrap_or_else(|none| panic!("{none}"));
    assert_eq!(choice.plan.variant().entry, "small");
}

/// Constants of `gpu` by which large tiles take less time per row and step, and more per item.
fn constants(variants: &[Variant<'_>]) -> std::vec::Vec<(KernelClass, Constants)> {
    let of = |variant: &Variant<'_>| {
        let rows = f64::from(variant.config.block_m());
        let constants = Constants {
            placement: Placement { resident: 1, last: LastRound::Spread },
            launch_us: 2.0,
            block_us: 0.0,
            item_us: rows / 64.0,
            step_us: 0.2 + rows / 1000.0,
            shared_step_us: 0.0,
            megabyte_us: 0.0,
            exposed: 0.0,
        };
        (KernelClass::of(variant), constants)
    };
    variants.iter().map(of).collect()
}

#[test]
fn the_variant_that_is_expected_to_be_the_fastest_is_chosen_with_its_time() {
    let kernels = constants(&variants());
    let costs = [Costs { gpu: "NVIDIA H100", architecture: 90, kernels: &kernels }];
    let chosen = |name, batch| {
        let (problem, gpu) = (problem(batch), gpu(name, 90));
        let choice = choose(variants().into_iter(), &costs, &problem, &gpu, Workspace::None);
        let choice = choice.unwrap_or_else(|none| panic!("{none}"));
        (choice.plan.variant().entry.to_string(), choice.reason.to_string())
    };
    let (entry, reason) = chosen("NVIDIA H100", 64);
    assert_eq!(entry, "large");
    assert_eq!(reason, "expected to take 182.7 µs, the next, small, 331.1");
    let (entry, reason) = chosen("NVIDIA H200", 1);
    assert_eq!(entry, "small");
    assert_eq!(reason, "expected to take 7.2 µs at the speed of NVIDIA H100, the next, large, 13.3");
}

#[test]
fn nothing_is_predicted_where_a_variant_has_no_constants() {
    let variants = variants();
    let kernels = constants(&variants);
    let costs = [Costs { gpu: "NVIDIA H100", architecture: 90, kernels: &kernels }];
    let config = Configuration::Sm90Tma(Sm90Tma::new(1, 4));
    let all = [variants[0], variants[1], Variant { entry: "other kind", config, ..variants[0] }];
    let (problem, gpu) = (problem(64), gpu("NVIDIA H200", 90));
    let choice = choose(all.into_iter(), &costs, &problem, &gpu, Workspace::None);
    let choice = choice.unwrap_or_else(|none| panic!("{none}"));
    assert!(choice.reason.to_string().starts_with("first in order of preference "), "{}", choice.reason);
}

#[test]
fn short_packed_sequences_get_small_tiles() {
    let packed = variants().map(|variant| Variant { sequence: Sequence::Packed, ..variant });
    let chosen = |sequences| {
        let problem = Problem::new(Shape::new(1, 8, 38_400), Mask::Full, Layout::Bshd).unwrap();
        let problem = problem.packed(Packing::new(sequences, 512)).unwrap();
        let choice = choose(packed.into_iter(), &[], &problem, &gpu("NVIDIA H200", 90), Workspace::None);
        let choice = choice.unwrap_or_else(|none| panic!("{none}"));
        (choice.plan.variant().entry, choice.reason.to_string())
    };
    let (name, reason) = chosen(101);
    assert_eq!(name, "small");
    assert_eq!(reason, "small tiles, since packed sequences of 381 rows on the average fill few of 256");
    let (name, reason) = chosen(100);
    assert_eq!(name, "large", "384 rows are enough");
    assert!(reason.starts_with("first in order of preference "), "{reason}");
}

/// Rows of the tile for 64 packed sequences of `average` rows, of 12 heads: as many as there are in `docs/results/packed.md`.
fn packed_tile(architecture: u32, head_dim: u32, mask: Mask, (heads, average): (u32, u32)) -> u32 {
    let shape = Shape::new(1, heads, 64 * average).with_head_dim(head_dim);
    let problem = Problem::new(shape, mask, Layout::Bshd).unwrap().packed(Packing::new(64, average)).unwrap();
    let choice = choose(VARIANTS.iter().copied(), &[], &problem, &gpu("", architecture), Workspace::None);
    choice.unwrap_or_else(|none| panic!("{none}")).plan.variant().config.block_m()
}

#[test]
fn large_tiles_pay_sooner_where_warpgroups_share_keys() {
    let (full, causal) = (Mask::Full, Mask::Causal);
    for (architecture, head_dim, mask, enough, large, small) in [
        (90, 64, full, 192, 256, 64),
        (90, 64, causal, 160, 256, 64),
        (90, 128, full, 39, 128, 64),
        (90, 128, causal, 55, 128, 64),
        (90, 32, full, 384, 256, 64),
        (80, 64, full, 192, 128, 64),
        (80, 96, full, 128, 128, 32),
        (80, 96, causal, 128, 64, 32),
        (80, 128, full, 64, 128, 32),
        (80, 128, causal, 128, 64, 32),
    ] {
        let case = (architecture, head_dim, mask);
        assert_eq!(packed_tile(architecture, head_dim, mask, (12, enough)), large, "{case:?}");
        assert_eq!(packed_tile(architecture, head_dim, mask, (12, enough - 1)), small, "{case:?}");
    }
}

#[test]
fn few_tiles_of_packed_sequences_are_made_smaller_where_that_pays() {
    let (full, causal) = (Mask::Full, Mask::Causal);
    let tile = |head_dim, mask, work| packed_tile(90, head_dim, mask, work);
    assert_eq!((tile(64, full, (3, 256)), tile(64, full, (4, 256))), (64, 256), "one and three fourths");
    assert_eq!((tile(64, causal, (5, 255)), tile(64, causal, (6, 255))), (64, 256), "less than a tile: two and a half");
    assert_eq!(
        (tile(128, full, (1, 127)), tile(128, full, (1, 128))),
        (64, 128),
        "two warpgroups: a whole tile is enough"
    );
    assert_eq!((tile(128, causal, (1, 191)), tile(128, causal, (1, 192))), (64, 128), "or one and a half");
}

/// Measured on an H200 (docs/results/encoder-attention.md).
#[test]
fn changed_scores_get_large_tiles_where_those_are_even_and_aligned() {
    let chosen = |(batch, heads, sequence), mask, score_mod: ScoreMod| {
        let problem = Problem::new(Shape::new(batch, heads, sequence), mask, Layout::Bhsd).unwrap();
        let problem = problem.with_score_mod(score_mod).unwrap();
        let choice = choose(VARIANTS.iter().copied(), SHIPPED, &problem, &gpu("", 90), Workspace::None);
        let choice = choice.unwrap_or_else(|none| panic!("{none}"));
        (choice.plan.variant().config.block_m(), choice.reason.to_string())
    };
    let alibi = ScoreMod { alibi: Some(Slopes::PerHead), ..ScoreMod::NONE };
    let bias = |head, row| ScoreMod { bias: Some(Strides { batch: 0, head, row }), ..ScoreMod::NONE };
    let rows = |shape, mask, score_mod| chosen(shape, mask, score_mod).0;
    assert_eq!(rows((32, 8, 512), Mask::Full, bias(512 * 512, 512)), 256, "16 and 15.5 strips of 64 rows");
    assert_eq!(rows((32, 8, 512), Mask::Causal, alibi), 256);
    let (rows_of_uneven, reason) = chosen((2, 16, 1357), Mask::Causal, alibi);
    assert_eq!(rows_of_uneven, 64, "8 and 5.3 strips");
    assert!(reason.contains("would have 512 rows in large ones, and all have 341"), "{reason}");
    assert_eq!(rows((64, 12, 64), Mask::Full, alibi), 64, "three fourths of a large tile would be empty");
    assert_eq!(rows((32, 8, 512), Mask::Full, bias(512 * 513, 513)), 64, "rows are not 16-byte aligned");
    assert_eq!(rows((32, 8, 512), Mask::Full, bias(4, 0)), 64, "heads are apart by 8 bytes");
    assert_eq!(rows((256, 1, 512), Mask::Full, bias(4, 0)), 256, "there is one head");
    assert_eq!(rows((32, 8, 512), Mask::Window, alibi), 64);
}

#[test]
fn without_predictions_the_narrowest_tiles_that_hold_a_row_are_chosen() {
    let of_columns = |entry, columns| {
        let [large, _] = variants();
        let Configuration::Sm80(tile) = large.config else { panic!("tiles of the sm_80 family") };
        Variant { entry, config: Configuration::Sm80(Sm80 { columns, ..tile }), ..large }
    };
    let [large, small] = variants();
    let all = [of_columns("wide", 128), large, small, of_columns("narrow", 32)];
    let kernels = constants(&all);
    let costs = [Costs { gpu: "NVIDIA H100", architecture: 90, kernels: &kernels }];
    let chosen = |costs, head_dim| {
        let shape = problem(64).shape().with_head_dim(head_dim);
        let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
        let choice = choose(all.into_iter(), costs, &problem, &gpu("NVIDIA H200", 90), Workspace::None);
        choice.unwrap_or_else(|none| panic!("{none}")).plan.variant().entry
    };
    for (head_dim, entry) in [(8, "narrow"), (32, "narrow"), (40, "large"), (72, "wide")] {
        assert_eq!(chosen(&[], head_dim), entry, "{head_dim}");
    }
    assert_eq!(chosen(&costs, 8), "wide", "of equal predictions the first");
    assert_eq!(chosen(&costs, 72), "wide", "the others do not hold its rows");
}

#[test]
fn tiles_with_tensor_maps_are_no_wider_than_a_row_needs() {
    // Where tiles of 128 columns are expected to take up to 3 % less, and take 4 to 10 % more.
    for (heads, sequence, mask) in
        [(3, 26, Mask::Full), (39, 94, Mask::Full), (36, 65, Mask::Causal), (421, 55, Mask::Causal)]
    {
        let shape = Shape::new(1, heads, sequence).with_head_dim(96);
        let problem = Problem::new(shape, mask, Layout::Bhsd).unwrap();
        let gpu = gpu("NVIDIA H200", 90);
        let choice = choose(VARIANTS.iter().copied(), SHIPPED, &problem, &gpu, Workspace::None);
        let config = choice.unwrap_or_else(|none| panic!("{none}")).plan.variant().config;
        assert_eq!(
            (config.uses_tensor_maps(), config.columns()),
            (true, 96),
            "{heads} heads of {sequence} rows, {mask:?}"
        );
    }
}

#[test]
fn wide_tiles_of_the_preferred_family_come_before_narrow_ones_of_another() {
    let is_exact = |variant: &Variant<'_>| variant.config.columns() == 96;
    let chosen = |architecture| {
        let shape = Shape::new(1, 8, 38_400).with_head_dim(96);
        let problem = Problem::new(shape, Mask::Full, Layout::Bshd).unwrap().packed(Packing::new(75, 512)).unwrap();
        let variants = VARIANTS.iter().copied().filter(|one| one.family() == Family::Sm80 || !is_exact(one));
        let choice = choose(variants, &[], &problem, &gpu("", architecture), Workspace::None);
        let variant = choice.unwrap_or_else(|none| panic!("{none}")).plan.variant();
        (variant.family(), variant.config.columns())
    };
    assert_eq!(chosen(90), (Family::Sm90a, 128));
    assert_eq!(chosen(80), (Family::Sm80, 96));
}

/// No tensor map has strides of 1 TiB.
#[test]
fn the_sm_80_kernels_serve_strides_that_no_tensor_map_describes() {
    let cases = [(Mask::Full, 512), (Mask::Causal, 512), (Mask::Full, 17), (Mask::Causal, 1024)];
    for ((mask, sequence), element) in cases.into_iter().flat_map(|case| Element::ALL.map(|element| (case, element))) {
        let shape = Shape::new(2, 8, sequence);
        let near = Problem::new(shape, mask, Layout::Bhsd).unwrap().with_element(element);
        let far = View::new(Strides { batch: 1 << 39, ..near.views().k.strides });
        let far = near.with_views(Views { k: far, ..*near.views() }).unwrap();
        let gpu = gpu("NVIDIA H200", 90);
        let choice = choose(VARIANTS.iter().copied(), SHIPPED, &far, &gpu, Workspace::None);
        let variant = choice.unwrap_or_else(|none| panic!("{none}")).plan.variant();
        assert_eq!((variant.family(), variant.element), (Family::Sm80, element), "{sequence} {mask:?}");
    }
}

#[test]
fn a_row_wider_than_every_tile_is_refused_with_their_columns() {
    let shape = Shape::new(1, 8, 1024).with_head_dim(72);
    let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
    let refused = choose(variants().into_iter(), &[], &problem, &gpu("NVIDIA L4", 89), Workspace::None);
    let message = refused.expect_err("tiles of 64 columns").to_string();
    assert!(message.contains("computes a head_dim of at most 64, the problem's is 72"), "{message}");
}

#[test]
fn where_no_variant_fits_each_says_why_not() {
    let (problem, gpu) = (problem(1), gpu("NVIDIA T4", 75));
    let message = match choose(variants().into_iter(), &[], &problem, &gpu, Workspace::None) {
        Err(none) => std::format!("{none:#}"),
        Ok(choice) => panic!("sm_75 is too old for {}", choice.plan.variant().entry),
    };
    assert!(message.starts_with("no variant runs this problem on sm_75:\n  large needs sm_80 or later"), "{message}");
    assert_eq!(message.lines().count(), 3, "{message}");
}

/// A refusal by all shipped variants is one line that a person reads to its end.
#[test]
fn the_refusal_of_the_closest_variant_comes_first_and_alone() {
    let told = |problem: &Problem, gpu: &Gpu<'_>| {
        let refused = choose(VARIANTS.iter().copied(), SHIPPED, problem, gpu, Workspace::None);
        refused.expect_err("no variant computes it").to_string()
    };
    let plain = |shape: Shape| Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
    let large = plain(Shape::new(u32::MAX, 1, 1));
    let shared = Gpu { shared_bytes_per_block: 1 << 10, ..gpu("small", 80) };
    let cases = [
        (large, gpu("NVIDIA H200", 90), "split the batch"),
        (large.with_element(Element::Bf16), gpu("NVIDIA A100", 80), "split the batch"),
        (plain(Shape::new(1, 8, 512)), gpu("NVIDIA T4", 75), "needs sm_80 or later"),
        (plain(Shape::new(1, 8, 100).with_head_dim(128)), shared, "bytes of shared memory per block"),
    ];
    for (problem, gpu, expected) in cases {
        let message = told(&problem, &gpu);
        assert!(message.contains(expected), "{message}");
        assert!(message.len() < 300 && message.lines().count() == 1, "{message}");
    }
}

#[test]
fn a_workspace_is_used_where_it_is_provided_and_worth_it() {
    let choose = |shape: Shape, workspace| {
        let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
        let gpu = gpu("NVIDIA A100", 80);
        let choice = choose(VARIANTS.iter().copied(), SHIPPED, &problem, &gpu, workspace);
        choice.unwrap_or_else(|none| panic!("{none}")).plan.workspace_bytes()
    };
    let few_queries = Shape::new(1, 2, 4).with_kv_sequence(10_000);
    assert!(choose(few_queries, Workspace::Provided) > 0);
    assert_eq!(choose(few_queries, Workspace::None), 0);
    assert_eq!(choose(Shape::new(32, 8, 512), Workspace::Provided), 0, "there are enough items");
    let problem = Problem::new(few_queries, Mask::Full, Layout::Bhsd).unwrap();
    let hopper = gpu("NVIDIA H100 80GB HBM3", 90);
    let all = VARIANTS.iter().copied();
    let choice = super::choose(all, SHIPPED, &problem, &hopper, Workspace::Provided);
    let plan = choice.unwrap_or_else(|none| panic!("{none}")).plan;
    assert_eq!((plan.variant().family(), plan.workspace_bytes()), (Family::Sm90a, 0), "clusters need none");
}

/// Problems with rows of `head_dim` elements: every mask, type, packed or not, scores changed or not.
fn of_rows(head_dim: u32) -> impl Iterator<Item = Problem> {
    let shape = Shape::new(1, 4, 300).with_head_dim(head_dim);
    let capped = ScoreMod { softcap: Some(30.0), ..ScoreMod::NONE };
    [Mask::Full, Mask::Causal, Mask::Window].into_iter().flat_map(move |mask| {
        let window = Window { left: Some(9), right: Some(0) };
        let problem = Problem::new(shape, mask, Layout::Bshd).unwrap();
        let problem = if mask == Mask::Window { problem.with_window(window) } else { problem };
        Element::ALL.into_iter().flat_map(move |element| {
            let problem = problem.with_element(element);
            let packed = problem.packed(Packing::new(3, 200)).unwrap();
            [problem, packed].into_iter().flat_map(move |of| [of, of.with_score_mod(capped).unwrap()])
        })
    })
}

#[test]
fn rows_of_any_size_are_computed_on_every_gpu_in_the_narrowest_tiles_of_a_family() {
    for (architecture, kib) in [(80, 163), (86, 99), (89, 99), (90, 227), (100, 227), (120, 99)] {
        let gpu =
            Gpu { shared_bytes_per_block: kib * 1024, ..gpu("a model without constants of its own", architecture) };
        for head_dim in (8..=MAXIMUM_HEAD_DIM).step_by(8) {
            for (problem, costs) in of_rows(head_dim).flat_map(|of| [(of, SHIPPED), (of, &[])]) {
                let choice = choose(VARIANTS.iter().copied(), costs, &problem, &gpu, Workspace::Provided);
                let config = choice.unwrap_or_else(|none| panic!("{none}")).plan.variant().config;
                let columns = config.columns();
                let expected = match head_dim {
                    ..=128 => 32..=128,
                    129..=192 => 192..=192,
                    _ => 256..=256,
                };
                assert!(expected.contains(&columns), "{columns} columns for rows of {head_dim} on sm_{architecture}");
                // Until their times are known, the family made for the GPU comes first.
                assert!(head_dim <= 128 || config.uses_tensor_maps() == (architecture == 90), "{head_dim}: {config:?}");
            }
        }
    }
}
