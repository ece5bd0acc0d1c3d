#include <cstdio>

__device__ __noinline__ int digits(int x) { return x < 10 ? x : digits(x / 10) + x % 10; }
__device__ __noinline__ int twice(int x) { return 2 * x; }
typedef int (*Function)(int);
__device__ Function functions[2] = {digits, twice};

extern "C" __global__ void calls(int* out) {
    int* own = (int*)malloc(8);
    own[0] = functions[threadIdx.x & 1](threadIdx.x * 37);
    out[threadIdx.x] = own[0];
    if (threadIdx.x == 3) printf("%d of %s\n", own[0], "lane 3");
    free(own);
}
