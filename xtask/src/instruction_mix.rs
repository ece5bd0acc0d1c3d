//! Number of instructions per class of an entry, in its PTX and in its SASS.

use std::collections::BTreeMap;

use ptx_text::lines::{entry_of_line, instruction, without_comment};

/// Classes of instructions, in display order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(usize);

impl Class {
    /// Every class.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CLASSES.len()).map(Self)
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        CLASSES[self.0].name
    }

    /// The first class with an opcode in `table`; the last class contains all others.
    fn of(opcode: &str, table: fn(&Members) -> &'static [&'static str]) -> Self {
        let belongs = |members: &Members| table(members).iter().any(|begin| begins_with(opcode, begin));
        Self(CLASSES.iter().position(belongs).unwrap_or(CLASSES.len() - 1))
    }
}

/// The first of the classes.
const MATRIX_PRODUCTS: Class = Class(0);

/// The opcodes of a class; one stands for itself with all modifiers.
struct Members {
    name: &'static str,
    ptx: &'static [&'static str],
    sass: &'static [&'static str],
}

/// The first match counts. Opcodes: PTX ISA, "Instruction Set"; CUDA Binary Utilities, "Instruction Set Reference".
const CLASSES: [Members; 16] = [
    Members { name: "matrix products", ptx: &["mma", "wgmma"], sass: &["HMMA", "HGMMA"] },
    Members { name: "matrix loads", ptx: &["ldmatrix"], sass: &["LDSM"] },
    Members { name: "asynchronous copies", ptx: &["cp.async.cg", "cp.async.ca"], sass: &["LDGSTS"] },
    Members { name: "groups of copies", ptx: &["cp.async"], sass: &["LDGDEPBAR", "DEPBAR"] },
    Members { name: "shared loads and stores", ptx: &["ld.shared", "st.shared"], sass: &["LDS", "STS"] },
    Members { name: "global loads and stores", ptx: &["ld.global", "st.global"], sass: &["LDG", "STG"] },
    Members { name: "reads of the argument", ptx: &["ld.param"], sass: &["LDC", "ULDC"] },
    Members { name: "exponentials, logarithms, reciprocals", ptx: &["ex2", "lg2", "rcp"], sass: &["MUFU"] },
    Members {
        name: "f32 arithmetic",
        ptx: &["fma", "add.rn", "sub.rn", "mul.rn", "max.f32", "neg.f32"],
        sass: &["FFMA", "FADD", "FMUL", "FMNMX"],
    },
    Members { name: "packing to fp16", ptx: &["cvt.rn.f16x2"], sass: &["F2FP"] },
    Members { name: "exchange between lanes", ptx: &["shfl"], sass: &["SHFL"] },
    Members { name: "barriers", ptx: &["bar", "barrier"], sass: &["BAR", "WARPSYNC"] },
    Members {
        name: "comparisons, selections, moves",
        ptx: &["setp", "selp", "mov"],
        sass: &[
            "ISETP", "UISETP", "FSETP", "PLOP3", "FSEL", "SEL", "USEL", "IMAD.MOV", "MOV", "UMOV", "CS2R", "S2R",
            "S2UR", "R2UR", "PRMT",
        ],
    },
    Members {
        name: "integers and addresses",
        ptx: &[
            "add", "sub", "mul", "mad", "div", "rem", "and", "or", "xor", "not", "shl", "shr", "bfe", "bfi", "min",
            "max", "cvt", "cvta",
        ],
        sass: &[
            "IMAD", "UIMAD", "IADD3", "UIADD3", "VIADD", "LEA", "ULEA", "LOP3", "ULOP3", "SHF", "USHF", "SGXT",
            "IMNMX", "VIMNMX", "I2F", "F2I",
        ],
    },
    Members { name: "control flow", ptx: &["bra", "ret"], sass: &["BRA", "EXIT", "BSSY", "BSYNC", "RET"] },
    Members { name: "others", ptx: &[], sass: &[] },
];

