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
//! zero; flushing of subnormals; NaN results, which are canonical. `tools/ptx-sim/conformance` holds every form that is
//! executed against results of an H200. Where PTX allows a range of results, this is what is computed:
//! - `.approx` and `.full` forms, `ex2`, `lg2`, `rsqrt`, `sin`, `cos`, `tanh`: the f64 result, rounded once. An H200 stays
//!   within the bound that PTX states;
//! - floating-point `mma` and `wgmma`: bit-exact to an H200 or H100 (`fused_sum`), except `wgmma` of tf32, e4m3 and e5m2, which
//!   follow publications and have not been compared with a recording yet: its rounding differs from that of other
//!   architectures. In `mma`, e4m3 and e5m2 are widened to f16, as `ptxas` does for `sm_90`; f64 is summed one product after
//!   another. Integers and single bits are exact. The layout of a `wmma` fragment over lanes is specific to this simulator;
//! - `rcp.approx.ftz.f64`, `rsqrt.approx.ftz.f64`: the upper half of the f64 result;
//! - NaN results that PTX does not specify: the NaN that an H200 gave. With several f64 NaN operands outside of `mma`, the one that
//!   the host's processor chooses;
//! - integer division by zero: all ones, and the dividend as remainder;
//! - textures: the formulas of the CUDA C++ Programming Guide, with weights of 8 fractional bits. The sum of a linear filter is
//!   rounded once, while a GPU's may differ in its last bits. Channels that a texture lacks are 0;
//! - atomic operations: lanes take effect in lane order, blocks in any order.
//!
//! Diverged lanes run one path at a time, the path at the lowest instruction first, so that they reconverge. After a path has
//! read data that others may change (volatile, relaxed, acquire, atomic) 64 times, another one has its turn. So a lock that
//! lanes of one warp take one after another is handed over, as on every GPU since `sm_70`.
//!
//! As many blocks as fit on the GPU (by threads, shared memory and the multiprocessors of the largest GPU of the architecture;
//! registers are not counted) are resident together and take turns, on any number of host threads. So grid-wide barriers and
//! look-back scans terminate. A block that reads the same from memory again and again lets others go on, however long its loop is.
//! If all resident blocks do so, come back to states in which they were before, and none changes global memory, that is a deadlock.
//! The number of host threads changes no verdict.
//!
//! Threads that exit release barriers for all threads of the block (PTX ISA, "exit"), but not those for a given number of
//! threads. If only some lanes of a warp have exited, it executes an `.aligned` barrier without them, which is a finding. One
//! lane of a warp may invalidate an mbarrier (`mbarrier.inval`) that the others have waited for together with it, as the
//! destructors of libcu++ do.
//!
//! If lanes give different masks to one `shfl.sync`, `vote.sync`, `match.sync`, `redux.sync`, `elect.sync` or `bar.warp.sync`, it
//! is executed mask by mask, each time by the lanes that give that mask.
//!
//! # Clusters
//!
//! The blocks of a cluster run together, in turns on one host thread. The shared memory of the block with rank *r* begins at
//! *r* · 16 MiB of the shared window, as in the addresses that `ptxas` computes for `sm_90a`, so that `mapa` and generic addresses
//! work as they do there. A matrix descriptor has no room for the rank and refers to the own block. The cluster size comes from
//! the launch ([`Options::cluster`]) or the entry (`.reqnctapercluster`). Clusters of 9 to 16 blocks need no
//! permission.
//!
//! `st.async`, `red.async`, bulk copies between blocks and multicast copies take effect when issued, as seen by threads that have
//! waited for the mbarrier that counts them.
//!
//! # Textures and surfaces
//!
//! Supported as objects whose handle is in a register, as nvcc uses them: `tex`, `tld4`, `suld.b`, `sust.b` and queries, with one
//! to three dimensions and layers. [`GlobalMemory::allocate_array`] makes an array, which kernels cannot reach by pointers;
//! [`GlobalMemory::create_texture`] and [`GlobalMemory::create_surface`] make objects. The memory layout of an array is specific to
//! this simulator: row by row. A texture has one level. Accesses to texels are not counted as traffic.
//!
//! # Functions
//!
//! Direct and indirect calls, recursion, local memory and `alloca` are executed. Each call has its own registers and its own frame
//! of local memory; frames are separate allocations, which end with their function. Lanes that call different functions run one
//! after the other, the deepest call first, and reconverge at their return address. An H100 lets them stay diverged from there
//! to the next instruction with a mask, which only `activemask` can observe. A finding lists the active calls of its thread
//! ([`Location::called_from`]).
//!
//! Of the system functions that CUDA's device code calls, these are implemented: `vprintf` ([`Report::printed`]), `__assertfail`
//! (a finding), `malloc` and `free` (on a device heap of 8 MiB, in which every block is a separate allocation). Calls of other
//! functions that the module only declares are refused by name.
//!
//! # What is found
//!
//! - misaligned accesses, by access size, vector width, `cp.async` size and `ldmatrix` row;
//! - accesses out of bounds: red zones surround every buffer and every parameter, freed buffers stay inaccessible, no buffer
//!   lies below 4 GiB, and shared variables begin at 1 KiB, as on a GPU, so that offsets without their base address hit nothing;
//! - writes to parameters;
//! - uninitialised registers and bytes of shared, local and global memory, if something depends on their value
//!   (see below);
//! - accesses to the destination of a `cp.async` before the issuing thread has waited for it, or of a `cp.async.bulk` before
//!   a wait at its mbarrier; changes of the source of a bulk copy that it still reads, or may still read as far as the writer
//!   knows; copies that were never waited for;
//! - accesses to global memory that a bulk copy or reduction from shared memory may not have written yet: only `wait_group` waits
//!   for its writes, `wait_group.read` does not. They are races;
//! - registers of a `wgmma.mma_async` that are accessed before it is waited for, or written since the last
//!   `wgmma.fence`; its shared-memory operands overwritten while it is in flight, or by a thread that is not ordered
//!   after a wait for it;
//! - ordinary writes to shared memory that the async proxy reads or overwrites without a `fence.proxy.async`, and mbarriers
//!   at which it counts without a fence after they were initialised;
//! - reads of shared memory that a bulk copy may overtake, although barriers order the two: before its warp arrives there, no lane
//!   has used a value, other than to move it between registers, and nothing between read and copy executes a
//!   `fence.proxy.async`. A value that is never used is no finding;
//! - data races in shared and global memory (see below);
//! - accesses to global memory, by threads and their copies, without a preceding `griddepcontrol.wait`, in grids that may
//!   begin before the previous one has ended;
//! - barriers that some lanes or warps do not reach (exited threads count as arrived at those for all threads), or reach with
//!   contradicting thread counts; deadlocks;
//! - warp-collective instructions with lanes missing, warpgroup-collective ones (`setmaxnreg`, `wgmma`) with warps missing,
//!   shuffles that read lanes that do not take part, if something depends on that value;
//! - mbarriers that are not initialised, are accessed like ordinary memory, get impossible counts, or whose initialisation or
//!   invalidation races with other uses; waits for a phase that never completes are deadlocks, reported with the arrivals and
//!   bytes that are missing;
//! - in clusters: accesses to the shared memory of a block that may not have begun or may have ended, in this or another
//!   schedule; ranks and masks of blocks that do not exist, plain shared accesses to other blocks' memory, waits at mbarriers of
//!   other blocks, copies whose mbarrier is in another block than their destination; `barrier.cluster.arrive` twice without a wait;
//! - warps that keep more registers, after `setmaxnreg`, than their block can have begun with (`.minnctapersm`, `.maxnreg`);
//! - failing assertions, with their text, file, line and function;
//! - texels that are uninitialised, or written by the same grid: neither textures nor surfaces are coherent with that, even in
//!   order; accesses to surfaces out of bounds (`.trap`) or misaligned; textures of freed memory; invalid handles, of destroyed
//!   objects or of another kind; integer textures read as floating-point and vice versa;
//! - blocks of the device heap used beyond their end or after `free`, double `free`, `free` of other pointers;
//! - indirect calls of something that is not a function, or has another signature; local memory used after its function has
//!   returned; endless recursion;
//! - operands without a defined meaning, traps, endless loops (a limit on instructions, see [`Options`]).
//!
//! After a finding the run continues: a faulty load returns zeros, a faulty store is dropped, a collective instruction executes
//! with the lanes present. Later findings may be consequences of earlier ones. A trap, an endless loop or a deadlock ends the
//! block; the first two also end the other blocks.
//!
//! # What is not seen
//!
//! - A missing fence on the reading side, after an atomic operation or before a barrier of the block.
//! - Races on paths that only another schedule would have taken.
//! - Weak memory ordering: one schedule is executed, in which warps take turns and see each other's writes at once. Values that
//!   only a weaker order could produce do not occur; the race that allows them is found.
//! - Accesses within the right buffer but to the wrong element.
//! - Missing proxy fences other than those between ordinary accesses to shared memory and those of the async proxy. Of writes,
//!   the ones in which another warp wrote, and anything synchronised the block between that write and a fence. A block that
//!   synchronises only by polling ordinary memory needs its fence before that. Of reads, those by `wmma.load`, and all if races
//!   are not looked for.
//! - The order of bulk reductions behind `wait_group.read`, since reductions are atomic with each other.
//! - Registers read, not written, between `wgmma.fence` and a `wgmma` that accumulates into them; registers beyond the limit set
//!   by `setmaxnreg`.
//! - Matrix descriptors with a base offset other than 0, which no test on hardware covers: they are findings.
//! - Between blocks of a cluster: a scope of `.cta` at an mbarrier where `.cluster` is needed, since CUTLASS omits it too; a
//!   missing `fence.proxy.async` behind a write if anything in the cluster has synchronised since.
//! - A missing `fence.proxy.tensormap::generic` between the modification of a tensor map and its use.
//! - Wrong padding of boxes whose rows are shorter than their swizzle span: such tensor maps are refused.
//! - Writes to constant memory through generic addresses.
//! - Texels written by another cluster of the grid and read in order.
//! - Code that is not executed with the given arguments.
//!
//! # Undetermined values
//!
//! Uninitialised values, those of a `shfl` from an absent lane, and values of a load that races with a write, may be loaded, copied, shuffled, computed with and
//! stored to shared and local memory: compilers load before the guard of a value, copy structs including padding, and let the last
//! lanes of a scan compute with garbage. The undetermined bits of a value are tracked, and a finding is made when something
//! depends on them: an address, a branch or a guard, a deciding vote, an atomic operation, the operands of `wgmma`, bulk copies and
//! barriers. It names the read that returned the value, and is made once per read and lane. Which bits of a result depend on
//! which operands is found by trying (`propagate`), so every bit that is called undetermined really is. A store to global memory
//! is not a use: the memory remembers the undetermined bits and the store. What is left at the end of the launch is a result, and a
//! finding at the store. With [`Options::keeps_undetermined`] it becomes one when a later launch depends on it, or when the owner
//! of the memory asks ([`GlobalMemory::take_undetermined`], [`GlobalMemory::take_left`]). Host memory is visible to others at once.
//! Bytes of a copied value that may be padding reach global memory without a finding, and are uninitialised there, too. A race is
//! reported at the read if its value matters; if the read came first, always. Two lanes of a warp that write to the same shared
//! address leave an undetermined value there: their race is reported if it matters. A racing value stays what memory held, on
//! every way that it takes, so that the program goes on as on a GPU.
//!
//! # Races
//!
//! Two accesses to the same byte, at least one of them a write, are a race unless one *happens before* the other. Their order of
//! execution does not matter: one run covers all schedules that take the same branches and compute the same addresses. These
//! order accesses, each tracked with vector clocks for every thread:
//! - program order of one thread. Lanes of a warp are not ordered with each other, not even by `shfl`, `vote`, `mma` or
//!   `ldmatrix`;
//! - `bar`, `barrier`, `barrier.cluster`, mbarriers: what a thread did before arriving happens before what others do after
//!   waiting. A `.relaxed` arrival orders only what an earlier fence published, and a `.relaxed` wait only from the next fence on.
//!   Arriving without waiting orders nothing for the arriving thread;
//! - `bar.warp.sync`, for the lanes of its mask;
//! - a `cp.async` happens after what its thread did before it, and before what that thread does after waiting for it; other
//!   threads need a barrier after the wait. Until then its source must not be written either;
//! - a release observed by an acquire: `st.release`, `ld.acquire`, `atom` and `red` with these, or a fence before a strong
//!   write and a fence after a strong read of the same address. Between blocks of a cluster, both need the scope of the
//!   cluster.
//!
//! Blocks of a cluster are checked like the warps of a block, in shared and in global memory. Two other blocks are ordered if one
//! releases at GPU scope (a fence followed by a strong write, or a releasing strong write) and the other acquires at GPU scope.
//! Accesses of different clusters are compared after these have ended, in the order of their indices, so that reports do not depend
//! on timing unless blocks wait for each other. Two liberties are taken with the PTX memory model, both as in CUDA's own
//! examples: an atomic operation acquires what it observes even without a following fence, and so does a barrier of the block
//! after a strong read; and a strong write releases what any thread of its block has published by a fence before the two
//! synchronised. [`Options::strict`] does not take the first one, whose findings then say so. A release is never invented: without a fence of GPU scope on the writing side, what others read is a race.
//!
//! Strong accesses (atomic, relaxed or stronger) do not race with each other. A volatile store is strong in PTX, but neither
//! atomic nor ordered in CUDA C++: with an unordered volatile or atomic access of another warp it is a finding of its own
//! ([`FindingClass::VolatileRace`]), unless the value is tested by the thread that reads it, which then waits for a flag or takes a
//! lock. A value counts as tested if it reaches a comparison, a guard, a compare-and-swap or a call through registers or through
//! variables of its thread or block. Two writes of the same value are not reported: memory holds the same whichever is last. Bytes of a copy in flight are reported as not waited for, and not also as a
//! race. A plain read that races with a compare-and-swap has its own message, since compare-and-swap loops often begin that
//! way.
//!
//! What cannot be executed is refused by name and line before anything runs ([`LaunchError`]). It is never guessed, and never
//! reported as an error of the kernel. Examples: cubemaps, mipmaps, `.texref` variables, sparse products of warpgroups
//! (`wgmma.mma_async.sp`), `im2col` tensor maps, `multimem`, `tcgen05`.
//!
//! # Where things are
//!
//! From the bottom up, each using only those before it:
//! - `parse` turns text into a syntax tree without knowledge of instructions; `numeric`, `small` and `fused_sum` round; `printf`
//!   formats; `lanes` has masks of a warp's lanes; `unknown` describes undetermined values;
//! - `memory` has the state spaces, arrays of texels and their objects; `race` has the vector clocks and the access history;
//! - `program` is an entry on register slots, without the effects of its instructions; `decode` takes an instruction's modifiers
//!   and operands apart;
//! - `machine` is the state of a running kernel: the launch, its blocks, warps, barriers, mbarriers, and operations in flight;
//! - `context` is an instruction's view of the machine, with every check of its effects (`access`, `asynchronous`, `races`);
//! - `isa` has one file per instruction family, with its types, decoding and execution; `operation` is an instruction of any
//!   family, `entry` decodes a whole entry;
//! - `exec` runs programs: `grid`, `resident` (the blocks on the GPU), `turns` (whose turn it is), `cluster` (one instruction),
//!   `convergence` (divergence, reconvergence, collective instructions), `stall` (deadlocks), `leftovers` (missing waits);
//! - `run` checks a launch and starts it; `architecture` knows the GPUs; `signature` tells what an entry does with its parameters.

#![forbid(unsafe_code)]

mod architecture;
mod cluster_addresses;
mod context;
mod counters;
mod decode;
mod doubt;
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
pub use launch::{BoxLoad, Launch, LaunchError, Options, Report};
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
