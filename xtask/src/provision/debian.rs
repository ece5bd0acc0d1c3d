//! Debian packages without root: resolved and downloaded by apt, unpacked by dpkg.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

use super::ToolchainFolder;
use crate::device_compiler::{self, Origin, Version};
use crate::environment::Environment;
use crate::files;
use crate::process::{capture, run};
use crate::progress::{DownloadMeter, Step};

/// Compiler, library source and linter; the rest follows from their dependencies.
const COMPILER_PACKAGES: [&str; 3] = ["rustc-web", "rust-web-src", "rust-web-clippy"];

/// Rust 1.85.0, by name and version: Debian 12 also has a later one.
pub const OLDEST_RUST_PACKAGES: [&str; 3] = [
    "rustc-web=1.85.0+dfsg3-1~deb12u3",
    "libstd-rust-web-dev=1.85.0+dfsg3-1~deb12u3",
    "libstd-rust-web-1.85=1.85.0+dfsg3-1~deb12u3",
];

/// Dependencies of the compiler that only linking needs; PTX is not linked.
const LINKING_PACKAGES: [&str; 4] = ["gcc", "binutils", "libc6-dev", "libc-dev"];

/// Debian's name of this machine's architecture.
const NATIVE: &str = "amd64";

/// Parts of the compiler's source that building `core` does not need, 365 MB of them.
const UNUSED_SOURCE: [&str; 2] = ["src", "compiler"];

/// Debian's package tools.
#[derive(Debug)]
struct Tools {
    apt_get: PathBuf,
    apt_cache: PathBuf,
    dpkg: PathBuf,
    dpkg_query: PathBuf,
}

impl Tools {
    fn find(environment: &Environment) -> Result<Self> {
        let find = |program| {
            environment.find_program(program).with_context(|| format!("there is no {program}: this is not Debian"))
        };
        Ok(Self {
            apt_get: find("apt-get")?,
            apt_cache: find("apt-cache")?,
            dpkg: find("dpkg")?,
            dpkg_query: find("dpkg-query")?,
        })
    }

    fn installed_packages(&self) -> Result<BTreeSet<String>> {
        let listing = capture(Command::new(&self.dpkg_query).args(["-W", "-f", "${db:Status-Status} ${Package}\n"]))?;
        Ok(listing.lines().filter_map(|line| line.strip_prefix("installed ")).map(str::to_owned).collect())
    }
}

/// Which package lists apt looks at.
#[derive(Debug)]
enum Lists {
    /// The system's, as the last `apt-get update` left them.
    System,
    /// Fresh ones in a folder of ours.
    Private(PathBuf),
}

/// apt with a choice of package lists.
#[derive(Debug)]
struct Apt<'a> {
    tools: &'a Tools,
    lists: Lists,
    /// Another architecture whose packages it knows, too.
    foreign: Option<&'a str>,
}

/// A package file that apt knows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PackageFile {
    /// File name, `name_version_architecture.deb`.
    file: String,
    /// Size in bytes.
    size: u64,
    /// SHA-256 that apt's signed lists give.
    sha256: String,
}

impl PackageFile {
    fn name(&self) -> &str {
        self.file.split('_').next().unwrap_or_default()
    }

    fn version(&self) -> &str {
        self.file.split('_').nth(1).unwrap_or_default()
    }

    fn architecture(&self) -> &str {
        self.file.rsplit('_').next().unwrap_or_default().trim_end_matches(".deb")
    }

    /// As apt takes it: `name=version`, with the architecture if it is another than this machine's.
    fn pinned(&self) -> String {
        let architecture = match self.architecture() {
            NATIVE | "all" => String::new(),
            foreign => format!(":{foreign}"),
        };
        format!("{}{architecture}={}", self.name(), self.version().replace("%3a", ":"))
    }

    /// Whether `folder` holds the whole, right file.
    fn is_in(&self, folder: &Path) -> bool {
        let path = folder.join(&self.file);
        fs::metadata(&path).is_ok_and(|metadata| metadata.len() == self.size)
            && fs::read(&path).is_ok_and(|bytes| files::sha256(&bytes) == self.sha256)
    }
}

