//! Selects the variants and problems of a sweep.

use std::collections::BTreeSet;
use std::fmt;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::host_memory;
use crate::kernel::Kernel;
use crate::ptx_folder::PtxFolder;
use crate::ptx_module::PtxModule;
use contract::config::{Mask, Sequence};
use contract::packing::Packing;
use contract::problem::{Problem, Shape};
use contract::view::Layout;
use serde::Serialize;

/// The requested variants and problems.
#[derive(Clone, Debug)]
pub struct Selection<'a> {
    /// Names of entries; empty for all.
    pub variants: &'a [String],
    /// Sequence lengths; empty for the edges of each variant's tiles.
    pub sequences: &'a [u32],
    /// Mask; `None` for all.
    pub mask: Option<Mask>,
    /// Orders of dimensions.
    pub layouts: Vec<Layout>,
    /// With LSE, without, or both.
    pub lse: Vec<bool>,
    /// Batch size.
    pub batch: u32,
    /// Number of heads.
    pub heads: u32,
    /// Head dimension; `None` for the columns of each variant's tiles.
    pub head_dim: Option<u32>,
}

/// One problem.
#[derive(Clone, Debug)]
pub struct Case {
    /// The problem; for packed sequences over all rows.
    pub problem: Problem,
    /// Sequence lengths, if packed.
    pub lengths: Option<Vec<u32>>,
    /// Order of the dimensions.
    pub layout: Layout,
    /// Whether LSE is requested, or read.
    pub with_lse: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lse = if self.with_lse { "with LSE" } else { "without LSE" };
        write!(formatter, "{}, {}, {lse}", self.problem.shape(), self.layout.name())?;
        match &self.lengths {
            None => Ok(()),
            Some(lengths) => write!(formatter, ", packed sequences of {lengths:?}"),
        }
    }
}

/// The case as data.
#[derive(Clone, Debug, Serialize)]
pub struct CaseRecord {
    /// B, H and S; for packed sequences 1, H and the total number of rows.
    pub shape: Shape,
    /// Sequence lengths, if packed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lengths: Option<Vec<u32>>,
    /// Order of the dimensions.
    pub layout: Layout,
    /// Whether LSE is requested.
    pub with_lse: bool,
}

impl From<&Case> for CaseRecord {
    fn from(case: &Case) -> Self {
        let Case { problem, lengths, layout, with_lse } = case;
        Self { shape: problem.shape(), lengths: lengths.clone(), layout: *layout, with_lse: *with_lse }
    }
}

/// A variant and its cases.
#[derive(Clone, Debug)]
pub struct VariantCases<'a> {
    /// The entry.
    pub kernel: Kernel<'a>,
    /// The module it is in.
    pub module: &'a PtxModule,
    /// Its cases.
    pub cases: Vec<Case>,
    /// Why the device cannot run it; it then has no cases.
    pub unfit: Option<String>,
}

/// A planned sweep.
#[derive(Clone, Debug)]
pub struct Sweep<'a> {
    /// The selected variants that accept any of the problems, in manifest order.
    pub variants: Vec<VariantCases<'a>>,
}

