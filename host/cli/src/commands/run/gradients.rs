//! A run of an entry for gradients.

use std::time::Instant;

use contract::backward::variants::BackwardVariant;

use super::record::{self, Check, Record, Source};
use super::{Options, expected_time, targets};
use crate::backward::Backward;
use crate::commands::progress::{Progress, with_clock};
use crate::error::{Error, Result};
use crate::executor::Opened;
use crate::gradients::GradientInputs;
use crate::inputs::Inputs;
use crate::ptx_folder::PtxFolder;
use crate::ptx_module::PtxModule;

/// Products of a backward pass, five, for each of the two of a forward pass.
const PRODUCTS: f64 = 2.5;

/// An entry for gradients, with its module.
type Named<'a> = (&'static BackwardVariant, &'a PtxModule);

/// The entry for gradients of this name, if `folder` has it.
pub fn named<'a>(folder: &'a PtxFolder, name: &str) -> Option<Named<'a>> {
    folder.gradients().find(|(variant, _)| variant.entry == name)
}

/// Launches once, with O and LSE of the reference and standard normal dO, and checks the gradients and side effects.
///
/// # Errors
/// When inputs are from files or outputs go to files, and when the entry cannot run.
pub fn execute(
    options: &Options,
    opened: &mut Opened,
    folder: &PtxFolder,
    (variant, module): Named<'_>,
    inputs: Inputs,
    source: Source,
) -> Result<Record> {
    let Source::Generated { distribution, seed } = source else {
        return Err(Error::Invalid(format!(
            "{} computes gradients, of generated inputs alone: leave out --q",
            variant.entry
        )));
    };
    if let Some((option, _)) = targets(options).first() {
        return Err(Error::Invalid(format!("{} computes gradients, which {option} does not write", variant.entry)));
    }
    let problem = record::Problem::new(&inputs, options.layout, options.score_mod.form());
    let rows = inputs.problem().shape().rows() as u64;
    let progress = Progress::new("computing O and LSE", rows);
    let inputs =
        GradientInputs::generate(inputs, distribution, seed, variant.computes_d_bias, |rows| progress.advance(rows))?;
    drop(progress);
    let device = opened.executor.device().clone();
    let mut backward = Backward::prepare(opened.executor.as_mut(), module, variant, &inputs)?;
    let expected = expected_time(PRODUCTS * inputs.inputs().operations(), &device);
    let start = Instant::now();
    let outcome = with_clock(format!("running {}", variant.entry), expected, || backward.execute())?;
    let execution_seconds = start.elapsed().as_secs_f64();
    let check = (!options.no_check).then(|| {
        let progress = Progress::new("computing the reference", rows);
        Check::Gradients(inputs.check(&outcome.outputs, |rows| progress.advance(rows)))
    });
    let mut record = Record {
        passed: false,
        device,
        device_reason: opened.reason.clone(),
        variant: variant.entry.to_owned(),
        variant_brief: "named".into(),
        variant_reason: "asked for by name".into(),
        ptx: record::Ptx::new(folder, module),
        problem,
        source,
        launch: backward.plan().into(),
        check,
        changed_inputs: outcome.changed_inputs,
        damaged_guards: outcome.damaged_guards,
        findings: outcome.execution.findings,
        counters: outcome.execution.counters,
        execution_seconds,
        timing: None,
    };
    record.passed = record.everything_passed();
    Ok(record)
}
