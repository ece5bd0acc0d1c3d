//! The mutation rules.

use crate::change::Change::{self, *};
use crate::instruction::Instruction;

/// A mutation rule: a change, and the instructions to which it applies.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Name in reports.
    pub name: &'static str,
    /// What the mistake would be.
    pub mistake: &'static str,
    /// Prefix of the opcodes to which it applies.
    opcode: &'static str,
    /// Further condition on the instruction.
    condition: Condition,
    change: Change,
}

/// A condition on an instruction.
#[derive(Clone, Copy, Debug)]
enum Condition {
    /// None.
    Any,
    /// The literal at an operand is a multiple of this, and not 0.
    Multiple(usize, i64),
    /// The literal at an operand is this.
    Literal(usize, i64),
    /// The text of an operand is this.
    Text(usize, &'static str),
    /// The literal at operand 2 has the fields of a matrix descriptor with 128-byte swizzle.
    Descriptor,
}
use Condition::{Any, Descriptor, Literal, Multiple, Text};

impl Rule {
    const fn new(name: &'static str, mistake: &'static str, opcode: &'static str, change: Change) -> Self {
        Self { name, mistake, opcode, condition: Any, change }
    }

    const fn when(mut self, condition: Condition) -> Self {
        self.condition = condition;
        self
    }

