//! `fa512 profile`: runs one launch of a kernel under Nsight Compute and shows the six most important numbers.

mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use crate::executor::{DeviceChoice, open, sim};
use crate::files;
use crate::ncu::{self, CacheControl, ClockControl, Invocation, Profile, RawPage};
use crate::record::{Case, sizes};
use crate::variant;
use contract::config::{Element, Mask};
use contract::problem::Shape;
use contract::view::Layout;

use super::bench::shape;
use super::gpu_option::GpuOption;
use super::ptx_options::PtxOptions;
use super::{Verdict, element_parser, find_program, layout_parser, mask_parser, output};

/// Options that describe the launch; they make no sense for a stored profile.
const LAUNCH_OPTIONS: [&str; 11] =
    ["gpu", "variant", "shape", "mask", "element", "layout", "ptx", "codegen", "out", "clock_control", "cache_control"];

/// Profile one launch with Nsight Compute and show six numbers.
#[derive(clap::Args)]
#[command(after_help = "Writes NAME.ncu-rep (for ncu-ui), NAME.csv (ncu's raw page) and NAME.json (for fa512 \
                        diagnose).\n\nExit codes: 0 profiled, 2 could not profile.")]
pub struct Options {
    /// Profile this entry instead of the preferred one
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Shape as BxHxS, or BxHxSxD where D is not 64
    #[arg(long, value_name = "BxHxS", value_parser = shape, default_value = "32x8x512")]
    shape: Shape,
    /// Which keys a query attends to
    #[arg(long, default_value = "full", value_parser = mask_parser())]
    mask: Mask,
    /// Element type of Q, K, V and O
    #[arg(long = "type", value_name = "TYPE", value_parser = element_parser(), default_value = Element::F16.name())]
    element: Element,
    /// Order of dimensions of all tensors
    #[arg(long, value_parser = layout_parser(), default_value = Layout::Bhsd.name())]
    layout: Layout,
    #[command(flatten)]
    gpu: GpuOption,
    #[command(flatten)]
    ptx: PtxOptions,

    /// Whether ncu locks the clocks
    #[arg(long, value_enum, default_value_t = ClockControl::Base, help_heading = "Nsight Compute")]
    clock_control: ClockControl,
    /// Whether ncu empties the caches before each pass
    #[arg(long, value_enum, default_value_t = CacheControl::All, help_heading = "Nsight Compute")]
    cache_control: CacheControl,
    /// Path of the files without extension [default: the entry and the shape, in the current folder]
    #[arg(long, value_name = "NAME", help_heading = "Nsight Compute")]
    out: Option<PathBuf>,

    /// Show the numbers of a stored raw page (ncu --page raw --csv) instead of profiling; needs neither ncu nor a GPU
    #[arg(long, value_name = "FILE", conflicts_with_all = LAUNCH_OPTIONS, help_heading = "Nsight Compute")]
    csv: Option<PathBuf>,

    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let (profile, files) = match &options.csv {
        Some(path) => (stored(path)?, None),
        None => {
            let session = Session::prepare(options)?;
            (session.profile()?, Some(session.files))
        }
    };
    match options.json {
        true => output::print_json(ncu::FORMAT, &profile)?,
        false => output::print(&table::render(&profile, files.as_ref()))?,
    }
    Ok(Verdict::Pass)
}

