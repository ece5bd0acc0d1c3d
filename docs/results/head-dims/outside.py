"""One copy through a tensor map whose memory is mapped page by page: which pages it touches.

    python outside.py NAME MODE FIRST_MIB END_MIB BASE_ROWS COLUMNS c0 c1 c2 c3 [SWIZZLE PROMOTION]

The tensor begins 32 MiB into a reservation of 64 MiB: 4,096 rows of 8 heads, 2,048 bytes between rows, 128 between heads. Of the
reservation [FIRST_MIB, END_MIB) is mapped. The map begins BASE_ROWS rows before the tensor; with BASE_ROWS = 4,096 it is that of
packed sequences. MODE: load, store, prefetch.
"""

import ctypes as c
import sys

PTX = b"""
.version 8.0
.target sm_90a
.address_size 64
.visible .entry probe(.param .align 64 .b8 map[128], .param .u64 out, .param .s32 c0, .param .s32 c1, .param .s32 c2, .param .s32 c3,
                      .param .u32 mode)
{
    .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>;
    .shared .align 1024 .b8 tile[4096];
    .shared .align 8 .b64 gate;
    mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [out]; cvta.to.global.u64 %rd2, %rd2;
    ld.param.s32 %r1, [c0]; ld.param.s32 %r2, [c1]; ld.param.s32 %r3, [c2]; ld.param.s32 %r4, [c3];
    ld.param.u32 %r5, [mode];
    mov.u32 %r6, gate; mov.u32 %r7, tile; mov.u32 %r8, 0; mov.u32 %r9, 0x3c003c00;
fill: add.u32 %r10, %r7, %r8; st.shared.b32 [%r10], %r9; add.u32 %r8, %r8, 4; setp.lt.u32 %p0, %r8, 4096; @%p0 bra fill;
    mbarrier.init.shared::cta.b64 [%r6], 1;
    fence.mbarrier_init.release.cluster; fence.proxy.async;
    setp.eq.u32 %p1, %r5, 1; @%p1 bra store;
    setp.eq.u32 %p1, %r5, 2; @%p1 bra prefetch;
    mov.u32 %r11, 4096;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r6], %r11;
    cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r7], [%rd1, {%r1, %r2, %r3, %r4}], [%r6];
    mov.u32 %r12, 0;
wait: add.u32 %r12, %r12, 1; setp.gt.u32 %p2, %r12, 100000; @%p2 trap;
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r6], 0; @!%p3 bra wait;
    bra done;
store:
    cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%rd1, {%r1, %r2, %r3, %r4}], [%r7];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    bra done;
prefetch:
    cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%rd1, {%r1, %r2, %r3, %r4}];
    mov.u32 %r12, 0;
spin: add.u32 %r12, %r12, 1; nanosleep.u32 1000; setp.lt.u32 %p2, %r12, 200; @%p2 bra spin;
done:
    mov.u32 %r8, 0; mov.u32 %r13, 0; mov.u32 %r14, 0;
sum: add.u32 %r10, %r7, %r8; ld.shared.b32 %r15, [%r10]; setp.ne.u32 %p4, %r15, 0; @%p4 add.u32 %r13, %r13, 1;
    add.u32 %r8, %r8, 4; setp.lt.u32 %p0, %r8, 4096; @%p0 bra sum;
    st.global.b32 [%rd2], %r13;
    ret;
}
"""

MIB = 1 << 20
ROW, HEAD, ROWS, HEADS = 2048, 128, 4096, 8


def main():
    name, mode = sys.argv[1], {"load": 0, "store": 1, "prefetch": 2}[sys.argv[2]]
    first, end, base_rows, columns, *coordinates = map(int, sys.argv[3:11])
    swizzle, promotion = map(int, sys.argv[11:13]) if len(sys.argv) > 11 else (2, 2)
    cuda = c.CDLL("libcuda.so.1")

    def call(function, *arguments):
        code = getattr(cuda, function)(*arguments)
        if code:
            text = c.c_char_p()
            cuda.cuGetErrorName(code, c.byref(text))
            raise RuntimeError(f"{function}: {text.value.decode()}")

    u64 = c.c_uint64
    context, module, function = c.c_void_p(), c.c_void_p(), c.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", c.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", c.byref(module), PTX)
    call("cuModuleGetFunction", c.byref(function), module, b"probe")
    place, memory, out = u64(), u64(), u64()
    call("cuMemAddressReserve", c.byref(place), c.c_size_t(64 * MIB), c.c_size_t(64 * MIB), u64(0), u64(0))
    at = place.value
    # CUmemAllocationProp: pinned, no handle types, on device 0, no flags.
    prop = (c.c_int * 8)(1, 0, 1, 0, 0, 0, 0, 0)
    call("cuMemCreate", c.byref(memory), c.c_size_t((end - first) * MIB), prop, u64(0))
    call("cuMemMap", u64(at + first * MIB), c.c_size_t((end - first) * MIB), c.c_size_t(0), memory, u64(0))
    access = (c.c_int * 3)(1, 0, 3)
    call("cuMemSetAccess", u64(at + first * MIB), c.c_size_t((end - first) * MIB), access, c.c_size_t(1))
    call("cuMemsetD32_v2", u64(at + first * MIB), c.c_uint(0x40004000), c.c_size_t((end - first) * MIB // 4))
    call("cuMemAlloc_v2", c.byref(out), c.c_size_t(256))
    tensor = at + 32 * MIB
    base = tensor - base_rows * ROW
    batch = ROWS + 1 if base_rows else 1
    raw = (c.c_char * 192)()
    aligned = (c.addressof(raw) + 63) // 64 * 64
    sizes, strides = (u64 * 4)(columns, ROWS, HEADS, batch), (u64 * 3)(ROW, HEAD, ROW)
    box, steps = (c.c_uint * 4)(32, 64, 1, 1), (c.c_uint * 4)(1, 1, 1, 1)
    encode = (c.c_void_p(aligned), c.c_int(6), c.c_uint(4), c.c_void_p(base), sizes, strides, box, steps)
    call("cuTensorMapEncodeTiled", *encode, c.c_int(0), c.c_int(swizzle), c.c_int(promotion), c.c_int(0))
    values = [out, *(c.c_int(x) for x in coordinates), c.c_uint(mode)]
    pointers = [aligned, *(c.addressof(x) for x in values)]
    arguments = (c.c_void_p * len(pointers))(*pointers)
    named = coordinates[1] * ROW + coordinates[2] * HEAD + coordinates[3] * ROW + coordinates[0] * 2 + base - at
    mapped = f"mapped {first}..{end} MiB, map begins {(base - at) / MIB:g} MiB"
    text = f"{name:34} {sys.argv[2]:8} {mapped:44} at {coordinates}, {named / MIB:.4f} MiB, at 0x{at:x}: "
    try:
        call("cuLaunchKernel", function, *[c.c_uint(1)] * 6, c.c_uint(0), c.c_void_p(0), arguments, c.c_void_p(0))
        call("cuCtxSynchronize")
        words = c.c_uint()
        call("cuMemcpyDtoH_v2", c.byref(words), out, c.c_size_t(4))
        print(text + f"no fault, {words.value} of 1024 words not zero", flush=True)
    except RuntimeError as error:
        print(text + str(error), flush=True)


main()
