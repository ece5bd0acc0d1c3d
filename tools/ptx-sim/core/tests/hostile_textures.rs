//! Handles, coordinates and textures that no kernel should use: a finding or a result, never a panic, and the run goes on.

use crate::common::{Kernel, words};
use ptx_sim::{AddressMode, Channel, Filter, FindingClass, Geometry, GlobalMemory, Sampler, TexelFormat, Texels};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Fetches at coordinates that are in `%r0` to `%r3` and, as numbers, in `%f0` to `%f3`.
const FETCHES: [(&str, &str); 6] = [
    ("tex.1d", "{C0}"),
    ("tex.2d", "{C0, C1}"),
    ("tex.3d", "{C0, C1, C2, C3}"),
    ("tex.a1d", "{%r3, C0}"),
    ("tex.a2d", "{%r3, C0, C1, C2}"),
    ("tex.level.2d", "{C0, C1}"),
];
const SURFACES: [(&str, &str); 5] = [
    ("1d", "{%r0}"),
    ("2d", "{%r0, %r1}"),
    ("3d", "{%r0, %r1, %r2, %r2}"),
    ("a1d", "{%r3, %r0}"),
    ("a2d", "{%r3, %r0, %r1, %r1}"),
];
/// Bits of coordinates: whole numbers at the edges, and floating-point numbers that are none.
const EDGES: [u32; 14] = [
    0,
    1,
    16,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0xffff_fff0,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x3f80_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x0000_0001,
];
const GEOMETRIES: [Geometry; 5] =
    [Geometry::Line, Geometry::Plane, Geometry::Volume, Geometry::Lines, Geometry::Planes];
const MODES: [AddressMode; 4] = [AddressMode::Wrap, AddressMode::Clamp, AddressMode::Mirror, AddressMode::Border];

fn one_of<T: Copy>(random: &mut ChaCha8Rng, values: &[T]) -> T {
    values[random.random_range(0..values.len())]
}

/// Every instruction on textures and surfaces, on the objects 0 and 1.
fn body(random: &mut ChaCha8Rng) -> String {
    let mut body = String::new();
    for index in 0..4 {
        let bits = if random.random_bool(0.7) { one_of(random, &EDGES) } else { random.random() };
        body.push_str(&format!("mov.u32 %r{index}, {bits}; mov.b32 %f{index}, %r{index};\n"));
    }
    for (name, coordinates) in FETCHES {
        for (kind, letter) in [("f32", "%f"), ("s32", "%r")] {
            let coordinates = coordinates.replace('C', letter);
            let level = if name.contains("level") { format!(", {letter}2") } else { String::new() };
            for (result, registers) in [("f32", "{%f4, %f5, %f6, %f7}"), ("u32", "{%r4, %r5, %r6, %r7}")] {
                for object in 0..2 {
                    body.push_str(&format!(
                        "{name}.v4.{result}.{kind} {registers}, [%object{object}, {coordinates}]{level};\n"
                    ));
                }
            }
        }
    }
    body.push_str(
        "tld4.a.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%object0, {%f0, %f1}];\ntxq.width.b32 %r4, [%object1];\n",
    );
    for (geometry, coordinates) in SURFACES {
        for outside in ["trap", "clamp", "zero"] {
            for object in 0..2 {
                body.push_str(&format!(
                    "suld.b.{geometry}.v2.b64.{outside} {{%rd4, %rd5}}, [%object{object}, {coordinates}];\n\
                     sust.b.{geometry}.b8.{outside} [%object{object}, {coordinates}], {{%h0}};\n"
                ));
            }
        }
    }
    body
}

fn texels(random: &mut ChaCha8Rng, memory: &mut GlobalMemory) -> Texels {
    let channel = one_of(random, &[Channel::Unsigned, Channel::Float]);
    let format = TexelFormat::new(channel, one_of(random, &[16, 32]), one_of(random, &[1, 2, 4])).expect("a format");
    let size = |random: &mut ChaCha8Rng| random.random_range(1..20_u64);
    let address = one_of(random, &[0, 0x7_0000_0000, u64::MAX, 1 << 62]);
    match random.random_range(0..4) {
        0 => Texels::linear(address, one_of(random, &[0, 1, u64::MAX, 1 << 40]), format),
        1 => {
            Texels::pitched(address, [one_of(random, &[0, u64::MAX, 7]); 2], one_of(random, &[0, 32, u64::MAX]), format)
        }
        _ => {
            let extent = [size(random), size(random), size(random)];
            let geometry = one_of(random, &GEOMETRIES);
            let array = memory.allocate_array("array", geometry, extent, format).expect("an array");
            if random.random_bool(0.5) {
                memory.set_8(array.address, 1, array.bytes().expect("few bytes")).expect("the array");
            }
            if random.random_bool(0.1) {
                memory.free(array.address).expect("the array");
            }
            array
        }
    }
}

fn handle(random: &mut ChaCha8Rng, memory: &mut GlobalMemory) -> u64 {
    let texels = texels(random, memory);
    let sampler = Sampler {
        address: [0; 3].map(|_| one_of(random, &MODES)),
        filter: one_of(random, &[Filter::Point, Filter::Linear]),
        normalized_coordinates: random.random(),
        normalized_values: random.random(),
        border: [0.0; 4],
    };
    match random.random_range(0..8) {
        0 => random.random(),
        1 => 0,
        2 | 3 => memory.create_surface(texels),
        // A filter of integers is refused.
        _ => memory.create_texture(texels, sampler).unwrap_or(1 << 62),
    }
}

#[test]
fn extreme_objects_and_coordinates() {
    for seed in 0..250 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let text = format!("mov.u16 %h0, 7;\n{}st.global.u32 [%output], 7;", body(&mut random));
        let kernel = Kernel::new(&text).with_threads(1).with_objects(move |memory| {
            let mut random = ChaCha8Rng::seed_from_u64(seed + 1000);
            vec![handle(&mut random, memory), handle(&mut random, memory)]
        });
        let outcome = kernel.run();
        assert_eq!(words(&outcome.output)[0], 7, "the run did not go on: {:#?}", outcome.report.findings);
        for finding in outcome.report.findings {
            use FindingClass::{InvalidOperand, Misaligned, OutOfBounds};
            assert!([InvalidOperand, Misaligned, OutOfBounds].contains(&finding.class), "seed {seed}: {finding}");
        }
    }
}
