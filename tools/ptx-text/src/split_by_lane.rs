//! Loops that LLVM may write twice, once for some lanes and once for the others.
//!
//! A branch on a condition that does not change in a loop can be taken before it: LLVM then copies the loop into both arms (loop
//! unswitching). If the condition depends on the lane, the lanes of a warp go through different copies, and a collective in the
//! loop waits for the others. LLVM does not split a loop with a barrier that it knows to be convergent, and knows nothing of one in
//! assembly. rustc does not split a loop where LLVM 7 does: this finds the loops in rustc's PTX.
//!
//! Which loop a block is in, LLVM says in comments:
//!
//! ```text
//! $L__BB0_25:     //   Parent Loop BB0_18 Depth=1
//!                 // =>  This Inner Loop Header: Depth=2
//! // %bb.26:      //   in Loop: Header=BB0_25 Depth=2
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::collectives::collective;
use crate::lines::{Files, entry_of_line, instruction, location, source, source_files, without_comment};

/// Bits of a number that depend on the lane.
type LaneBits = u32;

/// The bits of a thread index that are the index of its lane.
const LANE: LaneBits = 31;
/// A number of which nothing is known.
const ALL: LaneBits = LaneBits::MAX;

/// LLVM 7 splits loops of up to 100 of its instructions; this many of PTX are surely more.
const LARGEST: usize = 200;

/// A branch by which a loop may be split, with the collective that it would copy, for a message.
pub fn splits(ptx: &str) -> Vec<String> {
    let files = source_files(ptx);
    let mut entries = Vec::new();
    for line in ptx.lines() {
        if let Some(name) = entry_of_line(without_comment(line)) {
            entries.push(Entry::new(name));
        }
        if let Some(entry) = entries.last_mut() {
            entry.line(line, &files);
        }
    }
    entries.iter().flat_map(Entry::splits).collect()
}

/// An instruction, or the assembly between two comments of LLVM.
struct Statement<'a> {
    opcode: &'a str,
    written: Vec<&'a str>,
    read: Vec<&'a str>,
    /// The last operand, if that is a number.
    number: Option<u32>,
    in_assembly: bool,
    /// Innermost loop.
    header: Option<&'a str>,
}

/// A conditional branch.
struct Branch<'a> {
    predicate: &'a str,
    header: Option<&'a str>,
    place: String,
}

struct Entry<'a> {
    name: &'a str,
    statements: Vec<Statement<'a>>,
    branches: Vec<Branch<'a>>,
    /// The loop around each loop.
    parents: BTreeMap<&'a str, &'a str>,
    /// The collectives in assembly of each loop, without those of loops in it.
    collectives: BTreeMap<&'a str, String>,
    /// The loops with a convergent barrier, likewise.
    convergent: BTreeSet<&'a str>,
    header: Option<&'a str>,
    block: Option<&'a str>,
    in_assembly: bool,
    place: String,
}

impl<'a> Entry<'a> {
    fn new(name: &'a str) -> Self {
        Self {
            name,
            statements: Vec::new(),
            branches: Vec::new(),
            parents: BTreeMap::new(),
            collectives: BTreeMap::new(),
            convergent: BTreeSet::new(),
            header: None,
            block: None,
            in_assembly: false,
            place: String::new(),
        }
    }

    fn line(&mut self, line: &'a str, files: &Files<'_>) {
        if let Some(operands) = location(line) {
            self.place = source(operands, files).unwrap_or_default();
            return;
        }
        let (code, comment) = line.split_once("//").unwrap_or((line, ""));
        let (code, comment) = (code.trim(), comment.trim());
        match comment {
            "begin inline asm" => self.in_assembly = true,
            "end inline asm" => self.in_assembly = false,
            _ if self.in_assembly => self.written_by_comment(comment),
            _ => self.structure(code, comment),
        }
        code.split([';', '{', '}']).for_each(|statement| self.statement(statement.trim()));
    }

