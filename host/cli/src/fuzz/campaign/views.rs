//! Draws memory layouts of tensors.

use contract::view::Layout;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;

use crate::fuzz::case::{Dimension, View};

/// Contiguous in one layout a third of the time, else every tensor with its own order, gaps and offset.
pub fn draw_views(random: &mut ChaCha8Rng) -> [View; 4] {
    if random.random_range(0..3) == 0 {
        let layout = *[Layout::Bhsd, Layout::Bshd].choose(random).expect("two layouts");
        return [View::contiguous(layout); 4];
    }
    let mut views = [(); 4].map(|()| draw_view(random));
    for input in &mut views[1..3] {
        input.shared_heads = random.random_range(0..6) == 0;
    }
    views
}

/// Places batch entries one after another, as a padded batch needs: in layout `[B,S,H,D]`, or with heads outermost.
pub fn put_entries_together(view: &mut View) {
    use Dimension::{Batch, Head, Row};
    (view.order, view.padding) = match view.order[0] {
        Row => ([Row, Batch, Head], [view.padding[0], 0, view.padding[2]]),
        Batch | Head => ([Head, Row, Batch], [view.padding[0], view.padding[1], 0]),
    };
}

fn draw_view(random: &mut ChaCha8Rng) -> View {
    const ORDERS: [[Dimension; 3]; 6] = {
        use Dimension::{Batch, Head, Row};
        [
            [Row, Head, Batch],
            [Head, Row, Batch],
            [Row, Batch, Head],
            [Batch, Row, Head],
            [Head, Batch, Row],
            [Batch, Head, Row],
        ]
    };
    let mut chunks = |most: u64| if random.random() { 8 * random.random_range(0..=most) } else { 0 };
    let padding = [chunks(16), chunks(16), chunks(16)];
    let offset = chunks(32);
    // The two usual layouts are drawn as often as the other four together.
    let order = if random.random() { ORDERS[random.random_range(0..2)] } else { ORDERS[random.random_range(0..6)] };
    View { order, padding, offset, shared_heads: false }
}
