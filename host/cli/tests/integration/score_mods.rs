//! Softcap, ALiBi and bias: every entry that changes scores against the reference.

use cli::inputs::{Distribution, Inputs};
use cli::score_mod::{BiasForm, ScoreModForm};
use contract::config::{Element, Mask};
use contract::problem::{Alignment, Problem, Shape, Slopes, Window};
use contract::view::Layout;

use crate::support::Case;

const NONE: ScoreModForm = ScoreModForm::NONE;
const SOFTCAP: ScoreModForm = ScoreModForm { softcap: Some(5.0), ..NONE };
const ALIBI: ScoreModForm = ScoreModForm { alibi: Some(Slopes::PerHead), ..NONE };
const SLOPES_OF_BATCH: ScoreModForm = ScoreModForm { alibi: Some(Slopes::PerBatchAndHead), ..NONE };
const ALL: ScoreModForm =
    ScoreModForm { softcap: Some(30.0), alibi: Some(Slopes::PerHead), bias: Some(BiasForm::Bhqk), ..NONE };

fn problem(shape: Shape, mask: Mask, element: Element, form: ScoreModForm) -> Problem {
    let problem = Problem::new(shape, mask, Layout::Bshd).unwrap().with_element(element);
    problem.with_score_mod(form.of(shape)).unwrap()
}

fn assert_right(problem: Problem, distribution: Distribution) {
    Case::generate(problem, distribution).assert_right(true);
}

#[test]
fn each_change_alone_and_all_together() {
    let forms = [SOFTCAP, ALIBI, SLOPES_OF_BATCH, ALL];
    let masks = [Mask::Full, Mask::Causal, Mask::Window].into_iter().cycle();
    for ((form, mask), element) in forms.into_iter().zip(masks).zip(Element::ALL.into_iter().cycle()) {
        assert_right(problem(Shape::new(2, 4, 130).with_kv_heads(2), mask, element, form), Distribution::Normal);
    }
}

/// Rows of an odd number of elements begin between two of a pair; those of an even number are read in pairs up to the last tile; padded
/// ones are copied up to the last 16 bytes.
#[test]
fn biases_of_every_form_and_of_odd_rows() {
    for (form, keys) in BiasForm::ALL.into_iter().zip([128, 129, 70, 1, 200]) {
        for element in Element::ALL {
            let shape = Shape::new(2, 2, 70).with_kv_sequence(keys);
            for padded_bias in [false, true] {
                let form = ScoreModForm { bias: Some(form), padded_bias, ..NONE };
                assert_right(problem(shape, Mask::Full, element, form), Distribution::Normal);
            }
        }
    }
}

#[test]
fn rows_of_other_sizes() {
    for (head_dim, element) in [32, 72, 96, 128, 136, 256].into_iter().zip(Element::ALL.into_iter().cycle()) {
        let shape = Shape::new(1, 2, 100).with_head_dim(head_dim);
        assert_right(problem(shape, Mask::Causal, element, ALL), Distribution::Normal);
    }
}

/// Uniform inputs come with a bias of which one element in 16 is −∞; others with scores far apart, infinities and NaN.
#[test]
fn keys_that_a_bias_excludes_and_inputs_that_are_hard() {
    let distributions =
        [Distribution::Uniform, Distribution::LargeLogits, Distribution::GrowingMaxima, Distribution::NonFiniteRows];
    for (distribution, element) in distributions.into_iter().zip(Element::ALL.into_iter().cycle()) {
        for form in [ScoreModForm { bias: Some(BiasForm::Bk), ..NONE }, ALL] {
            assert_right(problem(Shape::new(2, 2, 90), Mask::Full, element, form), distribution);
        }
    }
}

/// The distances of ALiBi are counted from where the mask puts the queries.
#[test]
fn positions_are_those_of_the_mask() {
    for alignment in Alignment::ALL {
        let shape = Shape::new(1, 2, 70).with_kv_sequence(200);
        assert_right(problem(shape, Mask::Full, Element::F16, ALIBI).aligned(alignment), Distribution::Normal);
        let shape = Shape::new(1, 2, 200).with_kv_sequence(70);
        assert_right(problem(shape, Mask::Causal, Element::Bf16, ALIBI).aligned(alignment), Distribution::Normal);
    }
}

#[test]
fn packed_sequences_have_slopes_and_caps_in_windows_too() {
    const LENGTHS: [u32; 5] = [70, 0, 3, 129, 64];
    for window in [Window::UNLIMITED, Window::CAUSAL, Window { left: Some(20), right: Some(9) }] {
        for (element, softcap) in [(Element::F16, None), (Element::Bf16, Some(10.0))] {
            let form = ScoreModForm { softcap, ..ALIBI };
            let shape = Shape::new(1, 4, LENGTHS.iter().sum()).with_kv_heads(2);
            let problem = problem(shape, Mask::Full, element, form).with_window(window);
            let inputs = Inputs::generate(problem, Distribution::Normal, 3).unwrap().packed(&LENGTHS).unwrap();
            Case::new(inputs, Distribution::Normal).assert_right(true);
        }
    }
}
