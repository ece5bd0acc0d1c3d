//! Finds CUDA's headers and NVRTC, with which CubeCL compiles kernels on first launch: in a CUDA installation or in NVIDIA's Python
//! wheels, some of which come with PyTorch.

use std::error::Error;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::process::Command;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::protocol::Refusal;

/// Headers that the kernels include, directly or indirectly.
const HEADERS: [&str; 4] = ["cuda_runtime_api.h", "cuda_fp16.h", "mma.h", "crt/mma.h"];
/// Header with the version of the headers.
const VERSION_HEADER: &str = "cuda_runtime_api.h";
/// Variables that name an installation; CubeCL reads the first.
pub const VARIABLES: [&str; 2] = ["CUDA_PATH", "CUDA_HOME"];
/// Default installation.
const USUAL: &str = "/usr/local/cuda";
/// Folders of an installation that may hold NVRTC.
const LIBRARY_FOLDERS: [&str; 3] = ["lib64", "lib", "targets/x86_64-linux/lib"];
/// Prints the folders of NVIDIA's wheels, one per line.
const WHEELS: &str = "import nvidia; print(*nvidia.__path__, sep='\\n')";

/// The toolkit that CubeCL compiles with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolkit {
    /// The folder whose `include` has the headers.
    pub root: PathBuf,
    /// Version of the headers; NVRTC must have the same major version.
    pub major: u32,
    /// Path of NVRTC, if the loader does not find it by itself.
    pub nvrtc: Option<PathBuf>,
}

/// Finds the toolkit: the installation named by `variable`, the default one, or wheels of `python`.
///
/// # Errors
/// If there are no headers; says what to install.
pub fn find(variable: impl Fn(&str) -> Option<PathBuf>, python: Option<&Path>) -> Result<Toolkit, Refusal> {
    let wheels = wheels(python);
    let of_wheels = |folder: &str| wheels.iter().map(|base| base.join(folder)).collect::<Vec<_>>();
    let roots = match VARIABLES.iter().find_map(|name| variable(name)) {
        Some(root) => vec![root],
        // CUDA 12 has its headers in wheels that do not lie in one folder.
        None => [vec![PathBuf::from(USUAL)], of_wheels("cu13")].concat(),
    };
    let Some((root, major)) = roots.iter().find_map(|root| Some((root.clone(), version(root)? / 1000))) else {
        let tried: Vec<_> = roots.iter().map(|root| root.join("include").display().to_string()).collect();
        return Err(Refusal::unavailable(format!(
            "CubeCL compiles its kernels with CUDA's headers, and none of {} has all of {}; name an installation by {}, or `pip \
             install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-nvrtc` of one version 13",
            tried.join(", "),
            HEADERS.join(", "),
            VARIABLES[0]
        )));
    };
    let beside = LIBRARY_FOLDERS.iter().map(|folder| root.join(folder));
    let folders = beside.chain(of_wheels("cu13/lib")).chain(of_wheels("cuda_nvrtc/lib"));
    let name = nvrtc_name(major);
    let nvrtc = folders.map(|folder| folder.join(&name)).find(|file| file.is_file());
    Ok(Toolkit { root, major, nvrtc })
}

/// The folders of NVIDIA's wheels.
fn wheels(python: Option<&Path>) -> Vec<PathBuf> {
    let output = Command::new(python.unwrap_or("python3".as_ref())).args(["-c", WHEELS]).output();
    let lines = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    lines.lines().map(PathBuf::from).collect()
}

/// Version of the headers of an installation: 13000 for 13.0. `None` if a header is missing.
fn version(root: &Path) -> Option<u32> {
    let include = root.join("include");
    if !HEADERS.iter().all(|header| include.join(header).is_file()) {
        return None;
    }
    let text = std::fs::read_to_string(include.join(VERSION_HEADER)).ok()?;
    text.lines().find_map(|line| line.strip_prefix("#define CUDART_VERSION")?.trim().parse().ok())
}

fn nvrtc_name(major: u32) -> String {
    format!("libnvrtc.so.{major}")
}

