//! Measures the CPU time of a call, and checks that calls work from many threads and under graph capture:
//! `cargo run --release -p fa512 --example call_cost [CALLS]`, on a machine with a GPU.
//!
//! Times are medians over CALLS calls (10,000 unless given), beside a launch of an empty kernel. The stream is
//! synchronised between batches, so that no call waits for room in its queue.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys::{self, CUlaunchConfig, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};
use fa512::{Addresses, Gpu, Layout, Mask, Options, Plan, Problem, Shape, Stream};

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Calls between two synchronisations of the stream.
const BATCH: usize = 50;
const EMPTY: &str = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry empty() { ret; }\n";
const SHAPE: Shape = Shape::new(1, 8, 512);
const ELEMENTS: usize = 8 * 512 * 64;

/// The tensors of a call, on a stream of their own.
struct Call {
    stream: Arc<CudaStream>,
    inputs: [CudaSlice<u16>; 3],
    o: CudaSlice<u16>,
}

impl Call {
    fn new(context: &Arc<CudaContext>, seed: u32) -> Result<Self> {
        let stream = context.new_stream()?;
        // fp16 between 0.5 and 1, different for each seed.
        let values = |which: u32| -> Vec<u16> {
            let hash = |index: u32| (index ^ which ^ seed << 8).wrapping_mul(0x9e37_79b9) >> 22;
            (0..ELEMENTS as u32).map(|index| 0x3800 | hash(index) as u16).collect()
        };
        let inputs = [stream.clone_htod(&values(1))?, stream.clone_htod(&values(2))?, stream.clone_htod(&values(3))?];
        let o = stream.alloc_zeros(ELEMENTS)?;
        stream.synchronize()?;
        Ok(Self { stream, inputs, o })
    }

    fn addresses(&self) -> Addresses {
        let [q, k, v] = [0, 1, 2].map(|index| self.inputs[index].device_ptr(&self.stream).0);
        Addresses::new(q, k, v, self.o.device_ptr(&self.stream).0)
    }

    fn raw(&self) -> Stream {
        Stream::from_raw(self.stream.cu_stream().cast())
    }

    fn output(&self) -> Result<Vec<u16>> {
        Ok(self.stream.clone_dtoh(&self.o)?)
    }
}

fn main() -> Result {
    let calls = std::env::args().nth(1).map_or(Ok(10_000), |argument| argument.parse())?;
    let calls = std::num::NonZeroUsize::new(calls).ok_or("CALLS is 0")?.get();
    let context = CudaContext::new(0)?;
    context.bind_to_thread()?;
    let call = Call::new(&context, 0)?;
    let problem = Problem::new(SHAPE, Mask::Full, Layout::Bhsd)?;
    fa512::warm_up(&[problem])?;
    println!("{}: {}", context.name()?, fa512::supports(&problem, &Gpu::current()?)?.reason);
    for _ in 0..2 {
        costs(&call, &problem, calls)?;
    }
    let expected = graph(&call, &problem)?;
    println!("a graph of two calls, replayed twice: as without");
    threads(&context, &problem, &expected, calls)?;
    println!("8 threads on 8 streams, up to 200 calls each: every output as by one thread");
    Ok(())
}

fn costs(call: &Call, problem: &Problem, calls: usize) -> Result {
    let (addresses, stream, options) = (call.addresses(), call.raw(), Options::default());
    let gpu = Gpu::current()?;
    let launch = Plan::new(problem, &gpu)?.bind(addresses)?;
    let function = empty_kernel()?;
    let config = CUlaunchConfig {
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 32,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        hStream: call.stream.cu_stream(),
        attrs: std::ptr::null_mut(),
        numAttrs: 0,
    };
    time(call, calls, "cuLaunchKernelEx of an empty kernel", || {
        // SAFETY: the kernel takes no arguments, and its module is loaded.
        let code = unsafe { sys::cuLaunchKernelEx(&config, function, std::ptr::null_mut(), std::ptr::null_mut()) };
        Ok(code.result()?)
    })?;
    time(call, calls, "fa512::forward", || {
        // SAFETY: the tensors live as long as `call`, and `time` synchronises.
        Ok(unsafe { fa512::forward(problem, addresses, stream) }?)
    })?;
    let unchecked = options.check_pointers(false);
    time(call, calls, "fa512::forward, no pointer checks", || {
        // SAFETY: as above.
        Ok(unsafe { fa512::forward_with(problem, addresses, stream, unchecked) }?)
    })?;
    time(call, calls, "Plan::new, bind and launch", || {
        let launch = Plan::new(black_box(problem), &gpu)?.bind(addresses)?;
        // SAFETY: as above.
        Ok(unsafe { launch.launch(stream) }?)
    })?;
    time(call, calls, "Launch::launch", || {
        // SAFETY: as above.
        Ok(unsafe { launch.launch(stream) }?)
    })
}

