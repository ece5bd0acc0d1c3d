/* Graphs that are built node by node, copies of layers, and how many clusters a GPU holds. */

#include "cuda.h"

typedef struct {
    CUfunction function;
    unsigned grid[3], block[3], shared_bytes;
    void **parameters, **extra;
} KernelNode;

typedef struct {
    size_t x, y, z, level;
    unsigned kind;
    void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
} End;

typedef struct {
    End source, destination;
    size_t width, height, depth;
} Copy;

typedef struct {
    CUdeviceptr address;
    size_t pitch;
    unsigned value, bytes;
    size_t width, height;
} FillNode;

CUresult cuGraphAddKernelNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const KernelNode *);
CUresult cuGraphAddMemcpyNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const Copy *, CUcontext);
CUresult cuGraphAddMemsetNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const FillNode *, CUcontext);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec, CUgraphNode, const KernelNode *);
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec, CUgraphNode, const Copy *, CUcontext);
CUresult cuMemcpy3D_v2(const Copy *);
CUresult cuOccupancyMaxActiveClusters(int *, CUfunction, const CUlaunchConfig *);
CUresult cuOccupancyMaxPotentialClusterSize(int *, CUfunction, const CUlaunchConfig *);

/* A graph fills, squares and copies; its kernel and its copy are changed afterwards. */
static void nodes(CUcontext context, CUfunction square)
{
    CUdeviceptr memory, copied;
    CUgraph graph;
    CUgraphExec made;
    CUgraphNode fill, kernel, copy;
    unsigned n = 2, back[4];
    OK(cuMemAlloc_v2(&memory, 16));
    OK(cuMemAlloc_v2(&copied, 16));
    void *parameters[] = {&memory, &n};
    FillNode filling = {memory, 0, 3, 4, 4, 1};
    KernelNode launching = {square, {1, 1, 1}, {64, 1, 1}, 0, parameters, NULL};
    Copy copying = {.source = {.kind = 2, .device = memory}, .destination = {.kind = 2, .device = copied}, .width = 16, .height = 1, .depth = 1};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &filling, context));
    OK(cuGraphAddKernelNode(&kernel, graph, &fill, 1, &launching));
    OK(cuGraphAddMemcpyNode(&copy, graph, &kernel, 1, &copying, context));
    OK(cuGraphInstantiateWithFlags(&made, graph, 0));
    OK(cuGraphLaunch(made, NULL));
    OK(launch(square, NULL, memory, 0));
    OK(cuMemcpyDtoH_v2(back, copied, sizeof back));
    HOLDS(back[0] == 9 && back[1] == 9 && back[2] == 3 && back[3] == 3);
    n = 1;
    OK(cuGraphExecKernelNodeSetParams(made, kernel, &launching));
    copying.source.x = 4, copying.source.pitch = 16, copying.width = 4;
    OK(cuGraphExecMemcpyNodeSetParams(made, copy, &copying, context));
    EXPECT(ERROR_INVALID_VALUE, cuGraphExecKernelNodeSetParams(made, copy, &launching));
    launching.block[0] = 4096;
    EXPECT(ERROR_INVALID_VALUE, cuGraphExecKernelNodeSetParams(made, kernel, &launching));
    OK(cuGraphLaunch(made, NULL));
    OK(cuMemcpyDtoH_v2(back, copied, sizeof back));
    HOLDS(back[0] == 3 && back[1] == 9);
    OK(cuMemFree_v2(memory));
    OK(cuMemFree_v2(copied));
    OK(cuGraphExecDestroy(made));
    OK(cuGraphDestroy(graph));
}

/* The second of two rows of the second of two layers goes to the device and back. */
static void layers(void)
{
    unsigned from[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[2] = {0};
    CUdeviceptr memory;
    OK(cuMemAlloc_v2(&memory, 32));
    Copy to = {.source = {.kind = 1, .host = from, .pitch = 8, .height = 2}, .destination = {.kind = 2, .device = memory, .pitch = 8, .height = 2},
               .width = 8, .height = 2, .depth = 2};
    OK(cuMemcpy3D_v2(&to));
    Copy one = {.source = {.y = 1, .z = 1, .kind = 2, .device = memory, .pitch = 8, .height = 2}, .destination = {.kind = 1, .host = back},
                .width = 8, .height = 1, .depth = 1};
    OK(cuMemcpy3D_v2(&one));
    HOLDS(back[0] == 7 && back[1] == 8);
    to.destination.kind = 3;
    EXPECT(ERROR_INVALID_HANDLE, cuMemcpy3D_v2(&to));
    OK(cuMemFree_v2(memory));
}

/* Four multiprocessors hold 2048 threads each. */
static void clusters(CUfunction square)
{
    int count;
    CUlaunchAttribute cluster = {4, 0, {8, 1, 1}};
    CUlaunchConfig config = {{8, 1, 1}, {1024, 1, 1}, 0, NULL, &cluster, 1};
    OK(cuOccupancyMaxActiveClusters(&count, square, &config));
    HOLDS(count == 1);
    cluster.value[0] = 2;
    OK(cuOccupancyMaxActiveClusters(&count, square, &config));
    HOLDS(count == 4);
    cluster.value[0] = 16;
    OK(cuOccupancyMaxActiveClusters(&count, square, &config));
    HOLDS(count == 0);
    OK(cuOccupancyMaxPotentialClusterSize(&count, square, &config));
    HOLDS(count == 8);
    cluster.value[0] = 0;
    EXPECT(ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(&count, square, &config));
    EXPECT(ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(&count, square, NULL));
}

int main(void)
{
    CUcontext context;
    CUmodule module;
    CUfunction square;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, PTX));
    OK(cuModuleGetFunction(&square, module, "square"));
    nodes(context, square);
    layers();
    clusters(square);
    return 0;
}
