/* Arrays, textures and surfaces of the runtime API. Kernels are launched by the driver, which shares the runtime's context. */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *Array;
typedef unsigned long long Object;

typedef struct {
    int x, y, z, w;
    unsigned kind;
} Channel;

typedef struct {
    size_t width, height, depth;
} Extent;

typedef struct {
    void *address;
    size_t pitch, width, height;
} Pitched;

typedef struct {
    Array source;
    Extent from;
    Pitched source_memory;
    Array destination;
    Extent to;
    Pitched destination_memory;
    Extent extent;
    unsigned direction;
} Copy;

typedef struct {
    unsigned kind;
    union {
        Array array;
        struct {
            void *address;
            Channel channel;
            size_t bytes;
        } linear;
        struct {
            void *address;
            Channel channel;
            size_t width, height, pitch;
        } pitched;
        int reserved[32];
    } from;
    unsigned flags;
} Resource;

typedef struct {
    unsigned address[3], filter, normalizes, is_srgb;
    float border[4];
    int normalized_coordinates;
    unsigned anisotropy, mipmap_filter;
    float bias, limits[2];
    int trilinear, seamless;
} Texture;

Channel cudaCreateChannelDesc(int, int, int, int, unsigned);
int cudaMallocArray(Array *, const Channel *, size_t, size_t, unsigned);
int cudaMalloc3DArray(Array *, const Channel *, Extent, unsigned);
int cudaFreeArray(Array);
int cudaArrayGetInfo(Channel *, Extent *, unsigned *, Array);
int cudaGetChannelDesc(Channel *, Array);
int cudaMalloc3D(Pitched *, Extent);
int cudaMalloc(void **, size_t);
int cudaMallocPitch(void **, size_t *, size_t, size_t);
int cudaFree(void *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemcpy2DToArray(Array, size_t, size_t, const void *, size_t, size_t, size_t, int);
int cudaMemcpy2DToArrayAsync(Array, size_t, size_t, const void *, size_t, size_t, size_t, int, void *);
int cudaMemcpy2DFromArray(void *, size_t, Array, size_t, size_t, size_t, size_t, int);
int cudaMemcpy2DArrayToArray(Array, size_t, size_t, Array, size_t, size_t, size_t, size_t, int);
int cudaMemcpyToArray(Array, size_t, size_t, const void *, size_t, int);
int cudaMemcpyFromArray(void *, Array, size_t, size_t, size_t, int);
int cudaMemcpy3D(const Copy *);
int cudaCreateTextureObject(Object *, const Resource *, const Texture *, const void *);
int cudaDestroyTextureObject(Object);
int cudaGetTextureObjectResourceDesc(Resource *, Object);
int cudaGetTextureObjectTextureDesc(Texture *, Object);
int cudaCreateSurfaceObject(Object *, const Resource *);
int cudaDestroySurfaceObject(Object);
int cudaGetSurfaceObjectResourceDesc(Resource *, Object);
int cudaGetDeviceProperties(void *, int);
int cudaDeviceSynchronize(void);
const char *cudaGetErrorName(int);

#define EXPECT(code, call)                                                                                                 \
    do {                                                                                                                   \
        int got_ = (call);                                                                                                 \
        if (got_ != (code)) {                                                                                              \
            fprintf(stderr, "%s:%d: %s returns %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(got_));                  \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)
#define OK(call) EXPECT(0, call)
#define HOLDS(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                        \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)
enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST, DEVICE_TO_DEVICE, INVALID_VALUE = 1, INVALID_CHANNEL = 20, INVALID_DIRECTION = 21, INVALID_FILTER = 26, INVALID_NORM = 27, INVALID_HANDLE = 400 };

/* Each with one thread for each of n: the texels of a row, between columns; those of linear memory; a row of a surface. */
#define HEAD(name) ".visible .entry " name "(.param .u64 object, .param .u64 to)\n{\n" \
    ".reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %rd<4>;\nld.param.u64 %rd0, [object]; ld.param.u64 %rd1, [to];\n" \
    "mov.u32 %r0, %tid.x; mul.wide.u32 %rd2, %r0, 4; add.u64 %rd1, %rd1, %rd2;\n"
static const char PTX[] = ".version 8.0\n.target sm_80\n.address_size 64\n" HEAD("between") "cvt.rn.f32.u32 %f0, %r0; add.f32 %f0, %f0, 0f3F800000; mov.f32 %f1, 0f3F000000;\n"
                          "tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd0, {%f0, %f1}]; st.global.f32 [%rd1], %f2; ret;\n}\n" HEAD("fetch")
                          "tex.1d.v4.f32.s32 {%f2, %f3, %f4, %f5}, [%rd0, {%r0}]; st.global.f32 [%rd1], %f2; ret;\n}\n" HEAD("put")
                          "shl.b32 %r1, %r0, 2; cvt.rn.f32.u32 %f0, %r0; mov.b32 %r2, %f0; sust.b.2d.b32.trap [%rd0, {%r1, 0}], {%r2}; ret;\n}\n";

static int (*load)(void **, const void *), (*find)(void **, void *, const char *);
static int (*launch_kernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static void *module;

static void launch(const char *name, Object object, void *to, unsigned threads)
{
    void *function, *arguments[] = {&object, &to};
    OK(find(&function, module, name));
    OK(launch_kernel(function, 1, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL));
}

static void start(void)
{
    unsigned char properties[2048];
    int extents[3];
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    OK(cudaGetDeviceProperties(properties, 0));
    memcpy(extents, properties + 440, sizeof extents);
    HOLDS(extents[0] == 16384 && extents[2] == 16384);
    load = (int (*)(void **, const void *))dlsym(driver, "cuModuleLoadData");
    find = (int (*)(void **, void *, const char *))dlsym(driver, "cuModuleGetFunction");
    launch_kernel = (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))dlsym(driver, "cuLaunchKernel");
    HOLDS(load && find && launch_kernel);
    OK(cudaDeviceSynchronize());
    OK(load(&module, PTX));
}

/* Bytes read as numbers up to 1 between columns. */
static void filtered(float *result)
{
    unsigned char data[2][4] = {{0, 255, 51, 102}, {1, 2, 3, 4}}, back[2][4];
    float values[4];
    Channel byte = cudaCreateChannelDesc(8, 0, 0, 0, 1), found, odd = {8, 8, 8, 0, 1};
    Array image, copied;
    Extent extent;
    unsigned flags;
    Object texture, none;
    Texture how = {.address = {1, 1, 1}, .filter = 1, .normalizes = 1}, seen;
    OK(cudaMallocArray(&image, &byte, 4, 2, 0));
    EXPECT(INVALID_CHANNEL, cudaMallocArray(&copied, &odd, 4, 2, 0));
    OK(cudaArrayGetInfo(&found, &extent, &flags, image));
    HOLDS(found.x == 8 && found.y == 0 && found.kind == 1 && extent.width == 4 && extent.height == 2 && flags == 0);
    OK(cudaMemcpy2DToArray(image, 0, 0, data, 4, 4, 2, HOST_TO_DEVICE));
    Resource resource = {.kind = 0, .from.array = image}, again;
    OK(cudaCreateTextureObject(&texture, &resource, &how, NULL));
    launch("between", texture, result, 4);
    OK(cudaMemcpy(values, result, sizeof values, DEVICE_TO_HOST));
    HOLDS(values[0] == 0.5f && values[3] == 0.4f);
    OK(cudaGetTextureObjectResourceDesc(&again, texture));
    OK(cudaGetTextureObjectTextureDesc(&seen, texture));
    HOLDS(again.from.array == image && seen.normalizes == 1 && seen.filter == 1 && !seen.normalized_coordinates);
    how.normalizes = 0;
    EXPECT(INVALID_FILTER, cudaCreateTextureObject(&none, &resource, &how, NULL));
    EXPECT(INVALID_VALUE, cudaCreateTextureObject(&none, NULL, &how, NULL));
    OK(cudaDestroyTextureObject(texture));
    EXPECT(INVALID_VALUE, cudaDestroyTextureObject(texture));
    OK(cudaDestroyTextureObject(0));
    OK(cudaMallocArray(&copied, &byte, 4, 2, 0));
    OK(cudaMemcpy2DArrayToArray(copied, 1, 1, image, 0, 0, 3, 1, DEVICE_TO_DEVICE));
    EXPECT(INVALID_DIRECTION, cudaMemcpy2DArrayToArray(copied, 1, 1, image, 0, 0, 3, 1, HOST_TO_DEVICE));
    OK(cudaMemcpyToArray(copied, 2, 0, data[1], 3, HOST_TO_DEVICE));
    OK(cudaMemcpy2DToArrayAsync(copied, 0, 0, data, 4, 2, 1, HOST_TO_DEVICE, NULL));
    OK(cudaMemcpy2DFromArray(back, 4, copied, 0, 0, 4, 2, DEVICE_TO_HOST));
    HOLDS(back[0][0] == 0 && back[0][1] == 255 && back[0][2] == 1 && back[0][3] == 2 && back[1][0] == 3 && back[1][2] == 255);
    OK(cudaMemcpyFromArray(back, copied, 3, 0, 3, DEVICE_TO_HOST));
    HOLDS(back[0][0] == 2 && back[0][1] == 3 && back[0][2] == 0);
    OK(cudaFreeArray(copied));
    OK(cudaFreeArray(image));
    EXPECT(INVALID_HANDLE, cudaFreeArray(image));
    EXPECT(INVALID_HANDLE, cudaGetChannelDesc(&found, image));
    OK(cudaFreeArray(NULL));
}

/* An array of three dimensions to memory in slices, and memory in rows as a texture. */
static void volume(float *result)
{
    float data[12], one[2];
    Channel number = cudaCreateChannelDesc(32, 0, 0, 0, 2), whole = cudaCreateChannelDesc(32, 0, 0, 0, 0);
    Extent extent = {2, 3, 2};
    Array array;
    Pitched slices;
    Object texture;
    size_t pitch;
    void *rows;
    for (int index = 0; index < 12; index++)
        data[index] = index;
    OK(cudaMalloc3DArray(&array, &number, extent, 0));
    Copy in = {.source_memory = {data, 8, 2, 3}, .destination = array, .extent = extent, .direction = HOST_TO_DEVICE};
    OK(cudaMemcpy3D(&in));
    Extent bytes = {8, 3, 2};
    OK(cudaMalloc3D(&slices, bytes));
    HOLDS(slices.pitch >= 8 && slices.width == 8 && slices.height == 3);
    /* Texels of the array, bytes of the memory. */
    Copy part = {.source = array, .from = {1, 2, 1}, .destination_memory = slices, .to = {4, 0, 1}, .extent = {1, 1, 1}, .direction = DEVICE_TO_DEVICE};
    OK(cudaMemcpy3D(&part));
    OK(cudaMemcpy(one, (char *)slices.address + 3 * slices.pitch + 4, 4, DEVICE_TO_HOST));
    HOLDS(one[0] == 11);
    part.source = NULL;
    EXPECT(INVALID_VALUE, cudaMemcpy3D(&part));
    OK(cudaFree(slices.address));
    OK(cudaFreeArray(array));
    OK(cudaMallocPitch(&rows, &pitch, 8, 1));
    OK(cudaMemcpy(rows, data + 4, 8, HOST_TO_DEVICE));
    Resource pitched = {.kind = 3, .from.pitched = {rows, number, 2, 1, pitch}}, linear = {.kind = 2, .from.linear = {rows, number, 8}}, seen;
    Texture border = {.address = {3, 3, 3}, .filter = 1, .border = {100, 0, 0, 0}}, point = {.normalizes = 1};
    OK(cudaCreateTextureObject(&texture, &pitched, &border, NULL));
    OK(cudaGetTextureObjectResourceDesc(&seen, texture));
    HOLDS(seen.kind == 3 && seen.from.pitched.pitch == pitch && seen.from.pitched.channel.x == 32 && seen.from.pitched.channel.kind == 2);
    launch("between", texture, result, 2);
    OK(cudaMemcpy(one, result, sizeof one, DEVICE_TO_HOST));
    HOLDS(one[0] == 4.5f && one[1] == 52.5f);
    OK(cudaDestroyTextureObject(texture));
    OK(cudaCreateTextureObject(&texture, &linear, &point, NULL));
    launch("fetch", texture, result, 2);
    OK(cudaMemcpy(one, result, sizeof one, DEVICE_TO_HOST));
    HOLDS(one[0] == 4 && one[1] == 5);
    OK(cudaDestroyTextureObject(texture));
    linear.from.linear.channel = whole;
    EXPECT(INVALID_NORM, cudaCreateTextureObject(&texture, &linear, &point, NULL));
    OK(cudaFree(rows));
}

static void surfaces(const char *mistake)
{
    Channel number = cudaCreateChannelDesc(32, 0, 0, 0, 2);
    Array array;
    Object surface;
    Resource seen;
    float row[3];
    OK(cudaMallocArray(&array, &number, 3, 1, 0));
    Resource resource = {.kind = 0, .from.array = array};
    EXPECT(INVALID_VALUE, cudaCreateSurfaceObject(&surface, &resource));
    OK(cudaFreeArray(array));
    OK(cudaMallocArray(&array, &number, 3, 1, 2));
    resource.from.array = array;
    OK(cudaCreateSurfaceObject(&surface, &resource));
    OK(cudaGetSurfaceObjectResourceDesc(&seen, surface));
    HOLDS(seen.from.array == array);
    launch("put", surface, NULL, strcmp(mistake, "beside") ? 3 : 4);
    if (cudaDeviceSynchronize())
        exit(4);
    OK(cudaMemcpy2DFromArray(row, 12, array, 0, 0, 12, 1, DEVICE_TO_HOST));
    HOLDS(row[0] == 0 && row[2] == 2);
    if (!strcmp(mistake, "leak"))
        return;
    OK(cudaDestroySurfaceObject(surface));
    OK(cudaFreeArray(array));
}

int main(int count, char **arguments)
{
    float *result;
    start();
    OK(cudaMalloc((void **)&result, 512));
    filtered(result);
    volume(result);
    surfaces(count > 1 ? arguments[1] : "");
    OK(cudaFree(result));
    puts("done");
    return 0;
}
