//! Surfaces (PTX ISA, "suld", "sust", "suq"), as objects whose handle is in a register. Columns are counted in bytes.

use super::geometry::{self, Coordinates, QueryOperation};
use super::memory::{set_unknown, stored_unknown};
use crate::context::{Context, Faults, Left, Place};
use crate::decode::{Decode, Form, invalid, unsupported};
use crate::finding::FindingClass;
use crate::lanes::lanes;
use crate::memory::{Geometry, Texels};
use crate::parse::{Operand, Type};
use crate::program::{Destination, Slot};

/// Bytes of the widest access.
const WIDEST: usize = 16;

/// A decoded instruction on surfaces.
pub(crate) enum Operation {
    /// `suld.b`.
    Load { place: SurfacePlace, kind: Type, to: Vec<Destination> },
    /// `sust.b`.
    Store { place: SurfacePlace, kind: Type, from: Vec<Slot> },
    /// `suq`.
    Query(QueryOperation),
}

/// A surface and coordinates.
pub(crate) struct SurfacePlace {
    handle: Slot,
    geometry: Geometry,
    at: Coordinates,
    outside: Outside,
}

/// Behaviour of an access outside of the surface.
#[derive(Clone, Copy, Debug)]
enum Outside {
    /// It is an error.
    Trap,
    /// It accesses the nearest place inside.
    Clamp,
    /// It reads zeros and writes nothing.
    Zero,
}

/// Decodes an instruction on surfaces; `None` when the opcode is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    match form.opcode() {
        "suld" => load(form).map(Some),
        "sust" => store(form).map(Some),
        "suq" => Ok(Some(Operation::Query(QueryOperation::take(form)?))),
        "sured" => unsupported(format!("`{}`: atomic operations on surfaces are not executed", form.name())),
        _ => Ok(None),
    }
}

/// Takes everything up to the operands.
fn shape(form: &mut Form<'_>) -> Decode<(Geometry, usize, Type, Outside)> {
    if !form.flag("b") {
        return unsupported(format!("`{}`: accesses to surfaces that convert are not executed", form.name()));
    }
    let geometry = geometry::take(form)?;
    form.choice(&["ca", "cg", "cs", "cv", "wb", "wt"].map(|hint| (hint, ())));
    let count = form.choice(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
    let kind = form.kind()?;
    let outside = form.choice(&[("trap", Outside::Trap), ("clamp", Outside::Clamp), ("zero", Outside::Zero)]);
    let is_value = matches!(kind, Type::B8 | Type::B16 | Type::B32 | Type::B64);
    match outside {
        Some(outside) if is_value && count * kind.bytes() as usize <= WIDEST => Ok((geometry, count, kind, outside)),
        _ => form.refuse(),
    }
}

fn place(form: &mut Form<'_>, geometry: Geometry, outside: Outside) -> Decode<SurfacePlace> {
    let (handle, coordinates) = form.object()?;
    let at = Coordinates::take(form, coordinates, geometry, Type::B32)?;
    Ok(SurfacePlace { handle, geometry, at, outside })
}

/// Takes so many values.
fn values<'a>(form: &mut Form<'a>, count: usize) -> Decode<&'a [Operand]> {
    let items = form.vector()?;
    match items.len() == count {
        true => Ok(items),
        false => invalid(format!("`{}` takes {count} values, not {}", form.name(), items.len())),
    }
}

fn load(form: &mut Form<'_>) -> Decode<Operation> {
    let (geometry, count, kind, outside) = shape(form)?;
    let items = values(form, count)?;
    let to = items.iter().map(|item| form.destination_of(item, kind, true)).collect::<Decode<_>>()?;
    Ok(Operation::Load { place: place(form, geometry, outside)?, kind, to })
}

fn store(form: &mut Form<'_>) -> Decode<Operation> {
    let (geometry, count, kind, outside) = shape(form)?;
    let place = place(form, geometry, outside)?;
    let items = values(form, count)?;
    let from = items.iter().map(|item| form.source_of(item, kind, true)).collect::<Decode<_>>()?;
    Ok(Operation::Store { place, kind, from })
}

impl Operation {
    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        match self {
            Operation::Load { place, kind, to } => execute_load(context, place, *kind, to),
            Operation::Store { place, kind, from } => execute_store(context, place, *kind, from),
            Operation::Query(query) => execute_query(context, query),
        }
    }
}

fn execute_query(context: &mut Context<'_>, query: &QueryOperation) {
    context.require(&[query.handle]);
    let mut faults = Faults::default();
    for lane in lanes(context.active) {
        let found = object(context, &mut faults, lane, query.handle);
        let answer = found.map_or(0, |texels| query.answer(texels.geometry, texels.extent));
        context.set(query.to, lane, answer);
    }
    context.report_faults(faults);
}

