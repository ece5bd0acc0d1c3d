//! A plan: which candidates are compiled and measured for which problems, and why others are not.

use std::path::Path;

use contract::architecture::{ARCHITECTURES, ArchitectureLimits};
use contract::candidates::{Candidate, KIND, Pool, VERSION};
use contract::config::{Element, Mask, Sequence};
use contract::tile::{Configuration, Kind};
use contract::variants::VARIANTS;
use serde::{Deserialize, Serialize};

use super::features::{Features, label};
use super::gates::{Gates, Rejected};
use super::latin_hypercube;
use super::search::Strategy;
use super::space::Space;
use cli::document::Format;
use cli::error::{Error, Result};
use cli::record::Case;

/// The file format of a [`Plan`].
pub const FORMAT: Format =
    Format { kind: KIND, version: VERSION, oldest: VERSION, name: "tuning plan", source: "fa512 tune plan --out FILE" };

/// The candidates to compile and measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The search strategy.
    pub strategy: Strategy,
    /// Seed of all randomness.
    pub seed: u64,
    /// The problems that the tuner measures.
    pub cases: Vec<Case>,
    /// What became of the points of each space.
    pub spaces: Vec<SiftedSpace>,
    /// The shipped variants among the candidates, in order of preference; one of them is the incumbent.
    pub incumbents: Vec<String>,
    /// The entries to compile, incumbents first.
    #[serde(flatten)]
    pub pool: Pool,
}

/// What became of the points of a search space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiftedSpace {
    /// The kind of the kernels.
    pub kind: Kind,
    /// The sequence lengths that its kernels accept.
    pub sequence: Sequence,
    /// The mask that they apply.
    pub mask: Mask,
    /// Element type of their tensors; absent in plans from before bf16 was added.
    #[serde(default)]
    pub element: Element,
    /// Number of points of the space.
    pub points: u64,
    /// Rejected points, by reason.
    pub rejected: Vec<Rejected>,
    /// Number of points that passed.
    pub survivors: usize,
    /// Number of points to compile: all survivors, or a sample.
    pub chosen: usize,
}

