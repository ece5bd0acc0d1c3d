//! Textures: results of fetches against the formulas of the CUDA C++ Programming Guide, and findings.

use crate::common::{Kernel, bytes, words};
use ptx_sim::{
    AddressMode, Channel, Filter, FindingClass, Geometry, GlobalMemory, Module, Sampler, TexelFormat, Texels,
};

/// Addresses of a lane's four words of output and of input.
const PLACES: &str = "mul.wide.u32 %rd0, %lane, 16; add.u64 %rd1, %output, %rd0; add.u64 %rd2, %input, %rd0;\n\
    ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd2]; mov.b32 %r0, %f0; mov.b32 %r1, %f1; mov.b32 %r2, %f2; mov.b32 %r3, %f3;\n";
const STORE_FLOATS: &str = "st.global.v4.f32 [%rd1], {%f4, %f5, %f6, %f7};\n";
const STORE_WORDS: &str = "st.global.v4.u32 [%rd1], {%r4, %r5, %r6, %r7};\n";
/// A fetch of a plane at floating-point coordinates.
const FETCH: &str = "tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%object0, {%f0, %f1}];\n";

const MODES: [AddressMode; 4] = [AddressMode::Wrap, AddressMode::Clamp, AddressMode::Mirror, AddressMode::Border];

fn format(channel: Channel, bits: u32, channels: u32) -> TexelFormat {
    TexelFormat::new(channel, bits, channels).expect("a format")
}

fn single() -> TexelFormat {
    format(Channel::Float, 32, 1)
}

