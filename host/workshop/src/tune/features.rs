//! Tile configurations as vectors of small numbers, for strategies that need neighbours.

use std::collections::BTreeSet;

use contract::config::{Family, TileConfig};
use serde_json::Value;

/// The fields in which a set of configurations differ, and each configuration's place along them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    axes: Vec<Axis>,
    levels: Vec<Vec<usize>>,
}

/// A field in which configurations differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The field.
    pub name: String,
    /// How many values it has.
    pub levels: usize,
    /// Whether neighbouring levels resemble each other: numbers do, names do not.
    pub ordered: bool,
}

impl Features {
    /// The features of `configs`.
    pub fn new(configs: &[TileConfig]) -> Self {
        let fields: Vec<_> = configs.iter().map(fields).collect();
        let names: Vec<String> = fields.first().into_iter().flat_map(|fields| fields.keys().cloned()).collect();
        let mut axes = Vec::new();
        let mut levels = vec![Vec::new(); configs.len()];
        for name in names {
            let values: BTreeSet<Level> = fields.iter().map(|fields| Level::from(&fields[&name])).collect();
            if values.len() < 2 {
                continue;
            }
            let ordered = values.iter().all(|value| matches!(value, Level::Number(_)));
            let values: Vec<_> = values.into_iter().collect();
            for (levels, fields) in levels.iter_mut().zip(&fields) {
                let level = values.binary_search(&Level::from(&fields[&name])).expect("every value was collected");
                levels.push(level);
            }
            axes.push(Axis { name, levels: values.len(), ordered });
        }
        Self { axes, levels }
    }

    /// The fields in which the configurations differ.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The levels of configuration `index`, one for each axis.
    pub fn levels(&self, index: usize) -> &[usize] {
        &self.levels[index]
    }

    /// How many configurations there are.
    pub fn count(&self) -> usize {
        self.levels.len()
    }
}

/// A configuration in a few words, for the name of an entry: its tile, then what differs from what its family has
/// otherwise, numbers with the initials of their fields and names as they are.
pub fn label(family: Family, config: &TileConfig) -> String {
    let usual = fields(match family {
        Family::Sm80 => &TileConfig::SM_80,
        Family::Sm90a => &TileConfig::SM_90A,
    });
    let words = fields(config).into_iter().filter(|(name, value)| !is_tile(name) && usual[name] != *value);
    let words = words.map(|(name, value)| match value {
        Value::String(value) => format!("_{value}"),
        value => format!("_{value}{}", initials(&name)),
    });
    format!("{}x{}{}", config.block_m, config.block_n, words.collect::<String>())
}

fn is_tile(name: &str) -> bool {
    ["block_m", "block_n"].contains(&name)
}

fn initials(name: &str) -> String {
    name.split('_').filter_map(|word| word.chars().next()).collect()
}

fn fields(config: &TileConfig) -> serde_json::Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(fields)) => fields,
        other => unreachable!("a tile configuration is a JSON object, not {other:?}"),
    }
}

/// The value of a field, in an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Number(i64),
    Name(String),
}

impl From<&Value> for Level {
    fn from(value: &Value) -> Self {
        match value.as_i64() {
            Some(number) => Self::Number(number),
            None => Self::Name(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::config::{Epilogue, Grid};
    use contract::variants::VARIANTS;
    use std::collections::HashMap;

    fn config(block_m: u32, stages: u32) -> TileConfig {
        TileConfig { block_m, stages, ..VARIANTS[0].config }
    }

    #[test]
    fn only_fields_that_differ_are_axes() {
        let features = Features::new(&[config(64, 2), config(256, 2), config(128, 4)]);
        let axes: Vec<_> = features.axes().iter().map(|axis| (axis.name.as_str(), axis.levels, axis.ordered)).collect();
        assert_eq!(axes, [("block_m", 3, true), ("stages", 2, true)]);
        assert_eq!([0, 1, 2].map(|index| features.levels(index).to_vec()), [vec![0, 0], vec![2, 0], vec![1, 1]]);
        assert_eq!(Features::new(&[]).count(), 0);
    }

    #[test]
    fn labels_tell_configurations_apart() {
        let fields = fields(&VARIANTS[0].config);
        let mut by_initials: HashMap<String, String> = HashMap::new();
        for (name, value) in fields {
            if value.is_number()
                && let Some(other) = by_initials.insert(initials(&name), name.clone())
            {
                assert!(is_tile(&name), "{name} and {other} have the same initials");
            }
        }
        let config = TileConfig { block_m: 64, block_n: 128, warps: 4, stages: 2, ..TileConfig::SM_80 };
        assert_eq!(label(Family::Sm80, &config), "64x128_2s_4w");
        let config = TileConfig { grid: Grid::Persistent, passes: 2, min_blocks: 3, ..config };
        assert_eq!(label(Family::Sm80, &config), "64x128_persistent_3mb_2p_2s_4w");
        assert_eq!(label(Family::Sm90a, &config), "64x128_persistent_3mb_2p_registers_2s_4w");
        let config =
            TileConfig { epilogue: Epilogue::Exchange, rescale_threshold: 0, block_m: 64, ..TileConfig::SM_90A_TMA };
        assert_eq!(label(Family::Sm90a, &config), "64x0_exchange_tma_0rt");
    }
}
