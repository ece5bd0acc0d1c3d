//! Extracts one kernel from a PTX file, since the driver compiles and compute-sanitizer instruments everything they are
//! given.

/// The PTX with a single entry. Adds launch bounds, without which ptxas does not support `setmaxnreg`, and the cluster
/// size if clusters have more than one block.
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
