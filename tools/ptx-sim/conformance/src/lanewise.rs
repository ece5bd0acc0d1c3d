//! Forms whose results in a thread depend on that thread's operands alone.

use ptx_sim::expand_forms;

use crate::case::{Case, Column, Columns};
use crate::kernel::Kernel;
use crate::rule::Rule;
use crate::values::{Domain, Values, bits};

/// Threads of a form with an exact result.
const EXACT_THREADS: usize = 64;
/// Threads of a form whose result is an approximation.
const APPROXIMATE_THREADS: usize = 256;
/// The types that modifiers of an instruction can be.
pub const TYPES: [&str; 21] = [
    "pred", "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "f16x2",
    "f32", "f32x2", "f64", "bf16", "bf16x2",
];

/// A row of a table: forms that take the same operands.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Opcode and modifiers, with alternatives in braces: all of them, or those by which forms are told from others.
    pub form: &'static str,
    /// `results = operands`: types, where `T` and `U` are the first and second type of the form and `W` is twice as wide
    /// as `T`; `type:domain` restricts an operand, `#text` is an operand in the text.
    pub types: &'static str,
    /// The instructions, if more than `form results, operands;`: `$` is the form, `$T` its first type, `d0` … the results,
    /// `a0` … the operands.
    pub code: &'static str,
    /// How the results are compared.
    pub rule: Rule,
}

/// A row with a defined result.
pub const fn exact(form: &'static str, types: &'static str) -> Row {
    Row { form, types, code: "", rule: Rule::Exact }
}

/// A row with a defined result and instructions of its own.
pub const fn sequence(form: &'static str, types: &'static str, code: &'static str) -> Row {
    Row { form, types, code, rule: Rule::Exact }
}

/// An operand or result as a row has it.
struct Operand {
    kind: String,
    domain: Domain,
}

/// What a form takes.
struct Signature {
    results: Vec<Operand>,
    operands: Vec<Operand>,
    /// Operands in the text.
    literals: Vec<&'static str>,
}

impl Row {
    /// A case for each form that the row's pattern stands for.
    pub fn cases(&self) -> Vec<Case> {
        expand_forms(self.form).iter().map(|form| self.case(form)).collect()
    }

    /// The operands that a form has; `None` when its types do not fit the row.
    fn signature(&self, form: &str) -> Option<Signature> {
        let (results, operands) = self.types.split_once('=')?;
        let (literals, operands): (Vec<&'static str>, Vec<&'static str>) =
            operands.split_whitespace().partition(|token| token.starts_with('#'));
        Some(Signature {
            results: results.split_whitespace().map(|token| parse(token, form)).collect::<Option<_>>()?,
            operands: operands.into_iter().map(|token| parse(token, form)).collect::<Option<_>>()?,
            literals: literals.into_iter().map(|token| &token[1..]).collect(),
        })
    }

    /// Whether a form has the opcode and the modifiers of the row.
    pub fn describes(&self, form: &str) -> bool {
        let parts: Vec<&str> = form.split('.').collect();
        expand_forms(self.form).iter().any(|selector| {
            let (opcode, mut modifiers) = selector
                .split_once('.')
                .map_or((selector.as_str(), "".split('.')), |(opcode, rest)| (opcode, rest.split('.')));
            parts[0] == opcode && modifiers.all(|modifier| modifier.is_empty() || parts.contains(&modifier))
        })
    }

    /// The case of a form that the row describes.
    pub fn case(&self, form: &str) -> Case {
        let signature = self.signature(form);
        let signature = signature.unwrap_or_else(|| panic!("`{}` does not fit `{form}`", self.types));
        let name = [&[form], signature.literals.as_slice()].concat().join(" ");
        self.case_of(form, name, signature)
    }

    /// A case of NaN and infinities in all operands, for forms whose first operand is `f64`, and conversions to `tf32`: these
    /// types have more edges than a case has threads, and NaN are the last of them.
    pub fn special_case(&self, form: &str) -> Option<Case> {
        let mut signature = self.signature(form)?;
        let first = signature.operands.first().map(|operand| operand.kind.as_str());
        if !(first == Some("f64") || form.contains(".tf32.")) {
            return None;
        }
        signature.operands.iter_mut().for_each(|operand| operand.domain = Domain::Special);
        Some(self.case_of(form, format!("{form} of NaN"), signature))
    }

    fn case_of(&self, form: &str, name: String, signature: Signature) -> Case {
        let Signature { results, operands, literals } = signature;
        let threads = if self.rule == Rule::Exact { EXACT_THREADS } else { APPROXIMATE_THREADS };
        let (columns, input) = columns(&name, &results, &operands, threads);
        let body = format!(
            "{}{}{}\n{}",
            declare(&columns.results),
            load(&columns.operands),
            self.instructions(form, results.len(), operands.len(), &literals),
            store(&columns.results)
        );
        let output = columns.results.iter().map(|column| column.bytes * threads).sum();
        Kernel::new(name, body)
            .threads(threads as u32)
            .input(input)
            .output(output)
            .rule(self.rule)
            .columns(columns)
            .finish()
    }

