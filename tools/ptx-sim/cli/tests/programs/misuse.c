/* One mistake, named by the first argument. */

#include "cuda.h"

CUresult cuGetExportTable(const void **, const void *);

/* Every thread writes its index to the first value. */
static const char RACE[] = ".version 8.0\n"
                           ".target sm_80\n"
                           ".address_size 64\n"
                           ".visible .entry square(.param .u64 values, .param .u32 n)\n"
                           "{\n"
                           "    .reg .b32 %r<1>;\n"
                           "    .reg .b64 %rd<1>;\n"
                           "    ld.param.u64 %rd0, [values];\n"
                           "    mov.u32 %r0, %tid.x;\n"
                           "    st.global.u32 [%rd0], %r0;\n"
                           "    ret;\n"
                           "}\n";

static int is(const char *mistake, const char *wanted) { return !strcmp(mistake, wanted); }

int main(int count, char **arguments)
{
    const char *mistake = count > 1 ? arguments[1] : "";
    CUcontext context;
    CUdeviceptr memory, other;
    CUmodule module;
    CUfunction square;
    unsigned values[16] = {1, 2, 3}, back[16];
    const void *table;
    const char identifier[16] = "";
    if (is(mistake, "static-runtime"))
        HOLDS(cuGetExportTable(&table, identifier) && cuGetExportTable(&table, identifier));
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&memory, sizeof values));
    OK(cuModuleLoadData(&module, strncmp(mistake, "race", 4) ? PTX : RACE));
    OK(cuModuleGetFunction(&square, module, "square"));
    if (is(mistake, "partly"))
        OK(cuMemcpyHtoD_v2(memory, values, 12));
    else if (!is(mistake, "unwritten"))
        OK(cuMemcpyHtoD_v2(memory, values, sizeof values));
    if (is(mistake, "leak"))
        OK(cuMemAlloc_v2(&other, 1 << 20));
    if (is(mistake, "copy-too-long"))
        cuMemcpyDtoH_v2(values, memory + 4, sizeof values);
    if (is(mistake, "copy-from-host"))
        cuMemcpyDtoH_v2(back, (CUdeviceptr)values, sizeof values);
    if (is(mistake, "copy-to-device"))
        cuMemcpyDtoH_v2((void *)memory, memory, sizeof values);
    if (is(mistake, "copy-from-null"))
        cuMemcpyDtoH_v2(back, 0, sizeof values);
    if (is(mistake, "free-inside"))
        cuMemFree_v2(memory + 16);
    if (is(mistake, "host-in-kernel")) {
        OK(launch(square, NULL, (CUdeviceptr)values, 16));
        return cuCtxSynchronize() != 0;
    }
    if (!strncmp(mistake, "race", 4)) {
        OK(launch(square, NULL, memory, 16));
        OK(launch(square, NULL, memory, 16));
        OK(cuCtxSynchronize());
    }
    if (is(mistake, "race-and-wait")) {
        puts("waiting");
        fflush(stdout);
        for (;;)
            OK(cuCtxSynchronize());
    }
    if (is(mistake, "runtime-beside")) {
        HOLDS(cuGetExportTable(&table, identifier));
        OK(launch(square, NULL, memory, 3));
    }
    if (is(mistake, "streams") || is(mistake, "streams-in-order")) {
        CUstream one, two;
        CUevent done;
        OK(cuStreamCreate(&one, 1));
        OK(cuStreamCreate(&two, 1));
        OK(cuEventCreate(&done, 0));
        OK(launch(square, one, memory, 3));
        OK(cuEventRecord(done, one));
        if (is(mistake, "streams-in-order"))
            OK(cuStreamWaitEvent(two, done, 0));
        OK(launch(square, two, memory, 3));
        OK(cuCtxSynchronize());
    }
    if (is(mistake, "refused-module"))
        cuModuleLoadData(&module, "\177ELF\2\1\1");
    if (is(mistake, "killed"))
        abort();
    if (is(mistake, "exit-3"))
        return 3;
    if (!is(mistake, "leak-in-context"))
        OK(cuMemcpyDtoH_v2(back, memory, sizeof values));
    if (!is(mistake, "leak-in-context"))
        OK(cuMemFree_v2(memory));
    if (is(mistake, "free-twice"))
        cuMemFree_v2(memory);
    if (is(mistake, "copy-freed"))
        cuMemcpyHtoD_v2(memory, values, sizeof values);
    if (is(mistake, "kernel-freed")) {
        OK(launch(square, NULL, memory, 16));
        return cuCtxSynchronize() != 0;
    }
    OK(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}
