/* A launch that is wrong under some orders of its warps. */

#include "cuda.h"

/* The first thread of the second warp writes where nothing is, if it is there before that of the first one. */
static const char ORDER[] = ".version 8.0\n"
                            ".target sm_80\n"
                            ".address_size 64\n"
                            ".visible .entry square(.param .u64 values, .param .u32 n)\n"
                            "{\n"
                            "    .reg .pred %p<2>;\n"
                            "    .reg .b32 %r<3>;\n"
                            "    .reg .b64 %rd<1>;\n"
                            "    ld.param.u64 %rd0, [values];\n"
                            "    mov.u32 %r0, %tid.x;\n"
                            "    and.b32 %r1, %r0, 31;\n"
                            "    setp.ne.u32 %p0, %r1, 0;\n"
                            "    @%p0 ret;\n"
                            "    atom.global.add.u32 %r2, [%rd0], 1;\n"
                            "    setp.ne.u32 %p1, %r2, 1;\n"
                            "    setp.eq.or.u32 %p1, %r0, 0, %p1;\n"
                            "    @%p1 ret;\n"
                            "    st.global.u32 [%rd0+1048576], %r0;\n"
                            "    ret;\n"
                            "}\n";

int main(void)
{
    CUcontext context;
    CUdeviceptr memory;
    CUmodule module;
    CUfunction square;
    const unsigned one = 1;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&memory, sizeof one));
    OK(cuModuleLoadData(&module, ORDER));
    OK(cuModuleGetFunction(&square, module, "square"));
    OK(cuMemcpyHtoD_v2(memory, &one, sizeof one));
    OK(launch(square, NULL, memory, 1));
    if (cuCtxSynchronize())
        return 1;
    OK(cuMemFree_v2(memory));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}
