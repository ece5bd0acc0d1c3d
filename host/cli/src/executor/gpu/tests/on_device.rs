//! Tests that pass on any device.

use std::time::Instant;

use super::*;
use crate::executor::Sample;
use crate::timing::{Batch, L2, Protocol};

/// An executor; `None`, with the reason printed, if there is no GPU.
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
    for message in [invalid(gpu.free(buffer)), invalid(gpu.write(buffer, &[1])), invalid(gpu.read(buffer, &mut [0]))] {
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
    assert_eq!((code.as_str(), action.as_str()), ("CUDA_ERROR_OUT_OF_MEMORY", "allocating 67108864.0 MiB for huge"));
    assert!(detail.contains("are free"), "{detail}");
    let (_, action, _) = cuda(gpu.allocate("all", u64::MAX));
    assert!(action.ends_with("MiB for all"), "{action}");
    gpu.allocate("small", 16).expect("the context is unharmed");
}

#[test]
fn refused_ptx_shows_what_the_compiler_said() {
    let Some(mut gpu) = open() else { return };
    let broken = PtxModule::new("broken.ptx", include_str!("broken.ptx"));
    let (code, action, detail) = cuda(gpu.load(&broken));
    assert_eq!(code, "CUDA_ERROR_INVALID_PTX");
    assert!(action.contains("broken.ptx"), "{action}");
    assert!(detail.contains("the driver's compiler says"), "{detail}");
    assert!(detail.contains("line 7") || detail.contains(".ptx:7:"), "{detail}");
    gpu.load(&probe()).expect("the context is unharmed");
    let with_nul = PtxModule::new("binary.ptx", ".version\0");
    assert!(invalid(gpu.load(&with_nul)).contains("binary.ptx: byte 8 is NUL"));
}

#[test]
fn an_unknown_entry_names_what_is_loaded() {
    let Some(mut gpu) = open() else { return };
    assert!(invalid(gpu.resources("nowhere")).contains("no entry nowhere in the loaded PTX (nothing)"));
    gpu.load(&probe()).unwrap();
    assert!(invalid(gpu.resources("nowhere")).contains("(probe.ptx)"));
    assert!(invalid(gpu.resources("store_byte\0")).contains("no entry store_byte\0"));
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

/// Whether the driver can report a kernel's parameters; prints a note if not.
fn knows_parameters(gpu: &GpuExecutor) -> bool {
    let version = gpu.device().driver.as_deref().and_then(|version| version.split_once('.'));
    let (major, minor) = version.expect("two numbers");
    let knows = (major.parse::<u32>().unwrap(), minor.parse::<u32>().unwrap()) >= (12, 4);
    if !knows {
        println!("not tested: the driver is older than CUDA 12.4 and does not know the parameters of a kernel");
    }
    knows
}

#[test]
fn arguments_of_other_sizes_are_refused() {
    let Some(mut gpu) = open().filter(knows_parameters) else { return };
    gpu.load(&probe()).unwrap();
    let (address, value) = (gpu.allocate("byte", 1).unwrap().address, 0u32);
    let (address, value, wide) = (Argument::of(&address), Argument::of(&value), Argument::of(&0u64));
    for arguments in [[address, wide].as_slice(), &[value, value], &[address, value, value]] {
        let message = invalid(run(&gpu, &store_byte_of(arguments)));
        assert!(message.contains("store_byte takes parameters of [8, 4] bytes"), "{message}");
    }
    let variant = variant(false);
    gpu.load(&stand_in(variant, 8)).unwrap();
    let Planned { launch, .. } = planned(&mut gpu, variant);
    let message = invalid(gpu.launch(&launch));
    let (taken, passed) = (size_of::<ForwardArgs>() + 8, size_of::<ForwardArgs>());
    let expected = format!("{} takes parameters of [{taken}] bytes, but would be given [{passed}]", variant.entry);
    assert!(message.starts_with(&expected), "{message}");
}

#[test]
fn times_are_of_one_launch() {
    let Some(mut gpu) = open() else { return };
    let variant = variant(false);
    gpu.load(&stand_in(variant, 0)).unwrap();
    let [one, two] = [(); 2].map(|()| planned(&mut gpu, variant));
    take_a_sample(&mut gpu, &[one.launch, two.launch], two.o, false);
}

/// Times `launches` of substitute kernels; the last writes O at `o`.
pub fn take_a_sample(gpu: &mut GpuExecutor, launches: &[Launch<'_>], o: Buffer, overlap: bool) {
    let protocol = Protocol { warm_up_ms: 1.0, overlap, ..Protocol::new(L2::Warm) };
    let sample = gpu.prepare_sample(launches, &protocol).unwrap().expect("a GPU has times");
    let (batch, sets) = (sample.batch, launches.len() as u32);
    assert!(batch.cuda_graph && batch.input_sets == sets && batch.calls.is_multiple_of(sets), "{batch:?}");
    assert!(batch.host_launch_us.is_some_and(|us| us > 0.0), "{batch:?}");
    gpu.write(o, &[9]).unwrap();
    for _ in 0..5 {
        let started = Instant::now();
        let time = gpu.take_sample(sample).unwrap();
        // Plausible for a kernel that writes a byte, on a GPU; a simulation has no bounds.
        let plausible = if gpu.device().is_simulated() { 0.0..f64::INFINITY } else { 0.1..10_000.0 };
        assert!(plausible.contains(&time), "{time} µs");
        let (all, passed) = (time * f64::from(batch.calls), started.elapsed().as_secs_f64() * 1e6);
        assert!(all <= passed, "{} calls of {time} µs within {passed} µs", batch.calls);
    }
    let mut byte = [0];
    gpu.read(o, &mut byte).unwrap();
    assert_eq!(byte, [7], "the last call of a sample is on the last set");
    gpu.free_sample(sample).unwrap();
}

#[test]
fn a_kernel_may_begin_before_the_one_before_it_ends() {
    let Some(mut gpu) = open().filter(|gpu| gpu.device().architecture == 90) else { return };
    launch_early(&mut gpu);
}

#[test]
fn the_newest_module_with_an_entry_has_it() {
    let Some(mut gpu) = open() else { return };
    let variant = variant(false);
    let Planned { launch, o } = planned(&mut gpu, variant);
    let message = invalid(gpu.launch(&launch));
    assert!(message.contains(&format!("no entry {} in the loaded PTX (nothing)", variant.entry)), "{message}");
    let older = stand_in(variant, 0);
    let newer = PtxModule::new("newer.ptx", older.text().unwrap().replace("%seven, 7", "%seven, 8"));
    for (module, expected) in [(&older, 7), (&newer, 8), (&probe(), 8)] {
        gpu.load(module).unwrap();
        gpu.launch(&launch).unwrap();
        let mut byte = [0];
        gpu.read(o, &mut byte).unwrap();
        assert_eq!(byte, [expected], "{} was loaded last", module.file);
    }
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
fn tensor_maps_are_made_by_the_driver() {
    let Some(mut gpu) = open().filter(|gpu| gpu.device().architecture == 90) else { return };
    let Planned { launch, .. } = planned(&mut gpu, variant(true));
    let TensorMaps(maps) = launch.encoded_tensor_maps().expect("it copies through them");
    let distinct = maps.iter().enumerate().all(|(index, map)| !maps[..index].contains(map));
    assert!(distinct && maps.iter().all(|map| map.iter().any(|&byte| byte != 0)), "{maps:?}");
    let Planned { launch, .. } = planned(&mut gpu, variant(false));
    assert_eq!(launch.encoded_tensor_maps(), None);
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