/// Unpacks rustc-web, its library source, its clippy and the shared libraries this machine lacks into `destination`.
pub fn unpack_rustc(environment: &Environment, folder: &ToolchainFolder, destination: &Path) -> Result<()> {
    let tools = Tools::find(environment)?;
    let packages = download(&tools, folder, None, |apt| {
        let packages = apt.resolve(&COMPILER_PACKAGES)?;
        check_compiler_version(&packages)?;
        Ok(packages)
    })?;
    folder.install(destination, |unfinished| {
        unpack(&tools, folder, &packages, unfinished)?;
        remove_unused_source(unfinished)?;
        let compiler = device_compiler::probe(&unfinished.join("usr/bin/rustc"), Origin::Provisioned)?;
        eprintln!("xtask: {} is ready", compiler.version_line);
        Ok(())
    })?;
    discard(folder, &packages);
    Ok(())
}

/// Unpacks `roots`, each a name or `name=version`, and the dependencies this machine lacks into `destination`.
pub fn unpack_packages(
    environment: &Environment,
    folder: &ToolchainFolder,
    roots: &[&str],
    destination: &Path,
) -> Result<()> {
    let tools = Tools::find(environment)?;
    let packages = download(&tools, folder, None, |apt| apt.resolve(roots))?;
    folder.install(destination, |unfinished| unpack(&tools, folder, &packages, unfinished))?;
    discard(folder, &packages);
    Ok(())
}

/// Unpacks `packages`, some of them with `:` and the architecture `foreign`, and no dependencies into `destination`. `complete` makes of
/// them what they are for.
pub fn unpack_foreign(
    environment: &Environment,
    folder: &ToolchainFolder,
    foreign: &str,
    packages: &[String],
    destination: &Path,
    complete: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let tools = Tools::find(environment)?;
    let names = packages.iter().cloned().collect();
    let packages = download(&tools, folder, Some(foreign), |apt| apt.files(&names))?;
    folder.install(destination, |unfinished| {
        unpack(&tools, folder, &packages, unfinished)?;
        complete(unfinished)
    })?;
    discard(folder, &packages);
    Ok(())
}

/// Downloads the packages that `find` names: by the system's package lists, and where these are missing, too old or out of date, by
/// fresh ones.
fn download(
    tools: &Tools,
    folder: &ToolchainFolder,
    foreign: Option<&str>,
    find: impl Fn(&Apt<'_>) -> Result<Vec<PackageFile>>,
) -> Result<Vec<PackageFile>> {
    let attempt = |apt: &Apt<'_>| {
        let packages = find(apt)?;
        apt.download(&packages, &folder.downloads())?;
        Ok(packages)
    };
    attempt(&Apt { tools, lists: Lists::System, foreign }).or_else(|_| {
        let apt = Apt { tools, lists: Lists::Private(folder.path.join("apt")), foreign };
        eprintln!(
            "xtask: the system's package lists are missing or out of date; fetching others, for this folder only"
        );
        apt.update()?;
        attempt(&apt)
    })
}

fn check_compiler_version(packages: &[PackageFile]) -> Result<()> {
    let package = packages.iter().find(|package| package.name() == COMPILER_PACKAGES[0]);
    let text = package.map_or("", PackageFile::version);
    let version = Version::parse(text).with_context(|| format!("apt's rustc-web has no version: {text:?}"))?;
    if version < Version::minimum() {
        bail!("the newest rustc-web that apt knows is {text}, older than {}", Version::minimum());
    }
    Ok(())
}

