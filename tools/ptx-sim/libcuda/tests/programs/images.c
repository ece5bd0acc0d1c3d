/* Loads fat binaries named by the arguments, and the PTX of the linker, and launches the kernel of each. */

#include "cuda.h"

CUresult cuModuleLoad(CUmodule *, const char *);
CUresult cuModuleLoadFatBinary(CUmodule *, const void *);
CUresult cuLinkCreate_v2(unsigned, unsigned *, void **, void **);
CUresult cuLinkAddData_v2(void *, unsigned, void *, size_t, const char *, unsigned, unsigned *, void **);
CUresult cuLinkComplete(void *, void **, size_t *);
CUresult cuLinkDestroy(void *);

static const char HELPER[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                             ".visible .func (.param .b32 r) twice(.param .b32 x)\n{\n    .reg .b32 %a;\n"
                             "    ld.param.b32 %a, [x];\n    add.u32 %a, %a, %a;\n    st.param.b32 [r], %a;\n    ret;\n}\n";
static const char CALLER[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                             ".extern .func (.param .b32 r) twice(.param .b32 x);\n"
                             ".visible .entry square(.param .u64 values, .param .u32 n)\n{\n    .reg .b32 %a;\n    .reg .b64 %rd<1>;\n"
                             "    .reg .pred %p;\n    mov.u32 %a, %tid.x;\n    setp.ne.u32 %p, %a, 0;\n    @%p ret;\n"
                             "    .param .b32 p;\n    .param .b32 q;\n    ld.param.u64 %rd0, [values];\n    ld.global.u32 %a, [%rd0];\n"
                             "    st.param.b32 [p], %a;\n    call.uni (q), twice, (p);\n    ld.param.b32 %a, [q];\n"
                             "    st.global.u32 [%rd0], %a;\n    ret;\n}\n";

static unsigned launched(CUmodule module)
{
    CUfunction square;
    CUdeviceptr memory;
    unsigned value = 7;
    OK(cuModuleGetFunction(&square, module, "square"));
    OK(cuMemAlloc_v2(&memory, sizeof value));
    OK(cuMemcpyHtoD_v2(memory, &value, sizeof value));
    OK(launch(square, NULL, memory, 1));
    OK(cuMemcpyDtoH_v2(&value, memory, sizeof value));
    OK(cuMemFree_v2(memory));
    return value;
}

int nvJitLinkCreate(void **, unsigned, const char **);
int nvJitLinkDestroy(void **);
int nvJitLinkAddData(void *, unsigned, const void *, size_t, const char *);
int nvJitLinkComplete(void *);
int nvJitLinkGetLinkedCubinSize(void *, size_t *);
int nvJitLinkGetLinkedCubin(void *, void *);
int nvJitLinkGetErrorLogSize(void *, size_t *);
int nvJitLinkGetErrorLog(void *, char *);
int nvJitLinkVersion(unsigned *, unsigned *);
int __nvJitLinkCreate_12_4(void **, unsigned, const char **);

/* nvJitLink hands back PTX in place of a cubin, and says in its log why it links something not. */
static void jit_link(void)
{
    const char *options[] = {"-arch=sm_90"};
    char image[2 * sizeof CALLER + sizeof HELPER], log[2000];
    unsigned major, minor;
    size_t bytes;
    void *link, *other;
    CUmodule module;
    HOLDS(nvJitLinkVersion(&major, &minor) == 0 && major >= 12);
    HOLDS(nvJitLinkCreate(&link, 1, options) == 0);
    HOLDS(nvJitLinkComplete(link) == 3);
    HOLDS(nvJitLinkAddData(link, 3, "LTO", 4, "ir") == 8);
    HOLDS(nvJitLinkAddData(link, 2, "nonsense", 9, "nonsense") == 4);
    HOLDS(nvJitLinkAddData(link, 2, NULL, 9, "null") == 3);
    HOLDS(nvJitLinkAddData(NULL, 2, CALLER, sizeof CALLER, "caller") == 3);
    HOLDS(nvJitLinkGetErrorLogSize(link, &bytes) == 0 && bytes < sizeof log);
    HOLDS(nvJitLinkGetErrorLog(link, log) == 0 && strstr(log, "LTO IR is to be linked") && strlen(log) + 1 == bytes);
    HOLDS(nvJitLinkAddData(link, 2, CALLER, sizeof CALLER, "caller") == 0);
    HOLDS(nvJitLinkAddData(link, 10, HELPER, sizeof HELPER, "helper") == 0);
    HOLDS(nvJitLinkComplete(link) == 0);
    HOLDS(nvJitLinkGetLinkedCubinSize(link, &bytes) == 0 && bytes < sizeof image);
    HOLDS(nvJitLinkGetLinkedCubin(link, image) == 0 && strlen(image) + 1 == bytes);
    HOLDS(__nvJitLinkCreate_12_4(&other, 1, options) == 0 && nvJitLinkDestroy(&other) == 0 && other == NULL);
    HOLDS(nvJitLinkDestroy(&link) == 0 && link == NULL);
    OK(cuModuleLoadData(&module, image));
    HOLDS(launched(module) == 14);
}

int main(int count, char **arguments)
{
    CUcontext context;
    CUmodule module;
    void *link, *image;
    size_t bytes;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    for (int index = 1; index < count; index++) {
        CUresult code = cuModuleLoad(&module, arguments[index]);
        printf("%s\n", name_of(code));
        if (code == 0)
            HOLDS(launched(module) == 49);
    }
    OK(cuLinkCreate_v2(0, NULL, NULL, &link));
    EXPECT(ERROR_NO_BINARY_FOR_GPU, cuLinkAddData_v2(link, 0, "\177ELF", 4, "cubin", 0, NULL, NULL));
    EXPECT(ERROR_INVALID_PTX, cuLinkAddData_v2(link, 1, "nonsense", 8, "nonsense", 0, NULL, NULL));
    EXPECT(ERROR_INVALID_VALUE, cuLinkComplete(link, &image, &bytes));
    OK(cuLinkAddData_v2(link, 1, (void *)CALLER, sizeof CALLER, "caller", 0, NULL, NULL));
    OK(cuLinkAddData_v2(link, 1, (void *)HELPER, sizeof HELPER, "helper", 0, NULL, NULL));
    OK(cuLinkComplete(link, &image, &bytes));
    HOLDS(bytes == strlen(image) + 1);
    OK(cuModuleLoadData(&module, image));
    OK(cuLinkDestroy(link));
    HOLDS(launched(module) == 14);
    jit_link();
    return 0;
}
