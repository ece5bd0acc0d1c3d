//! `cp.reduce.async.bulk`: results, and findings for wrong use.

use crate::common::{Kernel, bytes, eight_by_eight, words};
use ptx_sim::{Finding, FindingClass, TensorElement};

/// `tile` at `%r1`, which every thread fills with its word of the input; the output begins with the words of the input, which is
/// ordered before the reductions of all blocks; `%leader` is thread 0.
const SETUP: &str = ".shared .align 128 .b8 tile[128]; .reg .pred %leader; mov.u32 %r1, tile; shl.b32 %r2, %lane, 2;\n\
    add.u32 %r3, %r1, %r2; mul.wide.u32 %rd1, %r2, 1; add.u64 %rd2, %rd1, %output; add.u64 %rd1, %rd1, %input;\n\
    ld.global.u32 %r4, [%rd1]; st.shared.u32 [%r3], %r4; setp.eq.u32 %leader, %lane, 0; fence.proxy.async; bar.sync 0;\n";
const WAIT: &str = "@%leader cp.async.bulk.commit_group; @%leader cp.async.bulk.wait_group 0; bar.sync 0;\n";
/// The thread's word of the input, which was reduced into.
const STORE: &str = "ld.global.u32 %r5, [%rd1]; st.global.u32 [%rd2], %r5;\n";

fn reduce(form: &str) -> String {
    format!("@%leader cp.reduce.async.bulk.global.shared::cta.bulk_group.{form} [%input], [%r1], 128;\n")
}

fn kernel(input: Vec<u8>, parts: &[&str]) -> Kernel {
    Kernel::new(&format!("{SETUP}{}", parts.concat())).on_hopper().with_input(input).with_output_bytes(128)
}

/// What the words of the input have become, each joined with itself.
fn results(form: &str, input: &[u32]) -> Vec<u32> {
    words(&kernel(bytes(input), &[&reduce(form), WAIT, STORE]).run_clean())
}

fn first(parts: &[&str]) -> Finding {
    kernel(bytes(&[1; 32]), parts).first_finding()
}

#[test]
fn elements_are_joined() {
    let numbers: Vec<u32> = (0..32).map(|word| word * 0x0101_0101).collect();
    let of = |function: fn(u32) -> u32| numbers.iter().map(|word| function(*word)).collect::<Vec<u32>>();
    assert_eq!(results("add.u32", &numbers), of(|word| word.wrapping_add(word)));
    assert_eq!(results("add.s32", &numbers), of(|word| word.wrapping_add(word)));
    assert_eq!(results("xor.b32", &numbers), [0; 32]);
    for same in ["and.b32", "or.b32", "min.u32", "max.s32", "or.b64", "min.s64"] {
        assert_eq!(results(same, &numbers), numbers, "{same}");
    }
    assert_eq!(results("inc.u32", &numbers), [0; 32], "the old value is the limit");
    let floats: Vec<u32> = (0..32).map(|word| (word as f32 * 0.5).to_bits()).collect();
    assert_eq!(results("add.f32", &floats), (0..32).map(|word| (word as f32).to_bits()).collect::<Vec<u32>>());
    // 1.5 + 1.5 = 3 in each half.
    assert_eq!(results("add.noftz.f16", &[0x3e00_3e00; 32]), [0x4200_4200; 32]);
    assert_eq!(results("add.noftz.bf16", &[0x3fc0_3fc0; 32]), [0x4040_4040; 32]);
}

#[test]
fn blocks_reduce_into_the_same_memory() {
    // Reductions of four blocks do not race with each other; the plain stores of one word by all of them would.
    let ones = ".shared .align 128 .b8 ones[128]; mov.u32 %r1, ones; shl.b32 %r2, %lane, 2; add.u32 %r3, %r1, %r2;\n\
        mov.u32 %r4, %ctaid.x; st.shared.u32 [%r3], %r4; setp.eq.u32 %p1, %lane, 0; fence.proxy.async; bar.sync 0;\n";
    let body = |form: &str| {
        format!(
            "{ones}@%p1 cp.{form} [%input], [%r1], 128; @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"
        )
    };
    let kernel = |form: &str| Kernel::new(&body(form)).on_hopper().with_blocks(4);
    kernel("reduce.async.bulk.global.shared::cta.bulk_group.add.u32").run_clean();
    kernel("async.bulk.global.shared::cta.bulk_group").run_faulty(FindingClass::Race);
}

