/* Every kind of call, rightly and wrongly made, on a machine with two GPUs. */

#include "cuda.h"

static void before_init(void)
{
    CUdeviceptr memory;
    CUdevice device;
    int version;
    const char *name;
    OK(cuDriverGetVersion(&version));
    HOLDS(version == 13000);
    EXPECT(ERROR_NOT_INITIALIZED, cuMemAlloc_v2(&memory, 4));
    EXPECT(ERROR_NOT_INITIALIZED, cuDeviceGet(&device, 0));
    EXPECT(ERROR_NOT_INITIALIZED, cuCtxSynchronize());
    EXPECT(ERROR_INVALID_VALUE, cuInit(1));
    EXPECT(ERROR_INVALID_VALUE, cuGetErrorName(12345, &name));
    HOLDS(name == NULL);
    OK(cuGetErrorString(700, &name));
    HOLDS(!strcmp(name, "an illegal memory access was encountered"));
}

static void devices(void)
{
    int count, value, can;
    CUdevice device;
    char name[8];
    size_t bytes;
    OK(cuDeviceGetCount(&count));
    HOLDS(count == 2);
    EXPECT(ERROR_INVALID_DEVICE, cuDeviceGet(&device, 2));
    EXPECT(ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
    EXPECT(ERROR_INVALID_VALUE, cuDeviceGet(NULL, 0));
    OK(cuDeviceGetName(name, sizeof name, 1));
    HOLDS(!strcmp(name, "ptx-sim"));
    OK(cuDeviceGetAttribute(&value, 75, 0));
    HOLDS(value == 9);
    OK(cuDeviceGetAttribute(&value, 97, 0));
    HOLDS(value == 232448);
    EXPECT(ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, 100000, 0));
    OK(cuDeviceTotalMem_v2(&bytes, 0));
    HOLDS(bytes == (size_t)64 << 20);
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    HOLDS(!can);
}

static void contexts(void)
{
    CUcontext own, primary, again, current;
    CUdeviceptr memory;
    CUdevice device;
    size_t limit;
    unsigned flags;
    int active;
    EXPECT(ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&memory, 4));
    OK(cuCtxCreate_v2(&own, 0, 1));
    OK(cuCtxGetDevice(&device));
    HOLDS(device == 1);
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    HOLDS(primary == again);
    OK(cuCtxPushCurrent_v2(primary));
    OK(cuCtxGetDevice(&device));
    HOLDS(device == 0);
    EXPECT(ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(own, 0));
    OK(cuCtxPopCurrent_v2(&current));
    HOLDS(current == primary);
    OK(cuCtxGetCurrent(&current));
    HOLDS(current == own);
    OK(cuCtxSetLimit(0, 4096));
    OK(cuCtxGetLimit(&limit, 0));
    HOLDS(limit == 4096);
    EXPECT(ERROR_UNSUPPORTED_LIMIT, cuCtxGetLimit(&limit, 99));
    EXPECT(ERROR_INVALID_CONTEXT, cuCtxSetCurrent((CUcontext)0x1234));
    EXPECT(ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(primary));
    OK(cuCtxDestroy_v2(own));
    OK(cuCtxGetCurrent(&current));
    HOLDS(current == NULL);
    EXPECT(ERROR_CONTEXT_IS_DESTROYED, cuCtxSetCurrent(own));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS(active);
    OK(cuCtxSetCurrent(primary));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    EXPECT(ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
    EXPECT(ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
    OK(cuCtxSetCurrent(NULL));
}

static void pointers(CUcontext context)
{
    CUdeviceptr memory, base, start = 1;
    size_t bytes, pitch, free_bytes, total;
    unsigned type = 9;
    int device = 9;
    CUcontext owner;
    void *host;
    unsigned numbers[] = {2, 9, 11};
    void *places[] = {&type, &device, &start};
    OK(cuMemAllocPitch_v2(&memory, &pitch, 100, 3, 4));
    HOLDS(pitch == 512);
    OK(cuMemGetInfo_v2(&free_bytes, &total));
    HOLDS(total - free_bytes == 3 * 512);
    OK(cuMemGetAddressRange_v2(&base, &bytes, memory + 700));
    HOLDS(base == memory && bytes == 3 * 512);
    EXPECT(ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&base, &bytes, memory + 3 * 512));
    OK(cuPointerGetAttribute(&type, 2, memory + 5));
    HOLDS(type == 2);
    OK(cuPointerGetAttribute(&owner, 1, memory));
    HOLDS(owner == context);
    OK(cuPointerGetAttributes(3, numbers, places, memory + 5));
    HOLDS(type == 2 && device == 0 && start == memory);
    EXPECT(ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, 2, (CUdeviceptr)(uintptr_t)&type));
    OK(cuPointerGetAttributes(3, numbers, places, (CUdeviceptr)(uintptr_t)&type));
    HOLDS(type == 0 && device == -2 && start == 0);
    OK(cuMemHostAlloc(&host, 100, 0));
    OK(cuPointerGetAttribute(&type, 2, (CUdeviceptr)(uintptr_t)host + 99));
    HOLDS(type == 1);
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)host, memory, 100));
    OK(cuMemFreeHost(host));
    EXPECT(ERROR_INVALID_VALUE, cuMemFreeHost(host));
    EXPECT(ERROR_INVALID_VALUE, cuMemFreeHost(&type));
    OK(cuMemFree_v2(memory));
    EXPECT(ERROR_INVALID_VALUE, cuMemFree_v2(memory));
    OK(cuMemFree_v2(0));
    EXPECT(ERROR_INVALID_VALUE, cuMemAlloc_v2(&memory, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemAlloc_v2(NULL, 4));
    EXPECT(ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&memory, (size_t)65 << 20));
    EXPECT(ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(0, &type, 4));
    EXPECT(ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(base, NULL, 4));
    OK(cuMemAllocManaged(&memory, 4, 1));
    *(unsigned *)(uintptr_t)memory = 9;
    OK(cuMemcpyDtoH_v2(&type, memory, 4));
    HOLDS(type == 9);
    EXPECT(ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&type, memory + 1, 4));
    OK(cuPointerGetAttribute(&type, 8, memory));
    HOLDS(type == 1);
    OK(cuMemFree_v2(memory));
    EXPECT(ERROR_INVALID_VALUE, cuMemFree_v2(memory));
    EXPECT(ERROR_INVALID_VALUE, cuMemAllocManaged(&memory, 4, 0));
    EXPECT(ERROR_NOT_SUPPORTED, cuIpcGetMemHandle(&type, base));
}

