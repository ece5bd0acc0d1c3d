/* Arrays, textures and surfaces of the driver API, rightly and wrongly used. */

#include "cuda.h"

typedef void *CUarray;
typedef uint64_t Object;

typedef struct {
    size_t width, height;
    unsigned format, channels;
} Plane;

typedef struct {
    size_t width, height, depth;
    unsigned format, channels, flags;
} Volume;

typedef struct {
    size_t x, y;
    unsigned kind;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    size_t pitch;
} End2d;

typedef struct {
    End2d source, destination;
    size_t width, height;
} Copy2d;

typedef struct {
    size_t x, y, z, level;
    unsigned kind;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    void *reserved;
    size_t pitch, height;
} End3d;

typedef struct {
    End3d source, destination;
    size_t width, height, depth;
} Copy3d;

typedef struct {
    unsigned kind;
    union {
        struct {
            CUarray array;
        } array;
        struct {
            CUdeviceptr address;
            unsigned format, channels;
            size_t bytes;
        } linear;
        struct {
            CUdeviceptr address;
            unsigned format, channels;
            size_t width, height, pitch;
        } pitched;
        int reserved[32];
    } from;
    unsigned flags;
} Resource;

typedef struct {
    unsigned address[3], filter, flags, anisotropy, mipmap_filter;
    float mipmap_bias, mipmap_limits[2], border[4];
    int reserved[12];
} Texture;

CUresult cuArrayCreate_v2(CUarray *, const Plane *);
CUresult cuArray3DCreate_v2(CUarray *, const Volume *);
CUresult cuArrayGetDescriptor_v2(Plane *, CUarray);
CUresult cuArray3DGetDescriptor_v2(Volume *, CUarray);
CUresult cuArrayDestroy(CUarray);
CUresult cuMemcpy2D_v2(const Copy2d *);
CUresult cuMemcpy2DUnaligned_v2(const Copy2d *);
CUresult cuMemcpy2DAsync_v2(const Copy2d *, CUstream);
CUresult cuMemcpy3D_v2(const Copy3d *);
CUresult cuMemcpyHtoA_v2(CUarray, size_t, const void *, size_t);
CUresult cuMemcpyAtoH_v2(void *, CUarray, size_t, size_t);
CUresult cuMemcpyDtoA_v2(CUarray, size_t, CUdeviceptr, size_t);
CUresult cuMemcpyAtoD_v2(CUdeviceptr, CUarray, size_t, size_t);
CUresult cuTexObjectCreate(Object *, const Resource *, const Texture *, const void *);
CUresult cuTexObjectDestroy(Object);
CUresult cuTexObjectGetResourceDesc(Resource *, Object);
CUresult cuTexObjectGetTextureDesc(Texture *, Object);
CUresult cuSurfObjectCreate(Object *, const Resource *);
CUresult cuSurfObjectDestroy(Object);
CUresult cuSurfObjectGetResourceDesc(Resource *, Object);

