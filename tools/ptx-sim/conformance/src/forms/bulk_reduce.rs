//! Bulk reductions in global memory, with and without tensor maps. Those in the memory of other blocks are in `cluster`.

use ptx_sim::{TensorElement, expand_forms};

use super::bulk_copy::{store, store_named, tile};
use crate::case::{Case, MapPlace};

/// The cases of bulk reductions.
pub fn cases() -> Vec<Case> {
    let patterns = [
        "{and,or,xor}.{b32,b64}",
        "add.{u32,s32,u64,f32,f64}",
        "add.noftz.{f16,bf16}",
        "{inc,dec}.u32",
        "{min,max}.{u32,s32,u64,s64,f16,bf16}",
    ];
    let forms = patterns.into_iter().flat_map(expand_forms);
    let mut cases: Vec<Case> = forms
        .map(|form| {
            let form = format!("cp.reduce.async.bulk.global.shared::cta.bulk_group.{form}");
            store(&form, "[%input+32], [%r2+16], 1008", "")
        })
        .collect();
    for (operation, element) in [
        ("add", TensorElement::F16),
        ("max", TensorElement::Bf16),
        ("add", TensorElement::U32),
        ("min", TensorElement::S32),
        ("xor", TensorElement::U64),
        ("inc", TensorElement::U32),
        ("dec", TensorElement::U32),
        ("and", TensorElement::S32),
        ("or", TensorElement::U64),
    ] {
        // Across the end of the tensor, and of a row of its second dimension.
        for origin in [[0, 0], [40, 0], [0, 12], [40, 12]] {
            let mut tile = tile(&[60, 15], &[24, 8], &origin);
            let width = element.bytes() / 2;
            tile.map.element = element;
            tile.map.strides = vec![128 * width];
            let form = format!("cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group");
            let operands = format!("[%map, {}], [%r2]", tile.coordinates());
            let kernel = store_named(&format!("{form} {}", tile.describe()), &form, &operands, "");
            cases.push(kernel.tensor_map(tile.map.clone(), MapPlace::Parameter).finish());
        }
    }
    cases
}
