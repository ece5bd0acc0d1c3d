// Attention of random tensors by fa512 in C++, with LSE, tensors in flash-attn's layout, and errors as exceptions.
//
//     c++ forward.cpp -I../include -L../lib -lfa512 -lcuda -Wl,-rpath,$PWD/../lib -o forward && ./forward
#include <cmath>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver.h"
#include "fa512.h"

static void check(int failed, const std::string &action, const std::string &message) {
    if (failed) throw std::runtime_error(action + ": " + message);
}

template <typename T> class Buffer {
    CUdeviceptr address = 0;
    std::size_t count;

  public:
    explicit Buffer(const std::vector<T> &values) : count(values.size()) {
        check(cuMemAlloc_v2(&address, count * sizeof(T)), "cuMemAlloc", "no memory");
        check(cuMemcpyHtoD_v2(address, values.data(), count * sizeof(T)), "cuMemcpyHtoD", "not copied");
    }
    ~Buffer() { cuMemFree_v2(address); }
    Buffer(const Buffer &) = delete;
    T *get() const { return reinterpret_cast<T *>(address); }
    std::vector<T> read() const {
        std::vector<T> values(count);
        check(cuMemcpyDtoH_v2(values.data(), address, count * sizeof(T)), "cuMemcpyDtoH", "not copied");
        return values;
    }
};

static void run() {
    CUdevice device;
    CUcontext context;
    check(cuInit(0), "cuInit", "no driver");
    check(cuDeviceGet(&device, 0), "cuDeviceGet", "no GPU");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain", "no context");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent", "no context");

    fa512_problem problem{};
    problem.size = sizeof problem;
    problem.batch = 1, problem.heads = 4, problem.sequence = 77, problem.head_dim = 64;
    problem.q = problem.k = problem.v = problem.o =
        fa512_strides_bshd(problem.heads, problem.sequence, problem.head_dim);
    std::size_t rows = std::size_t(problem.batch) * problem.heads * problem.sequence;

    // With Q = 0 all scores are 0: O is the mean of V, here 0.5, and LSE is ln S.
    std::vector<std::uint16_t> zeros(rows * problem.head_dim, 0), halves(rows * problem.head_dim, 0x3800);
    Buffer<std::uint16_t> q(zeros), k(halves), v(halves), o(zeros);
    Buffer<float> lse(std::vector<float>(rows, -1.0f));
    int status = fa512_forward(&problem, q.get(), k.get(), v.get(), o.get(), lse.get(), nullptr);
    check(status, fa512_error_name(status), fa512_last_error_message());
    check(cuStreamSynchronize(nullptr), "cuStreamSynchronize", "the kernel failed");

    for (float value : lse.read()) check(std::fabs(value - std::log(77.0f)) > 1e-3f, "LSE", "is not ln S");
    for (std::uint16_t value : o.read()) check(value < 0x37fe || value > 0x3802, "O", "is not the mean of V");
    std::cout << "O and LSE are right\n";
}

int main() {
    try {
        run();
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}
