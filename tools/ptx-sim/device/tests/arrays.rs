//! Arrays, textures and surfaces: creation, copies, and errors of use and destruction.

mod common;

use std::sync::Arc;

use common::{Bench, assert_says, code, one_thread, read_u32, stream};
use ptx_sim::{Channel, Filter, Sampler, TexelFormat};
use sim_device::{
    Array, ArrayDescriptor, Call, Code, Config, Context, Copy, LAYERED, Operation, Place, Resource, SURFACES,
    device_attribute,
};

/// `fetch` reads texel (1, 1) of a texture and writes it to an address; `put` writes 7 to the texel (1, 1) of a surface.
const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry fetch(.param .u64 texture, .param .u64 to)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    .reg .f32 %f<1>;
    ld.param.u64 %rd0, [texture];
    ld.param.u64 %rd1, [to];
    mov.f32 %f0, 0f3FC00000;
    tex.2d.v4.u32.f32 {%r0, %r1, %r2, %r3}, [%rd0, {%f0, %f0}];
    st.global.u32 [%rd1], %r0;
    ret;
}
.visible .entry put(.param .u64 surface)
{
    .reg .b32 %r<1>;
    .reg .b64 %rd<1>;
    ld.param.u64 %rd0, [surface];
    mov.u32 %r0, 7;
    sust.b.2d.b32.trap [%rd0, {4, 1}], {%r0};
    ret;
}
";

fn word() -> TexelFormat {
    TexelFormat::new(Channel::Unsigned, 32, 1).unwrap()
}

/// An array of 3 x 2 words.
fn array(context: &Arc<Context>, flags: u32) -> Arc<Array> {
    let descriptor = ArrayDescriptor { extent: [3, 2, 0], format: word(), flags };
    context.create_array("cuArrayCreate_v2", descriptor).unwrap()
}

fn launch(context: &Arc<Context>, name: &str, arguments: &[u64]) -> Result<(), sim_device::Error> {
    let function = context.load(PTX, Some("textures.ptx")).unwrap().function(name).unwrap();
    stream(context).submit(Operation::Launch(one_thread(&function, arguments)))?;
    context.synchronize()
}

fn copy(context: &Arc<Context>, destination: Place, source: Place, bytes: u64) -> Result<(), sim_device::Error> {
    stream(context).submit(Operation::Copy(Copy { destination, source, bytes }))
}

#[test]
fn an_array_is_filled_row_by_row_and_read_through_a_texture() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let (buffer, array) = (context.allocate("cuMemAlloc_v2", 24).unwrap(), array(&context, 0));
    context.write(buffer, &(0..24).collect::<Vec<u8>>()).unwrap();
    for row in 0..2 {
        let offset = array.offset([0, row, 0], 12).unwrap();
        copy(&context, Place::Array(array.clone(), offset), Place::Device(buffer + 12 * row), 12).unwrap();
    }
    let texture =
        context.create_texture("cuTexObjectCreate", &Resource::Array(array.clone()), Sampler::default()).unwrap();
    launch(&context, "fetch", &[texture, buffer]).unwrap();
    assert_eq!(read_u32(&context, buffer), u32::from_le_bytes([16, 17, 18, 19]));
    let back = array.offset([8, 0, 0], 4).unwrap();
    copy(&context, Place::Device(buffer), Place::Array(array, back), 4).unwrap();
    assert_eq!(read_u32(&context, buffer), u32::from_le_bytes([8, 9, 10, 11]));
}

#[test]
fn a_surface_writes_to_an_array_that_was_made_for_that() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let plain = array(&context, 0);
    assert_says(context.create_surface("test", &plain), Code::INVALID_VALUE, "without CUDA_ARRAY3D_SURFACE_LDST");
    let written = array(&context, SURFACES);
    let surface = context.create_surface("test", &written).unwrap();
    launch(&context, "put", &[surface]).unwrap();
    let buffer = context.allocate("cuMemAlloc_v2", 4).unwrap();
    let place = Place::Array(written.clone(), written.offset([4, 1, 0], 4).unwrap());
    copy(&context, Place::Device(buffer), place, 4).unwrap();
    assert_eq!(read_u32(&context, buffer), 7);
}

