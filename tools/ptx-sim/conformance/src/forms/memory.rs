//! Loads, stores, atomic operations, address conversions.

use ptx_sim::expand_forms;

use crate::case::Case;
use crate::kernel::Kernel;
use crate::values::{Values, bits};

/// Bytes of memory that each thread has for itself.
const PER_THREAD: usize = 32;
/// Threads of a kernel.
const THREADS: usize = 8;
/// Each thread's part of shared memory, in the shared space and in generic addresses, filled with its part of the input.
const SHARED: &str = ".shared .align 32 .b8 tile[256];\nmov.u32 %r0, tile;\nmad.lo.u32 %r0, %thread, 32, %r0;\n\
    ld.global.v2.b64 {%rd4, %rd5}, [%rd1];\nld.global.v2.b64 {%rd6, %rd7}, [%rd1+16];\n\
    st.shared.v2.b64 [%r0], {%rd4, %rd5};\nst.shared.v2.b64 [%r0+16], {%rd6, %rd7};\n";
/// The same of local memory.
const LOCAL: &str = ".local .align 32 .b8 scratch[32];\nmov.u32 %r0, scratch;\n\
    ld.global.v2.b64 {%rd4, %rd5}, [%rd1];\nld.global.v2.b64 {%rd6, %rd7}, [%rd1+16];\n\
    st.local.v2.b64 [%r0], {%rd4, %rd5};\nst.local.v2.b64 [%r0+16], {%rd6, %rd7};\n";
/// `%rd1` and `%rd2` are each thread's parts of the input and output.
const PARTS: &str = "mad.wide.u32 %rd1, %thread, 32, %input;\nmad.wide.u32 %rd2, %thread, 32, %output;\n";

/// The cases of this class.
pub fn cases() -> Vec<Case> {
    let types = "{b8,u8,s8,b16,u16,s16,b32,u32,s32,f32,b64,u64,s64,f64}";
    let mut cases = Vec::new();
    for space in [".global", ".shared", ".local", ""] {
        for instruction in ["ld", "st"] {
            for form in expand_forms(&format!("{instruction}{space}{{,.v2}}.{types}")) {
                cases.push(access(&form, space));
            }
            for form in expand_forms(&format!("{instruction}{space}.v4.{{b8,u8,s8,b16,u16,s16,b32,u32,s32,f32}}")) {
                cases.push(access(&form, space));
            }
        }
    }
    let loads = [
        "ld.global.{ca,cg,cs,lu,cv,nc}.u32",
        "ld.global.nc.v4.f32",
        "ld.weak.global.u32",
        "ld.volatile.{global,shared}.u32",
        "ld.{relaxed,acquire}.{cta,cluster,gpu,sys}.global.u32",
        "ld.{relaxed,acquire}.cta.shared.u32",
        "ld.global.{L1::evict_normal,L1::evict_unchanged,L1::evict_first,L1::evict_last,L1::no_allocate}.u32",
        "ld.global.{L2::64B,L2::128B,L2::256B}.u32",
        "ld.global.nc.L1::no_allocate.L2::128B.v4.u32",
        "ld.shared::{cta,cluster}.u32",
        "ldu.global.u32",
        "ld.mmio.relaxed.sys.global.u32",
    ];
    let stores = [
        "st.global.{wb,cg,cs,wt}.u32",
        "st.weak.global.u32",
        "st.volatile.{global,shared}.u32",
        "st.{relaxed,release}.{cta,cluster,gpu,sys}.global.u32",
        "st.{relaxed,release}.cta.shared.u32",
        "st.global.{L1::evict_normal,L1::evict_unchanged,L1::evict_first,L1::evict_last,L1::no_allocate}.u32",
        "st.shared::{cta,cluster}.u32",
        "st.mmio.relaxed.sys.global.u32",
    ];
    for form in loads.iter().chain(&stores).flat_map(|pattern| expand_forms(pattern)) {
        let space = if form.contains(".shared") { ".shared" } else { ".global" };
        cases.push(access(&form, space));
    }
    cases.extend(expand_forms("ld.const{,.v2}.{u8,s8,u16,u32,f32,b64}").iter().map(|form| load_constant(form)));
    for space in [".global", ".shared", "", ".shared::cta", ".shared::cluster"] {
        for operation in ATOMICS.iter().flat_map(|pattern| expand_forms(pattern)) {
            cases.push(atomic(&format!("atom{space}.{operation}"), space));
            if !operation.starts_with("exch") && !operation.starts_with("cas") {
                cases.push(atomic(&format!("red{space}.{operation}"), space));
            }
        }
    }
    for space in [".global", ".shared", ""] {
        cases.push(atomic(&format!("atom{space}.cas.b16"), space));
        for form in expand_forms(&format!("{{atom,red}}{space}.add.noftz.{{f16,f16x2,bf16,bf16x2}}")) {
            cases.push(atomic(&form, space));
        }
    }
    let vectors = [
        "{atom,red}.global.add.{v2,v4}.f32",
        "{atom,red}.global.{add,min,max}.noftz.{v2,v4,v8}.{f16,bf16}",
        "{atom,red}.global.{add,min,max}.noftz.{v2,v4}.{f16x2,bf16x2}",
    ];
    cases.extend(vectors.iter().flat_map(|pattern| expand_forms(pattern)).map(|form| vector_atomic(&form)));
    cases.extend(["atom.global.cas.b128", "atom.global.exch.b128"].map(wide_atomic));
    for form in expand_forms("{atom,red}.{relaxed,release}.{cta,cluster,gpu,sys}.global.add.u32") {
        cases.push(atomic(&form, ".global"));
    }
    for form in expand_forms("atom.{acquire,acq_rel}.{cta,gpu}.global.add.u32") {
        cases.push(atomic(&form, ".global"));
    }
    cases.extend([addresses(), addresses_of_parameters(), contended(), prefetches(), initialised_variables()]);
    cases
}

