//! The gradient of an attention problem, checked before anything is allocated.

use crate::spec::config::ELEMENT_BYTES;
use crate::spec::problem::Problem;
use crate::spec::refusal::Refusal;
use crate::spec::shape::Shape;
use crate::spec::tensor::{Strides, Tensor};
use crate::spec::view::{Layout, View};

/// The views of dO, dQ, dK and dV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GradientViews {
    /// View of dO, the gradient with respect to O, with O's shape.
    pub d_o: View,
    /// View of dQ.
    pub dq: View,
    /// View of dK.
    pub dk: View,
    /// View of dV.
    pub dv: View,
}

impl GradientViews {
    /// The views, with their tensors.
    pub const fn named(&self) -> [(Tensor, View); 4] {
        [(Tensor::DO, self.d_o), (Tensor::DQ, self.dq), (Tensor::DK, self.dk), (Tensor::DV, self.dv)]
    }
}

/// dQ, dK and dV of a loss, given dO:
///
/// ```text
/// P  = exp(scale · QKᵀ − LSE)         dV = Pᵀ · dO
/// dS = P ∘ (dO · Vᵀ − rowsum(dO ∘ O))
/// dQ = scale · dS · K                 dK = scale · dSᵀ · Q
/// ```
///
/// dBias is dS, if it is asked for ([`Self::with_bias`]).
///
/// O and LSE are those of the forward pass. Heads of Q that share a head of K and V add to its gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gradient {
    problem: Problem,
    views: GradientViews,
    bias: Option<Strides>,
}

impl Gradient {
    /// The gradient of `problem`, with dO laid out like O, dQ like Q, dK like K, and dV like V.
    ///
    /// # Errors
    /// As for [`Self::with_views`]: two rows of Q, K or V may overlap, and rows of their gradients may not.
    pub fn new(problem: Problem) -> Result<Self, Refusal> {
        let views = problem.views();
        let of = |view: View| View::new(view.strides);
        let views = GradientViews { d_o: of(views.o), dq: of(views.q), dk: of(views.k), dv: of(views.v) };
        Self::with(problem, views)
    }

    /// The gradient of `problem` with contiguous tensors `[B,H,S,D]`.
    ///
    /// # Errors
    /// When a stride does not fit 64 bits.
    pub fn contiguous(problem: Problem) -> Result<Self, Refusal> {
        let view = |tensor| Layout::Bhsd.strides(problem.shape().of(tensor)).map(View::new);
        let views = GradientViews {
            d_o: view(Tensor::DO)?,
            dq: view(Tensor::DQ)?,
            dk: view(Tensor::DK)?,
            dv: view(Tensor::DV)?,
        };
        Self::with(problem, views)
    }

    /// The gradient of `problem` with these views.
    ///
    /// # Errors
    /// As for [`Self::with_views`].
    pub fn with(problem: Problem, views: GradientViews) -> Result<Self, Refusal> {
        Self { problem, views, bias: None }.checked()
    }

    /// The same gradient with other views.
    ///
    /// # Errors
    /// When rows would not be 16-byte aligned, a tensor does not fit 64-bit addresses, or two rows of dQ, dK or dV overlap (rows of
    /// dO may overlap).
    pub fn with_views(self, views: GradientViews) -> Result<Self, Refusal> {
        Self { views, ..self }.checked()
    }

    /// The same gradient with dBias, of the type of Q and `[B,H,S_q,S_k]` by `strides`; the last dimension is contiguous. Where a stride is 0,
    /// what shares an element is added up.
    ///
    /// # Errors
    /// When the problem has no bias, 64 bits cannot count the elements, or two of them overlap.
    pub fn with_bias(self, strides: Strides) -> Result<Self, Refusal> {
        let shape = self.problem.shape();
        if self.problem.score_mod().bias.is_none() {
            return Err(Refusal::NoBias);
        }
        let with = Self { bias: Some(strides), ..self };
        if with.bias_extent().and_then(|elements| elements.checked_mul(ELEMENT_BYTES)).is_none() {
            return Err(Refusal::BiasTooLarge { shape, strides });
        }
        let own = with.bias_shape().expect("it has dBias");
        View::new(strides).check_rows_apart(Tensor::DBias, own)?;
        Ok(with)
    }

    /// Strides of dBias, if it is asked for.
    pub const fn bias(&self) -> Option<Strides> {
        self.bias
    }

    /// The batch entries, heads and rows that have elements of dBias of their own: 1 where its stride is 0. D is the number of keys.
    pub fn bias_shape(&self) -> Option<Shape> {
        let (strides, shape) = (self.bias?, self.problem.shape());
        let own = |size, stride| if stride == 0 { 1 } else { size };
        let (batch, heads) = (own(shape.batch, strides.batch), own(shape.heads, strides.head));
        let rows = own(shape.sequence, strides.row);
        Some(Shape::new(batch, heads, rows).with_head_dim(shape.kv_sequence))
    }

