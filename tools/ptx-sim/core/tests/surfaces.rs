//! Surfaces: results of reads and writes, and findings.

use crate::common::{Kernel, bytes, words};
use ptx_sim::{Channel, FindingClass, Geometry, GlobalMemory, Options, Sampler, TexelFormat, Texels};

/// Addresses of a lane's four words of output and of input, which are in `%r0` to `%r3`.
const PLACES: &str = "mul.wide.u32 %rd0, %lane, 16; add.u64 %rd1, %output, %rd0; add.u64 %rd2, %input, %rd0;\n\
    ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%rd2];\n";
const STORE: &str = "st.global.v4.u32 [%rd1], {%r4, %r5, %r6, %r7};\n";
/// The address of the array of the tests: the first behind output and input.
const NAME: &str = "image";

fn four_bytes() -> TexelFormat {
    TexelFormat::new(Channel::Unsigned, 8, 4).expect("a format")
}

/// An array whose bytes count up from 0, row by row.
fn array(memory: &mut GlobalMemory, geometry: Geometry, extent: [u64; 3]) -> Texels {
    let texels = memory.allocate_array(NAME, geometry, extent, four_bytes()).expect("an array");
    let row = texels.row_bytes();
    for line in 0..extent[1] * extent[2] {
        let data: Vec<u8> = (0..row).map(|x| (line * row + x) as u8).collect();
        memory.write(texels.address + line * texels.pitch, &data).expect("a row");
    }
    texels
}

fn on_surface(body: &str, geometry: Geometry, extent: [u64; 3]) -> Kernel {
    Kernel::new(&format!("{PLACES}{body}")).with_output_bytes(512).with_objects(move |memory| {
        let texels = array(memory, geometry, extent);
        vec![memory.create_surface(texels)]
    })
}

/// A row of the array, once the kernel ran.
fn row(memory: &GlobalMemory, texels: &Texels, line: u64) -> Vec<u8> {
    let mut data = vec![0; texels.row_bytes() as usize];
    memory.read(texels.address + line * texels.pitch, &mut data).expect("a row");
    data
}

fn found_array(memory: &GlobalMemory, geometry: Geometry, extent: [u64; 3]) -> Texels {
    let address = memory.allocations().find(|found| found.name == NAME).expect("the array").start;
    let pitch = (extent[0] * 4).next_multiple_of(16);
    Texels { address, geometry, extent, pitch, format: four_bytes(), is_array: true }
}

#[test]
fn every_geometry_reads_where_its_coordinates_say() {
    let cases: [(Geometry, &str, [u64; 3], u32); 5] = [
        (Geometry::Line, "1d.b32.trap {%r4}, [%object0, {%r0}]", [6, 1, 1], 0x0f0e_0d0c),
        (Geometry::Plane, "2d.b32.trap {%r4}, [%object0, {%r0, %r1}]", [6, 3, 1], 0x2726_2524),
        (Geometry::Volume, "3d.b32.trap {%r4}, [%object0, {%r0, %r1, %r2, %r2}]", [6, 3, 4], 0xb7b6_b5b4),
        (Geometry::Lines, "a1d.b32.trap {%r4}, [%object0, {%r2, %r0}]", [6, 1, 4], 0x3f3e_3d3c),
        (Geometry::Planes, "a2d.b32.trap {%r4}, [%object0, {%r2, %r0, %r1, %r1}]", [6, 3, 4], 0xb7b6_b5b4),
    ];
    for (geometry, instruction, extent, expected) in cases {
        let body = format!("suld.b.{instruction};\nst.global.u32 [%rd1], %r4;");
        let output = on_surface(&body, geometry, extent).with_threads(1).with_input(bytes(&[12, 1, 2, 0])).run_clean();
        assert_eq!(words(&output)[0], expected, "{geometry:?}");
    }
}

#[test]
fn values_of_every_width_are_read_and_written() {
    let body = "suld.b.2d.v4.b8.trap {%h0, %h1, %h2, %h3}, [%object0, {%r0, %r1}];\n\
        suld.b.2d.v2.b16.trap {%h4, %h5}, [%object0, {%r0, %r1}];\n\
        suld.b.2d.b64.trap {%rd3}, [%object0, {%r0, %r1}];\n\
        suld.b.2d.v4.b32.trap {%r8, %r9, %r10, %r11}, [%object0, {16, %r1}];\n\
        mov.b32 %r4, {%h0, %h3}; mov.b32 %r5, {%h4, %h5}; mov.b64 {%r6, %r7}, %rd3;\n\
        sust.b.2d.v4.b8.trap [%object0, {0, 0}], {%h3, %h2, %h1, %h0};\n\
        sust.b.2d.v2.b64.trap [%object0, {16, 0}], {%rd3, %rd3};\n\
        sust.b.2d.b16.zero [%object0, {6, 0}], {%h4};\n";
    let extent = [8, 2, 1];
    let kernel = on_surface(&format!("{body}{STORE}"), Geometry::Plane, extent).with_threads(1);
    let outcome = kernel.with_input(bytes(&[8, 1, 0, 0])).run();
    assert!(outcome.report.findings.is_empty(), "{:#?}", outcome.report.findings);
    assert_eq!(words(&outcome.output)[..4], [0x002b_0028, 0x2b2a_2928, 0x2b2a_2928, 0x2f2e_2d2c]);
    let texels = found_array(&outcome.memory, Geometry::Plane, extent);
    let expected = [
        0x2b, 0x2a, 0x29, 0x28, 4, 5, 0x28, 0x29, 8, 9, 10, 11, 12, 13, 14, 15, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d,
        0x2e, 0x2f, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f,
    ];
    assert_eq!(row(&outcome.memory, &texels, 0), expected);
}

