//! Reachability: functions and module variables that an entry can use.

use std::collections::{HashMap, HashSet};

use crate::parse::{Base, Entry, Function, Initialiser, Operand, Statement, Syntax, Variable};

/// Everything that an entry refers to, directly, through functions and through initialisers; each in module order.
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
        let mut calls_any = calls_any_function(&entry.body);
        if calls_any {
            taken_functions(syntax, &mut open);
        }
        while let Some(name) = open.pop() {
            if !seen.insert(name) {
                continue;
            }
            if let Some(index) = variables.get(name) {
                found.0.insert(*index);
                open.extend(syntax.variables[*index].initialiser.iter().filter_map(mentioned));
            } else if let Some(number) = syntax.function(name) {
                found.1.insert(number);
                let body = body(&syntax.functions[number]);
                names_of_body(body, &mut open);
                if !calls_any && calls_any_function(body) {
                    calls_any = true;
                    taken_functions(syntax, &mut open);
                }
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

/// Whether it calls through an address, which may be that of any function.
fn calls_any_function(body: &[Statement]) -> bool {
    let is_prototype = |statement: &Statement| matches!(statement, Statement::Prototype { .. });
    body.iter().any(is_prototype)
}

/// Functions whose addresses the module stores: another entry may have put them into memory, as objects with virtual
/// functions do.
fn taken_functions<'a>(syntax: &'a Syntax, found: &mut Vec<&'a str>) {
    let held = syntax.variables.iter().flat_map(|variable| &variable.initialiser).filter_map(mentioned);
    found.extend(held.filter(|name| syntax.function(name).is_some()));
    let functions = syntax.functions.iter().map(body);
    for statement in syntax.entries.iter().map(|entry| entry.body.as_slice()).chain(functions).flatten() {
        let Statement::Instruction(instruction) = statement else { continue };
        if instruction.opcode == "mov" {
            let mut mentioned = Vec::new();
            instruction.operands.iter().for_each(|operand| names(operand, &mut mentioned));
            found.extend(mentioned.into_iter().filter(|name| syntax.function(name).is_some()));
        }
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
