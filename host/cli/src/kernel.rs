//! The kernels of a PTX folder: entries for outputs and for gradients.

use contract::backward::variants::{BackwardTile, BackwardVariant, STAGES, TmaTile};
use contract::config::{Element, Mask, Scores, Sequence};
use contract::manifest::Entry;
use contract::problem::{Problem, Shape, Slopes};
use contract::view::Layout;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::gradients::gradient_of;
use crate::launch::{backward_plan, check_accepts, check_backward_fits, check_fits};
use crate::ptx_folder::PtxFolder;
use crate::ptx_module::PtxModule;
use crate::score_mod::{BiasForm, ScoreModForm};

/// An entry of a PTX folder.
#[derive(Clone, Copy, Debug)]
pub enum Kernel<'a> {
    /// One that computes O and LSE.
    Forward(&'a Entry),
    /// One that computes gradients.
    Backward(&'static BackwardVariant),
}

impl<'a> Kernel<'a> {
    /// Those of `folder`, with their modules.
    fn all(folder: &'a PtxFolder) -> impl Iterator<Item = (Self, &'a PtxModule)> {
        let forward = folder.entries().map(|(entry, module)| (Self::Forward(entry), module));
        forward.chain(folder.gradients().map(|(variant, module)| (Self::Backward(variant), module)))
    }

    /// Those of `folder` with these names, with their modules; all, if there are none.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a name has no entry.
    pub fn named(folder: &'a PtxFolder, names: &[String]) -> Result<Vec<(Self, &'a PtxModule)>> {
        let mut kernels: Vec<_> = Self::all(folder).collect();
        if let Some(unknown) = names.iter().find(|name| kernels.iter().all(|(kernel, _)| kernel.name() != **name)) {
            let known: Vec<_> = kernels.iter().map(|(kernel, _)| kernel.name()).collect();
            return Err(Error::Invalid(format!("there is no variant {unknown}; there are: {}", known.join(", "))));
        }
        kernels.retain(|(kernel, _)| names.is_empty() || names.iter().any(|name| name == kernel.name()));
        Ok(kernels)
    }

    /// The name of the entry.
    pub fn name(&self) -> &'a str {
        match self {
            Self::Forward(entry) => &entry.name,
            Self::Backward(variant) => variant.entry,
        }
    }

    /// Element type of its tensors.
    pub fn element(&self) -> Element {
        match self {
            Self::Forward(entry) => entry.element,
            Self::Backward(variant) => variant.element,
        }
    }

    /// Sequence lengths that it accepts.
    pub fn sequence(&self) -> Sequence {
        match self {
            Self::Forward(entry) => entry.sequence,
            Self::Backward(variant) => variant.sequence,
        }
    }

    /// The mask that it applies.
    pub fn mask(&self) -> Mask {
        match self {
            Self::Forward(entry) => entry.mask,
            Self::Backward(variant) => variant.mask,
        }
    }

    /// Columns of its tiles.
    pub fn columns(&self) -> u32 {
        match self {
            Self::Forward(entry) => entry.config.columns(),
            Self::Backward(variant) => variant.tile.columns(),
        }
    }

    /// Mbarriers of a block.
    pub fn mbarriers(&self) -> u32 {
        match self {
            Self::Forward(entry) => entry.config.mbarriers(),
            Self::Backward(variant) => variant.tile.mbarriers(),
        }
    }

    /// Rows of its tiles of either kind, and how many steps have a stage of their own.
    pub fn tiles(&self) -> ([u32; 2], u32) {
        match self {
            Self::Forward(entry) => ([entry.config.block_m(), entry.config.block_n()], entry.config.stages()),
            Self::Backward(variant) => match variant.tile {
                BackwardTile::Sm80(tile) => ([tile.rows, tile.step], STAGES),
                BackwardTile::Sm90(tile) => ([tile.rows(), TmaTile::STEP], tile.stages),
            },
        }
    }

    /// Score modifications that it supports, if any: ALiBi and, unless its sequences are packed, a bias per head.
    pub fn score_mod(&self) -> ScoreModForm {
        let (scores, padded_bias) = match self {
            Self::Forward(entry) => (entry.scores, entry.config.has_bias_tiles()),
            Self::Backward(variant) => (variant.scores, false),
        };
        if scores == Scores::Unmodified {
            return ScoreModForm::NONE;
        }
        let bias = (self.sequence() != Sequence::Packed).then_some(BiasForm::Hqk);
        ScoreModForm { alibi: Some(Slopes::PerHead), bias, padded_bias, ..ScoreModForm::NONE }
    }

    /// A problem of `shape` that it computes, with its element type, its mask and, if it supports any, [score modifications](Self::score_mod).
    ///
    /// # Errors
    /// When no kernel accepts the shape.
    pub fn problem(&self, shape: Shape, layout: Layout) -> Result<Problem> {
        let problem = Problem::new(shape, self.mask(), layout)?.with_element(self.element());
        match self.score_mod() {
            none if none.is_none() => Ok(problem),
            score_mod => Ok(problem.with_score_mod(score_mod.of(shape))?),
        }
    }

    /// Checks that `device` can run it.
    ///
    /// # Errors
    /// [`Error::Invalid`] with what it needs and what the device has.
    pub fn check_fits(&self, device: &Device) -> Result<()> {
        match self {
            Self::Forward(entry) => check_fits(entry, device),
            Self::Backward(variant) => check_backward_fits(variant, device),
        }
    }

    /// Checks that it computes `problem`, or the gradient of `problem`, on `device`.
    ///
    /// # Errors
    /// [`Error::Invalid`] with what it accepts.
    pub fn check_accepts(&self, problem: &Problem, device: &Device) -> Result<()> {
        match self {
            Self::Forward(entry) => check_accepts(entry, problem),
            Self::Backward(variant) => {
                backward_plan(variant, &gradient_of(*problem, variant.computes_d_bias)?, device).map(drop)
            }
        }
    }
}
