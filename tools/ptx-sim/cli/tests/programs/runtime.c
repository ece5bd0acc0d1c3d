/* A program as nvcc makes one that is linked with -cudart shared: the code that nvcc adds is written out. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    unsigned x, y, z;
} dim3;

void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFatBinaryEnd(void **);
void __cudaUnregisterFatBinary(void **);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void *);
int __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
int cudaMemset(void *, int, size_t);
typedef struct {
    void *address;
    size_t pitch, width, height;
} pitched;
typedef struct {
    size_t width, height, depth;
} extent;
int cudaMalloc3D(pitched *, extent);
int cudaMemset3D(pitched, int, extent);
int cudaMemset3DAsync(pitched, int, extent, void *);
int cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
int cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
int cudaMallocManaged(void **, size_t, unsigned);
int cudaIpcGetMemHandle(void *, void *);
int cudaDeviceSynchronize(void);
int cudaGetDeviceCount(int *);
int cudaSetDevice(int);
int cudaGetDeviceProperties(void *, int);
int cudaFuncSetAttribute(const void *, int, int);
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *, const void *, int, size_t);
int cudaStreamCreate(void **);
int cudaStreamSynchronize(void *);
int cudaStreamDestroy(void *);
int cudaStreamBeginCapture(void *, int);
int cudaStreamEndCapture(void *, void **);
int cudaGraphInstantiate(void **, void *, unsigned long long);
int cudaGraphLaunch(void *, void *);
int cudaGraphExecDestroy(void *);
int cudaGraphDestroy(void *);
int cudaEventCreate(void **);
int cudaEventRecord(void *, void *);
int cudaEventElapsedTime(float *, void *, void *);
int cudaEventDestroy(void *);
int cudaGetLastError(void);
int cudaPeekAtLastError(void);
const char *cudaGetErrorName(int);
int cudaHostAlloc(void **, size_t, unsigned);
int cudaHostGetDevicePointer(void **, void *, unsigned);
int cudaHostRegister(void *, size_t, unsigned);
int cudaHostUnregister(void *);
int cudaFreeHost(void *);
int cudaPointerGetAttributes(void *, const void *);
int cudaMemPrefetchAsync(const void *, size_t, uint64_t, unsigned, void *);
int cudaMemAdvise(const void *, size_t, int, uint64_t);
int cudaDeviceGetDefaultMemPool(void **, int);
int cudaMallocFromPoolAsync(void **, size_t, void *, void *);
int cudaMemPoolGetAttribute(void *, int, void *);
int cudaFreeAsync(void *, void *);
int cudaLaunchCooperativeKernel(const void *, dim3, dim3, void **, size_t, void *);
int cudaGraphCreate(void **, unsigned);
int cudaGraphAddMemcpyNode1D(void **, void *, void *const *, size_t, void *, const void *, size_t, int);
int cudaGraphAddKernelNode(void **, void *, void *const *, size_t, const void *);
int cudaStreamAddCallback(void *, void (*)(void *, int, void *), void *, unsigned);
int cudaMemcpyAsync_ptsz(void *, const void *, size_t, int, void *);
int cudaStreamSynchronize_ptsz(void *);

#define OK(call)                                                                                                           \
    do {                                                                                                                   \
        int got_ = (call);                                                                                                 \
        if (got_) {                                                                                                        \
            fprintf(stderr, "%s:%d: %s returns %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(got_));                  \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)
#define HOLDS(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                        \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

/* values[i] *= factor for i < n; done += 1. */
static const char PTX[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
                          ".const .align 4 .u32 factor;\n"
                          ".global .align 4 .u32 done;\n"
                          ".global .attribute(.managed) .align 4 .u32 level = 6;\n"
                          ".visible .entry scale(.param .u64 values, .param .u32 n)\n{\n"
                          "    .reg .pred %p;\n    .reg .b32 %r<5>;\n    .reg .b64 %rd<2>;\n"
                          "    ld.param.u64 %rd0, [values];\n    ld.param.u32 %r0, [n];\n"
                          "    mov.u32 %r1, %tid.x;\n    setp.ge.u32 %p, %r1, %r0;\n    @%p ret;\n"
                          "    mul.wide.u32 %rd1, %r1, 4;\n    add.u64 %rd0, %rd0, %rd1;\n"
                          "    ld.global.u32 %r2, [%rd0];\n    ld.const.u32 %r3, [factor];\n    mul.lo.u32 %r2, %r2, %r3;\n"
                          "    st.global.u32 [%rd0], %r2;\n    red.global.add.u32 [done], 1;\n    ret;\n}\n";

static struct {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    /* One entry: PTX, not compressed. */
    uint16_t kind, kind_version;
    uint32_t entry_header_bytes;
    uint64_t entry_bytes;
    uint32_t compressed_bytes, options, ptx_version, architecture;
    uint64_t name, flags, zero, decompressed_bytes;
    char text[2048];
} fat = {0xba55ed50, 1, 16, 64 + 2048, 1, 0x101, 64, 2048, 0, 0, 8 << 16, 75, 0, 1, 0, 0, ""};
static struct {
    uint32_t magic, version;
    void *data, *file;
} wrapper = {0x466243b1, 1, &fat, NULL};
static void **registered;
void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, size_t, int, int);
char __cudaInitModule(void **);
/* Through what the host reaches the managed variable. */
static unsigned *level;
/* What stands for the kernel and the variables on the host. */
static unsigned factor, done;