/// Whether `opcode` is `begin`, with or without further modifiers.
fn begins_with(opcode: &str, begin: &str) -> bool {
    opcode.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Instructions of each class.
pub type Mix = BTreeMap<Class, usize>;

/// Instruction counts of every entry of a PTX module.
pub fn of_ptx(text: &str) -> BTreeMap<String, Mix> {
    let mut mixes: BTreeMap<String, Mix> = BTreeMap::new();
    let mut entry = None;
    for line in text.lines() {
        let code = without_comment(line);
        entry = entry_of_line(code).map(str::to_owned).or(entry);
        let Some(entry) = &entry else { continue };
        let mix = mixes.entry(entry.clone()).or_default();
        for statement in code.split_inclusive(';').filter(|statement| statement.ends_with(';')) {
            let statement = statement.trim_end_matches(';').trim_start_matches(['{', '}', ' ', '\t']);
            match instruction(statement) {
                Some((opcode, _)) if !opcode.starts_with('.') => {
                    *mix.entry(Class::of(opcode, |members| members.ptx)).or_default() += 1;
                }
                _ => {}
            }
        }
    }
    mixes
}

/// The instructions of one entry in SASS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sass {
    /// Of the whole entry.
    pub all: Mix,
    /// Of the main loop: the smallest loop with matrix products and exponentials, or with products only if no loop has both.
    pub main_loop: Mix,
}

/// Instruction counts of every entry in the output of nvdisasm, without trailing NOPs.
pub fn of_sass(listing: &str) -> BTreeMap<String, Sass> {
    let mut entries: BTreeMap<String, SassText> = BTreeMap::new();
    let mut entry = None;
    for line in listing.lines() {
        if let Some(name) = line.strip_prefix(".text.").and_then(|rest| rest.strip_suffix(':')) {
            entry = Some(name.to_owned());
        }
        if let Some(entry) = &entry {
            entries.entry(entry.clone()).or_default().line(line);
        }
    }
    entries.into_iter().map(|(name, text)| (name, text.sass())).collect()
}

/// Code of an entry during parsing.
#[derive(Default)]
struct SassText<'a> {
    opcodes: Vec<&'a str>,
    /// Index of the instruction behind each label.
    labels: BTreeMap<&'a str, usize>,
    /// First and last instruction of each loop, given by a backward branch.
    loops: Vec<(usize, usize)>,
}

impl<'a> SassText<'a> {
    fn line(&mut self, line: &'a str) {
        if let Some(label) = line.strip_suffix(':') {
            self.labels.insert(label, self.opcodes.len());
        }
        let Some((opcode, operands)) = sass_instruction(line) else { return };
        self.opcodes.push(opcode);
        // `BRA `(.L_x_0)
        let target = operands.split_once("`(").and_then(|(_, label)| label.split_once(')'));
        if let Some(&begin) = target.and_then(|(label, _)| self.labels.get(label)) {
            self.loops.push((begin, self.opcodes.len() - 1));
        }
    }

    fn sass(&self) -> Sass {
        let mix = |opcodes: &[&str]| {
            opcodes.iter().fold(Mix::new(), |mut mix, opcode| {
                *mix.entry(Class::of(opcode, |members| members.sass)).or_default() += 1;
                mix
            })
        };
        let loops = self.loops.iter().map(|&(begin, end)| &self.opcodes[begin..=end]);
        let with_products = loops.map(mix).filter(|mix| mix.contains_key(&MATRIX_PRODUCTS));
        let exponentials = Class::of("MUFU", |members| members.sass);
        let main_loop = with_products.min_by_key(|mix| (!mix.contains_key(&exponentials), mix.values().sum::<usize>()));
        Sass { all: mix(&self.opcodes), main_loop: main_loop.unwrap_or_default() }
    }
}

