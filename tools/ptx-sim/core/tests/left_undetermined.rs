//! Undetermined values that kernels store to global memory: reported when a later kernel depends on them, when they leave the GPU,
//! or when they remain as a result; not reported when nothing reads them.

use crate::common::{Kernel, bytes};
use ptx_sim::{Finding, FindingClass, GlobalMemory, Launch, Module, Options, UndeterminedStore, run};

const TEXTS: [&str; 2] = [include_str!("compiled/undefined.ptx"), include_str!("compiled/undefined_O0.ptx")];
const KEEP: bool = true;
/// Bytes of one block's state, of which the last 4 are its sum.
const STATE: u64 = 16;

/// `publish_sums` of `compiled/undefined.cu` on two tiles of 128 items.
struct Published {
    module: Module,
    memory: GlobalMemory,
    output: u64,
    states: u64,
    findings: Vec<Finding>,
}

impl Published {
    fn new(text: &str, items: u32, keeps_undetermined: bool) -> Published {
        let module = Module::parse(text, "undefined.ptx").unwrap_or_else(|error| panic!("{error}"));
        let mut memory = GlobalMemory::new();
        let output = memory.allocate("output", 4).expect("allocating");
        let states = memory.allocate("states", 2 * STATE).expect("allocating");
        let mut published = Published { module, memory, output, states, findings: Vec::new() };
        published.findings = published.launch("publish_sums", 2, 32, items, keeps_undetermined);
        published
    }

    fn launch(
        &mut self,
        entry: &str,
        blocks: u32,
        threads: u32,
        number: u32,
        keeps_undetermined: bool,
    ) -> Vec<Finding> {
        let (output, states, number) = (self.output.to_le_bytes(), self.states.to_le_bytes(), number.to_le_bytes());
        let launch = Launch {
            entry,
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            dynamic_shared_bytes: 0,
            params: &[&output, &states, &number],
            architecture: 80,
        };
        let options = Options { keeps_undetermined, ..Options::default() };
        run(&self.module, &mut self.memory, &launch, &options).expect("running").findings
    }

    /// The finding about the sum that a block published.
    fn take_sum(&self, block: u64) -> Vec<UndeterminedStore> {
        self.memory.take_undetermined(self.states + block * STATE + 12, 4)
    }
}

#[track_caller]
fn assert_store(finding: &Finding) {
    assert_eq!(finding.class, FindingClass::Uninitialised, "{finding}");
    assert!(finding.at.instruction.contains("st."), "{finding}");
    assert_eq!(finding.at.source.as_ref().map(|source| source.line), Some(104), "{finding}");
}

#[test]
fn a_sum_that_nobody_reads_is_no_finding() {
    for text in TEXTS {
        let published = Published::new(text, 200, KEEP);
        assert_eq!(published.findings, []);
        assert_eq!(published.take_sum(0), [], "the first tile is full");
        assert_eq!(Published::new(text, 256, !KEEP).findings, []);
    }
}

#[test]
fn it_is_one_once_it_leaves_the_gpu() {
    for text in TEXTS {
        let published = Published::new(text, 200, KEEP);
        let stores = published.take_sum(1);
        let [UndeterminedStore { entry, finding }] = stores.as_slice() else { panic!("{stores:?}") };
        assert_eq!(entry, "publish_sums");
        assert_store(finding);
        assert_eq!(published.take_sum(1), [], "told once");
    }
}

#[test]
fn a_launch_for_itself_has_results_only() {
    for text in TEXTS {
        let findings = Published::new(text, 200, !KEEP).findings;
        let [finding] = findings.as_slice() else { panic!("{findings:?}") };
        assert_store(finding);
        assert_eq!(finding.at.block, [1, 0, 0], "{finding}");
    }
}

#[test]
fn a_later_launch_that_depends_on_it_names_the_store() {
    for text in TEXTS {
        let mut published = Published::new(text, 200, KEEP);
        assert_eq!(published.launch("sum_states", 1, 1, 1, !KEEP), [], "the first tile is full");
        let findings = published.launch("sum_states", 1, 1, 2, !KEEP);
        let [finding] = findings.as_slice() else { panic!("{findings:?}") };
        assert!(finding.message.contains("global memory in which undetermined values were stored"), "{finding}");
        assert!(finding.message.contains("stored by `publish_sums` in line "), "{finding}");
        assert!(finding.message.contains("undefined.cu:104"), "{finding}");
        assert_eq!(published.take_sum(1), [], "that was told");
    }
}