#[test]
fn shapes_that_no_array_has_are_refused() {
    let context = Bench::new(1).context(0);
    let create = |extent, flags| context.create_array("test", ArrayDescriptor { extent, format: word(), flags });
    for (extent, flags) in [
        ([0, 1, 0], 0),
        ([4, 0, 4], 0),
        ([4, 4, 0], LAYERED),
        ([131_073, 1, 0], 0),
        ([4, 16_385, 4], 0),
        ([4, 0, 2049], LAYERED),
    ] {
        assert_eq!(code(create(extent, flags)), Code::INVALID_VALUE, "{extent:?} {flags}");
    }
    assert_says(create([4, 4, 6], 4), Code::NOT_SUPPORTED, "cubemaps");
    for (extent, flags) in [([4, 0, 0], 0), ([4, 4, 0], 8), ([4, 4, 4], 0), ([4, 0, 4], LAYERED), ([4, 4, 4], LAYERED)]
    {
        create(extent, flags).unwrap();
    }
}

#[test]
fn an_array_takes_memory_of_its_gpu() {
    let bench = Bench::with(Config { memory_bytes: 1 << 20, ..Config::default() });
    let context = bench.context(0);
    let descriptor = ArrayDescriptor { extent: [1024, 256, 0], format: word(), flags: 0 };
    let array = context.create_array("test", descriptor).unwrap();
    assert_says(context.allocate("cuMemAlloc_v2", 1), Code::OUT_OF_MEMORY, "0 of 1048576 are free");
    array.destroy().unwrap();
    context.create_array("test", descriptor).expect("there is room again");
    let huge = ArrayDescriptor { extent: [16_384; 3], ..descriptor };
    assert_eq!(code(context.create_array("test", huge)), Code::OUT_OF_MEMORY);
}

#[test]
fn parts_of_rows_lie_inside_and_cut_no_texel() {
    let context = Bench::new(1).context(0);
    let array = array(&context, 0);
    assert_says(array.offset([8, 1, 0], 8), Code::INVALID_VALUE, "8 bytes from byte 8 of row 1");
    assert_says(array.offset([0, 2, 0], 4), Code::INVALID_VALUE, "row 2");
    assert_says(array.offset([0, 0, 1], 4), Code::INVALID_VALUE, "layer or slice 1");
    assert_says(array.offset([2, 0, 0], 4), Code::INVALID_VALUE, "texels are cut");
    assert_says(array.offset([u64::MAX - 3, 0, 0], 4), Code::INVALID_VALUE, "which has 12 bytes in a row");
}

#[test]
fn no_pointer_reaches_an_array() {
    let context = Bench::new(1).context(0);
    let (buffer, array) = (context.allocate("cuMemAlloc_v2", 16).unwrap(), array(&context, 0));
    let inside = array.texels().address;
    assert_says(
        copy(&context, Place::Device(inside), Place::Device(buffer), 4),
        Code::INVALID_VALUE,
        "no pointer reaches array 2",
    );
    assert_says(context.free(inside, Call::Synchronous), Code::INVALID_VALUE, "cannot be freed");
    array.check_live().unwrap();
}

#[test]
fn what_was_destroyed_is_not_used_again() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let (buffer, array) = (context.allocate("cuMemAlloc_v2", 16).unwrap(), array(&context, 0));
    let resource = Resource::Array(array.clone());
    let texture = context.create_texture("test", &resource, Sampler::default()).unwrap();
    let place = Place::Array(array.clone(), 0);
    array.destroy().unwrap();
    assert_says(
        array.destroy(),
        Code::INVALID_HANDLE,
        "3 x 2 texels of 4 bytes, by cuArrayCreate_v2, which was destroyed before",
    );
    assert_says(copy(&context, Place::Device(buffer), place, 4), Code::INVALID_HANDLE, "destroyed before");
    assert_says(
        context.create_texture("test", &resource, Sampler::default()),
        Code::INVALID_HANDLE,
        "destroyed before",
    );
    assert_eq!(code(launch(&context, "fetch", &[texture, buffer])), Code::ILLEGAL_ADDRESS);
    assert!(
        bench.messages().contains("array 2 of 3 x 2 texels of 4 bytes, by cuArrayCreate_v2`, which was freed"),
        "{}",
        bench.messages()
    );
}

#[test]
fn objects_are_destroyed_once_and_as_what_they_are() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let array = array(&context, SURFACES);
    let texture = context.create_texture("test", &Resource::Array(array.clone()), Sampler::default()).unwrap();
    assert_says(context.destroy_surface(texture), Code::INVALID_VALUE, "is no surface object: it is a texture object");
    context.destroy_texture(texture).unwrap();
    assert_says(context.destroy_texture(texture), Code::INVALID_VALUE, "it was destroyed before");
    assert_says(context.destroy_texture(5), Code::INVALID_VALUE, "it was never given to the program");
    let buffer = context.allocate("cuMemAlloc_v2", 16).unwrap();
    assert_eq!(code(launch(&context, "fetch", &[texture, buffer])), Code::LAUNCH_FAILED);
    assert!(bench.messages().contains("is no texture object: it was destroyed before"), "{}", bench.messages());
}