static void modules(void)
{
    char log[200] = "";
    unsigned options[] = {5, 6};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    CUmodule module;
    CUlibrary library;
    CUfunction function, same;
    CUkernel kernel;
    const char *name;
    size_t offset, bytes;
    int value, blocks, threads;
    CUdeviceptr address;
    unsigned table[2];
    EXPECT(ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, "no PTX", 2, options, values));
    HOLDS(strstr(log, ".ptx:1:1") && strlen(log) == (size_t)values[1]);
    EXPECT(ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, "\177ELF"));
    EXPECT(ERROR_INVALID_VALUE, cuModuleLoadData(&module, NULL));
    OK(cuModuleLoadData(&module, PTX));
    EXPECT(ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "cube"));
    EXPECT(ERROR_INVALID_VALUE, cuModuleGetFunction(&function, module, NULL));
    EXPECT(ERROR_INVALID_HANDLE, cuModuleGetFunction(&function, (CUmodule)0x1234, "square"));
    OK(cuModuleGetFunction(&function, module, "square"));
    OK(cuModuleGetFunction(&same, module, "square"));
    HOLDS(function == same);
    OK(cuFuncGetParamInfo(function, 1, &offset, &bytes));
    HOLDS(offset == 8 && bytes == 4);
    EXPECT(ERROR_INVALID_VALUE, cuFuncGetParamInfo(function, 2, &offset, &bytes));
    OK(cuFuncGetAttribute(&value, 8, function));
    HOLDS(value == 48 << 10);
    OK(cuOccupancyMaxPotentialBlockSize(&blocks, &threads, function, NULL, 0, 256));
    HOLDS(threads == 256 && blocks == 8 * 4);
    OK(cuModuleGetGlobal_v2(&address, &bytes, module, "table"));
    HOLDS(bytes == 8);
    OK(cuMemcpyDtoH_v2(table, address, 8));
    HOLDS(table[0] == 5 && table[1] == 6);
    EXPECT(ERROR_NOT_FOUND, cuModuleGetGlobal_v2(&address, &bytes, module, "chair"));
    OK(cuModuleUnload(module));
    EXPECT(ERROR_INVALID_HANDLE, launch(function, NULL, 0, 0));
    OK(cuLibraryLoadData(&library, PTX, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "square"));
    OK(cuKernelGetName(&name, kernel));
    HOLDS(!strcmp(name, "square"));
    OK(cuKernelSetAttribute(8, 100 << 10, kernel, 0));
    OK(cuKernelGetFunction(&function, kernel));
    OK(cuFuncGetAttribute(&value, 8, function));
    HOLDS(value == 100 << 10);
    OK(cuLibraryUnload(library));
    EXPECT(ERROR_INVALID_HANDLE, cuKernelGetName(&name, kernel));
    EXPECT(ERROR_INVALID_HANDLE, cuFuncGetAttribute(&value, 8, function));
}

static void add_one(void *number)
{
    ++*(int *)number;
}