#[test]
fn what_lies_outside_is_an_error_the_nearest_or_zero() {
    let load = |mode: &str, x: i32, y: i32| {
        let body = format!("suld.b.2d.b32.{mode} {{%r4}}, [%object0, {{%r0, %r1}}];\nst.global.u32 [%rd1], %r4;");
        on_surface(&body, Geometry::Plane, [6, 3, 1]).with_threads(1).with_input(bytes(&[x as u32, y as u32, 0, 0]))
    };
    for (x, y, clamped) in
        [(24, 1, 0x2f2e_2d2c), (-4, 2, 0x3332_3130), (4, -1, 0x0706_0504), (i32::MIN, i32::MAX, 0x3332_3130)]
    {
        assert_eq!(words(&load("clamp", x, y).run_clean())[0], clamped, "{x} {y}");
        assert_eq!(words(&load("zero", x, y).run_clean())[0], 0, "{x} {y}");
        let finding = load("trap", x, y).run_faulty(FindingClass::OutOfBounds);
        let place = format!("at byte {x} of row {y}: `image` has 6 x 3 texels of 4 bytes, 24 bytes in a row");
        assert!(finding.message.contains(&place), "{finding}");
    }
}

#[test]
fn writes_outside_are_dropped_or_go_to_the_nearest() {
    let body = "mov.u32 %r4, -1;\nsust.b.2d.b32.zero [%object0, {24, 1}], {%r4};\n\
        sust.b.2d.b32.clamp [%object0, {400, 9}], {%r4};";
    let extent = [6, 3, 1];
    let outcome = on_surface(body, Geometry::Plane, extent).with_threads(1).run();
    assert!(outcome.report.findings.is_empty(), "{:#?}", outcome.report.findings);
    let texels = found_array(&outcome.memory, Geometry::Plane, extent);
    let written: Vec<u8> = (0..3).flat_map(|line| row(&outcome.memory, &texels, line)).collect();
    let mut expected: Vec<u8> = (0..72).collect();
    expected[68..].fill(255);
    assert_eq!(written, expected);
    let body = "sust.b.a2d.b32.trap [%object0, {4, 0, 0, 0}], {%r0};";
    let finding = on_surface(body, Geometry::Planes, [6, 3, 4]).with_threads(1).run_faulty(FindingClass::OutOfBounds);
    assert!(finding.message.contains("byte 0 of row 0 of layer 4: `image` has 4 layers of 6 x 3"), "{finding}");
}

#[test]
fn an_access_wider_than_a_row_is_outside() {
    let body = "suld.b.1d.v4.b32.clamp {%r4, %r5, %r6, %r7}, [%object0, {0}];";
    on_surface(body, Geometry::Line, [3, 1, 1]).with_threads(1).run_faulty(FindingClass::OutOfBounds);
}

#[test]
fn columns_are_multiples_of_the_access() {
    let body = "suld.b.2d.b32.trap {%r4}, [%object0, {2, 0}];";
    let finding = on_surface(body, Geometry::Plane, [6, 3, 1]).with_threads(1).run_faulty(FindingClass::Misaligned);
    assert!(finding.message.contains("byte 2 of a row, which is no multiple of 4"), "{finding}");
}

#[test]
fn sizes_are_answered() {
    let body = "suq.width.b32 %r4, [%object0]; suq.height.b32 %r5, [%object0]; suq.depth.b32 %r6, [%object0];\n\
        suq.array_size.b32 %r7, [%object0];";
    let output = on_surface(&format!("{body}{STORE}"), Geometry::Planes, [6, 3, 4]).with_threads(1).run_clean();
    assert_eq!(words(&output)[..4], [6, 3, 0, 4]);
}

