//! One problem with everything that determines its result, and the command that reproduces it.

use contract::args::Strides;
use std::ops::RangeInclusive;

use contract::backward::variants::{BackwardVariant, TmaTile};
use contract::config::{Element, Mask, Scores, Sequence};
use contract::manifest::Entry;

use crate::error::Result;
use crate::host_memory;
use crate::inputs::{Distribution, Inputs, Lengths};
use crate::score_mod::ScoreModForm;
use contract::problem::{Alignment, DEFAULT_HEAD_DIM, Problem, Shape, Window};
use contract::refusal::Tensor;
use contract::view::{Layout, Views};

/// A dimension of a tensor except the columns of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// B.
    Batch,
    /// H.
    Head,
    /// S.
    Row,
}

impl Dimension {
    fn size(self, shape: Shape) -> u64 {
        u64::from(match self {
            Dimension::Batch => shape.batch,
            Dimension::Head => shape.heads,
            Dimension::Row => shape.sequence,
        })
    }
}

/// Memory layout of a tensor, for any shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Dimensions from smallest to largest stride.
    pub order: [Dimension; 3],
    /// Unused elements after each entry of each dimension, in the same order; multiples of 8.
    pub padding: [u64; 3],
    /// Unused elements before the first; a multiple of 8.
    pub offset: u64,
    /// Whether all heads of a batch entry are the same rows (inputs only).
    pub shared_heads: bool,
}

impl View {
    /// Contiguous in `layout`.
    pub const fn contiguous(layout: Layout) -> Self {
        let order = match layout {
            Layout::Bhsd => [Dimension::Row, Dimension::Head, Dimension::Batch],
            Layout::Bshd => [Dimension::Head, Dimension::Row, Dimension::Batch],
        };
        Self { order, padding: [0; 3], offset: 0, shared_heads: false }
    }

    /// The strides of a tensor with `shape`, the shape of that tensor alone.
    pub fn strides(&self, shape: Shape) -> Strides {
        let mut strides = Strides { batch: 0, head: 0, row: 0 };
        let mut covered = u64::from(shape.head_dim);
        for (dimension, padding) in self.order.into_iter().zip(self.padding) {
            if self.shared_heads && dimension == Dimension::Head {
                continue;
            }
            let stride = covered + padding;
            *match dimension {
                Dimension::Batch => &mut strides.batch,
                Dimension::Head => &mut strides.head,
                Dimension::Row => &mut strides.row,
            } = stride;
            covered = stride * dimension.size(shape);
        }
        strides
    }

    /// Whether a tensor of `shape` has the strides of `layout`, in the dimensions of more than one entry.
    fn is_contiguous(&self, shape: Shape, layout: Layout) -> bool {
        let strides = |view: &View| {
            let Strides { batch, head, row } = view.strides(shape);
            let matters = |dimension: Dimension, stride| if dimension.size(shape) > 1 { stride } else { 0 };
            [(Dimension::Batch, batch), (Dimension::Head, head), (Dimension::Row, row)].map(|(d, s)| matters(d, s))
        };
        strides(self) == strides(&Self::contiguous(layout))
    }
}

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computes {
    /// O and LSE.
    Outputs,
    /// dQ, dK and dV.
    Gradients,
    /// dQ, dK, dV and dBias.
    GradientsAndDBias,
}

/// The kernel to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the entry.
    pub variant: String,
    /// Element type of its tensors.
    pub element: Element,
    /// Sequence lengths it accepts.
    pub sequence: Sequence,
    /// Mask it applies.
    pub mask: Mask,
    /// Whether it supports score modifications.
    pub scores: Scores,
    /// Head dimensions that it accepts; only multiples of 8 are valid problems.
    pub head_dims: RangeInclusive<u32>,
    /// Whether heads may share their rows, which tensor maps cannot describe.
    pub shared_heads: bool,
    /// Whether rows of a bias must be apart by multiples of 16 bytes.
    pub needs_aligned_bias: bool,
    /// What it computes.
    pub computes: Computes,
    /// The most query rows of the heads that share a head of K and V, and the most keys.
    pub most_rows: [u32; 2],
}

impl Target {
    /// Whether it computes problems with a bias alone.
    pub(super) fn needs_bias(&self) -> bool {
        self.computes == Computes::GradientsAndDBias
    }