impl Toolkit {
    /// Loads NVRTC, so that CubeCL finds it by name, and returns its version.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub fn load(&self) -> Result<String, Refusal> {
        let file: PathBuf = self.nvrtc.clone().unwrap_or_else(|| nvrtc_name(self.major).into());
        let refuse = |error: libloading::Error| {
            // What the loader says.
            let error = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            Refusal::unavailable(format!(
                "CubeCL compiles its kernels with NVRTC {}, which cannot be loaded: {error}; `pip install nvidia-cuda-nvrtc`, or \
                 name its folder in LD_LIBRARY_PATH",
                self.major
            ))
        };
        // NVRTC opens these by name when it compiles, without looking in its own folder.
        for builtins in file.parent().into_iter().flat_map(beside_nvrtc) {
            std::mem::forget(open(&builtins).map_err(refuse)?);
        }
        let library = open(&file).map_err(refuse)?;
        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        // SAFETY: `nvrtcVersion` has this signature in every version, and writes two integers.
        unsafe {
            let version = library
                .get::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>(b"nvrtcVersion\0")
                .map_err(refuse)?;
            version(&mut major, &mut minor);
        }
        // Keep it loaded.
        std::mem::forget(library);
        Ok(format!("{major}.{minor}"))
    }
}

fn open(file: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: NVRTC and its built-in headers only initialise themselves when loaded.
    unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) }
}

/// NVRTC's built-in headers in `folder`.
fn beside_nvrtc(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_builtins = |file: &PathBuf| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc-builtins.so."))
    };
    files.filter(is_builtins).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn with_headers(root: &Path, version: u32) {
        for header in HEADERS {
            let file = root.join("include").join(header);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("#define CUDART_VERSION  {version}\n")).unwrap();
        }
    }

    #[test]
    fn a_named_installation_is_taken_with_its_nvrtc() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        with_headers(&root, 12090);
        let nvrtc = root.join("lib64/libnvrtc.so.12");
        fs::create_dir_all(nvrtc.parent().unwrap()).unwrap();
        fs::write(&nvrtc, "").unwrap();
        let found = find(|name| (name == "CUDA_PATH").then(|| root.clone()), Some(Path::new("no/python")));
        assert_eq!(found, Ok(Toolkit { root: root.clone(), major: 12, nvrtc: Some(nvrtc.clone()) }));
        fs::rename(&nvrtc, root.join("lib64/libnvrtc.so.13")).unwrap();
        let found = find(|_| Some(root.clone()), Some(Path::new("no/python"))).unwrap();
        assert_eq!(found.nvrtc, None, "of another major version");
    }

    #[test]
    fn headers_that_are_not_complete_are_refused_with_what_to_install() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        with_headers(&root, 13000);
        fs::remove_file(root.join("include/crt/mma.h")).unwrap();
        let refusal = find(|_| Some(root.clone()), Some(Path::new("no/python"))).unwrap_err();
        assert!(refusal.error().contains("crt/mma.h") && refusal.error().contains("nvidia-cuda-crt"), "{refusal:?}");
    }

    #[test]
    fn wheels_are_found_by_python() {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("python");
        fs::write(&python, format!("#!/bin/sh\necho {}\n", folder.path().display())).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        let nvrtc = folder.path().join("cuda_nvrtc/lib/libnvrtc.so.12");
        fs::create_dir_all(nvrtc.parent().unwrap()).unwrap();
        fs::write(&nvrtc, "").unwrap();
        let root = folder.path().join("cuda-12.8");
        with_headers(&root, 12080);
        let found = find(|name| (name == "CUDA_HOME").then(|| root.clone()), Some(&python));
        assert_eq!(found, Ok(Toolkit { root, major: 12, nvrtc: Some(nvrtc) }), "headers from here, NVRTC from there");
        let newer = folder.path().join("cu13");
        with_headers(&newer, 13010);
        let found = find(|_| None, Some(&python));
        // A machine may have the usual installation, which comes first.
        assert!(
            matches!(&found, Ok(toolkit) if toolkit.root == newer || toolkit.root == Path::new(USUAL)),
            "{found:?}"
        );
    }

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let toolkit = Toolkit { root: "/".into(), major: 12, nvrtc: Some("/no/libnvrtc.so.12".into()) };
        let refusal = toolkit.load().unwrap_err();
        assert!(refusal.error().contains("/no/libnvrtc.so.12"), "{refusal:?}");
    }
}