/// An array whose rows hold `data`.
fn array(memory: &mut GlobalMemory, geometry: Geometry, extent: [u64; 3], format: TexelFormat, data: &[u8]) -> Texels {
    let texels = memory.allocate_array("image", geometry, extent, format).expect("an array");
    for (row, bytes) in data.chunks_exact(texels.row_bytes() as usize).enumerate() {
        memory.write(texels.address + row as u64 * texels.pitch, bytes).expect("a row");
    }
    texels
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A kernel with a texture of an array.
fn on_array(
    body: &str,
    geometry: Geometry,
    extent: [u64; 3],
    format: TexelFormat,
    data: Vec<u8>,
    sampler: Sampler,
) -> Kernel {
    Kernel::new(&format!("{PLACES}{body}")).with_output_bytes(512).with_objects(move |memory| {
        let texels = array(memory, geometry, extent, format, &data);
        vec![memory.create_texture(texels, sampler).expect("a texture")]
    })
}

/// 32 coordinates of four numbers each: some exactly between texels, most anywhere from -2 to 3 times `extent`.
fn coordinates(extent: [f32; 3]) -> Vec<f32> {
    let mut state = 12345_u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    (0..32).flat_map(|_| [0, 1, 2, 0].map(|axis: usize| (next() * 5.0 - 2.0) * extent[axis])).collect()
}

/// The texel of an unbounded texture for a coordinate: its index inside the texture, or `None` outside.
fn extended(mode: AddressMode, index: i64, extent: i64) -> Option<i64> {
    match mode {
        AddressMode::Wrap => Some(index.rem_euclid(extent)),
        AddressMode::Mirror => {
            let within = index.rem_euclid(2 * extent);
            Some(if within < extent { within } else { 2 * extent - 1 - within })
        }
        AddressMode::Clamp => Some(index.clamp(0, extent - 1)),
        AddressMode::Border => (0..extent).contains(&index).then_some(index),
    }
}

/// The texels that a coordinate in texels needs, by the guide's formulas.
fn expected_taps(filter: Filter, mode: AddressMode, x: f64, extent: i64) -> Vec<(Option<i64>, f64)> {
    match filter {
        Filter::Point => vec![(extended(mode, x.floor() as i64, extent), 1.0)],
        Filter::Linear => {
            let base = (x - 0.5).floor();
            let weight = ((x - 0.5 - base) * 256.0).round() / 256.0;
            let low = base as i64;
            vec![(extended(mode, low, extent), 1.0 - weight), (extended(mode, low + 1, extent), weight)]
        }
    }
}

/// Fetches of an array of three dimensions at most, in every mode, compared with the formulas.
fn check_filter(geometry: Geometry, instruction: &str, extent: [u64; 3], is_normalized: bool) {
    let [width, height, depth] = extent.map(|extent| extent as usize);
    let data: Vec<f32> = (0..width * height * depth).map(|index| ((index * 7) % 31) as f32 - 9.5).collect();
    let scale = if is_normalized { [1.0; 3] } else { extent.map(|extent| extent as f32) };
    let input = coordinates(scale);
    let border = 4.25;
    for mode in MODES {
        for filter in [Filter::Point, Filter::Linear] {
            let sampler = Sampler {
                address: [mode; 3],
                filter,
                normalized_coordinates: is_normalized,
                border: [border, 0.0, 0.0, 0.0],
                ..Sampler::default()
            };
            let body = format!("{instruction}\n{STORE_FLOATS}");
            let kernel = on_array(&body, geometry, extent, single(), floats(&data), sampler);
            let output = words(&kernel.with_input(floats(&input)).run_clean());
            let mode = match mode {
                AddressMode::Wrap | AddressMode::Mirror if !is_normalized => AddressMode::Clamp,
                mode => mode,
            };
            for (lane, got) in output.chunks_exact(4).enumerate() {
                let mut sum = vec![(0_i64, Some(()), 1.0)];
                for (axis, step) in [1, width, width * height].into_iter().enumerate() {
                    let x = f64::from(input[4 * lane + axis]);
                    let x = if is_normalized { x * extent[axis] as f64 } else { x };
                    let taps = match axis < geometry.rank() {
                        true => expected_taps(filter, mode, x, extent[axis] as i64),
                        false => vec![(Some(0), 1.0)],
                    };
                    let product = |(place, inside, weight): (i64, Option<()>, f64)| {
                        let taps = taps.clone();
                        taps.into_iter().map(move |(index, other)| {
                            (
                                place + index.unwrap_or(0) * step as i64,
                                inside.filter(|()| index.is_some()),
                                weight * other,
                            )
                        })
                    };
                    sum = sum.into_iter().flat_map(product).collect();
                }
                let value = |(place, inside, weight): (i64, Option<()>, f64)| {
                    weight * f64::from(if inside.is_some() { data[place as usize] } else { border })
                };
                let expected: f64 = sum.into_iter().map(value).sum();
                let got = f32::from_bits(got[0]);
                assert_eq!(got, expected as f32, "{geometry:?} {mode:?} {filter:?} {is_normalized} lane {lane}");
            }
        }
    }
}

#[test]
fn filters_and_modes_are_those_of_the_guide() {
    let fetch = |geometry: &str, coordinates: &str| {
        format!("tex.{geometry}.v4.f32.f32 {{%f4, %f5, %f6, %f7}}, [%object0, {{{coordinates}}}];")
    };
    for is_normalized in [false, true] {
        check_filter(Geometry::Line, &fetch("1d", "%f0"), [7, 1, 1], is_normalized);
        check_filter(Geometry::Plane, &fetch("2d", "%f0, %f1"), [5, 3, 1], is_normalized);
        check_filter(Geometry::Volume, &fetch("3d", "%f0, %f1, %f2, %f2"), [5, 3, 4], is_normalized);
    }
}

#[test]
fn a_mirrored_texture_is_read_at_the_mirrored_coordinate() {
    // At 1 + k/4 the guide reads 1 - k/4 of 4 texels, which begins texel 4 - k.
    let sampler = Sampler { address: [AddressMode::Mirror; 3], normalized_coordinates: true, ..Sampler::default() };
    let body = format!("tex.1d.v4.f32.f32 {{%f4, %f5, %f6, %f7}}, [%object0, {{%f0}}];\n{STORE_FLOATS}");
    let kernel = on_array(&body, Geometry::Line, [4, 1, 1], single(), floats(&[1.0, 2.0, 3.0, 4.0]), sampler);
    let input = [1.25, 0.0, 0.0, 0.0, 1.5, 0.0, 0.0, 0.0, -0.25, 0.0, 0.0, 0.0];
    let output = words(&kernel.with_threads(3).with_input(floats(&input)).run_clean());
    assert_eq!([0, 4, 8].map(|word| f32::from_bits(output[word])), [4.0, 3.0, 2.0]);
}

#[test]
fn weights_of_a_linear_filter_have_eight_bits() {
    let sampler = Sampler { filter: Filter::Linear, ..Sampler::default() };
    let kernel = |x: f32| {
        let body = format!("mov.f32 %f0, 0f{:08x}; mov.f32 %f1, 0f3f000000;{FETCH}{STORE_FLOATS}", x.to_bits());
        on_array(&body, Geometry::Plane, [2, 1, 1], single(), floats(&[0.0, 1024.0]), sampler).with_threads(1)
    };
    // 1/3 is 85.33 of 256, 0.334 is 85.5: rounded up.
    let of = |x: f32| f32::from_bits(words(&kernel(x).with_input(vec![0; 16]).run_clean())[0]);
    assert_eq!([of(0.5 + 1.0 / 3.0), of(0.5 + 85.5 / 256.0), of(0.5 + 255.75 / 256.0)], [340.0, 344.0, 1024.0]);
}

#[test]
fn integers_are_extended_and_normalized() {
    let cases = [
        (Channel::Unsigned, 8, vec![255, 51], [255, 51], [1.0, 0.2]),
        (Channel::Signed, 8, vec![0x80, 127], [-128_i32 as u32, 127], [-1.0, 1.0]),
        (Channel::Unsigned, 16, vec![0xff, 0xff, 0x33, 0x33], [65535, 13107], [1.0, 0.2]),
        (Channel::Signed, 16, vec![0x00, 0x80, 0xff, 0x7f], [-32768_i32 as u32, 32767], [-1.0, 1.0]),
    ];
    for (channel, bits, data, integers, numbers) in cases {
        let kernel = |body: String, sampler| {
            let kernel = on_array(&body, Geometry::Plane, [1, 1, 1], format(channel, bits, 2), data.clone(), sampler);
            words(&kernel.with_threads(1).with_input(vec![0; 16]).run_clean())[..4].to_vec()
        };
        let body = format!("tex.2d.v4.s32.f32 {{%r4, %r5, %r6, %r7}}, [%object0, {{%f0, %f1}}];{STORE_WORDS}");
        assert_eq!(kernel(body, Sampler::default()), [integers[0], integers[1], 0, 0], "{channel:?} {bits}");
        let sampler = Sampler { normalized_values: true, ..Sampler::default() };
        let expected = [f32::to_bits(numbers[0]), f32::to_bits(numbers[1]), 0, 0];
        assert_eq!(kernel(format!("{FETCH}{STORE_FLOATS}"), sampler), expected, "{channel:?} {bits}");
    }
}

#[test]
fn halves_become_singles() {
    let data = vec![0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0xff, 0x7b];
    let body = format!("{FETCH}{STORE_FLOATS}");
    let kernel = on_array(&body, Geometry::Plane, [1, 1, 1], format(Channel::Float, 16, 4), data, Sampler::default());
    let output = words(&kernel.with_threads(1).with_input(vec![0; 16]).run_clean());
    let expected = [1.0, -2.0, 2.0_f32.powi(-24), 65504.0].map(f32::to_bits);
    assert_eq!(output[..4], expected);
}

/// Linear memory of 10 pairs.
fn pairs(body: &str) -> Kernel {
    Kernel::new(&format!("{PLACES}{body}")).with_output_bytes(512).with_objects(|memory| {
        let address = memory.allocate("table", 80).expect("a buffer");
        memory.write(address, &bytes(&(100..120).collect::<Vec<_>>())).expect("the buffer");
        let texels = Texels::linear(address, 10, format(Channel::Signed, 32, 2));
        vec![memory.create_texture(texels, Sampler::default()).expect("a texture")]
    })
}

#[test]
fn linear_memory_is_read_at_integers_and_is_zero_outside() {
    let body = format!("tex.1d.v4.s32.s32 {{%r4, %r5, %r6, %r7}}, [%object0, %r0];\n{STORE_WORDS}");
    let indices = [3, -1_i32 as u32, 10, 9, i32::MIN as u32];
    let input: Vec<u32> = indices.iter().flat_map(|index| [*index, 0, 0, 0]).collect();
    let output = words(&pairs(&body).with_threads(5).with_input(bytes(&input)).run_clean());
    assert_eq!(output[..20], [106, 107, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 118, 119, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn linear_memory_has_no_floating_point_coordinates() {
    let body = "tex.1d.v4.s32.f32 {%r4, %r5, %r6, %r7}, [%object0, {%f0}];";
    let finding = pairs(body).with_threads(1).run_faulty(FindingClass::InvalidOperand);
    assert!(finding.message.contains("tex1Dfetch"), "{finding}");
}

#[test]
fn pitched_memory_is_a_plane() {
    let body = format!("{FETCH}{STORE_FLOATS}");
    let kernel = Kernel::new(&format!("{PLACES}{body}")).with_objects(|memory| {
        let address = memory.allocate("rows", 64).expect("a buffer");
        memory.write(address + 32, &floats(&[5.0, 6.0, 7.0])).expect("the second row");
        let texels = Texels::pitched(address, [3, 2], 32, single());
        vec![memory.create_texture(texels, Sampler::default()).expect("a texture")]
    });
    let output = words(&kernel.with_threads(1).with_input(floats(&[2.5, 1.5, 0.0, 0.0])).run_clean());
    assert_eq!(f32::from_bits(output[0]), 7.0);
}

#[test]
fn layers_are_counted_to_the_last() {
    let body =
        format!("tex.a2d.v4.f32.f32 {{%f4, %f5, %f6, %f7}}, [%object0, {{%r0, %f1, %f2, %f2}}];\n{STORE_FLOATS}");
    let data: Vec<f32> = (0..12).map(|index| index as f32).collect();
    let kernel = on_array(&body, Geometry::Planes, [2, 2, 3], single(), floats(&data), Sampler::default());
    let lane = |layer: u32, x: f32, y: f32| [f32::from_bits(layer), x, y, 0.0];
    let input = [lane(0, 1.0, 0.0), lane(2, 0.0, 1.0), lane(7, 1.0, 1.0)].concat();
    let output = words(&kernel.with_threads(3).with_input(floats(&input)).run_clean());
    assert_eq!([0, 4, 8].map(|word| f32::from_bits(output[word])), [1.0, 10.0, 11.0]);
    let body = format!("tex.a1d.v4.f32.f32 {{%f4, %f5, %f6, %f7}}, [%object0, {{%r0, %f1}}];\n{STORE_FLOATS}");
    let kernel = on_array(&body, Geometry::Lines, [4, 1, 3], single(), floats(&data), Sampler::default());
    let output = words(&kernel.with_threads(3).with_input(floats(&input)).run_clean());
    assert_eq!([0, 4, 8].map(|word| f32::from_bits(output[word])), [1.0, 8.0, 9.0]);
}

#[test]
fn a_gather_gives_the_corners_counter_clockwise() {
    let body = format!("tld4.g.2d.v4.f32.f32 {{%f4, %f5, %f6, %f7}}, [%object0, {{%f0, %f1}}];\n{STORE_FLOATS}");
    let data: Vec<f32> = (0..9).flat_map(|index| [index as f32, 10.0 * index as f32]).collect();
    let kernel =
        on_array(&body, Geometry::Plane, [3, 3, 1], format(Channel::Float, 32, 2), floats(&data), Sampler::default());
    let output = words(&kernel.with_threads(1).with_input(floats(&[2.0, 1.0, 0.0, 0.0])).run_clean());
    // Between columns 1 and 2, rows 0 and 1.
    assert_eq!([0, 1, 2, 3].map(|word| f32::from_bits(output[word])), [40.0, 50.0, 20.0, 10.0]);
}

#[test]
fn sizes_are_answered() {
    let body = "txq.width.b32 %r4, [%object0]; txq.height.b32 %r5, [%object0]; txq.depth.b32 %r6, [%object0];\n\
        txq.array_size.b32 %r7, [%object0];";
    let sizes = |geometry, extent: [u64; 3]| {
        let data = vec![0; extent.iter().product::<u64>() as usize * 4];
        let kernel = on_array(&format!("{body}{STORE_WORDS}"), geometry, extent, single(), data, Sampler::default());
        words(&kernel.with_threads(1).with_input(vec![0; 16]).run_clean())[..4].to_vec()
    };
    assert_eq!(sizes(Geometry::Volume, [5, 3, 2]), [5, 3, 2, 0]);
    assert_eq!(sizes(Geometry::Planes, [5, 3, 2]), [5, 3, 0, 2]);
    assert_eq!(sizes(Geometry::Line, [5, 1, 1]), [5, 0, 0, 0]);
}

#[test]
fn the_predicate_says_that_texels_are_there() {
    let body = format!(
        "setp.ne.u32 %p0, 0, 0;\ntex.2d.v4.f32.f32 {{%f4, %f5, %f6, %f7}}|%p0, [%object0, {{%f0, %f1}}];\n\
         selp.f32 %f5, 0f3f800000, 0f00000000, %p0;\n{STORE_FLOATS}"
    );
    let kernel = on_array(&body, Geometry::Plane, [1, 1, 1], single(), floats(&[3.0]), Sampler::default());
    let output = words(&kernel.with_threads(1).with_input(vec![0; 16]).run_clean());
    assert_eq!([f32::from_bits(output[0]), f32::from_bits(output[1])], [3.0, 1.0]);
}

/// A texture of 4 x 2 texels of which the first row was written.
fn half_written(body: &str, filter: Filter) -> Kernel {
    Kernel::new(&format!("{PLACES}{body}")).with_threads(1).with_objects(move |memory| {
        let texels = memory.allocate_array("image", Geometry::Plane, [4, 2, 1], single()).expect("an array");
        memory.write(texels.address, &floats(&[1.0, 2.0, 3.0, 4.0])).expect("the row");
        let sampler = Sampler { filter, ..Sampler::default() };
        vec![memory.create_texture(texels, sampler).expect("a texture")]
    })
}

#[test]
fn texels_that_nothing_wrote_are_undetermined_where_they_matter() {
    let stored = format!("{FETCH}{STORE_FLOATS}");
    let at = |x: f32, y: f32| floats(&[x, y, 0.0, 0.0]);
    let finding = half_written(&stored, Filter::Point).with_input(at(1.0, 1.0)).run_faulty(FindingClass::Uninitialised);
    assert!(finding.message.contains("byte 4 of row 1 of `image`"), "{finding}");
    half_written(FETCH, Filter::Point).with_input(at(1.0, 1.0)).run_clean();
    // A weight of 0 does not look at the second row; any other does.
    half_written(&stored, Filter::Linear).with_input(at(1.0, 0.5)).run_clean();
    half_written(&stored, Filter::Linear).with_input(at(1.0, 0.75)).run_faulty(FindingClass::Uninitialised);
}

#[test]
fn what_is_no_texture_object_is_found() {
    let with = |objects: fn(&mut GlobalMemory) -> Vec<u64>| {
        let kernel = Kernel::new(&format!("{PLACES}{FETCH}")).with_threads(1).with_objects(objects);
        kernel.run_faulty(FindingClass::InvalidOperand).message
    };
    assert!(with(|_| vec![0]).contains("was never given to the program"));
    let destroyed = with(|memory| {
        let texels = memory.allocate_array("image", Geometry::Plane, [4, 4, 1], single()).expect("an array");
        let handle = memory.create_texture(texels, Sampler::default()).expect("a texture");
        memory.destroy_texture(handle).expect("a texture");
        vec![handle]
    });
    assert!(destroyed.contains("is no texture object: it was destroyed before"), "{destroyed}");
    let surface = with(|memory| {
        let texels = memory.allocate_array("image", Geometry::Plane, [4, 4, 1], single()).expect("an array");
        vec![memory.create_surface(texels)]
    });
    assert!(surface.contains("it is a surface object"), "{surface}");
}

#[test]
fn a_texture_of_freed_memory_is_found() {
    let kernel = Kernel::new(&format!("{PLACES}{FETCH}")).with_threads(1).with_objects(|memory| {
        let texels = memory.allocate_array("image", Geometry::Plane, [4, 4, 1], single()).expect("an array");
        memory.free(texels.address).expect("the array");
        vec![memory.create_texture(texels, Sampler::default()).expect("a texture")]
    });
    let finding = kernel.run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("`image`, which was freed"), "{finding}");
}

#[test]
fn what_does_not_suit_the_texture_is_found() {
    let plane = |body: &str, format: TexelFormat| {
        let kernel =
            on_array(body, Geometry::Plane, [1, 1, 1], format, vec![0; format.bytes() as usize], Sampler::default());
        kernel.with_threads(1).run_faulty(FindingClass::InvalidOperand).message
    };
    let kind = plane("tex.3d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%object0, {%f0, %f1, %f2, %f2}];", single());
    assert!(kind.contains("a .3d access to a .2d texture"), "{kind}");
    let bytes = plane(FETCH, format(Channel::Unsigned, 8, 4));
    assert!(bytes.contains("gives integers is read as floating-point numbers"), "{bytes}");
    let level = plane("tex.level.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%object0, {%f0, %f1}], 0f3f800000;", single());
    assert!(level.contains("level 1 of a texture that has level 0 only"), "{level}");
}

#[test]
fn level_0_is_the_texture() {
    let body = format!(
        "tex.level.2d.v4.f32.f32 {{%f4, %f5, %f6, %f7}}, [%object0, {{%f0, %f1}}], 0f00000000;\n{STORE_FLOATS}"
    );
    let kernel = on_array(&body, Geometry::Plane, [1, 1, 1], single(), floats(&[3.0]), Sampler::default());
    assert_eq!(f32::from_bits(words(&kernel.with_threads(1).run_clean())[0]), 3.0);
}

#[test]
fn integers_are_not_filtered() {
    let mut memory = GlobalMemory::new();
    let integers = format(Channel::Unsigned, 8, 1);
    let texels = memory.allocate_array("image", Geometry::Plane, [4, 4, 1], integers).expect("an array");
    let linear = Sampler { filter: Filter::Linear, ..Sampler::default() };
    assert!(memory.create_texture(texels, linear).unwrap_err().to_string().contains("read as integers"));
    memory.create_texture(texels, Sampler { normalized_values: true, ..linear }).expect("numbers are filtered");
}

#[test]
fn no_pointer_reaches_an_array() {
    let kernel = Kernel::new("ld.global.u32 %r0, [%object0];\nst.global.u32 [%output], %r0;").with_threads(1);
    let kernel = kernel.with_objects(|memory| {
        let texels = memory.allocate_array("image", Geometry::Plane, [4, 4, 1], single()).expect("an array");
        memory.write(texels.address, &[0; 16]).expect("a row");
        vec![texels.address]
    });
    let finding = kernel.run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("`image` is a CUDA array"), "{finding}");
}

#[test]
fn a_fetch_races_with_a_write() {
    let body = "setp.eq.u32 %p0, %lane, 0;\n@%p0 st.global.u32 [%object1], 1;\n\
        tex.1d.v4.u32.s32 {%r4, %r5, %r6, %r7}, [%object0, {0}];\nst.global.u32 [%rd1], %r4;";
    let kernel =
        Kernel::new(&format!("{PLACES}{body}")).with_output_bytes(512).with_threads(2).with_objects(|memory| {
            let address = memory.allocate("table", 4).expect("a buffer");
            memory.write(address, &[0; 4]).expect("the buffer");
            let texels = Texels::linear(address, 1, format(Channel::Unsigned, 32, 1));
            vec![memory.create_texture(texels, Sampler::default()).expect("a texture"), address]
        });
    let finding = kernel.run_faulty(FindingClass::Race);
    assert_eq!(finding.occurrences, 2, "its own write, too: {finding}");
    assert!(finding.message.contains("do not see what the same grid writes"), "{finding}");
}

#[test]
fn textures_that_are_variables_are_refused_by_name() {
    let text = Kernel::new("ret;").with_variables(".global .texref image;\n").text();
    let error = Module::parse(&text, "test.ptx").unwrap_err().to_string();
    assert!(error.contains("`.texref` in the declaration of a variable"), "{error}");
    let body = "tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [image, {%f0, %f1}];";
    let error = Kernel::new(body).try_run().err().expect("a refusal").to_string();
    assert!(error.contains("`image`") && error.contains("only objects in registers"), "{error}");
}

#[test]
fn other_textures_are_refused_by_name() {
    let refused = |instruction: &str| {
        let kernel = Kernel::new(instruction).with_objects(|_| Vec::new());
        kernel.try_run().err().expect("a refusal").to_string()
    };
    let cases = [
        ("tex.cube.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%object0, {%f0, %f1, %f2, %f2}];", "cubemaps are not executed"),
        ("tex.2dms.v4.s32.s32 {%r4, %r5, %r6, %r7}, [%object0, {%r0, %r1, %r2, %r2}];", "multisampled"),
        ("tex.grad.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%object0, {%f0, %f1}], {%f0, %f1}, {%f0, %f1};", "gradients"),
        ("tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%object0, %object1, {%f0, %f1}];", "a separate sampler"),
        ("tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%object0, {%f0, %f1}], {%r0, %r1};", "operand 3"),
        ("txq.channel_order.b32 %r0, [%object0];", "txq.channel_order"),
        ("sured.b.add.2d.u32.trap [%object0, {%r0, %r1}], %r2;", "atomic operations on surfaces"),
        ("sust.p.2d.v4.b32.trap [%object0, {%r0, %r1}], {%r2, %r3, %r4, %r5};", "that convert"),
    ];
    for (instruction, expected) in cases {
        let error = refused(instruction);
        assert!(error.contains(expected), "{instruction}: {error}");
    }
}
