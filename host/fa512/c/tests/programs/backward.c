/* Gradients. Q is 0, so every probability is 1 / n of n keys. V holds v_j in column 0, K holds k_j there, dO is 1 in column 0. With scale s:
 * dV_j = queries / n, dP_ij = v_j, Delta = mean of v, dQ_i = s / n * sum_j (v_j - mean) k_j, dK = 0. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "device.h"
#include "fa512.h"

enum { HEADS = 2, QUERIES = 70, KEYS = 90, HEAD_DIM = 64 };

static double signed_number(uint16_t bits) { return bits & 0x8000 ? -number(bits & 0x7fff) : number(bits); }

int main(void) {
    static uint16_t q[HEADS * QUERIES * HEAD_DIM], k[HEADS * KEYS * HEAD_DIM], v[HEADS * KEYS * HEAD_DIM], d_o[HEADS * QUERIES * HEAD_DIM];
    static uint16_t of_queries[HEADS * QUERIES * HEAD_DIM], of_keys[HEADS * KEYS * HEAD_DIM];
    static float lse[HEADS * QUERIES];
    CUdevice device;
    CUcontext context;
    CUdeviceptr workspace;
    int row, column;
    double mean = 0, sum = 0;
    uint64_t bytes = 1;
    fa512_problem problem = {0};
    fa512_gradient gradient = {0};
    check(cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0, "cuInit", "no GPU");
    check(cuDevicePrimaryCtxRetain(&context, device) != 0 || cuCtxSetCurrent(context) != 0, "context", "none");
    for (row = 0; row < HEADS * KEYS; row++) {
        v[row * HEAD_DIM] = half(row % KEYS);
        k[row * HEAD_DIM] = half(row % KEYS % 7);
    }
    for (row = 0; row < HEADS * QUERIES; row++) d_o[row * HEAD_DIM] = half(1);
    for (row = 0; row < KEYS; row++) mean += (double)row / KEYS;
    for (row = 0; row < KEYS; row++) sum += (row - mean) * (row % 7) / KEYS;

    problem.size = sizeof problem;
    problem.batch = 1;
    problem.heads = HEADS;
    problem.sequence = QUERIES;
    problem.kv_sequence = KEYS;
    problem.head_dim = HEAD_DIM;
    CUdeviceptr on_q = memory(q, sizeof q), on_k = memory(k, sizeof k), on_v = memory(v, sizeof v), out = memory(q, sizeof q);
    CUdeviceptr on_lse = memory(lse, sizeof lse), dq = memory(q, sizeof q), dk = memory(k, sizeof k), dv = memory(v, sizeof v);
    int32_t status = fa512_forward(&problem, pointer(on_q), pointer(on_k), pointer(on_v), pointer(out), (float *)pointer(on_lse), NULL);
    check(status, fa512_error_name(status), fa512_last_error_message());

    check(fa512_backward(&problem, pointer(on_q), pointer(on_k), pointer(on_v), NULL, NULL, NULL) != FA512_ERROR_INVALID, "gradient",
          "NULL is accepted");
    check(fa512_backward(&problem, pointer(on_q), pointer(on_k), pointer(on_v), NULL, &gradient, NULL) != FA512_ERROR_INVALID, "size",
          "0 is accepted");
    gradient.size = sizeof gradient;
    gradient.o = pointer(out);
    gradient.d_o = pointer(memory(d_o, sizeof d_o));
    gradient.dq = pointer(dq);
    gradient.dk = pointer(dk);
    gradient.dv = pointer(dv);
    check(fa512_backward(&problem, pointer(on_q), pointer(on_k), pointer(on_v), NULL, &gradient, NULL) != FA512_ERROR_INVALID, "lse",
          "NULL is accepted");
    gradient.lse = (const float *)pointer(on_lse);
    check(fa512_warm_up_backward(&problem), "fa512_warm_up_backward", fa512_last_error_message());
    status = fa512_backward(&problem, pointer(on_q), pointer(on_k), pointer(on_v), NULL, &gradient, NULL);
    check(status, fa512_error_name(status), fa512_last_error_message());
    check(cuStreamSynchronize(NULL) != 0, "cuStreamSynchronize", "the kernel failed");

    check(cuMemcpyDtoH_v2(of_queries, dq, sizeof of_queries) != 0, "cuMemcpyDtoH", "not copied");
    for (row = 0; row < HEADS * QUERIES; row++)
        for (column = 0; column < HEAD_DIM; column++) {
            double expected = column == 0 ? 0.125 * sum : 0;
            check(!(fabs(signed_number(of_queries[row * HEAD_DIM + column]) - expected) < 2e-2), "dQ", "it is another");
        }
    check(cuMemcpyDtoH_v2(of_keys, dv, sizeof of_keys) != 0, "cuMemcpyDtoH", "not copied");
    for (row = 0; row < HEADS * KEYS; row++)
        check(!(fabs(signed_number(of_keys[row * HEAD_DIM]) - (double)QUERIES / KEYS) < 2e-3), "dV", "it is another");
    check(cuMemcpyDtoH_v2(of_keys, dk, sizeof of_keys) != 0, "cuMemcpyDtoH", "not copied");
    for (row = 0; row < HEADS * KEYS * HEAD_DIM; row++) check((of_keys[row] & 0x7fff) != 0, "dK", "it is not 0");

    check(fa512_backward_workspace_bytes(&problem, NULL, &bytes) != 0 || bytes != 0, "workspace", "so few queries need one");
    check(fa512_backward_workspace_bytes(&problem, NULL, NULL) != FA512_ERROR_INVALID, "bytes", "NULL is accepted");
    /* With a bias of zeros, dBias_ij = (v_j - mean) / n, which both heads and all queries add up. */
    problem.bias = pointer(memory(of_keys, KEYS * sizeof *of_keys));
    gradient.d_bias = pointer(dq);
    check(fa512_backward_workspace_bytes(&problem, &gradient, &bytes) != 0 || bytes == 0, "workspace", "no parts are added up");
    check(cuMemAlloc_v2(&workspace, bytes) != 0, "cuMemAlloc", "no memory");
    problem.workspace = pointer(workspace);
    status = fa512_backward(&problem, pointer(on_q), pointer(on_k), pointer(on_v), NULL, &gradient, NULL);
    check(status != FA512_ERROR_INVALID, "dBias", "it may lie where dQ does");
    gradient.dq = pointer(memory(q, sizeof q));
    status = fa512_backward(&problem, pointer(on_q), pointer(on_k), pointer(on_v), NULL, &gradient, NULL);
    check(status, fa512_error_name(status), fa512_last_error_message());
    check(cuMemcpyDtoH_v2(of_queries, dq, sizeof of_queries) != 0, "cuMemcpyDtoH", "not copied");
    for (row = 0; row < KEYS; row++) {
        double expected = HEADS * QUERIES * (row - mean) / KEYS;
        check(!(fabs(signed_number(of_queries[row]) - expected) < 5e-2), "dBias", "it is another");
    }
    problem.bias = problem.workspace = NULL;
    problem.head_dim = 256;
    check(fa512_warm_up_backward(&problem), "256 columns", fa512_last_error_message());
    problem.head_dim = 128;
    problem.batch = 64;
    problem.heads = 16;
    problem.sequence = problem.kv_sequence = 4096;
    check(fa512_backward_workspace_bytes(&problem, NULL, &bytes) != 0, "long sequences", fa512_last_error_message());
    /* dQ in f32, two statistics of each row, and a count for each 64 rows of 64 columns and one of the launch, in multiples of 16. */
    check(bytes != 64ull * 16 * 4096 * (128 + 2) * 4 + (64ull * 16 * 64 * 2 + 4) * 4, "long sequences", "another size");
    printf("gradients are right\n");
    return 0;
}
