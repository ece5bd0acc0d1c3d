//! PyTorch's attention in a Python process: `scaled_dot_product_attention` with each of its backends, and
//! FlexAttention. The process runs `baselines/torch/contender.py`, which is embedded in this program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use super::library::{Library, LibraryContender};
use crate::error::{Error, Result};

/// The Python program.
const SCRIPT: &str = include_str!("../../../../baselines/torch/contender.py");

/// A backend of PyTorch's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// FlashAttention-2.
    Flash,
    /// cuDNN's fused attention.
    Cudnn,
    /// The memory-efficient attention of xFormers (CUTLASS).
    Efficient,
    /// FlexAttention, compiled by Inductor and Triton.
    Flex,
}

impl Backend {
    /// Every backend.
    pub const ALL: [Self; 4] = [Self::Flash, Self::Cudnn, Self::Efficient, Self::Flex];

    /// The name, as in the contender `torch:cudnn`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flash => "flash",
            Self::Cudnn => "cudnn",
            Self::Efficient => "efficient",
            Self::Flex => "flex",
        }
    }

    /// The backend called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.name() == name)
    }

    /// The contender `torch:<backend>`, using a process started by [`start`].
    pub fn contender(self, library: &Rc<Library>) -> LibraryContender {
        library.contender(format!("torch:{}", self.name()), self.name(), self.function())
    }

    /// The function that is called.
    fn function(self) -> String {
        match self {
            Self::Flex => "torch.nn.attention.flex_attention.flex_attention (torch.compile)".into(),
            _ => format!("torch.nn.functional.scaled_dot_product_attention ({})", self.name()),
        }
    }
}

/// Starts `python`, or else the first of `python3` and `python` in `PATH`, and waits until PyTorch is imported.
///
/// # Errors
/// [`Error::Unavailable`] names what is missing: Python, PyTorch, its CUDA support, or a GPU.
pub fn start(python: Option<&Path>) -> Result<Rc<Library>> {
    let python = python.map(Path::to_owned).or_else(find_python).ok_or_else(|| {
        Error::Unavailable("no python3 or python in PATH to run PyTorch with; --python names one".into())
    })?;
    let folder = Library::folder()?;
    let script = folder.path().join("contender.py");
    std::fs::write(&script, SCRIPT).map_err(|source| Error::File { path: script.clone(), source })?;
    let mut command = Command::new(&python);
    command.arg(script);
    Library::start(command, format!("PyTorch's process ({})", python.display()), folder)
}

/// The first of `python3` and `python` in `PATH`.
pub(super) fn find_python() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    let programs =
        ["python3", "python"].into_iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    programs.into_iter().find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_is_found_by_its_name() {
        for backend in Backend::ALL {
            assert_eq!(Backend::from_name(backend.name()), Some(backend));
        }
        assert_eq!(Backend::from_name("math"), None);
    }
}
