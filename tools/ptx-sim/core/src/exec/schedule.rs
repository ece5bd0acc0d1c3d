//! Whose turn it is, and for how long.

use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// Most instructions a warp executes before it is another one's turn.
const TURN: u64 = 4096;

/// An order of turns.
pub(super) struct Schedule {
    /// Absent when turns are taken in order of index.
    shuffle: Option<ChaCha8Rng>,
}

impl Schedule {
    /// The order with that number, for the `stream`-th of those that take turns of their own.
    pub fn new(number: u64, stream: u64) -> Schedule {
        let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream;
        Schedule { shuffle: (number != 0).then(|| ChaCha8Rng::seed_from_u64(seed)) }
    }

    /// Puts the next round of turns in order.
    pub fn order<T>(&mut self, turns: &mut [T]) {
        if let Some(random) = &mut self.shuffle {
            turns.shuffle(random);
        }
    }

    /// Instructions of the next turn.
    pub fn turn(&mut self) -> u64 {
        self.shuffle.as_mut().map_or(TURN, |random| random.random_range(1..=TURN))
    }
}
