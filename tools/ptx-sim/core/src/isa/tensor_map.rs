//! Modification of tensor maps by kernels (PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy").
//!
//! A map has an encoding specific to this simulator (`memory`); kernels can copy it and replace its fields. Whether a
//! fence (`fence.proxy.tensormap::generic`) separates a modification of a map from its use is not checked.

use crate::context::{Context, Faults, Place};
use crate::decode::{Decode, Form, unsupported};
use crate::finding::FindingClass;
use crate::lanes::lanes;
use crate::memory::{TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, TensorMapField, replace_in_tensor_map};
use crate::parse::{Space, Type};
use crate::program::{Address, Collective, Slot};
use crate::race::Scope;

/// The first PTX version in which a stride is given in bytes.
const STRIDES_IN_BYTES: (u32, u32) = (8, 5);

/// A decoded instruction on tensor maps.
pub(crate) enum Operation {
    /// `replace`: a field, with its dimension if it has one; `None` if only the value that every map has is allowed.
    Replace { space: Option<Space>, address: Address, field: Option<(TensorMapField, usize)>, value: Slot },
    /// `cp_fenceproxy`: copies a map to global memory, and releases it.
    Copy { to: Address, from: Address, scope: Scope },
}

const FIELDS: [(&str, TensorMapField); 8] = [
    ("global_address", TensorMapField::Address),
    ("rank", TensorMapField::Rank),
    ("box_dim", TensorMapField::BoxSize),
    ("global_dim", TensorMapField::Size),
    ("global_stride", TensorMapField::Stride),
    ("element_stride", TensorMapField::ElementStride),
    ("elemtype", TensorMapField::Element),
    ("swizzle_mode", TensorMapField::Swizzle),
];

/// Decodes one; `None` when the opcode is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    if form.opcode() != "tensormap" {
        return Ok(None);
    }
    if form.flag("cp_fenceproxy") {
        return copy(form).map(Some);
    }
    if !form.flag("replace") || !form.flag("tile") {
        return form.refuse();
    }
    if let Some(what) = form.choice(&[("interleave_layout", "interleaved layouts"), ("fill_mode", "fills of NaN")]) {
        return without_choice(form, what).map(Some);
    }
    let Some(field) = form.choice(&FIELDS) else { return form.refuse() };
    let (space, address) = map(form)?;
    if field == TensorMapField::Stride && form.version() < STRIDES_IN_BYTES {
        return unsupported(format!("`{}` before PTX 8.5, in units that depend on the compiler", form.name()));
    }
    let index = match field {
        TensorMapField::BoxSize | TensorMapField::Size | TensorMapField::Stride | TensorMapField::ElementStride => {
            form.literal()? as usize
        }
        _ => 0,
    };
    let value = match field {
        TensorMapField::Address | TensorMapField::Stride => form.source(Type::B64)?,
        TensorMapField::Element => element(form)?,
        TensorMapField::Swizzle => swizzle(form)?,
        _ => form.source(Type::B32)?,
    };
    Ok(Some(Operation::Replace { space, address, field: Some((field, index)), value }))
}

/// Takes the types, the space and the address of a map.
fn map(form: &mut Form<'_>) -> Decode<(Option<Space>, Address)> {
    form.flag("b1024");
    form.kind()?;
    let space = form.take(Space::parse);
    if !matches!(space, None | Some(Space::Global | Space::Shared)) {
        return form.refuse();
    }
    Ok((space, form.address(space)?))
}

/// A field with 0 as its only supported value, which every map has.
fn without_choice(form: &mut Form<'_>, what: &str) -> Decode<Operation> {
    let (space, address) = map(form)?;
    if form.literal()? != 0 {
        return unsupported(format!("`{}` of anything but 0: {what}", form.name()));
    }
    Ok(Operation::Replace { space, address, field: None, value: form.constant(0) })
}

/// The element type, which PTX numbers differently from the driver.
fn element(form: &mut Form<'_>) -> Decode<Slot> {
    let number = match form.literal()? {
        number @ 0..=7 => number,
        9 => 8,
        10 => 9,
        other => return unsupported(format!("type {other} of the elements in `{}`", form.name())),
    };
    Ok(form.constant(number))
}

fn swizzle(form: &mut Form<'_>) -> Decode<Slot> {
    match form.literal()? {
        number @ 0..=3 => Ok(form.constant(number)),
        other => unsupported(format!("swizzle {other} in `{}`", form.name())),
    }
}

fn copy(form: &mut Form<'_>) -> Decode<Operation> {
    let spaces = (form.take(Space::parse), form.take(Space::parse));
    let is_known = ["tensormap::generic", "release", "sync", "aligned"].into_iter().all(|modifier| form.flag(modifier));
    let scopes = [("cta", Scope::Block), ("cluster", Scope::Cluster), ("gpu", Scope::Gpu), ("sys", Scope::Gpu)];
    let (Some(scope), true, (Some(Space::Global), Some(Space::Shared))) = (form.choice(&scopes), is_known, spaces)
    else {
        return form.refuse();
    };
    let (to, from) = (form.address(Some(Space::Global))?, form.address(Some(Space::Shared))?);
    if form.literal()? != TENSOR_MAP_BYTES as u64 {
        return form.refuse();
    }
    Ok(Operation::Copy { to, from, scope })
}

impl Operation {
    /// Which lanes have to execute it together.
    pub fn collective(&self) -> Collective {
        match self {
            Operation::Replace { .. } => Collective::No,
            Operation::Copy { .. } => Collective::Warp,
        }
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        let mut faults = Faults::default();
        match self {
            Operation::Replace { space, address, field, value } => {
                context.require(&[address.base, *value]);
                for lane in lanes(context.active) {
                    let place = Place::new(lane, *space, context.address(*address, lane), TENSOR_MAP_ALIGNMENT);
                    replace(context, &mut faults, place, *field, context.value(*value, lane));
                }
            }
            Operation::Copy { to, from, scope } => {
                context.require(&[to.base, from.base]);
                // All lanes copy the same map; the first one represents them.
                let lane = context.active.trailing_zeros() as usize;
                let mut bytes = [0; TENSOR_MAP_BYTES];
                let from = Place::shared(lane, context.address(*from, lane), TENSOR_MAP_ALIGNMENT);
                context.read(&mut faults, from, &mut bytes);
                let to = Place::global(lane, context.address(*to, lane), TENSOR_MAP_ALIGNMENT);
                context.write(&mut faults, to, &bytes);
                if let Some(races) = &mut context.cluster.races {
                    races.fence(context.warp.index, context.active, *scope);
                }
            }
        }
        context.report_faults(faults);
    }
}

fn replace(
    context: &mut Context<'_>,
    faults: &mut Faults,
    place: Place,
    field: Option<(TensorMapField, usize)>,
    value: u64,
) {
    let mut bytes = [0; TENSOR_MAP_BYTES];
    context.read(faults, place, &mut bytes);
    let Some((field, index)) = field else { return };
    match replace_in_tensor_map(&mut bytes, field, index, value) {
        Ok(()) => context.write(faults, place, &bytes),
        Err(what) => faults.add(FindingClass::InvalidOperand, place.lane, place.address, || what),
    }
}
