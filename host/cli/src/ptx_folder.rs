//! The folder that `cargo xtask ptx` writes: PTX files and the manifest that describes them.

use std::path::{Path, PathBuf};

use contract::backward::variants::{BACKWARD_VARIANTS, BackwardVariant};
use contract::manifest::{Entry, FILE_NAME, FORMAT, Manifest, Module};
use contract::probe::Probe;
use sha2::{Digest, Sha256};

use crate::document;
use crate::error::{Error, Result};
use crate::files;
use crate::ptx_module::PtxModule;

/// Environment variable that names the folder.
pub const ENVIRONMENT_VARIABLE: &str = "FA512_PTX_DIR";

/// A PTX folder that matches its manifest.
#[derive(Clone, Debug)]
pub struct PtxFolder {
    path: PathBuf,
    manifest: Manifest,
    modules: Vec<PtxModule>,
}

/// The part of every manifest that does not change with the format.
#[derive(serde::Deserialize)]
struct FormatOnly {
    format: u32,
}

impl PtxFolder {
    /// Finds and reads the folder: `explicit`, else the one that [`ENVIRONMENT_VARIABLE`] names, else `ptx` next to the
    /// program or next to the program's folder.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is none; otherwise as for [`Self::open`].
    pub fn find(explicit: Option<&Path>) -> Result<Self> {
        Self::find_by(explicit, None)
    }

    /// [`Self::find`], but returns the folder of `code_generator` next to that one, if given.
    ///
    /// # Errors
    /// As for [`Self::find`].
    pub fn find_by(explicit: Option<&Path>, code_generator: Option<&str>) -> Result<Self> {
        let wanted = |path: &Path| code_generator.map_or_else(|| path.to_owned(), |name| of_code_generator(path, name));
        let named = explicit.map(Path::to_owned).or_else(|| std::env::var_os(ENVIRONMENT_VARIABLE).map(PathBuf::from));
        if let Some(path) = named {
            return Self::open(&wanted(&path));
        }
        let candidates: Vec<_> = beside_program().iter().map(|path| wanted(path)).collect();
        match candidates.iter().find(|path| path.join(FILE_NAME).is_file()) {
            Some(path) => Self::open(path),
            None => {
                let tried: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
                Err(Error::Unavailable(format!(
                    "no PTX: neither --ptx nor {ENVIRONMENT_VARIABLE} is given, and there is no {FILE_NAME} in {}; \
                     {} makes it",
                    tried.join(" or "),
                    command_that_makes(&candidates[0])
                )))
            }
        }
    }

