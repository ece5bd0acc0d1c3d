/* Measures the CPU time of a call: the median over CALLS calls (10,000 unless given), beside a launch of an empty kernel.
 *
 *     cc -O2 call_cost.c -I../include -L../lib -lfa512 -lcuda -Wl,-rpath,$PWD/../lib -o call_cost && ./call_cost [CALLS]
 *
 * The stream is synchronised between batches, so that no call waits for the GPU. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "driver.h"
#include "fa512.h"

typedef struct CUfunc_st *CUfunction;
typedef struct CUmod_st *CUmodule;
typedef struct Config {
    unsigned grid[3], block[3], shared_bytes;
    CUstream stream;
    void *attributes;
    unsigned attribute_count;
} Config;
int cuModuleLoadData(CUmodule *module, const void *image);
int cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
int cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t bytes);
int cuLaunchKernelEx(const Config *config, CUfunction function, void **arguments, void **extra);

enum { MOST_CALLS = 1000000, BATCH = 50, BATCHES = 1, HEADS = 8, SEQUENCE = 512, BYTES = BATCHES * HEADS * SEQUENCE * 64 * 2 };

static const char EMPTY[] = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry empty() { ret; }\n";

static void check(int failed, const char *message) {
    if (failed) {
        fprintf(stderr, "%s\n", message);
        exit(1);
    }
}

static double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static CUstream stream;
static CUfunction empty;
static CUdeviceptr tensors[4];
static fa512_problem problem;

static int bare(void) {
    Config config = {{1, 1, 1}, {32, 1, 1}, 0, stream, NULL, 0};
    return cuLaunchKernelEx(&config, empty, NULL, NULL);
}

static int forward(void) {
    return fa512_forward(&problem, (void *)(uintptr_t)tensors[0], (void *)(uintptr_t)tensors[1],
                         (void *)(uintptr_t)tensors[2], (void *)(uintptr_t)tensors[3], NULL, stream);
}

static void time_calls(const char *name, int (*call)(void), int calls) {
    static double samples[MOST_CALLS];
    int warm_up = calls / 10;
    for (int i = -warm_up; i < calls; i++) {
        if ((i + warm_up) % BATCH == 0) check(cuStreamSynchronize(stream) != 0, "a kernel failed");
        double begin = microseconds();
        int failed = call();
        double end = microseconds();
        check(failed, name);
        if (i >= 0) samples[i] = end - begin;
    }
    qsort(samples, (size_t)calls, sizeof *samples, ascending);
    printf("C     %-36s median %6.2f us, 5 %% %6.2f, 95 %% %6.2f\n", name, samples[calls / 2], samples[calls / 20],
           samples[calls - 1 - calls / 20]);
}

int main(int count, char **arguments) {
    int calls = count > 1 ? atoi(arguments[1]) : 10000;
    check(calls < 1 || calls > MOST_CALLS, "CALLS is not between 1 and 1000000");
    CUdevice device;
    CUcontext context;
    CUmodule module;
    check(cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0, "no GPU");
    check(cuDevicePrimaryCtxRetain(&context, device) != 0 || cuCtxSetCurrent(context) != 0, "no context");
    check(cuStreamCreate(&stream, 1) != 0, "no stream");
    check(cuModuleLoadData(&module, EMPTY) != 0 || cuModuleGetFunction(&empty, module, "empty") != 0, "no kernel");
    for (int i = 0; i < 4; i++) {
        check(cuMemAlloc_v2(&tensors[i], BYTES) != 0, "no memory");
        check(cuMemsetD8_v2(tensors[i], 0x3c, BYTES) != 0, "not set");
    }
    problem.size = sizeof problem;
    problem.batch = BATCHES;
    problem.heads = HEADS;
    problem.sequence = SEQUENCE;
    problem.head_dim = 64;
    check(fa512_warm_up(&problem, 1), fa512_last_error_message());
    for (int round = 0; round < 2; round++) {
        time_calls("cuLaunchKernelEx of an empty kernel", bare, calls);
        problem.flags = 0;
        time_calls("fa512_forward", forward, calls);
        problem.flags = FA512_NO_POINTER_CHECKS;
        time_calls("fa512_forward, no pointer checks", forward, calls);
    }
    return 0;
}
