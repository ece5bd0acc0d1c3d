//! What the `# Safety` sections and `SAFETY` comments of the kernels promise. Only documentation.
//!
//! An instruction of a warp, a warpgroup or a block hangs, or does something else, if some of its threads are elsewhere. The compiler does
//! not check that they come together, and no value can stand for it: a token would be copied into both arms of a branch. So each `unsafe`
//! function names what its caller must know, with one of four names, and what is particular to it:
//!
//! * **Warp together**: all 32 lanes of the warp call the function at the same time, with arguments of which those that decide about
//!   branches are the same in all lanes. What the lanes differ in is the [`Lane`](super::lane::Lane).
//! * **Warpgroup together**: the four warps of a warpgroup, each of them together, call the function the same number of times in the same
//!   order. They need not be at it at the same time, except where an instruction of the warpgroup (`wgmma`, a named barrier) waits for them.
//! * **Block together**: all threads of the block do.
//! * **Tile arrived**: K and V of a step, or Q of a strip, are in shared memory, visible to the calling threads: these have waited for the
//!   mbarrier or the copies that bring the tile. Nobody overwrites the tile before the callers release it, which they do after the last
//!   product that reads it.
//!
//! A `SAFETY` comment says which of these holds at the call, and why if it is not the caller's own promise.