static void scale(unsigned *values, unsigned n)
{
    dim3 grid, block;
    size_t shared;
    void *stream, *arguments[] = {&values, &n};
    if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == 0)
        (void)cudaLaunchKernel((void *)scale, grid, block, arguments, shared, stream);
}

static void __attribute__((destructor)) forget(void) { __cudaUnregisterFatBinary(registered); }

static void __attribute__((constructor)) register_all(void)
{
    strcpy(fat.text, PTX);
    registered = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(registered, (char *)scale, (char *)"scale", "scale", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterVar(registered, (char *)&factor, (char *)"factor", "factor", 0, sizeof factor, 1, 0);
    __cudaRegisterVar(registered, (char *)&done, (char *)"done", "done", 0, sizeof done, 0, 0);
    __cudaRegisterManagedVar(registered, (void **)&level, (char *)"level", "level", 0, sizeof *level, 0, 0);
    __cudaRegisterFatBinaryEnd(registered);
}

/* Memory that the host and the GPU reach at one address. */
static void shared_memory(unsigned beyond)
{
    unsigned *both, *host, *of_device, own[18], attributes[6];
    dim3 one = {1, 1, 1}, block = {32, 1, 1};
    HOLDS(__cudaInitModule(registered) && *level == 6);
    OK(cudaMallocManaged((void **)&both, 64, 1));
    OK(cudaHostAlloc((void **)&host, 64, 2));
    OK(cudaHostGetDevicePointer((void **)&of_device, host, 0));
    OK(cudaHostRegister(own + 1, 64, 2));
    for (unsigned index = 0; index < 16; index++)
        both[index] = host[index] = own[1 + index] = index;
    OK(cudaPointerGetAttributes(attributes, both));
    HOLDS(attributes[0] == 3);
    OK(cudaPointerGetAttributes(attributes, host));
    HOLDS(attributes[0] == 1);
    /* As CUDA 13 has it, and as CUDA 12 has it. */
    OK(cudaMemPrefetchAsync(both, 64, 1, 0, NULL));
    OK(cudaMemPrefetchAsync(both, 64, 0xffffffff, 0, NULL));
    OK(cudaMemAdvise(both, 64, 3, 1));
    HOLDS(cudaMemAdvise(host, 64, 3, 1) == 1 && cudaGetLastError() == 1);
    unsigned *all[] = {both, of_device, own + 1};
    for (unsigned which = 0; which < 3; which++)
        if (!__cudaPushCallConfiguration(one, block, 0, NULL))
            scale(all[which], which == 0 ? 16 + beyond : 16);
    if (cudaDeviceSynchronize())
        exit(4);
    HOLDS(both[5] == 15 && host[6] == 18 && own[8] == 21);
    OK(cudaHostUnregister(own + 1));
    OK(cudaFreeHost(host));
    OK(cudaFree(both));
}

/* Fills of three dimensions. */
static void volumes(void)
{
    pitched memory;
    extent all = {12, 3, 2}, some = {5, 2, 2}, high = {5, 4, 2};
    unsigned char rows[6][12];
    OK(cudaMalloc3D(&memory, all));
    OK(cudaMemset3D(memory, 1, all));
    OK(cudaMemset3DAsync(memory, 2, some, NULL));
    HOLDS(cudaMemset3D(memory, 3, high) == 1 && cudaGetLastError() == 1);
    OK(cudaMemcpy2D(rows, 12, memory.address, memory.pitch, 12, 6, 2));
    for (unsigned row = 0; row < 6; row++)
        for (unsigned column = 0; column < 12; column++)
            HOLDS(rows[row][column] == (row % 3 < 2 && column < 5 ? 2 : 1));
    OK(cudaFree(memory.address));
}

/* Launches of sizes that no GPU has. */
static void impossible_launches(void)
{
    unsigned n = 0, *none = NULL;
    void *arguments[] = {&none, &n};
    dim3 one = {1, 1, 1}, wide = {2048, 1, 1}, deep = {1, 1, 65}, empty = {0, 1, 1}, high = {1, 65536, 1};
    HOLDS(cudaLaunchKernel((void *)scale, one, wide, arguments, 0, NULL) == 9 && cudaGetLastError() == 9);
    HOLDS(cudaLaunchKernel((void *)scale, one, deep, arguments, 0, NULL) == 9 && cudaGetLastError() == 9);
    HOLDS(cudaLaunchKernel((void *)scale, one, empty, arguments, 0, NULL) == 9 && cudaGetLastError() == 9);
    HOLDS(cudaLaunchKernel((void *)scale, high, one, arguments, 0, NULL) == 9 && cudaGetLastError() == 9);
    HOLDS(cudaLaunchKernel((void *)scale, one, one, arguments, 1 << 20, NULL) == 1 && cudaGetLastError() == 1);
}

static void note(void *stream, int status, void *data) { *(int *)data = stream && !status; }

/* Pools, cooperative launches, graphs made node by node. */
static void other_launches(void)
{
    unsigned values[4] = {1, 2, 3, 4}, four = 4, *memory;
    size_t used = 0;
    void *pool, *graph, *executable, *copy, *launch, *stream;
    int noted = 0;
    dim3 one = {1, 1, 1}, block = {32, 1, 1}, many = {1 << 20, 1, 1};
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaStreamCreate(&stream));
    OK(cudaMallocFromPoolAsync((void **)&memory, 16, pool, stream));
    OK(cudaMemPoolGetAttribute(pool, 7, &used));
    HOLDS(used == 16);
    void *arguments[] = {&memory, &four};
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemcpyNode1D(&copy, graph, NULL, 0, memory, values, 16, 1));
    struct {
        void *kernel;
        dim3 grid, block;
        unsigned shared;
        void **arguments, **extra;
    } node = {(void *)scale, {1, 1, 1}, {32, 1, 1}, 0, arguments, NULL};
    OK(cudaGraphAddKernelNode(&launch, graph, &copy, 1, &node));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaLaunchCooperativeKernel((void *)scale, one, block, arguments, 0, stream));
    OK(cudaStreamAddCallback(stream, note, &noted, 0));
    OK(cudaStreamSynchronize(stream));
    HOLDS(noted == 1);
    HOLDS(cudaLaunchCooperativeKernel((void *)scale, many, block, arguments, 0, stream) == 720 && cudaGetLastError() == 720);
    HOLDS(!strcmp(cudaGetErrorName(720), "cudaErrorCooperativeLaunchTooLarge"));
    OK(cudaMemcpyAsync_ptsz(values, memory, 16, 2, NULL));
    OK(cudaStreamSynchronize_ptsz(NULL));
    HOLDS(values[1] == 18 && values[3] == 36);
    OK(cudaFreeAsync(memory, stream));
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamSynchronize(stream));
    OK(cudaStreamDestroy(stream));
}