static void launches(void)
{
    CUlibrary library;
    CUkernel kernel;
    CUstream stream;
    CUevent start, end;
    CUdeviceptr memory;
    unsigned values[64], i, n = 64;
    int called = 0;
    float milliseconds;
    void *parameters[] = {&memory, &n};
    struct {
        CUdeviceptr values;
        unsigned n;
    } buffer;
    size_t size = 12;
    void *extra[] = {(void *)1, &buffer, (void *)2, &size, NULL};
    CUlaunchAttribute attribute = {6, 0, {1}};
    CUlaunchConfig config = {{1, 1, 1}, {64, 1, 1}, 0, NULL, &attribute, 1};
    OK(cuLibraryLoadData(&library, PTX, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "square"));
    OK(cuStreamCreate(&stream, 1));
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuMemAlloc_v2(&memory, sizeof values));
    OK(cuMemsetD32Async(memory, 3, 64, stream));
    OK(cuEventRecord(start, stream));
    OK(cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
    buffer.values = memory;
    buffer.n = 63;
    OK(cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, stream, NULL, extra));
    OK(cuEventRecord(end, stream));
    OK(cuLaunchHostFunc(stream, add_one, &called));
    OK(cuMemcpyDtoHAsync_v2(values, memory, sizeof values, stream));
    OK(cuStreamSynchronize(stream));
    for (i = 0; i < 64; i++)
        HOLDS(values[i] == (i < 63 ? 81 : 9));
    HOLDS(called == 1);
    OK(cuEventElapsedTime(&milliseconds, start, end));
    HOLDS(milliseconds > 0);
    EXPECT(ERROR_INVALID_VALUE, cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, stream, parameters, extra));
    EXPECT(ERROR_INVALID_VALUE, cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
    EXPECT(ERROR_INVALID_VALUE, cuLaunchKernel(kernel, 0, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
    EXPECT(ERROR_INVALID_VALUE, cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 49153, stream, parameters, NULL));
    EXPECT(ERROR_INVALID_HANDLE, cuLaunchKernel(NULL, 1, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
    EXPECT(ERROR_INVALID_HANDLE, cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, (CUstream)0x1234, parameters, NULL));
    size = 8;
    EXPECT(ERROR_INVALID_VALUE, cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, stream, NULL, extra));
    attribute.id = 4;
    attribute.value[0] = 2;
    attribute.value[1] = attribute.value[2] = 1;
    EXPECT(ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernelEx(&config, kernel, parameters, NULL));
    config.grid[0] = 2;
    n = 0;
    OK(cuLaunchKernelEx(&config, kernel, parameters, NULL));
    config.grid[0] = 1;
    n = 64;
    attribute.id = 6;
    attribute.value[0] = 0;
    OK(cuLaunchKernelEx(&config, kernel, parameters, NULL));
    OK(cuEventDestroy_v2(start));
    EXPECT(ERROR_INVALID_HANDLE, cuEventRecord(start, stream));
    OK(cuStreamDestroy_v2(stream));
    EXPECT(ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
    OK(cuMemFree_v2(memory));
}

static void graphs(void)
{
    CUlibrary library;
    CUkernel kernel;
    CUstream stream;
    CUgraph graph, building;
    CUgraphExec executable;
    CUgraphNode nodes[8];
    const CUgraphNode *dependencies;
    CUdeviceptr memory, other;
    unsigned values[64], status, type, i;
    uint64_t id;
    size_t count;
    OK(cuLibraryLoadData(&library, PTX, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "square"));
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemAlloc_v2(&memory, sizeof values));
    OK(cuStreamBeginCapture_v2(stream, 1));
    OK(cuMemcpyHtoDAsync_v2(memory, values, sizeof values, stream));
    OK(launch(kernel, stream, memory, 64));
    OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &building, &dependencies, &count));
    HOLDS(status == 1 && id != 0 && count == 1);
    OK(cuGraphNodeGetType(dependencies[0], &type));
    HOLDS(type == 0);
    OK(cuMemcpyDtoHAsync_v2(values, memory, sizeof values, stream));
    OK(cuStreamEndCapture(stream, &graph));
    HOLDS(graph == building);
    OK(cuGraphGetNodes(graph, NULL, &count));
    HOLDS(count == 3);
    count = 8;
    OK(cuGraphGetNodes(graph, nodes, &count));
    HOLDS(count == 3 && nodes[3] == NULL);
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    OK(cuGraphDestroy(graph));
    EXPECT(ERROR_INVALID_HANDLE, cuGraphGetNodes(graph, NULL, &count));
    /* The copies are of what the memory holds when the graph is launched. */
    for (i = 0; i < 64; i++)
        values[i] = i;
    OK(cuGraphLaunch(executable, stream));
    OK(cuGraphLaunch(executable, stream));
    HOLDS(values[3] == 81);
    OK(cuGraphExecDestroy(executable));
    EXPECT(ERROR_INVALID_HANDLE, cuGraphLaunch(executable, stream));

    OK(cuStreamBeginCapture_v2(stream, 0));
    EXPECT(ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&other, 4));
    OK(cuStreamIsCapturing(stream, &status));
    HOLDS(status == 2);
    EXPECT(ERROR_STREAM_CAPTURE_INVALIDATED, launch(kernel, stream, memory, 1));
    EXPECT(ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    HOLDS(graph == NULL);
    OK(cuStreamBeginCapture_v2(stream, 0));
    EXPECT(ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
    EXPECT(ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    OK(cuMemFree_v2(memory));
}

static void names(void)
{
    void *address, *same;
    unsigned found;
    OK(cuGetProcAddress_v2("cuMemAlloc", &address, 13000, 0, &found));
    HOLDS(found == 0 && address == (void *)cuMemAlloc_v2);
    OK(cuGetProcAddress_v2("cuMemAlloc_v2", &same, 13000, 0, &found));
    HOLDS(same == address);
    OK(cuGetProcAddress_v2("cuLaunchKernel", &address, 13000, 2, &found));
    HOLDS(found == 0 && address != (void *)cuLaunchKernel);
    OK(cuGetProcAddress_v2("cuLaunchKernelEx", &address, 11000, 0, &found));
    HOLDS(found == 2 && !address);
    OK(cuGetProcAddress_v2("cuNoSuchThing", &address, 13000, 0, &found));
    HOLDS(found == 1 && !address);
    EXPECT(ERROR_NOT_FOUND, cuGetProcAddress_v2("cuNoSuchThing", &address, 13000, 0, NULL));
}

static void tensor_maps(void)
{
    static union {
        uint64_t words[32];
    } map;
    void *place = (void *)(((uintptr_t)&map + 63) & ~(uintptr_t)63);
    uint64_t sizes[] = {64, 100}, strides[] = {128};
    unsigned box[] = {64, 64}, steps[] = {1, 1};
    void *memory = (void *)0x200000000000;
    OK(cuTensorMapEncodeTiled(place, 6, 2, memory, sizes, strides, box, steps, 0, 3, 2, 0));
    EXPECT(ERROR_INVALID_VALUE, cuTensorMapEncodeTiled(NULL, 6, 2, memory, sizes, strides, box, steps, 0, 3, 2, 0));
    EXPECT(ERROR_INVALID_VALUE, cuTensorMapEncodeTiled((char *)place + 8, 6, 2, memory, sizes, strides, box, steps, 0, 3, 2, 0));
    EXPECT(ERROR_INVALID_VALUE, cuTensorMapEncodeTiled(place, 6, 6, memory, sizes, strides, box, steps, 0, 3, 2, 0));
    strides[0] = 120;
    EXPECT(ERROR_INVALID_VALUE, cuTensorMapEncodeTiled(place, 6, 2, memory, sizes, strides, box, steps, 0, 3, 2, 0));
}

static void several_contexts(CUcontext first)
{
    CUcontext second, current;
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUstream stream;
    CUdeviceptr here, there;
    unsigned value = 7, copied = 0;
    OK(cuMemAlloc_v2(&here, 4));
    OK(cuMemcpyHtoD_v2(here, &value, 4));
    OK(cuLibraryLoadData(&library, PTX, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "square"));
    OK(cuKernelGetFunction(&function, kernel));
    OK(cuCtxCreate_v2(&second, 0, 1));
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemAlloc_v2(&there, 4));
    EXPECT(ERROR_INVALID_HANDLE, launch(function, stream, there, 1));
    EXPECT(ERROR_INVALID_VALUE, cuMemcpyPeer(there, first, here, second, 4));
    OK(cuMemcpyPeer(there, second, here, first, 4));
    OK(launch(kernel, stream, there, 1));
    OK(cuMemcpyDtoH_v2(&copied, there, 4));
    HOLDS(copied == 49);
    OK(cuCtxDestroy_v2(second));
    EXPECT(ERROR_INVALID_HANDLE, (cuCtxPushCurrent_v2(first), cuStreamSynchronize(stream)));
    EXPECT(ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&copied, there, 4));
    OK(cuCtxPopCurrent_v2(&current));
    OK(cuMemFree_v2(here));
}

int main(void)
{
    CUcontext context;
    before_init();
    OK(cuInit(0));
    devices();
    contexts();
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    pointers(context);
    modules();
    launches();
    graphs();
    names();
    tensor_maps();
    several_contexts(context);
    OK(cuCtxSynchronize());
    OK(cuDevicePrimaryCtxRelease_v2(0));
    puts("all calls did what they should");
    return 0;
}
