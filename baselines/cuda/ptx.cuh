// One wrapper for each PTX instruction that CUDA C++ has no name for; kernel-gpu/src/device/ptx/ has the same ones.
// Shared-memory addresses are 32-bit addresses of the .shared window.
#pragma once

#include <cstdint>

namespace fa512::ptx {

/// A 16×16 fragment of packed fp16 pairs (PTX ISA, "mma.m16n8k16", A).
struct FragmentA {
    uint32_t pair[4];
};

/// A 16×8 fragment of f32: of lane 4g + t the elements (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1).
struct FragmentC {
    float element[4];
};

/// C += A·B.
__device__ __forceinline__ void multiply_accumulate(FragmentC& c, const FragmentA& a, uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c.element[0]), "+f"(c.element[1]), "+f"(c.element[2]), "+f"(c.element[3])
        : "r"(a.pair[0]), "r"(a.pair[1]), "r"(a.pair[2]), "r"(a.pair[3]), "r"(b0), "r"(b1));
}

/// Four 8×8 matrices of 16-bit elements; lanes 8i to 8i+7 give the addresses of the rows of matrix i.
__device__ __forceinline__ FragmentA load_matrices(uint32_t row) {
    FragmentA m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.pair[0]), "=r"(m.pair[1]), "=r"(m.pair[2]), "=r"(m.pair[3])
                 : "r"(row)
                 : "memory");
    return m;
}

/// load_matrices, each matrix transposed.
__device__ __forceinline__ FragmentA load_matrices_transposed(uint32_t row) {
    FragmentA m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.pair[0]), "=r"(m.pair[1]), "=r"(m.pair[2]), "=r"(m.pair[3])
                 : "r"(row)
                 : "memory");
    return m;
}

/// Starts copying 16 bytes, past L1.
__device__ __forceinline__ void copy_16(uint32_t shared, uint64_t global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

/// copy_16, or 16 zero bytes without reading `global` where `inside` is false.
__device__ __forceinline__ void copy_16_or_zeros(uint32_t shared, uint64_t global, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(inside ? 16 : 0)
                 : "memory");
}

/// The thread's copies since the last commit become one group, possibly empty.
__device__ __forceinline__ void commit_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/// With STAGES - 1 groups in flight, waits for the oldest.
template <uint32_t STAGES>
__device__ __forceinline__ void wait_for_oldest() {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
}

/// 2ˣ within 2 ulp; 2^(−∞) is +0.
__device__ __forceinline__ float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/// log₂ x; log₂ 0 is −∞.
__device__ __forceinline__ float log2(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/// 1/x within 1 ulp.
__device__ __forceinline__ float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/// Two f32 rounded to nearest-even fp16, `low` in the lower half.
__device__ __forceinline__ uint32_t pack_f16(float low, float high) {
    uint32_t packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ __forceinline__ void store_shared_4(uint32_t address, uint32_t value) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
    uint4 value;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(address)
                 : "memory");
    return value;
}

__device__ __forceinline__ void store_global_16(uint64_t address, uint4 value) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(value.x), "r"(value.y), "r"(value.z),
                 "r"(value.w)
                 : "memory");
}

__device__ __forceinline__ void store_global_f32(uint64_t address, float value) {
    asm volatile("st.global.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}

}  // namespace fa512::ptx
