//! Textures and surfaces as CUDA's headers use them: `compiled/textures.ptx` was made by nvcc 13.0 from the source beside it.

use crate::common::words;
use ptx_sim::{
    AddressMode, Channel, Filter, Geometry, GlobalMemory, Launch, Module, Options, Sampler, TexelFormat, Texels, run,
};

/// Runs an entry with one block; nothing must be found.
fn launch(memory: &mut GlobalMemory, entry: &str, block: [u32; 3], params: &[&[u8]]) {
    let module = Module::parse(include_str!("compiled/textures.ptx"), "textures.ptx").expect("nvcc's PTX");
    let launch = Launch { entry, grid: [1; 3], block, dynamic_shared_bytes: 0, params, architecture: 80 };
    let report = run(&module, memory, &launch, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

fn format(channel: Channel, bits: u32, channels: u32) -> TexelFormat {
    TexelFormat::new(channel, bits, channels).expect("a format")
}

fn array(memory: &mut GlobalMemory, geometry: Geometry, extent: [u64; 3], format: TexelFormat, data: &[u8]) -> Texels {
    let texels = memory.allocate_array("image", geometry, extent, format).expect("an array");
    for (row, bytes) in data.chunks_exact(texels.row_bytes() as usize).enumerate() {
        memory.write(texels.address + row as u64 * texels.pitch, bytes).expect("a row");
    }
    texels
}

fn float_bytes(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn output(memory: &mut GlobalMemory, bytes: u64) -> u64 {
    memory.allocate("output", bytes).expect("a buffer")
}

fn read_words(memory: &GlobalMemory, address: u64, count: usize) -> Vec<u32> {
    let mut data = vec![0; 4 * count];
    memory.read(address, &mut data).expect("the buffer");
    words(&data)
}

fn read_floats(memory: &GlobalMemory, address: u64, count: usize) -> Vec<f32> {
    read_words(memory, address, count).into_iter().map(f32::from_bits).collect()
}

#[test]
fn an_image_is_rotated() {
    const SIZE: usize = 8;
    let mut memory = GlobalMemory::new();
    let pixel = |x: usize, y: usize| (x * x + 3 * y) as f32;
    let data = float_bytes((0..SIZE * SIZE).map(|index| pixel(index % SIZE, index / SIZE)));
    let extent = [SIZE as u64, SIZE as u64, 1];
    let image = array(&mut memory, Geometry::Plane, extent, format(Channel::Float, 32, 1), &data);
    let sampler = Sampler {
        address: [AddressMode::Wrap; 3],
        filter: Filter::Linear,
        normalized_coordinates: true,
        ..Sampler::default()
    };
    let texture = memory.create_texture(image, sampler).expect("a texture");
    let to = output(&mut memory, 4 * (SIZE * SIZE) as u64);
    let size = (SIZE as u32).to_le_bytes();
    let mut turned = |angle: f32| {
        let params: [&[u8]; 5] = [&texture.to_le_bytes(), &to.to_le_bytes(), &size, &size, &angle.to_le_bytes()];
        launch(&mut memory, "rotate", [8, 8, 1], &params);
        read_floats(&memory, to, SIZE * SIZE)
    };
    let image = |index: usize| (index % SIZE, index / SIZE);
    for (index, got) in turned(0.0).into_iter().enumerate() {
        let (x, y) = image(index);
        assert_eq!(got, pixel(x, y), "unturned {x} {y}");
    }
    // By a right angle: column and row change places, one of them reversed.
    for (index, got) in turned(std::f32::consts::FRAC_PI_2).into_iter().enumerate() {
        let (x, y) = image(index);
        assert_eq!(got, pixel(SIZE - 1 - y, x), "turned {x} {y}");
    }
}

#[test]
fn an_image_is_convolved() {
    const SIZE: [usize; 2] = [7, 5];
    let mut memory = GlobalMemory::new();
    let pixel = |x: i64, y: i64, channel: i64| {
        // Clamped in x, a border of zeros in y.
        let x = x.clamp(0, SIZE[0] as i64 - 1);
        if (0..SIZE[1] as i64).contains(&y) { ((x * 37 + y * 61 + channel * 17) % 256) as u8 } else { 0 }
    };
    let data: Vec<u8> = (0..SIZE[1] as i64)
        .flat_map(|y| (0..SIZE[0] as i64).flat_map(move |x| (0..4).map(move |channel| pixel(x, y, channel))))
        .collect();
    let extent = [SIZE[0] as u64, SIZE[1] as u64, 1];
    let image = array(&mut memory, Geometry::Plane, extent, format(Channel::Unsigned, 8, 4), &data);
    let address = [AddressMode::Clamp, AddressMode::Border, AddressMode::Clamp];
    let sampler = Sampler { address, normalized_values: true, ..Sampler::default() };
    let texture = memory.create_texture(image, sampler).expect("a texture");
    let filter: Vec<f32> =
        (0..9).map(|index| [0.0625, 0.125, 0.0625][index % 3] * [1.0, 2.0, 1.0][index / 3]).collect();
    let weights = output(&mut memory, 36);
    memory.write(weights, &float_bytes(filter.iter().copied())).expect("the filter");
    let count = SIZE[0] * SIZE[1];
    let to = output(&mut memory, 16 * count as u64);
    let [width, height] = SIZE.map(|size| (size as u32).to_le_bytes());
    let params: [&[u8]; 5] = [&texture.to_le_bytes(), &weights.to_le_bytes(), &to.to_le_bytes(), &width, &height];
    launch(&mut memory, "convolve", [8, 8, 1], &params);
    for (index, got) in read_floats(&memory, to, 4 * count).into_iter().enumerate() {
        let (channel, x, y) = (index as i64 % 4, (index / 4 % SIZE[0]) as i64, (index / 4 / SIZE[0]) as i64);
        let taps = (0..9_i64).map(|tap| {
            let value = f32::from(pixel(x + tap % 3 - 1, y + tap / 3 - 1, channel)) / 255.0;
            filter[tap as usize] * value
        });
        let expected: f32 = taps.sum();
        assert!((got - expected).abs() <= 1e-6, "{x} {y} {channel}: {got}, expected {expected}");
    }
}

#[test]
fn a_surface_is_mirrored() {
    let mut memory = GlobalMemory::new();
    let (width, height) = (6, 3);
    let data: Vec<u8> = (0..4 * width * height).map(|index| (index * 5) as u8).collect();
    let pixels = format(Channel::Unsigned, 8, 4);
    let from = array(&mut memory, Geometry::Plane, [width, height, 1], pixels, &data);
    let to = memory.allocate_array("mirrored", Geometry::Plane, [width, height, 1], pixels).expect("an array");
    let surfaces = [memory.create_surface(from).to_le_bytes(), memory.create_surface(to).to_le_bytes()];
    let params: [&[u8]; 4] =
        [&surfaces[0], &surfaces[1], &(width as u32).to_le_bytes(), &(height as u32).to_le_bytes()];
    launch(&mut memory, "mirror", [8, 4, 1], &params);
    for y in 0..height {
        let mut row = vec![0; 4 * width as usize];
        assert!(memory.read_checked(to.address + y * to.pitch, &mut row).expect("a row"), "all of it was written");
        for x in 0..width {
            let source = (4 * (y * width + width - 1 - x)) as usize;
            let [r, g, b, a] = data[source..source + 4] else { unreachable!("four bytes") };
            assert_eq!(row[4 * x as usize..][..4], [r, g, b, 255 - a], "{x} {y}");
        }
    }
}

#[test]
fn layers_and_volumes_are_read() {
    let mut memory = GlobalMemory::new();
    let extent = [4, 3, 3];
    let single = format(Channel::Float, 32, 1);
    let values = |factor: f32| float_bytes((0..36).map(|index| index as f32 * factor));
    let layered = array(&mut memory, Geometry::Planes, extent, single, &values(1.0));
    let volume = array(&mut memory, Geometry::Volume, extent, single, &values(2.0));
    let textures = [layered, volume]
        .map(|texels| memory.create_texture(texels, Sampler::default()).expect("a texture").to_le_bytes());
    let to = output(&mut memory, 4 * 36);
    let params: [&[u8]; 4] = [&textures[0], &textures[1], &to.to_le_bytes(), &3_u32.to_le_bytes()];
    launch(&mut memory, "layers", [4, 3, 1], &params);
    let expected: Vec<f32> = (0..36).map(|index| 201.0 * index as f32).collect();
    assert_eq!(read_floats(&memory, to, 36), expected);
}

#[test]
fn a_table_is_gathered_from() {
    let mut memory = GlobalMemory::new();
    let table = output(&mut memory, 80);
    memory
        .write(table, &crate::common::bytes(&(0..20).map(|index| index * index).collect::<Vec<_>>()))
        .expect("the table");
    let texels = Texels::linear(table, 10, format(Channel::Signed, 32, 2));
    let texture = memory.create_texture(texels, Sampler::default()).expect("a texture");
    let indices: [u32; 5] = [9, 0, 10, -1_i32 as u32, 4];
    let places = output(&mut memory, 20);
    memory.write(places, &crate::common::bytes(&indices)).expect("the indices");
    let to = output(&mut memory, 40);
    let params: [&[u8]; 4] = [&texture.to_le_bytes(), &places.to_le_bytes(), &to.to_le_bytes(), &5_u32.to_le_bytes()];
    launch(&mut memory, "gather", [32, 1, 1], &params);
    assert_eq!(read_words(&memory, to, 10), [324, 361, 0, 1, 0, 0, 0, 0, 64, 81]);
}

#[test]
fn corners_are_gathered() {
    let mut memory = GlobalMemory::new();
    let data = float_bytes((0..9).map(|index| index as f32));
    let image = array(&mut memory, Geometry::Plane, [3, 3, 1], format(Channel::Float, 32, 1), &data);
    let texture = memory.create_texture(image, Sampler::default()).expect("a texture");
    let to = output(&mut memory, 16 * 4);
    let params: [&[u8]; 3] = [&texture.to_le_bytes(), &to.to_le_bytes(), &2_u32.to_le_bytes()];
    launch(&mut memory, "corners", [2, 2, 1], &params);
    let expected: Vec<f32> = [(0, 0), (1, 0), (0, 1), (1, 1)]
        .iter()
        .flat_map(|(x, y)| [(0, 1), (1, 1), (1, 0), (0, 0)].map(|(dx, dy)| (3 * (y + dy) + x + dx) as f32))
        .collect();
    assert_eq!(read_floats(&memory, to, 16), expected);
}

#[test]
fn what_lies_outside_of_a_surface_is_the_nearest_or_zero() {
    let mut memory = GlobalMemory::new();
    let single = format(Channel::Float, 32, 1);
    let data = float_bytes([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let volume = array(&mut memory, Geometry::Volume, [2, 2, 2], single, &data);
    let layered = array(&mut memory, Geometry::Planes, [2, 2, 2], single, &data);
    let surfaces = [volume, layered].map(|texels| memory.create_surface(texels).to_le_bytes());
    let to = output(&mut memory, 32);
    let params: [&[u8]; 4] = [&surfaces[0], &surfaces[1], &to.to_le_bytes(), &4_u32.to_le_bytes()];
    launch(&mut memory, "outside", [4, 1, 1], &params);
    assert_eq!(read_floats(&memory, to, 8), [1.0, 1.0, 2.0, 2.0, 0.0, 5.0, 6.0, 0.0]);
    let mut row = [0; 8];
    memory.read(layered.place(0, 1, 0), &mut row).expect("a row");
    assert_eq!(words(&row).into_iter().map(f32::from_bits).collect::<Vec<_>>(), [1.0, 1.0]);
}