/// Opcode and operands of `/*0040*/ @!P0 FADD.FTZ R1, R2, R3 ;`.
fn sass_instruction(line: &str) -> Option<(&str, &str)> {
    let (_, code) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let mut code = code.trim_start();
    if code.starts_with('@') {
        code = code.split_once(' ')?.1.trim_start();
    }
    let (opcode, operands) = code.split_once([' ', ';'])?;
    (opcode != "NOP").then_some((opcode, operands))
}

#[cfg(test)]
mod tests {
    use super::{Class, Mix, of_ptx, of_sass};

    fn named(mix: &Mix) -> Vec<(&'static str, usize)> {
        mix.iter().map(|(class, count)| (class.name(), *count)).collect()
    }

    /// A loop around one with a matrix product, and the endless one behind the end.
    const LISTING: &str = "\
	.section	.text.one,\"ax\",@progbits
.text.one:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/              @!P0 IMAD.MOV.U32 R2, RZ, RZ, RZ ;
.L_x_2:
        /*0020*/                   IMAD.WIDE.U32 R2, R3, R4, R6 ;
        /*0030*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0040*/               @P0 BRA `(.L_x_2) ;
        /*0050*/               @P1 BRA `(.L_x_1) ;
.L_x_0:
        /*0060*/                   BRA `(.L_x_0);
        /*0070*/                   NOP;
";

    #[test]
    fn ptx_instructions_are_counted_whatever_surrounds_them() {
        let ptx = "\
.visible .entry one(
	.param .align 8 .b8 one_param_0[152]
)
.reqntid 128, 1, 1
{
	.reg .b32 	%r<4>;
	.loc	1 37 22
	// begin inline asm
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2}, {%r1}, {%r2}, {%f1, %f2};
	// end inline asm
$L__BB0_1: @%p1 bra 	$L__BB0_1;
	{ .reg .pred p; setp.ne.u32 p, %r1, 0; @!p add.rn.f32 %f1, %f1, %f2; }
	cp.async.cg.shared.global [%r1], [%rd1], 16;
	cp.async.wait_group 0;
	frobnicate;
	ret;
}
.visible .entry two()
{
	ret;
}
";
        let mixes = of_ptx(ptx);
        let expected = [
            ("matrix products", 1),
            ("asynchronous copies", 1),
            ("groups of copies", 1),
            ("f32 arithmetic", 1),
            ("comparisons, selections, moves", 1),
            ("control flow", 2),
            ("others", 1),
        ];
        assert_eq!(named(&mixes["one"]), expected);
        assert_eq!(named(&mixes["two"]), [("control flow", 1)]);
    }

    #[test]
    fn sass_instructions_are_counted_without_padding() {
        let entry = &of_sass(LISTING)["one"];
        let expected = [
            ("matrix products", 1),
            ("reads of the argument", 1),
            ("comparisons, selections, moves", 1),
            ("integers and addresses", 1),
            ("control flow", 3),
        ];
        assert_eq!(named(&entry.all), expected);
    }

    #[test]
    fn the_main_loop_is_the_smallest_with_matrix_products() {
        let expected = [("matrix products", 1), ("integers and addresses", 1), ("control flow", 1)];
        assert_eq!(named(&of_sass(LISTING)["one"].main_loop), expected);
    }

    #[test]
    fn a_smaller_loop_without_exponentials_is_not_the_main_loop() {
        let listing = LISTING.replace("IMAD.MOV.U32 R2, RZ, RZ, RZ", "MUFU.EX2 R2, R2");
        let main_loop = &of_sass(&listing)["one"].main_loop;
        assert_eq!(named(main_loop)[1], ("exponentials, logarithms, reciprocals", 1));
    }

    #[test]
    fn an_opcode_is_not_taken_for_a_longer_one() {
        let sass = |opcode: &str| Class::of(opcode, |members| members.sass).name();
        assert_eq!(
            [sass("LDS.128"), sass("LDSM.16.M88.4"), sass("LDGSTS.E")],
            ["shared loads and stores", "matrix loads", "asynchronous copies"]
        );
    }
}
