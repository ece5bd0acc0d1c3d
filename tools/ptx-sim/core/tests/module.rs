//! Properties of a module before any launch.

use ptx_sim::{GlobalMemory, Launch, Module, Options, Use, run};

const PTX: &str = "\
.version 8.0
.target sm_86
.address_size 64
.global .align 4 .u32 counter = 41;
.const .align 8 .b8 table[16];
.global .align 8 .u64 place = generic(counter);
.visible .entry count(.param .u64 to, .param .u64 .ptr .global .align 4 from, .param .f32 factor, .param .u64 length)
.maxntid 64, 2
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<6>;
    .reg .f32 %f<3>;
    ld.param.u64 %rd0, [to];
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [length];
    cvta.to.global.u64 %rd3, %rd1;
    add.s64 %rd4, %rd3, 8;
    ld.global.nc.f32 %f0, [%rd4];
    ld.param.f32 %f1, [factor];
    .loc 1 7 3
    .loc 1 0 0
    .loc 2 0 0, function_name $name, inlined_at 1 9 5
    ld.global.u32 %r0, [counter];
    add.u32 %r0, %r0, 1;
    st.global.u32 [%rd0], %r0;
    .loc 1 11 3
    .loc 1 0 0
    st.global.u32 [%rd0+4], %r0;
    ret;
}
.file 1 \"kernel.cu\"
.file 2 \"header.h\"
.section .debug_str { $name: .b8 0 }
";

fn module() -> Module {
    Module::parse(PTX, "count.ptx").expect("the PTX is well formed")
}

#[test]
fn a_launch_finds_what_was_written_to_a_variable() {
    let (module, mut memory) = (module(), GlobalMemory::new());
    let variables = module.place_variables(&mut memory).expect("placing");
    let sizes: Vec<_> = variables.iter().map(|variable| (variable.name.as_str(), variable.bytes)).collect();
    assert_eq!(sizes, [("counter", 4), ("table", 16), ("place", 8)]);
    let mut place = [0; 8];
    memory.read(variables[2].address, &mut place).expect("reading");
    assert_eq!(u64::from_le_bytes(place), variables[0].address, "an initialiser that is an address");
    memory.write(variables[0].address, &[6, 0, 0, 0]).expect("writing");
    let [to, from] = ["to", "from"].map(|name| memory.allocate(name, 16).expect("allocating"));
    memory.write(from, &[0; 16]).expect("writing");
    let params: [&[u8]; 4] = [&to.to_le_bytes(), &from.to_le_bytes(), &[0; 4], &[0; 8]];
    let launch = Launch {
        entry: "count",
        grid: [1; 3],
        block: [1; 3],
        dynamic_shared_bytes: 0,
        params: &params,
        architecture: 86,
    };
    let report = run(&module, &mut memory, &launch, &Options::default()).expect("the launch is possible");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let mut stored = [0; 4];
    memory.read(to, &mut stored).expect("reading");
    assert_eq!(stored, [7, 0, 0, 0]);
    assert_eq!(module.place_variables(&mut memory).expect("placing"), variables, "placed once");
}

#[test]
fn parameters_that_are_addresses_are_told_from_numbers() {
    let is =
        |is_address, element: &str, is_read| Use { is_address, is_used: true, element: element.to_owned(), is_read };
    let expected = [is(true, "u32", false), is(true, "f32", true), is(false, "f32", false), is(false, "u64", false)];
    assert_eq!(module().uses("count").expect("an entry"), expected);
    assert_eq!((module().block_limit("count"), module().uses("nothing")), (Some([64, 2, 1]), None));
}

#[test]
fn the_architecture_is_that_of_the_target() {
    assert_eq!(module().architecture(), Some(86));
}

#[test]
fn no_finding_names_line_0() {
    let (module, mut memory) = (module(), GlobalMemory::new());
    let from = memory.allocate("from", 16).expect("allocating");
    memory.write(from, &[0; 16]).expect("writing");
    let null = [0; 8];
    let params: [&[u8]; 4] = [&null, &from.to_le_bytes(), &[0; 4], &[0; 8]];
    let launch = Launch {
        entry: "count",
        grid: [1; 3],
        block: [1; 3],
        dynamic_shared_bytes: 0,
        params: &params,
        architecture: 86,
    };
    let report = run(&module, &mut memory, &launch, &Options::default()).expect("the launch is possible");
    let places: Vec<_> = report.findings.iter().map(|finding| finding.at.source.clone().expect("a source")).collect();
    let shown: Vec<_> = places.iter().map(|place| (place.file.as_str(), place.line)).collect();
    assert_eq!(shown, [("kernel.cu", 9), ("kernel.cu", 11)], "the line of the call, then the line before");
}

#[test]
fn only_arrays_that_were_declared_before_are_indexed() {
    let body = ".reg .b32 %r; mov.u32 %r, nowhere[1]; ret;";
    let text = format!(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{ {body} }}\n");
    let error = Module::parse(&text, "k.ptx").expect_err("nothing is called so").to_string();
    assert!(error.contains("`nowhere` is indexed and is no array that was declared before"), "{error}");
}