/// A kernel whose threads have [`PER_THREAD`] bytes of output each.
fn kernel(name: &str, body: String) -> Kernel {
    Kernel::new(name, body).threads(THREADS as u32).output(PER_THREAD * THREADS)
}

/// The number of elements and the type of a load or store.
fn shape(form: &str) -> (usize, String) {
    let count = form.split('.').find_map(|modifier| match modifier {
        "v2" => Some(2),
        "v4" => Some(4),
        _ => None,
    });
    (count.unwrap_or(1), form.rsplit('.').next().unwrap_or_default().to_owned())
}

fn list(names: &[String]) -> String {
    match names {
        [single] => single.clone(),
        several => format!("{{{}}}", several.join(", ")),
    }
}

/// A load from, or a store to, each thread's part of a space.
fn access(form: &str, space: &str) -> Case {
    let (setup, address, reload) = match space {
        ".shared" => (SHARED, "[%r0]", "ld.shared.b64 %rd4, [%r0+{}]"),
        ".local" => (LOCAL, "[%r0]", "ld.local.b64 %rd4, [%r0+{}]"),
        ".global" if form.starts_with("st") => ("", "[%rd2]", "ld.global.b64 %rd4, [%rd2+{}]"),
        ".global" => ("", "[%rd1]", ""),
        _ => (SHARED, "[%rd3]", "ld.shared.b64 %rd4, [%r0+{}]"),
    };
    let generic = if space.is_empty() { "cvt.u64.u32 %rd3, %r0;\ncvta.shared.u64 %rd3, %rd3;\n" } else { "" };
    let (count, kind) = shape(form);
    // Registers may be wider than what they load, unless it is a float.
    let width = if kind.starts_with('f') { bits(&kind) } else { 64 };
    let names: Vec<String> = (0..count).map(|index| format!("v{index}")).collect();
    let declarations: String = names.iter().map(|name| format!(".reg .b{width} {name};\n")).collect();
    let body = match form.starts_with("st") {
        false => {
            let results: String = names
                .iter()
                .enumerate()
                .map(|(index, name)| format!("st.global.b{width} [%rd2+{}], {name};\n", 8 * index))
                .collect();
            format!("{form} {}, {address};\n{results}", list(&names))
        }
        true => {
            let values: String = names
                .iter()
                .enumerate()
                .map(|(index, name)| format!("ld.global.b{width} {name}, [%rd1+{}];\n", 32 * THREADS + 8 * index))
                .collect();
            let results: String = (0..PER_THREAD)
                .step_by(8)
                .map(|offset| {
                    format!("{};\nst.global.b64 [%rd2+{offset}], %rd4;\n", reload.replace("{}", &offset.to_string()))
                })
                .collect();
            format!("{values}{form} {address}, {};\n{results}", list(&names))
        }
    };
    let input = Values::of(form).bytes(2 * PER_THREAD * THREADS);
    kernel(form, format!("{declarations}{PARTS}{setup}{generic}{body}")).input(input).finish()
}

