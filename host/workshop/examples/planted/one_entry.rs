//! One kernel out of a PTX file: the driver compiles, and compute-sanitizer instruments, everything that they are given.

/// The PTX without all entries but one, which gets its launch bounds, as ptxas has no use for `setmaxnreg` where it may choose
/// the registers freely, and the size of its clusters if there are more than 1 block in one.
pub fn extract(ptx: &str, entry: &str, threads: u32, cluster: u32) -> String {
    let mut text = String::new();
    let mut within = None;
    for line in ptx.lines() {
        if let Some(header) = line.strip_prefix(".visible .entry ") {
            within = Some(header.split('(').next() == Some(entry));
        }
        if within != Some(false) {
            if within.is_some() && line == "{" {
                text.push_str(&format!(".reqntid {threads}, 1, 1\n.minnctapersm 1\n"));
                if cluster > 1 {
                    text.push_str(&format!(".reqnctapercluster {cluster}, 1, 1\n"));
                }
            }
            text.push_str(line);
            text.push('\n');
        }
        if line == "}" {
            within = None;
        }
    }
    text
}
