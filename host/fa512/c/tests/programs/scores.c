/* Softcap, ALiBi and bias. Columns 1 to 63 of Q and K are 0, column 0 of Q is 1, column 0 of K is the key's position, so the
 * score of a key is its position. V holds the position too, so O is its mean under the softmax. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "fa512.h"

enum { BATCH = 2, HEADS = 2, ROWS = 20, HEAD_DIM = 64, ELEMENTS = BATCH * HEADS * ROWS * HEAD_DIM };

/* Bias of a query and a key; differs between heads. */
static int bias_of(int head, int query, int key) { return (3 * head + 7 * query + 5 * key) % 4; }

/* Slopes [batch, heads]. Those of the first batch entry also serve as [heads]. */
static const float slopes[BATCH * HEADS] = {0.5f, 0.125f, 2.0f, 0.25f};

/* The score of a key under `problem`. */
static double score(const fa512_problem *problem, int batch, int head, int query, int key) {
    double value = problem->softcap == 0 ? key : problem->softcap * tanh(key / problem->softcap);
    int of_batch = problem->flags & FA512_SLOPES_PER_BATCH ? batch * HEADS : 0;
    if (problem->alibi_slopes != NULL) value -= slopes[of_batch + head] * fabs((double)query - key);
    if (problem->bias != NULL) value += bias_of(problem->bias_strides.head ? head : 0, query, key);
    return value;
}

/* Checks O and LSE of `problem` against its scores. */
static void require(fa512_problem problem, CUdeviceptr q, CUdeviceptr k, const char *name) {
    static uint16_t o[ELEMENTS];
    static float lse[BATCH * HEADS * ROWS];
    int row, key;
    CUdeviceptr out = memory(o, sizeof o), out_lse = memory(lse, sizeof lse);
    int32_t status = fa512_forward(&problem, pointer(q), pointer(k), pointer(k), pointer(out), (float *)pointer(out_lse), NULL);
    check(status, fa512_error_name(status), fa512_last_error_message());
    check(cuStreamSynchronize(NULL) != 0, "cuStreamSynchronize", "the kernel failed");
    check(cuMemcpyDtoH_v2(o, out, sizeof o) != 0, "cuMemcpyDtoH", "not copied");
    check(cuMemcpyDtoH_v2(lse, out_lse, sizeof lse) != 0, "cuMemcpyDtoH", "not copied");
    for (row = 0; row < BATCH * HEADS * ROWS; row++) {
        double sum = 0, mean = 0;
        for (key = 0; key < ROWS; key++) {
            double weight = exp(score(&problem, row / ROWS / HEADS, row / ROWS % HEADS, row % ROWS, key));
            sum += weight;
            mean += weight * key;
        }
        check(!(fabs(number(o[row * HEAD_DIM]) - mean / sum) < 0.03), name, "O is another");
        check(!(fabs(lse[row] - log(sum)) < 3e-3), name, "LSE is another");
    }
}

int main(void) {
    static uint16_t ones[ELEMENTS], positions[ELEMENTS], bias[HEADS * ROWS * ROWS];
    CUdevice device;
    CUcontext context;
    char text[512];
    int row, key;
    fa512_problem plain = {0}, problem;
    check(cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0, "cuInit", "no GPU");
    check(cuDevicePrimaryCtxRetain(&context, device) != 0 || cuCtxSetCurrent(context) != 0, "context", "none");
    for (row = 0; row < BATCH * HEADS * ROWS; row++) {
        ones[row * HEAD_DIM] = half(1);
        positions[row * HEAD_DIM] = half(row % ROWS);
    }
    for (row = 0; row < HEADS * ROWS; row++)
        for (key = 0; key < ROWS; key++) bias[row * ROWS + key] = half(bias_of(row / ROWS, row % ROWS, key));
    CUdeviceptr q = memory(ones, sizeof ones), k = memory(positions, sizeof positions);
    const void *device_bias = pointer(memory(bias, sizeof bias));
    const float *device_slopes = (const float *)pointer(memory(slopes, sizeof slopes));

    plain.size = sizeof plain;
    plain.batch = BATCH;
    plain.heads = HEADS;
    plain.sequence = ROWS;
    plain.head_dim = HEAD_DIM;
    plain.scale = 1;
    require(plain, q, k, "unchanged scores");

    problem = plain, problem.softcap = 3;
    require(problem, q, k, "softcap");
    check(fa512_supports(&problem, -1, text, sizeof text), "fa512_supports", fa512_last_error_message());
    check(strstr(text, "_modified_") == NULL, "fa512_supports", text);
    problem.alibi_slopes = device_slopes;
    require(problem, q, k, "softcap and ALiBi");
    problem.flags = FA512_SLOPES_PER_BATCH;
    require(problem, q, k, "softcap and ALiBi of each batch entry");
    problem.bias = device_bias;
    problem.bias_strides.row = ROWS;
    require(problem, q, k, "all changes");
    problem = plain, problem.bias = device_bias;
    problem.bias_strides.head = ROWS * ROWS, problem.bias_strides.row = ROWS;
    require(problem, q, k, "bias");

    /* A bias that ends 2 bytes beyond its memory: the pointer check must notice. */
    problem.bias = (const char *)device_bias + 2;
    CUdeviceptr out = memory(ones, sizeof ones);
    check(fa512_forward(&problem, pointer(q), pointer(k), pointer(k), pointer(out), NULL, NULL) != FA512_ERROR_MEMORY, "bias",
          "accepted beyond its memory");
    check(strstr(fa512_last_error_message(), "bias at") == NULL, "bias", fa512_last_error_message());

    /* A program compiled with an older header: its struct ends before the score modifications. */
    problem = plain;
    problem.size = offsetof(fa512_problem, softcap);
    require(problem, q, k, "older header");
    printf("O and LSE are right\n");
    return 0;
}