    /// What labels and comments say of blocks and loops.
    fn structure(&mut self, code: &'a str, comment: &'a str) {
        let label = code.strip_prefix("$L__").and_then(|rest| rest.strip_suffix(':'));
        let label = label.filter(|label| label.starts_with("BB"));
        if label.is_some() || comment.starts_with("%bb.") {
            (self.block, self.header) = (label, None);
        }
        let named = |prefix: &str| comment.split_once(prefix).and_then(|(_, rest)| rest.split_whitespace().next());
        if let Some(header) = named("in Loop: Header=") {
            self.header = Some(header);
        } else if let (Some(block), Some(parent)) = (self.block, named("Parent Loop ")) {
            // The last is the innermost.
            self.parents.insert(block, parent);
        }
        if comment.contains("Loop Header: Depth=") {
            self.header = self.block;
        }
    }

    /// A comment in assembly names registers that LLVM takes as written.
    fn written_by_comment(&mut self, comment: &'a str) {
        let written = registers(comment).collect();
        self.push(Statement { opcode: "", written, read: Vec::new(), number: None, in_assembly: true, header: None });
    }

    fn push(&mut self, statement: Statement<'a>) {
        self.statements.push(Statement { header: self.header, ..statement });
    }

    fn statement(&mut self, statement: &'a str) {
        let Some((opcode, operands)) = instruction(statement) else { return };
        if opcode.starts_with('.') {
            return;
        }
        let predicate = statement.strip_prefix('@').map(|rest| rest.trim_start_matches('!'));
        let predicate = predicate.and_then(|rest| rest.split_whitespace().next());
        if let Some(predicate) = predicate.filter(|_| opcode.starts_with("bra")) {
            self.branches.push(Branch { predicate, header: self.header, place: self.place.clone() });
        }
        if let Some(header) = self.header {
            if is_convergent(opcode, operands) {
                self.convergent.insert(header);
            } else if let Some(collective) = collective(opcode).filter(|_| self.in_assembly) {
                self.collectives.entry(header).or_insert_with(|| format!("`{collective}` from {}", self.place));
            }
        }
        let stores = ["st.", "red.", "bar.", "cp.", "mbarrier.arrive", "prefetch", "bra", "ret", "exit"];
        let all: Vec<&str> = operands.split(',').collect();
        let first = if operands.trim_start().starts_with('{') {
            operands.split_inclusive('}').next().unwrap_or_default()
        } else {
            all.first().copied().unwrap_or_default()
        };
        let writes = !stores.iter().any(|store| opcode.starts_with(store));
        let (written, read) = if writes { operands.split_at(first.len()) } else { ("", operands) };
        self.push(Statement {
            opcode,
            written: registers(written).collect(),
            read: words(read).chain(predicate).collect(),
            number: all.last().and_then(|last| number(last.trim())),
            in_assembly: self.in_assembly,
            header: None,
        });
    }

    fn splits(&self) -> Vec<String> {
        let lanes = self.lanes();
        let mut messages = BTreeSet::new();
        for (header, collective) in self.loops() {
            for branch in &self.branches {
                let is_in = branch.header.is_some_and(|inner| self.is_within(inner, header));
                let depends = lanes.get(branch.predicate).is_some_and(|bits| *bits != 0);
                if is_in && depends && self.is_constant(branch.predicate, header, 0) {
                    messages.insert(format!(
                        "entry {}: a branch from {} does not change in a loop with {collective}",
                        self.name, branch.place
                    ));
                }
            }
        }
        messages.into_iter().collect()
    }

