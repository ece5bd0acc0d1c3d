//! The result of a sweep as a table.

use comfy_table::Cell;

use super::record::{Found, Record, VariantRecord};
use crate::commands::{Verdict, output};

/// One row per variant; below, every finding in full.
pub fn render(record: &Record, renderer: &ptx_diagnostics::Renderer) -> String {
    let mut table = output::table();
    table.set_header(["variant", "cases", "findings", "time"]);
    for variant in &record.variants {
        table.add_row([
            Cell::new(&variant.variant),
            Cell::new(format!("{} of {}", variant.cases, variant.planned_cases)),
            state(variant),
            Cell::new(format!("{:.1} s", variant.seconds)),
        ]);
    }
    let schedules = match record.schedules {
        None | Some(1) => String::new(),
        Some(count) => format!(", {count} schedules"),
    };
    let place = format!("{}: {}{schedules}", record.device.name, record.folder.display());
    let mut text = format!("{place}\n{}\n", output::fitted(table));
    for variant in &record.variants {
        for found in &variant.findings {
            text += &format!("\n{}\n{}\n", heading(record, variant, found), renderer.render(&found.finding));
        }
    }
    text += match record.verdict() {
        Verdict::Pass => "\nnothing found\n",
        Verdict::Fail => "",
        Verdict::CannotRun if record.interrupted => "\ninterrupted: the cases that were not run are unknown\n",
        Verdict::CannotRun => "\nsome cases could not be run\n",
    };
    text
}

fn state(variant: &VariantRecord) -> Cell {
    match (variant.findings.len(), &variant.cannot_run, &variant.unfit) {
        (_, Some(reason), _) => output::verdict_cell(format!("cannot run {reason}"), false),
        (0, None, Some(reason)) => Cell::new(format!("not run: {reason}")),
        (count, None, _) => output::verdict_cell(count, count == 0),
    }
}

fn heading(record: &Record, variant: &VariantRecord, found: &Found) -> String {
    let others = match found.cases {
        1 => "in no other case".to_owned(),
        cases => format!("in {cases} of {} cases", variant.cases),
    };
    let schedules = match record.schedules {
        None | Some(1) => String::new(),
        Some(all) => {
            format!("; under {} of {all} schedules, first {}", found.schedules.len(), found.first_schedule)
        }
    };
    format!("{} on {} ({others}{schedules}):", variant.variant, found.first_case_text)
}
