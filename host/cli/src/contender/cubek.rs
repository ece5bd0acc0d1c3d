//! cubek-attention, the attention of CubeCL, run as a separate process by the program in `baselines/cubek`. That is
//! built from crates.io, outside this workspace (`cargo xtask cubek`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use super::library::{Library, LibraryContender};
use super::torch::find_python;
use crate::error::{Error, Result};

/// Name of its contenders.
const NAME: &str = "cubek";
/// Environment variable that names the program.
pub const VARIABLE: &str = "FA512_CUBEK";
/// File name of the program, next to this one.
const BESIDE: &str = "fa512-cubek";
/// Path of the program as built by `cargo xtask cubek`, relative to the folder next to this program's.
const BUILT: &str = "cubek/release/fa512-cubek";

/// A strategy of cubek-attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// `cubek`: with tensor cores, in the fastest tile sizes for the problem.
    Accelerated,
    /// `cubek:unit`: without tensor cores. NVRTC takes minutes to compile it.
    Unit,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 2] = [Self::Accelerated, Self::Unit];

    /// The contender's name.
    pub fn contender_name(self) -> &'static str {
        match self {
            Self::Accelerated => NAME,
            Self::Unit => "cubek:unit",
        }
    }

    /// The strategy of contender `name`.
    pub fn from_contender_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.contender_name() == name)
    }

    /// The contender, using a process started by [`start`].
    pub fn contender(self, library: &Rc<Library>) -> LibraryContender {
        let backend = match self {
            Self::Accelerated => "accelerated",
            Self::Unit => "unit",
        };
        library.contender(self.contender_name().into(), backend, "cubek_attention::forward::launch::launch_ref".into())
    }
}

/// Starts the program that [`VARIABLE`] names, else the one next to this program or in the folder `cubek` next to its
/// own. It looks for CUDA's headers and NVRTC in an installation, or among the wheels of `python` (else of the one in
/// `PATH`).
///
/// # Errors
/// [`Error::Unavailable`] names what is missing: the program, CUDA's headers, NVRTC, or a GPU.
pub fn start(python: Option<&Path>) -> Result<Rc<Library>> {
    let program = program()?;
    let mut command = Command::new(&program);
    command.args(python.map(Path::to_owned).or_else(find_python));
    Library::start(command, format!("cubek-attention's process ({})", program.display()), Library::folder()?)
}

/// Finds the program.
///
/// # Errors
/// [`Error::Unavailable`] when it is missing; the message lists where it was searched.
pub fn program() -> Result<PathBuf> {
    find(std::env::var_os(VARIABLE).map(PathBuf::from), &std::env::current_exe().unwrap_or_default())
}

/// The program: `named`, or near program `own`.
fn find(named: Option<PathBuf>, own: &Path) -> Result<PathBuf> {
    if let Some(named) = named {
        let refusal = || Error::Unavailable(format!("{VARIABLE} names no program: {}", named.display()));
        return if named.is_file() { Ok(named) } else { Err(refusal()) };
    }
    let folders = own.ancestors().skip(1);
    let places: Vec<_> = folders.zip([BESIDE, BUILT]).map(|(folder, program)| folder.join(program)).collect();
    places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let tried: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
        Error::Unavailable(format!(
            "no program of cubek-attention: {VARIABLE} is not set, and there is no {}; `cargo xtask cubek` builds it",
            tried.join(" or ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use contract::config::Mask;
    use contract::problem::{Problem, Shape};
    use contract::view::Layout;

    use super::*;
    use crate::contender::{Contender, Workload};
    use crate::inputs::{Distribution, Inputs};
    use crate::sampled_check::SampledCheck;
    use crate::timing::{L2, Protocol};

    /// Runs the program on a GPU or the simulated driver.
    #[test]
    fn what_the_program_computes_is_right_and_is_timed() {
        if std::env::var_os(VARIABLE).is_none() {
            println!("not tested: {VARIABLE} is not set");
            return;
        }
        let library = start(None).unwrap();
        for (mask, layout) in [(Mask::Full, Layout::Bhsd), (Mask::Causal, Layout::Bshd)] {
            let problem = Problem::new(Shape::new(1, 2, 64), mask, layout).unwrap();
            let inputs = Inputs::generate(problem, Distribution::Normal, 1).unwrap();
            let check = SampledCheck::new(&inputs, Distribution::Normal, 2, 1).unwrap();
            let mut contender = Strategy::Accelerated.contender(&library);
            let workload = Workload { inputs, protocol: Protocol { sample_us: 1.0, ..Protocol::new(L2::Warm) } };
            let mut prepared = contender.prepare(&workload).unwrap();
            let correctness = check.judge(&prepared.answer().unwrap());
            assert!(correctness.passed(), "{correctness:?}");
            assert!(prepared.into_sampler().unwrap().sample().unwrap() > 0.0);
        }
        let window = Problem::new(Shape::new(1, 2, 64), Mask::Full, Layout::Bhsd).unwrap();
        let window = window.with_window(contract::problem::Window { left: Some(8), right: Some(0) });
        let inputs = Inputs::generate(window, Distribution::Normal, 1).unwrap();
        let workload = Workload { inputs, protocol: Protocol::new(L2::Warm) };
        let refusal = Strategy::Unit.contender(&library).prepare(&workload).err().expect("no windows").to_string();
        assert_eq!(refusal, "cubek:unit: cubek-attention has no windows");
    }

    #[test]
    fn the_program_is_found_where_it_is_built_or_packed() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("release/fa512");
        let refusal = find(None, &own).unwrap_err().to_string();
        assert!(refusal.contains("`cargo xtask cubek` builds it") && refusal.contains(VARIABLE), "{refusal}");
        for place in ["cubek/release/fa512-cubek", "release/fa512-cubek"] {
            let program = folder.path().join(place);
            std::fs::create_dir_all(program.parent().unwrap()).unwrap();
            std::fs::write(&program, "").unwrap();
            assert_eq!(find(None, &own).unwrap(), program);
        }
        let elsewhere = folder.path().join("cubek/release/fa512-cubek");
        assert_eq!(find(Some(elsewhere.clone()), &own).unwrap(), elsewhere);
        let refusal = find(Some("/no/cubek".into()), &own).unwrap_err().to_string();
        assert_eq!(refusal, "FA512_CUBEK names no program: /no/cubek");
    }
}