    /// `instruction` with the change; `None` if it does not apply.
    pub fn apply(&self, instruction: &Instruction) -> Option<String> {
        let holds = match self.condition {
            Any => true,
            Multiple(operand, divisor) => {
                instruction.literal(operand).is_some_and(|value| value != 0 && value % divisor == 0)
            }
            Literal(operand, expected) => instruction.literal(operand) == Some(expected),
            Descriptor => instruction.literal(2).is_some_and(|value| value >> 62 == 1),
            Text(operand, expected) => instruction.operands.get(operand).is_some_and(|text| text == expected),
        };
        let matches = instruction.opcode.starts_with(self.opcode) && holds;
        matches.then(|| self.change.apply(instruction)).flatten()
    }
}

/// Every rule. Several rows may have the same name.
pub const RULES: &[Rule] = &[
    // Synchronisation.
    Rule::new("drop bar.sync", "a missing __syncthreads", "bar.sync", Drop),
    Rule::new(
        "weaken bar.sync",
        "a warp barrier for a block barrier",
        "bar.sync",
        Rewrite("bar.warp.sync 0xffffffff;"),
    ),
    Rule::new("drop bar.warp.sync", "a missing __syncwarp", "bar.warp.sync", Drop),
    Rule::new("drop griddepcontrol.wait", "the grid before may still run", "griddepcontrol.wait", Drop),
    Rule::new("drop wait_group", "copies are used before they are complete", "cp.async.wait_group", Drop),
    Rule::new(
        "weaken wait_group",
        "one group fewer is waited for",
        "cp.async.wait_group",
        AddToLiteral { operand: 0, amount: 1 },
    ),
    Rule::new("drop commit_group", "copies join the next group", "cp.async.commit_group", Drop),
    Rule::new("drop proxy fence", "products do not see what was copied", "fence.proxy.async", Drop),
    Rule::new("drop wgmma fence", "registers are not ready for the product", "wgmma.fence", Drop),
    Rule::new("drop wgmma commit_group", "products join the next group", "wgmma.commit_group", Drop),
    Rule::new("drop wgmma wait_group", "accumulators are used before they are complete", "wgmma.wait_group", Drop),
    Rule::new(
        "weaken wgmma wait_group",
        "one group fewer is waited for",
        "wgmma.wait_group",
        AddToLiteral { operand: 0, amount: 1 },
    ),
    // Copies from global to shared memory.
    Rule::new("drop cp.async", "part of a tile is not copied", "cp.async.cg", Drop),
    Rule::new(
        "shift cp.async destination by 2",
        "wrong shared address",
        "cp.async.cg",
        ShiftAddress { operand: 0, bytes: 2 },
    ),
    Rule::new(
        "shift cp.async destination by 4",
        "wrong shared address",
        "cp.async.cg",
        ShiftAddress { operand: 0, bytes: 4 },
    ),
    Rule::new(
        "shift cp.async destination by 16",
        "wrong shared address",
        "cp.async.cg",
        ShiftAddress { operand: 0, bytes: 16 },
    ),
    Rule::new(
        "shift cp.async source by 2",
        "wrong global address",
        "cp.async.cg",
        ShiftAddress { operand: 1, bytes: 2 },
    ),
    Rule::new(
        "shift cp.async source by 16",
        "wrong global address",
        "cp.async.cg",
        ShiftAddress { operand: 1, bytes: 16 },
    ),
    Rule::new("zero-fill never", "rows beyond the end are read", "cp.async.cg", Operand { operand: 3, to: "16" }),
    Rule::new("zero-fill always", "rows are zeros", "cp.async.cg", Operand { operand: 3, to: "0" }),
    Rule::new("exchange stages", "the other stage", "shl.b32", Rewrite("xor.b32 %m, {1}, 1; {opcode} {0}, %m, {2};"))
        .when(Literal(2, 14)),
    Rule::new("exchange stages", "the other stage", "shl.b32", Rewrite("xor.b32 %m, {1}, 1; {opcode} {0}, %m, {2};"))
        .when(Literal(2, 15)),
    Rule::new("exchange stages", "the stage stays", "xor.b32", AddToLiteral { operand: 2, amount: -1 })
        .when(Literal(2, 1)),
    Rule::new("exchange tiles", "V for K, or a tile too far", "add.s32", AddToLiteral { operand: 2, amount: 8192 })
        .when(Multiple(2, 8192)),
    Rule::new("exchange tiles", "Q for K, or K for V", "add.s32", AddToLiteral { operand: 2, amount: -8192 })
        .when(Multiple(2, 8192)),
    // Shared memory.
    Rule::new(
        "flip swizzle bit",
        "the swizzle of another row",
        "xor.b32",
        Rewrite("xor.b32 %m, {2}, 1; {opcode} {0}, {1}, %m;"),
    ),
    Rule::new("drop swizzle", "no swizzle", "xor.b32", Rewrite("mov.b32 {0}, {1};")),
    Rule::new("shift ldmatrix by 2", "wrong shared address", "ldmatrix", ShiftAddress { operand: 1, bytes: 2 }),
    Rule::new("shift ldmatrix by 16", "wrong shared address", "ldmatrix", ShiftAddress { operand: 1, bytes: 16 }),
    Rule::new("transpose ldmatrix", "plain for transposed", "ldmatrix", Opcode { from: "trans", to: "" }),
    Rule::new(
        "transpose ldmatrix",
        "transposed for plain",
        "ldmatrix",
        Opcode { from: "x4.shared", to: "x4.trans.shared" },
    ),
    Rule::new(
        "exchange matrices",
        "registers in the wrong order",
        "ldmatrix",
        SwapElements { operand: 0, elements: [0, 1] },
    ),
    Rule::new(
        "exchange matrices",
        "registers in the wrong order",
        "ldmatrix",
        SwapElements { operand: 0, elements: [1, 2] },
    ),
    Rule::new("drop ldmatrix", "fragments of the step before", "ldmatrix", Drop),
    Rule::new("shift shared store by 4", "wrong shared address", "st.shared", ShiftAddress { operand: 0, bytes: 4 }),
    Rule::new("shift shared store by 16", "wrong shared address", "st.shared", ShiftAddress { operand: 0, bytes: 16 }),
    Rule::new("drop shared store", "a value is not exchanged", "st.shared", Drop),
    Rule::new("shift shared load by 4", "wrong shared address", "ld.shared", ShiftAddress { operand: 1, bytes: 4 }),
    Rule::new("shift shared load by 16", "wrong shared address", "ld.shared", ShiftAddress { operand: 1, bytes: 16 }),
    // Global memory.
    Rule::new("shift global store by 2", "wrong global address", "st.global", ShiftAddress { operand: 0, bytes: 2 }),
    Rule::new("shift global store by 4", "wrong global address", "st.global", ShiftAddress { operand: 0, bytes: 4 }),
    Rule::new("shift global store by 16", "wrong global address", "st.global", ShiftAddress { operand: 0, bytes: 16 }),
    Rule::new("drop global store", "a result is not written", "st.global", Drop),
    Rule::new("wrong parameter", "another field of the arguments", "ld.param", ShiftAddress { operand: 1, bytes: 8 }),
    Rule::new("wrong parameter", "another field of the arguments", "ld.param", ShiftAddress { operand: 1, bytes: -8 }),
    Rule::new("wrong parameter", "another field of the arguments", "ld.param", ShiftAddress { operand: 1, bytes: 32 }),
    // Matrix products.
    Rule::new("drop mma", "a product is not accumulated", "mma", Drop),
    Rule::new("exchange mma A", "wrong fragment", "mma", SwapElements { operand: 1, elements: [0, 1] }),
    Rule::new("exchange mma A", "wrong fragment", "mma", SwapElements { operand: 1, elements: [1, 2] }),
    Rule::new("exchange mma B", "wrong fragment", "mma", SwapElements { operand: 2, elements: [0, 1] }),
    Rule::new("exchange mma C", "wrong accumulator", "mma", SwapElements { operand: 3, elements: [0, 1] }),
    Rule::new("exchange mma D", "wrong accumulator", "mma", SwapElements { operand: 0, elements: [0, 2] }),
    Rule::new("drop wgmma", "a product is not accumulated", "wgmma.mma_async", Drop),
    Rule::new(
        "exchange wgmma D",
        "wrong accumulator",
        "wgmma.mma_async",
        SwapElements { operand: 0, elements: [0, 2] },
    ),
    Rule::new("exchange wgmma A", "wrong fragment", "wgmma.mma_async", SwapElements { operand: 1, elements: [0, 1] }),
    Rule::new("exchange wgmma A", "wrong fragment", "wgmma.mma_async", SwapElements { operand: 1, elements: [1, 2] }),
    Rule::new("exchange wgmma operands", "Q for K", "wgmma.mma_async", SwapOperands(1, 2)),
    Rule::new("negate wgmma A", "a wrong sign", "wgmma.mma_async", Operand { operand: 4, to: "-1" }),
    Rule::new(
        "transpose wgmma B",
        "plain for transposed",
        "wgmma.mma_async.sync.aligned.m64n64k16",
        FlipLiteral { operand: 6, bits: 1 },
    )
    .when(Literal(6, 1)),
    Rule::new("transpose wgmma B", "transposed for plain", "wgmma.mma_async", FlipLiteral { operand: 7, bits: 1 }),
    Rule::new("transpose wgmma A", "transposed for plain", "wgmma.mma_async", FlipLiteral { operand: 6, bits: 1 })
        .when(Literal(6, 0)),
    Rule::new("shift descriptor by 16", "wrong shared address", "add.s64", AddToLiteral { operand: 2, amount: 1 })
        .when(Descriptor),
    Rule::new("shift descriptor by 32", "another step along K", "add.s64", AddToLiteral { operand: 2, amount: 2 })
        .when(Descriptor),
    Rule::new("shift descriptor by 16", "wrong shared address", "or.b64", AddToLiteral { operand: 2, amount: 1 })
        .when(Descriptor),
    Rule::new("wrong descriptor stride", "half as far", "or.b64", FlipLiteral { operand: 2, bits: 96 << 32 })
        .when(Descriptor),
    Rule::new("wrong descriptor swizzle", "64 bytes", "or.b64", FlipLiteral { operand: 2, bits: (-1) << 62 })
        .when(Descriptor),
    Rule::new("wrong descriptor swizzle", "none", "or.b64", FlipLiteral { operand: 2, bits: 1 << 62 }).when(Descriptor),
    // Softmax.
    Rule::new("wrong shuffle mask", "lanes missing", "shfl", Operand { operand: 4, to: "0x7fffffff" }),
    Rule::new("wrong shuffle distance", "the wrong neighbour", "shfl", FlipLiteral { operand: 2, bits: 3 }),
    Rule::new("wrong shuffle distance", "the other half of the warp", "shfl", FlipLiteral { operand: 2, bits: 16 }),
    Rule::new("drop shuffle", "lanes are not combined", "shfl", Rewrite("mov.b32 {0}, {1};")),
    Rule::new("negate ex2 argument", "a wrong sign", "ex2", Rewrite("neg.f32 %m, {1}; {opcode} {0}, %m;")),
    Rule::new("max to min", "the wrong extremum", "max", Opcode { from: "max", to: "min" }),
    Rule::new("drop an operand of max", "a score is not seen", "max", Rewrite("mov.b32 {0}, {1};")),
    Rule::new("drop an operand of max", "a score is not seen", "max", Rewrite("mov.b32 {0}, {2};")),
    Rule::new("drop an operand of min", "a bound is not kept", "min", Rewrite("mov.b32 {0}, {1};")),
    Rule::new("drop an operand of min", "a bound is not kept", "min", Rewrite("mov.b32 {0}, {2};")),
    Rule::new("add to sub", "a wrong sign", "add.rn.f32", Opcode { from: "add", to: "sub" }),
    Rule::new("drop float addition", "a term is missing", "add.rn.f32", Rewrite("mov.b32 {0}, {1};")),
    Rule::new("drop float product", "no scaling", "mul.rn.f32", Rewrite("mov.b32 {0}, {1};")),
    Rule::new("drop fma", "no shift", "fma.rn.f32", Rewrite("mul.rn.f32 {0}, {1}, {2};")),
    Rule::new("exchange halves", "a pair in the wrong order", "cvt.rn.f16x2", SwapOperands(1, 2)),
    Rule::new("wrong initial value", "1 for 0", "mov.b32", Operand { operand: 1, to: "0f3F800000" })
        .when(Text(1, "0f00000000")),
    Rule::new("wrong initial value", "0 for −∞", "mov.b32", Operand { operand: 1, to: "0f00000000" })
        .when(Text(1, "0fFF800000")),
    Rule::new("wrong initial value", "0 for −∞", "mov.b32", Operand { operand: 1, to: "0" })
        .when(Literal(1, -8_388_608)),
    Rule::new("drop initial value", "a register is not set", "mov.b32", Drop),
    // Control flow and integer arithmetic.
    Rule::new("drop predicate", "always executed", "", DropPredicate),
    Rule::new("negate predicate", "executed when it should not be", "", NegatePredicate),
    Rule::new("one too many", "< to ≤", "setp.lt", Opcode { from: "lt", to: "le" }),
    Rule::new("one too many", "≥ to >", "setp.ge", Opcode { from: "ge", to: "gt" }),
    Rule::new("one too few", "≤ to <", "setp.le", Opcode { from: "le", to: "lt" }),
    Rule::new("one too few", "> to ≥", "setp.gt", Opcode { from: "gt", to: "ge" }),
    Rule::new("negate comparison", "= to ≠", "setp.eq", Opcode { from: "eq", to: "ne" }),
    Rule::new("negate comparison", "≠ to =", "setp.ne", Opcode { from: "ne", to: "eq" }),
    Rule::new("exchange selection", "the other of two values", "selp", SwapOperands(1, 2)),
    Rule::new("constant + 1", "off by one", "setp", AddToLiteral { operand: 2, amount: 1 }),
    Rule::new("constant + 1", "off by one", "add", AddToLiteral { operand: 2, amount: 1 }),
    Rule::new("constant - 1", "off by one", "add", AddToLiteral { operand: 2, amount: -1 }),
    Rule::new("constant + 1", "off by one", "and", AddToLiteral { operand: 2, amount: 1 }),
    Rule::new("constant - 1", "off by one", "or", AddToLiteral { operand: 2, amount: -1 }),
    Rule::new("shift one further", "twice as far", "shl", AddToLiteral { operand: 2, amount: 1 }),
    Rule::new("shift one further", "half as far", "shr", AddToLiteral { operand: 2, amount: 1 }),
    Rule::new("drop integer addition", "an offset is missing", "add.s32", Rewrite("mov.b32 {0}, {1};")),
    Rule::new("drop integer addition", "an offset is missing", "add.s64", Rewrite("mov.b64 {0}, {1};")),
    Rule::new("drop integer addition", "an offset is missing", "mad.lo.s64", Rewrite("mov.b64 {0}, {3};")),
];