fn load_constant(form: &str) -> Case {
    let (count, kind) = shape(form);
    let width = if kind.starts_with('f') { bits(&kind) } else { 64 };
    let names: Vec<String> = (0..count).map(|index| format!("v{index}")).collect();
    let declarations: String = names.iter().map(|name| format!(".reg .b{width} {name};\n")).collect();
    let stores: String = names
        .iter()
        .enumerate()
        .map(|(index, name)| format!("st.global.b{width} [%rd2+{}], {name};\n", 8 * index))
        .collect();
    let bytes: Vec<String> = Values::of(form).bytes(16 * THREADS).iter().map(u8::to_string).collect();
    let body = format!(
        "{declarations}{PARTS}mov.u64 %rd3, table;\nmad.wide.u32 %rd3, %thread, 16, %rd3;\n{form} {}, [%rd3];\n{stores}",
        list(&names)
    );
    let table = format!(".const .align 16 .b8 table[{}] = {{{}}};\n", bytes.len(), bytes.join(", "));
    kernel(form, body).variables(&table).finish()
}

const ATOMICS: [&str; 6] = [
    "{and,or,xor}.{b32,b64}",
    "exch.{b32,b64}",
    "cas.{b32,b64}",
    "add.{u32,s32,u64,f32,f64}",
    "{inc,dec}.u32",
    "{min,max}.{u32,s32,u64,s64}",
];

/// An atomic operation of each thread on memory of its own: what was there, and what is there afterwards.
fn atomic(form: &str, space: &str) -> Case {
    let (_, kind) = shape(form);
    let width = bits(&kind);
    let (setup, address) = match space {
        ".global" => ("ld.global.v2.b64 {%rd4, %rd5}, [%rd1];\nst.global.b64 [%rd2], %rd4;\n".to_owned(), "[%rd2]"),
        "" => (format!("{SHARED}cvt.u64.u32 %rd3, %r0;\ncvta.shared.u64 %rd3, %rd3;\n"), "[%rd3]"),
        _ => (SHARED.to_owned(), "[%r0]"),
    };
    let result = if form.starts_with("atom") { "d, " } else { "" };
    let operands = if form.contains(".cas") { "a, b" } else { "a" };
    let stored = if form.starts_with("atom") { format!("st.global.b{width} [%rd2+8], d;\n") } else { String::new() };
    let result_of_shared = match space {
        ".global" => "",
        _ => "ld.shared.b64 %rd4, [%r0];\nst.global.b64 [%rd2], %rd4;\n",
    };
    let body = format!(
        ".reg .b{width} a, b, d;\n{PARTS}{setup}ld.global.b{width} a, [%rd1+8];\nld.global.b{width} b, [%rd1+16];\n\
         {form} {result}{address}, {operands};\n{result_of_shared}{stored}"
    );
    let kinds: Vec<_> = (0..3).map(|_| (kind.clone(), crate::values::Domain::Any)).collect();
    let mut values = Values::of(form);
    let mut input = Vec::new();
    for thread in 0..THREADS {
        let mut operands = values.operands(thread, &kinds);
        // Half of the comparisons succeed.
        if form.contains(".cas") && thread % 2 == 0 {
            operands[1] = operands[0];
        }
        operands.push(0);
        input.extend(operands.iter().flat_map(|operand| operand.to_le_bytes()));
    }
    kernel(form, body).input(input).finish()
}