int main(int count, char **arguments)
{
    const char *mistake = count > 1 ? arguments[1] : "";
    unsigned values[16], back[16], three = 3, many = 0, *memory;
    union {
        char bytes[2048];
        struct {
            char name[256];
        } known;
    } properties;
    void *stream, *event, *none, *graph, *executable;
    int gpus = 0, blocks = 0;
    float milliseconds;
    dim3 one = {1, 1, 1}, block = {32, 1, 1}, large = {2048, 1, 1};
    for (unsigned index = 0; index < 16; index++)
        values[index] = index;
    OK(cudaGetDeviceCount(&gpus));
    HOLDS(gpus == 1 && cudaSetDevice(1) == 101 && cudaPeekAtLastError() == 101 && cudaGetLastError() == 101);
    HOLDS(cudaGetLastError() == 0);
    OK(cudaSetDevice(0));
    OK(cudaGetDeviceProperties(&properties, 0));
    HOLDS(strstr(properties.known.name, "ptx-sim GPU 0"));
    OK(cudaMalloc((void **)&memory, sizeof values));
    OK(cudaMemset(memory, 0, sizeof values));
    OK(cudaMemcpy(memory, values, sizeof values, 1));
    OK(cudaMemcpyToSymbol(&factor, &three, sizeof three, 0, 1));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (void *)scale, 32, 0));
    HOLDS(blocks > 0);
    OK(cudaFuncSetAttribute((void *)scale, 8, 65536));
    HOLDS(cudaMemcpyToSymbol(&factor, &three, sizeof three, 4, 1) == 1 && cudaGetLastError() == 1);
    HOLDS(cudaMemcpyToSymbol(&gpus, &three, sizeof three, 0, 1) == 13 && cudaGetLastError() == 13);
    if (!__cudaPushCallConfiguration(one, block, 0, NULL))
        scale(memory, strcmp(mistake, "too-many") ? 16 : 17);
    OK(cudaGetLastError());
    if (cudaDeviceSynchronize()) {
        puts(cudaGetErrorName(cudaGetLastError()));
        return 4;
    }
    OK(cudaMemcpy(back, memory, sizeof back, 2));
    HOLDS(back[0] == 0 && back[15] == 45);
    OK(cudaMemcpy2D(back, 8, memory, 16, 8, 4, 2));
    HOLDS(back[1] == 3 && back[2] == 12 && back[7] == 39);
    OK(cudaMemcpyFromSymbol(&many, &done, sizeof many, 0, 2));
    HOLDS(many == 16);
    if (!__cudaPushCallConfiguration(one, large, 0, NULL))
        scale(memory, 16);
    HOLDS(cudaGetLastError() != 0);
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, 0));
    if (!__cudaPushCallConfiguration(one, block, 0, stream))
        scale(memory, 16);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaGraphExecDestroy(executable));
    OK(cudaGraphDestroy(graph));
    OK(cudaMemcpy(back, memory, sizeof back, 2));
    HOLDS(back[1] == 27);
    OK(cudaEventCreate(&event));
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaEventElapsedTime(&milliseconds, event, event));
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(stream));
    HOLDS(cudaIpcGetMemHandle(&none, memory) == 801 && cudaGetLastError() == 801);
    shared_memory(!strcmp(mistake, "beyond-managed"));
    other_launches();
    volumes();
    impossible_launches();
    OK(cudaFree(memory));
    if (!strcmp(mistake, "free-twice"))
        cudaFree(memory);
    puts("done");
    return 0;
}