fn stored(path: &Path) -> Result<Profile> {
    let text = files::read_text(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    let in_file = |error: Error| Error::Invalid(format!("{}: {error}", path.display()));
    RawPage::parse(&text).and_then(|page| Profile::new(&page)).map_err(in_file)
}

/// The files of a profile.
pub struct Files {
    /// ncu's own report.
    pub report: PathBuf,
    /// Its raw page.
    pub csv: PathBuf,
    /// The [`Profile`].
    pub json: PathBuf,
}

impl Files {
    fn named(name: &Path) -> Result<Self> {
        // Not with_extension, which would cut off part of a name like `v1.2`.
        let with = |extension: &str| {
            let mut path = name.as_os_str().to_owned();
            path.push(extension);
            PathBuf::from(path)
        };
        let files = Self { report: with(".ncu-rep"), csv: with(".csv"), json: with(".json") };
        [&files.report, &files.csv, &files.json].into_iter().try_for_each(|path| files::check_target(path))?;
        Ok(files)
    }
}

/// An ncu session: the tool, the program it runs, and the launch it profiles.
struct Session {
    ncu: PathBuf,
    program: PathBuf,
    ptx_folder: PathBuf,
    kernel: String,
    case: Case,
    clock_control: ClockControl,
    cache_control: CacheControl,
    files: Files,
}

impl Session {
    /// Finds ncu, the GPU and the entry, and reports what is missing before anything runs.
    fn prepare(options: &Options) -> Result<Self> {
        options.gpu.apply()?;
        let ncu = find_program("ncu").ok_or_else(|| {
            Error::Unavailable(
                "no ncu in PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda*; it comes with the CUDA toolkit (Nsight Compute). \
                 --csv FILE shows a stored profile without it"
                    .into(),
            )
        })?;
        let shape = options.shape;
        let Options { mask, element, layout, .. } = *options;
        let case = Case::plain(shape, element, mask, layout);
        let folder = options.ptx.find()?;
        // Opened only to identify the GPU; the launch happens in a separate process.
        let device = open(DeviceChoice::Gpu, sim::DEFAULT_ARCHITECTURE)?.executor.device().clone();
        let kernel =
            variant::choose(&folder, &case.problem()?, &device, options.variant.as_deref())?.entry.name.clone();
        let default_name = || PathBuf::from(format!("{kernel}-{}", sizes(shape)));
        let files = Files::named(&options.out.clone().unwrap_or_else(default_name))?;
        let program = std::env::current_exe().map_err(|source| Error::File { path: "this program".into(), source })?;
        Ok(Self {
            ncu,
            program,
            ptx_folder: folder.path().to_owned(),
            case,
            kernel,
            clock_control: options.clock_control,
            cache_control: options.cache_control,
            files,
        })
    }

    /// Profiles the launch and writes the files.
    fn profile(&self) -> Result<Profile> {
        let mut command = self.profiling();
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let (profiled, printed) = output_of(&mut command)?;
        if !profiled || !self.files.report.is_file() || printed.contains("No kernels were profiled") {
            return Err(Error::Unavailable(ncu::failure(&printed, &self.kernel)));
        }
        let mut import = Command::new(&self.ncu);
        let (imported, page) = output_of(import.args(ncu::import_arguments(&self.files.report)))?;
        if !imported {
            return Err(Error::Unavailable(ncu::failure(&page, &self.kernel)));
        }
        files::replace(&self.files.csv, |file| file.write_all(page.as_bytes()))?;
        let profile = Profile { case: Some(self.case), ncu: words, ..Profile::new(&RawPage::parse(&page)?)? };
        ncu::FORMAT.save(&self.files.json, &profile)?;
        Ok(profile)
    }

    /// The command: ncu on `fa512 run`, which launches once.
    fn profiling(&self) -> Command {
        let invocation = Invocation {
            kernel: &self.kernel,
            report: &self.files.report,
            clock_control: self.clock_control,
            cache_control: self.cache_control,
        };
        let Shape { batch, heads, kv_heads, sequence, kv_sequence, head_dim } = self.case.shape;
        let mut command = Command::new(&self.ncu);
        command.args(invocation.arguments()).arg(&self.program);
        command.args(["run", "--device", "gpu", "--no-check", "--samples", "0", "--json", "--variant", &self.kernel]);
        command.arg("--ptx").arg(&self.ptx_folder);
        command.args(["--mask", self.case.mask.name(), "--layout", self.case.layout.name()]);
        command.args(["--type", self.case.element.name()]);
        let of_queries = [("--batch", batch), ("--heads", heads), ("--seq", sequence), ("--head-dim", head_dim)];
        let of_keys = [("--kv-heads", kv_heads), ("--kv-seq", kv_sequence)];
        for (option, size) in of_queries.into_iter().chain(of_keys) {
            command.arg(option).arg(size.to_string());
        }
        command
    }
}

/// Whether `command` succeeded, and its output, messages last.
fn output_of(command: &mut Command) -> Result<(bool, String)> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| Error::File { path: command.get_program().into(), source })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let messages = if output.status.success() { String::new() } else { text(&output.stderr) };
    Ok((output.status.success(), text(&output.stdout) + &messages))
}