#[test]
fn what_is_no_surface_object_is_found() {
    let texture = |memory: &mut GlobalMemory| {
        let texels = array(memory, Geometry::Plane, [6, 3, 1]);
        vec![memory.create_texture(texels, Sampler::default()).expect("a texture")]
    };
    let body = "suld.b.2d.b32.trap {%r4}, [%object0, {0, 0}];";
    let finding = Kernel::new(body).with_threads(1).with_objects(texture).run_faulty(FindingClass::InvalidOperand);
    assert!(finding.message.contains("is no surface object: it is a texture object"), "{finding}");
    let finding =
        on_surface(body, Geometry::Volume, [6, 3, 2]).with_threads(1).run_faulty(FindingClass::InvalidOperand);
    assert!(finding.message.contains("a .2d access to a .3d surface"), "{finding}");
}

#[test]
fn lanes_that_write_the_same_texel_race() {
    // Both write the same texel, another value each.
    let body = "sust.b.2d.b32.trap [%object0, {4, 1}], {%lane};";
    let finding = on_surface(body, Geometry::Plane, [6, 3, 1]).with_threads(2).run_faulty(FindingClass::Race);
    assert!(finding.message.contains("byte 4 of row 1 of `image`"), "{finding}");
    let body = "mul.lo.u32 %r4, %lane, 4;\nsust.b.2d.b32.trap [%object0, {%r4, 1}], {%lane};";
    on_surface(body, Geometry::Plane, [6, 3, 1]).with_threads(2).run_clean();
}

#[test]
fn a_surface_does_not_show_what_the_grid_wrote() {
    let write = "sust.b.2d.b32.trap [%object0, {4, 1}], {%lane};\n";
    let read = "suld.b.2d.b32.trap {%r5}, [%object0, {4, 1}];\n";
    let kernel = |body: String| on_surface(&body, Geometry::Plane, [6, 3, 1]).with_threads(1);
    let finding = kernel(format!("{write}{read}st.global.u32 [%rd1], %r5;")).run_faulty(FindingClass::Race);
    assert!(finding.message.contains("do not see what the same grid writes"), "{finding}");
    // Where the value does not matter, and the other way round, nothing is wrong.
    kernel(format!("{write}{read}")).run_clean();
    kernel(format!("{read}{write}st.global.u32 [%rd1], %r5;")).run_clean();
    // A barrier does not help.
    let body = format!("setp.eq.u32 %p0, %lane, 0;\n@%p0 {write}bar.sync 0;\n{read}st.global.u32 [%rd1], %r5;");
    let finding = on_surface(&body, Geometry::Plane, [6, 3, 1])
        .with_threads(64)
        .with_output_bytes(2048)
        .with_input(vec![0; 1024])
        .run_faulty(FindingClass::Race);
    assert_eq!(finding.occurrences, 64, "{finding}");
}

#[test]
fn blocks_that_read_what_others_write_race() {
    let body = "mov.u32 %r4, %ctaid.x; setp.eq.u32 %p0, %r4, 0;\n@%p0 sust.b.2d.b32.trap [%object0, {4, 1}], {%r4};\n\
        @!%p0 suld.b.2d.b32.trap {%r5}, [%object0, {4, 1}];\n@!%p0 st.global.u32 [%rd1], %r5;";
    on_surface(body, Geometry::Plane, [6, 3, 1]).with_threads(1).with_blocks(2).run_faulty(FindingClass::Race);
}

#[test]
fn values_that_nothing_wrote_are_found() {
    let unwritten = |memory: &mut GlobalMemory| {
        let texels = memory.allocate_array(NAME, Geometry::Plane, [6, 3, 1], four_bytes()).expect("an array");
        vec![memory.create_surface(texels)]
    };
    let body = "suld.b.2d.b32.trap {%r4}, [%object0, {8, 2}];\nst.global.u32 [%output], %r4;";
    let finding = Kernel::new(body).with_threads(1).with_objects(unwritten).run_faulty(FindingClass::Uninitialised);
    assert!(finding.message.contains("byte 8 of row 2 of `image`"), "{finding}");
    let body = ".reg .b32 never;\nsust.b.2d.b32.trap [%object0, {8, 2}], {never};";
    Kernel::new(body).with_threads(1).with_objects(unwritten).run_faulty(FindingClass::Uninitialised);
    let body = ".reg .b32 never;\nsuld.b.2d.b32.trap {%r4}, [%object0, {never, 2}];";
    Kernel::new(body).with_threads(1).with_objects(unwritten).run_faulty(FindingClass::Uninitialised);
}

#[test]
fn accesses_to_surfaces_are_told() {
    let body = "sust.b.2d.b32.trap [%object0, {4, 1}], {%lane};";
    let kernel = on_surface(body, Geometry::Plane, [6, 3, 1]).with_threads(1);
    let outcome = kernel.with_options(Options { accesses: true, ..Options::default() }).run();
    let texels = found_array(&outcome.memory, Geometry::Plane, [6, 3, 1]);
    let place = texels.place(4, 1, 0);
    assert!(
        outcome.report.accesses.iter().any(|access| access.address == place && access.writes),
        "{:?}",
        outcome.report.accesses
    );
}
