// Kernels whose blocks meet in a cooperative launch, and one that calls what another entry put into memory.
#include <new>

#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// out[n + i] = out[n - 1 - i] = n - 1 - i: what other blocks wrote before the barrier.
extern "C" __global__ void reverse(int *out, int n) {
    cg::grid_group grid = cg::this_grid();
    for (int i = grid.thread_rank(); i < n; i += grid.size())
        out[i] = i;
    grid.sync();
    for (int i = grid.thread_rank(); i < n; i += grid.size())
        out[n + i] = out[n - 1 - i];
}

__device__ __managed__ int steps[4] = {1, 2, 3, 4};

extern "C" __global__ void step(int *out) {
    out[threadIdx.x] = steps[threadIdx.x]++;
}

struct Shape {
    __device__ virtual int area() const = 0;
};

struct Square : Shape {
    int side;
    __device__ explicit Square(int side) : side(side) {}
    __device__ int area() const override { return side * side; }
};

struct Strip : Shape {
    int length;
    __device__ explicit Strip(int length) : length(length) {}
    __device__ int area() const override { return length; }
};

extern "C" __global__ void make(char *shapes) {
    char *place = shapes + 16 * threadIdx.x;
    if (threadIdx.x % 2)
        new (place) Square(threadIdx.x);
    else
        new (place) Strip(threadIdx.x);
}

extern "C" __global__ void areas(char *shapes, int *out) {
    out[threadIdx.x] = reinterpret_cast<Shape *>(shapes + 16 * threadIdx.x)->area();
}
