//! `fa512 map fit`: fits the constants of predicted times to maps.

use std::path::PathBuf;

use crate::map::fit::{FOLDS, Fit, FittedKernel, fit, source};
use crate::map::times::Times;
use cli::error::Result;
use cli::files;
use comfy_table::CellAlignment;
use contract::cost::{Constants, KernelClass};

use cli::commands::progress::Progress;
use cli::commands::{Verdict, output};

/// Fit the constants of the predicted times, which choose kernels, to maps of all variants (--variants all)
#[derive(clap::Args)]
pub struct Options {
    /// Tables of times (docs/results/map) and records, of one GPU model or several
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the constants to this file as Rust: kernel-gpu/contract/src/choose/cost/shipped.rs
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Fit again without each of this many parts of the points, and report how well kernels are chosen there. Most of the time goes
    /// into this; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = FOLDS)]
    folds: usize,
}

/// Carries out the command.
pub fn run(options: &Options) -> Result<Verdict> {
    let sources: Vec<_> = options.files.iter().map(|path| ("a source", path.as_path())).collect();
    let targets: Vec<_> = options.out.iter().map(|path| ("--out", path.as_path())).collect();
    files::check_targets(&targets, &sources)?;
    let all = options.files.iter().map(|path| Times::load(path)).collect::<Result<Vec<_>>>()?;
    let progress = Progress::with_rate("fitting kernels", None);
    let fits = fit(&all, options.folds, &|| progress.advance(1))?;
    drop(progress);
    if let Some(path) = &options.out {
        files::replace(path, |file| file.write_all(source(&fits).as_bytes()))?;
    }
    output::print_wrapped(&fits.iter().map(text).collect::<String>())?;
    Ok(Verdict::Pass)
}

/// A short name of a class of kernels.
fn name(class: &KernelClass, constants: &Constants) -> String {
    let KernelClass { kind, rows, keys, columns, .. } = *class;
    let overlap = class.overlap.words().map_or_else(String::new, |words| format!(", {words}"));
    let blocks = class.blocks.max(constants.placement.resident);
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
