//! The search space: axes and their values, read from TOML.

use std::collections::BTreeMap;

use contract::config::Family;
use contract::tile::{Configuration, Kind};
use serde::de::value::MapDeserializer;
use serde_json::Value;

use cli::error::{Error, Result};
use cli::files;

/// The default search space.
const BUILT_IN: &str = include_str!("space.toml");

/// A point of a space: one value of every axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The fields of a tile configuration.
    pub config: Configuration,
    /// Bytes of shared-memory rows that the swizzle permutes; 0: no swizzle.
    pub swizzle: u32,
}

/// The axis that is not a field of a tile configuration: the kernels have a single swizzle, the only one that passes
/// the gates.
const SWIZZLE: &str = "swizzle";

/// The space of one kind of kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    kind: Kind,
    /// Fields of a tile configuration, and their values.
    fields: Vec<(String, Vec<Value>)>,
    swizzles: Vec<u32>,
}

/// Maximum number of points in a space, all of which go through the gates.
const MOST_POINTS: u64 = 10_000_000;

impl Space {
    /// The built-in spaces of the kinds of `family`.
    ///
    /// # Errors
    /// Never; checked by a test.
    pub fn built_in(family: Family) -> Result<Vec<Self>> {
        parse(BUILT_IN, family).map_err(|reason| Error::Invalid(format!("the built-in search space: {reason}")))
    }

    /// The spaces in the file at `path`, for those kinds of `family` that it has a table for.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read; [`Error::Invalid`] when it is malformed or has no such table.
    pub fn load(path: &std::path::Path, family: Family) -> Result<Vec<Self>> {
        let text = files::read_text(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        parse(&text, family).map_err(|reason| Error::Invalid(format!("{}: {reason}", path.display())))
    }

    /// A space with the values of these axes; the error says what is wrong with them.
    fn new(kind: Kind, mut axes: Axes) -> std::result::Result<Self, String> {
        let name = kind.name();
        let swizzles = axes.remove(SWIZZLE).ok_or_else(|| format!("[{name}]: there is no axis {SWIZZLE}"))?;
        let swizzles = serde_json::from_value(Value::Array(swizzles)).map_err(|error| format!("{SWIZZLE}: {error}"))?;
        let space = Self { kind, fields: axes.into_iter().collect(), swizzles };
        space.check().map_err(|reason| format!("[{name}]: {reason}"))?;
        Ok(space)
    }

    /// Checks that every point has a [`Configuration`] and that no axis is unknown.
    fn check(&self) -> std::result::Result<(), String> {
        let lengths = self.fields.iter().map(|(name, values)| (name.as_str(), values.len()));
        if let Some((name, _)) = lengths.chain([(SWIZZLE, self.swizzles.len())]).find(|(_, length)| *length == 0) {
            return Err(format!("{name} has no values"));
        }
        let points = self.fields.iter().try_fold(self.swizzles.len() as u64, |points, (_, values)| {
            points.checked_mul(values.len() as u64).filter(|points| *points <= MOST_POINTS)
        });
        if points.is_none() {
            return Err(format!("has more than {MOST_POINTS} points"));
        }
        let first: BTreeMap<_, _> = self.fields.iter().map(|(name, values)| (name, &values[0])).collect();
        let read = |fields: Value| self.kind.read(fields).map_err(|error| error.to_string());
        let fields = serde_json::json!(first);
        read(fields.clone())?;
        for (name, values) in &self.fields {
            for value in values {
                let mut fields = fields.clone();
                fields[name] = value.clone();
                read(fields).map_err(|error| format!("{name} = {value}: {error}"))?;
            }
        }
        Ok(())
    }

    /// The kind of the kernels.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Number of points.
    pub fn count(&self) -> u64 {
        self.configs() * self.swizzles.len() as u64
    }

    fn configs(&self) -> u64 {
        self.fields.iter().map(|(_, values)| values.len() as u64).product()
    }

    /// All points, in order.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        (0..self.configs()).flat_map(|index| {
            let config = self.config(index);
            self.swizzles.iter().map(move |&swizzle| Point { config, swizzle })
        })
    }

    fn config(&self, index: u64) -> Configuration {
        let mut rest = index;
        let fields = self.fields.iter().rev().map(|(name, values)| {
            let value = &values[(rest % values.len() as u64) as usize];
            rest /= values.len() as u64;
            (name.as_str(), value)
        });
        let read = self.kind.read(MapDeserializer::<_, serde_json::Error>::new(fields));
        read.expect("every value of every axis was read once")
    }
}

/// The values of each axis, by its name.
type Axes = BTreeMap<String, Vec<Value>>;