/// An empty kernel, as a `CUfunction`.
fn empty_kernel() -> Result<sys::CUfunction> {
    let text = std::ffi::CString::new(EMPTY)?;
    let (mut module, mut function) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the text ends in NUL, and the results go to two live variables.
    unsafe {
        sys::cuModuleLoadData(&mut module, text.as_ptr().cast()).result()?;
        sys::cuModuleGetFunction(&mut function, module, c"empty".as_ptr()).result()?;
    }
    Ok(function)
}

fn time(call: &Call, calls: usize, name: &str, mut submit: impl FnMut() -> Result) -> Result {
    let mut samples = Vec::with_capacity(calls);
    let warm_up = calls / 10;
    for index in 0..calls + warm_up {
        if index % BATCH == 0 {
            call.stream.synchronize()?;
        }
        let begin = Instant::now();
        submit()?;
        let elapsed = begin.elapsed();
        if index >= warm_up {
            samples.push(elapsed.as_secs_f64() * 1e6);
        }
    }
    call.stream.synchronize()?;
    samples.sort_by(f64::total_cmp);
    let [median, low, high] = [calls / 2, calls / 20, calls - 1 - calls / 20].map(|index| samples[index]);
    println!("Rust  {name:<36} median {median:6.2} us, 5 % {low:6.2}, 95 % {high:6.2}");
    Ok(())
}

/// Captures two calls, replays them, and returns what they computed.
fn graph(call: &Call, problem: &Problem) -> Result<Vec<u16>> {
    let (addresses, stream) = (call.addresses(), call.raw());
    // SAFETY: the tensors live as long as `call`.
    let forward = || unsafe { fa512::forward(problem, addresses, stream) };
    forward()?;
    let expected = call.output()?;
    let mut cleared = vec![0u16; ELEMENTS];
    // SAFETY: O is as large as `cleared`; the copy synchronises.
    unsafe { sys::cuMemcpyHtoD_v2(addresses.o, cleared.as_ptr().cast(), ELEMENTS * 2).result()? };
    let capture = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    call.stream.begin_capture(capture)?;
    forward()?;
    forward()?;
    let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = call.stream.end_capture(flags)?.ok_or("no graph")?;
    for _ in 0..2 {
        graph.launch()?;
        call.stream.synchronize()?;
        cleared.copy_from_slice(&call.output()?);
        if cleared != expected {
            return Err("a replayed graph gives another output".into());
        }
    }
    Ok(expected)
}

/// Makes calls from eight threads on eight streams; every second stream has the inputs of `expected`.
fn threads(context: &Arc<CudaContext>, problem: &Problem, expected: &[u16], calls: usize) -> Result {
    let single = |seed: u32| -> Result<Vec<u16>> {
        let call = Call::new(context, seed)?;
        // SAFETY: the tensors live until the output was read.
        unsafe { fa512::forward(problem, call.addresses(), call.raw()) }?;
        call.output()
    };
    let other = single(1)?;
    if other == expected {
        return Err("two inputs give one output".into());
    }
    std::thread::scope(|scope| {
        let workers = (0..8).map(|index| {
            let expected = if index % 2 == 0 { expected } else { &other };
            scope.spawn(move || -> Result<(), String> {
                context.bind_to_thread().map_err(|error| error.to_string())?;
                let call = Call::new(context, index % 2).map_err(|error| error.to_string())?;
                for _ in 0..calls.min(200) {
                    // SAFETY: the tensors live until the output was read.
                    let done = unsafe { fa512::forward(problem, call.addresses(), call.raw()) };
                    done.map_err(|error| error.to_string())?;
                }
                let output = call.output().map_err(|error| error.to_string())?;
                if output == expected { Ok(()) } else { Err(format!("thread {index} has another output")) }
            })
        });
        let workers: Vec<_> = workers.collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic").map_err(Into::into))
    })
}
