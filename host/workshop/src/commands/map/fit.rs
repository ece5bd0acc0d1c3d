//! `fa512 map fit`: fits the constants of predicted times to maps.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::files;
use crate::map::fit::{Fit, FittedKernel, fit, source, without_kind, without_short_tma, without_split_keys};
use crate::map::record::Map;
use comfy_table::CellAlignment;
use contract::cost::{Constants, KernelClass};
use contract::tile::Kind;

use crate::commands::{Verdict, output};

/// Fit the constants of the predicted times, which choose kernels, to maps of all variants (--variants all)
#[derive(clap::Args)]
pub struct Options {
    /// The records, of one GPU model or several
    #[arg(required = true, value_name = "RECORD")]
    records: Vec<PathBuf>,
    /// For kernels that split keys, use only the times of these records, if their clusters have changed since the others [default: all]
    #[arg(long, value_name = "RECORD", num_args = 1..)]
    split_keys: Vec<PathBuf>,
    /// For kernels by mma.sync, use only the times of these records, if the kernels have changed since the others [default: all]
    #[arg(long, value_name = "RECORD", num_args = 1..)]
    mma_sync: Vec<PathBuf>,
    /// The same for kernels by mma.sync of 96 columns alone
    #[arg(long = "mma-sync-96", value_name = "RECORD", num_args = 1..)]
    mma_sync_96: Vec<PathBuf>,
    /// For kernels with TMA, use only the times of these records, if the others have few points of theirs [default: all]
    #[arg(long, value_name = "RECORD", num_args = 1..)]
    tma: Vec<PathBuf>,
    /// The same for kernels with TMA and sequences of up to 64 rows alone
    #[arg(long, value_name = "RECORD", num_args = 1..)]
    tma_short: Vec<PathBuf>,
    /// Write the constants to this file as Rust: kernel-gpu/contract/src/cost/shipped.rs
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let sources: Vec<_> = options.records.iter().map(|path| ("a record", path.as_path())).collect();
    let targets: Vec<_> = options.out.iter().map(|path| ("--out", path.as_path())).collect();
    files::check_targets(&targets, &sources)?;
    let maps = options.records.iter().map(|path| load(path, options)).collect::<Result<Vec<_>>>()?;
    let fits = fit(&maps)?;
    if let Some(path) = &options.out {
        files::replace(path, |file| file.write_all(source(&fits).as_bytes()))?;
    }
    output::print_wrapped(&fits.iter().map(text).collect::<String>())?;
    Ok(Verdict::Pass)
}

/// The map at `path`, without the kernels that are taken from other records.
fn load(path: &Path, options: &Options) -> Result<Map> {
    let mut map = Map::load(path)?;
    let is_left_out = |records: &[PathBuf]| !records.is_empty() && records.iter().all(|of| of != path);
    if is_left_out(&options.split_keys) {
        without_split_keys(&mut map);
    }
    if is_left_out(&options.tma_short) {
        without_short_tma(&mut map);
    }
    for (records, kind, columns) in [
        (&options.mma_sync, Kind::Sm80, None),
        (&options.mma_sync_96, Kind::Sm80, Some(96)),
        (&options.tma, Kind::Sm90Tma, None),
    ] {
        if is_left_out(records) {
            without_kind(&mut map, kind, columns);
        }
    }
    Ok(map)
}

/// A short name of a class of kernels.
fn name(class: &KernelClass, constants: &Constants) -> String {
    let KernelClass { kind, rows, keys, columns, .. } = *class;
    let overlap = class.overlap.words().map_or_else(String::new, |words| format!(", {words}"));
    let blocks = class.blocks.max(constants.resident);
    format!("{} {rows}x{keys}, D {columns}, {blocks} blocks{overlap}, {}", kind.name(), class.mask.name())
}

fn text(fit: &Fit) -> String {
    let mut table = output::table();
    table.set_header(["times", "error", "launch", "block ns", "item", "step", "shared", "µs/MB", "exposed", "kernels"]);
    for FittedKernel { class, constants, times, error } in &fit.kernels {
        let starting = [constants.launch_us, constants.block_us * 1e3];
        let numbers = starting.into_iter().chain([constants.item_us, constants.step_us, constants.shared_step_us]);
        let numbers = numbers.chain([constants.megabyte_us, constants.exposed]);
        let row = [times.to_string(), format!("{:.1} %", error * 100.0)];
        let name = name(class, constants);
        table.add_row(row.into_iter().chain(numbers.map(|number| format!("{number:.3}"))).chain([name]));
    }
    table.column_iter_mut().take(9).for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    let mut text = format!("{}, sm_{}\n{}\n", fit.gpu, fit.architecture, output::fitted(table));
    if let Some(spread) = fit.regret {
        text += &format!(
            "time of the chosen kernel over that of the fastest, at {} points that the constants were not fitted to: mean {:.3}, \
             worst {:.3}\n",
            spread.count, spread.mean, spread.highest
        );
    }
    text
}
