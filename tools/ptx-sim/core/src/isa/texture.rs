//! Textures (PTX ISA, "tex", "tld4", "txq"), as objects whose handle is in a register. The sum of a linear filter is
//! rounded once; a GPU's may differ in its last bits. Channels that a texture lacks are 0.

use super::geometry::{self, Coordinates, QueryOperation};
use super::sampling::{self, Tap};
use super::texel_values::{CHANNELS, Texel, Value, computed};
use crate::context::{Context, Faults};
use crate::decode::{Decode, Form, unsupported};
use crate::finding::FindingClass;
use crate::lanes::lanes;
use crate::memory::{Geometry, Texture};
use crate::parse::{Operand, Type};
use crate::program::{Destination, Slot};

/// A decoded instruction on textures.
pub(crate) enum Operation {
    /// `tex`.
    Fetch { from: Source, level: Option<(Slot, Type)>, to: Target },
    /// `tld4`, of a channel.
    Gather { from: Source, channel: usize, to: Target },
    /// `txq`.
    Query(QueryOperation),
}

/// A texture and coordinates.
pub(crate) struct Source {
    handle: Slot,
    geometry: Geometry,
    /// Type of the coordinates: `.s32` or `.f32`.
    kind: Type,
    at: Coordinates,
}

/// The destination of a fetch.
pub(crate) struct Target {
    kind: Type,
    to: Vec<Destination>,
    /// Receives whether the texels are resident, which is always true.
    is_resident: Option<Destination>,
}

/// Decodes an instruction on textures; `None` when the opcode is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    match form.opcode() {
        "tex" => fetch(form).map(Some),
        "tld4" => gather(form).map(Some),
        "txq" => Ok(Some(Operation::Query(QueryOperation::take(form)?))),
        _ => Ok(None),
    }
}

fn fetch(form: &mut Form<'_>) -> Decode<Operation> {
    if form.has("grad") {
        return unsupported(format!("`{}`: levels by gradients are not executed", form.name()));
    }
    form.flag("base");
    let has_level = form.flag("level");
    let geometry = geometry::take(form)?;
    let (to, kind) = target(form)?;
    let from = source(form, geometry, kind)?;
    let level = if has_level { Some((form.source(kind)?, kind)) } else { None };
    Ok(Operation::Fetch { from, level, to })
}

fn gather(form: &mut Form<'_>) -> Decode<Operation> {
    let Some(channel) = form.choice(&[("r", 0), ("g", 1), ("b", 2), ("a", 3)]) else { return form.refuse() };
    let geometry = geometry::take(form)?;
    let (to, kind) = target(form)?;
    if kind != Type::F32 || !matches!(geometry, Geometry::Plane | Geometry::Planes) {
        return form.refuse();
    }
    Ok(Operation::Gather { from: source(form, geometry, kind)?, channel, to })
}

/// Takes `.v4`, the types, and the destination registers; also returns the type of the coordinates.
fn target(form: &mut Form<'_>) -> Decode<(Target, Type)> {
    if !form.flag("v4") {
        return form.refuse();
    }
    let (kind, coordinates) = (form.kind()?, form.kind()?);
    if !matches!(kind, Type::F32 | Type::S32 | Type::U32) || !matches!(coordinates, Type::F32 | Type::S32) {
        return form.refuse();
    }
    let (items, resident) = match form.operand()? {
        Operand::Pair(items, resident) => (&**items, Some(&**resident)),
        items => (items, None),
    };
    let Operand::Vector(items) = items else { return form.refuse() };
    if items.len() != CHANNELS {
        return form.refuse();
    }
    let to = items.iter().map(|item| form.destination_of(item, kind, false)).collect::<Decode<_>>()?;
    let is_resident = resident.map(|resident| form.destination_of(resident, Type::PREDICATE, false)).transpose()?;
    Ok((Target { kind, to, is_resident }, coordinates))
}

fn source(form: &mut Form<'_>, geometry: Geometry, kind: Type) -> Decode<Source> {
    let (handle, coordinates) = form.object()?;
    Ok(Source { handle, geometry, kind, at: Coordinates::take(form, coordinates, geometry, kind)? })
}

