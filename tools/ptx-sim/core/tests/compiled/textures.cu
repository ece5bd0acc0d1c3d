// Textures and surfaces as CUDA's device headers use them: filtering, gathering, layers, texel fetches, surfaces.
#include <cuda_runtime.h>

// Turns an image about its centre, with a linear filter and normalized coordinates.
extern "C" __global__ void rotate(cudaTextureObject_t image, float* output, int width, int height, float angle) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float u = (x + 0.5f) / width - 0.5f, v = (y + 0.5f) / height - 0.5f;
    float s = __sinf(angle), c = __cosf(angle);
    output[y * width + x] = tex2D<float>(image, u * c - v * s + 0.5f, v * c + u * s + 0.5f);
}

// Convolves with a filter of 3 x 3; what lies outside is as the texture says.
extern "C" __global__ void convolve(cudaTextureObject_t image, const float* filter, float4* output, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            float4 texel = tex2D<float4>(image, x + dx + 0.5f, y + dy + 0.5f);
            float weight = filter[(dy + 1) * 3 + dx + 1];
            sum.x += weight * texel.x; sum.y += weight * texel.y; sum.z += weight * texel.z; sum.w += weight * texel.w;
        }
    output[y * width + x] = sum;
}

// Writes an image to a surface, mirrored, and what it reads there doubled.
extern "C" __global__ void mirror(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    uchar4 texel = surf2Dread<uchar4>(from, x * 4, y);
    texel.w = 255 - texel.w;
    surf2Dwrite(texel, to, (width - 1 - x) * 4, y);
}

// Reads each layer of a layered texture, and all of a texture of three dimensions.
extern "C" __global__ void layers(cudaTextureObject_t layered, cudaTextureObject_t volume, float* output, int count) {
    int x = threadIdx.x, y = threadIdx.y;
    for (int layer = 0; layer < count; layer++) {
        int place = (layer * blockDim.y + y) * blockDim.x + x;
        output[place] = tex2DLayered<float>(layered, x + 0.5f, y + 0.5f, layer) + 100 * tex3D<float>(volume, x + 0.5f, y + 0.5f, layer + 0.5f);
    }
}

// Gathers from linear memory.
extern "C" __global__ void gather(cudaTextureObject_t table, const int* indices, int2* output, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) output[i] = tex1Dfetch<int2>(table, indices[i]);
}

// The four texels that a linear filter would read.
extern "C" __global__ void corners(cudaTextureObject_t image, float4* output, int width) {
    int x = threadIdx.x, y = threadIdx.y;
    output[y * width + x] = tex2Dgather<float4>(image, x + 1.0f, y + 1.0f, 0);
}

// A surface of three dimensions and one with layers, with every mode of what lies outside.
extern "C" __global__ void outside(cudaSurfaceObject_t volume, cudaSurfaceObject_t layered, float* output, int width) {
    int x = (int)threadIdx.x - 1;
    output[threadIdx.x] = surf3Dread<float>(volume, x * 4, 0, 0, cudaBoundaryModeClamp);
    output[threadIdx.x + width] = surf2DLayeredread<float>(layered, x * 4, 0, 1, cudaBoundaryModeZero);
    surf2DLayeredwrite(1.0f, layered, x * 4, 1, 0, cudaBoundaryModeZero);
}
