//! Modifiers that loads, stores and atomic operations have in common: memory ordering, scope, and hints for caches.

use crate::decode::Form;
use crate::race::{Semantics, Strength};

/// Caching modifiers, which do not change the result.
const HINTS: &[&str] = &[
    "weak",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "nc",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::evict_normal",
    "L2::evict_first",
    "L2::evict_last",
    "L2::64B",
    "L2::128B",
    "L2::256B",
];

/// The scope of a strong access; `.gpu` by default.
pub(super) fn scope(form: &Form<'_>) -> Strength {
    match () {
        () if form.has("cta") => Strength::Block,
        () if form.has("cluster") => Strength::Cluster,
        () => Strength::Gpu,
    }
}

/// Takes all [`HINTS`] and the modifiers for memory ordering.
pub(super) fn take_hints(form: &mut Form<'_>) -> Semantics {
    let (acquires, releases) = (form.flag("acquire"), form.flag("release"));
    let relaxed = form.flag("relaxed") | form.flag("mmio");
    let is_volatile = form.flag("volatile");
    let scope = scope(form);
    for hint in HINTS {
        form.flag(hint);
    }
    let strength = match acquires || releases || relaxed {
        true => scope,
        false if is_volatile => Strength::Volatile,
        false => Strength::Weak,
    };
    Semantics { strength, acquires, releases, ..Semantics::WEAK }
}
