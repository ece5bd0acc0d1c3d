//! The result of a run as a table.

use crate::check::{Comparison, Report};
use crate::device::DeviceKind;
use crate::gradients::GRADIENTS;
use crate::statistics::Summary;
use crate::timing::L2;
use comfy_table::Cell;
use contract::problem::{Alignment, Shape};

use super::record::{Check, Record, Source, View};
use crate::commands::output;

/// The table of `record`, followed by every finding in full.
pub fn render(record: &Record, findings: &ptx_diagnostics::Renderer) -> String {
    let mut table = output::table();
    let mut row = |name: &str, text: String| {
        table.add_row([Cell::new(name), Cell::new(text)]);
    };
    let device = &record.device;
    row("device", format!("{}, sm_{}: {}", device.name, device.architecture, record.device_reason));
    row("variant", format!("{} ({})", record.variant, record.variant_brief));
    row("problem", problem(record));
    if !record.problem.views.is_empty() {
        row("views", views(&record.problem.views));
    }
    match &record.check {
        Some(Check::Gradients(report)) => {
            for (tensor, one) in GRADIENTS.iter().zip(&report.comparisons) {
                row(tensor.name(), comparison(one, "from rounding analysis"));
            }
        }
        Some(Check::Forward(report)) => {
            row("O", format!("{}; {}", comparison(&report.output, &output_bound(report)), frobenius(report)));
            if let Some(lse) = &report.lse {
                row("LSE", comparison(lse, &lse_bound(report)));
            }
        }
        None => row("check", "not compared with the reference (--no-check)".into()),
    }
    row("memory", memory(record));
    if device.kind == DeviceKind::Simulator {
        row("simulator", simulator(record));
    }
    row("time", time(record));
    let verdict = match (record.passed, &record.check) {
        (true, Some(_)) => "PASS",
        (true, None) => "not checked",
        (false, _) => "FAIL",
    };
    table.add_row([Cell::new("result"), output::verdict_cell(verdict, record.passed)]);
    let findings: String = record.findings.iter().map(|finding| format!("\n{}\n", findings.render(finding))).collect();
    format!("{}\n{findings}", output::fitted(table))
}

fn problem(record: &Record) -> String {
    let problem = &record.problem;
    let source = match &record.source {
        Source::Generated { distribution, seed } => format!("{} inputs, seed {seed}", distribution.name()),
        Source::Files { q, k, v } => format!("Q {}, K {}, V {}", q.display(), k.display(), v.display()),
    };
    let Shape { batch, heads, kv_heads, sequence, kv_sequence, .. } = problem.shape;
    let of_keys = |queries: u32, keys: u32| if queries == keys { String::new() } else { format!("/{keys}") };
    let heads = format!("{heads}{}", of_keys(heads, kv_heads));
    let rows = format!("{sequence}{}", of_keys(sequence, kv_sequence));
    let used = problem.seqused_q.as_ref().or(problem.seqused_k.as_ref());
    let sizes = match (&problem.cu_seqlens, used) {
        (None, None) => format!("B={batch} H={heads} S={rows}"),
        (None, Some(used)) => format!("{} padded sequences of {rows} rows, H={heads}", used.len()),
        (Some(begins), _) => {
            let longest = begins.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
            format!("{} packed sequences of {rows} rows, the longest {longest}, H={heads}", begins.len() - 1)
        }
    };
    format!(
        "{sizes} D={} {}, {} mask{}, scale {}{}, {}, {source}",
        problem.shape.head_dim,
        problem.element.name(),
        problem.mask.name(),
        if problem.alignment == Alignment::default() {
            String::new()
        } else {
            format!(" {}", problem.alignment.name())
        },
        number(problem.scale),
        if problem.score_mod.is_none() { String::new() } else { format!(", {}", problem.score_mod) },
        problem.layout.name()
    )
}

/// A number with few digits.
fn number(number: f64) -> String {
    if number != 0.0 && !(1e-4..1e7).contains(&number.abs()) { format!("{number:e}") } else { number.to_string() }
}

