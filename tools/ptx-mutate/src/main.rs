//! Command line of the mutation tests; `cargo xtask mutate` builds and runs it.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use ptx_diagnostics::files::write_atomically;
use ptx_diagnostics::streams::{note, print};
use ptx_mutate::campaign::{Campaign, Selection};
use ptx_mutate::report::{HeldOut, Origin, Report};
use ptx_mutate::review::Review;
use workshop::ptx_folder::PtxFolder;

/// Breaks the kernels' PTX by small changes and counts how many the checks detect.
///
/// Exit code: 0 every survivor is known to be equivalent, 1 some are not, 2 could not run.
#[derive(Parser, Debug)]
#[command(name = "ptx-mutate")]
struct Arguments {
    /// Folder of the PTX and its manifest; default: $FA512_PTX_DIR
    #[arg(long)]
    ptx: Option<PathBuf>,
    /// The most mutants per rule and entry
    #[arg(long, default_value = "8")]
    per_rule: NonZeroUsize,
    /// Run this many mutants, drawn at random from all
    #[arg(long, conflicts_with = "per_rule")]
    sample: Option<NonZeroUsize>,
    /// Seed of the draw
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write mutation.md and mutation.json to this folder
    #[arg(long)]
    out: Option<PathBuf>,
    /// The mutation.json of another sample, of which no survivor led to inputs or reasons before it was run: the report names its
    /// share; may be given several times
    #[arg(long)]
    held_out: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            note(&format!("ptx-mutate: error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

impl Arguments {
    /// Whether every survivor is explained.
    fn run(&self) -> Result<bool> {
        let folder = PtxFolder::find(self.ptx.as_deref())?;
        if let Some(out) = &self.out {
            // Before the run: it takes minutes, and its result must not be lost for lack of a folder.
            std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
        }
        let held_out = self.held_out.iter().map(|path| HeldOut::read(path)).collect::<Result<_>>()?;
        let review = Review::load()?;
        let selection = match self.sample {
            Some(count) => Selection::Sample(count.get()),
            None => Selection::PerRule(self.per_rule.get()),
        };
        let campaign = Campaign::prepare(&folder, selection, self.seed)?;
        let style = ProgressStyle::with_template("{bar:40} {pos} of {len} mutants ({eta} left)")?;
        let bar = ProgressBar::new(campaign.selected() as u64).with_style(style);
        let outcomes = campaign.run(|| bar.inc(1))?;
        bar.finish_and_clear();
        let origin =
            Origin { command: self.command(), manifest: folder.manifest().clone(), possible: campaign.total() };
        let report = Report { held_out, ..Report::new(origin, &outcomes, &review) };
        let markdown = report.markdown();
        if let Some(out) = &self.out {
            let write = |name: &str, text: &str| {
                let path = out.join(name);
                write_atomically(&path, ".ptx-mutate-", |file| file.write_all(text.as_bytes()))
                    .with_context(|| path.display().to_string())
            };
            write("mutation.md", &markdown)?;
            write("mutation.json", &(serde_json::to_string_pretty(&report)? + "\n"))?;
        }
        print(&markdown)?;
        Ok(report.unexplained().next().is_none())
    }

    /// The command that repeats this run.
    fn command(&self) -> String {
        let selection =
            self.sample.map_or(format!("--per-rule {}", self.per_rule), |count| format!("--sample {count}"));
        format!("cargo xtask mutate -- {selection} --seed {}", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Arguments;

    #[test]
    fn no_mutants_are_no_campaign() {
        for option in ["--sample=0", "--per-rule=0"] {
            assert!(Arguments::try_parse_from(["ptx-mutate", option]).is_err(), "{option}");
        }
        assert_eq!(Arguments::try_parse_from(["ptx-mutate"]).unwrap().per_rule.get(), 8);
    }
}