    /// `shape` with so few rows that the kernel computes it, and without shared heads where it cannot be otherwise.
    pub(super) fn fitted(&self, shape: Shape) -> Shape {
        let [queries, keys] = self.most_rows;
        let tiles = shape.sequence.next_multiple_of(TmaTile::STEP).saturating_mul(shape.group());
        let shape = if tiles > queries { shape.with_kv_heads(shape.heads) } else { shape };
        Shape { sequence: shape.sequence.min(queries), kv_sequence: shape.kv_sequence.min(keys), ..shape }
    }
}

#[cfg(test)]
impl Target {
    /// An fp16 kernel without a mask for heads of 64 columns.
    pub(super) fn plain(variant: impl Into<String>, sequence: Sequence) -> Self {
        Self {
            variant: variant.into(),
            element: Element::F16,
            sequence,
            mask: Mask::Full,
            scores: Scores::Unmodified,
            head_dims: 64..=64,
            shared_heads: true,
            needs_aligned_bias: false,
            computes: Computes::Outputs,
            most_rows: [u32::MAX; 2],
        }
    }
}

impl From<&BackwardVariant> for Target {
    fn from(variant: &BackwardVariant) -> Self {
        let BackwardVariant { entry, element, sequence, mask, scores, .. } = *variant;
        Self {
            variant: entry.to_owned(),
            element,
            sequence,
            mask,
            scores,
            head_dims: variant.head_dims(),
            shared_heads: !variant.uses_tensor_maps(),
            needs_aligned_bias: false,
            computes: if variant.computes_d_bias { Computes::GradientsAndDBias } else { Computes::Gradients },
            most_rows: variant.most_rows(),
        }
    }
}

impl From<&Entry> for Target {
    fn from(entry: &Entry) -> Self {
        let Entry { name, element, sequence, mask, scores, .. } = entry;
        Self {
            variant: name.clone(),
            element: *element,
            sequence: *sequence,
            mask: *mask,
            scores: *scores,
            head_dims: entry.variant().head_dims(),
            shared_heads: !entry.config.uses_tensor_maps(),
            needs_aligned_bias: entry.config.has_bias_tiles(),
            computes: Computes::Outputs,
            most_rows: [u32::MAX; 2],
        }
    }
}

/// A problem with its inputs and the kernel to run it on.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The kernel.
    pub target: Target,
    /// The shape. For packed sequences: one batch entry with all rows; for padded ones: an entry per sequence.
    pub shape: Shape,
    /// Sequence lengths, if packed or padded.
    pub lengths: Option<Lengths>,
    /// The window, if the target has one; `None` for the default.
    pub window: Option<Window>,
    /// How queries are aligned with keys.
    pub alignment: Alignment,
    /// Score modifications.
    pub score_mod: ScoreModForm,
    /// Factor on the scores; `None` for the default.
    pub scale: Option<f64>,
    /// Views of Q, K, V and O.
    pub views: [View; 4],
    /// Whether LSE is requested.
    pub lse: bool,
    /// Distribution of Q, K and V.
    pub distribution: Distribution,
    /// Seed of the inputs.
    pub seed: u64,
}

impl Case {
    /// The problem.
    ///
    /// # Errors
    /// When no kernel can accept it; never for a drawn or shrunk case.
    pub fn problem(&self) -> Result<Problem> {
        let problem = self.batch()?;
        match &self.lengths {
            None => Ok(problem),
            Some(lengths) => Ok(lengths.apply(problem)?.0),
        }
    }

    /// The problem before its rows are divided into sequences.
    fn batch(&self) -> Result<Problem> {
        let problem = Problem::new(self.shape, self.target.mask, Layout::Bhsd)?.with_element(self.target.element);
        let problem = self.window.map_or(problem, |window| problem.with_window(window)).aligned(self.alignment);
        let problem = self.scale.map_or(Ok(problem), |scale| problem.with_scale(scale))?;
        let [q, k, v, o] = self
            .tensors()
            .map(|(_, shape, view)| contract::view::View { offset: view.offset, strides: view.strides(shape) });
        Ok(problem.with_views(Views { q, k, v, o })?.with_score_mod(self.score_mod.of(self.shape))?)
    }

    /// Q, K and V.
    ///
    /// # Errors
    /// As for [`Self::problem`], and when they do not fit this machine's memory.
    pub fn inputs(&self) -> Result<Inputs> {
        let problem = self.batch()?;
        host_memory::check(&problem)?;
        let inputs = Inputs::generate(problem, self.distribution, self.seed)?;
        match &self.lengths {
            None => Ok(inputs),
            Some(lengths) => Ok(inputs.with_lengths(lengths)?),
        }
    }