#[test]
fn boxes_are_joined() {
    let form =
        "@%leader cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%map, {0, 4}], [%r1];\n";
    let input: Vec<u32> = (0..64).collect();
    let read = "ld.global.u32 %r5, [%rd1+128]; st.global.u32 [%rd2], %r5;\n";
    let run = |element| kernel(bytes(&input), &[form, WAIT, read]).with_tensor_map(eight_by_eight(element));
    let sums: Vec<u32> = (0..32).map(|word| word + word + 32).collect();
    assert_eq!(words(&run(TensorElement::U32).run_clean()), sums);
    let mut bytes_map = eight_by_eight(TensorElement::U16);
    bytes_map.sizes[0] = 16;
    bytes_map.box_sizes[0] = 16;
    let finding =
        kernel(bytes(&input), &[form, WAIT, read]).with_tensor_map(bytes_map).run_faulty(FindingClass::InvalidOperand);
    assert!(finding.message.contains("a tensor of U16"), "{finding}");
    // An H100 executes these of tensors of u64 and stops at those of s64.
    let bits = form.replace(".add.", ".or.");
    let mut signed = eight_by_eight(TensorElement::S64);
    signed.sizes[0] = 4;
    signed.box_sizes[0] = 4;
    let finding =
        kernel(bytes(&input), &[&bits, WAIT, read]).with_tensor_map(signed).run_faulty(FindingClass::InvalidOperand);
    assert!(finding.message.contains("by .or of a tensor of S64"), "{finding}");
}

#[test]
fn another_blocks_memory_is_reduced() {
    let body = format!(
        "{SETUP}.shared .align 8 .b64 gate; .shared .align 128 .b8 sums[128]; mov.u32 %r10, gate; mov.u32 %r11, sums; add.u32 %r12, %r11, %r2;\n\
         st.shared.u32 [%r12], 100; mov.u32 %r13, %cluster_ctarank; xor.b32 %r13, %r13, 1;\n\
         @%leader mbarrier.init.shared::cta.b64 [%r10], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;\n\
         barrier.cluster.arrive; barrier.cluster.wait; mapa.shared::cluster.u32 %r14, %r10, %r13; mapa.shared::cluster.u32 %r15, %r11, %r13;\n\
         @%leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 128;\n\
         @%leader cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r15], [%r1], 128, [%r14];\n\
         wait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r10], 0; @!%p1 bra wait;\n\
         ld.shared.u32 %r5, [%r12]; mov.u32 %r6, %ctaid.x; mul.wide.u32 %rd3, %r6, 128; add.u64 %rd2, %rd2, %rd3; st.global.u32 [%rd2], %r5;\n\
         barrier.cluster.arrive; barrier.cluster.wait;"
    );
    let kernel = |body: &str| {
        let kernel = Kernel::new(body).on_hopper().with_input(bytes(&(0..32).collect::<Vec<u32>>()));
        kernel.with_output_bytes(256).with_clusters([2, 1, 1], [2, 1, 1])
    };
    assert_eq!(words(&kernel(&body).run_clean()), (0..64).map(|word| word % 32 + 100).collect::<Vec<u32>>());
    let early = body.replace("wait: mbarrier", "ld.shared.u32 %r5, [%r12]; wait: mbarrier");
    let findings = kernel(&early).run_faults_of(FindingClass::Race);
    assert!(findings[0].message.contains("asynchronous copy"), "{}", findings[0]);
}

#[test]
fn what_is_wrong_is_found() {
    let add = reduce("add.u32");
    let unfinished = first(&[&add]);
    assert_eq!(unfinished.class, FindingClass::AsyncCopyNotWaited, "{unfinished}");
    let overwritten = first(&[&add, "st.shared.u32 [%r3], 7;", WAIT]);
    assert_eq!(overwritten.class, FindingClass::AsyncCopyNotWaited, "{overwritten}");
    let beyond = first(&[&add.replace("[%input]", "[%input+64]"), WAIT]);
    assert_eq!(beyond.class, FindingClass::OutOfBounds, "{beyond}");
    let unaligned = first(&[&add.replace("[%input]", "[%input+8]"), WAIT]);
    assert_eq!(unaligned.class, FindingClass::Misaligned, "{unaligned}");
}

#[test]
fn what_there_is_not_is_refused() {
    for form in ["add.f16", "add.noftz.u32", "and.u32", "inc.s32", "min.f32", "add.s64", "exch.b32"] {
        let Err(error) = kernel(bytes(&[0; 32]), &[&reduce(form)]).try_run() else { panic!("{form} ran") };
        assert!(error.to_string().contains("cp.reduce.async.bulk"), "{error}");
    }
}
