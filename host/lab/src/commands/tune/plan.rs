//! `fa512 tune plan`: selects candidates from the search space that pass the gates.

use std::path::PathBuf;

use crate::tune::plan::{Plan, Request};
use crate::tune::search::Strategy;
use crate::tune::space::{Space, family_name};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use cli::error::Result;
use cli::executor::sim;
use cli::files;
use cli::record::Case;
use contract::config::{Element, Family, Mask};
use contract::problem::Shape;
use contract::view::Layout;

use super::text;
use cli::commands::bench::shape;
use cli::commands::{Verdict, architecture, element_parser, mask_parser, named_file, output};

/// Choose candidates: points of the search space that pass the gates, all of them or a sample
#[derive(clap::Args)]
pub struct Options {
    /// Kernel families, separated by commas [default: those that run on --arch]
    #[arg(long, value_name = "FAMILY", value_delimiter = ',', value_parser = family_parser())]
    family: Vec<Family>,
    /// Architecture of the GPU to tune for, such as 80, 8.0 or sm_80
    #[arg(long, value_name = "NN", value_parser = architecture, default_value_t = sim::DEFAULT_ARCHITECTURE)]
    arch: u32,
    /// Shapes to tune for, as BxHxS, or BxHxSxD where D is not 64, separated by commas
    #[arg(long, value_name = "BxHxS", value_delimiter = ',', value_parser = shape, default_values = ["4x8x512", "32x8x512", "64x16x512"])]
    shapes: Vec<Shape>,
    /// Which keys a query attends to
    #[arg(long, value_delimiter = ',', value_parser = mask_parser(), default_values = ["full", "causal"])]
    masks: Vec<Mask>,
    /// Element type of Q, K, V and O
    #[arg(long = "type", value_name = "TYPE", value_parser = element_parser(), default_value = Element::F16.name())]
    element: Element,
    /// How `fa512 tune run` searches
    #[arg(long, value_enum, default_value_t = Strategy::Exhaustive)]
    strategy: Strategy,
    /// Maximum candidates of each kind, sequence and mask, as a Latin hypercube sample; 0 for the shipped variants alone
    /// [default: every point that passes with exhaustive, else 256]
    #[arg(long, value_name = "N")]
    candidates: Option<usize>,
    /// Search space to use instead of the built-in one (TOML)
    #[arg(long, value_name = "FILE")]
    space: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write the plan to this file [default: only show it]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Default number of candidates for strategies that do not measure all.
const SAMPLED_CANDIDATES: usize = 256;

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let (target, source) = (named_file(("--out", &options.out)), named_file(("--space", &options.space)));
    files::check_targets(target.as_slice(), source.as_slice())?;
    let plan = Plan::new(&options.request()?)?;
    if let Some(path) = &options.out {
        plan.save(path)?;
    }
    output::print(&text::plan(&plan, options.out.as_deref()))?;
    Ok(Verdict::Pass)
}

impl Options {
    fn request(&self) -> Result<Request> {
        let families = match self.family.as_slice() {
            [] => FAMILIES.into_iter().filter(|family| family.runs_on(self.arch)).collect(),
            named => named.to_vec(),
        };
        let spaces = families.into_iter().map(|family| match &self.space {
            Some(path) => Space::load(path, family),
            None => Space::built_in(family),
        });
        let element = self.element;
        let case = |&shape, &mask| Case::plain(shape, element, mask, Layout::Bhsd);
        let sampled = (self.strategy != Strategy::Exhaustive).then_some(SAMPLED_CANDIDATES);
        Ok(Request {
            spaces: spaces.collect::<Result<Vec<_>>>()?.concat(),
            architecture: self.arch,
            cases: self.shapes.iter().flat_map(|shape| self.masks.iter().map(move |mask| case(shape, mask))).collect(),
            strategy: self.strategy,
            candidates: self.candidates.or(sampled),
            seed: self.seed,
        })
    }
}

const FAMILIES: [Family; 2] = [Family::Sm90a, Family::Sm80];

fn family_parser() -> impl TypedValueParser<Value = Family> {
    PossibleValuesParser::new(FAMILIES.map(family_name))
        .map(|name| FAMILIES.into_iter().find(|&family| family_name(family) == name).expect("clap accepts only these"))
}