/// Parses the tables of the kinds of `family`; the error says what is wrong with them.
fn parse(text: &str, family: Family) -> std::result::Result<Vec<Space>, String> {
    let mut tables: BTreeMap<String, Axes> = toml::from_str(text).map_err(|error| error.to_string())?;
    let kinds = || Kind::ALL.into_iter().filter(|kind| kind.family() == family);
    let spaces: std::result::Result<Vec<_>, _> =
        kinds().filter_map(|kind| Some(Space::new(kind, tables.remove(kind.name())?))).collect();
    match spaces {
        Ok(spaces) if spaces.is_empty() => {
            let tables: Vec<_> = kinds().map(|kind| format!("[{}]", kind.name())).collect();
            Err(format!("there is no table {}", tables.join(" or ")))
        }
        spaces => spaces,
    }
}

/// The name of a family, as on the command line.
pub fn family_name(family: Family) -> &'static str {
    match family {
        Family::Sm80 => "sm80",
        Family::Sm90a => "sm90a",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use contract::variants::VARIANTS;

    use super::*;

    /// A part of the built-in space of the sm_80 family, with its shipped variants and points for every gate.
    pub fn small() -> Space {
        let mut space = Space::built_in(Family::Sm80).unwrap().remove(0);
        for (name, values) in &mut space.fields {
            let kept: &[u64] = match name.as_str() {
                "block_m" => &[32, 64, 96, 128],
                "block_n" => &[24, 32, 64],
                "warps" => &[4, 8, 16],
                "stages" => &[1, 2, 4, 8],
                "min_blocks" => &[1, 2, 3],
                "unroll" => &[0, 1],
                _ => continue,
            };
            *values = kept.iter().map(|&value| value.into()).collect();
        }
        space
    }

    #[test]
    fn the_built_in_spaces_have_thousands_of_points() {
        let families = [Family::Sm80, Family::Sm90a];
        let spaces: Vec<_> = families.into_iter().flat_map(|family| Space::built_in(family).unwrap()).collect();
        assert_eq!(spaces.len(), Kind::ALL.len(), "every kind has one");
        for space in spaces {
            assert!(space.count() > 3_000, "{:?}: {}", space.kind(), space.count());
        }
    }

    #[test]
    fn every_option_on_an_axis_is_that_of_a_shipped_kernel() {
        let spaces = [Family::Sm80, Family::Sm90a].map(|family| Space::built_in(family).unwrap());
        for space in spaces.iter().flatten() {
            let configs: Vec<Value> = VARIANTS
                .iter()
                .filter(|variant| variant.config.kind() == space.kind)
                .map(|variant| serde_json::to_value(variant.config).unwrap())
                .collect();
            for (name, values) in &space.fields {
                for option in values.iter().filter(|value| value.is_string()) {
                    let is_there = configs.iter().any(|config| config[name] == *option);
                    assert!(is_there, "no test runs a kernel whose {name} is {option}");
                }
            }
        }
    }

    #[test]
    fn every_point_is_there_once() {
        for space in Space::built_in(Family::Sm90a).unwrap() {
            let points: Vec<_> = space.points().collect();
            assert_eq!(points.len() as u64, space.count());
            let different: std::collections::HashSet<_> =
                points.iter().map(|point| (point.config, point.swizzle)).collect();
            assert_eq!(different.len(), points.len());
        }
    }

    #[test]
    fn what_is_wrong_with_a_space_is_said() {
        let good = BUILT_IN.split("[sm90_tma]").next().unwrap();
        let refusal = |text: &str, family| parse(text, family).unwrap_err();
        assert!(refusal(good, Family::Sm90a).contains("no table [sm90_tma]"));
        assert!(
            refusal(&format!("{good}\ncolour = [1]"), Family::Sm80)
                .contains("unknown field `colour`, expected one of `block_m`")
        );
        assert!(refusal(&good.replace("block_m", "block_x"), Family::Sm80).contains("block_m"));
        let text = good.replace("warps = [1,", "warps = [\"one\",");
        assert!(
            refusal(&text, Family::Sm80).contains("invalid type: string \"one\""),
            "{}",
            refusal(&text, Family::Sm80)
        );
        let text = good.replace("warps = [1, 2,", "warps = [1, 2.5,");
        assert!(refusal(&text, Family::Sm80).contains("warps = 2.5"), "{}", refusal(&text, Family::Sm80));
        assert!(refusal("[sm80]\nwarps = []\nswizzle = [0]", Family::Sm80).contains("warps has no values"));
        assert!(refusal("[sm80]\nwarps = [1]", Family::Sm80).contains("there is no axis swizzle"));
        assert!(refusal("[sm80", Family::Sm80).contains("TOML"));
        let text = ["swizzle = [", "warps = ["]
            .iter()
            .fold(good.to_owned(), |text, axis| text.replace(axis, &format!("{axis}{}", "1, ".repeat(4000))));
        assert!(refusal(&text, Family::Sm80).contains("more than 10000000 points"));
    }
}
