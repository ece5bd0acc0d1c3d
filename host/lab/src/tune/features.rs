//! Tile configurations as vectors of small numbers, for strategies that need a notion of neighbourhood.

use std::collections::BTreeSet;

use contract::tile::{Configuration, Kind, Sm80, Sm90Tma};
use serde_json::Value;

/// The fields in which a set of configurations differ, and the level of each configuration along them. The kind is a
/// field too if there are several; a field that a kind does not have counts as a level of its own.
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
    /// Number of levels.
    pub levels: usize,
    /// Whether neighbouring levels are similar: true for numbers, not for names or a missing number.
    pub ordered: bool,
}

impl Features {
    /// The features of `configs`.
    pub fn new(configs: &[Configuration]) -> Self {
        let fields: Vec<_> = configs.iter().map(fields).collect();
        let names: BTreeSet<&String> = fields.iter().flat_map(|fields| fields.keys()).collect();
        let mut axes = Vec::new();
        let mut levels = vec![Vec::new(); configs.len()];
        for name in names {
            let values: BTreeSet<Level> = fields.iter().map(|fields| Level::of(fields.get(name))).collect();
            if values.len() < 2 {
                continue;
            }
            let ordered = values.iter().all(|value| matches!(value, Level::Number(_)));
            let values: Vec<_> = values.into_iter().collect();
            for (levels, fields) in levels.iter_mut().zip(&fields) {
                let level = values.binary_search(&Level::of(fields.get(name))).expect("every value was collected");
                levels.push(level);
            }
            axes.push(Axis { name: name.clone(), levels: values.len(), ordered });
        }
        Self { axes, levels }
    }

    /// The fields in which the configurations differ.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The level of configuration `index` along each axis.
    pub fn levels(&self, index: usize) -> &[usize] {
        &self.levels[index]
    }

    /// Number of configurations.
    pub fn count(&self) -> usize {
        self.levels.len()
    }
}

/// A short description of a configuration for an entry's name: its tile, its other sizes, and non-default options.
/// Numbers are prefixed with the initials of their fields; names stay as they are.
pub fn label(config: &Configuration) -> String {
    let usual = fields(&match config.kind() {
        Kind::Sm80 => Configuration::Sm80(Sm80::new(0, 0, 0, 0)),
        Kind::Sm90Tma => Configuration::Sm90Tma(Sm90Tma::new(0, 0)),
    });
    let words = fields(config).into_iter().filter(|(name, value)| !is_tile(name) && usual[name] != *value);
    let words = words.map(|(name, value)| match value {
        Value::String(value) => format!("_{value}"),
        value => format!("_{value}{}", initials(&name)),
    });
    format!("{}x{}{}", config.block_m(), config.block_n(), words.collect::<String>())
}

fn is_tile(name: &str) -> bool {
    ["block_m", "block_n"].contains(&name)
}

fn initials(name: &str) -> String {
    name.split('_').filter_map(|word| word.chars().next()).collect()
}

fn fields(config: &Configuration) -> serde_json::Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(fields)) => fields,
        other => unreachable!("a tile configuration is a JSON object, not {other:?}"),
    }
}

/// The value of a field, with an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Absent,
    Number(i64),
    Name(String),
}

impl Level {
    fn of(value: Option<&Value>) -> Self {
        let Some(value) = value else { return Self::Absent };
        match value.as_i64() {
            Some(number) => Self::Number(number),
            None => Self::Name(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::tile::{Epilogue, Grid, Rescale};
    use std::collections::HashMap;

    fn portable(block_m: u32, stages: u32) -> Configuration {
        Configuration::Sm80(Sm80::new(block_m, 64, 4, stages))
    }

    fn axes(features: &Features) -> Vec<(&str, usize, bool)> {
        features.axes().iter().map(|axis| (axis.name.as_str(), axis.levels, axis.ordered)).collect()
    }

    #[test]
    fn only_fields_that_differ_are_axes() {
        let features = Features::new(&[portable(64, 2), portable(256, 2), portable(128, 4)]);
        assert_eq!(axes(&features), [("block_m", 3, true), ("stages", 2, true)]);
        assert_eq!([0, 1, 2].map(|index| features.levels(index).to_vec()), [vec![0, 0], vec![2, 0], vec![1, 1]]);
        assert_eq!(Features::new(&[]).count(), 0);
    }

    #[test]
    fn a_field_that_one_kind_has_is_an_axis_of_all() {
        let tma = |passes| Configuration::Sm90Tma(Sm90Tma { passes, ..Sm90Tma::new(1, 2) });
        let features = Features::new(&[tma(1), tma(2), portable(64, 2)]);
        let axes = axes(&features);
        let passes = axes.iter().position(|(name, ..)| *name == "passes").expect("it is an axis");
        assert_eq!(axes[passes], ("passes", 3, false));
        assert!(axes.contains(&("kind", 2, false)), "{axes:?}");
        assert_eq!([0, 1, 2].map(|index| features.levels(index)[passes]), [1, 2, 0]);
    }

    #[test]
    fn labels_tell_configurations_apart() {
        let tile = Sm80::new(64, 128, 4, 2);
        let tma = Sm90Tma { passes: 2, grid: Grid::Persistent, ..Sm90Tma::new(2, 4) };
        let other = Sm80 { epilogue: Epilogue::Exchange, rescale: Rescale::EveryStep, unroll: 1, ..tile };
        for (config, expected) in [
            (Configuration::Sm80(tile), "64x128_2s_4w"),
            (Configuration::Sm80(other), "64x128_exchange_every_step_2s_1u_4w"),
            (Configuration::Sm90Tma(tma), "256x64_persistent_2p_4s_2w"),
        ] {
            assert_eq!(label(&config), expected);
            let mut by_initials: HashMap<String, String> = HashMap::new();
            for (name, _) in fields(&config).into_iter().filter(|(name, value)| value.is_number() && !is_tile(name)) {
                if let Some(other) = by_initials.insert(initials(&name), name.clone()) {
                    panic!("{name} and {other} of {config:?} have the same initials");
                }
            }
        }
    }
}
