//! cubek-attention, the attention of CubeCL, in a process of the program in `baselines/cubek`. It is built from crates.io, apart from this
//! workspace (`cargo xtask cubek`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use super::library::{Library, LibraryContender};
use super::torch::find_python;
use crate::error::{Error, Result};

/// The contender.
pub const NAME: &str = "cubek";
/// Environment variable that names the program.
pub const VARIABLE: &str = "FA512_CUBEK";
/// The program, beside this one.
const BESIDE: &str = "fa512-cubek";
/// The program where `cargo xtask cubek` puts it, in the folder beside this program's.
const BUILT: &str = "cubek/release/fa512-cubek";
/// What the process calls its fastest strategy.
const BACKEND: &str = "best";

/// Starts the program that [`VARIABLE`] names, else the one beside this program or in the folder `cubek` beside its own. It looks for
/// CUDA's headers and NVRTC in an installation or among the wheels of `python`, else of the one in `PATH`.
///
/// # Errors
/// [`Error::Unavailable`] with the one thing that is missing: the program, CUDA's headers, NVRTC, a GPU.
pub fn start(python: Option<&Path>) -> Result<Rc<Library>> {
    let program = find(std::env::var_os(VARIABLE).map(PathBuf::from), &std::env::current_exe().unwrap_or_default())?;
    let mut command = Command::new(&program);
    command.args(python.map(Path::to_owned).or_else(find_python));
    Library::start(command, format!("cubek-attention's process ({})", program.display()), Library::folder()?)
}

/// The contender `cubek`, of a process that [`start`] began.
pub fn contender(library: &Rc<Library>) -> LibraryContender {
    library.contender(NAME.into(), BACKEND, "cubek_attention::forward::launch::launch_ref".into())
}

/// The program: `named`, or near the program `own`.
fn find(named: Option<PathBuf>, own: &Path) -> Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named);
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
    use super::*;

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
        assert_eq!(find(Some("/my/cubek".into()), &own).unwrap(), Path::new("/my/cubek"));
    }
}
