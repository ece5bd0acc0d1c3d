//! The tasks of a tuning run: cases, their candidates, and shards.

use contract::tile::Configuration;
use serde::{Deserialize, Serialize};

use cli::error::{Error, Result};
use cli::record::Case;

/// A shard of the candidates: number `index` of `count`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Number of this shard.
    pub index: usize,
    /// Total number of shards.
    pub count: usize,
}

impl Shard {
    /// All candidates.
    pub const WHOLE: Self = Self { index: 1, count: 1 };

    /// Whether it contains candidate number `candidate`. Neighbours, which are similar, go to different shards.
    pub fn contains(self, candidate: usize) -> bool {
        candidate % self.count == self.index - 1
    }
}

impl std::str::FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err(Error::Invalid(format!("{text:?} is no part; expected one as 1/4: the first of four"))),
        }
    }
}

/// A candidate of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Name of its entry.
    pub name: String,
    /// Its tile configuration.
    pub config: Configuration,
}

/// A case with its candidates and incumbent.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The case.
    pub case: Case,
    /// The candidates.
    pub participants: Vec<Participant>,
    /// Name of the incumbent.
    pub incumbent: String,
}

impl Task {
    /// The task with the candidates in `shard` only.
    pub fn part(mut self, shard: Shard) -> Self {
        let mut index = 0;
        self.participants.retain(|_| {
            index += 1;
            shard.contains(index - 1)
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::Shard;

    #[test]
    fn parts_are_written_as_fractions() {
        assert_eq!("2/3".parse::<Shard>().unwrap(), Shard { index: 2, count: 3 });
        for text in ["0/3", "4/3", "1", "1/0", "a/b", ""] {
            let message = text.parse::<Shard>().unwrap_err().to_string();
            assert!(message.contains("1/4: the first of four"), "{text}: {message}");
        }
    }
}
