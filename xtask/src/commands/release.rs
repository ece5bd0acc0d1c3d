//! `cargo xtask release`: all that a release publishes, made and tried.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{dist, package, ptx, trial};
use crate::environment::{Environment, Workspace};
use crate::files;
use crate::machine::Machine;
use crate::output::print_line;
use crate::outside;
use crate::process;
use crate::provision;

/// The crates that are published, each after its dependencies.
const PUBLISHED: [&str; 5] = ["fa512-contract", "fa512", "ptx-sim", "ptx-diagnostics", "ptx-sim-cli"];
/// What stands in `Cargo.toml` for the address of the repository until there is one.
const NO_ADDRESS: &str = "example.invalid";
/// The section of the changelog for what has no version yet.
const UNRELEASED: &str = "Unreleased";

/// Makes and tries all that a release publishes: crates, wheels, the archives of the C interface and of the programs, checksums and notes.
///
/// Each file is installed into an empty folder and used there, through the simulated driver; what is for aarch64 under QEMU. Nothing is
/// uploaded, except by --publish-crates. The workflow `release.yml` uploads the rest.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Release nothing: the notes are those of what has no version yet
    #[arg(long, required_unless_present = "tag")]
    dry_run: bool,
    /// The tag to release, `v` and the version of Cargo.toml. It is refused if something is missing for it
    #[arg(long, value_name = "TAG", conflicts_with = "dry_run")]
    tag: Option<String>,
    /// Publish the crates, and do nothing else; cargo needs the registry's token
    #[arg(long, requires = "tag")]
    publish_crates: bool,
    /// Folder for the files [default: target/release-files]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Arguments {
    /// Makes the files and tries them.
    pub fn run(self, environment: &Environment, workspace: &Workspace) -> Result<()> {
        let notes = match &self.tag {
            Some(tag) => ready(workspace, tag)?,
            None => notes(&read(workspace, "CHANGELOG.md")?, UNRELEASED)?,
        };
        if self.publish_crates {
            ptx::build(environment, workspace, &workspace.ptx())?;
            return publish(environment, workspace, &[]);
        }
        let mut made = package::check_crates(environment, workspace, Some(&workspace.packages()))?;
        for machine in Machine::ALL {
            let toolset = provision::toolset(environment, workspace, machine)?;
            let packed = package::pack_for(environment, workspace, &toolset, &workspace.packages())?;
            trial::packages(environment, workspace, &toolset, &packed)?;
            made.extend(packed.files().map(Path::to_owned));
        }
        made.push(dist::pack(environment, workspace, &workspace.dist())?);
        try_programs(workspace)?;
        publish(environment, workspace, &["--dry-run", "--quiet"])?;
        let out = self.out.unwrap_or_else(|| workspace.release());
        files::through_temporary_folder(&out, |folder| collect(&made, &notes, folder))?;
        print_line(format_args!("{} files in {}; nothing was uploaded", made.len() + 2, out.display()))
    }
}

fn read(workspace: &Workspace, file: &str) -> Result<String> {
    fs::read_to_string(workspace.root().join(file)).with_context(|| format!("could not read {file}"))
}

/// The notes of the release `tag`, if everything is ready for it.
fn ready(workspace: &Workspace, tag: &str) -> Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    ensure!(tag == format!("v{version}"), "the tag is {tag}, and Cargo.toml has version {version}: tag v{version}");
    ensure!(
        !read(workspace, "Cargo.toml")?.contains(NO_ADDRESS),
        "Cargo.toml names {NO_ADDRESS} as the address of the repository: write the true one in [workspace.package]"
    );
    let commit = workspace.git_commit().context("this is no checkout of git")?;
    ensure!(!commit.ends_with("-dirty"), "tracked files differ from the commit: commit them, and tag that commit");
    notes(&read(workspace, "CHANGELOG.md")?, version)
}

/// The section of `changelog` for `version`.
fn notes(changelog: &str, version: &str) -> Result<String> {
    let mut sections = changelog.split("\n## ").skip(1);
    let section = sections.find_map(|section| section.strip_prefix(version)?.strip_prefix('\n'));
    let section = section.with_context(|| format!("CHANGELOG.md has no section `## {version}`"))?;
    ensure!(!section.trim().is_empty(), "CHANGELOG.md says nothing in its section `## {version}`");
    Ok(format!("{}\n", section.trim()))
}

/// Has cargo publish the crates, of the PTX that is there.
fn publish(environment: &Environment, workspace: &Workspace, options: &[&str]) -> Result<()> {
    let _kernels = package::Kernels::put(workspace)?;
    let mut cargo = Command::new(environment.cargo());
    // The kernels are not in git; what was packed has been compiled and run.
    cargo.current_dir(workspace.root()).args(["publish", "--no-verify", "--allow-dirty"]).args(options);
    process::run(cargo.args(PUBLISHED.iter().flat_map(|name| ["--package", name])))
}

/// Runs a kernel by the programs that were packed.
fn try_programs(workspace: &Workspace) -> Result<()> {
    let folder = workspace.root().join("target/outside-programs");
    files::remove(&folder)?;
    outside::unpack(&workspace.dist().join(dist::name()).with_added_extension("tar.gz"), &folder)?;
    let mut program = Command::new(folder.join(dist::name()).join("fa512"));
    let printed = process::capture(program.args(["run", "--heads", "1", "--seq", "77"]).current_dir("/"))?;
    ensure!(printed.contains("fa512_sm"), "the packed fa512 says {printed:?}");
    Ok(())
}