impl Apt<'_> {
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // The download folder is the user's; apt's own download user cannot write there.
        command.env("LC_ALL", "C").args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3"]);
        if let Lists::Private(folder) = &self.lists {
            command.arg("-o").arg(format!("Dir::State::Lists={}", folder.join("lists").display()));
            command.arg("-o").arg(format!("Dir::Cache={}", folder.join("cache").display()));
        }
        for architecture in self.foreign.iter().flat_map(|foreign| [NATIVE, foreign]) {
            command.arg("-o").arg(format!("APT::Architectures::={architecture}"));
        }
        command
    }

    /// Fetches package lists. A repository that cannot be reached is shown but no failure: another may have the packages.
    fn update(&self) -> Result<()> {
        let Lists::Private(folder) = &self.lists else { return Ok(()) };
        fs::create_dir_all(folder.join("lists/partial"))?;
        fs::create_dir_all(folder.join("cache"))?;
        let step = Step::begin("apt-get update");
        if let Err(error) = capture(self.command(&self.tools.apt_get).args(["-q", "update", "--error-on=any"])) {
            // Hooks of the system's apt configuration fail without root, which does not matter and is not shown.
            let text = error.to_string();
            let complaints = text.lines().filter(|line| line.starts_with("E: ") || line.starts_with("W: "));
            complaints.for_each(|complaint| eprintln!("xtask: {complaint}"));
        }
        step.done();
        Ok(())
    }

    /// The files of `roots` and of everything they need that is not installed.
    fn resolve(&self, roots: &[&str]) -> Result<Vec<PackageFile>> {
        let mut skipped = self.tools.installed_packages()?;
        skipped.extend(LINKING_PACKAGES.map(str::to_owned));
        let mut needed: BTreeSet<String> = BTreeSet::new();
        let mut new: Vec<String> = roots.iter().map(|&root| root.to_owned()).collect();
        while !new.is_empty() {
            let listing = capture(self.command(&self.tools.apt_cache).arg("depends").args(&new))?;
            needed.extend(new);
            let is_needed = |name: &String| needed.iter().any(|one| one.split('=').next() == Some(name.as_str()));
            new = missing_dependencies(&listing, &skipped).into_iter().filter(|name| !is_needed(name)).collect();
        }
        self.files(&needed)
    }

    /// The files of the packages `names`.
    fn files(&self, names: &BTreeSet<String>) -> Result<Vec<PackageFile>> {
        let listing = capture(self.command(&self.tools.apt_get).args(["download", "--print-uris"]).args(names))?;
        let packages: Vec<PackageFile> = listing.lines().filter_map(parse_uri).collect();
        if packages.len() < names.len() {
            bail!("apt does not say where to get all of {}", names.iter().cloned().collect::<Vec<_>>().join(", "));
        }
        Ok(packages)
    }

    /// Downloads what `folder` does not hold yet; apt fetches partial files anew and verifies what it fetched.
    fn download(&self, packages: &[PackageFile], folder: &Path) -> Result<()> {
        let missing: Vec<&PackageFile> = packages.iter().filter(|package| !package.is_in(folder)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let paths = missing.iter().map(|package| folder.join(&package.file)).collect();
        let size = missing.iter().map(|package| package.size).sum();
        let step = Step::begin(format!("downloading {} packages, {} MB", missing.len(), size / 1_000_000 + 1));
        let meter = DownloadMeter::watch(paths, size);
        let names = missing.iter().map(|package| package.pinned());
        let downloaded =
            capture(self.command(&self.tools.apt_get).current_dir(folder).args(["-q", "download"]).args(names));
        drop(meter);
        downloaded?;
        step.done();
        match missing.iter().find(|package| !package.is_in(folder)) {
            Some(package) => {
                files::remove(&folder.join(&package.file))?;
                Err(anyhow!("{} arrived damaged", package.file))
            }
            None => Ok(()),
        }
    }
}

/// Unpacks all `packages` into `destination`, next to each other.
fn unpack(tools: &Tools, folder: &ToolchainFolder, packages: &[PackageFile], destination: &Path) -> Result<()> {
    let step = Step::begin(format!("unpacking {} packages", packages.len()));
    let downloads = folder.downloads();
    thread::scope(|scope| {
        let unpack = |package: &PackageFile| {
            run(Command::new(&tools.dpkg).arg("-x").arg(downloads.join(&package.file)).arg(destination))
        };
        let running: Vec<_> = packages.iter().map(|package| scope.spawn(move || unpack(package))).collect();
        running.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("unpacking failed"))))
    })?;
    let list: Vec<String> = packages.iter().map(|package| format!("{}  {}\n", package.sha256, package.file)).collect();
    fs::write(destination.join("packages.sha256"), list.concat())?;
    step.done();
    Ok(())
}