fn views(views: &[View]) -> String {
    let view = |view: &View| {
        let View { tensor, offset, batch_stride, head_stride, row_stride } = view;
        format!("{tensor} from element {offset}, strides {batch_stride},{head_stride},{row_stride}")
    };
    views.iter().map(view).collect::<Vec<_>>().join("; ")
}

fn output_bound(report: &Report) -> String {
    match &report.unit_scale_bounds {
        Some(bounds) => format!("{:e} + {:e}·|O|", bounds.output_absolute, bounds.output_relative),
        None => "from rounding analysis".into(),
    }
}

fn lse_bound(report: &Report) -> String {
    match &report.unit_scale_bounds {
        Some(bounds) => format!("{:e}", bounds.lse_absolute),
        None => "from rounding analysis".into(),
    }
}

fn frobenius(report: &Report) -> String {
    let error = format!("‖ΔO‖/‖O‖ {:.1e}", report.output_frobenius);
    match &report.unit_scale_bounds {
        Some(bounds) => format!("{error} (bound {:e})", bounds.output_frobenius),
        None => error,
    }
}

fn comparison(comparison: &Comparison, bound: &str) -> String {
    let mut text = format!("max |Δ| {:.1e} (bound {bound})", comparison.largest_error);
    if comparison.wrong > 0 {
        text += &format!("; {} of {} elements are wrong", comparison.wrong, comparison.elements);
    }
    if comparison.unwritten > 0 {
        text += &format!("; {} were never written", comparison.unwritten);
    }
    if let (true, Some(worst)) = (comparison.wrong > 0, comparison.worst) {
        text += &format!(
            "; worst at {:?}: {} instead of {} ± {:.1e}",
            worst.index, worst.actual, worst.expected, worst.tolerance
        );
    }
    text
}

fn memory(record: &Record) -> String {
    let mut problems = Vec::new();
    if !record.changed_inputs.is_empty() {
        problems.push(format!("changed inputs: {}", record.changed_inputs.join(", ")));
    }
    for damage in &record.damaged_guards {
        problems.push(format!("{} bytes written from {} bytes behind {}", damage.bytes, damage.first, damage.buffer));
    }
    if let Some(gaps) = record.check.as_ref().map(Check::overwritten_gaps).filter(|&gaps| gaps > 0) {
        problems.push(format!("{gaps} elements before or between the rows of the outputs overwritten"));
    }
    match (problems.is_empty(), &record.check) {
        (true, Some(report)) if report.everything_written() => {
            "every output element written, inputs unchanged, nothing else overwritten".into()
        }
        (true, _) => "inputs unchanged, guards intact".into(),
        (false, _) => problems.join("; "),
    }
}

fn simulator(record: &Record) -> String {
    let findings = match record.findings.len() {
        0 => "no findings".to_owned(),
        1 => "1 finding (below)".to_owned(),
        count => format!("{count} findings (below)"),
    };
    let Some(counters) = &record.counters else { return findings };
    format!(
        "{findings}; {} blocks, {} instructions, {} mma, {} bank conflicts in {} shared-memory wavefronts",
        counters.blocks,
        counters.instructions,
        counters.mma,
        counters.shared_bank_conflicts,
        counters.shared_wavefronts
    )
}

fn time(record: &Record) -> String {
    match &record.timing {
        Some(timing) => {
            let Summary { median, median_interval, p95, count, .. } = timing.summary_us;
            format!(
                "median {median:.2} µs (95 %: {:.2} to {:.2}; p95 {p95:.2}; {count} samples of {} calls, {} L2), {:.1} \
                 TFLOP/s",
                median_interval.low,
                median_interval.high,
                timing.batch.calls,
                if timing.protocol.l2 == L2::Warm { "warm" } else { "cold" },
                timing.teraflops
            )
        }
        None if record.device.is_simulated() => {
            format!("simulated in {:.1} s", record.execution_seconds)
        }
        None => "not timed".into(),
    }
}
