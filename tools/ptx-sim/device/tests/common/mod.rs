//! Kernels and what it takes to launch them.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use sim_device::{
    Code, Config, Context, Error, Function, HostWords, Launch, Machine, Messages, Operation, Stream, StreamKind,
};
use tempfile::TempDir;

/// `store` writes 7 to an address; `load` reads one and writes what it read to another; `spin` never ends; `count` adds 1 to
/// a variable of the module and stores the sum; `trap` traps; `shared` uses dynamic shared memory; `bounded` has launch
/// bounds, shared and local memory.
pub const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .b8 counter[4];
.extern .shared .align 16 .b8 dynamic[];
.visible .entry store(.param .u64 to)
{
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [to];
    st.global.u32 [%rd0], 7;
    ret;
}
.visible .entry load(.param .u64 from, .param .u64 to)
{
    .reg .b32 %r<1>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [from];
    ld.param.u64 %rd1, [to];
    ld.global.u32 %r0, [%rd0];
    st.global.u32 [%rd1], %r0;
    ret;
}
.visible .entry add_one(.param .u64 to)
{
    .reg .b32 %r<1>;
    .reg .b64 %rd<1>;
    ld.param.u64 %rd0, [to];
    ld.global.u32 %r0, [%rd0];
    add.u32 %r0, %r0, 1;
    st.global.u32 [%rd0], %r0;
    ret;
}
.visible .entry spin()
{
again:
    bra again;
}
.visible .entry stop()
{
    trap;
}
.visible .entry count(.param .u64 to)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [to];
    mov.u64 %rd1, counter;
    ld.global.u32 %r0, [%rd1];
    add.u32 %r0, %r0, 1;
    st.global.u32 [%rd1], %r0;
    st.global.u32 [%rd0], %r0;
    ret;
}
.visible .entry shared()
{
    st.shared.u32 [dynamic], 1;
    ret;
}
.visible .entry bounded(.param .u32 first, .param .u64 second)
.maxntid 640, 1, 1
{
    .local .align 8 .b8 depot[24];
    .shared .align 4 .b8 tile[4096];
    st.shared.u32 [tile], 1;
    ret;
}
.visible .entry unsupported()
{
    .reg .b32 %r<1>;
    nosuchinstruction.b32 %r0;
    ret;
}
";

/// A machine whose messages go to a file.
pub struct Bench {
    pub machine: Arc<Machine>,
    folder: TempDir,
}

impl Bench {
    pub fn new(gpus: u32) -> Self {
        Self::with(Config { gpus, ..Config::default() })
    }

    pub fn with(config: Config) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::new(Config { messages: Messages::File(folder.path().join("messages")), ..config });
        Self { machine, folder }
    }

    /// The messages written so far.
    pub fn messages(&self) -> String {
        let path: PathBuf = self.folder.path().join("messages");
        std::fs::read_to_string(path).unwrap_or_default()
    }

    pub fn context(&self, gpu: u32) -> Arc<Context> {
        self.machine.create_context(gpu, 0).unwrap()
    }
}

pub fn function(context: &Arc<Context>, name: &str) -> Arc<Function> {
    context.load(PTX, Some("test.ptx")).unwrap().function(name).unwrap()
}

pub fn stream(context: &Arc<Context>) -> Arc<Stream> {
    Stream::new(context, StreamKind::Created, false, 0).unwrap()
}

/// One thread of a kernel, with addresses as arguments.
pub fn one_thread(function: &Arc<Function>, arguments: &[u64]) -> Launch {
    Launch {
        function: function.clone(),
        grid: [1; 3],
        block: [1; 3],
        dynamic_shared_bytes: 0,
        overlaps_previous: false,
        cooperative: false,
        cluster: None,
        parameters: arguments.iter().map(|argument| argument.to_le_bytes().to_vec()).collect(),
    }
}

/// Submits one thread of a kernel.
pub fn submit(stream: &Stream, name: &str, arguments: &[u64]) -> Result<(), Error> {
    let function = function(stream.context(), name);
    stream.submit(Operation::Launch(one_thread(&function, arguments)))
}

/// Host memory accessible to kernels.
struct Host(Vec<AtomicU64>);

impl HostWords for Host {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// So many bytes of the host's memory.
pub fn host_memory(bytes: u64) -> Option<Arc<dyn HostWords>> {
    Some(Arc::new(Host((0..bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect())))
}

pub fn read_u32(context: &Context, address: u64) -> u32 {
    let mut bytes = [0; 4];
    context.read(address, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

/// The code of an error; success otherwise.
pub fn code<T>(result: Result<T, Error>) -> Code {
    result.err().map_or(Code::SUCCESS, |error| error.code)
}

#[track_caller]
pub fn assert_says<T>(result: Result<T, Error>, code: Code, expected: &str) {
    let error = result.err().expect("an error");
    assert_eq!(error.code, code, "{error}");
    assert!(error.to_string().contains(expected), "{error}");
}
