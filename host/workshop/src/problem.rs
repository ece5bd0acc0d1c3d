//! An attention problem: shape, mask, scale and memory layout, checked as a whole before anything is allocated.

use contract::args::Strides;
use contract::config::{HEAD_DIM, Mask};

use crate::error::{Error, Result};

/// Elements of a 16-byte chunk: every row must start on a multiple of it.
pub const ROW_ALIGNMENT: u64 = 8;
/// Longest sequence: tile arithmetic in the kernels is 32-bit.
pub const MAXIMUM_SEQUENCE: u32 = i32::MAX as u32;
/// Largest scale: up to here no finite fp16 Q and K make a score overflow f32 (64 · 65504² · 1e26 · log2 e < 2¹²⁸).
pub const MAXIMUM_SCALE: f64 = 1e26;
/// Smallest scale that is applied as such; one below it (0 included) acts as this one, which makes every finite score 0
/// to working precision and still keeps −∞ · scale at −∞.
pub const MINIMUM_SCALE: f64 = f32::MIN_POSITIVE as f64;

/// `[batch, heads, sequence]` of a problem; the head dimension is always [`HEAD_DIM`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Shape {
    /// B.
    pub batch: u32,
    /// H.
    pub heads: u32,
    /// S.
    pub sequence: u32,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "batch {}, heads {}, sequence {}", self.batch, self.heads, self.sequence)
    }
}

impl Shape {
    /// Rows of a tensor, B·H·S.
    pub fn rows(self) -> u128 {
        u128::from(self.batch) * u128::from(self.heads) * u128::from(self.sequence)
    }

    /// Floating-point operations of one forward call by the usual count: 4·B·H·S²·D, halved for a causal mask.
    pub fn operations(self, mask: Mask) -> f64 {
        let full = 4.0 * self.rows() as f64 * f64::from(self.sequence) * f64::from(HEAD_DIM);
        match mask {
            Mask::Full => full,
            Mask::Causal => full / 2.0,
        }
    }

    /// Bytes of Q, K, V and O in fp16 and LSE in f32, without gaps.
    pub fn bytes(self) -> f64 {
        self.rows() as f64 * f64::from(4 * HEAD_DIM * 2 + 4)
    }

    fn check(self) -> Result<()> {
        for (name, value) in [("batch", self.batch), ("heads", self.heads), ("sequence", self.sequence)] {
            if value == 0 {
                return Err(Error::Invalid(format!("{name} is 0; it must be at least 1")));
            }
        }
        if self.sequence > MAXIMUM_SEQUENCE {
            return Err(Error::Invalid(format!(
                "sequence is {}; it must be at most {MAXIMUM_SEQUENCE}",
                self.sequence
            )));
        }
        Ok(())
    }
}

/// Order of the dimensions of a contiguous tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// `[batch, heads, sequence, head_dim]`, as in PyTorch's scaled_dot_product_attention.
    Bhsd,
    /// `[batch, sequence, heads, head_dim]`, as in flash-attn.
    Bshd,
}

impl Layout {
    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Bhsd => "bhsd",
            Layout::Bshd => "bshd",
        }
    }

    /// Strides of a contiguous tensor of `shape`.
    ///
    /// # Errors
    /// When a stride does not fit 64 bits.
    pub fn strides(self, shape: Shape) -> Result<Strides> {
        let overflow =
            || Error::Invalid(format!("a tensor of {shape} has strides that do not fit 64 bits; make it smaller"));
        let [head_dim, heads, sequence] = [HEAD_DIM, shape.heads, shape.sequence].map(u64::from);
        let (head, row) = match self {
            Layout::Bhsd => (sequence * head_dim, head_dim),
            Layout::Bshd => (head_dim, heads * head_dim),
        };
        let batch = (heads * head_dim).checked_mul(sequence).ok_or_else(overflow)?;
        Ok(Strides { batch, head, row })
    }

    /// Dimensions of a tensor of `shape` in this order.
    pub fn dimensions(self, shape: Shape) -> [u64; 4] {
        let Shape { batch, heads, sequence } = shape;
        match self {
            Layout::Bhsd => [batch, heads, sequence, HEAD_DIM],
            Layout::Bshd => [batch, sequence, heads, HEAD_DIM],
        }
        .map(u64::from)
    }

    /// The shape of a tensor with `dimensions` in this order; `None` when one exceeds 32 bits or D is not
    /// [`HEAD_DIM`].
    pub fn shape(self, dimensions: [u64; 4]) -> Option<Shape> {
        let [batch, second, third, head_dim] = dimensions;
        let (heads, sequence) = match self {
            Layout::Bhsd => (second, third),
            Layout::Bshd => (third, second),
        };
        let narrow = |value: u64| u32::try_from(value).ok();
        (head_dim == u64::from(HEAD_DIM)).then_some(())?;
        Some(Shape { batch: narrow(batch)?, heads: narrow(heads)?, sequence: narrow(sequence)? })
    }
}

