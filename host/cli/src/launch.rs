//! Entries of a manifest as variants of the contract; their names are added to refusals.

use contract::backward::plan::BackwardPlan;
use contract::backward::variants::BackwardVariant;
use contract::cost;
use contract::gradient::Gradient;
use contract::manifest::{ArgumentLayout, Entry};
use contract::plan::Plan;
use contract::problem::Problem;
use contract::refusal::Refusal;

use crate::device::Device;
use crate::error::{Error, Result};

/// Plans the launch of `entry` for `problem` on `device`, with a workspace if it can use one.
///
/// # Errors
/// [`Error::Invalid`] when the entry does not compute the problem or does not fit the device.
pub fn plan<'a>(entry: &'a Entry, problem: &Problem, device: &Device) -> Result<Plan<'a>> {
    check_arguments(entry)?;
    let plan = Plan::new(problem, entry.variant(), &device.gpu()).map_err(|refusal| refused(&entry.name, &refusal))?;
    Ok(plan.with_workspace(cost::SHIPPED, &device.gpu()))
}

/// Plans the launch of `variant` for `gradient` on `device`, with a workspace if it can use one.
///
/// # Errors
/// [`Error::Invalid`] when the entry does not compute the gradient or does not fit the device.
pub fn backward_plan(variant: &'static BackwardVariant, gradient: &Gradient, device: &Device) -> Result<BackwardPlan> {
    BackwardPlan::of(variant, gradient, &device.gpu()).map_err(|refusal| refused(variant.entry, &refusal))
}

/// Checks that `entry` computes `problem`.
///
/// # Errors
/// [`Error::Invalid`] with what the entry accepts.
pub fn check_accepts(entry: &Entry, problem: &Problem) -> Result<()> {
    check_arguments(entry)?;
    entry.variant().check_accepts(problem).map_err(|refusal| refused(&entry.name, &refusal))
}

/// Checks that `device` can run `entry`.
///
/// # Errors
/// [`Error::Invalid`] with what the entry needs and what the device has.
pub fn check_fits(entry: &Entry, device: &Device) -> Result<()> {
    entry.variant().check_fits(&device.gpu()).map_err(|refusal| refused(&entry.name, &refusal))
}

/// Checks that `device` can run `variant`.
///
/// # Errors
/// As for [`check_fits`].
pub fn check_backward_fits(variant: &BackwardVariant, device: &Device) -> Result<()> {
    variant.check_fits(&device.gpu()).map_err(|refusal| refused(variant.entry, &refusal))
}

/// Checks that `entry` takes the arguments that this program passes.
///
/// # Errors
/// [`Error::Invalid`] when its PTX belongs to another build.
pub fn check_arguments(entry: &Entry) -> Result<()> {
    if entry.arguments == ArgumentLayout::forward() {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "{} takes arguments of another layout than this program passes: its PTX belongs to another build (`cargo xtask ptx` \
         makes a matching one)",
        entry.name
    )))
}

fn refused(entry: &str, refusal: &Refusal) -> Error {
    Error::Invalid(format!("{entry} {refusal}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::config::Mask;
    use contract::problem::Shape;
    use contract::variants::VARIANTS;
    use contract::view::Layout;

    #[test]
    fn what_is_refused_begins_with_the_name_of_the_entry() {
        let mut entry = Entry::from(VARIANTS.iter().find(|variant| variant.mask == Mask::Full).expect("a full mask"));
        let shape = Shape::new(1, 1, 512);
        let problem = Problem::new(shape, Mask::Causal, Layout::Bhsd).unwrap();
        let message = check_accepts(&entry, &problem).unwrap_err().to_string();
        assert_eq!(message, format!("{} computes a full mask, not a causal one", entry.name));
        entry.arguments.size += 8;
        let message = check_accepts(&entry, &problem).unwrap_err().to_string();
        assert!(message.starts_with(&entry.name) && message.contains("another build"), "{message}");
    }
}
