//! `wgmma` against a plain matrix product, with the layouts of the PTX ISA, and findings for wrong use.

use crate::common::{Kernel, words};
use ptx_sim::FindingClass;

/// Layout of an operand in shared memory.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Bytes of a swizzled row; 16 for no swizzle.
    row_bytes: usize,
    /// Rows are contiguous along M or N instead of along K.
    transposed: bool,
}

impl Layout {
    /// The fields of a matrix descriptor but its address.
    fn descriptor(self) -> u64 {
        let mode = match self.row_bytes {
            128 => 1,
            64 => 2,
            32 => 3,
            _ => 0,
        };
        let (leading, stride) = self.offsets();
        (leading as u64 >> 4) << 16 | (stride as u64 >> 4) << 32 | mode << 62
    }

    /// Leading and stride byte offsets.
    fn offsets(self) -> (usize, usize) {
        match (self.row_bytes, self.transposed) {
            // Core matrices of 128 bytes: neighbours along K, then along M or N.
            (16, _) => (128, 256),
            // Blocks of eight rows; no second block along K.
            (row, false) => (16, 8 * row),
            // Two blocks along K, then along M or N.
            (row, true) => (16 * row, 8 * row),
        }
    }

    /// Where an element lies.
    fn place(self, row: usize, k: usize) -> usize {
        let (leading, stride) = self.offsets();
        let width = self.row_bytes;
        let linear = match (width, self.transposed) {
            (16, false) => row / 8 * stride + k / 8 * leading + row % 8 * 16 + k % 8 * 2,
            (16, true) => row / 8 * stride + k / 8 * leading + k % 8 * 16 + row % 8 * 2,
            (_, false) => row * width + k * 2,
            (_, true) => row * 2 / width * leading + k * width + row * 2 % width,
        };
        let chunks = width / 16;
        linear ^ (linear / 128 % chunks * 16)
    }
}

const A_BYTES: usize = 8192;

fn a(row: usize, k: usize) -> f32 {
    ((row * 31 + k * 5) % 7) as f32 - 3.0
}

fn b(column: usize, k: usize) -> f32 {
    ((column * 3 + k * 17) % 5) as f32 - 2.0
}

fn half(value: f32) -> u16 {
    let magnitude = [0, 0x3c00, 0x4000, 0x4200][value.abs() as usize];
    magnitude | if value < 0.0 { 0x8000 } else { 0 }
}

fn bfloat(value: f32) -> u16 {
    (value.to_bits() >> 16) as u16
}

/// Shared memory with both operands.
fn operands(layouts: [Layout; 2], columns: usize, bits: fn(f32) -> u16) -> Vec<u8> {
    let mut data = vec![0; 4 * A_BYTES];
    let mut put = |place: usize, value: f32| data[place..place + 2].copy_from_slice(&bits(value).to_le_bytes());
    for k in 0..16 {
        (0..64).for_each(|row| put(layouts[0].place(row, k), a(row, k)));
        (0..columns).for_each(|column| put(A_BYTES + layouts[1].place(column, k), b(column, k)));
    }
    data
}

const FENCE_PROXY: &str = "fence.proxy.async;";

/// Fills `tile`; `%rd1` and `%rd2` are the descriptors of A and B, `%rd5` the first of the thread's words of output.
fn setup(layouts: [Layout; 2], accumulators: usize) -> String {
    let [first, second] = layouts.map(Layout::descriptor);
    let clear: String = (0..accumulators).map(|index| format!("mov.b32 %acc{index}, 0x3f800000;\n")).collect();
    format!(
        ".shared .align 1024 .b8 tile[{}]; .reg .b32 %acc<{accumulators}>; mov.u32 %r1, tile; shl.b32 %r2, %lane, 4;\n\
         fill: cvt.u64.u32 %rd3, %r2; add.u64 %rd3, %rd3, %input; ld.global.v4.u32 {{%r4,%r5,%r6,%r7}}, [%rd3];\n\
         add.u32 %r3, %r1, %r2; st.shared.v4.u32 [%r3], {{%r4,%r5,%r6,%r7}}; add.u32 %r2, %r2, 2048;\n\
         setp.lt.u32 %p0, %r2, {}; @%p0 bra fill; {FENCE_PROXY} bar.sync 0;\n\
         shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd1, %r1; add.u64 %rd2, %rd1, {}; or.b64 %rd1, %rd1, {first};\n\
         or.b64 %rd2, %rd2, {second}; mul.wide.u32 %rd5, %lane, {}; add.u64 %rd5, %rd5, %output; setp.eq.u32 %p1, 1, 1;\n{clear}",
        4 * A_BYTES,
        4 * A_BYTES,
        A_BYTES / 16,
        4 * accumulators,
    )
}

fn list(count: usize) -> String {
    let names: Vec<String> = (0..count).map(|index| format!("%acc{index}")).collect();
    format!("{{{}}}", names.join(","))
}

const COMMIT: &str = "wgmma.commit_group.sync.aligned;\n";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0;\n";

fn store(accumulators: usize) -> String {
    (0..accumulators).map(|index| format!("st.global.b32 [%rd5+{}], %acc{index};\n", 4 * index)).collect()
}

