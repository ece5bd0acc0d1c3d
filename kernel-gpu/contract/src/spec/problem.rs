//! An attention problem: shape, mask, scale and views, checked before anything is allocated.

mod groups;
mod score_mod;
mod sizes;
mod window;

use core::ops::Range;

use crate::spec::config::{Element, Mask};
use crate::spec::limits::{MAXIMUM_SCALE, MINIMUM_MODIFIED_SCALE, MINIMUM_SCALE};
use crate::spec::packing::{Lengths, Packing};
use crate::spec::refusal::Refusal;
use crate::spec::tensor::Tensor;
use crate::spec::view::{Layout, View, Views};

pub use crate::spec::shape::{DEFAULT_HEAD_DIM, Shape};
pub use score_mod::{ScoreMod, Slopes};
pub use sizes::check_head_dim;
pub(crate) use window::Band;
pub use window::{Alignment, Window};

/// Keys on each side of a query in a problem with mask [`Mask::Window`], unless [`Problem::with_window`] sets others.
pub const DEFAULT_WINDOW: u32 = 64;

/// O = softmax(scale · QKᵀ + mask) · V over tensors whose shape, scale and views have been checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    shape: Shape,
    element: Element,
    window: Window,
    alignment: Alignment,
    scale: f64,
    views: Views,
    packing: Option<Packing>,
    score_mod: ScoreMod,
}

impl Problem {
    /// A problem over four contiguous fp16 tensors of one layout, with scale [`Shape::default_scale`].
    ///
    /// # Errors
    /// When a dimension is 0 or too large, or a row is not a whole number of 16-byte chunks.
    pub fn new(shape: Shape, mask: Mask, layout: Layout) -> Result<Self, Refusal> {
        sizes::check(shape)?;
        let [of_queries, of_keys] =
            [Tensor::Q, Tensor::K].map(|tensor| layout.strides(shape.of(tensor)).map(View::new));
        let (queries, keys) = (of_queries?, of_keys?);
        let views = Views { q: queries, k: keys, v: keys, o: queries };
        let window = match mask {
            Mask::Full => Window::UNLIMITED,
            Mask::Causal => Window::CAUSAL,
            Mask::Window => Window { left: Some(DEFAULT_WINDOW), right: Some(DEFAULT_WINDOW) },
        };
        let (element, scale) = (Element::F16, shape.default_scale());
        let alignment = Alignment::TopLeft;
        let score_mod = ScoreMod::NONE;
        Self { shape, element, window, alignment, scale, views, packing: None, score_mod }.with_views(views)
    }

    /// The same rows as packed sequences ([`crate::schedule::packed`]): a problem with one batch entry, whose rows are those of all
    /// sequences. A row attends only to keys of its own sequence.
    ///
    /// # Errors
    /// When there are several batch entries or no sequence; when sequences share lengths but K and V have another number of rows
    /// than Q; when sequences are padded but the number of rows does not divide evenly.
    pub fn packed(self, packing: Packing) -> Result<Self, Refusal> {
        if self.shape.batch != 1 {
            return Err(Refusal::PackedBatch { batch: self.shape.batch });
        }
        if packing.sequences == 0 {
            return Err(Refusal::EmptyDimension { name: "sequences" });
        }
        let Shape { sequence, kv_sequence, .. } = self.shape;
        match packing.lengths {
            Lengths::Shared if kv_sequence != sequence => {
                return Err(Refusal::OtherKvSequence { sequence, kv_sequence });
            }
            Lengths::Padded => {
                let uneven = [sequence, kv_sequence].into_iter().find(|rows| rows % packing.sequences != 0);
                if let Some(rows) = uneven {
                    return Err(Refusal::UnequalRoom { rows, sequences: packing.sequences });
                }
            }
            Lengths::Shared | Lengths::Separate => {}
        }
        let packed = Self { packing: Some(packing), ..self };
        packed.score_mod.check(packed.shape, packed.packing)?;
        Ok(packed)
    }

