//! The executor on a GPU, and on a stand-in for the driver where there is none.
//!
//! To run the first part where there is no cargo, carry the test binary of the library there and start it with the
//! filter `executor::gpu`; with `FA512_REQUIRE_GPU=1` in the environment a missing GPU is a failure.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::kernel::Argument;
use super::{GpuExecutor, Kernel, driver};
use crate::error::{Error, Result};
use crate::executor::{Executor, PtxModule, Sample};
use crate::timing::{Batch, L2, Protocol};
use contract::problem::Shape;
use contract::tensor_map::TensorMap;
use contract::view::{Layout, View};

/// Set to anything, it makes a missing GPU a failure.
const REQUIRE_GPU: &str = "FA512_REQUIRE_GPU";

/// Name of the stand-in's device.
const STAND_IN: &str = "Stand-in GPU";

/// Starts this test program again for the tests that `filter` selects, with variables of the environment changed.
fn run_alone(filter: &str, arguments: &[&str], variables: &[(&str, &OsStr)]) {
    let program = std::env::current_exe().unwrap();
    let filter = format!("{}::{filter}", module_path!().split_once("::").unwrap().1);
    let output = Command::new(program).arg(&filter).args(arguments).envs(variables.iter().copied()).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(output.status.success() && !printed.contains(" 0 passed"), "{filter}: {}\n{printed}", output.status);
}

/// The `CUDA_ERROR_…`, action and detail of an error of the driver.
fn cuda<T>(result: Result<T>) -> (String, String, String) {
    match result {
        Err(Error::Cuda { action, code, detail, .. }) => (code, action, detail),
        Err(other) => panic!("not an error of the driver: {other}"),
        Ok(_) => panic!("no error"),
    }
}

/// The message of an error about the caller's input.
fn invalid<T>(result: Result<T>) -> String {
    match result {
        Err(Error::Invalid(message)) => message,
        Err(other) => panic!("not about the input: {other}"),
        Ok(_) => panic!("no error"),
    }
}

fn probe() -> PtxModule {
    PtxModule { file: "probe.ptx".to_owned(), text: include_str!("tests/probe.ptx").to_owned() }
}

/// `store_byte` of probe.ptx, with `shared` bytes of dynamic shared memory that it does not use.
fn store_byte(gpu: &GpuExecutor, address: u64, value: u32, shared: u32) -> Result<()> {
    let arguments = [Argument::of(&address), Argument::of(&value)];
    let kernel = Kernel { dynamic_shared_bytes: shared, ..store_byte_of(&arguments) };
    // SAFETY: the parameters of store_byte are a u64 and a u32.
    unsafe { gpu.run(&kernel) }
}

