// Calls of every kind that nvcc leaves in PTX: direct, recursive, through pointers, virtual, with structures, on the stack.
#include <cstdio>
#include <cassert>

struct Pair { int first; double second; char tag; };

__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int negate(int x) { return -x; }
__device__ __noinline__ int twice(int x) { return 2 * x; }

// Recursion with a frame of its own.
__device__ __noinline__ int fibonacci(int n) {
    if (n < 2) return n;
    return fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ __noinline__ Pair make_pair(int x) { Pair pair; pair.first = x; pair.second = x * 0.5; pair.tag = (char)x; return pair; }
__device__ __noinline__ double spend(Pair pair, int times) { return pair.second * times + pair.first + pair.tag; }

__device__ __noinline__ void fill(int* where, int count, int start) {
    for (int index = 0; index < count; index++) where[index] = start + index;
}

struct Shape {
    __device__ virtual int area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Box : Shape {
    int width, height;
    __device__ Box(int w, int h) : width(w), height(h) {}
    __device__ int area() const override { return width * height; }
};
struct Line : Shape {
    int length;
    __device__ Line(int l) : length(l) {}
    __device__ int area() const override { return length; }
};

typedef int (*Function)(int);
__device__ Function table[3] = {square, negate, twice};

extern "C" __global__ void direct(int* out) { out[threadIdx.x] = square(threadIdx.x) + negate(3); }
extern "C" __global__ void recursive(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x % 8); }
extern "C" __global__ void structures(double* out) { out[threadIdx.x] = spend(make_pair(threadIdx.x), 3); }
extern "C" __global__ void stack(int* out, int which) {
    int values[16];
    fill(values, 16, threadIdx.x);
    out[threadIdx.x] = values[which & 15];
}
extern "C" __global__ void pointers(int* out) {
    Function function = table[threadIdx.x % 3];
    out[threadIdx.x] = function(threadIdx.x);
}
extern "C" __global__ void virtuals(int* out) {
    Box box(threadIdx.x, 3);
    Line line(threadIdx.x + 100);
    Shape* shape = threadIdx.x % 2 ? (Shape*)&box : (Shape*)&line;
    out[threadIdx.x] = shape->area();
}
extern "C" __global__ void heap(int* out) {
    int* own = (int*)malloc(16 * sizeof(int));
    if (!own) return;
    fill(own, 16, threadIdx.x);
    int sum = 0;
    for (int index = 0; index < 16; index++) sum += own[index];
    out[threadIdx.x] = sum;
    free(own);
}
extern "C" __global__ void on_heap(int* out) {
    Shape* shape = threadIdx.x % 2 ? (Shape*)new Box(threadIdx.x, 2) : (Shape*)new Line(threadIdx.x);
    out[threadIdx.x] = shape->area();
    delete shape;
}
extern "C" __global__ void print(int value) {
    if (threadIdx.x < 2) printf("thread %d of block %u: %5.2f %s %c %lld %x%%\n", threadIdx.x, blockIdx.x, value * 0.25, "text", 'z', 1LL << 40, 255u);
}
extern "C" __global__ void checked(int* out, int limit) {
    assert(threadIdx.x < limit && "too many threads");
    out[threadIdx.x] = 1;
}
extern "C" __global__ void mathematics(double* out, const double* in) {
    double x = in[threadIdx.x];
    out[3 * threadIdx.x] = pow(x, 1.7);
    out[3 * threadIdx.x + 1] = sin(x * 1e6);
    out[3 * threadIdx.x + 2] = x / 3.0 + sqrt(x) + exp(x) + log(x);
}
