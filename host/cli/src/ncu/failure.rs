//! Explains ncu's error messages.

/// Why ncu made no profile of `kernel`, judging by its output, and what to do.
pub fn failure(output: &str, kernel: &str) -> String {
    if output.contains("ERR_NVGPUCTRPERM") {
        return "this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM): run as root, or have the \
                administrator load the driver with `options nvidia NVreg_RestrictProfilingToAdminUsers=0`; in a container, \
                start it with --cap-add=SYS_ADMIN"
            .into();
    }
    if output.contains("No kernels were profiled") {
        return format!("the program launched no kernel called {kernel}");
    }
    if output.contains("==ERROR== The application returned an error code") {
        let program: Vec<_> = output.lines().filter(|line| line.starts_with("error: ")).collect();
        return format!("the program that ncu ran ended with an error\n  {}", program.join("\n  "));
    }
    let errors: Vec<_> = output.lines().filter(|line| line.starts_with("==ERROR==")).collect();
    match errors.as_slice() {
        [] => "ncu ended without a profile and without saying why".into(),
        errors => {
            let errors = errors.join("\n  ");
            let hint = if errors.to_lowercase().contains("clock") {
                "\n  (--clock-control none leaves the clocks alone)"
            } else {
                ""
            };
            format!("ncu made no profile:\n  {errors}{hint}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Messages of ncu 2025.3.1 on an H200; the first is from NVIDIA's page on ERR_NVGPUCTRPERM.

    #[test]
    fn forbidden_counters_say_how_to_allow_them() {
        let text = "==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to \
                    access NVIDIA GPU Performance Counters on the target device 0.\n";
        assert!(failure(text, "k").contains("NVreg_RestrictProfilingToAdminUsers=0"));
    }

    #[test]
    fn a_kernel_that_was_not_launched_is_named() {
        let text = "==PROF== Disconnected from process 918\n==WARNING== No kernels were profiled.\nAvailable Kernels:\n\
                    1. fa512_sm80_s512_full_128x64\n";
        assert_eq!(failure(text, "fa512_other"), "the program launched no kernel called fa512_other");
    }

    #[test]
    fn an_error_of_the_program_is_shown() {
        let text =
            "==ERROR== The application returned an error code (2).\nerror: sequence is 0; it must be at least 1\n";
        assert!(failure(text, "k").contains("error: sequence is 0"));
    }

    #[test]
    fn other_errors_are_passed_on() {
        assert!(failure("==ERROR== Something new.\n", "k").contains("==ERROR== Something new."));
        assert!(failure("==ERROR== Failed to lock the Clocks.\n", "k").contains("--clock-control none"));
        assert!(failure("", "k").contains("without saying why"));
    }
}
