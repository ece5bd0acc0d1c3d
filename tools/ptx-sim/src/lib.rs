//! Executes PTX on the CPU and reports what is wrong with it: Miri for PTX.
//!
//! A [`Module`] is parsed from PTX text. [`run()`] executes one of its entries on buffers in a [`GlobalMemory`], blocks in
//! parallel, each warp as 32 lanes, and returns a [`Report`]: what is wrong with the kernel ([`Finding`]) and what the
//! hardware would have done ([`Counters`]). No GPU, driver or CUDA is needed.
//!
//! ```
//! let text = "
//! .version 8.0
//! .target sm_80
//! .address_size 64
//! .visible .entry square(.param .u64 values)
//! {
//!     .reg .b32 %r<2>;
//!     .reg .b64 %rd<3>;
//!     ld.param.u64 %rd0, [values];
//!     mov.u32 %r0, %tid.x;
//!     mul.wide.u32 %rd1, %r0, 4;
//!     add.u64 %rd2, %rd0, %rd1;
//!     ld.global.u32 %r1, [%rd2];
//!     mul.lo.u32 %r1, %r1, %r1;
//!     st.global.u32 [%rd2], %r1;
//!     ret;
//! }";
//! let module = ptx_sim::Module::parse(text, "square.ptx")?;
//! let mut memory = ptx_sim::GlobalMemory::new();
//! let values = memory.allocate("values", 8)?;
//! memory.write(values, &[3, 0, 0, 0, 4, 0, 0, 0])?;
//! let launch = ptx_sim::Launch {
//!     entry: "square",
//!     grid: [1, 1, 1],
//!     block: [2, 1, 1],
//!     dynamic_shared_bytes: 0,
//!     params: &[&values.to_le_bytes()],
//!     architecture: 80,
//! };
//! let report = ptx_sim::run(&module, &mut memory, &launch, &ptx_sim::Options::default())?;
//! assert!(report.findings.is_empty());
//! let mut squares = [0; 8];
//! memory.read(values, &mut squares)?;
//! assert_eq!(squares, [9, 0, 0, 0, 16, 0, 0, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is exact
//!
//! Every result that PTX defines is reproduced to the bit: integer instructions; `add`, `sub`, `mul`, `fma`, `div`, `rcp`,
//! `sqrt` in every rounding mode that is supported; conversions; minimum and maximum with their rules for NaN and signed
//! zero; flushing of subnormals; NaN results, which are canonical. `tools/ptx-conformance` holds every form that is
//! executed against results of an H200. Where PTX allows a range of results, this is what is computed:
//! - `.approx` and `.full` forms, `ex2`, `lg2`, `rsqrt`, `sin`, `cos`, `tanh`: the f64 result, rounded once. An H200 stays
//!   within the bound that PTX states;
//! - `mma` and `wgmma` of floating-point numbers: what an H200 or H100 computes, to the bit (`fused_sum`), but for `wgmma` of tf32,
//!   e4m3 and e5m2, which are what has been published of it and wait for a recording: its rounding is not
//!   that of other architectures. e4m3 and e5m2 are widened to halves, as `ptxas` does it for `sm_90`; f64 is summed one product
//!   after the other. Integers and single bits are exact. Which lane holds what of a `wmma` fragment is this simulator's choice;
//! - `rcp.approx.ftz.f64`, `rsqrt.approx.ftz.f64`: the upper half of the f64 result;
//! - NaN where PTX leaves open which: the one an H200 gave. Where several NaN of f64 meet outside of `mma`, the one that the
//!   host's processor chooses;
//! - integer division by zero: all ones, and the dividend as remainder;
//! - textures: the formulas of the CUDA C++ Programming Guide, with weights of 8 bits behind the point; the sum of a linear
//!   filter is rounded once, where a GPU's may differ in its last bits. Channels that a texture does not have are 0;
//! - atomic operations: lanes take effect in lane order, blocks in any order.
//!
//! Lanes that went different ways run one path at a time, the one at the lowest instruction first, so that they meet again.
//! When a path has read what others may change (volatile, relaxed, acquire, atomic) 64 times, another one has a turn: a lock
//! that lanes of one warp take one after the other is passed on, as on every GPU since `sm_70`.
//!
//! As many blocks as fit the GPU (by threads, shared memory and the multiprocessors of the largest GPU of the architecture;
//! registers are not counted) are resident together and go on in turns, on any number of threads: barriers of a whole grid and
//! scans that look back end. When all of them read the same of global memory again and again, and nobody changes it, that is a
//! deadlock.
//!
//! Threads that exit release the barriers that wait for all threads of the block (PTX ISA, "exit"), but not
//! those for a number of threads. A warp of which only some lanes exited executes an `.aligned` barrier without them, which is
//! a finding. One lane of a warp may end an mbarrier (`mbarrier.inval`) that the others have waited for together with it, as
//! the destructors of libcu++ do.
//!
//! Lanes that give different masks to one `shfl.sync`, `vote.sync`, `match.sync`, `redux.sync`, `elect.sync` or
//! `bar.warp.sync` execute it mask by mask, each time with the lanes that give the same one.
//!
//! # Clusters
//!
//! The blocks of a cluster run together, in turns on one thread. The shared memory of the block with rank *r* begins at *r* · 16 MiB
//! of the shared window, as `ptxas` computes addresses for `sm_90a`, so that `mapa` and generic addresses work as they do there; a matrix descriptor has no room
//! for the rank and means the own block. A launch names the size of its clusters ([`Options::cluster`]) or the entry does
//! (`.reqnctapercluster`). More than 8 blocks, up to 16, need no permission.
//!
//! `st.async`, `red.async`, bulk copies between blocks and multicast copies take effect when they are issued, as far as anybody sees who
//! has waited for the mbarrier that counts them.
//!
//! # Textures and surfaces
//!
//! As objects whose handle is in a register, as nvcc uses them: `tex`, `tld4`, `suld.b`, `sust.b` and queries, of one to three
//! dimensions and of layers. [`GlobalMemory::allocate_array`] makes an array, which no pointer of a kernel reaches,
//! [`GlobalMemory::create_texture`] and [`GlobalMemory::create_surface`] make objects. How an array lies in memory is this
//! simulator's choice: row after row. A texture has one level. Traffic to texels is not counted.
//!
//! # Functions
//!
//! Calls, direct and through pointers, recursion, local memory and `alloca` are executed as they stand. Each call has registers
//! and a frame of local memory of its own; frames lie apart, and end with their function. Lanes that call different functions
//! run one after the other, the deepest call first, and meet again where they return to. An H100 lets them go on apart from
//! there to the next instruction with a mask, which only `activemask` shows. A finding shows the calls that its
//! thread is in ([`Location::called_from`]).
//!
//! Of what CUDA's device code calls of the system there are `vprintf` ([`Report::printed`]), `__assertfail` (a finding),
//! `malloc` and `free` (a device heap of 8 MiB, in which every block is an allocation of its own). Calls of other functions
//! that the module only declares are refused by name.
//!
//! # What is found
//!
//! - misaligned accesses, by access size, vector width, `cp.async` size and `ldmatrix` row;
//! - accesses out of bounds: red zones surround every buffer and every parameter, freed buffers stay forbidden, no buffer
//!   lies below 4 GiB, and shared variables begin at 1 KiB, as on a GPU, so that addresses that lack their base are nobody's;
//! - writes to parameters;
//! - values that nothing wrote, of registers and of bytes of shared, local and global memory, where something depends on them
//!   (see below);
//! - bytes read or written while a `cp.async` to them has not been waited for by the thread that issued it, or a
//!   `cp.async.bulk` by somebody at its mbarrier; bytes changed that a bulk copy still reads, or may still read
//!   as far as whoever changes them knows; copies never waited for;
//! - registers used by a `wgmma.mma_async` that are touched before it is waited for, or written since the last
//!   `wgmma.fence`; its operands in shared memory overwritten while it is in flight, or by somebody
//!   whom no wait for it reaches;
//! - ordinary writes to shared memory that the async proxy reads or overwrites without a `fence.proxy.async`, and mbarriers
//!   at which it counts without a fence after they were initialised;
//! - data races in shared and global memory (see below);
//! - accesses to global memory, by threads and by their copies, that no `griddepcontrol.wait` comes before, in grids that may
//!   begin before the one in front of them has ended;
//! - barriers that some lanes or warps do not reach (those for all threads count the ones that exited), or reach with contradicting thread counts; deadlocks;
//! - warp-collective instructions with lanes missing, those of warpgroups (`setmaxnreg`, `wgmma`) with warps missing, shuffles
//!   that read lanes that take no part;
//! - mbarriers that are not initialised, accessed like ordinary memory, or whose counts become impossible, and those whose
//!   beginning or end races with their other uses; waits for a phase that never ends are deadlocks, with the arrivals and
//!   bytes each phase still waits for;
//! - in clusters: accesses to the shared memory of a block that may not have begun or may have ended, in this or another schedule;
//!   ranks and masks of blocks that are not there, plain shared accesses to the memory of other blocks, mbarriers of other blocks that
//!   are waited for, copies whose mbarrier is in another block than what they write; `barrier.cluster.arrive` twice without a wait;
//! - warps that keep more registers, after `setmaxnreg`, than their block can have begun with (`.minnctapersm`, `.maxnreg`);
//! - assertions that fail, with their text, file, line and function;
//! - texels that nothing wrote, or that the same grid wrote: neither textures nor surfaces see that, even in order; accesses to
//!   surfaces out of bounds (`.trap`) or not aligned; textures of memory that was freed; handles of no object, of one that was
//!   destroyed, or of one of another kind; textures of integers read as floating-point numbers and the other way round;
//! - blocks of the device heap used beyond their end or after they were freed, freed twice or never given;
//! - calls of what is no function, or one of another kind; local memory used after its function has returned; recursion
//!   without an end;
//! - operands without a meaning, traps, endless loops (a limit on instructions, see [`Options`]).
//!
//! After a finding the run goes on: a faulty load gives zeros, a faulty store is dropped, a collective instruction
//! executes with the lanes there are. Later findings may then follow from earlier ones. A trap, an endless loop or a
//! deadlock ends the block; the first two end the other blocks as well.
//!
//! # What is not seen
//!
//! - A missing fence on the side that reads, behind an atomic operation or before a barrier of the block.
//! - Races of control flow that another schedule would have taken.
//! - Memory ordering: one schedule is executed, in which warps take turns and see each other's writes at once. Values that
//!   only a weaker order could give are never seen; the race that allows them is.
//! - Accesses within the right buffer but to the wrong element.
//! - Missing proxy fences other than those between ordinary writes to shared memory and what the async proxy does there;
//!   of those, the ones where another warp wrote and anything synchronised the block between that write and a fence. A
//!   block that synchronises by polling ordinary memory only needs its fence before that.
//! - Reads of global memory that a bulk store of the same thread may not have written yet: `wait_group.read` counts as
//!   `wait_group`.
//! - Registers read, not written, between `wgmma.fence` and a `wgmma` that accumulates into them; registers beyond what
//!   `setmaxnreg` left.
//! - Matrix descriptors with a base offset other than 0, which no test on hardware covers: they are findings.
//! - Between blocks of a cluster: a scope of `.cta` at an mbarrier, where `.cluster` is needed, as CUTLASS leaves it out too; a missing
//!   `fence.proxy.async` where anything in the cluster synchronised since.
//! - A missing `fence.proxy.tensormap::generic` between the change of a tensor map and its use.
//! - Wrong padding of boxes whose rows are shorter than those of their swizzle: such tensor maps are refused.
//! - Writes to constant memory through generic addresses.
//! - Texels read that another cluster of the grid wrote, where something orders the two.
//! - What the program never executes with these arguments.
//!
//! # Values that nobody wrote
//!
//! What was never written, and what a plain load reads while another thread writes it, may be loaded, copied, shuffled, computed
//! with and stored to shared and local memory: compilers load before the guard of a value, copy structs with the padding
//! between their members, and let the last lanes of a scan compute with nothing. Which bits of a value are undetermined moves
//! along, and a finding is made where something depends on them: an address, a branch or a guard, a vote that decides, an atomic
//! operation, the operands of `wgmma`, bulk copies and barriers. It names the read that gave the value, and is made once for each
//! read of a lane. Which bits of a result depend on which of the operands is tried (`propagate`): what is called undetermined is.
//! A store to global memory makes no use of a value: it is remembered there, bit by bit, with the store. What is left at the end of
//! the launch is a result, and a finding at the store. With [`Options::keeps_undetermined`] it is one where a later launch depends
//! on it, or when whoever owns the memory asks ([`GlobalMemory::take_undetermined`], [`GlobalMemory::take_left`]). Memory of the
//! host is seen by others at once. Bytes of a copied value that may be padding reach global memory without a finding, and are unwritten
//! there too. A race is reported where it read, if the value matters; one whose read came first is always reported. Two lanes of a
//! warp that write to one place of shared memory leave an undetermined value there: their race is reported if it matters.
//!
//! # Races
//!
//! Two accesses to the same byte, at least one of them a write, are a race unless one *happens before* the other. What was
//! executed first does not matter: one run speaks for all schedules that take the same branches and compute the same
//! addresses. What orders accesses, each with vector clocks for every thread:
//! - program order of one thread. Lanes of a warp are not ordered with each other, not even by `shfl`, `vote`, `mma` or
//!   `ldmatrix`;
//! - `bar`, `barrier`, `barrier.cluster`, mbarriers: what a thread did before arriving comes before what others do after waiting.
//!   A `.relaxed` arrival orders what a fence announced before it, and a `.relaxed` wait at the next fence.
//!   Arriving without waiting orders nothing for the thread that arrives;
//! - `bar.warp.sync`, for the lanes of its mask;
//! - a `cp.async` comes after what its thread did before it, and before what that thread does after waiting for it; other
//!   threads need a barrier after the wait. Until then its source must not be written either;
//! - a release that an acquire has seen: `st.release`, `ld.acquire`, `atom` and `red` with these, or a fence before a strong
//!   write and a fence after a strong read of the same address. Between blocks of a cluster, the scope of both has to reach the
//!   cluster.
//!
//! Blocks of a cluster are checked like the warps of a block, in shared and in global memory. Two other blocks are ordered by what one releases at the scope of the GPU (a fence and then a strong write, or a strong write that
//! releases) and the other acquires there; what blocks do is compared once they have ended, in the order of their indices, so
//! that reports of kernels whose blocks do not wait for each other do not depend on timing. Two liberties are taken with the
//! PTX memory model, both as CUDA's own examples take them: an atomic operation acquires what it has seen also without a fence
//! behind it, and so does a barrier of the block behind a strong read; and a strong write releases what any thread of its
//! block has published by a fence before the two synchronised. A release is never invented: without a fence of the GPU's scope
//! on the side that writes, what others read is a race.
//!
//! Strong accesses (atomic, volatile, relaxed or stronger) do not race with each other. Two plain writes of the same value
//! are not reported: whichever is last, the memory holds the same. Bytes of a copy in flight are reported as not waited
//! for, and not as a race too. A plain read that races with a compare-and-swap is a race with words of its own: loops of
//! compare-and-swap are often begun so.
//!
//! What cannot be executed is refused by name and line before anything runs ([`LaunchError`]), never guessed, and never
//! reported as an error of the kernel: cubemaps, mipmaps, `.texref` variables, sparse products of warpgroups
//! (`wgmma.mma_async.sp`), `im2col` tensor maps, `multimem`, `tcgen05` among others.
//!
//! # Where things are
//!
//! From the bottom up, each knowing only those before it:
//! - `parse` turns text into a syntax tree that knows no instruction; `numeric`, `small` and `fused_sum` round; `printf` formats;
//!   `lanes` are those of a warp; `unknown` describes values that nobody wrote;
//! - `memory` holds the state spaces, arrays of texels and the objects that lead to them; `race` has the vector clocks and what is remembered of accesses;
//! - `program` is an entry on register slots, but for what its instructions do; `decode` takes an instruction's modifiers and
//!   operands apart;
//! - `machine` is what a kernel runs on: the launch, its blocks, warps, barriers, mbarriers, and what is in flight;
//! - `context` is what an instruction sees of it, with every check of what it does there (`access`, `asynchronous`, `races`);
//! - `isa` has one file for each instruction family, with its types, decoding and execution; `operation` is one of any family,
//!   `entry` decodes all of an entry;
//! - `exec` runs programs: `grid`, `resident` (the blocks on the GPU), `turns` (whose turn it is), `block` (one instruction), `convergence` (lanes that part and
//!   meet, and collective instructions), `stall` (deadlocks), `leftovers` (what nobody waited for);
//! - `run` checks a launch and starts it; `architecture` knows the GPUs; `signature` tells what an entry does with its parameters.

