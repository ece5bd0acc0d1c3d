//! Tests of the executor on a GPU, or on the simulated driver.
//!
//! To run the first kind on a machine without cargo, copy the library's test binary there and run it with the filter
//! `executor::gpu`. With `FA512_REQUIRE_GPU=1` in the environment, a missing GPU is a failure.

mod on_device;
mod simulated;

use std::ffi::OsStr;
use std::mem::offset_of;
use std::process::Command;

use contract::args::{ForwardArgs, TensorMaps};
use contract::config::Mask;
use contract::plan::{Addresses, Launch, Plan};
use contract::problem::{Problem, Shape};
use contract::variants::{VARIANTS, Variant};
use contract::view::Layout;

use super::GpuExecutor;
use super::kernel::{Argument, Kernel};
use crate::error::{Error, Result};
use crate::executor::{Buffer, Executor};
use crate::ptx_module::PtxModule;

/// If set, a missing GPU is a failure.
const REQUIRE_GPU: &str = "FA512_REQUIRE_GPU";

/// Runs this test binary again with `filter` and changed environment variables.
fn run_alone(filter: &str, arguments: &[&str], variables: &[(&str, &OsStr)]) {
    let program = std::env::current_exe().unwrap();
    let filter = format!("{}::{filter}", module_path!().split_once("::").unwrap().1);
    let output = Command::new(program).arg(&filter).args(arguments).envs(variables.iter().copied()).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(output.status.success() && !printed.contains(" 0 passed"), "{filter}: {}\n{printed}", output.status);
}

/// Code, action and detail of a driver error.
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
    PtxModule::new("probe.ptx", include_str!("tests/probe.ptx"))
}

/// Launches `store_byte` of probe.ptx, with `shared` bytes of unused dynamic shared memory.
fn store_byte(gpu: &GpuExecutor, address: u64, value: u32, shared: u32) -> Result<()> {
    let arguments = [Argument::of(&address), Argument::of(&value)];
    let kernel = Kernel { dynamic_shared_bytes: shared, ..store_byte_of(&arguments) };
    run(gpu, &kernel)
}

/// Runs `kernel`, which must be `store_byte`. The driver compares the arguments with the parameters.
fn run(gpu: &GpuExecutor, kernel: &Kernel) -> Result<()> {
    let function = gpu.prepare(kernel)?;
    // SAFETY: the sizes of the arguments were compared with those of the parameters.
    gpu.run(kernel.running(), || Ok(unsafe { kernel.submit(function, &gpu.stream) }?))
}

/// The launch of `store_byte` with these arguments.
fn store_byte_of<'a>(arguments: &'a [Argument<'a>]) -> Kernel<'a> {
    Kernel { entry: "store_byte", blocks: 1, threads: 32, dynamic_shared_bytes: 0, arguments }
}

/// A launch for a one-row problem, with its tensors.
struct Planned {
    launch: Launch<'static>,
    o: Buffer,
}

/// The variant with the fewest threads that has, or does not have, tensor maps.
fn variant(tensor_maps: bool) -> &'static Variant<'static> {
    let wanted = |variant: &&Variant<'_>| {
        variant.waits_for_previous_grid == tensor_maps && variant.mask == Mask::Full && variant.sequence.accepts(1)
    };
    VARIANTS.iter().filter(wanted).min_by_key(|variant| variant.config.threads()).expect("there is one")
}

/// A launch of `variant` on tensors of `gpu`.
fn planned(gpu: &mut GpuExecutor, variant: &Variant<'static>) -> Planned {
    let problem = Problem::new(Shape::new(1, 1, 1), Mask::Full, Layout::Bhsd).unwrap();
    let plan = Plan::new(&problem, *variant, &gpu.device().gpu()).unwrap();
    let [q, k, v, o] = ["Q", "K", "V", "O"].map(|name| gpu.allocate(name, 128).unwrap());
    let addresses = Addresses::new(q.address, k.address, v.address, o.address);
    let mut launch = plan.bind(addresses).unwrap();
    gpu.complete(&mut launch).unwrap();
    Planned { launch, o }
}

/// PTX with a substitute for the kernel of `variant`, which writes 7 to the first byte of O and takes `extra` more
/// bytes than it should.
fn stand_in(variant: &Variant<'_>, extra: usize) -> PtxModule {
    let (entry, offset) = (variant.entry, offset_of!(ForwardArgs, o));
    let args = size_of::<ForwardArgs>() + extra;
    let (target, maps, wait) = match variant.waits_for_previous_grid {
        true => {
            let maps = format!(", .param .align 64 .b8 maps[{}]", size_of::<TensorMaps>());
            ("sm_90", maps, "griddepcontrol.wait;")
        }
        false => ("sm_80", String::new(), ""),
    };
    let text = format!(
        ".version 8.0\n.target {target}\n.address_size 64\n\
         .visible .entry {entry}(.param .align 8 .b8 args[{args}]{maps})\n\
         {{\n\
         .reg .b64 %address<3>;\n.reg .b32 %thread;\n.reg .b32 %seven;\n.reg .pred %first;\n\
         {wait}\n\
         mov.u32 %thread, %tid.x;\nsetp.eq.u32 %first, %thread, 0;\nmov.u32 %seven, 7;\n\
         ld.param.u64 %address1, [args+{offset}];\ncvta.to.global.u64 %address2, %address1;\n\
         @%first st.global.u8 [%address2], %seven;\nret;\n\
         }}\n"
    );
    PtxModule::new(format!("{entry}.ptx"), text)
}

/// Runs a kernel with programmatic dependent launch, without a previous kernel, alone and in a graph.
fn launch_early(gpu: &mut GpuExecutor) {
    let variant = variant(true);
    gpu.load(&stand_in(variant, 0)).unwrap();
    let Planned { launch, o } = planned(gpu, variant);
    assert!(launch.overlaps_previous());
    let mut byte = [0];
    gpu.launch(&launch).unwrap();
    gpu.read(o, &mut byte).unwrap();
    assert_eq!(byte, [7]);
    on_device::take_a_sample(gpu, &[launch], o, true);
}