fn execute_load(context: &mut Context<'_>, place: &SurfacePlace, kind: Type, to: &[Destination]) {
    place.require(context);
    let width = kind.bytes() as usize;
    let bytes = width * to.len();
    let mut faults = Faults::default();
    for lane in lanes(context.active) {
        let mut data = [0; WIDEST];
        let address = place.address(context, &mut faults, lane, bytes as u64, "read from");
        let unknown = address.and_then(|address| context.load_texel(&mut faults, lane, address, &mut data[..bytes]));
        for (destination, value) in to.iter().zip(data.chunks_exact(width)) {
            let mut word = [0; 8];
            word[..width].copy_from_slice(value);
            context.set(*destination, lane, u64::from_le_bytes(word));
        }
        if let Some(unknown) = unknown {
            set_unknown(context, lane, kind, to, &unknown);
        }
    }
    context.report_faults(faults);
}

fn execute_store(context: &mut Context<'_>, place: &SurfacePlace, kind: Type, from: &[Slot]) {
    place.require(context);
    let lanes_with_unknown = context.unknown_in(from, context.active);
    let mut left = Left::default();
    let width = kind.bytes() as usize;
    let bytes = width * from.len();
    let mut faults = Faults::default();
    for lane in lanes(context.active) {
        let Some(address) = place.address(context, &mut faults, lane, bytes as u64, "write to") else { continue };
        let mut data = [0; WIDEST];
        for (slot, value) in from.iter().zip(data.chunks_exact_mut(width)) {
            value.copy_from_slice(&context.value(*slot, lane).to_le_bytes()[..width]);
        }
        let target = Place::texel(lane, address);
        if lanes_with_unknown >> lane & 1 == 0 {
            context.write(&mut faults, target, &data[..bytes]);
        } else {
            let unknown = stored_unknown(context, lane, kind, from);
            context.write_values(&mut faults, target, &data[..bytes], &unknown, &mut left);
        }
    }
    context.report_faults(faults);
    context.note_left(left);
}

/// The surface of a handle; a fault if there is none.
fn object<'m>(context: &Context<'m>, faults: &mut Faults, lane: usize, handle: Slot) -> Option<&'m Texels> {
    let handle = context.value(handle, lane);
    let found = context.machine.memory.surface(handle);
    if let Err(what) = found {
        faults.add_lane(FindingClass::InvalidOperand, lane, || format!("{handle:#x} is no surface object: it {what}"));
    }
    found.ok()
}

impl SurfacePlace {
    fn require(&self, context: &mut Context<'_>) {
        context.require(&[self.handle]);
        self.at.require(context);
    }

    /// Where a lane accesses `bytes` bytes; `None` if it does not, with a fault if that is an error.
    fn address(&self, context: &Context<'_>, faults: &mut Faults, lane: usize, bytes: u64, verb: &str) -> Option<u64> {
        let texels = object(context, faults, lane, self.handle)?;
        if texels.geometry != self.geometry {
            let (own, found) = (self.geometry.name(), texels.geometry.name());
            faults.add_lane(FindingClass::InvalidOperand, lane, || format!("a .{own} access to a .{found} surface"));
            return None;
        }
        let mut at = self.at.integers(context, lane);
        at.resize(3, 0);
        if let Some(layer) = self.at.layer(context, lane) {
            at[2] = layer as i64;
        }
        let column = at[0];
        if column.rem_euclid(bytes as i64) != 0 {
            faults.add_lane(FindingClass::Misaligned, lane, || {
                format!("a {bytes}-byte {verb} a surface at byte {column} of a row, which is no multiple of {bytes}: columns are bytes")
            });
            return None;
        }
        let (inside, is_inside) = nearest(texels, &at, bytes);
        match (is_inside, self.outside, inside) {
            (true, _, Some([x, y, z])) | (false, Outside::Clamp, Some([x, y, z])) => Some(texels.place(x, y, z)),
            (false, Outside::Zero, _) => None,
            _ => {
                faults.add_lane(FindingClass::OutOfBounds, lane, || {
                    let (where_, name) = (self.describe(&at), context.machine.memory.name_of(texels));
                    let (row, size) = (texels.row_bytes(), texels.describe());
                    format!(
                        "a {bytes}-byte {verb} a surface out of bounds, at {where_}: `{name}` has {size}, {row} bytes in a row"
                    )
                });
                None
            }
        }
    }

    /// Describes coordinates, such as `byte 64 of row 3`.
    fn describe(&self, at: &[i64]) -> String {
        let (x, y, z) = (at[0], at[1], at[2]);
        match self.geometry {
            Geometry::Line => format!("byte {x}"),
            Geometry::Plane => format!("byte {x} of row {y}"),
            Geometry::Volume => format!("byte {x} of row {y} of slice {z}"),
            Geometry::Lines => format!("byte {x} of layer {z}"),
            Geometry::Planes => format!("byte {x} of row {y} of layer {z}"),
        }
    }
}

/// The nearest place inside, and whether it is the same; `None` if a row has fewer bytes.
fn nearest(texels: &Texels, at: &[i64], bytes: u64) -> (Option<[u64; 3]>, bool) {
    let Some(last) = texels.row_bytes().checked_sub(bytes) else { return (None, false) };
    let limits = [last / bytes * bytes, texels.extent[1].saturating_sub(1), texels.extent[2].saturating_sub(1)];
    let inside: [u64; 3] = std::array::from_fn(|axis| u64::try_from(at[axis]).unwrap_or(0).min(limits[axis]));
    let is_same = (0..3).all(|axis| u64::try_from(at[axis]) == Ok(inside[axis]));
    (Some(inside), is_same)
}
