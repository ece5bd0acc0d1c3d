//! Where predicted times do not clearly decide which kernel is fastest: measuring there helps the choice most.

use contract::cost::{Costs, KernelClass};
use contract::gpu::Gpu;
use contract::parts::Workspace;
use contract::problem::Problem;
use contract::selection::computes;
use contract::variants::Variant;

use cli::record::Case;

/// Ratio of the second shortest to the shortest predicted time among the classes of kernels that compute `problem`;
/// `None` if there are fewer than two.
pub fn lead<'a>(
    problem: &Problem,
    variants: impl Iterator<Item = Variant<'a>>,
    costs: &Costs<'_>,
    gpu: &Gpu<'_>,
) -> Option<f64> {
    let predicted = |variant: Variant<'a>| {
        let us = costs.predict(&variant, problem, gpu.multiprocessors, Workspace::Provided)?;
        Some((KernelClass::of(&variant), us))
    };
    let times: Vec<_> = variants.filter(|variant| computes(variant, problem, gpu)).filter_map(predicted).collect();
    let first = times.iter().min_by(|one, other| one.1.total_cmp(&other.1))?;
    let others = times.iter().filter(|(class, _)| *class != first.0).map(|(_, us)| us / first.1);
    others.min_by(f64::total_cmp)
}

/// `cases` sorted by their `lead`, smallest first; those without one come last.
pub fn least_sure_first(cases: Vec<Case>, lead: impl Fn(&Case) -> Option<f64>) -> Vec<Case> {
    let mut with_leads: Vec<_> = cases.into_iter().map(|case| (lead(&case).unwrap_or(f64::INFINITY), case)).collect();
    with_leads.sort_by(|one, other| one.0.total_cmp(&other.0));
    with_leads.into_iter().map(|(_, case)| case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::config::Mask;
    use contract::cost::SHIPPED;
    use contract::variants::VARIANTS;

    use crate::map::record::tests::point;

    const GPU: Gpu<'static> =
        Gpu { name: "NVIDIA H200", architecture: 90, multiprocessors: 132, shared_bytes_per_block: 232_448 };

    fn costs() -> &'static Costs<'static> {
        Costs::find(SHIPPED, &GPU).expect("they are shipped")
    }

    fn case(heads: u32, sequence: u32) -> Case {
        point((1, heads, sequence), vec![]).case
    }

    fn lead_of(case: &Case) -> Option<f64> {
        lead(&case.problem().unwrap(), VARIANTS.iter().copied(), costs(), &GPU)
    }

    #[test]
    fn a_lead_is_that_of_the_first_class_over_the_others() {
        let problem = case(64, 512).problem().unwrap();
        let time = |variant: &Variant<'_>| costs().predict(variant, &problem, GPU.multiprocessors, Workspace::Provided);
        let named = |name: &str| *VARIANTS.iter().find(|variant| variant.entry == name).expect("it is shipped");
        let (small, large) = (named("fa512_sm90a_tma_any_full_64x64"), named("fa512_sm90a_tma_any_full_256x64"));
        let (a, b) = (time(&small).unwrap(), time(&large).unwrap());
        let found = |variants: &[Variant<'static>]| lead(&problem, variants.iter().copied(), costs(), &GPU);
        assert_eq!(found(&[small, large]), Some(a.max(b) / a.min(b)));
        assert_eq!(found(&[small]), None);
        // Kernels for one length and for any length are of the same class.
        assert_eq!(found(&[small, named("fa512_sm90a_tma_s512_full_64x64")]), None);
        assert_eq!(found(&[small, named("fa512_sm90a_tma_any_causal_256x64")]), None, "of another mask");
    }

    #[test]
    fn the_least_sure_come_first() {
        let cases = vec![case(4096, 2048), case(3, 200), case(40, 700), case(500, 33)];
        let sorted = least_sure_first(cases.clone(), lead_of);
        let leads: Vec<_> = sorted.iter().map(|case| lead_of(case).expect("there are several classes")).collect();
        assert!(leads.is_sorted() && leads[0] < leads[3], "{leads:?}");
        let none_but_last = least_sure_first(cases.clone(), |case| (case.shape.sequence != 2048).then_some(1.0));
        assert_eq!(none_but_last.last().map(|case| case.shape.sequence), Some(2048));
        assert_eq!(cases[0].mask, Mask::Full);
    }
}