impl Operation {
    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        match self {
            Operation::Fetch { from, level, to } => {
                let level = level.inspect(|(slot, _)| context.require(&[*slot]));
                read(context, from, to, |context, faults, lane, texture| {
                    if let Some((slot, kind)) = level {
                        check_level(faults, lane, kind, context.value(slot, lane) as u32);
                    }
                    from.fetch(context, faults, lane, texture)
                });
            }
            Operation::Gather { from, channel, to } => {
                read(context, from, to, |context, faults, lane, texture| {
                    from.gather(context, faults, lane, texture, *channel)
                });
            }
            Operation::Query(query) => execute_query(context, query),
        }
    }
}

/// Checks the level: textures have a single one here.
fn check_level(faults: &mut Faults, lane: usize, kind: Type, bits: u32) {
    let level = if kind == Type::F32 { f32::from_bits(bits) } else { bits as i32 as f32 };
    if level != 0.0 {
        faults.add_lane(FindingClass::InvalidOperand, lane, || {
            format!("level {level} of a texture that has level 0 only")
        });
    }
}

fn execute_query(context: &mut Context<'_>, query: &QueryOperation) {
    context.require(&[query.handle]);
    let mut faults = Faults::default();
    for lane in lanes(context.active) {
        let found = object(context, &mut faults, lane, query.handle).map(Texture::texels);
        let answer = found.map_or(0, |texels| query.answer(texels.geometry, texels.extent));
        context.set(query.to, lane, answer);
    }
    context.report_faults(faults);
}

/// The texture of a handle; a fault if there is none.
fn object<'m>(context: &Context<'m>, faults: &mut Faults, lane: usize, handle: Slot) -> Option<&'m Texture> {
    let handle = context.value(handle, lane);
    let found = context.machine.memory.texture(handle);
    if let Err(what) = found {
        faults.add_lane(FindingClass::InvalidOperand, lane, || format!("{handle:#x} is no texture object: it {what}"));
    }
    found.ok()
}