#[test]
fn what_replaces_it_ends_it() {
    let mut published = Published::new(TEXTS[0], 200, KEEP);
    published.memory.write(published.states + STATE + 12, &[1; 4]).expect("writing");
    assert_eq!(published.take_sum(1), []);
    assert_eq!(published.launch("sum_states", 1, 1, 2, !KEEP), []);
}

#[test]
fn copies_take_it_along() {
    let mut published = Published::new(TEXTS[0], 200, KEEP);
    let (from, to) = (published.states + STATE, published.memory.allocate("copy", STATE).expect("allocating"));
    let values = published.memory.undetermined(from, STATE);
    published.memory.write(to, &[1; STATE as usize]).expect("writing");
    published.memory.forget(to + 12, 4);
    published.memory.put_undetermined(to, values);
    published.states = to - STATE;
    assert_eq!(published.memory.first_unwritten(to, STATE).expect("all is there"), Some(to + 12));
    let stores = published.take_sum(1);
    let [UndeterminedStore { finding, .. }] = stores.as_slice() else { panic!("{stores:?}") };
    assert_store(finding);
}

#[test]
fn what_is_left_in_memory_that_nobody_reads_is_a_result() {
    let published = Published::new(TEXTS[0], 200, KEEP);
    let stores = published.memory.take_left(published.states);
    let [UndeterminedStore { finding, .. }] = stores.as_slice() else { panic!("{stores:?}") };
    assert_store(finding);
    assert_eq!(published.memory.take_left(published.output), []);

    let mut read_later = Published::new(TEXTS[0], 200, KEEP);
    read_later.launch("sum_states", 1, 1, 1, KEEP);
    assert_eq!(read_later.memory.take_left(read_later.states), [], "a later launch reads there");

    let copied = Published::new(TEXTS[0], 200, KEEP);
    copied.memory.read(copied.states, &mut [0; 4]).expect("reading");
    assert_eq!(copied.memory.take_left(copied.states), [], "a copy reads there");
}

#[test]
fn memory_by_which_blocks_talk_is_no_result() {
    let run = |rest: &str| {
        let body = format!("ld.shared.u32 %r2, [tile]; st.relaxed.gpu.global.u32 [talk+4], %r2; {rest}");
        let variables = ".shared .align 4 .b8 tile[4];\n.global .align 4 .b8 talk[8] = {1};\n";
        let options = Options { keeps_undetermined: KEEP, ..Options::default() };
        let outcome = Kernel::new(&body).with_variables(variables).with_threads(1).with_options(options).run();
        assert_eq!(outcome.report.findings, []);
        let talk = outcome.memory.allocations().find(|buffer| buffer.name == "talk").map(|buffer| buffer.start);
        outcome.memory.take_left(talk.expect("there is one")).len()
    };
    assert_eq!(run(""), 1);
    assert_eq!(run("ld.global.u32 %r3, [talk];"), 1);
    assert_eq!(run("ld.relaxed.gpu.global.u32 %r3, [talk];"), 0);
    assert_eq!(run("atom.global.add.u32 %r3, [talk], 1;"), 0);
}

#[test]
fn bits_that_are_known_stay_so() {
    // The low half of the word is known.
    let body = ".shared .align 4 .b8 tile[4]; st.shared.u16 [tile], 5; ld.shared.u32 %r2, [tile]; shl.b32 %r2, %r2, 4;\n\
        st.global.u32 [%output+4], %r2; ld.global.u32 %r3, [%output+4]; ";
    let run = |rest: &str| Kernel::new(&format!("{body}{rest}")).with_threads(1);
    let mask = "and.b32 %r3, %r3, 0xfffff; st.global.u32 [%output], %r3; st.global.u32 [%output+4], 0;";
    assert_eq!(run(mask).run_clean()[..4], bytes(&[0x50])[..4]);
    let finding = run("setp.eq.u32 %p0, %r3, 0x50; @%p0 st.global.u32 [%output], 1; st.global.u32 [%output+4], 0;")
        .run_faulty(FindingClass::Uninitialised);
    assert!(finding.message.contains("undetermined values were stored"), "{finding}");
}

#[test]
fn an_atomic_operation_depends_on_it() {
    let finding = Kernel::new(
        ".shared .align 4 .b8 tile[4]; ld.shared.u32 %r2, [tile]; st.global.u32 [%output+4], %r2;\n\
         red.global.add.u32 [%output+4], 1;",
    )
    .with_threads(1)
    .run_faulty(FindingClass::Uninitialised);
    assert!(finding.at.instruction.contains("red."), "{finding}");
    assert!(finding.message.contains("global memory in which undetermined values were"), "{finding}");
    assert!(finding.message.contains("stored by `test` in line "), "{finding}");
}
