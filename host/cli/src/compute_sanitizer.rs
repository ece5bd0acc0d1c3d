//! Parses the output of NVIDIA's compute-sanitizer into findings (Compute Sanitizer User Manual: "Memcheck Tool",
//! "Racecheck Tool", "Initcheck Tool", "Synccheck Tool").
//!
//! The tool does not know PTX: its findings have the entry's name in place of a PTX file, line 0, and no instruction.

use ptx_sim::{Finding, FindingClass, LaneAddress, Location, SourceLocation};

use crate::error::{Error, Result};

/// The tools, by their command-line names.
pub const TOOLS: [&str; 4] = ["memcheck", "racecheck", "initcheck", "synccheck"];

/// Prefix of lines printed by the tool, as opposed to the program.
const PREFIX: &str = "=========";

/// Options of `tool` for a kernel whose blocks have `mbarriers` mbarriers.
pub fn options(tool: &str, mbarriers: u32) -> Vec<String> {
    let mut options = ["--tool", tool, "--print-limit", "1000"].map(str::to_owned).to_vec();
    // It learns the number of mbarriers from what nvcc adds to a program. Without it, accesses that they order look
    // like races.
    if tool == "racecheck" && mbarriers > 0 {
        options.push(format!("--num-cuda-barriers={mbarriers}"));
    }
    options
}

/// The findings in the output of one tool for kernel `entry`. Errors that differ only in thread and address are merged.
///
/// # Errors
/// [`Error::Unavailable`] when there is no summary, or it counts errors but none was recognised: output that cannot
/// be parsed is never taken for a clean run.
pub fn findings(output: &str, entry: &str) -> Result<Vec<Finding>> {
    let mut reports: Vec<Finding> = Vec::new();
    let mut summary = None;
    let mut open = false;
    for line in output.lines().filter_map(|line| line.strip_prefix(PREFIX)).map(str::trim) {
        if let Some(errors) = summarised_errors(line) {
            summary = Some(errors);
        } else if let Some(class) = class_of(line) {
            reports.push(finding(class, line, entry));
            open = true;
        } else if line.is_empty() || line.starts_with("Saved host backtrace") || line.starts_with("Host Frame") {
            open = false;
        } else if let (true, Some(report)) = (open, reports.last_mut()) {
            add_detail(report, line);
        }
    }
    match summary {
        Some(0) => Ok(Vec::new()),
        Some(_) if !reports.is_empty() => Ok(merged(reports)),
        Some(errors) => Err(unreadable(&format!("counts {errors} errors, none of a known kind"), output)),
        None => Err(unreadable("did not come to its summary", output)),
    }
}

