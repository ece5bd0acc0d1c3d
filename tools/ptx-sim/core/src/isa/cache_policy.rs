//! Cache eviction policies (PTX ISA, "createpolicy", "Cache Eviction Priority Hints"). They affect the speed of an
//! access, not its result, so a policy is an opaque value here.

use crate::context::Context;
use crate::decode::{Decode, Form};
use crate::lanes::lanes;
use crate::parse::{Space, Type};
use crate::program::{Destination, Slot};

/// A decoded `createpolicy`.
pub(crate) struct Operation {
    to: Destination,
    sources: Vec<Slot>,
}

const PRIORITIES: [(&str, ()); 4] =
    [("L2::evict_last", ()), ("L2::evict_normal", ()), ("L2::evict_first", ()), ("L2::evict_unchanged", ())];

/// Decodes `createpolicy`; `None` when the opcode is another.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    if form.opcode() != "createpolicy" {
        return Ok(None);
    }
    if form.flag("cvt") {
        form.flag("L2");
        return create(form, |form| Ok(vec![form.source(Type::B64)?]));
    }
    let is_range = match form.choice(&[("range", true), ("fractional", false)]) {
        Some(is_range) => is_range,
        None => return form.refuse(),
    };
    let space = form.take(Space::parse);
    let primary = form.choice(&PRIORITIES);
    form.choice(&PRIORITIES);
    if primary.is_none() || !matches!(space, None | Some(Space::Global)) || !is_range && space.is_some() {
        return form.refuse();
    }
    match is_range {
        true => create(form, |form| {
            let address = form.address(space)?;
            Ok(vec![address.base, form.source(Type::B32)?, form.source(Type::B32)?])
        }),
        false => create(form, |form| match form.remaining() {
            0 => Ok(Vec::new()),
            _ => Ok(vec![form.source(Type::F32)?]),
        }),
    }
}

fn create(form: &mut Form<'_>, sources: impl FnOnce(&mut Form<'_>) -> Decode<Vec<Slot>>) -> Decode<Option<Operation>> {
    if form.kind()? != Type::B64 {
        return form.refuse();
    }
    let to = form.destination(Type::B64)?;
    Ok(Some(Operation { to, sources: sources(form)? }))
}

/// Takes `.L2::cache_hint` and the policy, the last operand, if they are there.
pub(super) fn take(form: &mut Form<'_>) -> Decode<()> {
    if form.flag("L2::cache_hint") {
        form.source(Type::B64)?;
    }
    Ok(())
}

impl Operation {
    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        context.require(&self.sources);
        lanes(context.active).for_each(|lane| context.set(self.to, lane, 0));
    }
}
