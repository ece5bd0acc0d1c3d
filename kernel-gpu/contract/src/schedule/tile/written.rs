//! Tile configurations in files.

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use core::fmt;

use serde::de::value::{self, MapDeserializer, StringDeserializer};
use serde::de::{Deserialize, Deserializer, IntoDeserializer, Visitor};

use super::options::RESCALE_ON_OVERFLOW;
use super::{Configuration, Epilogue, Grid, Kind, Rejection, Rescale, Sm80, Sm90Tma};
use crate::schedule::architecture::MOST_GENEROUS;
use crate::spec::config::{Family, WARPGROUP_WARPS};

/// A configuration as in a file, flat and unchecked.
///
/// Files from before there was a type per kind have no `kind`, but the fields of all kinds and the family; newer ones may be missing.
/// later only in part, and the family stands beside them.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct Written(BTreeMap<String, Value>);

/// The value of a field.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(untagged, expecting = "expected a number or a name")]
enum Value {
    Number(u32),
    Name(String),
}

/// Kernels for sm_90a that loaded by `cp.async`.
const PAST_KIND: &str = "sm90_cp_async";

/// Fields that a kind had, each with the value whose kernels are still there.
const fn past_fields(kind: Kind) -> [(&'static str, Past); 2] {
    match kind {
        Kind::Sm80 => [("queries", Past::Name("registers")), ("fma_exponentials", Past::Number(0))],
        Kind::Sm90Tma => {
            [("rescale_threshold", Past::Number(RESCALE_ON_OVERFLOW)), ("epilogue", Past::Name("shared_memory"))]
        }
    }
}

/// The value of a field that a kind had.
#[derive(Clone, Copy)]
enum Past {
    Number(u32),
    Name(&'static str),
}

impl PartialEq<Past> for Value {
    fn eq(&self, past: &Past) -> bool {
        match (self, past) {
            (Self::Number(number), Past::Number(past)) => number == past,
            (Self::Name(name), Past::Name(past)) => name == past,
            _ => false,
        }
    }
}

/// Why a file's configuration cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum Unreadable {
    /// The fields are not those of the kind.
    Fields(value::Error),
    /// It has no kind, and no kind of kernels has such fields.
    Unknown(&'static str),
    /// It is of a kernel that is no more.
    Past,
    /// It cannot work.
    Rejected(Rejection),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a tile configuration that no kernel has: ")?;
        match self {
            Unreadable::Fields(error) => error.fmt(formatter),
            Unreadable::Unknown(reason) => formatter.write_str(reason),
            Unreadable::Past => formatter.write_str("its kind or an option is no more"),
            Unreadable::Rejected(rejection) => rejection.fmt(formatter),
        }
    }
}

impl core::error::Error for Unreadable {}

impl Kind {
    /// Reads the configuration of a kernel of this kind from its fields, without checking whether it can work.
    ///
    /// # Errors
    /// When a field is missing or unknown.
    pub fn read<'de, D: Deserializer<'de>>(self, fields: D) -> Result<Configuration, D::Error> {
        match self {
            Kind::Sm80 => Sm80::deserialize(fields).map(Configuration::Sm80),
            Kind::Sm90Tma => Sm90Tma::deserialize(fields).map(Configuration::Sm90Tma),
        }
    }
}

impl Written {
    /// The configuration, for a kernel of `family` if that is known. It passes its gate on some architecture, for some
    /// sequence.
    ///
    /// # Errors
    /// When no kernel has such a configuration, or it cannot work.
    pub fn configuration(self, family: Option<Family>) -> Result<Configuration, Unreadable> {
        let Self(mut fields) = self;
        let configuration = match fields.remove("kind") {
            Some(Value::Name(kind)) if kind == PAST_KIND => return Err(Unreadable::Past),
            Some(kind) => {
                let kind = Kind::deserialize(kind.into_deserializer()).map_err(Unreadable::Fields)?;
                for (name, past) in past_fields(kind) {
                    if fields.remove(name).is_some_and(|value| value != past) {
                        return Err(Unreadable::Past);
                    }
                }
                kind.read(MapDeserializer::new(fields.into_iter())).map_err(Unreadable::Fields)?
            }
            None => {
                let fields = WithoutKind::deserialize(MapDeserializer::new(fields.into_iter()));
                fields.map_err(Unreadable::Fields)?.configuration(family)?
            }
        };
        configuration.check_tile(MOST_GENEROUS).map_err(Unreadable::Rejected)?;
        Ok(configuration)
    }
}

impl TryFrom<Written> for Configuration {
    type Error = Unreadable;

    fn try_from(written: Written) -> Result<Self, Unreadable> {
        written.configuration(None)
    }
}

/// How tiles are loaded into shared memory, in files without kinds.
#[derive(Clone, Copy, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Loads {
    #[default]
    CpAsync,
    Tma,
}