/// Strides of the four tensors of a problem, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorStrides {
    /// Of Q.
    pub q: Strides,
    /// Of K.
    pub k: Strides,
    /// Of V.
    pub v: Strides,
    /// Of O.
    pub o: Strides,
}

/// The name of a mask, as on the command line.
pub fn mask_name(mask: Mask) -> &'static str {
    match mask {
        Mask::Full => "full",
        Mask::Causal => "causal",
    }
}

/// O = softmax(scale · QKᵀ + mask) · V over fp16 tensors whose shape, scale and strides were found acceptable.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    shape: Shape,
    mask: Mask,
    scale: f64,
    strides: TensorStrides,
    output_offset: u64,
}

impl Problem {
    /// A problem over four contiguous tensors of one layout with the default scale 1/√64.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a dimension is 0 or too large.
    pub fn new(shape: Shape, mask: Mask, layout: Layout) -> Result<Self> {
        shape.check()?;
        let strides = layout.strides(shape)?;
        let strides = TensorStrides { q: strides, k: strides, v: strides, o: strides };
        let scale = f64::from(HEAD_DIM).sqrt().recip();
        Self { shape, mask, scale, strides, output_offset: 0 }.with_strides(strides)
    }

    /// The same problem with another factor on the scores.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `scale` is negative, not finite, or over [`MAXIMUM_SCALE`].
    pub fn with_scale(self, scale: f64) -> Result<Self> {
        if scale < 0.0 {
            return Err(Error::Invalid(format!(
                "scale is {scale}; it must not be negative (negate Q and pass {} instead)",
                -scale
            )));
        }
        if !(0.0..=MAXIMUM_SCALE).contains(&scale) {
            return Err(Error::Invalid(format!(
                "scale is {scale}; it must be finite, at least 0 and at most {MAXIMUM_SCALE:e}"
            )));
        }
        Ok(Self { scale, ..self })
    }

    /// The same problem over tensors with other strides. The stride of a dimension of size 1 does not matter.
    ///
    /// # Errors
    /// [`Error::Invalid`] when rows would not be 16-byte aligned, a tensor does not fit 64-bit addresses, or two rows
    /// of O overlap (inputs may overlap themselves).
    pub fn with_strides(self, strides: TensorStrides) -> Result<Self> {
        let TensorStrides { q, k, v, o } = strides;
        for (name, strides) in [("Q", q), ("K", k), ("V", v), ("O", o)] {
            check_rows_aligned(name, self.shape, strides)?;
            if extent(self.shape, strides).is_none() {
                return Err(Error::Invalid(format!(
                    "{name} of {} with {strides:?} does not fit 64-bit addresses; make its strides smaller",
                    self.shape
                )));
            }
        }
        check_rows_apart(self.shape, o)?;
        Self { strides, ..self }.with_output_offset(self.output_offset)
    }

    /// The same problem with so many elements between the beginning of O's buffer and its first element, which a kernel
    /// must leave alone. (Those of Q, K and V are in [`crate::inputs::Operand`].)
    ///
    /// # Errors
    /// [`Error::Invalid`] when rows would not be 16-byte aligned or O would not fit 64-bit addresses.
    pub fn with_output_offset(self, offset: u64) -> Result<Self> {
        if !offset.is_multiple_of(ROW_ALIGNMENT) {
            return Err(Error::Invalid(format!(
                "O starts at element {offset}; it must start at a multiple of {ROW_ALIGNMENT}"
            )));
        }
        let elements = self.extent(self.strides.o).checked_add(offset);
        if elements.and_then(|elements| elements.checked_mul(size_of::<half::f16>() as u64)).is_none() {
            return Err(Error::Invalid(format!("O starts at element {offset}; it does not fit 64-bit addresses")));
        }
        Ok(Self { output_offset: offset, ..self })
    }