fn remove_unused_source(unpacked: &Path) -> Result<()> {
    for source in fs::read_dir(unpacked.join("usr/src")).into_iter().flatten().flatten() {
        UNUSED_SOURCE.iter().try_for_each(|part| files::remove(&source.path().join(part)))?;
    }
    Ok(())
}

/// Downloads of something that is installed now have served; that one stays behind does no harm.
fn discard(folder: &ToolchainFolder, packages: &[PackageFile]) {
    for package in packages {
        let _ = files::remove(&folder.downloads().join(&package.file));
    }
}

/// The dependencies in what `apt-cache depends` prints that are not in `present`; of alternatives the first.
fn missing_dependencies(listing: &str, present: &BTreeSet<String>) -> Vec<String> {
    let mut missing = Vec::new();
    let mut alternatives: Vec<&str> = Vec::new();
    for line in listing.lines() {
        let Some((kind, name)) = line.trim_start().split_once(": ") else { continue };
        if !matches!(kind, "Depends" | "|Depends" | "PreDepends" | "|PreDepends") {
            continue;
        }
        alternatives.push(name.trim().split(':').next().unwrap_or_default());
        if kind.starts_with('|') {
            continue;
        }
        let is_present = |name: &&str| present.contains(name.trim_matches(['<', '>']));
        // A name in angle brackets is virtual: something else provides it, and there is nothing to download.
        if !alternatives.iter().any(is_present) {
            missing.extend(alternatives.iter().find(|name| !name.starts_with('<')).map(|&name| name.to_owned()));
        }
        alternatives.clear();
    }
    missing
}

/// Reads a line of `apt-get download --print-uris`: `'uri' file size SHA256:digest`.
fn parse_uri(line: &str) -> Option<PackageFile> {
    let mut words = line.strip_prefix('\'')?.split_once('\'')?.1.split_whitespace();
    let file = words.next()?.to_owned();
    let size = words.next()?.parse().ok()?;
    let sha256 = words.next()?.strip_prefix("SHA256:")?.to_owned();
    Some(PackageFile { file, size, sha256 })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{PackageFile, missing_dependencies, parse_uri};

    #[test]
    fn dependencies_that_are_installed_or_virtual_are_not_fetched() {
        let listing = "rustc-web\n  Depends: libc6\n  Depends: libstd-rust-web-dev\n  Depends: <libc-dev>\n    libc6-dev\n\
                       \x20 Conflicts: rustc\n  Recommends: cargo-web\npython3-pip\n  PreDepends: python3:any\n";
        let present = BTreeSet::from(["libc6".to_owned(), "python3".to_owned()]);
        assert_eq!(missing_dependencies(listing, &present), ["libstd-rust-web-dev"]);
    }

    #[test]
    fn one_of_several_alternatives_is_enough() {
        let listing = "tool\n |Depends: first\n  Depends: second\n |Depends: third\n  Depends: fourth\n";
        let present = BTreeSet::from(["second".to_owned()]);
        assert_eq!(missing_dependencies(listing, &present), ["third"]);
    }

    #[test]
    fn a_package_file_is_read_from_the_uri_that_apt_prints() {
        let line = "'http://mirror/pool/l/libllvm22_22.1.8-1%7edeb12u1_amd64.deb' libllvm22_1%3a22.1.8_amd64.deb 29378692 SHA256:729ec3";
        let expected =
            PackageFile { file: "libllvm22_1%3a22.1.8_amd64.deb".into(), size: 29378692, sha256: "729ec3".into() };
        assert_eq!(expected.pinned(), "libllvm22=1:22.1.8");
        let foreign = PackageFile { file: "libc6_2.36-9_arm64.deb".into(), ..expected.clone() };
        assert_eq!(foreign.pinned(), "libc6:arm64=2.36-9");
        assert_eq!(parse_uri(line), Some(expected));
        assert_eq!(parse_uri("W: some warning"), None);
        assert_eq!(parse_uri("'uri' file 12 MD5Sum:00"), None, "a file that cannot be verified is not taken");
    }
}
