// Stands in for libcuda.so.1 where there is no GPU: one device whose memory is the host's, which knows one kernel,
// `store_byte` of probe.ptx. It keeps the driver's rules that the executor has to live with: calls need a current
// context, more than 48 KiB of dynamic shared memory needs asking for, and after a fault every call fails.
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t Code;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    DEVICE_UNAVAILABLE = 46,
    NO_DEVICE = 100,
    INVALID_PTX = 218,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
};

enum { SHARED_WITHOUT_ASKING = 48 << 10, SHARED_LIMIT = 227 << 10, ALLOCATIONS = 256 };

static const size_t MEMORY = (size_t)1 << 28;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Code fault = SUCCESS;
static struct {
    uint8_t *start;
    size_t bytes;
} allocations[ALLOCATIONS];

static _Thread_local void *current;

struct Function {
    uint32_t dynamic_shared_bytes;
};

// A launch with its arguments, as a graph holds it.
struct Call {
    struct Function *function;
    uint8_t *address;
    uint32_t value, shared_bytes;
    struct Call *next;
};

struct Graph {
    struct Call *first, **end;
    uint64_t users;
};

struct Counter {
    uint64_t launches;
    struct Graph *captured;
};

static Code state(void) {
    return current ? fault : INVALID_CONTEXT;
}

static Code unless_lost(void *created, void *place) {
    if (state() != SUCCESS) {
        free(created);
        return state();
    }
    memcpy(place, &created, sizeof created);
    return SUCCESS;
}

// Errors and initialisation

static const struct {
    Code code;
    const char *name, *description;
} ERRORS[] = {
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
};

Code cuGetErrorName(Code code, const char **text) {
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == code) return *text = ERRORS[i].name, SUCCESS;
    return INVALID_VALUE;
}

Code cuGetErrorString(Code code, const char **text) {
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == code) return *text = ERRORS[i].description, SUCCESS;
    return INVALID_VALUE;
}

Code cuInit(uint32_t flags) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible && !*visible) return NO_DEVICE;
    return flags ? INVALID_VALUE : SUCCESS;
}

Code cuDriverGetVersion(int *version) {
    *version = getenv("FAKE_OLD_DRIVER") ? 12020 : 13000;
    return SUCCESS;
}

// Device and context

Code cuDeviceGetCount(int *count) {
    *count = 1;
    return SUCCESS;
}

Code cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return SUCCESS;
}

Code cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    snprintf(name, (size_t)length, "Stand-in GPU");
    return SUCCESS;
}

Code cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 16: *value = 132; return SUCCESS;
    case 38: *value = 60 << 20; return SUCCESS;
    case 75: *value = 9; return SUCCESS;
    case 76: *value = 0; return SUCCESS;
    case 97: *value = SHARED_LIMIT; return SUCCESS;
    default: return INVALID_VALUE;
    }
}

Code cuDeviceGetUuid_v2(uint8_t *uuid, int device) {
    (void)device;
    for (size_t i = 0; i < 16; i++) uuid[i] = (uint8_t)i;
    return SUCCESS;
}

Code cuDevicePrimaryCtxRetain(void **context, int device) {
    (void)device;
    *context = &allocations;
    return getenv("FAKE_BUSY") ? DEVICE_UNAVAILABLE : fault;
}

Code cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    return fault;
}

Code cuCtxSetCurrent(void *context) {
    current = context;
    return SUCCESS;
}

Code cuCtxSynchronize(void) {
    return state();
}

// Memory

Code cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = *total_bytes = MEMORY;
    return state();
}

Code cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    if (state() != SUCCESS) return state();
    if (bytes > MEMORY) return OUT_OF_MEMORY;
    uint8_t *start = aligned_alloc(512, (bytes + 511) / 512 * 512);
    *address = (uintptr_t)start;
    pthread_mutex_lock(&lock);
    size_t free_slot = 0;
    while (allocations[free_slot].start) free_slot++;
    allocations[free_slot].start = start;
    allocations[free_slot].bytes = bytes;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

