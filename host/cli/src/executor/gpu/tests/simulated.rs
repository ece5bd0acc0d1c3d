//! Tests without a GPU: the executor on the simulated driver, on fake drivers, and without any driver.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;

/// Name of the simulated GPU.
const NAME: &str = "ptx-sim GPU 0 (sm_90)";

/// Path of the simulated driver, next to this program; `None`, with a message, if this program was moved away from it.
fn simulated_driver() -> Option<PathBuf> {
    let library = std::env::current_exe().unwrap().with_file_name("liblibcuda_sim.so");
    let is_there = library.exists();
    if !is_there {
        println!("not tested: there is no {}", library.display());
    }
    is_there.then_some(library)
}

/// Runs a test of this module, or all tests of `on_device`, with the simulated driver.
fn run_simulated(filter: &str, arguments: &[&str], variables: &[(&str, &str)]) {
    let Some(library) = simulated_driver() else { return };
    let folder = tempfile::tempdir().unwrap();
    symlink(library, folder.path().join(libcuda_delay_load::LIBRARY)).unwrap();
    let mut all = environment(folder.path());
    all.extend(variables.iter().map(|&(name, value)| (name, OsStr::new(value))));
    run_alone(filter, arguments, &all);
}

fn environment(folder: &Path) -> Vec<(&'static str, &OsStr)> {
    vec![
        ("LD_LIBRARY_PATH", folder.as_os_str()),
        ("CUDA_VISIBLE_DEVICES", "0".as_ref()),
        (REQUIRE_GPU, "1".as_ref()),
        // Copies are timed with a quarter of this.
        ("PTX_SIM_MEMORY", "64M".as_ref()),
    ]
}

fn unavailable(opened: Result<GpuExecutor>) -> String {
    match opened {
        Err(Error::Unavailable(message)) => message,
        Err(other) => panic!("not about what is missing: {other}"),
        Ok(_) => panic!("a GPU was opened"),
    }
}

#[test]
fn a_simulated_gpu_behaves_as_a_gpu_does() {
    run_simulated("on_device", &[], &[]);
}

#[test]
fn a_missing_driver_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(libcuda_delay_load::LIBRARY), [b'x'; 4096]).unwrap();
    let folder = [("LD_LIBRARY_PATH", folder.path().as_os_str())];
    run_alone("simulated::open_without_driver", &["--exact", "--ignored"], &folder);
}

#[test]
#[ignore = "run by a_missing_driver_is_explained"]
fn open_without_driver() {
    let message = unavailable(GpuExecutor::open());
    assert!(message.starts_with("no GPU: the CUDA driver library cannot be opened: "), "{message}");
    assert!(message.contains("libcuda.so.1") && message.contains("NVIDIA driver"), "{message}");
}

#[test]
fn a_missing_gpu_is_explained() {
    run_simulated("simulated::open_without_device", &["--exact", "--ignored"], &[("CUDA_VISIBLE_DEVICES", "")]);
}

#[test]
#[ignore = "run by a_missing_gpu_is_explained"]
fn open_without_device() {
    let message = unavailable(GpuExecutor::open());
    let expected = "no GPU: the NVIDIA driver shows none (CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected); \
                    CUDA_VISIBLE_DEVICES is \"\"";
    assert_eq!(message, expected);
}

#[test]
fn a_device_that_is_not_there_is_explained() {
    run_simulated("simulated::open_another_device", &["--exact", "--ignored"], &[]);
}

#[test]
#[ignore = "run by a_device_that_is_not_there_is_explained"]
fn open_another_device() {
    let message = unavailable(GpuExecutor::open_device(1));
    assert_eq!(message, "no GPU 1: the driver shows 1, counted from 0; CUDA_VISIBLE_DEVICES is \"0\"");
}

#[test]
fn a_driver_that_is_too_old_is_explained() {
    run_simulated("simulated::open_under_an_older_driver", &["--exact", "--ignored"], &[("PTX_SIM_DRIVER", "11.8")]);
}

#[test]
#[ignore = "run by a_driver_that_is_too_old_is_explained"]
fn open_under_an_older_driver() {
    let message = unavailable(GpuExecutor::open());
    let expected = "no GPU that will do: the NVIDIA driver supports CUDA 11.8";
    assert!(message.starts_with(expected) && message.contains("CUDA 12.0 or later"), "{message}");
}

#[test]
fn kernels_follow_each_other_under_a_driver_without_programmatic_launches_in_graphs() {
    run_simulated("simulated::run_under_an_old_driver", &["--exact", "--ignored"], &[("PTX_SIM_DRIVER", "12.2")]);
}

#[test]
#[ignore = "run by kernels_follow_each_other_under_a_driver_without_programmatic_launches_in_graphs"]
fn run_under_an_old_driver() {
    let mut gpu = GpuExecutor::open().unwrap();
    assert_eq!(gpu.device().driver.as_deref(), Some("12.2"));
    launch_early(&mut gpu);
}

#[test]
fn a_device_that_another_process_has_is_named() {
    let busy = [("PTX_SIM_FAIL", "cuDevicePrimaryCtxRetain=CUDA_ERROR_DEVICE_UNAVAILABLE")];
    run_simulated("simulated::open_busy_device", &["--exact", "--ignored"], &busy);
}

#[test]
#[ignore = "run by a_device_that_another_process_has_is_named"]
fn open_busy_device() {
    let (code, action, _) = cuda(GpuExecutor::open());
    assert_eq!(code, "CUDA_ERROR_DEVICE_UNAVAILABLE");
    assert_eq!(action, format!("creating a context on GPU 0 ({NAME})"));
}

#[test]
fn a_refused_tensor_map_is_described() {
    let refused = [("PTX_SIM_FAIL", "cuTensorMapEncodeTiled=CUDA_ERROR_INVALID_VALUE")];
    run_simulated("simulated::complete_without_tensor_maps", &["--exact", "--ignored"], &refused);
}

#[test]
#[ignore = "run by a_refused_tensor_map_is_described"]
fn complete_without_tensor_maps() {
    let mut gpu = GpuExecutor::open().unwrap();
    let problem = Problem::new(Shape::new(2, 3, 100), Mask::Full, Layout::Bhsd).unwrap();
    let plan = Plan::new(&problem, *variant(true), &gpu.device().gpu()).unwrap();
    let mut launch = plan.bind(Addresses::new(1 << 20, 2 << 20, 3 << 20, 4 << 20)).unwrap();
    let (code, action, _) = cuda(gpu.complete(&mut launch));
    assert_eq!(code, "CUDA_ERROR_INVALID_VALUE");
    let expected = "making the tensor map of Q, [64, 100, 3, 2] elements from 0x100000 on with strides of ";
    assert!(action.starts_with(expected), "{action}");
}
