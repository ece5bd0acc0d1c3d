//! The program with the simulated driver instead of a GPU: driver calls, modules and launches through the library.

use std::os::unix::fs::symlink;
use std::process::Command;

use tempfile::TempDir;

use crate::command_line::{edited_ptx, fa512, misaligned_lse};
use crate::program::{output, refusal, text};

/// The program with the simulated driver in the place of libcuda.
struct Machine {
    folder: TempDir,
}

impl Machine {
    /// `None`, with a message, if the simulated driver, which cargo puts beside this program, is missing.
    fn new() -> Option<Self> {
        let library = std::env::current_exe().unwrap().with_file_name("liblibcuda_sim.so");
        if !library.exists() {
            println!("not tested: there is no {}", library.display());
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        symlink(library, folder.path().join("libcuda.so.1")).unwrap();
        Some(Self { folder })
    }

    fn fa512(&self, arguments: &[&str]) -> Command {
        let mut command = fa512(arguments);
        command.env("LD_LIBRARY_PATH", self.folder.path()).env("CUDA_VISIBLE_DEVICES", "0");
        command.env("PTX_SIM_MULTIPROCESSORS", "2");
        command
    }

    /// `fa512 run` on a small problem.
    fn run(&self, arguments: &[&str]) -> Command {
        let mut command = self.fa512(&["run", "--device", "gpu", "--batch", "1", "--heads", "2", "--seq", "33"]);
        command.args(arguments);
        command
    }
}

#[test]
fn kernels_compute_what_they_should_and_are_not_timed() {
    let Some(machine) = Machine::new() else { return };
    for arguments in [&["--causal"][..], &["--variant", "fa512_sm80_any_full_128x64", "--layout", "bshd"]] {
        let output = output(&mut machine.run(arguments), 0);
        let table = text(&output.stdout);
        for expected in ["ptx-sim GPU 0 (sm_90)", "simulated in", "nothing else overwritten", "PASS"] {
            assert!(table.contains(expected), "{expected} is missing:\n{table}");
        }
        assert_eq!(text(&output.stderr), "", "the driver has nothing to say");
    }
    let record = output(machine.run(&[]).arg("--json"), 0).stdout;
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    assert_eq!((&record["device"]["kind"], &record["device"]["driver"]), (&"gpu".into(), &"13.0".into()));
    assert_eq!((&record["passed"], &record["timing"]), (&true.into(), &serde_json::Value::Null));
}

#[test]
fn one_of_several_gpus_is_chosen_by_its_number() {
    let Some(machine) = Machine::new() else { return };
    let on = |gpu| {
        let mut command = machine.run(&["--gpu", gpu]);
        command.env("PTX_SIM_GPUS", "3").env_remove("CUDA_VISIBLE_DEVICES");
        command
    };
    let table = text(&output(&mut on("1"), 0).stdout);
    assert!(table.contains("ptx-sim GPU 1 (sm_90)"), "{table}");
    let message = refusal(&mut on("3"));
    assert!(message.starts_with("error: --gpu 3: no GPU: the NVIDIA driver shows none"), "{message}");
    // A number counts those that are visible; a process that takes the place of this one does not count again.
    let table = text(&output(on("1").env("CUDA_VISIBLE_DEVICES", "0,2"), 0).stdout);
    assert!(table.contains("ptx-sim GPU 2 (sm_90)"), "{table}");
    let table = text(&output(on("1").env("CUDA_VISIBLE_DEVICES", "2").env("FA512_GPU", "1"), 0).stdout);
    assert!(table.contains("ptx-sim GPU 2 (sm_90)"), "{table}");
}

#[test]
fn a_campaign_runs_on_the_driver() {
    let Some(machine) = Machine::new() else { return };
    let arguments = ["fuzz", "--device", "gpu", "--cases", "3", "--max-seq", "40", "--max-pairs", "2000"];
    let output = output(&mut machine.fa512(&arguments), 0);
    let table = text(&output.stdout);
    assert!(table.contains("ptx-sim GPU 0 (sm_90)") && table.contains("PASS"), "{table}");
    assert_eq!(text(&output.stderr), "", "the driver has nothing to say");
}

#[test]
fn a_kernel_that_faults_is_reported_by_both_sides() {
    let Some(machine) = Machine::new() else { return };
    let folder = edited_ptx(misaligned_lse);
    let message = refusal(machine.run(&["--ptx"]).arg(folder.path()));
    // The driver says where, as compute-sanitizer would; the program what it did, with the driver's code.
    for expected in ["ptx-sim: ", "misaligned", "running fa512_sm90a_tma_any_full", "CUDA_ERROR_MISALIGNED_ADDRESS"] {
        assert!(message.contains(expected), "{expected} is missing:\n{message}");
    }
    assert!(message.contains("the CUDA context is lost"), "{message}");
}

#[test]
fn simulated_times_are_not_measured() {
    let Some(machine) = Machine::new() else { return };
    for command in [&["bench", "--shapes", "1x1x64", "--samples", "2"][..], &["bench", "--no-overlap"]] {
        let message = refusal(&mut machine.fa512(command));
        let expected = "times mean nothing in the simulator, and there is no GPU but ptx-sim GPU 0 (sm_90)";
        assert!(message.contains(expected) && message.contains("libcuda.so.1"), "{message}");
    }
}

#[test]
fn a_refusal_of_the_driver_has_its_name_and_what_was_done() {
    let Some(machine) = Machine::new() else { return };
    for (failure, action) in [
        ("cuLibraryLoadData=CUDA_ERROR_NO_BINARY_FOR_GPU", "compiling sm_90a.ptx for ptx-sim GPU 0 (sm_90)"),
        ("cuKernelSetAttribute=CUDA_ERROR_INVALID_VALUE", "bytes of dynamic shared memory"),
        ("cuTensorMapEncodeTiled=CUDA_ERROR_INVALID_VALUE", "making the tensor map of Q, [64, 33, 2, 1] elements from"),
        ("cuLaunchKernelEx=CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "running fa512_sm90a_tma_any_full"),
        ("cuMemAlloc_v2=CUDA_ERROR_OUT_OF_MEMORY", "for Q"),
    ] {
        let message = refusal(machine.run(&[]).env("PTX_SIM_FAIL", failure));
        let (_, name) = failure.split_once('=').unwrap();
        assert!(message.contains(action) && message.contains(&format!("{name} (")), "{failure}: {message}");
        assert!(!message.contains("context is lost"), "{message}");
    }
    let message = refusal(machine.run(&[]).env("PTX_SIM_DRIVER", "11.8"));
    assert!(message.contains("no GPU that will do: the NVIDIA driver supports CUDA 11.8"), "{message}");
}
