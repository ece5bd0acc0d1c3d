//! Programs that use cudarc, on the simulated driver.
//!
//! The dynamic loader reads its search path when a program starts. Therefore this program starts itself again with the simulated
//! driver's folder, and runs the tests there.

mod support;

use std::process::Command;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use libtest_mimic::{Arguments, Failed, Trial};

const SIMULATED: &str = "PTX_SIM_TEST_IS_SIMULATED";

const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
// values[i] = values[i] * factor, for i < n.
.visible .entry scale(.param .u64 values, .param .f32 factor, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd0, [values];
    ld.param.f32 %f0, [factor];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p ret;
    mul.wide.u32 %rd1, %r4, 4;
    add.u64 %rd2, %rd0, %rd1;
    ld.global.f32 %f1, [%rd2];
    mul.f32 %f2, %f1, %f0;
    st.global.f32 [%rd2], %f2;
    ret;
}
";

fn main() {
    if std::env::var_os(SIMULATED).is_some() {
        libtest_mimic::run(&Arguments::from_args(), trials()).exit();
    }
    let folder = support::library_folder();
    let status = Command::new(std::env::current_exe().expect("the path of this program"))
        .args(std::env::args_os().skip(1))
        .env("LD_LIBRARY_PATH", support::library_path(folder.path()))
        .env(SIMULATED, "1")
        .env("PTX_SIM_GPUS", "2")
        .env("PTX_SIM_QUIET", "1")
        .env_remove("CUDA_VISIBLE_DEVICES")
        .status()
        .expect("this program starts once more");
    std::process::exit(status.code().unwrap_or(1));
}

fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result<(), DriverError>| {
        Trial::test(name, move || test().map_err(|error| Failed::from(error.to_string())))
    };
    vec![
        trial("gpus_are_described", gpus_are_described),
        trial("a_kernel_computes", a_kernel_computes),
        trial("streams_are_ordered_by_events", streams_are_ordered_by_events),
        trial("time_passes_between_events", time_passes_between_events),
        trial("a_captured_graph_is_replayed", a_captured_graph_is_replayed),
        trial("two_gpus_serve_several_threads", two_gpus_serve_several_threads),
        trial("functions_tell_their_attributes", functions_tell_their_attributes),
        trial("a_short_buffer_fails_the_launch", a_short_buffer_fails_the_launch),
        trial("memory_runs_out", memory_runs_out),
        trial("ptx_that_is_none_is_refused", ptx_that_is_none_is_refused),
    ]
}

fn scale(context: &Arc<CudaContext>) -> Result<CudaFunction, DriverError> {
    context.load_module(Ptx::from_src(PTX))?.load_function("scale")
}

fn launch(
    stream: &Arc<CudaStream>,
    function: &CudaFunction,
    values: &mut CudaSlice<f32>,
    factor: f32,
    n: u32,
) -> Result<(), DriverError> {
    let mut arguments = stream.launch_builder(function);
    arguments.arg(values).arg(&factor).arg(&n);
    // SAFETY: the kernel takes these parameters; the effect of a wrong `n` is the subject of a test.
    unsafe { arguments.launch(LaunchConfig::for_num_elems(n)) }.map(drop)
}

fn gpus_are_described() -> Result<(), DriverError> {
    assert_eq!(CudaContext::device_count()?, 2);
    let context = CudaContext::new(1)?;
    assert_eq!(context.compute_capability()?, (9, 0));
    assert!(context.name()?.contains("ptx-sim GPU 1"), "{}", context.name()?);
    assert_ne!(context.uuid()?.bytes, CudaContext::new(0)?.uuid()?.bytes);
    assert_eq!(context.total_mem()?, 16 << 30);
    Ok(())
}

fn a_kernel_computes() -> Result<(), DriverError> {
    let context = CudaContext::new(0)?;
    let (stream, function) = (context.default_stream(), scale(&context)?);
    let mut values = stream.clone_htod(&vec![1.5_f32; 1000])?;
    launch(&stream, &function, &mut values, 2.0, 999)?;
    let result = stream.clone_dtoh(&values)?;
    assert!(result[..999].iter().all(|value| *value == 3.0));
    assert_eq!(result[999], 1.5, "the last value is left out");
    let copy = stream.clone_dtod(&values)?;
    assert_eq!(stream.clone_dtoh(&copy)?, result);
    let zeros: CudaSlice<u8> = stream.alloc_zeros(77)?;
    assert_eq!(stream.clone_dtoh(&zeros)?, [0; 77]);
    Ok(())
}

fn streams_are_ordered_by_events() -> Result<(), DriverError> {
    let context = CudaContext::new(0)?;
    let (first, second, function) = (context.new_stream()?, context.new_stream()?, scale(&context)?);
    let mut values = first.clone_htod(&[1.0_f32; 64])?;
    launch(&first, &function, &mut values, 2.0, 64)?;
    let event = first.record_event(None)?;
    second.wait(&event)?;
    launch(&second, &function, &mut values, 3.0, 64)?;
    first.join(&second)?;
    assert_eq!(first.clone_dtoh(&values)?, [6.0; 64]);
    assert!(event.is_complete());
    Ok(())
}