    /// Reads the folder of another code generator: `ptx-NAME` next to this one, or `ptx` for rustc.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn by(&self, code_generator: &str) -> Result<Self> {
        Self::open(&of_code_generator(&self.path, code_generator))
    }

    /// Reads the manifest of the folder at `path`. Each module is read when [its text](PtxModule::text) is asked for.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the manifest or a file is missing, or the manifest has another format or an invalid entry.
    pub fn open(path: &Path) -> Result<Self> {
        let manifest = read_manifest(&path.join(FILE_NAME))?;
        let modules = manifest.modules.iter().map(|module| {
            let file = path.join(&module.file);
            require(&file)?;
            Ok(PtxModule::in_file(path, &module.file, &module.sha256))
        });
        let modules = modules.collect::<Result<_>>()?;
        Ok(Self { path: path.to_owned(), manifest, modules })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that files can be written at all `targets`, each named by its option, without replacing one of the
    /// folder's.
    ///
    /// # Errors
    /// As for [`files::check_targets`].
    pub fn check_targets(&self, targets: &[(&str, &Path)]) -> Result<()> {
        let names = self.manifest.modules.iter().map(|module| module.file.as_str()).chain([FILE_NAME]);
        let own: Vec<PathBuf> = names.map(|name| self.path.join(name)).collect();
        let sources: Vec<_> = own.iter().map(|path| ("the PTX folder", path.as_path())).collect();
        files::check_targets(targets, &sources)
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Digest of all its PTX.
    pub fn digest(&self) -> String {
        let modules: String = self.manifest.modules.iter().map(|module| module.sha256.as_str()).collect();
        Sha256::digest(modules).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The PTX of `probe`; `None` if the folder does not have it, as for another code generator.
    ///
    /// # Errors
    /// [`Error::File`] when it exists but cannot be read.
    pub fn probe(&self, probe: &Probe) -> Result<Option<PtxModule>> {
        let path = self.path.join(probe.file);
        match files::read_text(&path) {
            Ok(text) => Ok(Some(PtxModule::new(probe.file, text))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::File { path, source }),
        }
    }

    /// All entries with their modules, in order of preference.
    pub fn entries(&self) -> impl Iterator<Item = (&Entry, &PtxModule)> + Clone {
        self.manifest
            .modules
            .iter()
            .zip(&self.modules)
            .flat_map(|(module, ptx)| module.entries.iter().map(move |entry| (entry, ptx)))
    }

    /// The backward entries with their modules, in order of preference; without any that this program does not know.
    pub fn gradients(&self) -> impl Iterator<Item = (&'static BackwardVariant, &PtxModule)> {
        BACKWARD_VARIANTS.iter().filter_map(|variant| {
            let has_it =
                |(module, _): &(&Module, &PtxModule)| module.backward.iter().any(|entry| entry.name == variant.entry);
            let (_, ptx) = self.manifest.modules.iter().zip(&self.modules).find(has_it)?;
            Some((variant, ptx))
        })
    }
}

/// The folder of code generator `name` next to `folder`.
fn of_code_generator(folder: &Path, name: &str) -> PathBuf {
    let beside = folder.parent().unwrap_or(Path::new(""));
    beside.join(if name == "rustc" { "ptx".into() } else { format!("ptx-{name}") })
}

/// The command that creates the PTX folder `folder`.
fn command_that_makes(folder: &Path) -> &'static str {
    match folder.file_name().and_then(|name| name.to_str()) {
        Some("ptx-rust-cuda") => "`cargo xtask ptx --codegen rust-cuda`",
        Some("ptx-cuda") => "`cargo xtask baselines`",
        _ => "`cargo xtask ptx`",
    }
}

/// `ptx` next to the program (in a distribution), and next to its folder (`target/release/fa512` and `target/ptx`).
fn beside_program() -> Vec<PathBuf> {
    let program = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
    program.ancestors().skip(1).take(2).map(|folder| folder.join("ptx")).collect()
}

fn read_text(path: &Path) -> Result<String> {
    require(path)?;
    files::read_text(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// Refuses a file that is not there.
fn require(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let command = command_that_makes(path.parent().unwrap_or(path));
    Err(Error::Unavailable(format!("{} does not exist; {command} makes it", path.display())))
}

fn read_manifest(path: &Path) -> Result<Manifest> {
    let text = read_text(path)?;
    let unreadable = |error: serde_json::Error| {
        Error::Unavailable(format!("{}: {error}; `cargo xtask ptx` writes it anew", path.display()))
    };
    let FormatOnly { format } = serde_json::from_str(&text).map_err(unreadable)?;
    if format != FORMAT {
        return Err(Error::Unavailable(format!(
            "{} has format {format}, this program reads {FORMAT}; `cargo xtask ptx` writes it anew",
            path.display()
        )));
    }
    let manifest: Manifest = document::from_json(&text).map_err(unreadable)?;
    for entry in manifest.modules.iter().flat_map(|module| &module.entries) {
        let checked = entry.check().map_err(|rejection| rejection.to_string()).and_then(|()| check_launch(entry));
        checked.map_err(|reason| {
            let name = &entry.name;
            Error::Unavailable(format!(
                "{}: {name} cannot work: {reason}; `cargo xtask ptx` writes it anew",
                path.display()
            ))
        })?;
    }
    Ok(manifest)
}

/// Checks that what `entry` says about its launch follows from its tile configuration, by which it is launched.
fn check_launch(entry: &Entry) -> std::result::Result<(), String> {
    let Entry { config, threads, dynamic_shared_bytes, .. } = entry;
    let numbers = [
        ("threads", *threads, config.threads()),
        ("dynamic_shared_bytes", *dynamic_shared_bytes, config.shared_bytes()),
    ];
    match numbers.into_iter().find(|(_, stored, needed)| stored != needed) {
        Some((name, stored, needed)) => Err(format!("{name} is {stored}, and its tile configuration has {needed}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::manifest::CodeGenerator;
    use contract::variants::VARIANTS;

    fn folder(change: impl FnOnce(&mut Manifest)) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let text = "// PTX";
        let mut manifest = Manifest {
            format: FORMAT,
            code_generator: CodeGenerator { name: "rustc".into(), version: "1".into() },
            git_commit: None,
            ptxas: None,
            modules: vec![Module {
                file: "a.ptx".into(),
                sha256: Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect(),
                ptx_version: "8.0".into(),
                target: "sm_80".into(),
                entries: VARIANTS.iter().map(Entry::from).collect(),
                backward: Vec::new(),
            }],
        };
        change(&mut manifest);
        std::fs::write(folder.path().join("a.ptx"), text).unwrap();
        std::fs::write(folder.path().join(FILE_NAME), serde_json::to_string(&manifest).unwrap()).unwrap();
        folder
    }

    fn refusal(path: &Path) -> String {
        PtxFolder::open(path).unwrap_err().to_string()
    }

    #[test]
    fn entries_come_in_manifest_order_with_their_module() {
        let folder = folder(|_| ());
        let ptx = PtxFolder::open(folder.path()).unwrap();
        let names: Vec<_> = ptx.entries().map(|(entry, module)| (entry.name.as_str(), module.file.as_str())).collect();
        let expected: Vec<_> = VARIANTS.iter().map(|variant| (variant.entry, "a.ptx")).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn a_missing_folder_says_how_to_make_it() {
        assert!(refusal(Path::new("no/such/folder")).contains("`cargo xtask ptx` makes it"));
    }

    #[test]
    fn each_code_generator_has_a_folder_beside_the_others() {
        for (folder, name, expected) in [
            ("target/ptx", "rust-cuda", "target/ptx-rust-cuda"),
            ("target/ptx-rust-cuda", "rustc", "target/ptx"),
            ("target/ptx-rust-cuda", "cuda", "target/ptx-cuda"),
            ("ptx", "cuda", "ptx-cuda"),
        ] {
            assert_eq!(of_code_generator(Path::new(folder), name), Path::new(expected), "{name} beside {folder}");
        }
    }

    #[test]
    fn the_ptx_of_another_code_generator_is_found_beside_the_one_that_is_named() {
        let other = folder(|manifest| manifest.code_generator.name = "rust-cuda".into());
        let parent = tempfile::tempdir().unwrap();
        std::fs::rename(other.keep(), parent.path().join("ptx-rust-cuda")).unwrap();
        let named = parent.path().join("ptx");
        let found = PtxFolder::find_by(Some(&named), Some("rust-cuda")).unwrap();
        assert_eq!(found.manifest().code_generator.name, "rust-cuda");
        assert_eq!(found.by("rust-cuda").unwrap().path(), found.path());
        let message = found.by("cuda").unwrap_err().to_string();
        assert!(message.contains("ptx-cuda") && message.contains("`cargo xtask baselines` makes it"), "{message}");
        let message = PtxFolder::find_by(Some(&named), None).unwrap_err().to_string();
        assert!(message.contains("`cargo xtask ptx` makes it"), "{message}");
    }

    #[test]
    fn another_format_is_refused() {
        let folder = folder(|manifest| manifest.format = 99);
        assert!(refusal(folder.path()).contains("has format 99"));
    }

    #[test]
    fn a_damaged_manifest_is_refused() {
        let folder = folder(|_| ());
        std::fs::write(folder.path().join(FILE_NAME), "{").unwrap();
        assert!(refusal(folder.path()).contains("manifest.json: EOF"));
    }

    #[test]
    fn a_launch_that_its_configuration_does_not_have_is_refused() {
        let refused =
            |change: fn(&mut Entry)| refusal(folder(|manifest| change(&mut manifest.modules[0].entries[0])).path());
        let message = refused(|entry| entry.threads = 0);
        assert!(message.contains("cannot work: threads is 0, and its tile configuration has"), "{message}");
        let message = refused(|entry| entry.dynamic_shared_bytes = u32::MAX);
        assert!(message.contains("cannot work: dynamic_shared_bytes is 4294967295"), "{message}");
    }

    /// What is said of a folder in whose manifest `from`, which is there, is `to`.
    fn refusal_with(from: &str, to: &str) -> String {
        let folder = folder(|_| ());
        let path = folder.path().join(FILE_NAME);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "there is no {from} in {text}");
        std::fs::write(path, text.replacen(from, to, 1)).unwrap();
        refusal(folder.path())
    }

    #[test]
    fn a_manifest_with_a_configuration_that_cannot_work_is_refused() {
        for (from, to, expected) in [
            ("\"block_m\":128", "\"block_m\":0", "block_m must be a positive multiple of 16 * warps / key_groups"),
            ("\"warps\":4", "\"warps\":0", "a block must have 1 to 32 warps"),
            ("\"warpgroups\":4", "\"warpgroups\":4294967295", "a block must have 1 to 32 warps"),
            ("\"stages\":8", "\"stages\":4294967295", "with 2 passes"),
            ("\"unroll\":0", "\"grid\":\"persistent\"", "unknown field `grid`, expected one of `block_m`"),
            ("\"block_n\":64", "\"block_n\":-1", "expected a number or a name"),
            ("\"kind\":\"sm80\"", "\"kind\":\"sm70\"", "unknown variant `sm70`, expected `sm80` or `sm90_tma`"),
            ("\"exact\":512", "\"exact\":500", "fa512_sm90a_tma_s512_full_512x64 cannot work: with 2 passes"),
        ] {
            let message = refusal_with(from, to);
            assert!(message.contains(expected) && message.contains("manifest.json"), "{to}: {message}");
        }
    }

    #[test]
    fn a_module_other_than_the_manifests_is_refused() {
        let folder = folder(|_| ());
        std::fs::write(folder.path().join("a.ptx"), "// edited").unwrap();
        let edited = PtxFolder::open(folder.path()).unwrap();
        let refused = edited.modules[0].text().unwrap_err().to_string();
        assert!(refused.contains("a.ptx: SHA-256 is"), "{refused}");
        std::fs::remove_file(folder.path().join("a.ptx")).unwrap();
        assert!(refusal(folder.path()).contains("a.ptx does not exist"));
    }
}
