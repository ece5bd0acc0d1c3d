//! Behaviour of a program with and without libcuda. A process loads the library once, so each case runs in a process of its own:
//! this test program started again with one of the ignored tests.

use cust_raw::cudaError_enum as CuResult;
use libcuda_delay_load::{LoadError, load};
use std::ffi::c_void;
use std::path::Path;
use std::process::Command;
use std::ptr;

/// Runs an ignored test of this program with the loader looking in `folder` first.
fn run_alone(test: &str, folder: &Path) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", folder)
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(output.status.success() && printed.contains("1 passed"), "{test}: {}\n{printed}", output.status);
}

/// Compiles a C file as libcuda.so.1; false, with a message, where there is no C compiler.
fn compile(source: &str, folder: &Path) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let library = folder.join(libcuda_delay_load::LIBRARY);
    match Command::new("cc").args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).arg(library).arg(source).status() {
        Ok(status) => assert!(status.success(), "cc: {status}"),
        Err(error) => println!("not tested: the stand-in for libcuda needs a C compiler, and cc cannot run ({error})"),
    }
    folder.join(libcuda_delay_load::LIBRARY).exists()
}

#[test]
fn calls_reach_the_loaded_library() {
    let folder = tempfile::tempdir().unwrap();
    if compile("fake_libcuda.c", folder.path()) {
        run_alone("with_fake_library", folder.path());
    }
}

#[test]
#[ignore = "run by calls_reach_the_loaded_library"]
fn with_fake_library() {
    // SAFETY: before `load`, a function only returns a number.
    assert_eq!(unsafe { cust_raw::cuInit(0) }, CuResult::CUDA_ERROR_STUB_LIBRARY, "nothing was loaded yet");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(load(), Ok(())));
        }
    });

    // SAFETY: the pointers are to live variables of the types that the functions expect.
    unsafe {
        assert_eq!(cust_raw::cuInit(0), CuResult::CUDA_SUCCESS);
        assert_eq!(cust_raw::cuInit(1), CuResult::CUDA_ERROR_INVALID_VALUE);
        let mut version = 0;
        assert_eq!(cust_raw::cuDriverGetVersion(&mut version), CuResult::CUDA_SUCCESS);
        assert_eq!(version, 13000);
        assert_eq!(cust_raw::cuProfilerStop(), CuResult::CUDA_ERROR_NOT_SUPPORTED, "the stand-in lacks it");
    }
    arguments_arrive_on_the_stack();
    arguments_arrive_in_all_64_bits();
}

fn arguments_arrive_on_the_stack() {
    let mut seen = [0u64; 10];
    let mut params = [seen.as_mut_ptr().cast::<c_void>()];
    // SAFETY: the stand-in writes ten words to where the first parameter points and follows no other pointer.
    let result = unsafe {
        cust_raw::cuLaunchKernel(
            ptr::without_provenance_mut(0x1234_5678_9abc_def0),
            0x7fff_ffff,
            2,
            3,
            4,
            5,
            6,
            0x0003_9000,
            ptr::without_provenance_mut(0xfedc_ba98_7654_3210),
            params.as_mut_ptr(),
            ptr::without_provenance_mut(0x1122_3344_5566_7788),
        )
    };
    assert_eq!(result, CuResult::CUDA_ERROR_LAUNCH_FAILED);
    let expected =
        [0x1234_5678_9abc_def0, 0x7fff_ffff, 2, 3, 4, 5, 6, 0x0003_9000, 0xfedc_ba98_7654_3210, 0x1122_3344_5566_7788];
    assert_eq!(seen, expected);
}

fn arguments_arrive_in_all_64_bits() {
    let mut sum = 0u64;
    let address = ptr::from_mut(&mut sum).expose_provenance() as u64;
    let (pitch, value, width, height) = (1usize << 40, u32::MAX, 1usize << 36, 1usize << 33);
    // SAFETY: the stand-in writes one word to the address.
    let result = unsafe { cust_raw::cuMemsetD2D32_v2(address, pitch, value, width, height) };
    assert_eq!(result, CuResult::CUDA_SUCCESS);
    let expected = address + 3 * (1 << 40) + 5 * u64::from(value) + 7 * (1 << 36) + 11 * (1 << 33);
    assert_eq!(sum, expected);
}

#[test]
fn a_library_that_cannot_be_opened_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join(libcuda_delay_load::LIBRARY),
        "a text, and long enough to hold an ELF header ".repeat(9),
    )
    .unwrap();
    run_alone("with_broken_library", folder.path());
}

#[test]
#[ignore = "run by a_library_that_cannot_be_opened_is_explained"]
fn with_broken_library() {
    let first = load();
    let Err(LoadError::Open(reason)) = &first else { panic!("{first:?}") };
    assert!(reason.contains("libcuda.so.1: invalid ELF header"), "{reason}");
    let message = first.as_ref().unwrap_err().to_string();
    assert!(message.starts_with("the CUDA driver library cannot be opened: "), "{message}");
    assert_eq!(load(), first, "a later call says the same");
    // SAFETY: without a library, a function only returns a number.
    assert_eq!(unsafe { cust_raw::cuInit(0) }, CuResult::CUDA_ERROR_STUB_LIBRARY);
}

#[test]
fn another_library_of_that_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    if compile("not_libcuda.c", folder.path()) {
        run_alone("with_another_library", folder.path());
    }
}

#[test]
#[ignore = "run by another_library_of_that_name_is_refused"]
fn with_another_library() {
    assert_eq!(load(), Err(LoadError::NotADriver("cuInit")));
    // SAFETY: without a driver, a function only returns a number.
    assert_eq!(unsafe { cust_raw::cuInit(0) }, CuResult::CUDA_ERROR_STUB_LIBRARY);
}