/// Generic addresses and back.
fn addresses() -> Case {
    let body = format!(
        ".local .align 8 .b64 own;\n{PARTS}{SHARED}\
         mov.u64 %rd3, own;\ncvta.local.u64 %rd4, %rd3;\nst.u32 [%rd4], %thread;\nld.local.u32 %r2, [own];\nst.global.u32 [%rd2], %r2;\n\
         cvta.to.local.u64 %rd5, %rd4;\nsetp.eq.u64 %p1, %rd3, %rd5;\nselp.u32 %r3, 1, 0, %p1;\nst.global.u32 [%rd2+4], %r3;\n\
         cvt.u64.u32 %rd3, %r0;\ncvta.shared.u64 %rd4, %rd3;\nld.u32 %r2, [%rd4];\nst.global.u32 [%rd2+8], %r2;\n\
         cvta.to.shared.u64 %rd5, %rd4;\nsetp.eq.u64 %p1, %rd3, %rd5;\nselp.u32 %r3, 1, 0, %p1;\nst.global.u32 [%rd2+12], %r3;\n\
         mov.u64 %rd3, numbers;\ncvta.global.u64 %rd4, %rd3;\nld.u32 %r2, [%rd4+4];\nst.global.u32 [%rd2+16], %r2;\n\
         cvta.to.global.u64 %rd5, %rd4;\nsetp.eq.u64 %p1, %rd3, %rd5;\nselp.u32 %r3, 1, 0, %p1;\nst.global.u32 [%rd2+20], %r3;\n\
         mov.u64 %rd3, fixed;\ncvta.const.u64 %rd4, %rd3;\nld.u32 %r2, [%rd4+4];\nst.global.u32 [%rd2+24], %r2;\n\
         cvta.to.const.u64 %rd5, %rd4;\nsetp.eq.u64 %p1, %rd3, %rd5;\nselp.u32 %r3, 1, 0, %p1;\nst.global.u32 [%rd2+28], %r3;\n"
    );
    kernel("cvta", body)
        .variables(".global .align 4 .u32 numbers[2] = {5, 6};\n.const .align 4 .u32 fixed[2] = {7, 8};\n")
        .input(Values::of("cvta").bytes(PER_THREAD * THREADS))
        .finish()
}

/// Addresses of parameters of an entry: their contents by the address in the param space and by the generic one.
fn addresses_of_parameters() -> Case {
    let same = "setp.eq.u64 %p1, %rd5, %input;\nselp.u32 %r2, 1, 0, %p1;\nst.global.u32";
    let body = format!(
        "{PARTS}mov.b64 %rd3, input;\nld.param.u64 %rd5, [%rd3];\n{same} [%rd2], %r2;\n\
         cvta.param.u64 %rd4, %rd3;\nld.u64 %rd5, [%rd4];\n{same} [%rd2+4], %r2;\n\
         ld.b8 %r3, [%rd4+4];\nshr.u64 %rd6, %input, 32;\ncvt.u32.u8 %r4, %rd6;\nsub.u32 %r3, %r3, %r4;\n\
         st.global.u32 [%rd2+8], %r3;\ncvta.to.param.u64 %rd7, %rd4;\nsetp.eq.u64 %p1, %rd3, %rd7;\n\
         selp.u32 %r2, 1, 0, %p1;\nst.global.u32 [%rd2+12], %r2;\nld.param.u64 %rd5, [%rd7];\n{same} [%rd2+16], %r2;\n"
    );
    kernel("cvta.param", body).input(Values::of("cvta.param").bytes(PER_THREAD * THREADS)).finish()
}

/// All threads add to the same word.
fn contended() -> Case {
    let body = "add.u32 %r1, %thread, 3;\nred.global.add.u32 [%output], %r1;\natom.global.max.u32 %r2, [%output+4], %r1;\n\
        atom.global.xor.b32 %r2, [%output+8], %r1;\n";
    Kernel::new("atom and red at one address", body).threads(64).output(12).finish()
}

/// Instructions without results.
fn prefetches() -> Case {
    let body = format!(
        "{PARTS}prefetch.global.L1 [%rd1];\nprefetch.global.L2 [%rd1];\nprefetch.L1 [%rd1];\nprefetch.L2 [%rd1];\n\
         prefetchu.L1 [%rd1];\nld.global.b64 %rd4, [%rd1];\nst.global.b64 [%rd2], %rd4;\n"
    );
    kernel("prefetch", body).input(Values::of("prefetch").bytes(PER_THREAD * THREADS)).finish()
}