/// The fields of files without kinds. Missing ones have the value from before they became options.
#[derive(serde::Deserialize)]
struct WithoutKind {
    block_m: u32,
    block_n: u32,
    warps: u32,
    stages: u32,
    min_blocks: u32,
    #[serde(default = "one")]
    passes: u32,
    #[serde(default)]
    loads: Loads,
    #[serde(default = "one_shot")]
    grid: Grid,
    queries: Option<String>,
    #[serde(default)]
    fma_exponentials: u32,
    #[serde(default)]
    unroll: u32,
    #[serde(default = "rescale_on_overflow")]
    rescale_threshold: u32,
    #[serde(default = "through_shared_memory")]
    epilogue: Epilogue,
}

fn one() -> u32 {
    1
}

fn one_shot() -> Grid {
    Grid::OneShot
}

fn rescale_on_overflow() -> u32 {
    RESCALE_ON_OVERFLOW
}

fn through_shared_memory() -> Epilogue {
    Epilogue::SharedMemory
}

impl WithoutKind {
    fn configuration(self, family: Option<Family>) -> Result<Configuration, Unreadable> {
        match (self.loads, family, self.queries.as_deref()) {
            (Loads::Tma, Some(Family::Sm90a) | None, _) => self.sm90_tma(),
            (Loads::CpAsync, Some(Family::Sm90a), _) => Err(Unreadable::Past),
            (Loads::CpAsync, Some(Family::Sm80), _) | (Loads::CpAsync, None, Some("registers")) => self.sm80(),
            (Loads::Tma, Some(Family::Sm80), _) => Err(Unreadable::Unknown("loads by TMA in the sm_80 family")),
            (Loads::CpAsync, None, _) => Err(Unreadable::Unknown("it says neither its kind nor its family")),
        }
    }

    fn sm80(self) -> Result<Configuration, Unreadable> {
        let Self { block_m, block_n, warps, stages, min_blocks, unroll, epilogue, .. } = self;
        self.require_one_shot()?;
        let rescale = match self.rescale_threshold {
            0 => Rescale::EveryStep,
            RESCALE_ON_OVERFLOW => Rescale::OnOverflow,
            _ => return Err(Unreadable::Unknown("a rescale_threshold in the sm_80 family that is neither 0 nor 14")),
        };
        if self.fma_exponentials != 0 || self.queries.is_some_and(|queries| queries != "registers") {
            return Err(Unreadable::Past);
        }
        let usual = Sm80::new(block_m, block_n, warps, stages);
        Ok(Configuration::Sm80(Sm80 { min_blocks, unroll, rescale, epilogue, ..usual }))
    }

    fn sm90_tma(self) -> Result<Configuration, Unreadable> {
        let Self { stages, min_blocks, passes, grid, .. } = self;
        if self.rescale_threshold != RESCALE_ON_OVERFLOW || self.epilogue != Epilogue::SharedMemory {
            return Err(Unreadable::Past);
        }
        if self.block_n != Sm90Tma::BLOCK_N {
            return Err(Unreadable::Unknown("loads by TMA of other tiles than 64 keys"));
        }
        let usual = Sm90Tma::new(self.warps / WARPGROUP_WARPS, stages);
        let tile = Sm90Tma { min_blocks, passes, grid, ..usual };
        self.require_warpgroups(tile.block_m())?;
        Ok(Configuration::Sm90Tma(tile))
    }

    fn require_one_shot(&self) -> Result<(), Unreadable> {
        match (self.grid, self.passes) {
            (Grid::OneShot, 1) => Ok(()),
            _ => Err(Unreadable::Unknown("a persistent grid, or several passes, without loads by TMA")),
        }
    }

    /// Checks that the warps form whole warpgroups of `rows` query rows, and that all other fields have the only value of sm_90a kernels.
    fn require_warpgroups(&self, rows: u32) -> Result<(), Unreadable> {
        if self.warps % WARPGROUP_WARPS != 0 || self.block_m != rows {
            return Err(Unreadable::Unknown("warps that are no whole warpgroups of 64 query rows a pass"));
        }
        if self.fma_exponentials != 0 || self.unroll != 0 {
            return Err(Unreadable::Unknown("fma_exponentials or unroll in the sm_90a family"));
        }
        Ok(())
    }
}

impl IntoDeserializer<'_, value::Error> for Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Value {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        match self {
            Value::Number(number) => visitor.visit_u32(number),
            Value::Name(name) => visitor.visit_string(name),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, value::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        let text = match self {
            Value::Number(number) => number.to_string(),
            Value::Name(name) => name,
        };
        let text: StringDeserializer<value::Error> = text.into_deserializer();
        text.deserialize_enum(name, variants, visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}
