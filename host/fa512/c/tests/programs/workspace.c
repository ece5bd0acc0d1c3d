/* A workspace, for few queries with many keys. Q is 0, so a row of O is the mean of the rows of V, which hold 0 and 2 in turn, and LSE
 * is the logarithm of the number of keys. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "fa512.h"

enum { ROWS = 20, KEYS = 3000, HEAD_DIM = 64, LARGEST_WORKSPACE = 4 << 20 };

static uint16_t zeros[KEYS * HEAD_DIM], values[KEYS * HEAD_DIM];
static char contents[LARGEST_WORKSPACE];

/* Checks O and LSE of `problem`. */
static void require(const fa512_problem *problem, CUdeviceptr q, CUdeviceptr v, const char *name) {
    static uint16_t o[ROWS * HEAD_DIM];
    static float lse[ROWS];
    int row;
    CUdeviceptr out = memory(o, sizeof o), out_lse = memory(lse, sizeof lse);
    int32_t status = fa512_forward(problem, pointer(q), pointer(q), pointer(v), pointer(out), (float *)pointer(out_lse), NULL);
    check(status, fa512_error_name(status), fa512_last_error_message());
    check(cuStreamSynchronize(NULL) != 0, "cuStreamSynchronize", "the kernel failed");
    check(cuMemcpyDtoH_v2(o, out, sizeof o) != 0, "cuMemcpyDtoH", "not copied");
    check(cuMemcpyDtoH_v2(lse, out_lse, sizeof lse) != 0, "cuMemcpyDtoH", "not copied");
    for (row = 0; row < ROWS; row++) {
        check(!(fabs(number(o[row * HEAD_DIM]) - 1) < 1e-3), name, "O is another");
        check(!(fabs(lse[row] - log(KEYS)) < 1e-3), name, "LSE is another");
    }
}

int main(void) {
    CUdevice device;
    CUcontext context;
    uint64_t bytes = 0;
    int element;
    fa512_problem problem = {0};
    check(cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0, "cuInit", "no GPU");
    check(cuDevicePrimaryCtxRetain(&context, device) != 0 || cuCtxSetCurrent(context) != 0, "context", "none");
    for (element = 0; element < KEYS * HEAD_DIM; element++) values[element] = half(element / HEAD_DIM % 2 * 2);
    memset(contents, 0xff, sizeof contents);
    CUdeviceptr q = memory(zeros, sizeof zeros), v = memory(values, sizeof values);

    problem.size = sizeof problem;
    problem.batch = problem.heads = 1;
    problem.sequence = ROWS;
    problem.kv_sequence = KEYS;
    problem.head_dim = HEAD_DIM;
    check(fa512_workspace_bytes(&problem, NULL) != FA512_ERROR_INVALID, "fa512_workspace_bytes", "NULL is taken");
    check(fa512_workspace_bytes(&problem, &bytes) != FA512_OK, "fa512_workspace_bytes", fa512_last_error_message());
    check(bytes == 0 || bytes > sizeof contents, "fa512_workspace_bytes", "none is of use, or more than this test has");
    require(&problem, q, v, "without a workspace");

    CUdeviceptr workspace = memory(contents, bytes);
    problem.workspace = pointer(workspace);
    require(&problem, q, v, "with a workspace");
    problem.workspace = pointer(workspace + 8);
    check(fa512_forward(&problem, pointer(q), pointer(q), pointer(v), pointer(memory(zeros, sizeof zeros)), NULL, NULL) !=
              FA512_ERROR_INVALID || strstr(fa512_last_error_message(), "workspace is at address") == NULL,
          "workspace", "a misaligned one is taken");

    /* A program that was compiled with a header without the field. */
    problem.size = offsetof(fa512_problem, workspace);
    require(&problem, q, v, "an older header");
    puts("O and LSE are right");
    return 0;
}
