//! The six numbers, each with its good range.

use crate::ncu::{Profile, Stall};
use comfy_table::Cell;

use super::Files;
use crate::commands::output;

/// Stall reasons shown.
const STALLS_SHOWN: usize = 3;

/// One row per number, and the paths of the files.
pub fn render(profile: &Profile, files: Option<&Files>) -> String {
    let mut table = output::table();
    table.set_header(["", "measured", "good is"]);
    for [name, measured, good] in
        [tensor(profile), dram(profile), l2(profile), bank_conflicts(profile), occupancy(profile)]
    {
        table.add_row([Cell::new(name), Cell::new(measured), Cell::new(good)]);
    }
    for (row, stall) in profile.top_stalls().take(STALLS_SHOWN).enumerate() {
        let name = if row == 0 { "stalls" } else { "" };
        let good = if row == 0 { "the busiest pipe (math_pipe_throttle) or a fixed wait on top" } else { "" };
        table.add_row([name, &describe(stall), good]);
    }
    let mut text = format!("{}\n{}\n", output::wrapped(&heading(profile)), output::fitted(table));
    if let Some(accesses) = profile.local_accesses.filter(|&accesses| accesses > 0.0) {
        text += &format!(" spills: {accesses:.0} accesses to local memory; good is none\n");
    }
    if let Some(files) = files {
        let [report, csv, json] = [&files.report, &files.csv, &files.json].map(|path| path.display());
        text += &format!(" written: {report} (ncu-ui), {csv}, {json} (fa512 diagnose)\n");
    }
    text
}

fn heading(profile: &Profile) -> String {
    let case = profile.case.map_or(String::new(), |case| format!(", {case}"));
    let device = profile.device.as_deref().unwrap_or("a GPU");
    let duration = profile.duration_us.map_or("unknown time".to_owned(), |time| format!("{time:.2} µs"));
    let registers = profile.registers.map_or(String::new(), |count| format!(", {count:.0} registers"));
    format!(
        "{}{case} on {device} (compute capability {}): {duration} under ncu; grid {}, block {}{registers}",
        profile.kernel, profile.compute_capability, profile.grid, profile.block
    )
}

fn percent(fraction: Option<f64>) -> String {
    fraction.map_or("not measured".to_owned(), |fraction| format!("{:.1} %", fraction * 100.0))
}

fn tensor(profile: &Profile) -> [String; 3] {
    let measured = format!(
        "{} of cycles; exponentials {}, issue slots {}",
        percent(profile.tensor),
        percent(profile.exponentials),
        percent(profile.issue)
    );
    ["tensor cores".into(), measured, "over 70 %, where the exponentials leave that".into()]
}

fn dram(profile: &Profile) -> [String; 3] {
    let rate = profile.dram.terabytes_per_second.map_or(String::new(), |rate| format!(", {rate:.2} TB/s"));
    let good = "low while the tensor cores are busy; over 70 % means memory is the limit".into();
    ["DRAM".into(), percent(profile.dram.utilisation) + &rate, good]
}

fn l2(profile: &Profile) -> [String; 3] {
    let measured = format!("{}, hit rate {}", percent(profile.l2.utilisation), percent(profile.l2.hit_rate));
    ["L2".into(), measured, "under 70 %; a high hit rate: K and V are read by every query tile of a head".into()]
}

fn bank_conflicts(profile: &Profile) -> [String; 3] {
    let conflicts = profile.bank_conflicts;
    let measured = match (conflicts.conflicts, conflicts.wavefronts) {
        (Some(count), Some(all)) => format!("{count:.0} of {all:.0} wavefronts ({})", percent(conflicts.share())),
        _ => "not measured".into(),
    };
    ["bank conflicts".into(), measured, "under 1 %: what warps that collide by chance leave".into()]
}

fn occupancy(profile: &Profile) -> [String; 3] {
    let occupancy = &profile.occupancy;
    let limit = occupancy.limits.first().map_or(String::new(), |tightest| {
        let names = occupancy.limits.iter().filter(|limit| limit.blocks == tightest.blocks);
        let names: Vec<_> = names.map(|limit| limit.resource.as_str()).collect();
        format!("; {} blocks fit, by {}", tightest.blocks, names.join(" and "))
    });
    let waves = occupancy.waves.map_or(String::new(), |waves| format!(", {waves} waves"));
    let measured = format!("{} of {}{limit}{waves}", percent(occupancy.achieved), percent(occupancy.theoretical));
    ["occupancy".into(), measured, "near what the launch allows; two or more blocks out of step".into()]
}

fn describe(stall: &Stall) -> String {
    format!("{:.1} % {}: {}", stall.share * 100.0, stall.reason, stall.meaning())
}
