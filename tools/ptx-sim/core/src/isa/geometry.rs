//! Shared by texture and surface instructions: geometry, handle, coordinates.

use crate::context::Context;
use crate::decode::{Decode, Form, invalid, unsupported};
use crate::memory::Geometry;
use crate::numeric::sign_extend;
use crate::parse::{Operand, Type};
use crate::program::{Destination, Slot};

const GEOMETRIES: [(&str, Geometry); 5] = [
    ("1d", Geometry::Line),
    ("2d", Geometry::Plane),
    ("3d", Geometry::Volume),
    ("a1d", Geometry::Lines),
    ("a2d", Geometry::Planes),
];

/// Unsupported geometries, and their names.
const OTHERS: [(&str, &str); 4] = [
    ("cube", "cubemaps"),
    ("acube", "layered cubemaps"),
    ("2dms", "multisampled textures"),
    ("a2dms", "multisampled textures"),
];

/// Takes the geometry.
pub(super) fn take(form: &mut Form<'_>) -> Decode<Geometry> {
    if let Some((_, what)) = OTHERS.iter().find(|(name, _)| form.has(name)) {
        return unsupported(format!("`{}`: {what} are not executed", form.name()));
    }
    form.choice(&GEOMETRIES).map_or_else(|| form.refuse(), Ok)
}

/// The coordinates of an access.
pub(crate) struct Coordinates {
    pub layer: Option<Slot>,
    /// Column, row, slice.
    pub places: Vec<Slot>,
}

impl Coordinates {
    /// The coordinates for a geometry, each of type `kind`. Further operands, which pad a vector, are ignored.
    pub fn take(form: &mut Form<'_>, operands: &[Operand], geometry: Geometry, kind: Type) -> Decode<Coordinates> {
        let items = match operands {
            [Operand::Vector(items)] => items.as_slice(),
            single @ [Operand::Name(_)] if geometry == Geometry::Line => single,
            _ => return invalid(format!("`{}` takes a vector of coordinates here", form.name())),
        };
        let expected = match geometry {
            Geometry::Line => 1,
            Geometry::Plane | Geometry::Lines => 2,
            Geometry::Volume | Geometry::Planes => 4,
        };
        if items.len() != expected {
            return invalid(format!("`{}` takes {expected} coordinates, not {}", form.name(), items.len()));
        }
        let (layers, places) = items.split_at(usize::from(geometry.is_layered()));
        let layer = layers.first().map(|layer| form.source_of(layer, Type::B32, false)).transpose()?;
        let places = places[..geometry.rank()].iter().map(|place| form.source_of(place, kind, false));
        Ok(Coordinates { layer, places: places.collect::<Decode<_>>()? })
    }

    /// Reports undetermined coordinates.
    pub fn require(&self, context: &mut Context<'_>) {
        context.require(&self.places);
        context.require(self.layer.as_slice());
    }

    /// The integer coordinates of a lane.
    pub fn integers(&self, context: &Context<'_>, lane: usize) -> Vec<i64> {
        self.places.iter().map(|place| sign_extend(context.value(*place, lane), 32)).collect()
    }

    /// The floating-point coordinates of a lane.
    pub fn numbers(&self, context: &Context<'_>, lane: usize) -> Vec<f32> {
        self.places.iter().map(|place| f32::from_bits(context.value(*place, lane) as u32)).collect()
    }

    /// The layer of a lane, if the geometry has layers.
    pub fn layer(&self, context: &Context<'_>, lane: usize) -> Option<u64> {
        self.layer.map(|layer| context.value(layer, lane))
    }
}

/// The queried property of an object (`txq`, `suq`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Query {
    Width,
    Height,
    Depth,
    Layers,
}

/// A decoded query.
pub(crate) struct QueryOperation {
    pub handle: Slot,
    pub query: Query,
    pub to: Destination,
}

impl QueryOperation {
    /// Takes `.query.b32 d, [a]`.
    pub fn take(form: &mut Form<'_>) -> Decode<QueryOperation> {
        let queries = [
            ("width", Query::Width),
            ("height", Query::Height),
            ("depth", Query::Depth),
            ("array_size", Query::Layers),
        ];
        let Some(query) = form.choice(&queries) else {
            return unsupported(format!(
                "`{}`: what is answered are .width, .height, .depth and .array_size",
                form.name()
            ));
        };
        if form.kind()? != Type::B32 {
            return form.refuse();
        }
        let to = form.destination(Type::B32)?;
        let (handle, coordinates) = form.object()?;
        match coordinates {
            [] => Ok(QueryOperation { handle, query, to }),
            _ => invalid(format!("`{}` takes no coordinates", form.name())),
        }
    }

    /// The result for a geometry of this extent.
    pub fn answer(&self, geometry: Geometry, [width, height, depth]: [u64; 3]) -> u64 {
        match self.query {
            Query::Width => width,
            Query::Height if geometry.rank() > 1 => height,
            Query::Depth if geometry.rank() > 2 => depth,
            Query::Layers if geometry.is_layered() => depth,
            _ => 0,
        }
    }
}