/// The input of a plan.
pub struct Request {
    /// The spaces, each of another kind of kernels.
    pub spaces: Vec<Space>,
    /// Compute capability, such as 90 for `sm_90`.
    pub architecture: u32,
    /// The problems.
    pub cases: Vec<Case>,
    /// The search strategy.
    pub strategy: Strategy,
    /// Maximum candidates per kind, sequence and mask; `None` for all survivors.
    pub candidates: Option<usize>,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Plan {
    /// Sifts the spaces of `request` and chooses the candidates.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a kind does not run on the architecture, or nothing is left.
    pub fn new(request: &Request) -> Result<Self> {
        let limits = limits(request.architecture)?;
        let kinds = || request.spaces.iter().map(Space::kind);
        if let Some(kind) = kinds().find(|kind| !kind.family().runs_on(request.architecture)) {
            return Err(Error::Invalid(format!(
                "{} needs {}, not sm_{}",
                kind.name(),
                kind.family().requirement(),
                request.architecture
            )));
        }
        let mut plan = Self {
            strategy: request.strategy,
            seed: request.seed,
            cases: request.cases.clone(),
            spaces: Vec::new(),
            incumbents: Vec::new(),
            pool: Pool { architecture: request.architecture, candidates: Vec::new() },
        };
        plan.add_incumbents(request, limits);
        for space in &request.spaces {
            plan.add_space(limits, space, request);
        }
        if plan.pool.candidates.is_empty() {
            return Err(Error::Invalid("no candidate is left, and no variant is shipped for these problems".into()));
        }
        Ok(plan)
    }

    /// Adds the shipped variants of these kinds for any of the problems: they are measured like all others.
    fn add_incumbents(&mut self, request: &Request, limits: ArchitectureLimits) {
        let kinds = kinds(&request.cases);
        let wanted = VARIANTS.iter().filter(|variant| {
            let kind = request.spaces.iter().any(|space| space.kind() == variant.config.kind());
            let accepts = |kind: &Specialised| *kind == (variant.sequence, variant.mask, variant.element);
            let fits = variant.config.check(variant.sequence, limits).is_ok();
            kind && fits && kinds.iter().any(accepts)
        });
        self.pool.candidates.extend(wanted.map(Candidate::from));
        self.incumbents = self.pool.candidates.iter().map(|candidate| candidate.name.clone()).collect();
    }

    fn add_space(&mut self, limits: ArchitectureLimits, space: &Space, request: &Request) {
        for kinds in kinds(&request.cases).chunk_by(|a, b| a.0 == b.0) {
            let sequence = kinds[0].0;
            let sifted = Gates { sequence, limits }.sift(space);
            let chosen = choose(&sifted.survivors, request);
            for &(_, mask, element) in kinds {
                self.spaces.push(SiftedSpace {
                    kind: space.kind(),
                    sequence,
                    mask,
                    element,
                    points: sifted.points,
                    survivors: sifted.survivors.len(),
                    chosen: chosen.len(),
                    rejected: sifted.rejected.clone(),
                });
                chosen.iter().for_each(|&config| self.add_candidate((sequence, mask, element), config));
            }
        }
    }

    /// Adds a candidate, unless it is already there as a shipped variant.
    fn add_candidate(&mut self, (sequence, mask, element): Specialised, config: Configuration) {
        let same = |other: &Candidate| {
            (other.sequence, other.mask, other.element, other.config) == (sequence, mask, element, config)
        };
        if !self.pool.candidates.iter().any(same) {
            let name = name((sequence, mask, element), &config);
            self.pool.candidates.push(Candidate { name, config, element, sequence, mask });
        }
    }

    /// The candidates for `case`.
    pub fn candidates(&self, case: &Case) -> Vec<&Candidate> {
        let of_case =
            |candidate: &&Candidate| (candidate.sequence, candidate.mask, candidate.element) == specialised(case);
        self.pool.candidates.iter().filter(of_case).collect()
    }

    /// Reads the plan at `path`.
    ///
    /// # Errors
    /// As [`Format::load`].
    pub fn load(path: &Path) -> Result<Self> {
        FORMAT.load(path)
    }

    /// Writes the plan to `path`, replacing the file atomically.
    ///
    /// # Errors
    /// As [`Format::save`].
    pub fn save(&self, path: &Path) -> Result<()> {
        FORMAT.save(path, self)
    }

    /// Digest that identifies the plan.
    pub fn digest(&self) -> String {
        use sha2::{Digest, Sha256};
        let text = serde_json::to_string(self).unwrap_or_default();
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The `survivors` to compile, in order.
fn choose(survivors: &[Configuration], request: &Request) -> Vec<Configuration> {
    let mut chosen = match request.candidates {
        Some(most) => latin_hypercube::sample(&Features::new(survivors), most, request.seed),
        None => (0..survivors.len()).collect(),
    };
    chosen.sort_unstable();
    chosen.into_iter().map(|index| survivors[index]).collect()
}

/// A descriptive entry name.
fn name((sequence, mask, element): Specialised, config: &Configuration) -> String {
    let sequence = match sequence {
        Sequence::Exact(length) => format!("s{length}"),
        Sequence::Any => "any".into(),
        Sequence::Packed => "packed".into(),
    };
    let element = if element == Element::default() { String::new() } else { format!("{}_", element.name()) };
    format!("fa512_{}_{element}{sequence}_{}_{}", config.kind().name(), mask.name(), label(config))
}

/// The sequence lengths accepted by a kernel for sequences of `length`: exactly that if there are specialised entries,
/// else any.
fn sequence_of(length: u32) -> Sequence {
    let specialised = |sequence: Sequence| matches!(sequence, Sequence::Exact(exact) if exact == length);
    match VARIANTS.iter().any(|variant| specialised(variant.sequence)) {
        true => Sequence::Exact(length),
        false => Sequence::Any,
    }
}

/// What kernels are specialised for besides their configuration.
type Specialised = (Sequence, Mask, Element);

/// What the kernels for `case` are specialised for.
fn specialised(case: &Case) -> Specialised {
    (sequence_of(case.shape.sequence), case.mask, case.element)
}

/// The distinct specialisations that `cases` need, grouped by sequence.
fn kinds(cases: &[Case]) -> Vec<Specialised> {
    let mut kinds = Vec::new();
    for case in cases {
        let kind = specialised(case);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.sort_by_key(|(sequence, ..)| matches!(sequence, Sequence::Any));
    kinds
}

fn limits(architecture: u32) -> Result<ArchitectureLimits> {
    ARCHITECTURES.into_iter().find(|limits| limits.architecture == architecture).ok_or_else(|| {
        let known = ARCHITECTURES.map(|limits| limits.architecture.to_string());
        Error::Invalid(format!("the limits of sm_{architecture} are not known; there are: {}", known.join(", ")))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::space::tests::small;
    use super::*;
    use contract::config::Family;
    use contract::problem::Shape;
    use contract::view::Layout;
    use std::collections::{BTreeSet, HashSet};

    pub fn case(batch: u32, heads: u32, sequence: u32, mask: Mask) -> Case {
        Case::plain(Shape::new(batch, heads, sequence), Element::F16, mask, Layout::Bhsd)
    }

    pub fn request(candidates: Option<usize>) -> Request {
        Request {
            spaces: vec![small()],
            architecture: 90,
            cases: vec![case(4, 8, 512, Mask::Full), case(32, 8, 512, Mask::Full), case(4, 8, 512, Mask::Causal)],
            strategy: Strategy::Exhaustive,
            candidates,
            seed: 0,
        }
    }

    #[test]
    fn an_exhaustive_plan_has_every_survivor_and_the_incumbents_once() {
        let plan = Plan::new(&request(None)).unwrap();
        assert_eq!(plan.spaces.len(), 2, "one for each mask, not for each shape");
        for space in &plan.spaces {
            let rejected: u64 = space.rejected.iter().map(|rejected| rejected.points).sum();
            assert_eq!(rejected + space.survivors as u64, space.points);
            assert_eq!(space.chosen, space.survivors);
        }
        let survivors: usize = plan.spaces.iter().map(|space| space.survivors).sum();
        let candidates = plan.pool.candidates.len();
        assert!((survivors..=survivors + plan.incumbents.len()).contains(&candidates), "{candidates} of {survivors}");
        let names: BTreeSet<_> = plan.pool.candidates.iter().map(|candidate| &candidate.name).collect();
        assert_eq!(names.len(), candidates, "two candidates have one name");
        let different: HashSet<_> =
            plan.pool.candidates.iter().map(|candidate| (candidate.config, candidate.mask)).collect();
        assert_eq!(different.len(), candidates, "an incumbent is there twice");
        assert!(plan.incumbents.iter().all(|name| names.contains(name)));
        assert_eq!(plan.candidates(&plan.cases[0]), plan.candidates(&plan.cases[1]));
        assert!(plan.candidates(&plan.cases[2]).iter().all(|candidate| candidate.mask == Mask::Causal));
    }

    #[test]
    fn a_plan_is_as_large_as_it_was_asked_to_be() {
        let plan = Plan::new(&request(Some(24))).unwrap();
        assert!(plan.spaces.iter().all(|space| space.chosen == 24 && space.survivors > 24));
        let for_full = plan.candidates(&plan.cases[0]).len();
        assert!((24..=24 + plan.incumbents.len()).contains(&for_full), "{for_full}");
        let shipped_only = Plan::new(&request(Some(0))).unwrap();
        let names: Vec<_> = shipped_only.pool.candidates.iter().map(|candidate| candidate.name.clone()).collect();
        assert_eq!(names, shipped_only.incumbents, "0 candidates leave what is shipped");
    }

    #[test]
    fn sequences_other_than_512_are_for_the_general_entries() {
        let cases = vec![case(2, 4, 1024, Mask::Full)];
        let plan = Plan::new(&Request { cases, ..request(Some(5)) }).unwrap();
        assert!(plan.pool.candidates.iter().all(|candidate| candidate.sequence == Sequence::Any), "{plan:?}");
    }

    #[test]
    fn a_plan_is_read_as_it_was_written_and_the_compiler_reads_its_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        let plan = Plan::new(&request(Some(3))).unwrap();
        plan.save(&path).unwrap();
        assert_eq!(Plan::load(&path).unwrap(), plan);
        assert_eq!(Plan::load(&path).unwrap().digest(), plan.digest());
        let pool: Pool = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(pool, plan.pool);
        std::fs::write(&path, "{}").unwrap();
        let refusal = Plan::load(&path).unwrap_err().to_string();
        assert!(refusal.contains("not a tuning plan") && refusal.contains("fa512 tune plan --out FILE"), "{refusal}");
    }

    #[test]
    fn what_cannot_be_planned_is_refused() {
        let refusal = |request: Request| Plan::new(&request).unwrap_err().to_string();
        let unknown = refusal(Request { architecture: 75, ..request(None) });
        assert!(unknown.contains("sm_75") && unknown.contains("80, 86, 89, 90"), "{unknown}");
        let spaces = Space::built_in(Family::Sm90a).unwrap();
        let wrong = refusal(Request { spaces, architecture: 89, ..request(None) });
        assert!(wrong.contains("sm90_tma needs sm_90"), "{wrong}");
    }
}