/// Initial values of variables of several types.
fn initialised_variables() -> Case {
    let variables = ".global .align 8 .u64 wide[2] = {0x123456789abcdef0, 7};\n.global .align 4 .f32 single[2] = {0f3f800000, 2.5};\n\
        .global .align 2 .u16 narrow[4] = {1, 2, 65535};\n.global .align 8 .u64 pointer = wide+8;\n";
    let body = "ld.global.u64 %rd1, [wide];\nst.global.u64 [%output], %rd1;\nld.global.u64 %rd1, [single];\n\
        st.global.u64 [%output+8], %rd1;\nld.global.v4.u16 {%h1,%h2,%h3,%h4}, [narrow];\n\
        st.global.v4.u16 [%output+16], {%h1,%h2,%h3,%h4};\nld.global.u64 %rd1, [pointer];\nld.global.u64 %rd2, [%rd1];\n\
        st.global.u64 [%output+24], %rd2;\n";
    Kernel::new("initialised variables", body).threads(1).variables(variables).output(32).finish()
}

/// An atomic operation of each thread on a vector of its own: what was there, and what is there afterwards.
fn vector_atomic(form: &str) -> Case {
    let (_, kind) = shape(form);
    let count: usize = form.split(".v").nth(1).and_then(|rest| rest[..1].parse().ok()).expect("a vector");
    let (bytes, register) =
        if kind == "f32" { (4, "f32".to_owned()) } else { (bits(&kind) as usize / 8, format!("b{}", bits(&kind))) };
    let list = |letter: &str| (0..count).map(|index| format!("{letter}{index}")).collect::<Vec<_>>().join(", ");
    let result = if form.starts_with("atom") { format!("{{{}}}, ", list("d")) } else { String::new() };
    let mut body = format!(
        ".reg .{register} a<8>, d<8>;\nmad.wide.u32 %rd1, %thread, 32, %input;\nmad.wide.u32 %rd2, %thread, 32, %output;\n\
         ld.global.v2.b64 {{%rd4, %rd5}}, [%rd1];\nst.global.v2.b64 [%rd2], {{%rd4, %rd5}};\n"
    );
    for index in 0..count {
        body += &format!("ld.global.{register} a{index}, [%rd1+{}];\n", 16 + bytes * index);
    }
    body += &format!("{form} {result}[%rd2], {{{}}};\n", list("a"));
    if form.starts_with("atom") {
        for index in 0..count {
            body += &format!("st.global.{register} [%rd2+{}], d{index};\n", 16 + bytes * index);
        }
    }
    let mut values = Values::of(form);
    let kinds = [(kind.clone(), crate::values::Domain::Any)];
    let mut input = Vec::new();
    for thread in 0..THREADS * 32 / bytes {
        input.extend(&values.operands(thread, &kinds)[0].to_le_bytes()[..bytes]);
    }
    kernel(form, body).input(input).finish()
}

/// An atomic operation of each thread on 128 bits of its own; of every second thread, the comparison succeeds.
fn wide_atomic(form: &str) -> Case {
    let operands = if form.contains(".cas") { "%old, %new" } else { "%new" };
    let body = format!(
        ".reg .b128 %old, %new, %found;\nmad.wide.u32 %rd1, %thread, 32, %input;\nmad.wide.u32 %rd2, %thread, 32, %output;\n\
         ld.global.b128 %old, [%rd1];\nst.global.b128 [%rd2], %old;\nld.global.v2.b64 {{%rd4, %rd5}}, [%rd1+16];\n\
         mov.b128 %new, {{%rd4, %rd5}};\nmov.b128 {{%rd6, %rd7}}, %old;\nand.b32 %r0, %thread, 1;\ncvt.u64.u32 %rd8, %r0;\n\
         xor.b64 %rd7, %rd7, %rd8;\nmov.b128 %old, {{%rd6, %rd7}};\n\
         {form} %found, [%rd2], {operands};\nst.global.b128 [%rd2+16], %found;\n"
    );
    kernel(form, body).input(Values::of(form).bytes(32 * THREADS)).finish()
}