fn multiply(layouts: [Layout; 2], columns: usize, kind: &str, signs: &str) -> String {
    let [ta, tb] = layouts.map(|layout| u32::from(layout.transposed));
    format!(
        "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} {}, %rd1, %rd2, %p1, {signs}, {ta}, {tb};\n",
        list(columns / 2)
    )
}

fn kernel(body: &str, input: Vec<u8>, accumulators: usize) -> Kernel {
    let bytes = 128 * 4 * accumulators as u64;
    Kernel::new(body).on_hopper().with_threads(128).with_input(input).with_output_bytes(bytes)
}

/// Row and column of the `index`-th accumulator of a thread.
fn place(thread: usize, index: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    (16 * warp + lane / 4 + index / 2 % 2 * 8, lane % 4 * 2 + index % 2 + index / 4 * 8)
}

fn product(row: usize, column: usize) -> f32 {
    (0..16).map(|k| a(row, k) * b(column, k)).sum()
}

fn check(output: &[u8], accumulators: usize, expected: impl Fn(usize, usize) -> f32, what: &str) {
    for (position, word) in words(output).into_iter().enumerate() {
        let (row, column) = place(position / accumulators, position % accumulators);
        assert_eq!(f32::from_bits(word), expected(row, column), "{what}, row {row}, column {column}");
    }
}

fn check_product(layouts: [Layout; 2], columns: usize, kind: &str, bits: fn(f32) -> u16) {
    let accumulators = columns / 2;
    let body = format!(
        "{}wgmma.fence.sync.aligned;\n{}{COMMIT}{WAIT}{}",
        setup(layouts, accumulators),
        multiply(layouts, columns, kind, "1, 1"),
        store(accumulators)
    );
    let output = kernel(&body, operands(layouts, columns, bits), accumulators).run_clean();
    check(&output, accumulators, |row, column| product(row, column) + 1.0, &format!("{layouts:?} n{columns} {kind}"));
}

const PLAIN: Layout = Layout { row_bytes: 128, transposed: false };

#[test]
fn every_layout_of_both_operands() {
    for row_bytes in [16, 32, 64, 128] {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            let layouts = transposed.map(|transposed| Layout { row_bytes, transposed });
            check_product(layouts, 72, "f16", half);
        }
    }
}

#[test]
fn sizes_and_types() {
    for columns in [8, 16, 128] {
        check_product([PLAIN; 2], columns, "f16", half);
    }
    check_product([PLAIN; 2], 32, "bf16", bfloat);
}

#[test]
fn scales() {
    let body = |signs: &str, predicate: &str| {
        let multiply = multiply([PLAIN; 2], 8, "f16", signs);
        format!(
            "{}mov.u32 %r8, {predicate}; setp.ne.u32 %p1, %r8, 0; wgmma.fence.sync.aligned;\n{multiply}{multiply}{COMMIT}{WAIT}{}",
            setup([PLAIN; 2], 4),
            store(4)
        )
    };
    let input = operands([PLAIN; 2], 8, half);
    let run = |signs: &str, predicate: &str| kernel(&body(signs, predicate), input.clone(), 4).run_clean();
    check(&run("1, 1", "%ntid.x"), 4, |row, column| 2.0 * product(row, column) + 1.0, "added twice");
    check(&run("-1, 1", "%ntid.x"), 4, |row, column| 1.0 - 2.0 * product(row, column), "subtracted twice");
    check(&run("1, 1", "%ctaid.x"), 4, product, "replaced");
}

#[test]
fn fragments_in_registers() {
    // A is 1 in column k = 0 of every row and 0 elsewhere: the products are the first row of B.
    let body = format!(
        "{}and.b32 %r10, %lane, 3; setp.eq.u32 %p2, %r10, 0; selp.b32 %r11, 0x3c00, 0, %p2; mov.b32 %r12, 0;\n\
         wgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {}, {{%r11,%r11,%r12,%r12}}, %rd2, %p1, 1, 1, 0;\n{COMMIT}{WAIT}{}",
        setup([PLAIN; 2], 8),
        list(8),
        store(8)
    );
    let output = kernel(&body, operands([PLAIN; 2], 16, half), 8).run_clean();
    check(&output, 8, |_, column| b(column, 0) + 1.0, "fragments");
}

#[test]
fn half_accumulators() {
    let body = format!(
        "{}wgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {{%acc0,%acc1}}, %rd1, %rd2, 0, 1, 1, 0, 0;\n{COMMIT}{WAIT}{}",
        setup([PLAIN; 2], 2),
        store(2)
    );
    let body = body.replace("%rd2, 0,", "%rd2, %p3,").replace("wgmma.fence", "setp.ne.u32 %p3, 1, 1; wgmma.fence");
    let output = kernel(&body, operands([PLAIN; 2], 8, half), 2).run_clean();
    for (position, bits) in output.chunks_exact(2).enumerate() {
        let (row, column) = place(position / 4, position % 4);
        let got = u16::from_le_bytes([bits[0], bits[1]]);
        let value = product(row, column);
        let expected = match value == 0.0 {
            true => 0,
            // Small integers: the upper bits of an f32 with the exponent's bias changed.
            false => (value.to_bits() >> 16 & 0x8000 | ((value.abs().to_bits() >> 13) - (112 << 10))) as u16,
        };
        assert_eq!(got, expected, "row {row}, column {column}: {value}");
    }
}

