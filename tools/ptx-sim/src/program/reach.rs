//! What an entry can reach: functions, and variables of the module.

use std::collections::{HashMap, HashSet};

use crate::parse::{Base, Entry, Function, Initialiser, Operand, Statement, Syntax, Variable};

/// What an entry mentions, directly, through functions, and through initialisers; each in module order.
#[derive(Debug)]
pub(crate) struct Reach<'a> {
    /// Numbers of the functions.
    pub functions: Vec<usize>,
    pub variables: Vec<&'a Variable>,
}

impl<'a> Reach<'a> {
    /// Of `entry`.
    pub fn of(syntax: &'a Syntax, entry: &'a Entry) -> Reach<'a> {
        let variables: HashMap<&str, usize> =
            syntax.variables.iter().enumerate().map(|(index, variable)| (variable.name.as_str(), index)).collect();
        let (mut seen, mut found) = (HashSet::new(), (HashSet::new(), HashSet::new()));
        let mut open = Vec::new();
        names_of_body(&entry.body, &mut open);
        while let Some(name) = open.pop() {
            if !seen.insert(name) {
                continue;
            }
            if let Some(index) = variables.get(name) {
                found.0.insert(*index);
                open.extend(syntax.variables[*index].initialiser.iter().filter_map(mentioned));
            } else if let Some(number) = syntax.function(name) {
                found.1.insert(number);
                names_of_body(body(&syntax.functions[number]), &mut open);
            }
        }
        Reach {
            functions: (0..syntax.functions.len()).filter(|number| found.1.contains(number)).collect(),
            variables: (0..syntax.variables.len())
                .filter(|index| found.0.contains(index))
                .map(|index| &syntax.variables[index])
                .collect(),
        }
    }
}

fn body(function: &Function) -> &[Statement] {
    function.body.as_deref().unwrap_or_default()
}

fn mentioned(value: &Initialiser) -> Option<&str> {
    match value {
        Initialiser::Address { name, .. } => Some(name),
        Initialiser::Bits(_) => None,
    }
}

fn names_of_body<'a>(body: &'a [Statement], found: &mut Vec<&'a str>) {
    for statement in body {
        match statement {
            Statement::Instruction(instruction) => {
                instruction.operands.iter().for_each(|operand| names(operand, found));
            }
            Statement::CallTargets { functions, .. } => found.extend(functions.iter().map(String::as_str)),
            _ => {}
        }
    }
}

fn names<'a>(operand: &'a Operand, found: &mut Vec<&'a str>) {
    match operand {
        Operand::Name(name) | Operand::Offset { name, .. } => found.push(name),
        Operand::Address { base: Base::Name(name), .. } => found.push(name),
        Operand::Vector(items) | Operand::List(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}
