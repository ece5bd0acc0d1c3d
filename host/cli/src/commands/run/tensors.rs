//! Inputs and outputs of a run: generated, or read from and written to files.

use std::path::{Path, PathBuf};

use crate::check;
use crate::element::Bits;
use crate::error::{Error, Result};
use crate::host_memory;
use crate::inputs::{Inputs, Lengths};
use crate::npy::{self, F32};
use contract::config::Mask;
use contract::problem::{Problem, Shape};
use contract::refusal::Tensor;

use super::record::Source;
use super::{Options, views};
use crate::commands::output;

/// Q, K and V: read from files if they are named, else generated.
pub fn inputs(options: &Options) -> Result<(Inputs, Source)> {
    let mask = if options.causal { Mask::Causal } else { options.mask };
    let problem = |shape: Shape| {
        let problem = Problem::new(shape, mask, options.layout)?.with_element(options.element);
        let problem = options.window.map_or(problem, |window| problem.with_window(window)).aligned(options.align);
        let problem = options.scale.map_or(Ok(problem), |scale| problem.with_scale(scale))?;
        let problem = views::apply(problem, &options.strides, &options.offset)?;
        let problem = problem.with_score_mod(options.score_mod.form().of(shape))?;
        host_memory::check(&problem)?;
        Ok::<_, Error>(problem)
    };
    if let (Some(q), Some(k), Some(v)) = (&options.q, &options.k, &options.v) {
        let f32 = match (options.allow_f32, options.clamp) {
            (false, _) => F32::Refused,
            (true, false) => F32::Rounded,
            (true, true) => F32::Clamped,
        };
        let read = |path: &PathBuf| npy::read(path, options.layout, options.element, f32);
        let (shape, [q_storage, k_storage, v_storage]) = read_storages([q, k, v], read)?;
        let inputs = Inputs::new(problem(shape)?, q_storage, k_storage, v_storage)?;
        return Ok((inputs, Source::Files { q: q.clone(), k: k.clone(), v: v.clone() }));
    }
    let shape = match &options.lengths {
        None => Shape::new(options.batch, options.heads, options.seq),
        Some(lengths) => Shape::new(1, options.heads, rows(lengths)?),
    };
    let shape = Shape {
        kv_heads: options.kv_heads.unwrap_or(shape.heads),
        kv_sequence: match &options.kv_lengths {
            None => options.kv_seq.unwrap_or(shape.sequence),
            Some(lengths) => rows(lengths)?,
        },
        head_dim: options.head_dim,
        ..shape
    };
    let inputs = Inputs::generate(problem(shape)?, options.distribution, options.seed)?;
    let inputs = lengths(options)?.iter().try_fold(inputs, |inputs, lengths| inputs.with_lengths(lengths))?;
    Ok((inputs, Source::Generated { distribution: options.distribution, seed: options.seed }))
}

/// The requested sequence lengths.
fn lengths(options: &Options) -> Result<Option<Lengths>> {
    match (&options.lengths, &options.kv_lengths) {
        (Some(lengths), None) => Ok(Some(Lengths::Shared(lengths.clone()))),
        (Some(lengths), Some(of_keys)) => Ok(Some(Lengths::separate(lengths, of_keys)?)),
        (None, _) => {
            let is_padded = options.used.is_some() || options.kv_used.is_some();
            Ok(is_padded.then(|| Lengths::Padded(options.used.clone(), options.kv_used.clone())))
        }
    }
}

/// Total rows of packed sequences.
fn rows(lengths: &[u32]) -> Result<u32> {
    let sum: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    u32::try_from(sum).map_err(|_| Error::Invalid(format!("--lengths has {sum} rows together; make it less than 2^32")))
}

/// Reads Q, K and V. K and V have the same shape, which may differ from Q's in heads and rows.
fn read_storages(
    paths: [&PathBuf; 3],
    read: impl Fn(&PathBuf) -> Result<npy::Array>,
) -> Result<(Shape, [Vec<Bits>; 3])> {
    let [q, k, v] = paths.map(read);
    let arrays = [q?, k?, v?];
    let [q, k, v] = arrays.each_ref().map(|array| array.shape);
    let differs = |index: usize, from: usize, what: &str| {
        let has = |index: usize| (paths[index].display(), arrays[index].shape);
        let ((path, shape), (other, other_shape)) = (has(index), has(from));
        Error::Invalid(format!("{path}: has {shape}, but {other} has {other_shape}; {what}"))
    };
    if (k.batch, k.head_dim) != (q.batch, q.head_dim) {
        return Err(differs(1, 0, "Q and K must have the same batch and head_dim"));
    }
    if v != k {
        return Err(differs(2, 1, "K and V must have the same shape"));
    }
    let shape = q.with_kv_heads(k.heads).with_kv_sequence(k.sequence);
    Ok((shape, arrays.map(|array| array.elements)))
}

/// Writes O and LSE if requested. Outputs that are known to be wrong are not written.
pub fn write_outputs(options: &Options, problem: &Problem, outputs: &check::Outputs, passed: bool) -> Result<()> {
    let wanted: Vec<&Path> = options.out.iter().chain(&options.lse).map(PathBuf::as_path).collect();
    if !passed && !wanted.is_empty() {
        let names: Vec<_> = wanted.iter().map(|path| path.display().to_string()).collect();
        output::note(&format!(
            "warning: {} not written, since a check failed (--no-check writes all the same)",
            names.join(" and ")
        ));
        return Ok(());
    }
    let shape = problem.shape();
    if let Some(path) = &options.out {
        npy::write_elements(path, &options.layout.dimensions(shape.of(Tensor::O)), problem.element(), &outputs.o)?;
    }
    if let (Some(path), Some(lse)) = (&options.lse, &outputs.lse) {
        npy::write(path, &[shape.batch, shape.heads, shape.sequence].map(u64::from), lse)?;
    }
    Ok(())
}