fn faulty(before: &str, between: &str, after: &str) -> Kernel {
    let body = format!(
        "{}{before}{}{COMMIT}{between}{WAIT}{after}",
        setup([PLAIN; 2], 4),
        multiply([PLAIN; 2], 8, "f16", "1, 1")
    );
    kernel(&body, operands([PLAIN; 2], 8, half), 4)
}

const FENCE: &str = "wgmma.fence.sync.aligned;\n";

#[test]
fn accumulators_touched_too_early() {
    let read = faulty(FENCE, "st.global.b32 [%rd5], %acc2;\n", "").run_faults_of(FindingClass::WgmmaNotWaited);
    assert!(read[0].message.contains("`%acc2` is the accumulator"), "{}", read[0]);
    faulty(FENCE, "mov.b32 %acc1, 0;\n", "").run_faults_of(FindingClass::WgmmaNotWaited);
    let early = "wgmma.wait_group.sync.aligned 1; st.global.b32 [%rd5], %acc0;\n";
    faulty(FENCE, early, "").run_faults_of(FindingClass::WgmmaNotWaited);
}

#[test]
fn products_nobody_waits_for() {
    let text = faulty(FENCE, "", "").text().replace(WAIT, "");
    let body = text.split("mov.u32 %lane, %tid.x;\n").nth(1).and_then(|body| body.strip_suffix("\nret;\n}\n"));
    let kernel = kernel(body.expect("a body"), operands([PLAIN; 2], 8, half), 4);
    let findings = kernel.run_faults_of(FindingClass::WgmmaNotWaited);
    assert!(findings[0].message.contains("ends without having waited"), "{}", findings[0]);
}

#[test]
fn fences_of_registers() {
    faulty("", "", "").run_faults_of(FindingClass::MissingWgmmaFence);
    let findings =
        faulty(&format!("{FENCE}mov.b32 %acc3, 0;\n"), "", "").run_faults_of(FindingClass::MissingWgmmaFence);
    assert!(findings[0].message.contains("`%acc3`"), "{}", findings[0]);
}

#[test]
fn operands_have_to_be_fenced_and_left_alone() {
    let kernel_of = |body: String| kernel(&body, operands([PLAIN; 2], 8, half), 4);
    let text = format!("{}{FENCE}{}{COMMIT}{WAIT}", setup([PLAIN; 2], 4), multiply([PLAIN; 2], 8, "f16", "1, 1"));
    kernel_of(text.replace(FENCE_PROXY, "")).run_faults_of(FindingClass::MissingProxyFence);
    let overwritten = "bar.sync 0; setp.eq.u32 %p4, %lane, 0; mov.u32 %r9, tile; @%p4 st.shared.u32 [%r9], 0;\n";
    let findings = faulty(FENCE, overwritten, "").run_faults_of(FindingClass::AsyncCopyNotWaited);
    assert!(findings[0].message.contains("what the wgmma in line"), "{}", findings[0]);
    let beyond = faulty(&format!("{FENCE}add.u64 %rd2, %rd2, 2000;\n"), "", "");
    beyond.run_faults_of(FindingClass::OutOfBounds);
}

#[test]
fn operands_may_be_overwritten_when_the_wait_of_all_who_read_them_is_known() {
    // Thread 32 writes long after every warp has waited; but only a barrier says so.
    let late = "setp.eq.u32 %p4, %lane, 32; mov.u32 %r9, 0; mov.u32 %r10, tile;\n\
                spin: add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, 5000; @%p5 bra spin;\n\
                @%p4 st.shared.u32 [%r10], 0;\n";
    let findings = faulty(FENCE, "bar.sync 0;\n", late).run_faults_of(FindingClass::Race);
    assert!(findings[0].message.contains("races with the read by wgmma"), "{}", findings[0]);
    faulty(FENCE, "bar.sync 0;\n", &format!("bar.sync 0;\n{late}")).run_clean();
}

#[test]
fn all_four_warps_take_part() {
    let split = format!("setp.ge.u32 %p5, %lane, 96; @%p5 exit;\n{FENCE}");
    let findings = faulty(&split, "", "").run_faults_of(FindingClass::CollectiveLanesMissing);
    assert!(findings[0].message.contains("all four warps"), "{}", findings[0]);
}

#[test]
fn what_is_not_supported_is_refused() {
    for instruction in [
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0,%f1,%f2,%f3}, %rd1, %rd2, %r1, 0, %p1, 1, 1, 0, 0;",
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r1,%r2}, {%r3,%r4}, {%f0,%f1,%f2,%f3}, %r5, 4;",
    ] {
        let Err(error) = Kernel::new(instruction).on_hopper().try_run() else { panic!("{instruction} ran") };
        assert!(error.to_string().contains("unsupported"), "{error}");
    }
}