/// Reads `values` in every active lane.
fn read(
    context: &mut Context<'_>,
    from: &Source,
    target: &Target,
    values: impl Fn(&mut Context<'_>, &mut Faults, usize, &Texture) -> [Value; CHANNELS],
) {
    context.require(&[from.handle]);
    from.at.require(context);
    let mut faults = Faults::default();
    for lane in lanes(context.active) {
        let texture = object(context, &mut faults, lane, from.handle);
        let texture = texture.filter(|texture| from.suits(&mut faults, lane, texture, target.kind));
        let values = texture.map_or_else(Default::default, |texture| values(context, &mut faults, lane, texture));
        for (destination, value) in target.to.iter().zip(values) {
            context.set(*destination, lane, value.bits.into());
            if value.unknown.is_some() {
                context.set_unknown(destination.slot, lane, value.unknown);
            }
        }
        if let Some(destination) = target.is_resident {
            context.set(destination, lane, 1);
        }
    }
    context.report_faults(faults);
}

impl Source {
    /// Whether a texture is of the kind that the instruction reads; otherwise adds a fault.
    fn suits(&self, faults: &mut Faults, lane: usize, texture: &Texture, kind: Type) -> bool {
        let texels = texture.texels();
        let reads_floats = kind == Type::F32;
        let gives = |floats: bool| if floats { "floating-point numbers" } else { "integers" };
        // Without conversion the bits are the same in both types.
        let is_raw = texels.format.bits() == 32;
        let what = if texels.geometry != self.geometry {
            format!("a .{} access to a .{} texture", self.geometry.name(), texels.geometry.name())
        } else if texels.is_linear() && self.kind == Type::F32 {
            "floating-point coordinates in linear memory, which is read at integers only (tex1Dfetch)".to_owned()
        } else if texture.gives_floats() != reads_floats && !is_raw {
            format!("a texture that gives {} is read as {}", gives(texture.gives_floats()), gives(reads_floats))
        } else {
            return true;
        };
        faults.add_lane(FindingClass::InvalidOperand, lane, || what);
        false
    }

    fn fetch(
        &self,
        context: &mut Context<'_>,
        faults: &mut Faults,
        lane: usize,
        texture: &Texture,
    ) -> [Value; CHANNELS] {
        let texels = texture.texels();
        let layer = self.layer(context, lane, texture);
        if self.kind == Type::S32 {
            let tap = layered(sampling::texel(texels, &self.at.integers(context, lane)), layer);
            // Reads at integer coordinates return zeros outside, even with a border colour.
            let texel = tap.at.map(|at| texel(context, faults, lane, texture, at));
            return texel.map_or_else(Default::default, |texel| channels(|channel| texel.value(texture, channel)));
        }
        let taps = sampling::taps(texels, texture.sampler(), &self.at.numbers(context, lane));
        let taps: Vec<Tap> = taps.into_iter().map(|tap| layered(tap, layer)).collect();
        match taps.as_slice() {
            [tap] => {
                let texel = tap.at.map(|at| texel(context, faults, lane, texture, at));
                channels(|channel| match &texel {
                    Some(texel) => texel.value(texture, channel),
                    None => border(texture, channel),
                })
            }
            _ => sum(context, faults, lane, texture, &taps),
        }
    }

    fn gather(
        &self,
        context: &mut Context<'_>,
        faults: &mut Faults,
        lane: usize,
        texture: &Texture,
        channel: usize,
    ) -> [Value; CHANNELS] {
        let layer = self.layer(context, lane, texture);
        let [x, y] = self.at.numbers(context, lane)[..] else { return Default::default() };
        sampling::corners(texture.texels(), texture.sampler(), [x, y]).map(|tap| match layered(tap, layer).at {
            Some(at) => texel(context, faults, lane, texture, at).value(texture, channel),
            None => border(texture, channel),
        })
    }

    /// The layer that a lane reads, clamped to the last one.
    fn layer(&self, context: &Context<'_>, lane: usize, texture: &Texture) -> Option<u64> {
        self.at.layer(context, lane).map(|layer| layer.min(texture.texels().extent[2].saturating_sub(1)))
    }
}

fn layered(tap: Tap, layer: Option<u64>) -> Tap {
    let at = tap.at.map(|[x, y, z]| [x, y, layer.unwrap_or(z)]);
    Tap { at, ..tap }
}

fn channels(value: impl FnMut(usize) -> Value) -> [Value; CHANNELS] {
    std::array::from_fn(value)
}

/// The value outside; 0 if integers are read.
fn border(texture: &Texture, channel: usize) -> Value {
    let is_there = channel < texture.texels().format.channels() as usize;
    let bits = if is_there { texture.sampler().border[channel].to_bits() } else { 0 };
    Value { bits, unknown: None }
}

fn texel(context: &mut Context<'_>, faults: &mut Faults, lane: usize, texture: &Texture, at: [u64; 3]) -> Texel {
    let texels = texture.texels();
    let bytes = texels.format.bytes();
    let mut data = [0; 16];
    let address = texels.place(at[0].wrapping_mul(bytes), at[1], at[2]);
    let unknown = context.load_texel(faults, lane, address, &mut data[..bytes as usize]);
    Texel { data, unknown }
}

/// The weighted sum of several texels.
fn sum(
    context: &mut Context<'_>,
    faults: &mut Faults,
    lane: usize,
    texture: &Texture,
    taps: &[Tap],
) -> [Value; CHANNELS] {
    let (mut sums, mut unknown) = ([0.0; CHANNELS], [None; CHANNELS]);
    for tap in taps {
        let texel = tap.at.map(|at| texel(context, faults, lane, texture, at));
        for channel in 0..CHANNELS {
            let (number, doubt) = match &texel {
                Some(texel) => texel.number(texture, channel),
                None => (f32::from_bits(border(texture, channel).bits).into(), None),
            };
            sums[channel] += tap.weight * number;
            unknown[channel] = unknown[channel].or(doubt.map(computed));
        }
    }
    channels(|channel| Value { bits: (sums[channel] as f32).to_bits(), unknown: unknown[channel] })
}