fn time_passes_between_events() -> Result<(), DriverError> {
    let context = CudaContext::new(0)?;
    let (stream, function) = (context.new_stream()?, scale(&context)?);
    let mut values = stream.clone_htod(&[1.0_f32; 64])?;
    let start = stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))?;
    launch(&stream, &function, &mut values, 2.0, 64)?;
    let end = stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))?;
    let elapsed = start.elapsed_ms(&end)?;
    assert!(elapsed > 0.0, "{elapsed} ms");
    let untimed = stream.record_event(None)?;
    assert_eq!(untimed.elapsed_ms(&end), Err(DriverError(CUresult::CUDA_ERROR_INVALID_HANDLE)));
    Ok(())
}

fn a_captured_graph_is_replayed() -> Result<(), DriverError> {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    // SAFETY: one stream does everything with this memory.
    unsafe { context.disable_event_tracking() };
    let function = scale(&context)?;
    let mut values = stream.clone_htod(&[1.0_f32; 64])?;
    stream.synchronize()?;
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    launch(&stream, &function, &mut values, 2.0, 64)?;
    launch(&stream, &function, &mut values, 3.0, 64)?;
    let graph = stream.end_capture(sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)?;
    let graph = graph.expect("a graph was captured");
    assert_eq!(stream.clone_dtoh(&values)?, [1.0; 64], "nothing has been executed");
    graph.upload()?;
    graph.launch()?;
    graph.launch()?;
    assert_eq!(stream.clone_dtoh(&values)?, [36.0; 64]);
    Ok(())
}

fn two_gpus_serve_several_threads() -> Result<(), DriverError> {
    std::thread::scope(|scope| {
        let one = |gpu: usize, factor: f32| {
            let context = CudaContext::new(gpu)?;
            let (stream, function) = (context.new_stream()?, scale(&context)?);
            let mut values = stream.clone_htod(&[1.0_f32; 256])?;
            for _ in 0..5 {
                launch(&stream, &function, &mut values, factor, 256)?;
            }
            stream.clone_dtoh(&values)
        };
        let threads: Vec<_> = (0..6).map(|index| scope.spawn(move || one(index % 2, index as f32))).collect();
        for (index, thread) in threads.into_iter().enumerate() {
            let values = thread.join().expect("no panic")?;
            assert_eq!(values, [(index as f32).powi(5); 256], "thread {index}");
        }
        Ok(())
    })
}

fn functions_tell_their_attributes() -> Result<(), DriverError> {
    let context = CudaContext::new(0)?;
    let function = scale(&context)?;
    assert_eq!(function.max_threads_per_block()?, 1024);
    assert_eq!(function.shared_size_bytes()?, 0);
    assert_eq!(function.ptx_version()?, 80);
    assert_eq!(function.binary_version()?, 90);
    let most = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(function.get_attribute(most)?, 48 << 10);
    function.set_attribute(most, 227 << 10)?;
    assert_eq!(function.set_attribute(most, 228 << 10), Err(DriverError(CUresult::CUDA_ERROR_INVALID_VALUE)));
    assert_eq!(function.occupancy_max_active_blocks_per_multiprocessor(128, 0, None)?, 16);
    assert_eq!(function.occupancy_max_active_blocks_per_multiprocessor(128, 100 << 10, None)?, 2);
    Ok(())
}

fn a_short_buffer_fails_the_launch() -> Result<(), DriverError> {
    // A context of its own, since this test destroys it.
    let context = CudaContext::new_non_primary(0, 0)?;
    let (stream, function) = (context.new_stream()?, scale(&context)?);
    let mut values = stream.clone_htod(&[1.0_f32; 64])?;
    launch(&stream, &function, &mut values, 2.0, 65)?;
    let lost = Err(DriverError(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
    assert_eq!(stream.synchronize(), lost);
    assert_eq!(context.synchronize(), lost);
    assert_eq!(stream.clone_dtoh(&values).map(drop), lost);
    drop((values, function, stream, context));
    a_kernel_computes()
}

fn memory_runs_out() -> Result<(), DriverError> {
    let context = CudaContext::new(1)?;
    // SAFETY: nothing is allocated, or the memory is not read.
    let result = unsafe { context.default_stream().alloc::<u8>(17 << 30) };
    assert_eq!(result.err(), Some(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)));
    Ok(())
}

fn ptx_that_is_none_is_refused() -> Result<(), DriverError> {
    let context = CudaContext::new(0)?;
    let refused = context.load_module(Ptx::from_src("this is not PTX")).err();
    assert_eq!(refused, Some(DriverError(CUresult::CUDA_ERROR_INVALID_PTX)));
    let unknown = context.load_module(Ptx::from_src(PTX))?.load_function("nothing").err();
    assert_eq!(unknown, Some(DriverError(CUresult::CUDA_ERROR_NOT_FOUND)));
    Ok(())
}
