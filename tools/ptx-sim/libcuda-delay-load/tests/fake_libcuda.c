// Stands in for libcuda.so.1: returns what the test can predict from the arguments.
#include <stdint.h>

uint32_t cuInit(uint32_t flags) {
    return flags == 0 ? 0 : 1;
}

uint32_t cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}

uint32_t cuLaunchKernel(void *function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t block_x,
                        uint32_t block_y, uint32_t block_z, uint32_t shared_bytes, void *stream, void **params,
                        void **extra) {
    uint64_t *seen = params[0];
    seen[0] = (uintptr_t)function;
    seen[1] = grid_x;
    seen[2] = grid_y;
    seen[3] = grid_z;
    seen[4] = block_x;
    seen[5] = block_y;
    seen[6] = block_z;
    seen[7] = shared_bytes;
    seen[8] = (uintptr_t)stream;
    seen[9] = (uintptr_t)extra;
    return 719;
}

uint32_t cuMemsetD2D32_v2(uint64_t address, uint64_t pitch, uint32_t value, uint64_t width, uint64_t height) {
    uint64_t sum = address + 3 * pitch + 5 * (uint64_t)value + 7 * width + 11 * height;
    *(uint64_t *)address = sum;
    return 0;
}