#![forbid(unsafe_code)]

mod architecture;
mod cluster_addresses;
mod context;
mod counters;
mod decode;
mod exec;
mod finding;
mod fused_sum;
mod fused_sums;
mod isa;
mod lane_accesses;
mod lane_function;
mod lanes;
mod launch;
mod machine;
mod memory;
mod module;
mod numeric;
mod parse;
mod printf;
mod program;
mod race;
mod run;
mod signature;
mod small;
mod source_location;
mod unknown;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use architecture::parse_architecture;
pub use counters::Counters;
pub use finding::{CallSite, Finding, FindingClass, LaneAddress, Location, OtherAccess};
pub use isa::{expand_forms, lanewise_forms};
pub use launch::{Launch, LaunchError, Options, Report};
pub use memory::{
    AddressMode, Allocation, Channel, Filter, Geometry, GlobalMemory, HostWords, MemoryError, Sampler, Swizzle,
    TENSOR_MAP_BYTES, TensorElement, TensorMap, TexelFormat, Texels, Texture, Undetermined, UndeterminedStore,
};
pub use module::{Module, Parameter};
pub use parse::ParseError;
pub use program::ModuleVariable;
pub use race::{Engine, GlobalAccess, Unfinished};
pub use run::{check, run};
pub use signature::Use;
pub use source_location::SourceLocation;