    /// `[B,H,S]`.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Which keys a query attends to.
    pub fn mask(&self) -> Mask {
        self.mask
    }

    /// The factor on the scores, at least [`MINIMUM_SCALE`].
    pub fn scale(&self) -> f64 {
        self.scale.max(MINIMUM_SCALE)
    }

    /// `scale · log2(e)` as the kernels take it, positive and finite.
    pub fn scale_log2(&self) -> f32 {
        ((self.scale * std::f64::consts::LOG2_E) as f32).max(f32::MIN_POSITIVE)
    }

    /// Strides of Q, K, V and O.
    pub fn strides(&self) -> &TensorStrides {
        &self.strides
    }

    /// Elements before the first one of O in its buffer.
    pub fn output_offset(&self) -> u64 {
        self.output_offset
    }

    /// Elements from the first to just behind the last one of a tensor with `strides`, which must be one of
    /// [`Self::strides`].
    pub fn extent(&self, strides: Strides) -> u64 {
        extent(self.shape, strides).expect("with_strides checked every extent")
    }

    /// Keys that query `row` attends to: this many from the first.
    pub fn attended_keys(&self, row: u32) -> u32 {
        match self.mask {
            Mask::Full => self.shape.sequence,
            Mask::Causal => row + 1,
        }
    }
}

/// `(name, size, stride)` of the dimensions that have more than one entry.
fn strided_dimensions(shape: Shape, strides: Strides) -> impl Iterator<Item = (&'static str, u64, u64)> {
    [("batch", shape.batch, strides.batch), ("head", shape.heads, strides.head), ("row", shape.sequence, strides.row)]
        .into_iter()
        .filter(|&(_, size, _)| size > 1)
        .map(|(name, size, stride)| (name, u64::from(size), stride))
}

/// Elements spanned by a tensor, or `None` when its size in bytes does not fit 64 bits.
fn extent(shape: Shape, strides: Strides) -> Option<u64> {
    let elements = strided_dimensions(shape, strides)
        .try_fold(u64::from(HEAD_DIM), |end, (_, size, stride)| end.checked_add((size - 1).checked_mul(stride)?))?;
    elements.checked_mul(size_of::<half::f16>() as u64).map(|_| elements)
}

fn check_rows_aligned(tensor: &str, shape: Shape, strides: Strides) -> Result<()> {
    for (dimension, _, stride) in strided_dimensions(shape, strides) {
        if !stride.is_multiple_of(ROW_ALIGNMENT) {
            return Err(Error::Invalid(format!(
                "{tensor} has a {dimension} stride of {stride} elements; it must be a multiple of {ROW_ALIGNMENT}, so \
                 that rows are 16-byte aligned"
            )));
        }
    }
    Ok(())
}