impl<'a> Sweep<'a> {
    /// The cases of `selection` on `device`.
    ///
    /// # Errors
    /// When a variant does not exist, a problem is not accepted, or there is nothing to run.
    pub fn plan(folder: &'a PtxFolder, device: &Device, selection: &Selection<'_>) -> Result<Self> {
        let has_mask = |(kernel, _): &(Kernel<'_>, _)| selection.mask.is_none_or(|mask| mask == kernel.mask());
        let mut variants = Vec::new();
        for (kernel, module) in Kernel::named(folder, selection.variants)?.into_iter().filter(has_mask) {
            let unfit = kernel.check_fits(device).err().map(|error| error.to_string());
            let cases = if unfit.is_none() { cases(&kernel, device, selection)? } else { Vec::new() };
            if unfit.is_some() || !cases.is_empty() {
                variants.push(VariantCases { kernel, module, cases, unfit });
            }
        }
        let sweep = Self { variants };
        if sweep.cases() == 0 {
            let passed_over = sweep.variants.iter().filter_map(|variant| variant.unfit.as_deref());
            let reasons: String = passed_over.map(|reason| format!("\n  {reason}")).collect();
            return Err(Error::Invalid(format!(
                "no variant of {} is left to run with {}; widen --variant, --mask, --seq or --head-dim{reasons}",
                folder.path().display(),
                describe(selection)
            )));
        }
        Ok(sweep)
    }

    /// Number of cases.
    pub fn cases(&self) -> usize {
        self.variants.iter().map(|variant| variant.cases.len()).sum()
    }
}

fn describe(selection: &Selection<'_>) -> String {
    let mask = selection.mask.map_or("any mask".to_owned(), |mask| format!("a {} mask", mask.name()));
    let mask = selection.head_dim.map_or(mask.clone(), |head_dim| format!("{mask}, head_dim {head_dim}"));
    match selection.sequences {
        [] => mask,
        lengths => format!("{mask} and sequence {}", lengths.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// The problems of `selection` that `kernel` accepts on `device`; gradients have an LSE to read.
fn cases(kernel: &Kernel<'_>, device: &Device, selection: &Selection<'_>) -> Result<Vec<Case>> {
    let sequences = match selection.sequences {
        [] => tile_edges(kernel),
        lengths => lengths.iter().copied().collect(),
    };
    let mut cases = Vec::new();
    for sequence in sequences {
        let (shape, lengths) = rows(kernel, selection, sequence);
        let shape = shape.with_head_dim(selection.head_dim.unwrap_or(kernel.columns()));
        for &layout in &selection.layouts {
            let problem = kernel.problem(shape, layout)?;
            host_memory::check(&problem)?;
            let packed = |lengths: &Vec<u32>| Packing::new(lengths.len() as u32, sequence);
            let launched = lengths.as_ref().map_or(Ok(problem), |lengths| problem.packed(packed(lengths)))?;
            if kernel.check_accepts(&launched, device).is_ok() {
                let case = |&with_lse: &bool| Case { problem, lengths: lengths.clone(), layout, with_lse };
                let is_possible = |with_lse: &&bool| **with_lse || matches!(kernel, Kernel::Forward(_));
                cases.extend(selection.lse.iter().filter(is_possible).map(case));
            }
        }
    }
    Ok(cases)
}

/// The shape of a case, and sequence lengths if `kernel` is for packed sequences: `sequence` for each batch entry, and
/// between them an empty sequence and one of a single row.
fn rows(kernel: &Kernel<'_>, selection: &Selection<'_>, sequence: u32) -> (Shape, Option<Vec<u32>>) {
    let Selection { batch, heads, .. } = *selection;
    if kernel.sequence() != Sequence::Packed {
        return (Shape::new(batch, heads, sequence), None);
    }
    let mut lengths = vec![sequence, 0, 1];
    lengths.extend((0..batch).map(|_| sequence));
    (Shape::new(1, heads, lengths.iter().sum()), Some(lengths))
}

/// Lengths at which a kernel may fail: one row, one less and one more than a tile of queries or keys, and just enough
/// steps for the pipeline to reuse its first stage.
fn tile_edges(kernel: &Kernel<'_>) -> BTreeSet<u32> {
    let (tiles, stages) = kernel.tiles();
    match kernel.sequence() {
        Sequence::Exact(length) => BTreeSet::from([length]),
        Sequence::Any | Sequence::Packed => {
            let around = |length: u32| [length - 1, length, length + 1];
            let step = tiles[1];
            tiles.into_iter().flat_map(around).chain([1, step * stages + 1]).filter(|length| *length > 0).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::manifest::Entry;
    use contract::variants::VARIANTS;

    #[test]
    fn lengths_surround_every_tile_and_fill_the_pipeline() {
        let variant = VARIANTS.iter().find(|variant| variant.sequence == Sequence::Any).expect("there is one");
        let edges = tile_edges(&Kernel::Forward(&variant.into()));
        let config = variant.config;
        let (block_m, block_n) = (config.block_m(), config.block_n());
        for length in [1, block_m - 1, block_m, block_n + 1, config.stages() * block_n + 1] {
            assert!(edges.contains(&length), "{length} is missing: {edges:?}");
        }
        let exact = Entry { sequence: Sequence::Exact(512), ..variant.into() };
        assert_eq!(tile_edges(&Kernel::Forward(&exact)), BTreeSet::from([512]));
    }
}