    /// The batch as padded sequences, each with the rows of an entry as room ([`Lengths::Padded`]): a packed problem, with the
    /// shape and views of a single entry that has all rows.
    ///
    /// # Errors
    /// When the entries of a tensor do not lie one after another, or their total number of rows exceeds the longest sequence.
    pub fn padded(self) -> Result<Self, Refusal> {
        let Shape { batch, sequence, kv_sequence, .. } = self.shape;
        for (tensor, View { strides, .. }) in self.views.named() {
            let expected = u64::from(self.shape.of(tensor).sequence).saturating_mul(strides.row);
            if batch > 1 && strides.batch != expected {
                return Err(Refusal::EntriesApart { tensor, stride: strides.batch, expected });
            }
        }
        let (rows, kv_rows) = (sequence.saturating_mul(batch), kv_sequence.saturating_mul(batch));
        let shape = Shape { batch: 1, sequence: rows, kv_sequence: kv_rows, ..self.shape };
        sizes::check(shape)?;
        let packing = Packing { sequences: batch, longest: sequence, lengths: Lengths::Padded };
        Self { shape, ..self }.with_views(self.views)?.packed(packing)
    }

    /// The same problem with another element type.
    pub const fn with_element(self, element: Element) -> Self {
        Self { element, ..self }
    }

    /// The same problem with the mask of `window`.
    pub const fn with_window(self, window: Window) -> Self {
        Self { window, ..self }
    }

    /// The same problem with another alignment of queries and keys, which matters if their numbers differ.
    pub const fn aligned(self, alignment: Alignment) -> Self {
        Self { alignment, ..self }
    }

    /// The same problem with another scale.
    ///
    /// # Errors
    /// When `scale` is negative, not finite, or above [`MAXIMUM_SCALE`].
    pub fn with_scale(self, scale: f64) -> Result<Self, Refusal> {
        if scale < 0.0 {
            return Err(Refusal::NegativeScale { scale });
        }
        if !(0.0..=MAXIMUM_SCALE).contains(&scale) {
            return Err(Refusal::ScaleOutOfRange { scale });
        }
        Ok(Self { scale, ..self })
    }

    /// The same problem with score modifications.
    ///
    /// # Errors
    /// When the softcap is not from [its minimum](crate::spec::limits::MINIMUM_SOFTCAP) to [its maximum](crate::spec::limits::MAXIMUM_SOFTCAP);
    /// when a bias does not fit 64-bit addresses; when packed sequences have a bias.
    pub fn with_score_mod(self, score_mod: ScoreMod) -> Result<Self, Refusal> {
        score_mod.check(self.shape, self.packing)?;
        Ok(Self { score_mod, ..self })
    }

    /// The same problem with other views of its tensors.
    ///
    /// # Errors
    /// When rows would not be 16-byte aligned, a tensor does not fit 64-bit addresses, or two rows of O overlap (rows of inputs
    /// may overlap).
    pub fn with_views(self, views: Views) -> Result<Self, Refusal> {
        for (tensor, view) in views.named() {
            view.check(tensor, self.shape.of(tensor))?;
        }
        views.o.check_rows_apart(Tensor::O, self.shape)?;
        Ok(Self { views, ..self })
    }

    /// The shape; for packed sequences B is 1 and S the total number of rows.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// The packed sequences; `None` if all sequences have one length.
    pub const fn packing(&self) -> Option<Packing> {
        self.packing
    }

    /// The element type of Q, K, V and O.
    pub const fn element(&self) -> Element {
        self.element
    }

    /// The score modifications.
    pub const fn score_mod(&self) -> &ScoreMod {
        &self.score_mod
    }

    /// Key position of query 0. Negative if there are fewer keys than queries and alignment is bottom-right. Each packed sequence
    /// has its own ([`Alignment::first_position`]).
    pub const fn first_position(&self) -> i64 {
        self.alignment.first_position(self.shape.sequence, self.shape.kv_sequence)
    }

    /// The window of keys around a query's position, as numbers.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// How queries are aligned with keys.
    pub const fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// The mask. A causal mask counts as a window if the first query is not at the first key.
    pub const fn mask(&self) -> Mask {
        let is_at_first = !self.looks_up_positions() && self.first_position() == 0;
        match self.window.mask() {
            mask if is_at_first => mask,
            Mask::Full => Mask::Full,
            Mask::Causal | Mask::Window => Mask::Window,
        }
    }

