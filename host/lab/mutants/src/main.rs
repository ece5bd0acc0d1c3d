//! Command line of the mutation tests; `cargo xtask mutate` builds and runs it.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use cli::ptx_folder::PtxFolder;
use indicatif::{ProgressBar, ProgressStyle};
use ptx_diagnostics::files::write_atomically;
use ptx_diagnostics::streams::{note, print};
use ptx_mutate::campaign::{Campaign, Selection};
use ptx_mutate::report::{HeldOut, Origin, Report};
use ptx_mutate::review::Review;

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
    /// With --sample: draw only from instructions of source files whose path contains this
    #[arg(long, value_name = "PATH", requires = "sample")]
    source: Option<String>,
    /// Run all mutants of a line of an entry's PTX, as reports name it: ENTRY:LINE
    #[arg(long, value_name = "ENTRY:LINE", value_parser = entry_and_line, conflicts_with_all = ["per_rule", "sample"])]
    line: Option<(String, usize)>,
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
        let review = Review::load()?;
        let held_out = self.held_out.iter().map(|path| HeldOut::read(path, &review)).collect::<Result<_>>()?;
        let selection = match (self.sample, &self.line) {
            (Some(count), _) => Selection::Sample(count.get(), self.source.clone()),
            (None, Some((entry, line))) => Selection::Line(entry.clone(), *line),
            (None, None) => Selection::PerRule(self.per_rule.get()),
        };
        let campaign = Campaign::prepare(&folder, selection, self.seed)?;
        let style = ProgressStyle::with_template("{bar:40} {percent} % of the checks ({eta} left)")?;
        let bar = ProgressBar::new(0).with_style(style);
        let outcomes = campaign.run(|done, checks| {
            bar.set_length(checks as u64);
            bar.set_position(done as u64);
        })?;
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
        let selection = match (self.sample, &self.line) {
            (Some(count), _) => match &self.source {
                Some(path) => format!("--sample {count} --source {path}"),
                None => format!("--sample {count}"),
            },
            (None, Some((entry, line))) => format!("--line {entry}:{line}"),
            (None, None) => format!("--per-rule {}", self.per_rule),
        };
        format!("cargo xtask mutate -- {selection} --seed {}", self.seed)
    }
}

/// The name of an entry and a line of the PTX.
fn entry_and_line(text: &str) -> Result<(String, usize), String> {
    let parts = text.rsplit_once(':').and_then(|(entry, line)| Some((entry.to_owned(), line.parse().ok()?)));
    parts.ok_or_else(|| {
        "write the entry's name, a colon and the line, as in fa512_sm80_any_full_128x64:35006".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Arguments;

    #[test]
    fn a_line_is_named_with_its_entry() {
        let parsed = Arguments::try_parse_from(["ptx-mutate", "--line", "an_entry:17"]).unwrap();
        assert_eq!(parsed.line, Some(("an_entry".to_owned(), 17)));
        assert_eq!(parsed.command(), "cargo xtask mutate -- --line an_entry:17 --seed 0");
        assert!(Arguments::try_parse_from(["ptx-mutate", "--line", "17"]).is_err());
    }

    #[test]
    fn a_sample_may_be_of_some_sources() {
        let parsed = Arguments::try_parse_from(["ptx-mutate", "--sample", "9", "--source", "packed/"]).unwrap();
        assert_eq!(parsed.command(), "cargo xtask mutate -- --sample 9 --source packed/ --seed 0");
        assert!(Arguments::try_parse_from(["ptx-mutate", "--source", "packed/"]).is_err(), "of all there are too many");
    }

    #[test]
    fn no_mutants_are_no_campaign() {
        for option in ["--sample=0", "--per-rule=0"] {
            assert!(Arguments::try_parse_from(["ptx-mutate", option]).is_err(), "{option}");
        }
        assert_eq!(Arguments::try_parse_from(["ptx-mutate"]).unwrap().per_rule.get(), 8);
    }
}