/// Puts what was made into `folder`, with checksums and notes.
fn collect(made: &[PathBuf], notes: &str, folder: &Path) -> Result<()> {
    let mut sums = String::new();
    for file in made {
        let Some(name) = file.file_name() else { bail!("{} has no name", file.display()) };
        let bytes = fs::read(file).with_context(|| format!("could not read {}", file.display()))?;
        sums.push_str(&format!("{}  {}\n", files::sha256(&bytes), name.display()));
        files::copy(file, &folder.join(name))?;
    }
    fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(fs::write(folder.join("notes.md"), notes)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use toml::{Table, Value};

    use super::*;

    fn workspace() -> Workspace {
        Workspace::new(doc_lint::workspace_root().to_owned())
    }

    #[test]
    fn a_tag_that_is_not_the_version_is_refused_and_so_is_a_repository_without_address() {
        let refusal = |tag: &str| ready(&workspace(), tag).unwrap_err().to_string();
        assert!(refusal("v9.9.9").contains("tag v"), "{}", refusal("v9.9.9"));
        let manifest = read(&workspace(), "Cargo.toml").unwrap();
        if manifest.contains(NO_ADDRESS) {
            let said = refusal(concat!("v", env!("CARGO_PKG_VERSION")));
            assert!(said.contains("[workspace.package]"), "{said}");
        }
    }

    #[test]
    fn the_notes_are_those_of_the_version() {
        let changelog = "# Changes\n\n## Unreleased\n\n* new\n\n## 0.2.0\n\n* a\n\n### C\n\n* b\n\n## 0.1.0\n";
        assert_eq!(notes(changelog, "0.2.0").unwrap(), "* a\n\n### C\n\n* b\n");
        assert!(notes(changelog, "0.2").unwrap_err().to_string().contains("no section `## 0.2`"));
        assert!(notes(changelog, "0.1.0").unwrap_err().to_string().contains("says nothing"));
        notes(&read(&workspace(), "CHANGELOG.md").unwrap(), UNRELEASED).expect("something is to be released");
    }

    #[test]
    fn the_files_have_checksums_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.whl");
        fs::write(&file, "wheel").unwrap();
        let out = folder.path().join("out");
        collect(&[file], "notes\n", &out).unwrap();
        let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
        assert_eq!(sums, format!("{}  a.whl\n", files::sha256(b"wheel")));
    }

    /// The manifests of the workspace, by the names of their packages.
    fn manifests() -> Vec<(String, Table)> {
        let root = workspace();
        let of = |folder: &str| -> Table {
            let file = Path::new(folder).join("Cargo.toml");
            read(&root, &file.display().to_string()).unwrap().parse().unwrap()
        };
        let members = of(".")["workspace"]["members"].as_array().unwrap().clone();
        let named = members.iter().map(|folder| {
            let manifest = of(folder.as_str().unwrap());
            (manifest["package"]["name"].as_str().unwrap().to_owned(), manifest)
        });
        named.collect()
    }

    #[test]
    fn published_crates_have_what_a_registry_asks_for_and_come_after_their_dependencies() {
        let manifests = manifests();
        let shared: Table = read(&workspace(), "Cargo.toml").unwrap().parse().unwrap();
        let (shared, version) =
            (&shared["workspace"]["dependencies"], shared["workspace"]["package"]["version"].as_str());
        for (index, name) in PUBLISHED.iter().enumerate() {
            let manifest = &manifests.iter().find(|(found, _)| found == name).expect("a package").1;
            for key in
                ["description", "license", "readme", "repository", "homepage", "keywords", "categories", "include"]
            {
                assert!(manifest["package"].get(key).is_some(), "{name} has no {key}");
            }
            for (dependency, asked) in manifest["dependencies"].as_table().expect("dependencies") {
                let Some(at) = shared.get(dependency).filter(|_| asked.get("workspace").is_some()) else { continue };
                if at.get("path").is_none() {
                    continue;
                }
                let package = at.get("package").and_then(Value::as_str).unwrap_or(dependency);
                assert!(PUBLISHED[..index].contains(&package), "{name} is published before {package}");
                assert_eq!(at.get("version").and_then(Value::as_str), version, "{dependency} in the root manifest");
            }
        }
    }

    #[test]
    fn there_is_one_version() {
        let root: Table = read(&workspace(), "Cargo.toml").unwrap().parse().unwrap();
        let version = root["workspace"]["package"]["version"].as_str().unwrap();
        for (name, manifest) in manifests() {
            let is_shared = manifest["package"]["version"].get("workspace").is_some();
            assert!(is_shared || name == "find_cuda_helper", "{name} has a version of its own");
        }
        for apart in ["host/candle/Cargo.toml", "host/candle/bert/Cargo.toml"] {
            let manifest: Table = read(&workspace(), apart).unwrap().parse().unwrap();
            assert_eq!(manifest["package"]["version"].as_str(), Some(version), "{apart}");
        }
        for page in ["README.md", "docs/use/c.md", "docs/use/rust.md"] {
            let text = read(&workspace(), page).unwrap();
            let mut named = 0;
            for start in ["fa512-contract-", "fa512-c-", "fa512-"] {
                for rest in text.split(start).skip(1).filter(|rest| rest.starts_with(|one: char| one.is_ascii_digit()))
                {
                    assert!(rest.starts_with(version), "{page} names {start}{}", &rest[..5]);
                    named += 1;
                }
            }
            assert!(named > 0, "{page} names no file of a version");
        }
    }
}