    /// Whether only the device knows the position of a sequence's first query: alignment is bottom-right, and Q and K have
    /// separate lengths.
    pub(crate) const fn looks_up_positions(&self) -> bool {
        let has_own_keys = match self.packing {
            Some(packing) => !matches!(packing.lengths, Lengths::Shared),
            None => false,
        };
        has_own_keys && matches!(self.alignment, Alignment::BottomRight)
    }

    /// The same problem with the simplest equivalent mask: a window as wide as the sequences becomes the full mask.
    pub const fn simplified(self) -> Self {
        let mask = match self.looks_up_positions() {
            true => self.band().mask_at_last(self.shape),
            false => self.band().mask(self.shape),
        };
        match mask {
            Mask::Full => self.with_window(Window::UNLIMITED),
            Mask::Causal => self.with_window(Window::CAUSAL).aligned(Alignment::TopLeft),
            Mask::Window => self,
        }
    }

    /// Rows from a query back to its first key, and forward to its last; negative if the key is on the other side, `None` for no
    /// limit.
    pub const fn rows_around(&self) -> [Option<i32>; 2] {
        let Band { left, right } = self.band();
        [Band::limit(left), Band::limit(right)]
    }

    /// The same as numbers for the kernels; relative to the query's position if the device looks that up.
    pub(crate) const fn band(&self) -> Band {
        let alignment = if self.looks_up_positions() { Alignment::TopLeft } else { self.alignment };
        Band::new(self.window, alignment, self.shape.sequence, self.shape.kv_sequence)
    }

    /// The factor on the scores, at least [`MINIMUM_SCALE`], or [`MINIMUM_MODIFIED_SCALE`] with score modifications.
    pub fn scale(&self) -> f64 {
        self.scale.max(if self.score_mod.is_none() { MINIMUM_SCALE } else { MINIMUM_MODIFIED_SCALE })
    }

    /// `scale · log2(e)` for the kernels, positive and finite; with softcap `cap · log2(e)`.
    pub fn scale_log2(&self) -> f32 {
        let factor = self.score_mod.softcap.unwrap_or(self.scale());
        ((factor * core::f64::consts::LOG2_E) as f32).max(f32::MIN_POSITIVE)
    }

    /// The views of Q, K, V and O.
    pub const fn views(&self) -> &Views {
        &self.views
    }

    /// Elements from the first to one past the last of Q, K, V or O.
    ///
    /// # Panics
    /// For any other tensor, which has no view.
    pub fn extent(&self, tensor: Tensor) -> u64 {
        self.views.of(tensor).span(self.shape.of(tensor)).expect("with_views checked every extent")
    }