    /// The loops that may be split, with a collective of each.
    fn loops(&self) -> BTreeMap<&'a str, &str> {
        let mut loops = BTreeMap::new();
        for (inner, collective) in &self.collectives {
            let mut around = Some(*inner);
            while let Some(header) = around {
                if self.size(header) <= LARGEST
                    && !self.convergent.iter().any(|barrier| self.is_within(barrier, header))
                {
                    loops.insert(header, collective.as_str());
                }
                around = self.parents.get(header).copied();
            }
        }
        loops
    }

    /// Number of instructions of a loop.
    fn size(&self, header: &str) -> usize {
        let headers = self.statements.iter().filter_map(|statement| statement.header);
        headers.filter(|inner| self.is_within(inner, header)).count()
    }

    fn is_within(&self, inner: &str, header: &str) -> bool {
        let mut inner = Some(inner);
        while let Some(current) = inner {
            if current == header {
                return true;
            }
            inner = self.parents.get(current).copied();
        }
        false
    }

    /// Whether a register has the same value throughout the loop.
    fn is_constant(&self, register: &str, header: &str, depth: usize) -> bool {
        let is_in = |statement: &&Statement<'_>| statement.header.is_some_and(|inner| self.is_within(inner, header));
        let written = self.statements.iter().filter(|statement| statement.written.contains(&register));
        let written: Vec<&Statement<'_>> = written.filter(is_in).collect();
        match written[..] {
            [] => true,
            [one] => {
                let is_function = !one.in_assembly && !one.opcode.starts_with("ld.") && !one.opcode.starts_with("atom");
                let read = || one.read.iter().filter(|word| word.starts_with('%'));
                is_function && depth < 8 && read().all(|source| self.is_constant(source, header, depth + 1))
            }
            _ => false,
        }
    }

    /// The bits of each register that depend on the lane.
    fn lanes(&self) -> HashMap<&'a str, LaneBits> {
        let mut lanes: HashMap<&str, LaneBits> = HashMap::from([("%tid.x", LANE), ("%laneid", LANE)]);
        loop {
            let mut changed = false;
            for statement in &self.statements {
                let bits = statement.bits(&lanes);
                for register in statement.written.iter().filter(|_| bits != 0) {
                    let known = lanes.entry(register).or_default();
                    changed |= *known | bits != *known;
                    *known |= bits;
                }
            }
            if !changed {
                return lanes;
            }
        }
    }
}

impl Statement<'_> {
    /// The bits of its result that depend on the lane, from those of its operands.
    fn bits(&self, lanes: &HashMap<&str, LaneBits>) -> LaneBits {
        let of = |word: &&str| lanes.get(*word).copied().unwrap_or(0);
        let read = self.read.iter().map(of).fold(0, |all, bits| all | bits);
        let parts: Vec<&str> = self.opcode.split('.').collect();
        let comparison = parts.get(1).copied().unwrap_or_default();
        match (parts[0], self.number) {
            ("elect", _) => ALL,
            ("vote" | "redux" | "activemask", _) => 0,
            ("shfl", _) if parts.contains(&"idx") => 0,
            ("mov" | "cvt" | "cvta" | "or" | "xor" | "not", _) => read,
            ("and", Some(mask)) => read & mask,
            ("shr", Some(by)) => read.checked_shr(by).unwrap_or(0),
            ("shl", Some(by)) => read.checked_shl(by).unwrap_or(0),
            // Whole warps are on either side of a multiple of 32.
            ("setp", Some(limit)) if read & !LANE == 0 && is_between_warps(comparison, limit) => 0,
            // Carries.
            ("add" | "sub" | "mul" | "mad", _) if read != 0 => ALL << read.trailing_zeros(),
            _ if read != 0 => ALL,
            _ => 0,
        }
    }
}

/// Whether it is a barrier that LLVM knows to be convergent by either code generator.
fn is_convergent(opcode: &str, operands: &str) -> bool {
    opcode == "bar.warp.sync" || (opcode, operands.trim()) == ("bar.sync", "0")
}

/// Whether the comparison with `limit` is the same for all lanes of a warp.
fn is_between_warps(comparison: &str, limit: u32) -> bool {
    match comparison {
        "lt" | "ge" => limit.is_multiple_of(LANE + 1),
        "le" | "gt" => limit % (LANE + 1) == LANE,
        _ => false,
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_in_word = |character: char| character.is_ascii_alphanumeric() || "%_.$".contains(character);
    text.split(move |character| !is_in_word(character)).filter(|word| !word.is_empty())
}

fn registers(text: &str) -> impl Iterator<Item = &str> {
    words(text).filter(|word| word.starts_with('%'))
}

fn number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x");
    let parsed = digits.map_or_else(|| text.parse::<i64>(), |digits| i64::from_str_radix(digits, 16));
    parsed.ok().map(|number| number as u32)
}