    /// Arguments of the `fa512` command that reproduces the case, without device and PTX.
    pub fn run_arguments(&self) -> Vec<String> {
        let mut arguments = vec!["run".to_owned()];
        let mut option = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        let Shape { batch, heads, kv_heads, sequence, kv_sequence, head_dim } = self.shape;
        option("variant", self.target.variant.clone());
        if self.target.element != Element::default() {
            option("type", self.target.element.name().to_owned());
        }
        match self.window {
            None => option("mask", self.target.mask.name().to_owned()),
            Some(Window { left, right }) => {
                let side = |keys: Option<u32>| keys.map_or("any".to_owned(), |keys| keys.to_string());
                option("window", format!("{},{}", side(left), side(right)));
            }
        }
        let list = |lengths: &[u32]| lengths.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let is_packed = matches!(self.lengths, Some(Lengths::Shared(_) | Lengths::Separate(..)));
        if !is_packed {
            option("batch", batch.to_string());
        }
        option("heads", heads.to_string());
        if !is_packed {
            option("seq", sequence.to_string());
        }
        match &self.lengths {
            None => {}
            Some(Lengths::Shared(lengths)) => option("lengths", list(lengths)),
            Some(Lengths::Separate(queries, keys)) => {
                option("lengths", list(queries));
                option("kv-lengths", list(keys));
            }
            Some(Lengths::Padded(queries, keys)) => {
                queries.iter().for_each(|used| option("used", list(used)));
                keys.iter().for_each(|used| option("kv-used", list(used)));
            }
        }
        if kv_heads != heads {
            option("kv-heads", kv_heads.to_string());
        }
        if kv_sequence != sequence && !is_packed {
            option("kv-seq", kv_sequence.to_string());
        }
        if self.alignment != Alignment::default() {
            option("align", self.alignment.name().to_owned());
        }
        if head_dim != DEFAULT_HEAD_DIM {
            option("head-dim", head_dim.to_string());
        }
        option("distribution", self.distribution.name().to_owned());
        option("seed", self.seed.to_string());
        if let Some(scale) = self.scale {
            option("scale", format!("{scale:e}"));
        }
        let layout = self.base_layout();
        if layout == Layout::Bshd {
            option("layout", layout.name().to_owned());
        }
        for (tensor, shape, view) in self.tensors() {
            let Strides { batch, head, row } = view.strides(shape);
            if !view.is_contiguous(shape, layout) {
                option("strides", format!("{tensor}={batch},{head},{row}"));
            }
            if view.offset > 0 {
                option("offset", format!("{tensor}={}", view.offset));
            }
        }
        arguments.extend(self.score_mod.options());
        if !self.lse {
            arguments.push("--no-lse".to_owned());
        }
        arguments
    }

    /// The layout in which most tensors are contiguous.
    fn base_layout(&self) -> Layout {
        let contiguous =
            |layout| self.tensors().iter().filter(|(_, shape, view)| view.is_contiguous(*shape, layout)).count();
        if contiguous(Layout::Bshd) > contiguous(Layout::Bhsd) { Layout::Bshd } else { Layout::Bhsd }
    }