    /// Elements of dBias from the first to one past the last; `None` without it, or if 64 bits cannot count them.
    pub fn bias_extent(&self) -> Option<u64> {
        View::new(self.bias?).span(self.bias_shape()?)
    }

    fn checked(self) -> Result<Self, Refusal> {
        for (tensor, view) in self.views.named() {
            view.check(tensor, self.shape_of(tensor))?;
            if tensor != Tensor::DO {
                view.check_rows_apart(tensor, self.shape_of(tensor))?;
            }
        }
        Ok(self)
    }

    /// The problem whose gradient this is.
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The views of dO, dQ, dK and dV.
    pub const fn views(&self) -> &GradientViews {
        &self.views
    }

    /// The shape of a tensor of the problem or of its gradient, alone.
    pub const fn shape_of(&self, tensor: Tensor) -> Shape {
        self.problem.shape().of(tensor)
    }

    /// Elements of a tensor's buffer before the first one, and from the first to one past the last; `None` for tensors without rows of D columns.
    pub fn extent(&self, tensor: Tensor) -> Option<(u64, u64)> {
        let view = self.view_of(tensor)?;
        Some((view.offset, view.span(self.shape_of(tensor))?))
    }

    /// The view of any of the tensors with rows of D columns, if `tensor` is one.
    pub const fn view_of(&self, tensor: Tensor) -> Option<View> {
        match tensor {
            Tensor::DO => Some(self.views.d_o),
            Tensor::DQ => Some(self.views.dq),
            Tensor::DK => Some(self.views.dk),
            Tensor::DV => Some(self.views.dv),
            Tensor::Q | Tensor::K | Tensor::V | Tensor::O => Some(self.problem.views().of(tensor)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::spec::config::Mask;
    use crate::spec::problem::ScoreMod;
    use crate::spec::view::Views;
    use std::string::ToString;

    fn problem() -> Problem {
        let shape = Shape { kv_heads: 2, kv_sequence: 7, ..Shape::new(2, 4, 5) };
        Problem::new(shape, Mask::Full, Layout::Bhsd).unwrap()
    }

    #[test]
    fn gradients_have_the_shapes_of_their_tensors() {
        let gradient = Gradient::new(problem()).unwrap();
        for (own, of) in
            [(Tensor::DO, Tensor::O), (Tensor::DQ, Tensor::Q), (Tensor::DK, Tensor::K), (Tensor::DV, Tensor::V)]
        {
            assert_eq!(gradient.shape_of(own), gradient.shape_of(of), "{own}");
            assert_eq!(gradient.view_of(own), gradient.view_of(of), "{own}");
        }
        assert_eq!(gradient.view_of(Tensor::Lse), None);
    }

    #[test]
    fn rows_of_a_gradient_may_not_overlap_though_those_of_its_tensor_do() {
        let shared = View::new(Strides { batch: 0, head: 0, row: 64 });
        let problem = problem().with_views(Views { k: shared, ..*problem().views() }).unwrap();
        assert!(Gradient::new(problem).unwrap_err().to_string().contains("dK has a"));
        let gradient = Gradient::new(self::problem()).unwrap();
        gradient.with_views(GradientViews { d_o: shared, ..*gradient.views() }).expect("dO may be broadcast");
    }

    #[test]
    fn elements_of_d_bias_are_apart_or_shared_and_those_of_a_bias() {
        let all = Strides { batch: 140, head: 35, row: 7 };
        let refusal = Gradient::new(problem()).unwrap().with_bias(all).unwrap_err();
        assert!(refusal.to_string().contains("no bias"), "{refusal}");
        let problem = problem().with_score_mod(ScoreMod { bias: Some(all), ..ScoreMod::NONE }).unwrap();
        let gradient = Gradient::new(problem).unwrap();
        let extent = |strides| gradient.with_bias(strides).map(|gradient| gradient.bias_extent().unwrap());
        assert_eq!(extent(all), Ok(280));
        assert_eq!(extent(Strides { batch: 0, ..all }), Ok(140));
        assert_eq!(extent(Strides { batch: 7, head: 0, row: 0 }), Ok(14));
        assert_eq!(extent(Strides { batch: 0, head: 0, row: 0 }), Ok(7));
        for strides in [Strides { row: 6, ..all }, Strides { head: 34, ..all }, Strides { batch: u64::MAX, ..all }] {
            extent(strides).expect_err("elements overlap, or are too far apart");
        }
    }

    #[test]
    fn rows_of_gradients_are_aligned() {
        let gradient = Gradient::new(problem()).unwrap();
        let odd = View { offset: 4, ..gradient.views().dv };
        let refusal = gradient.with_views(GradientViews { dv: odd, ..*gradient.views() }).unwrap_err();
        assert!(refusal.to_string().contains("dV starts at element 4"), "{refusal}");
    }
}
