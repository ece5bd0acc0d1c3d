// Programs with functions of several kinds, each of which fills 32 results.
#include <cstdio>

struct Node { int value; Node* next; };
extern "C" __global__ void list(int* out) {
    Node* head = nullptr;
    for (int i = 0; i < 5; i++) { Node* node = new Node{i, head}; head = node; }
    int sum = 0;
    while (head) { sum += head->value; Node* node = head; head = head->next; delete node; }
    out[threadIdx.x] = sum;
}

template <class F> __device__ __noinline__ int apply(F function, int x) { return function(x); }
extern "C" __global__ void lambdas(int* out, int k) {
    int m = k * 2;
    out[threadIdx.x] = apply([=](int x) { return x * m + k; }, threadIdx.x);
}

__device__ int ackermann(int m, int n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
extern "C" __global__ void deep(int* out) { out[threadIdx.x] = ackermann(threadIdx.x % 3, threadIdx.x % 4); }

__device__ void quicksort(int* data, int left, int right) {
    int i = left, j = right, pivot = data[(left + right) / 2];
    while (i <= j) {
        while (data[i] < pivot) i++;
        while (data[j] > pivot) j--;
        if (i <= j) { int other = data[i]; data[i] = data[j]; data[j] = other; i++; j--; }
    }
    if (left < j) quicksort(data, left, j);
    if (i < right) quicksort(data, i, right);
}
extern "C" __global__ void sorting(int* out) {
    int own[16];
    for (int i = 0; i < 16; i++) own[i] = (i * 7 + threadIdx.x) % 16;
    quicksort(own, 0, 15);
    int sorted = 1;
    for (int i = 0; i < 16; i++) sorted &= own[i] == i;
    out[threadIdx.x] = sorted;
}

__device__ __noinline__ void warp_sum(int* value) {
    for (int offset = 16; offset; offset >>= 1) *value += __shfl_xor_sync(~0u, *value, offset);
}
extern "C" __global__ void warps(int* out) {
    int value = threadIdx.x;
    warp_sum(&value);
    out[threadIdx.x] = value;
}

struct Operation { __device__ virtual int run(int) = 0; };
struct Square : Operation { __device__ int run(int x) override { return x * x; } };
struct Shift : Operation { int by; __device__ Shift(int b) : by(b) {} __device__ int run(int x) override { return x << by; } };
extern "C" __global__ void objects(int* out) {
    Operation* operation;
    if (threadIdx.x & 1) operation = new Square; else operation = new Shift(3);
    out[threadIdx.x] = operation->run(threadIdx.x);
    delete operation;
}

__device__ __noinline__ void overrun(int* data, int count) { for (int i = 0; i <= count; i++) data[i] = i; }
extern "C" __global__ void too_far(int* out) {
    int own[8];
    overrun(own, 8);
    out[threadIdx.x] = own[threadIdx.x & 7];
}

__device__ __noinline__ int* dangling(int x) { int own[4]; own[x & 3] = x; int* volatile escaped = own; return escaped; }
extern "C" __global__ void gone(int* out) { out[threadIdx.x] = *dangling(threadIdx.x); }

extern "C" __global__ void freed_twice(int* out) {
    int* own = new int(threadIdx.x);
    out[threadIdx.x] = *own;
    delete own;
    if (threadIdx.x == 5) delete own;
}

__device__ __noinline__ int endless(int x) { return x < 0 ? x : endless(x + 1) + endless(x + 2); }
extern "C" __global__ void bottomless(int* out) { out[threadIdx.x] = endless(threadIdx.x); }