    /// Q, K, V and O with their shapes and views.
    fn tensors(&self) -> [(Tensor, Shape, &View); 4] {
        let [q, k, v, o] = &self.views;
        let of = |tensor, view| (tensor, self.shape.of(tensor), view);
        [of(Tensor::Q, q), of(Tensor::K, k), of(Tensor::V, v), of(Tensor::O, o)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score_mod::BiasForm;
    use contract::problem::Slopes;

    const SHAPE: Shape = Shape::new(2, 3, 5);

    fn case(views: [View; 4]) -> Case {
        let target = Target { mask: Mask::Causal, ..Target::plain("kernel", Sequence::Any) };
        Case {
            target,
            shape: SHAPE,
            lengths: None,
            window: None,
            alignment: Alignment::TopLeft,
            score_mod: ScoreModForm::default(),
            scale: None,
            views,
            lse: true,
            distribution: Distribution::Normal,
            seed: 7,
        }
    }

    fn command(case: &Case) -> String {
        case.run_arguments().join(" ")
    }

    #[test]
    fn contiguous_views_have_the_strides_of_their_layout() {
        for layout in [Layout::Bhsd, Layout::Bshd] {
            assert_eq!(View::contiguous(layout).strides(SHAPE), layout.strides(SHAPE).unwrap(), "{layout:?}");
        }
    }

    #[test]
    fn padding_and_order_decide_the_strides() {
        let order = [Dimension::Batch, Dimension::Row, Dimension::Head];
        let view = View { order, padding: [8, 16, 24], offset: 0, shared_heads: false };
        assert_eq!(view.strides(SHAPE), Strides { batch: 72, row: 72 * 2 + 16, head: 160 * 5 + 24 });
        let shared = View { shared_heads: true, ..View::contiguous(Layout::Bshd) };
        assert_eq!(shared.strides(SHAPE), Strides { batch: 5 * 64, head: 0, row: 64 });
    }

    #[test]
    fn the_command_says_only_what_differs_from_the_defaults() {
        let plain = case([View::contiguous(Layout::Bhsd); 4]);
        let expected = "run --variant kernel --mask causal --batch 2 --heads 3 --seq 5 --distribution normal --seed 7";
        assert_eq!(command(&plain), expected);
        let mut other = case([View::contiguous(Layout::Bshd); 4]);
        other.views[1].padding[0] = 8;
        other.views[3].offset = 16;
        (other.lse, other.scale) = (false, Some(1e-40));
        other.target.element = Element::Bf16;
        let expected = expected.replace("--mask", "--type bf16 --mask");
        let rest = "--scale 1e-40 --layout bshd --strides K=1080,72,216 --offset O=16 --no-lse";
        assert_eq!(command(&other), format!("{expected} {rest}"));
    }

    #[test]
    fn another_head_dim_is_said_and_decides_the_strides() {
        let mut wide = case([View::contiguous(Layout::Bshd); 4]);
        wide.shape = SHAPE.with_head_dim(40);
        assert_eq!(wide.views[0].strides(wide.shape), Layout::Bshd.strides(wide.shape).unwrap());
        assert!(command(&wide).contains("--seq 5 --head-dim 40 --distribution"), "{}", command(&wide));
        assert_eq!(wide.inputs().unwrap().q_row(1, 2, 4).len(), 40);
    }

    #[test]
    fn packed_sequences_are_said_by_their_lengths() {
        let mut packed = case([View::contiguous(Layout::Bhsd); 4]);
        packed.shape = Shape::new(1, 3, 9);
        packed.lengths = Some(Lengths::Shared(vec![4, 0, 5]));
        assert!(command(&packed).contains("--heads 3 --lengths 4,0,5 --distribution"), "{}", command(&packed));
        assert_eq!(packed.inputs().unwrap().array(Tensor::CuSeqlens), Some([0, 4, 4, 9].as_slice()));
        packed.shape = packed.shape.with_kv_sequence(7);
        packed.lengths = Some(Lengths::Separate(vec![4, 0, 5], vec![0, 1, 6]));
        let expected = "--heads 3 --lengths 4,0,5 --kv-lengths 0,1,6 --distribution";
        assert!(command(&packed).contains(expected), "{}", command(&packed));
        assert_eq!(packed.inputs().unwrap().lengths().len(), 2);
    }

    #[test]
    fn padded_batches_are_said_by_what_they_use() {
        let mut padded = case([View::contiguous(Layout::Bshd); 4]);
        padded.shape = SHAPE.with_kv_sequence(9);
        padded.lengths = Some(Lengths::Padded(None, Some(vec![9, 0])));
        let expected = "--batch 2 --heads 3 --seq 5 --kv-used 9,0 --kv-seq 9 --distribution";
        assert!(command(&padded).contains(expected), "{}", command(&padded));
        assert_eq!(padded.problem().unwrap().shape().kv_sequence, 18);
    }

    #[test]
    fn changes_of_scores_are_said_and_made() {
        let mut changed = case([View::contiguous(Layout::Bhsd); 4]);
        changed.target.scores = Scores::Modified;
        changed.score_mod = ScoreModForm {
            softcap: Some(50.0),
            alibi: Some(Slopes::PerHead),
            bias: Some(BiasForm::Hqk),
            padded_bias: true,
        };
        assert!(
            command(&changed).ends_with("--softcap=5e1 --alibi=heads --bias=hqk --padded-bias"),
            "{}",
            command(&changed)
        );
        let inputs = changed.inputs().unwrap();
        assert_eq!(inputs.bias_row(1, 2, 4).unwrap().len(), 5);
        assert_eq!(inputs.slopes().unwrap().len(), 3);
    }

    #[test]
    fn strides_of_single_entries_are_not_mentioned() {
        let mut single = case([View::contiguous(Layout::Bhsd); 4]);
        single.shape = Shape::new(1, 1, 5);
        single.views[0].padding = [0, 8, 8];
        assert!(!command(&single).contains("--strides"), "{}", command(&single));
    }
}