Code cuMemFree_v2(uint64_t address) {
    if (state() != SUCCESS) return state();
    Code result = INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < ALLOCATIONS; i++)
        if (allocations[i].start == (uint8_t *)(uintptr_t)address) {
            free(allocations[i].start);
            allocations[i].start = NULL;
            result = SUCCESS;
        }
    pthread_mutex_unlock(&lock);
    return result;
}

Code cuMemsetD8_v2(uint64_t address, uint8_t value, size_t bytes) {
    if (state() == SUCCESS) memset((void *)(uintptr_t)address, value, bytes);
    return state();
}

Code cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
    if (state() == SUCCESS) memcpy((void *)(uintptr_t)to, from, bytes);
    return state();
}

Code cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
    if (state() == SUCCESS) memcpy(to, (const void *)(uintptr_t)from, bytes);
    return state();
}

// A map that names the tensor: address, element, rank, swizzle, then sizes.
Code cuTensorMapEncodeTiled(uint64_t *map, uint32_t element, uint32_t rank, uint64_t address, const uint64_t *sizes,
                            const uint64_t *strides, const uint32_t *box_sizes, const uint32_t *element_strides,
                            uint32_t interleave, uint32_t swizzle, uint32_t promotion, uint32_t fill) {
    (void)box_sizes, (void)element_strides, (void)promotion;
    if ((uintptr_t)map % 64 || address % 16 || rank < 1 || rank > 5 || interleave || fill) return INVALID_VALUE;
    for (uint32_t i = 0; i + 1 < rank; i++)
        if (strides[i] % 16) return INVALID_VALUE;
    memset(map, 0, 128);
    map[0] = address, map[1] = element, map[2] = rank, map[3] = swizzle;
    memcpy(map + 4, sizes, rank * sizeof *sizes);
    return SUCCESS;
}

// Modules and functions

Code cuModuleLoadDataEx(void **module, const void *image, uint32_t count, uint32_t *options, void **values) {
    if (state() != SUCCESS) return state();
    if (!strstr(image, "no_such_instruction")) return unless_lost(calloc(1, sizeof(struct Function)), module);
    for (uint32_t i = 0; i < count; i++)
        if (options[i] == 5)
            strcpy(values[i], "ptxas application ptx input, line 7; error   : Not a name of any known instruction: "
                              "'no_such_instruction'\n");
    return INVALID_PTX;
}

Code cuMemcpyDtoDAsync_v2(uint8_t *destination, const uint8_t *source, size_t bytes, struct Counter *stream) {
    memcpy(destination, source, bytes);
    stream->launches++;
    return state();
}

Code cuModuleUnload(void *module) {
    free(module);
    return fault;
}

Code cuModuleGetFunction(void **function, void *module, const char *name) {
    if (strcmp(name, "store_byte") != 0) return NOT_FOUND;
    *function = module;
    return state();
}

Code cuFuncGetAttribute(int *value, int attribute, void *function) {
    (void)function;
    *value = attribute == 4 ? 8 : 0;
    return state();
}

Code cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size) {
    (void)function;
    if (index > 1) return INVALID_VALUE;
    *offset = 8 * index;
    *size = index ? sizeof(uint32_t) : sizeof(uint64_t);
    return state();
}

Code cuFuncSetAttribute(struct Function *function, int attribute, int value) {
    if (attribute != 8 || value > SHARED_LIMIT) return INVALID_VALUE;
    function->dynamic_shared_bytes = (uint32_t)value;
    return state();
}

// Streams, events and launches

Code cuStreamCreateWithPriority(void **stream, uint32_t flags, int priority) {
    (void)flags, (void)priority;
    return unless_lost(calloc(1, sizeof(struct Counter)), stream);
}

Code cuStreamDestroy_v2(void *stream) {
    free(stream);
    return fault;
}

Code cuStreamSynchronize(void *stream) {
    (void)stream;
    return state();
}

Code cuEventCreate(void **event, uint32_t flags) {
    (void)flags;
    return unless_lost(calloc(1, sizeof(struct Counter)), event);
}

Code cuEventDestroy_v2(void *event) {
    free(event);
    return fault;
}