#[cfg(test)]
mod tests {
    use super::splits;

    /// An entry whose lane 0 arrives in a loop with a barrier in assembly, with `condition` before the branch and `more` in the loop.
    fn idle_tiles(outside: &str, inside: &str, more: &str) -> String {
        format!(
            ".visible .entry one(\n)\n{{\n\t.reg .pred %p<9>;\n\t// begin inline asm\n\tmov.u32 %r1, %tid.x;\n\t// end inline asm\n\
             {outside}$L__BB0_1:                             // =>This Inner Loop Header: Depth=1\n\
             \t.loc\t1 73 5\n\t// begin inline asm\n\tbar.sync %r9, 256;\n\t// end inline asm\n{inside}\
             \t.loc\t1 115 20\n\t@%p1 bra \t$L__BB0_3;\n// %bb.2:                                //   in Loop: Header=BB0_1 Depth=1\n\
             \t// begin inline asm\n\tmbarrier.arrive.shared::cta.b64 _, [%r8];\n\t// end inline asm\n{more}\
             $L__BB0_3:                              //   in Loop: Header=BB0_1 Depth=1\n\tadd.s32 \t%r7, %r7, -1;\n\
             \tsetp.ne.b32 \t%p2, %r7, 0;\n\t@%p2 bra \t$L__BB0_1;\n// %bb.4:\n\tret;\n}}\n\t.file\t1 \"streamed.rs\"\n"
        )
    }

    const LANE: &str = "\tand.b32 \t%r2, %r1, 31;\n";
    const IS_FIRST: &str = "\tsetp.ne.b32 \t%p1, %r2, 0;\n";

    #[test]
    fn a_loop_that_lanes_may_go_through_apart_is_named() {
        let expected =
            "entry one: a branch from streamed.rs:115 does not change in a loop with `bar.sync` from streamed.rs:73";
        for (outside, inside) in [([LANE, IS_FIRST].concat(), ""), (LANE.into(), IS_FIRST)] {
            assert_eq!(splits(&idle_tiles(&outside, inside, "")), [expected], "{outside}{inside}");
        }
    }

    #[test]
    fn a_condition_that_is_hidden_in_the_loop_cannot_split_it() {
        let hidden = "\tmov.b32 \t%r3, %r2;\n\t// begin inline asm\n\t// again: %r3\n\t// end inline asm\n\tsetp.ne.b32 \t%p1, %r3, 0;\n";
        assert!(splits(&idle_tiles(LANE, hidden, "")).is_empty());
    }

    #[test]
    fn whole_warps_may_go_apart() {
        for condition in [
            "\tshr.u32 \t%r2, %r1, 5;\n\tsetp.ne.b32 \t%p1, %r2, 0;\n",
            "\tand.b32 \t%r2, %r1, 96;\n\tsetp.ne.b32 \t%p1, %r2, 0;\n",
            "\tsetp.gt.u32 \t%p1, %r1, 31;\n",
            "\tsetp.lt.u32 \t%p1, %r1, 128;\n",
        ] {
            assert!(splits(&idle_tiles(condition, "", "")).is_empty(), "{condition}");
        }
        assert_eq!(splits(&idle_tiles("\tsetp.lt.u32 \t%p1, %r1, 16;\n", "", "")).len(), 1);
    }

    #[test]
    fn a_barrier_that_llvm_knows_keeps_a_loop_together() {
        let outside = [LANE, IS_FIRST].concat();
        assert!(splits(&idle_tiles(&outside, "", "\tbar.warp.sync \t-1;\n")).is_empty());
        assert!(splits(&idle_tiles(&outside, "", "\tbar.sync \t0;\n")).is_empty());
    }

    #[test]
    fn large_loops_are_not_split() {
        let outside = [LANE, IS_FIRST].concat();
        assert!(splits(&idle_tiles(&outside, "", &"\tadd.s32 \t%r5, %r5, 1;\n".repeat(200))).is_empty());
    }
}
