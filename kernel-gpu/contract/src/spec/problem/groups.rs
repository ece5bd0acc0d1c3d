//! Heads that share keys, as rows of one head.

use crate::spec::config::{Mask, WARPGROUP_ROWS};
use crate::spec::problem::Problem;
use crate::spec::shape::Shape;
use crate::spec::view::{View, Views};

impl Problem {
    /// The same problem, on the same memory, with the heads of Q that share a head of K and V as further rows of a single head, so that
    /// one tile holds rows of several of them and reads K and V once for all. Unchanged if that saves no tile, if rows are not all
    /// alike (a mask, slopes, a bias), or if no strides describe such rows of Q and O.
    pub fn with_groups_as_rows(self) -> Self {
        self.grouped().unwrap_or(self)
    }

    fn grouped(self) -> Option<Self> {
        let shape = self.shape;
        let group = shape.group();
        let rows = shape.sequence.checked_mul(group)?;
        let rows_are_alike = self.packing.is_none()
            && self.mask() == Mask::Full
            && self.score_mod.alibi.is_none()
            && self.score_mod.bias.is_none();
        let saves_tiles = tiles(rows) < tiles(shape.sequence).saturating_mul(group);
        if !rows_are_alike || !saves_tiles {
            return None;
        }
        let of_rows = Shape { heads: shape.kv_heads, sequence: rows, ..shape };
        super::sizes::check(of_rows).ok()?;
        let views = Views { q: of_group(self.views.q, shape)?, o: of_group(self.views.o, shape)?, ..self.views };
        Self { shape: of_rows, ..self }.with_views(views).ok()
    }
}

/// Tiles of `rows` rows, by the rows of a warpgroup.
fn tiles(rows: u32) -> u32 {
    rows.div_ceil(WARPGROUP_ROWS)
}

/// A view of Q or O of `shape` with the rows of a group's heads one behind another; `None` if they are not equally far apart.
fn of_group(view: View, shape: Shape) -> Option<View> {
    let (mut strides, rows) = (view.strides, u64::from(shape.sequence));
    match rows {
        1 => strides.row = strides.head,
        _ if rows.checked_mul(strides.row)? == strides.head => {}
        _ => return None,
    }
    strides.head = strides.head.checked_mul(shape.group().into())?;
    Some(View { strides, ..view })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::problem::{Alignment, ScoreMod, Slopes, Window};
    use crate::spec::tensor::{Strides, Tensor};
    use crate::spec::view::Layout;

    fn problem(shape: Shape, mask: Mask, layout: Layout) -> Problem {
        Problem::new(shape, mask, layout).unwrap()
    }

    /// Elements before each row of Q, in the order of LSE.
    fn offsets(problem: &Problem) -> impl Iterator<Item = u64> {
        let (shape, View { strides, .. }) = (problem.shape(), problem.views().of(Tensor::Q));
        let [batch, heads, rows] = [shape.batch, shape.heads, shape.sequence].map(u64::from);
        let of_head =
            move |b: u64, h: u64| (0..rows).map(move |row| b * strides.batch + h * strides.head + row * strides.row);
        (0..batch).flat_map(move |b| (0..heads).flat_map(move |h| of_head(b, h)))
    }

    #[test]
    fn rows_stay_where_they_are_and_attend_to_the_same_keys() {
        let shape = |rows| Shape::new(2, 12, rows).with_kv_heads(3).with_kv_sequence(70);
        for (rows, layout) in [(1, Layout::Bhsd), (1, Layout::Bshd), (5, Layout::Bhsd), (129, Layout::Bhsd)] {
            let before = problem(shape(rows), Mask::Full, layout);
            let after = before.with_groups_as_rows();
            assert_eq!(after.shape(), Shape::new(2, 3, 4 * rows).with_kv_sequence(70), "{rows} {layout:?}");
            assert!(offsets(&before).eq(offsets(&after)), "{rows} {layout:?}: a row of O or LSE would move");
            assert_eq!([Tensor::K, Tensor::V].map(|tensor| after.views().of(tensor)), [before.views().k; 2]);
            assert_eq!(after.extent(Tensor::O), before.extent(Tensor::O));
            assert_eq!(after.with_groups_as_rows(), after);
        }
    }

    #[test]
    fn one_row_at_the_last_key_has_no_mask() {
        let shape = Shape::new(1, 8, 1).with_kv_heads(2).with_kv_sequence(1000);
        let at_last = problem(shape, Mask::Causal, Layout::Bshd).aligned(Alignment::BottomRight);
        assert_eq!(at_last.simplified().with_groups_as_rows().shape().sequence, 4);
        assert_eq!(
            at_last.with_groups_as_rows(),
            at_last,
            "whoever wants a kernel with a mask gets the problem with its mask"
        );
    }

    #[test]
    fn groups_stay_where_rows_differ_or_nothing_is_saved() {
        let shape = Shape::new(2, 12, 5).with_kv_heads(3);
        let full = problem(shape, Mask::Full, Layout::Bhsd);
        let own_heads = problem(Shape::new(2, 12, 5), Mask::Full, Layout::Bhsd);
        let even = problem(Shape::new(2, 12, 128).with_kv_heads(3), Mask::Full, Layout::Bhsd);
        let strides = Strides { head: 6 * 64, ..full.views().q.strides };
        let apart = full.with_views(Views { q: View::new(strides), ..*full.views() });
        let slopes = full.with_score_mod(ScoreMod { alibi: Some(Slopes::PerHead), ..ScoreMod::NONE });
        let bias =
            full.with_score_mod(ScoreMod { bias: Some(Strides { batch: 0, head: 0, row: 8 }), ..ScoreMod::NONE });
        for (problem, why) in [
            (own_heads, "no heads are shared"),
            (even, "as many tiles"),
            (problem(shape, Mask::Causal, Layout::Bhsd), "rows attend to other keys"),
            (full.with_window(Window { left: Some(2), right: None }), "rows attend to other keys"),
            (problem(shape, Mask::Full, Layout::Bshd), "other heads lie between two rows"),
            (apart.unwrap(), "a gap behind each head"),
            (slopes.unwrap(), "heads have slopes of their own"),
            (bias.unwrap(), "rows have a bias"),
        ] {
            assert_eq!(problem.with_groups_as_rows(), problem, "{why}");
        }
        let softcap = full.with_score_mod(ScoreMod { softcap: Some(30.0), ..ScoreMod::NONE }).unwrap();
        assert_eq!(softcap.with_groups_as_rows().shape().heads, 3, "one for all rows");
    }
}