/* filter: output[i] = texture(x + i, y); put: the surface's texel (i, 0) is i + 100. */
static const char TEXTURES[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry filter(.param .u64 texture, .param .f32 x, .param .f32 y, .param .u64 output)\n{\n"
                               "    .reg .b32 %r<2>; .reg .f32 %f<8>; .reg .b64 %rd<4>;\n"
                               "    ld.param.u64 %rd0, [texture]; ld.param.f32 %f0, [x]; ld.param.f32 %f1, [y];\n"
                               "    ld.param.u64 %rd1, [output]; mov.u32 %r0, %tid.x; cvt.rn.f32.u32 %f2, %r0; add.f32 %f0, %f0, %f2;\n"
                               "    tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%rd0, {%f0, %f1}];\n"
                               "    mul.wide.u32 %rd2, %r0, 4; add.u64 %rd1, %rd1, %rd2; st.global.f32 [%rd1], %f4; ret;\n}\n"
                               ".visible .entry put(.param .u64 surface)\n{\n"
                               "    .reg .b32 %r<3>; .reg .b64 %rd<1>;\n"
                               "    ld.param.u64 %rd0, [surface]; mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; add.u32 %r2, %r0, 100;\n"
                               "    sust.b.2d.b32.trap [%rd0, {%r1, 0}], {%r2}; ret;\n}\n";

static void copies(void)
{
    unsigned char data[24], back[24], strided[3][16];
    CUarray plane, volume;
    CUdeviceptr memory;
    CUstream stream;
    Plane found;
    Volume seen;
    Plane wanted = {4, 3, 0x02, 1};
    for (int index = 0; index < 24; index++)
        data[index] = index;
    OK(cuArrayCreate_v2(&plane, &wanted));
    OK(cuArrayGetDescriptor_v2(&found, plane));
    HOLDS(found.width == 4 && found.height == 3 && found.format == 0x02 && found.channels == 1);
    Copy2d in = {.source = {.kind = 1, .host = data, .pitch = 8}, .destination = {.kind = 3, .array = plane}, .width = 8, .height = 3};
    OK(cuMemcpy2D_v2(&in));
    Copy2d out = {.source = {.x = 2, .y = 1, .kind = 3, .array = plane}, .destination = {.kind = 1, .host = strided, .pitch = 16}, .width = 6, .height = 2};
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemcpy2DAsync_v2(&out, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy_v2(stream));
    HOLDS(strided[0][0] == 10 && strided[0][5] == 15 && strided[1][0] == 18);
    /* Behind each other, across rows, and by way of device memory. */
    OK(cuMemAlloc_v2(&memory, 24));
    OK(cuMemcpyAtoD_v2(memory, plane, 4, 20));
    OK(cuMemcpyDtoH_v2(back, memory, 20));
    HOLDS(back[0] == 4 && back[19] == 23);
    OK(cuMemcpyHtoA_v2(plane, 6, data, 4));
    OK(cuMemcpyDtoA_v2(plane, 0, memory, 2));
    OK(cuMemcpyAtoH_v2(back, plane, 0, 12));
    HOLDS(back[0] == 4 && back[1] == 5 && back[2] == 2 && back[6] == 0 && back[9] == 3 && back[10] == 10);
    out.width = 8;
    EXPECT(ERROR_INVALID_VALUE, cuMemcpy2DUnaligned_v2(&out));
    EXPECT(ERROR_INVALID_VALUE, cuMemcpyAtoH_v2(back, plane, 20, 8));
    EXPECT(ERROR_INVALID_HANDLE, cuMemcpyAtoH_v2(back, (CUarray)&plane, 0, 4));
    /* Two layers of 2 x 2 texels of 2 bytes. */
    Volume layers = {2, 2, 2, 0x02, 1, 1};
    OK(cuArray3DCreate_v2(&volume, &layers));
    OK(cuArray3DGetDescriptor_v2(&seen, volume));
    HOLDS(seen.depth == 2 && seen.flags == 1);
    Copy3d all = {.source = {.kind = 1, .host = data, .pitch = 4, .height = 2}, .destination = {.kind = 3, .array = volume}, .width = 4, .height = 2, .depth = 2};
    OK(cuMemcpy3D_v2(&all));
    Copy3d last = {.source = {.y = 1, .z = 1, .kind = 3, .array = volume}, .destination = {.kind = 1, .host = back}, .width = 4, .height = 1, .depth = 1};
    OK(cuMemcpy3D_v2(&last));
    HOLDS(back[0] == 12 && back[3] == 15);
    OK(cuArrayDestroy(volume));
    EXPECT(ERROR_INVALID_HANDLE, cuArrayDestroy(volume));
    EXPECT(ERROR_INVALID_HANDLE, cuMemcpy3D_v2(&last));
    OK(cuArrayDestroy(plane));
    OK(cuMemFree_v2(memory));
}

static void objects(void)
{
    float data[8] = {0, 1, 2, 3, 10, 11, 12, 13}, back[4], x = 1, y = 1;
    CUarray image;
    CUdeviceptr memory;
    CUmodule module;
    CUfunction filter, put;
    Object texture, other, surface;
    Resource seen;
    Texture how, linear = {.address = {1, 1, 1}, .filter = 1};
    Volume wanted = {4, 2, 0, 0x20, 1, 2};
    OK(cuArray3DCreate_v2(&image, &wanted));
    OK(cuMemcpyHtoA_v2(image, 0, data, sizeof data));
    OK(cuMemAlloc_v2(&memory, 512));
    Resource resource = {.kind = 0, .from.array.array = image};
    OK(cuTexObjectCreate(&texture, &resource, &linear, NULL));
    OK(cuTexObjectGetResourceDesc(&seen, texture));
    OK(cuTexObjectGetTextureDesc(&how, texture));
    HOLDS(seen.from.array.array == image && how.filter == 1 && how.address[2] == 1);
    OK(cuModuleLoadData(&module, TEXTURES));
    OK(cuModuleGetFunction(&filter, module, "filter"));
    OK(cuModuleGetFunction(&put, module, "put"));
    void *arguments[] = {&texture, &x, &y, &memory};
    OK(cuLaunchKernel(filter, 1, 1, 1, 4, 1, 1, 0, NULL, arguments, NULL));
    OK(cuMemcpyDtoH_v2(back, memory, sizeof back));
    /* Halfway between columns and rows; clamped on the right. */
    HOLDS(back[0] == 5.5f && back[2] == 7.5f && back[3] == 8);
    OK(cuSurfObjectCreate(&surface, &resource));
    OK(cuSurfObjectGetResourceDesc(&seen, surface));
    void *only[] = {&surface};
    OK(cuLaunchKernel(put, 1, 1, 1, 4, 1, 1, 0, NULL, only, NULL));
    unsigned words[4];
    OK(cuMemcpyAtoH_v2(words, image, 0, 16));
    HOLDS(words[0] == 100 && words[3] == 103);
    EXPECT(ERROR_INVALID_VALUE, cuTexObjectGetResourceDesc(&seen, surface));
    EXPECT(ERROR_INVALID_VALUE, cuTexObjectDestroy(surface));
    OK(cuSurfObjectDestroy(surface));
    EXPECT(ERROR_INVALID_VALUE, cuSurfObjectDestroy(surface));
    OK(cuTexObjectDestroy(texture));
    EXPECT(ERROR_INVALID_VALUE, cuTexObjectGetTextureDesc(&how, texture));
    /* Of memory: linear, and in rows. */
    Resource rows = {.kind = 3, .from.pitched = {memory, 0x20, 1, 4, 2, 32}};
    OK(cuTexObjectCreate(&other, &rows, &linear, NULL));
    OK(cuTexObjectDestroy(other));
    rows.from.pitched.pitch = 8;
    EXPECT(ERROR_INVALID_VALUE, cuTexObjectCreate(&other, &rows, &linear, NULL));
    Resource line = {.kind = 2, .from.linear = {memory, 0x03, 2, 512}};
    OK(cuTexObjectCreate(&other, &line, &linear, NULL));
    OK(cuTexObjectDestroy(other));
    line.from.linear.channels = 3;
    EXPECT(ERROR_INVALID_VALUE, cuTexObjectCreate(&other, &line, &linear, NULL));
    EXPECT(ERROR_INVALID_VALUE, cuSurfObjectCreate(&other, &line));
    linear.flags = 0x10;
    EXPECT(ERROR_NOT_SUPPORTED, cuTexObjectCreate(&other, &resource, &linear, NULL));
    linear.flags = 0;
    linear.address[1] = 4;
    EXPECT(ERROR_INVALID_VALUE, cuTexObjectCreate(&other, &resource, &linear, NULL));
    resource.kind = 1;
    EXPECT(ERROR_NOT_SUPPORTED, cuTexObjectCreate(&other, &resource, &how, NULL));
    OK(cuArrayDestroy(image));
    OK(cuMemFree_v2(memory));
}

static void shapes(void)
{
    CUarray array;
    Plane none = {0, 3, 0x20, 1}, odd = {4, 3, 0x20, 3}, video = {4, 3, 0xb0, 3}, unknown = {4, 3, 0x77777, 1};
    Volume cube = {4, 4, 6, 0x20, 1, 4};
    EXPECT(ERROR_INVALID_VALUE, cuArrayCreate_v2(&array, &none));
    EXPECT(ERROR_INVALID_VALUE, cuArrayCreate_v2(&array, &odd));
    EXPECT(ERROR_INVALID_VALUE, cuArrayCreate_v2(&array, &unknown));
    EXPECT(ERROR_NOT_SUPPORTED, cuArrayCreate_v2(&array, &video));
    EXPECT(ERROR_NOT_SUPPORTED, cuArray3DCreate_v2(&array, &cube));
    EXPECT(ERROR_INVALID_VALUE, cuArrayCreate_v2(NULL, &odd));
}

/* A program that leaves an array and a texture, and one that writes beside a surface. */
static void mistakes(const char *mistake)
{
    CUarray image;
    CUmodule module;
    CUfunction put;
    Object surface;
    Volume wanted = {3, 1, 0, 0x20, 1, 2};
    OK(cuArray3DCreate_v2(&image, &wanted));
    Resource resource = {.kind = 0, .from.array.array = image};
    OK(cuSurfObjectCreate(&surface, &resource));
    if (strcmp(mistake, "beside"))
        return;
    OK(cuModuleLoadData(&module, TEXTURES));
    OK(cuModuleGetFunction(&put, module, "put"));
    void *only[] = {&surface};
    OK(cuLaunchKernel(put, 1, 1, 1, 4, 1, 1, 0, NULL, only, NULL));
    printf("%s\n", name_of(cuCtxSynchronize()));
}

int main(int count, char **arguments)
{
    CUcontext context;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    if (count > 1) {
        mistakes(arguments[1]);
        return 0;
    }
    copies();
    objects();
    shapes();
    puts("done");
    return 0;
}