/// The launch of `store_byte` with these arguments.
fn store_byte_of<'a>(arguments: &'a [Argument<'a>]) -> Kernel<'a> {
    Kernel { entry: "store_byte", blocks: 1, threads: 32, dynamic_shared_bytes: 0, overlaps_previous: false, arguments }
}

/// Runs `store_byte` as a kernel that may begin while the one before it ends, which here is none.
fn store_byte_early(gpu: &mut GpuExecutor) {
    gpu.load(&probe()).unwrap();
    let buffer = gpu.allocate("buffer", 1).unwrap();
    let arguments = (buffer.address, 7u32);
    let arguments = [Argument::of(&arguments.0), Argument::of(&arguments.1)];
    // SAFETY: the parameters of store_byte are a u64 and a u32, and nothing runs before it.
    unsafe { gpu.run(&Kernel { overlaps_previous: true, ..store_byte_of(&arguments) }) }.unwrap();
    let mut byte = [0];
    gpu.read(buffer, &mut byte).unwrap();
    assert_eq!(byte, [7]);
}

/// What holds on any device.
mod on_device {
    use super::*;

    /// An executor, or `None`, with the reason printed, where there is no GPU.
    fn open() -> Option<GpuExecutor> {
        match GpuExecutor::open() {
            Ok(gpu) => Some(gpu),
            Err(Error::Unavailable(reason)) if std::env::var_os(REQUIRE_GPU).is_none() => {
                println!("not tested on a GPU: {reason}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn the_device_is_described() {
        let Some(gpu) = open() else { return };
        let device = gpu.device();
        assert!(device.architecture >= 50 && !device.name.is_empty(), "{device:?}");
        assert!(device.shared_bytes_per_block >= 48 << 10 && device.multiprocessors > 0, "{device:?}");
        let version = device.driver.as_deref().and_then(|version| version.split_once('.'));
        let (major, minor) = version.expect("two numbers");
        assert!(major.parse::<u32>().unwrap() >= 11 && minor.parse::<u32>().is_ok(), "{device:?}");
    }

    #[test]
    fn copies_reach_the_device_and_come_back() {
        let Some(mut gpu) = open() else { return };
        let data: Vec<u8> = (0..1000u32).map(|i| (i * 7) as u8).collect();
        let buffer = gpu.allocate("data", 1000).unwrap();
        assert_eq!(buffer.address % 256, 0);
        gpu.write(buffer, &data).unwrap();
        gpu.write(buffer, &[255; 3]).unwrap();
        let mut back = vec![0; 999];
        gpu.read(buffer, &mut back).unwrap();
        assert_eq!(back[..3], [255; 3]);
        assert_eq!(back[3..], data[3..999]);
        assert_eq!(gpu.damaged_guards().unwrap(), []);
        gpu.free(buffer).unwrap();
    }

    #[test]
    fn a_write_behind_a_buffer_is_found() {
        let Some(mut gpu) = open() else { return };
        gpu.load(&probe()).unwrap();
        let whole = gpu.allocate("whole", 64).unwrap();
        let hurt = gpu.allocate("hurt", 77).unwrap();
        store_byte(&gpu, whole.address + 63, 1, 0).unwrap();
        for offset in [4095, 3] {
            store_byte(&gpu, hurt.address + 77 + offset, 1, 0).unwrap();
        }
        let damages = gpu.damaged_guards().unwrap();
        let [damage] = damages.as_slice() else { panic!("{damages:?}") };
        assert_eq!((damage.buffer.as_str(), damage.first, damage.bytes), ("hurt", 3, 2));
    }

    #[test]
    fn a_buffer_is_only_what_its_executor_allocated() {
        let Some(mut gpu) = open() else { return };
        let buffer = gpu.allocate("small", 16).unwrap();
        let message = invalid(gpu.write(buffer, &[0; 17]));
        assert!(message.contains("17 bytes") && message.contains("small has 16 bytes"), "{message}");
        gpu.free(buffer).unwrap();
        for message in
            [invalid(gpu.free(buffer)), invalid(gpu.write(buffer, &[1])), invalid(gpu.read(buffer, &mut [0]))]
        {
            assert!(message.contains("was freed"), "{message}");
        }
    }

    #[test]
    fn nothing_is_copied_to_an_empty_buffer() {
        let Some(mut gpu) = open() else { return };
        let buffer = gpu.allocate("empty", 0).unwrap();
        gpu.write(buffer, &[]).unwrap();
        gpu.read(buffer, &mut []).unwrap();
        assert_eq!(gpu.damaged_guards().unwrap(), []);
    }

    #[test]
    fn too_large_a_buffer_says_how_much_is_free() {
        let Some(mut gpu) = open() else { return };
        let (code, action, detail) = cuda(gpu.allocate("huge", 1 << 46));
        assert_eq!(
            (code.as_str(), action.as_str()),
            ("CUDA_ERROR_OUT_OF_MEMORY", "allocating 67108864.0 MiB for huge")
        );
        assert!(detail.contains("are free"), "{detail}");
        let (_, action, _) = cuda(gpu.allocate("all", u64::MAX));
        assert!(action.ends_with("MiB for all"), "{action}");
        gpu.allocate("small", 16).expect("the context is unharmed");
    }

    #[test]
    fn refused_ptx_shows_what_the_compiler_said() {
        let Some(mut gpu) = open() else { return };
        let broken = PtxModule { file: "broken.ptx".into(), text: include_str!("tests/broken.ptx").into() };
        let (code, action, detail) = cuda(gpu.load(&broken));
        assert_eq!(code, "CUDA_ERROR_INVALID_PTX");
        assert!(action.contains("broken.ptx"), "{action}");
        assert!(detail.contains("line 7") && detail.contains("no_such_instruction"), "{detail}");
        gpu.load(&probe()).expect("the context is unharmed");
        let with_nul = PtxModule { file: "binary.ptx".into(), text: ".version\0".into() };
        assert!(invalid(gpu.load(&with_nul)).contains("binary.ptx: byte 8 is NUL"));
    }

    #[test]
    fn an_unknown_entry_names_what_is_loaded() {
        let Some(mut gpu) = open() else { return };
        assert!(invalid(gpu.resources("nowhere")).contains("no entry nowhere in the loaded PTX (nothing)"));
        gpu.load(&probe()).unwrap();
        assert!(invalid(gpu.resources("nowhere")).contains("(probe.ptx)"));
        assert!(invalid(gpu.resources("store_byte\0")).contains("NUL"));
        gpu.load(&probe()).expect("a module of the same file name is replaced");
        assert!(invalid(gpu.resources("nowhere")).contains("(probe.ptx)"));
    }

    #[test]
    fn resources_of_a_kernel_are_known() {
        let Some(mut gpu) = open() else { return };
        gpu.load(&probe()).unwrap();
        let resources = gpu.resources("store_byte").unwrap();
        assert!(resources.registers > 0 && resources.local_bytes == 0, "{resources:?}");
    }

    #[test]
    fn a_kernel_gets_all_the_shared_memory_there_is() {
        let Some(mut gpu) = open() else { return };
        gpu.load(&probe()).unwrap();
        let buffer = gpu.allocate("byte", 1).unwrap();
        let limit = gpu.device().shared_bytes_per_block;
        store_byte(&gpu, buffer.address, 42, limit).unwrap();
        let mut byte = [0];
        gpu.read(buffer, &mut byte).unwrap();
        assert_eq!(byte, [42]);
        for bytes in [limit + 1, u32::MAX] {
            let (code, action, detail) = cuda(store_byte(&gpu, buffer.address, 0, bytes));
            assert_eq!(code, "CUDA_ERROR_INVALID_VALUE");
            assert!(action.contains(&format!("store_byte {bytes} bytes")), "{action}");
            assert!(detail.contains(&format!("allows {limit} bytes")), "{detail}");
        }
    }

    #[test]
    fn arguments_of_other_sizes_are_refused() {
        let Some(mut gpu) = open() else { return };
        gpu.load(&probe()).unwrap();
        let (address, value) = (gpu.allocate("byte", 1).unwrap().address, 0u32);
        if driver::parameter_sizes(&gpu.function("store_byte").unwrap(), 2).unwrap().is_none() {
            println!("not tested: the driver is older than CUDA 12.4 and does not know the parameters of a kernel");
            return;
        }
        let (address, value, wide) = (Argument::of(&address), Argument::of(&value), Argument::of(&0u64));
        for arguments in [[address, wide].as_slice(), &[value, value], &[address, value, value]] {
            let kernel = store_byte_of(arguments);
            // SAFETY: the driver knows the parameters' sizes, so these arguments, none too few, are not passed to it.
            let message = invalid(unsafe { gpu.run(&kernel) });
            assert!(message.contains("store_byte takes parameters of [8, 4] bytes"), "{message}");
        }
    }

    #[test]
    fn times_are_of_one_launch() {
        let Some(mut gpu) = open() else { return };
        gpu.load(&probe()).unwrap();
        let buffer = gpu.allocate("byte", 1).unwrap();
        let address = buffer.address;
        let arguments = [Argument::of(&address), Argument::of(&0u32)];
        let kernel = store_byte_of(&arguments);
        let second = Argument::of(&1u32);
        let arguments = [arguments[0], second];
        let kernels = [kernel, store_byte_of(&arguments)];
        let protocol = Protocol { warm_up_ms: 1.0, ..Protocol::new(L2::Warm) };
        // SAFETY: the parameters of store_byte are a u64 and a u32.
        let (timed, batch) = unsafe { gpu.timed(&kernels, &protocol) }.unwrap();
        assert!(batch.cuda_graph && batch.input_sets == 2 && batch.calls.is_multiple_of(2), "{batch:?}");
        assert!(batch.host_launch_us.is_some_and(|us| us > 0.0), "{batch:?}");
        // A kernel that does nothing; the stand-in says 10 µs.
        let stand_in = gpu.device().name == STAND_IN;
        let expected = if stand_in { 9.9..10.1 } else { 0.1..10_000.0 };
        for _ in 0..5 {
            let time = timed.graph.sample(&gpu.stream).unwrap();
            assert!(expected.contains(&time), "{time} µs");
        }
        assert!(!stand_in || (100..=102).contains(&batch.calls), "a sample of 1 ms: {batch:?}");
        let mut byte = [9];
        gpu.read(buffer, &mut byte).unwrap();
        assert_eq!(byte, [1], "the last call of a sample is on the last set");
    }

    #[test]
    fn a_kernel_may_begin_before_the_one_before_it_ends() {
        let Some(mut gpu) = open() else { return };
        store_byte_early(&mut gpu);
    }

    #[test]
    fn a_sample_is_only_what_its_executor_made() {
        let Some(mut gpu) = open() else { return };
        let batch = Batch { calls: 1, input_sets: 1, cuda_graph: true, host_launch_us: None };
        let foreign = Sample { id: 0, batch };
        for message in [invalid(gpu.take_sample(foreign)), invalid(gpu.free_sample(foreign))] {
            assert!(message.contains("sample 0 was freed"), "{message}");
        }
        assert!(invalid(gpu.prepare_sample(&[], &Protocol::new(L2::Warm))).contains("0 launches"));
    }

    #[test]
    fn a_tensor_map_is_made_by_the_driver() {
        let Some(mut gpu) = open().filter(|gpu| gpu.device().architecture >= 90) else { return };
        let shape = Shape { batch: 2, heads: 3, sequence: 100 };
        let buffer = gpu.allocate("K", 2 * 3 * 100 * 128).unwrap();
        let map = TensorMap::new(shape, View::new(Layout::Bhsd.strides(shape).unwrap()), buffer.address);
        let encoded = gpu.encode_tensor_map("K", &map).unwrap();
        if gpu.device().name == STAND_IN {
            let words: Vec<_> = encoded.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            assert_eq!(words[..8], [buffer.address, 6, 4, 3, 64, 100, 3, 2], "f16, four dimensions, 128-byte swizzle");
        }
        let misaligned = TensorMap { address: buffer.address + 8, ..map };
        let (code, action, detail) = cuda(gpu.encode_tensor_map("K", &misaligned));
        assert_eq!((code.as_str(), action.as_str()), ("CUDA_ERROR_INVALID_VALUE", "making the tensor map of K"));
        assert!(detail.contains("[64, 100, 3, 2] elements from"), "{detail}");
    }

    #[test]
    fn copying_has_a_rate() {
        let Some(mut gpu) = open() else { return };
        let rate = gpu.copy_terabytes_per_second().unwrap();
        assert!(rate > 0.0 && rate.is_finite(), "{rate} TB/s");
    }

    #[test]
    fn an_executor_works_on_the_thread_that_it_is_moved_to() {
        let Some(mut gpu) = open() else { return };
        std::thread::spawn(move || {
            let buffer = gpu.allocate("buffer", 8).unwrap();
            gpu.write(buffer, &[1; 8]).unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_fault_is_explained_now_and_later() {
        if open().is_some() {
            run_alone("on_device::faulting_kernel", &["--exact", "--ignored"], &[]);
        }
    }

    #[test]
    #[ignore = "run by a_fault_is_explained_now_and_later, since the process cannot use the GPU afterwards"]
    fn faulting_kernel() {
        let mut gpu = open().expect("a GPU");
        gpu.load(&probe()).unwrap();
        let buffer = gpu.allocate("buffer", 8).unwrap();
        let first = store_byte(&gpu, 64, 1, 0).map_err(|error| error.to_string()).expect_err("address 64 is nobody's");
        assert!(first.starts_with("running store_byte with 1 blocks of 32 threads: CUDA_ERROR_ILLEGAL_ADDRESS ("));
        assert!(first.contains("context is lost") && first.contains("compute-sanitizer"), "{first}");
        let later = [
            store_byte(&gpu, buffer.address, 1, 0).err(),
            gpu.load(&probe()).err(),
            gpu.allocate("another", 8).err(),
            gpu.write(buffer, &[1]).err(),
            gpu.read(buffer, &mut [1]).err(),
            gpu.resources("store_byte").err(),
            gpu.damaged_guards().err(),
            gpu.free(buffer).err(),
        ];
        for later in later {
            assert_eq!(later.map(|error| error.to_string()).as_ref(), Some(&first));
        }
    }
}

/// What holds without a GPU.
mod without_gpu {
    use super::*;

    /// Compiles the stand-in as libcuda.so.1; false, with the reason printed, where there is no C compiler.
    fn compile_fake(folder: &Path) -> bool {
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-xc", "-", "-o"]);
        command.arg(folder.join(libcuda_delay_load::LIBRARY)).stdin(Stdio::piped());
        let mut compiler = match command.spawn() {
            Ok(compiler) => compiler,
            Err(error) => {
                println!("not tested: the stand-in for the driver needs a C compiler, and cc cannot run ({error})");
                return false;
            }
        };
        let source = include_bytes!("tests/fake_libcuda.c");
        compiler.stdin.take().expect("a pipe").write_all(source).unwrap();
        assert!(compiler.wait().unwrap().success(), "cc does not accept the stand-in for the driver");
        true
    }

    /// Runs a test of this module, or all of those on a device, with the stand-in for the driver.
    fn run_on_fake(filter: &str, arguments: &[&str], variables: &[(&str, &str)]) {
        let folder = tempfile::tempdir().unwrap();
        if compile_fake(folder.path()) {
            let mut all = vec![
                ("LD_LIBRARY_PATH", folder.path().as_os_str()),
                ("CUDA_VISIBLE_DEVICES", "0".as_ref()),
                (REQUIRE_GPU, "1".as_ref()),
            ];
            all.extend(variables.iter().map(|&(name, value)| (name, OsStr::new(value))));
            run_alone(filter, arguments, &all);
        }
    }

    fn unavailable(opened: Result<GpuExecutor>) -> String {
        match opened {
            Err(Error::Unavailable(message)) => message,
            Err(other) => panic!("not about what is missing: {other}"),
            Ok(_) => panic!("a GPU was opened"),
        }
    }

    #[test]
    fn the_stand_in_behaves_as_a_gpu_does() {
        run_on_fake("on_device", &[], &[]);
    }

    #[test]
    fn a_missing_driver_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(libcuda_delay_load::LIBRARY), [b'x'; 4096]).unwrap();
        let folder = [("LD_LIBRARY_PATH", folder.path().as_os_str())];
        run_alone("without_gpu::open_without_driver", &["--exact", "--ignored"], &folder);
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
        run_on_fake("without_gpu::open_without_device", &["--exact", "--ignored"], &[("CUDA_VISIBLE_DEVICES", "")]);
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
        run_on_fake("without_gpu::open_another_device", &["--exact", "--ignored"], &[]);
    }

    #[test]
    #[ignore = "run by a_device_that_is_not_there_is_explained"]
    fn open_another_device() {
        let message = unavailable(GpuExecutor::open_device(1));
        assert_eq!(message, "no GPU 1: the driver shows 1, counted from 0; CUDA_VISIBLE_DEVICES is \"0\"");
    }

    #[test]
    fn kernels_follow_each_other_under_a_driver_without_programmatic_launches_in_graphs() {
        run_on_fake("without_gpu::run_under_an_old_driver", &["--exact", "--ignored"], &[("FAKE_OLD_DRIVER", "1")]);
    }

    #[test]
    #[ignore = "run by kernels_follow_each_other_under_a_driver_without_programmatic_launches_in_graphs"]
    fn run_under_an_old_driver() {
        store_byte_early(&mut GpuExecutor::open().unwrap());
    }

    #[test]
    fn a_device_that_another_process_has_is_named() {
        run_on_fake("without_gpu::open_busy_device", &["--exact", "--ignored"], &[("FAKE_BUSY", "1")]);
    }

    #[test]
    #[ignore = "run by a_device_that_another_process_has_is_named"]
    fn open_busy_device() {
        let (code, action, _) = cuda(GpuExecutor::open());
        assert_eq!(code, "CUDA_ERROR_DEVICE_UNAVAILABLE");
        assert_eq!(action, format!("creating a context on GPU 0 ({STAND_IN})"));
    }
}