Code cuEventRecord(struct Counter *event, struct Counter *stream) {
    if (stream->captured) return INVALID_VALUE;
    event->launches = stream->launches;
    return state();
}

Code cuEventSynchronize(void *event) {
    (void)event;
    return state();
}

// A launch takes 10 µs.
Code cuEventElapsedTime(float *milliseconds, struct Counter *start, struct Counter *end) {
    *milliseconds = (float)(end->launches - start->launches) * 0.01f;
    return state();
}

static Code run(const struct Call *call, struct Counter *stream) {
    uint32_t allowed = call->function->dynamic_shared_bytes;
    if (call->shared_bytes > (allowed > SHARED_WITHOUT_ASKING ? allowed : SHARED_WITHOUT_ASKING)) return INVALID_VALUE;
    stream->launches++;
    pthread_mutex_lock(&lock);
    Code outcome = ILLEGAL_ADDRESS;
    for (size_t i = 0; i < ALLOCATIONS; i++) {
        uint8_t *start = allocations[i].start;
        if (start && call->address >= start && call->address < start + allocations[i].bytes) {
            *call->address = (uint8_t)call->value;
            outcome = SUCCESS;
        }
    }
    fault = outcome;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

Code cuLaunchKernel(struct Function *function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t block_x,
                    uint32_t block_y, uint32_t block_z, uint32_t shared_bytes, struct Counter *stream, void **params,
                    void **extra) {
    if (state() != SUCCESS) return state();
    if (!grid_x || grid_y != 1 || grid_z != 1 || !block_x || block_y != 1 || block_z != 1 || extra) return INVALID_VALUE;
    struct Call call = {function, *(uint8_t **)params[0], *(uint32_t *)params[1], shared_bytes, NULL};
    if (!stream->captured) return run(&call, stream);
    struct Call *kept = malloc(sizeof call);
    *kept = call;
    *stream->captured->end = kept;
    stream->captured->end = &kept->next;
    return SUCCESS;
}

struct LaunchAttribute {
    uint32_t id;
    uint32_t padding;
    int32_t value[16];
};

struct LaunchConfig {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes;
    struct Counter *stream;
    const struct LaunchAttribute *attributes;
    uint32_t attribute_count;
};

Code cuLaunchKernelEx(const struct LaunchConfig *config, struct Function *function, void **params, void **extra) {
    const uint32_t *grid = config->grid, *block = config->block;
    int serialises = config->attribute_count == 1 && config->attributes[0].id == 6 && config->attributes[0].value[0] == 1;
    if (!serialises || getenv("FAKE_OLD_DRIVER")) return INVALID_VALUE;
    return cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], config->shared_bytes,
                          config->stream, params, extra);
}

// Graphs

static Code release(struct Graph *graph) {
    if (--graph->users) return state();
    while (graph->first) {
        struct Call *call = graph->first;
        graph->first = call->next;
        free(call);
    }
    free(graph);
    return state();
}

Code cuStreamBeginCapture_v2(struct Counter *stream, uint32_t mode) {
    if (mode > 2 || stream->captured) return INVALID_VALUE;
    struct Graph *graph = calloc(1, sizeof *graph);
    graph->end = &graph->first;
    graph->users = 1;
    stream->captured = graph;
    return state();
}

Code cuStreamEndCapture(struct Counter *stream, struct Graph **graph) {
    if (!stream->captured) return INVALID_VALUE;
    *graph = stream->captured;
    stream->captured = NULL;
    return state();
}

Code cuGraphInstantiateWithFlags(struct Graph **executable, struct Graph *graph, uint64_t flags) {
    if (flags) return INVALID_VALUE;
    graph->users++;
    *executable = graph;
    return state();
}

Code cuGraphLaunch(struct Graph *executable, struct Counter *stream) {
    for (struct Call *call = executable->first; call; call = call->next) {
        Code code = state() == SUCCESS ? run(call, stream) : state();
        if (code != SUCCESS) return code;
    }
    return state();
}

Code cuGraphDestroy(struct Graph *graph) {
    return release(graph);
}

Code cuGraphExecDestroy(struct Graph *executable) {
    return release(executable);
}