    fn instructions(&self, form: &str, results: usize, operands: usize, literals: &[&str]) -> String {
        if !self.code.is_empty() {
            let first = type_of(form, 0).unwrap_or_default();
            return self.code.replace("$T", &first).replace('$', form);
        }
        let names = (0..results).map(|index| format!("d{index}")).chain((0..operands).map(|index| format!("a{index}")));
        let names: Vec<String> = names.chain(literals.iter().map(|literal| (*literal).to_owned())).collect();
        format!("{form} {};", names.join(", "))
    }
}

/// The `index`-th type among the modifiers of a form.
fn type_of(form: &str, index: usize) -> Option<String> {
    form.split('.').skip(1).filter(|modifier| TYPES.contains(modifier)).nth(index).map(str::to_owned)
}

/// An operand or result; `None` when the form lacks the type it refers to.
fn parse(token: &str, form: &str) -> Option<Operand> {
    let (kind, domain) = match token.split_once(':') {
        None => (token, Domain::Any),
        Some((kind, domain)) => (kind, Domain::parse(domain)?),
    };
    let kind = match kind {
        "T" => type_of(form, 0)?,
        "U" => type_of(form, 1)?,
        "W" => {
            let narrow = type_of(form, 0)?;
            let letter = narrow.chars().next().filter(|_| !narrow.contains('f') && bits(&narrow) <= 32)?;
            format!("{letter}{}", 2 * bits(&narrow))
        }
        other => other.to_owned(),
    };
    Some(Operand { kind, domain })
}

/// Bytes that a value of a type takes in a buffer. Types of 8 bits live in registers of 32, whose other bits count too.
fn width(kind: &str) -> usize {
    match bits(kind) {
        1 => 1,
        8 => 4,
        bits => bits as usize / 8,
    }
}

fn columns(name: &str, results: &[Operand], operands: &[Operand], threads: usize) -> (Columns, Vec<u8>) {
    let place = |list: &[Operand]| {
        // The widest first, so that all are aligned.
        let mut order: Vec<usize> = (0..list.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(width(&list[*index].kind)));
        let mut columns = vec![None; list.len()];
        let mut offset = 0;
        for index in order {
            let bytes = width(&list[index].kind);
            columns[index] = Some(Column { kind: list[index].kind.clone(), offset, bytes });
            offset += bytes * threads;
        }
        (columns.into_iter().flatten().collect::<Vec<_>>(), offset)
    };
    let (operand_columns, input_bytes) = place(operands);
    let (result_columns, _) = place(results);
    let mut input = vec![0; input_bytes.max(1)];
    let mut values = Values::of(name);
    let kinds: Vec<(String, Domain)> = operands
        .iter()
        .map(|operand| {
            let kind = if bits(&operand.kind) == 8 { "b32".to_owned() } else { operand.kind.clone() };
            (kind, operand.domain)
        })
        .collect();
    for thread in 0..threads {
        for (column, value) in operand_columns.iter().zip(values.operands(thread, &kinds)) {
            let start = column.offset + thread * column.bytes;
            input[start..start + column.bytes].copy_from_slice(&value.to_le_bytes()[..column.bytes]);
        }
    }
    (Columns { operands: operand_columns, results: result_columns }, input)
}

/// Loads the operands to `a0`, `a1` …
fn load(columns: &[Column]) -> String {
    let mut text = String::new();
    for (index, column) in columns.iter().enumerate() {
        let Column { kind, offset, bytes } = column;
        let bits = 8 * bytes;
        text.push_str(&format!("mad.wide.u32 %rd0, %thread, {bytes}, %input;\n"));
        text.push_str(&match kind.as_str() {
            "pred" => {
                format!(".reg .pred a{index};\nld.global.u8 %r0, [%rd0+{offset}];\nsetp.ne.u32 a{index}, %r0, 0;\n")
            }
            _ => format!(".reg .b{bits} a{index};\nld.global.b{bits} a{index}, [%rd0+{offset}];\n"),
        });
    }
    text
}

/// Declares the results `d0`, `d1` …
fn declare(columns: &[Column]) -> String {
    let declare = |(index, column): (usize, &Column)| match column.kind.as_str() {
        "pred" => format!(".reg .pred d{index};\n"),
        _ => format!(".reg .b{} d{index};\n", 8 * column.bytes),
    };
    columns.iter().enumerate().map(declare).collect()
}

/// Stores the results.
fn store(columns: &[Column]) -> String {
    let mut text = String::new();
    for (index, column) in columns.iter().enumerate() {
        let Column { kind, offset, bytes } = column;
        let bits = 8 * bytes;
        text.push_str(&format!("mad.wide.u32 %rd0, %thread, {bytes}, %output;\n"));
        text.push_str(&match kind.as_str() {
            "pred" => format!("selp.u32 %r0, 1, 0, d{index};\nst.global.u8 [%rd0+{offset}], %r0;\n"),
            _ => format!("st.global.b{bits} [%rd0+{offset}], d{index};\n"),
        });
    }
    text
}