/// Requires that each dimension of O, from the smallest stride up, steps over all that lies within one of its entries.
fn check_rows_apart(shape: Shape, strides: Strides) -> Result<()> {
    let mut dimensions: Vec<_> = strided_dimensions(shape, strides).collect();
    dimensions.sort_by_key(|&(_, _, stride)| stride);
    let mut covered = u64::from(HEAD_DIM);
    for (dimension, size, stride) in dimensions {
        if stride < covered {
            return Err(Error::Invalid(format!(
                "O has a {dimension} stride of {stride} elements, so that its rows overlap; it must be at least {covered}"
            )));
        }
        covered += stride * (size - 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { batch: 2, heads: 3, sequence: 5 };

    fn problem() -> Problem {
        Problem::new(SHAPE, Mask::Full, Layout::Bhsd).unwrap()
    }

    fn with_q(q: Strides) -> Result<Problem> {
        problem().with_strides(TensorStrides { q, ..*problem().strides() })
    }

    fn with_o(o: Strides) -> Result<Problem> {
        problem().with_strides(TensorStrides { o, ..*problem().strides() })
    }

    fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn both_layouts_span_the_whole_tensor() {
        for layout in [Layout::Bhsd, Layout::Bshd] {
            let problem = Problem::new(SHAPE, Mask::Full, layout).unwrap();
            assert_eq!(problem.extent(problem.strides().q), 2 * 3 * 5 * 64, "{layout:?}");
            assert_eq!(layout.shape(layout.dimensions(SHAPE)), Some(SHAPE), "{layout:?}");
        }
    }

    #[test]
    fn empty_and_oversized_dimensions_are_named() {
        let shape = |batch, heads, sequence| Problem::new(Shape { batch, heads, sequence }, Mask::Full, Layout::Bhsd);
        assert!(message(shape(0, 1, 1)).contains("batch is 0"));
        assert!(message(shape(1, 0, 1)).contains("heads is 0"));
        assert!(message(shape(1, 1, 0)).contains("sequence is 0"));
        assert!(message(shape(1, 1, u32::MAX)).contains("sequence is 4294967295"));
        assert!(message(shape(u32::MAX, u32::MAX, MAXIMUM_SEQUENCE)).contains("64 bits"));
    }

    #[test]
    fn the_scale_must_be_finite_and_not_negative() {
        assert_eq!(problem().scale(), 0.125);
        assert!(message(problem().with_scale(-0.5)).contains("negate Q and pass 0.5"));
        for scale in [f64::NAN, f64::INFINITY, 1e27] {
            assert!(message(problem().with_scale(scale)).contains("must be finite"), "{scale}");
        }
        let zero = problem().with_scale(0.0).unwrap();
        assert!(zero.scale_log2() > 0.0, "−∞ · 0 would be NaN");
        assert!(problem().with_scale(MAXIMUM_SCALE).unwrap().scale_log2().is_finite());
    }

    #[test]
    fn the_largest_scale_keeps_the_largest_score_finite_in_f32() {
        let largest = 64.0 * f64::from(half::f16::MAX).powi(2) * MAXIMUM_SCALE * std::f64::consts::LOG2_E;
        assert!((largest as f32).is_finite());
    }

    #[test]
    fn rows_must_be_sixteen_byte_aligned() {
        let strides = problem().strides().q;
        assert!(message(with_q(Strides { row: 65, ..strides })).contains("Q has a row stride of 65"));
        assert!(message(with_q(Strides { head: 4, ..strides })).contains("Q has a head stride of 4"));
        with_q(Strides { row: 72, ..strides }).expect("padded rows are accepted");
        with_q(Strides { batch: 0, head: 0, row: 0 }).expect("an input may be broadcast");
    }

    #[test]
    fn the_stride_of_a_dimension_of_size_one_does_not_matter() {
        let single = Problem::new(Shape { batch: 1, ..SHAPE }, Mask::Full, Layout::Bhsd).unwrap();
        let strides = Strides { batch: u64::MAX, ..single.strides().q };
        let odd = TensorStrides { q: strides, k: strides, v: strides, o: strides };
        assert_eq!(single.with_strides(odd).unwrap().extent(strides), 3 * 5 * 64);
    }

    #[test]
    fn a_tensor_must_fit_64_bit_addresses() {
        let strides = problem().strides().q;
        assert!(
            message(with_q(Strides { batch: 1 << 63, ..strides })).contains("Q of batch 2, heads 3, sequence 5 with")
        );
    }

    #[test]
    fn the_output_may_start_at_a_16_byte_chunk_of_its_buffer() {
        assert_eq!(problem().with_output_offset(24).unwrap().output_offset(), 24);
        assert!(
            message(problem().with_output_offset(12))
                .contains("O starts at element 12; it must start at a multiple of 8")
        );
        assert!(message(problem().with_output_offset(1 << 63)).contains("does not fit 64-bit addresses"));
    }

    #[test]
    fn rows_of_the_output_must_not_overlap() {
        let strides = problem().strides().o;
        assert!(message(with_o(Strides { head: 0, ..strides })).contains("O has a head stride of 0"));
        assert!(message(with_o(Strides { row: 56, ..strides })).contains("O has a row stride of 56"));
        assert!(message(with_o(Strides { head: 256, ..strides })).contains("O has a head stride of 256"));
        with_o(Strides { batch: 64, head: 128, row: 384 }).expect("interleaved rows do not overlap");
    }
}
