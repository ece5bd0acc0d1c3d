//! Use of an entry's parameters, inferred from its text: which are addresses, and of what type.

use std::collections::HashMap;

use crate::parse::{Base, Entry, Instruction, Operand, Statement, Type};

/// Use of a parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Whether it is used as an address of global memory. An address that undergoes arithmetic before its first use may
    /// be missed.
    pub is_address: bool,
    /// Whether it is used at all.
    pub is_used: bool,
    /// Type of the first access through it, or of the parameter itself if it is not an address; for example `f32`.
    pub element: String,
    /// Whether anything is read through it.
    pub is_read: bool,
}

/// Instructions whose result is an address if one of their operands is.
const CARRIERS: [&str; 5] = ["mov", "add", "mad", "cvta", "sub"];

/// The use of each parameter of `entry`.
pub(crate) fn uses(entry: &Entry) -> Vec<Use> {
    let name = |kind: Type| kind.to_string().trim_start_matches('.').to_owned();
    let unused = entry.parameters.iter().map(|parameter| Use { element: name(parameter.element), ..Use::default() });
    let mut uses: Vec<Use> = unused.collect();
    // Registers that hold a parameter, or an address derived from one.
    let mut held: HashMap<&str, usize> = HashMap::new();
    for instruction in entry.body.iter().filter_map(instruction) {
        let has = |modifier: &str| instruction.modifiers.iter().any(|own| own == modifier);
        match instruction.opcode.as_str() {
            "ld" if has("param") => {
                let loaded = bases(instruction).filter_map(|(base, _)| parameter_called(entry, base));
                loaded.for_each(|parameter| uses[parameter].is_used = true);
                if let Some((register, parameter)) = whole_parameter(entry, instruction) {
                    held.insert(register, parameter);
                }
            }
            "ld" | "ldu" | "st" | "atom" | "red" | "cp" | "prefetch" if !has("shared") && !has("local") => {
                for (base, position) in bases(instruction) {
                    let Some(parameter) = held.get(base) else { continue };
                    let element = instruction.modifiers.iter().rev().find_map(|own| Type::parse(own));
                    let own = &mut uses[*parameter];
                    if !own.is_address {
                        own.element = element.map_or("b8".to_owned(), name);
                    }
                    own.is_address = true;
                    // The second operand of a copy is its source.
                    own.is_read |= instruction.opcode != "st" && (instruction.opcode != "cp" || position > 0);
                }
            }
            opcode if CARRIERS.contains(&opcode) && !has("lo") && !has("hi") => {
                let [Operand::Name(result), operands @ ..] = instruction.operands.as_slice() else { continue };
                let source = operands.iter().find_map(|operand| match operand {
                    Operand::Name(name) => held.get(name.as_str()).copied(),
                    _ => None,
                });
                if let Some(parameter) = source.filter(|parameter| entry.parameters[*parameter].bytes == Some(8)) {
                    held.insert(result, parameter);
                }
            }
            _ => {}
        }
    }
    uses
}

fn instruction(statement: &Statement) -> Option<&Instruction> {
    match statement {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    }
}

/// The register and the parameter of a load that reads a whole parameter.
fn whole_parameter<'a>(entry: &Entry, load: &'a Instruction) -> Option<(&'a str, usize)> {
    let [Operand::Name(register), Operand::Address { base: Base::Name(name), offset: 0, .. }] =
        load.operands.as_slice()
    else {
        return None;
    };
    Some((register, parameter_called(entry, name)?))
}

fn parameter_called(entry: &Entry, name: &str) -> Option<usize> {
    entry.parameters.iter().position(|parameter| parameter.name == name)
}

/// The base registers of an instruction's addresses, with the index of their operand.
fn bases(instruction: &Instruction) -> impl Iterator<Item = (&str, usize)> {
    instruction.operands.iter().enumerate().filter_map(|(position, operand)| match operand {
        Operand::Address { base: Base::Name(name), .. } => Some((name.as_str(), position)),
        _ => None,
    })
}
