//! Asynchronous stores and reductions to the shared memory of a block of the cluster, counted by an mbarrier there (PTX
//! ISA, "st.async", "red.async").
//!
//! Like a bulk copy, a store is visible to threads that waited for the mbarrier. A reduction takes effect at once and
//! atomically; an access that does not follow the wait races with it.

use super::atomic::{UPDATES, Update};
use crate::context::{Context, Faults, Place};
use crate::decode::{Decode, Form, invalid};
use crate::lanes::lanes;
use crate::machine::Landing;
use crate::parse::{Space, Type};
use crate::program::{Address, Slot};
use crate::race::{Semantics, Strength};
use crate::unknown::UnknownBytes;

/// A decoded asynchronous store or reduction.
pub(crate) struct Operation {
    to: Address,
    kind: Type,
    values: Vec<Slot>,
    mbarrier: Address,
    /// Combines the old value with the new one; if absent, the new value replaces it.
    update: Option<Update>,
}

/// Decodes one; `None` when it is another instruction.
pub(super) fn decode(form: &mut Form<'_>) -> Decode<Option<Operation>> {
    if !matches!(form.opcode(), "st" | "red") || !form.has("async") {
        return Ok(None);
    }
    let reduces = form.opcode() == "red";
    form.flag("async");
    form.flag(if reduces { "relaxed" } else { "weak" });
    if reduces {
        form.flag("cluster");
    }
    let is_to_cluster = form.has("shared::cluster") && form.take(Space::parse) == Some(Space::Shared);
    if !is_to_cluster || !form.flag("mbarrier::complete_tx::bytes") {
        return form.refuse();
    }
    let name = UPDATES.iter().map(|(name, _)| *name).find(|name| form.has(name));
    let update = form.choice(&UPDATES);
    let count = form.choice(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
    let kind = form.kind()?;
    let is_known = match name {
        None => !reduces && matches!(kind.bits, 32 | 64) && kind.packed == 1 && count * kind.bytes() <= 16,
        Some(name) => reduces && count == 1 && is_reduction(name, kind),
    };
    if !is_known {
        return form.refuse();
    }
    let to = form.address(Some(Space::Shared))?;
    let items = form.vector()?;
    if items.len() != count as usize {
        return invalid(format!("`{}` stores {count} values, not {}", form.name(), items.len()));
    }
    let values = items.iter().map(|item| form.source_of(item, kind, false)).collect::<Decode<_>>()?;
    let mbarrier = form.address(Some(Space::Shared))?;
    Ok(Some(Operation { to, kind, values, mbarrier, update }))
}

/// Whether a `red.async` of this name and type exists.
fn is_reduction(name: &str, kind: Type) -> bool {
    let is_32 = kind.bits == 32 && kind.packed == 1;
    match name {
        "inc" | "dec" => kind == Type::U32,
        "min" | "max" => is_32 && !kind.is_float() && kind != Type::B32,
        "add" => is_32 && !kind.is_float() && kind != Type::B32 || kind == Type::U64,
        "and" | "or" | "xor" => kind == Type::B32,
        _ => false,
    }
}

impl Operation {
    /// How its accesses are ordered.
    pub fn semantics(&self) -> Semantics {
        match self.update {
            None => Semantics::COPY,
            Some(_) => Semantics { strength: Strength::Cluster, ..Semantics::COPY },
        }
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        context.require(&[self.to.base, self.mbarrier.base]);
        context.require(&self.values);
        let mut faults = Faults::default();
        for lane in lanes(context.active) {
            let target = context.address(self.to, lane);
            let mbarrier = context.address(self.mbarrier, lane);
            let is_right = context.check_same_block(&mut faults, lane, target, mbarrier);
            let mbarrier = context.mbarrier_address(&mut faults, lane, Some(Space::Shared), mbarrier);
            let Some(mbarrier) = mbarrier.filter(|_| is_right) else { continue };
            let bytes = self.kind.bytes() as usize * self.values.len();
            match self.update {
                None => self.store(context, &mut faults, lane, (target, mbarrier)),
                Some(update) => {
                    let value = context.value(self.values[0], lane);
                    let update = |old| update(old, value, 0, self.kind, false);
                    context.update(&mut faults, lane, Some(Space::Shared), target, bytes, &update);
                }
            }
            context.complete_copy(&mut faults, lane, mbarrier, bytes as u64);
        }
        context.report_faults(faults);
    }

    fn store(&self, context: &mut Context<'_>, faults: &mut Faults, lane: usize, (target, mbarrier): (u64, u64)) {
        let width = self.kind.bytes() as usize;
        let values = self.values.iter().map(|slot| context.value(*slot, lane).to_le_bytes());
        let data: Vec<u8> = values.flat_map(|value| value.into_iter().take(width)).collect();
        let what = || format!("the destination of a {}-byte asynchronous store", data.len());
        if context.begin_copy(faults, Place::shared(lane, target, data.len() as u64), data.len(), what) {
            let data = (data, UnknownBytes::default());
            let landing = Landing::new(context.pc, context.warp.index, lane, target, data);
            if let Err(misuse) = context.cluster.mbarriers.add_landing(mbarrier, landing) {
                context.misuse(faults, lane, mbarrier, &misuse);
            }
        }
    }
}