    /// Keys that query `row` attends to; for packed sequences, in a sequence of `queries` queries and `keys` keys.
    pub const fn attended_keys(&self, row: u32, queries: u32, keys: u32) -> Range<u32> {
        match self.packing {
            None => self.band().keys_of(row, self.shape.kv_sequence),
            Some(_) => Band::new(self.window, self.alignment, queries, keys).keys_of(row, keys),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::spec::limits::{MAXIMUM_HEAD_DIM, MAXIMUM_SEQUENCE};
    use crate::spec::tensor::Strides;
    use std::string::{String, ToString};

    const SHAPE: Shape = Shape::new(2, 3, 5);

    fn problem() -> Problem {
        Problem::new(SHAPE, Mask::Full, Layout::Bhsd).unwrap()
    }

    fn with_q(strides: Strides) -> Result<Problem, Refusal> {
        problem().with_views(Views { q: View::new(strides), ..*problem().views() })
    }

    fn with_o(strides: Strides) -> Result<Problem, Refusal> {
        problem().with_views(Views { o: View::new(strides), ..*problem().views() })
    }

    fn message<T: std::fmt::Debug>(result: Result<T, Refusal>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn both_layouts_span_the_whole_tensor() {
        for layout in [Layout::Bhsd, Layout::Bshd] {
            let problem = Problem::new(SHAPE, Mask::Full, layout).unwrap();
            assert_eq!(problem.extent(Tensor::Q), 2 * 3 * 5 * 64, "{layout:?}");
            assert_eq!(layout.shape(layout.dimensions(SHAPE)), Some(SHAPE), "{layout:?}");
        }
    }

    #[test]
    fn empty_and_oversized_dimensions_are_named() {
        let shape = |batch, heads, sequence| Problem::new(Shape::new(batch, heads, sequence), Mask::Full, Layout::Bhsd);
        assert!(message(shape(0, 1, 1)).contains("batch is 0"));
        assert!(message(shape(1, 0, 1)).contains("heads is 0"));
        assert!(message(shape(1, 1, 0)).contains("sequence is 0"));
        assert!(message(shape(1, 1, u32::MAX)).contains("sequence is 4294967295"));
        assert!(message(shape(u32::MAX, u32::MAX, MAXIMUM_SEQUENCE)).contains("64 bits"));
    }

    #[test]
    fn rows_are_of_whole_chunks_and_no_wider_than_a_tile() {
        let problem = |head_dim| Problem::new(SHAPE.with_head_dim(head_dim), Mask::Full, Layout::Bhsd);
        for head_dim in 0..=2 * MAXIMUM_HEAD_DIM {
            let is_accepted = problem(head_dim).is_ok();
            assert_eq!(is_accepted, head_dim > 0 && head_dim % 8 == 0 && head_dim <= MAXIMUM_HEAD_DIM, "{head_dim}");
        }
        let refused = |head_dim| message(problem(head_dim));
        assert_eq!(
            refused(68),
            "head_dim is 68; it must be a multiple of 8 from 8 to 256: add 4 columns of zeros to Q, K and V, and give the scale"
        );
        assert_eq!(refused(0), "head_dim is 0; it must be a multiple of 8 from 8 to 256");
        assert_eq!(refused(u32::MAX), "head_dim is 4294967295; it must be a multiple of 8 from 8 to 256");
    }

    #[test]
    fn sizes_and_scale_follow_the_head_dim() {
        for head_dim in (8..=MAXIMUM_HEAD_DIM).step_by(8) {
            let shape = SHAPE.with_head_dim(head_dim);
            let (scale, expected) = (shape.default_scale(), 1.0 / f64::from(head_dim).sqrt());
            assert!((scale / expected - 1.0).abs() < 1e-15, "{head_dim}: {scale}");
            assert_eq!(shape.operations(Mask::Full), 4.0 * 30.0 * 5.0 * f64::from(head_dim));
            assert_eq!(shape.bytes(), 30.0 * (8.0 * f64::from(head_dim) + 4.0));
            for layout in Layout::ALL {
                let problem = Problem::new(shape, Mask::Full, layout).unwrap();
                assert_eq!(problem.extent(Tensor::Q), 30 * u64::from(head_dim), "{head_dim} {layout:?}");
                assert_eq!(layout.shape(layout.dimensions(shape)), Some(shape), "{layout:?}");
            }
        }
    }

    #[test]
    fn rows_of_an_output_must_be_as_far_apart_as_they_are_wide() {
        let strides = |row| Strides { batch: 0, head: 0, row };
        let problem = |head_dim| {
            let shape = Shape::new(1, 1, 5).with_head_dim(head_dim);
            let problem = Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap();
            problem.with_views(Views { o: View::new(strides(64)), ..*problem.views() })
        };
        problem(64).unwrap();
        problem(40).expect("rows with gaps");
        assert!(
            message(problem(72))
                .contains("a row stride of 64 elements, so that its rows overlap; it must be at least 72")
        );
    }

    #[test]
    fn a_window_is_the_simplest_mask_that_it_can_be() {
        let mask = |left, right| {
            let problem = problem().with_window(Window { left, right });
            (problem.mask(), problem.simplified().mask())
        };
        assert_eq!(mask(None, None), (Mask::Full, Mask::Full));
        assert_eq!(mask(None, Some(0)), (Mask::Causal, Mask::Causal));
        assert_eq!(mask(Some(3), Some(0)), (Mask::Window, Mask::Window), "S is 5: row 4 does not see key 0");
        assert_eq!(mask(Some(4), Some(0)), (Mask::Window, Mask::Causal));
        assert_eq!(mask(Some(4), Some(u32::MAX)), (Mask::Window, Mask::Full));
        assert_eq!(mask(Some(0), None), (Mask::Window, Mask::Window));
    }

    #[test]
    fn a_query_attends_to_the_keys_of_its_window_that_are_there() {
        let keys = |row, left, right| problem().with_window(Window { left, right }).attended_keys(row, 5, 5);
        assert_eq!(keys(2, Some(1), Some(1)), 1..4);
        assert_eq!(keys(0, Some(1), Some(1)), 0..2);
        assert_eq!(keys(4, Some(1), Some(9)), 3..5);
        assert_eq!(keys(4, Some(u32::MAX), Some(u32::MAX)), 0..5);
        assert_eq!(keys(3, None, Some(0)), 0..4);
        assert_eq!(keys(3, None, None), 0..5);
        assert_eq!(keys(3, Some(0), Some(0)), 3..4);
    }

    #[test]
    fn the_scale_must_be_finite_and_not_negative() {
        assert_eq!(problem().scale(), 0.125, "to the bit, of 64 columns");
        assert!(message(problem().with_scale(-0.5)).contains("negate Q and pass 0.5"));
        for scale in [f64::NAN, f64::INFINITY, 1.1e5] {
            assert!(message(problem().with_scale(scale)).contains("must be finite"), "{scale}");
        }
        let zero = problem().with_scale(0.0).unwrap();
        assert!(zero.scale_log2() > 0.0, "−∞ · 0 would be NaN");
        assert!(problem().with_scale(MAXIMUM_SCALE).unwrap().scale_log2().is_finite());
    }

    #[test]
    fn the_largest_scale_keeps_the_largest_score_finite_in_f32() {
        let largest = f64::from(MAXIMUM_HEAD_DIM) * 65504.0f64.powi(2) * MAXIMUM_SCALE * std::f64::consts::LOG2_E;
        assert!((largest as f32).is_finite());
    }

    #[test]
    fn rows_must_be_sixteen_byte_aligned() {
        let strides = problem().views().q.strides;
        assert!(message(with_q(Strides { row: 65, ..strides })).contains("Q has a row stride of 65"));
        assert!(message(with_q(Strides { head: 4, ..strides })).contains("Q has a head stride of 4"));
        with_q(Strides { row: 72, ..strides }).expect("padded rows are accepted");
        with_q(Strides { batch: 0, head: 0, row: 0 }).expect("an input may be broadcast");
    }

    #[test]
    fn the_stride_of_a_dimension_of_size_one_does_not_matter() {
        let single = Problem::new(Shape { batch: 1, ..SHAPE }, Mask::Full, Layout::Bhsd).unwrap();
        let odd = View::new(Strides { batch: u64::MAX, ..single.views().q.strides });
        assert_eq!(single.with_views(Views::all(odd)).unwrap().extent(Tensor::Q), 3 * 5 * 64);
    }

    #[test]
    fn a_tensor_must_fit_64_bit_addresses() {
        let strides = problem().views().q.strides;
        assert!(
            message(with_q(Strides { batch: 1 << 63, ..strides })).contains("Q of batch 2, heads 3, sequence 5 with")
        );
    }

    #[test]
    fn a_tensor_may_start_at_a_16_byte_chunk_of_its_buffer() {
        let at = |offset| {
            let o = View { offset, ..problem().views().o };
            problem().with_views(Views { o, ..*problem().views() })
        };
        assert_eq!(at(24).unwrap().views().o.offset, 24);
        assert!(message(at(12)).contains("O starts at element 12; it must start at a multiple of 8"));
        assert!(message(at(1 << 63)).contains("does not fit 64-bit addresses"));
    }

    #[test]
    fn rows_of_the_output_must_not_overlap() {
        let strides = problem().views().o.strides;
        assert!(message(with_o(Strides { head: 0, ..strides })).contains("O has a head stride of 0"));
        assert!(message(with_o(Strides { row: 56, ..strides })).contains("O has a row stride of 56"));
        assert!(message(with_o(Strides { head: 256, ..strides })).contains("O has a head stride of 256"));
        with_o(Strides { batch: 64, head: 128, row: 384 }).expect("interleaved rows do not overlap");
    }
}