/// The number of errors in a tool's last line.
fn summarised_errors(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("ERROR SUMMARY:").or_else(|| line.strip_prefix("RACECHECK SUMMARY:"))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The class of the error that begins in this line, if one does.
fn class_of(line: &str) -> Option<FindingClass> {
    let line = line.to_ascii_lowercase();
    let begins = |text: &str| line.starts_with(text);
    if begins("invalid __") {
        // For misaligned accesses a later line says so.
        Some(FindingClass::OutOfBounds)
    } else if begins("uninitialized ") {
        Some(FindingClass::Uninitialised)
    } else if begins("barrier error detected") {
        Some(FindingClass::BarrierDivergence)
    } else if begins("error: race reported") || begins("warning: race reported") {
        Some(FindingClass::Race)
    } else {
        None
    }
}

fn finding(class: FindingClass, line: &str, entry: &str) -> Finding {
    let source = if class == FindingClass::Race { source(line) } else { None };
    Finding {
        class,
        message: line.to_owned(),
        ptx_file: entry.to_owned(),
        at: Location { source, ..Location::default() },
        address: None,
        lanes: Vec::new(),
        other: None,
        occurrences: 1,
    }
}

/// Adds the information in a further line of an error.
fn add_detail(finding: &mut Finding, line: &str) {
    if let Some(place) = line.strip_prefix("at ") {
        finding.at.source = source(place);
    } else if let Some(threads) = line.strip_prefix("by thread ") {
        add_thread(finding, threads);
    } else if let Some(place) = line.strip_prefix("Device Frame:") {
        finding.at.inlined_at.extend(source(place));
    } else if let Some(address) = line.strip_prefix("Access to ").or_else(|| line.strip_prefix("Address ")) {
        let (number, state) = address.split_once(' ').unwrap_or((address, ""));
        if state.contains("misaligned") {
            finding.class = FindingClass::Misaligned;
        }
        finding.address = number.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    } else {
        finding.message += &format!("; {line}");
    }
}

/// Parses `(9,0,0) in block (0,0,0)`; our kernels' blocks extend in x only.
fn add_thread(finding: &mut Finding, text: &str) {
    let mut triples = text.split('(').skip(1).filter_map(|triple| {
        let mut numbers = triple.split(')').next()?.split(',').map(|number| number.trim().parse().ok());
        Some([numbers.next()??, numbers.next()??, numbers.next()??])
    });
    if let (Some([x, _, _]), Some(block)) = (triples.next(), triples.next()) {
        (finding.at.warp, finding.at.lane, finding.at.block) = (x / 32, Some(x % 32), block);
    }
}

/// The last `FILE:LINE` that follows ` in `.
fn source(text: &str) -> Option<SourceLocation> {
    text.rsplit(" in ").find_map(|place| {
        let (file, rest) = place.split_once(':')?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some(SourceLocation { file: file.to_owned(), line: digits.parse().ok()?, column: 0 })
    })
}

/// One finding per class, message and place, with the lanes of the first warp.
fn merged(reports: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    for mut report in reports {
        report.lanes = report.at.lane.map(|lane| LaneAddress { lane, address: report.address }).into_iter().collect();
        let key = |finding: &Finding| {
            // The distance of an address from the nearest allocation differs between threads.
            let message = finding.message.split("; and is ").next().map(str::to_owned);
            (finding.class, message, finding.at.source.clone(), finding.at.inlined_at.clone())
        };
        match merged.iter_mut().find(|known| key(known) == key(&report)) {
            Some(known) => {
                known.occurrences += 1;
                if (known.at.block, known.at.warp) == (report.at.block, report.at.warp) {
                    known.lanes.extend(report.lanes);
                }
            }
            None => merged.push(report),
        }
    }
    merged
}

fn unreadable(what: &str, output: &str) -> Error {
    const LINES: usize = 5;
    let lines: Vec<&str> = output.lines().collect();
    let end = lines[lines.len().saturating_sub(LINES)..].join("\n  ");
    Error::Unavailable(format!("compute-sanitizer {what}; its output ends with\n  {end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Output of compute-sanitizer 2025.3.1 for planted bugs on an H200, without most threads and host frames.

    #[test]
    fn racecheck_is_told_of_the_mbarriers_that_there_are() {
        assert!(options("racecheck", 40).contains(&"--num-cuda-barriers=40".to_owned()));
        for (tool, mbarriers) in [("racecheck", 0), ("memcheck", 40)] {
            assert_eq!(options(tool, mbarriers), ["--tool", tool, "--print-limit", "1000"]);
        }
    }

    #[test]
    fn misaligned_writes_of_one_line_become_one_finding() {
        let output = "\
========= COMPUTE-SANITIZER
========= Invalid __shared__ write of size 8 bytes
=========     at ptx+0xd0 in ptx.rs:96
=========     by thread (33,0,0) in block (2,0,0)
=========     Access to 0x40c is misaligned
=========         Device Frame: mod+0xa0 in mod.rs:32
=========         Device Frame: planted_misaligned_async_copy_of_8_bytes+0x10 in planted.rs:119
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame:  [0x4b640] in planted
========= 
========= Invalid __shared__ write of size 8 bytes
=========     at ptx+0xd0 in ptx.rs:96
=========     by thread (35,0,0) in block (2,0,0)
=========     Access to 0x424 is misaligned
=========         Device Frame: mod+0xa0 in mod.rs:32
=========         Device Frame: planted_misaligned_async_copy_of_8_bytes+0x10 in planted.rs:119
========= 
========= ERROR SUMMARY: 2 errors
";
        let findings = findings(output, "k").unwrap();
        let [finding] = findings.as_slice() else { panic!("{findings:#?}") };
        assert_eq!((finding.class, finding.occurrences), (FindingClass::Misaligned, 2));
        assert_eq!((finding.at.block, finding.at.warp, finding.address), ([2, 0, 0], 1, Some(0x40c)));
        assert_eq!(finding.lanes[1], LaneAddress { lane: 3, address: Some(0x424) });
        let place = |file: &str, line| SourceLocation { file: file.into(), line, column: 0 };
        assert_eq!(finding.at.source, Some(place("ptx.rs", 96)));
        assert_eq!(finding.at.inlined_at, [place("mod.rs", 32), place("planted.rs", 119)]);
    }

    #[test]
    fn accesses_at_different_distances_from_a_buffer_become_one_finding() {
        let error = |thread: u32, distance: &str| {
            format!(
                "========= Invalid __global__ read of size 4 bytes\n=========     at ptx+0x90 in ptx.rs:13\n\
                 =========     by thread ({thread},0,0) in block (0,0,0)\n\
                 =========     Access to 0xe4a00000 is out of bounds\n\
                 =========     and is {distance} bytes before the nearest allocation at 0x7f4ae4800000 of size 65,536 bytes\n\
                 ========= \n"
            )
        };
        let errors = error(0, "139,955,802,210,304") + &error(1, "139,955,802,210,300");
        let findings = findings(&format!("{errors}========= ERROR SUMMARY: 2 errors\n"), "k").unwrap();
        let [finding] = findings.as_slice() else { panic!("{findings:#?}") };
        assert_eq!((finding.class, finding.occurrences, finding.lanes.len()), (FindingClass::OutOfBounds, 2, 2));
        assert!(finding.message.contains("and is 139,955,802,210,304 bytes before"), "{}", finding.message);
    }

    #[test]
    fn every_tool_has_its_class() {
        let cases = [
            (
                "========= Uninitialized __global__ memory read of size 4 bytes\n=========     at ptx+0xb0 in ptx.rs:57\n\
                 =========     by thread (1,0,0) in block (0,0,0)\n=========     Address 0x7f23cca00010\n",
                "ERROR SUMMARY: 1 error",
                FindingClass::Uninitialised,
                Some(57),
            ),
            (
                "========= Barrier error detected. Divergent thread(s) in warp.\n=========     at k+0x70\n",
                "ERROR SUMMARY: 1 error",
                FindingClass::BarrierDivergence,
                None,
            ),
            (
                "========= Error: Race reported between Write access at cp_async+0x130 in cp_async.rs:14\n\
                 =========     and Read access at ptx+0x1e0 in ptx.rs:13 [128 hazards]\n========= \n",
                "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)",
                FindingClass::Race,
                Some(14),
            ),
        ];
        for (text, summary, class, line) in cases {
            let findings = findings(&format!("{text}========= {summary}\n"), "k").unwrap();
            let [finding] = findings.as_slice() else { panic!("{text}: {findings:#?}") };
            assert_eq!((finding.class, finding.at.source.as_ref().map(|source| source.line)), (class, line), "{text}");
        }
    }

    #[test]
    fn only_a_summary_without_errors_is_a_clean_run() {
        let clean = "========= COMPUTE-SANITIZER\n{\"passed\": true}\n========= ERROR SUMMARY: 0 errors\n";
        assert_eq!(findings(clean, "k").unwrap(), []);
        let message = findings("========= COMPUTE-SANITIZER\nkilled\n", "k").unwrap_err().to_string();
        assert!(message.contains("did not come to its summary") && message.contains("killed"), "{message}");
        let strange = "========= Strange new error\n========= ERROR SUMMARY: 3 errors\n";
        let message = findings(strange, "k").unwrap_err().to_string();
        assert!(message.contains("counts 3 errors, none of a known kind"), "{message}");
    }
}