#[test]
fn objects_of_contexts_are_their_own() {
    let bench = Bench::new(1);
    let (first, second) = (bench.context(0), bench.context(0));
    let array = array(&first, SURFACES);
    assert_says(second.create_surface("test", &array), Code::INVALID_HANDLE, "belongs to a context of GPU 0");
    let surface = first.create_surface("test", &array).unwrap();
    assert!(first.has_object(surface) && !second.has_object(surface));
    assert_says(second.destroy_surface(surface), Code::INVALID_VALUE, "never given");
}

#[test]
fn textures_of_memory_lie_in_it_and_are_aligned() {
    let context = Bench::new(1).context(0);
    let buffer = context.allocate("cuMemAlloc_v2", 1024).unwrap();
    let create = |resource: Resource| context.create_texture("test", &resource, Sampler::default());
    let linear = |address, bytes| create(Resource::Linear { address, bytes, format: word() });
    linear(buffer, 1024).unwrap();
    assert_says(linear(buffer, 1028), Code::INVALID_VALUE, "the last 4 bytes are past the end");
    assert_says(linear(buffer + 4, 16), Code::INVALID_VALUE, "CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT");
    assert_says(linear(buffer, 0), Code::INVALID_VALUE, "a texture of 0 x 1 texels");
    let pitched = |extent, pitch| create(Resource::Pitched { address: buffer, extent, pitch, format: word() });
    pitched([8, 32], 32).unwrap();
    assert_says(pitched([8, 33], 32), Code::INVALID_VALUE, "past the end");
    assert_says(pitched([8, 2], 48), Code::INVALID_VALUE, "multiple of 32");
    assert_says(pitched([9, 2], 32), Code::INVALID_VALUE, "lie 32 bytes apart");
    let filtered = Sampler { filter: Filter::Linear, ..Sampler::default() };
    let resource = Resource::Pitched { address: buffer, extent: [8, 2], pitch: 32, format: word() };
    assert_says(context.create_texture("test", &resource, filtered), Code::INVALID_VALUE, "a linear filter");
}

#[test]
fn what_is_not_destroyed_is_a_leak() {
    let bench = Bench::with(Config { leaks: true, ..Config::default() });
    let context = bench.context(0);
    let (kept, gone) = (array(&context, SURFACES), array(&context, SURFACES));
    context.create_surface("cuSurfObjectCreate", &kept).unwrap();
    let destroyed = context.create_surface("cuSurfObjectCreate", &gone).unwrap();
    context.destroy_surface(destroyed).unwrap();
    gone.destroy().unwrap();
    context.destroy().unwrap();
    let messages = bench.messages();
    assert!(messages.contains("array 1 of 3 x 2 texels of 4 bytes, by cuArrayCreate_v2, is never freed"), "{messages}");
    assert!(messages.contains("a surface object by cuSurfObjectCreate, of array 1"), "{messages}");
    assert!(!messages.contains("array 2"), "{messages}");
}

#[test]
fn streams_that_use_an_array_without_order_race() {
    let bench = Bench::new(1);
    let context = bench.context(0);
    let array = array(&context, SURFACES);
    let surface = context.create_surface("test", &array).unwrap();
    let function = context.load(PTX, Some("textures.ptx")).unwrap().function("put").unwrap();
    let (first, second) = (stream(&context), stream(&context));
    let buffer = context.allocate("cuMemAlloc_v2", 4).unwrap();
    first.submit(Operation::Launch(one_thread(&function, &[surface]))).unwrap();
    let place = Place::Array(array.clone(), array.offset([4, 1, 0], 4).unwrap());
    second.submit(Operation::Copy(Copy { destination: Place::Device(buffer), source: place, bytes: 4 })).unwrap();
    let messages = bench.messages();
    assert!(
        messages.contains("of array 1 of 3 x 2 texels") && messages.contains("nothing orders the two"),
        "{messages}"
    );
}

#[test]
fn attributes_tell_the_largest_extents() {
    let attribute = |number| device_attribute(&Config::default(), 0, number);
    let textures = [21, 22, 23, 24, 26, 27, 29, 42, 43].map(attribute);
    let expected = [131_072, 131_072, 65_536, 16_384, 16_384, 32_768, 2048, 32_768, 2048].map(Some);
    assert_eq!(textures, expected);
    // Cubemaps and mipmaps are not there; the numbers between are those of others.
    assert_eq!([52, 73, 77].map(attribute), [Some(0); 3]);
    assert_eq!([44, 75, 78].map(attribute), [Some(0), Some(9), Some(1)]);
}
