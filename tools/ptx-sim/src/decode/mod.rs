//! Syntax to typed instructions. The whole entry is decoded before anything runs: what is not known is refused by name
//! and line, never guessed.

mod form;
mod layout;
mod program;

use std::collections::HashMap;

pub(crate) use form::Form;
pub(crate) use layout::Layout;
pub(crate) use program::{Destination, Guard, Initial, Instruction, Program, Slot, Special};

use crate::isa;
use crate::parse::{self, Entry, Kind, Position, Space, Statement, Type};

/// Why something cannot be decoded.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The simulator does not know it.
    Unsupported(String),
    /// It is wrong.
    Invalid(String),
}

/// Shorthand for results of decoding.
pub(crate) type Decode<T> = Result<T, Refusal>;

/// Shorthand for [`Refusal::Invalid`].
pub(crate) fn invalid<T>(what: impl Into<String>) -> Decode<T> {
    Err(Refusal::Invalid(what.into()))
}

/// Shorthand for [`Refusal::Unsupported`].
pub(crate) fn unsupported<T>(what: impl Into<String>) -> Decode<T> {
    Err(Refusal::Unsupported(what.into()))
}

/// Decodes an entry whose variables were placed.
pub(crate) fn decode(entry: &Entry, layout: Layout) -> Result<Program, (Position, Refusal)> {
    let mut decoder = Decoder::new(layout);
    decoder.declare(&entry.body)?;
    decoder.enter_body();
    let mut instructions = Vec::new();
    for statement in &entry.body {
        match statement {
            Statement::Open => decoder.open_scope(),
            Statement::Close => decoder.close_scope(),
            Statement::Instruction(instruction) => {
                let decoded = decoder.instruction(instruction).map_err(|error| (instruction.position, error))?;
                instructions.push(decoded);
            }
            _ => {}
        }
    }
    let uses_wgmma = instructions.iter().any(|instruction: &Instruction| instruction.operation.is_wgmma());
    Ok(Program {
        uses_wgmma,
        instructions,
        registers: decoder.registers,
        register_names: decoder.register_names,
        layout: decoder.layout,
        minimum_blocks: entry.minimum_blocks,
        maximum_registers: entry.maximum_registers,
    })
}

/// A register of the text.
#[derive(Clone, Copy, Debug)]
struct Register {
    slot: Slot,
    kind: Type,
}

/// The names declared in one `{ … }`.
#[derive(Default)]
struct Scope {
    parent: Option<usize>,
    registers: HashMap<String, Register>,
    labels: HashMap<String, u32>,
    /// The labels that each `.branchtargets` lists.
    branch_targets: HashMap<String, Vec<String>>,
}

/// What is known while an entry is decoded.
pub(crate) struct Decoder {
    scopes: Vec<Scope>,
    /// The scope being decoded.
    scope: usize,
    /// Scopes entered so far; they are numbered in the order of their `{`.
    entered: usize,
    registers: Vec<Initial>,
    register_names: Vec<String>,
    fixed: HashMap<Initial, Slot>,
    sink: Option<Slot>,
    carry: Option<Slot>,
    layout: Layout,
}

impl Decoder {
    fn new(layout: Layout) -> Decoder {
        Decoder {
            scopes: vec![Scope::default()],
            scope: 0,
            entered: 1,
            registers: Vec::new(),
            register_names: Vec::new(),
            fixed: HashMap::new(),
            sink: None,
            carry: None,
            layout,
        }
    }

    /// First pass: collects registers and labels of every scope.
    fn declare(&mut self, body: &[Statement]) -> Result<(), (Position, Refusal)> {
        let mut next_instruction = 0;
        for statement in body {
            match statement {
                Statement::Open => {
                    self.scopes.push(Scope { parent: Some(self.scope), ..Scope::default() });
                    self.open_scope();
                }
                Statement::Close => self.close_scope(),
                Statement::Registers { kind, names } => {
                    for name in names {
                        self.declare_registers(*kind, name).map_err(|error| (name.position, error))?;
                    }
                }
                Statement::Label { name, position } => {
                    if self.scopes[self.scope].labels.insert(name.clone(), next_instruction).is_some() {
                        return Err((*position, Refusal::Invalid(format!("a second label `{name}`"))));
                    }
                }
                Statement::BranchTargets { name, labels, position } => {
                    let targets = &mut self.scopes[self.scope].branch_targets;
                    if targets.insert(name.clone(), labels.clone()).is_some() {
                        return Err((*position, Refusal::Invalid(format!("a second list of targets `{name}`"))));
                    }
                }
                Statement::Variable(variable) => {
                    let is_supported =
                        matches!(variable.space, Space::Shared | Space::Local) && variable.bytes.is_some();
                    // `.param` variables of a body belong to calls, which are refused where they happen.
                    if !is_supported && variable.space != Space::Parameter {
                        let what = format!("the {} variable `{}` in a body", variable.space, variable.name);
                        return Err((variable.position, Refusal::Unsupported(what)));
                    }
                }
                Statement::Instruction(_) => next_instruction += 1,
            }
        }
        Ok(())
    }

    fn declare_registers(&mut self, kind: Type, names: &parse::RegisterNames) -> Decode<()> {
        const MOST: usize = 1 << 17;
        let count = names.count.unwrap_or(1) as usize;
        if count > MOST - self.registers.len().min(MOST) {
            return unsupported(format!("more than {MOST} registers"));
        }
        for index in 0..count {
            let name = match names.count {
                None => names.name.clone(),
                Some(_) => format!("{}{index}", names.name),
            };
            let slot = self.new_register(Initial::Undefined, &name);
            if self.scopes[self.scope].registers.insert(name.clone(), Register { slot, kind }).is_some() {
                return invalid(format!("a second register `{name}`"));
            }
        }
        Ok(())
    }

    /// Begins the second pass.
    fn enter_body(&mut self) {
        self.scope = 0;
        self.entered = 1;
    }

    fn open_scope(&mut self) {
        self.scope = self.entered;
        self.entered += 1;
    }

    fn close_scope(&mut self) {
        self.scope = self.scopes[self.scope].parent.unwrap_or(0);
    }

    fn new_register(&mut self, initial: Initial, name: &str) -> Slot {
        self.registers.push(initial);
        self.register_names.push(name.to_owned());
        (self.registers.len() - 1) as Slot
    }

    /// The register that always holds `initial`.
    fn fixed(&mut self, initial: Initial) -> Slot {
        if let Some(slot) = self.fixed.get(&initial) {
            return *slot;
        }
        let slot = self.new_register(initial, "");
        self.fixed.insert(initial, slot);
        slot
    }

    /// A register that is written and never read, for `_`.
    fn sink(&mut self) -> Slot {
        if let Some(slot) = self.sink {
            return slot;
        }
        let slot = self.new_register(Initial::Undefined, "_");
        self.sink = Some(slot);
        slot
    }

    /// The register of the carry flag of `add.cc` and its relatives.
    fn carry(&mut self) -> Slot {
        if let Some(slot) = self.carry {
            return slot;
        }
        let slot = self.new_register(Initial::Undefined, "the carry flag");
        self.carry = Some(slot);
        slot
    }

    /// Finds something by name in the current scope or those around it.
    fn find<T>(&self, mut get: impl FnMut(&Scope) -> Option<T>) -> Option<T> {
        let mut scope = Some(self.scope);
        while let Some(index) = scope {
            if let Some(found) = get(&self.scopes[index]) {
                return Some(found);
            }
            scope = self.scopes[index].parent;
        }
        None
    }

    fn register(&self, name: &str) -> Option<Register> {
        self.find(|scope| scope.registers.get(name).copied())
    }

    fn guard(&self, guard: &parse::Guard) -> Decode<Guard> {
        match self.register(&guard.register) {
            Some(Register { slot, kind }) if kind.kind == Kind::Predicate => Ok(Guard { slot, negated: guard.negated }),
            Some(_) => invalid(format!("guard `{}` is not a predicate register", guard.register)),
            None => invalid(format!("guard `{}` is not declared", guard.register)),
        }
    }

    fn instruction(&mut self, instruction: &parse::Instruction) -> Decode<Instruction> {
        let guard = instruction.guard.as_ref().map(|guard| self.guard(guard)).transpose()?;
        let mut form = Form::new(self, instruction);
        let (class, operation) = isa::decode(&mut form)?;
        let (reads, writes) = form.finish()?;
        Ok(Instruction {
            collective: operation.collective(),
            operation,
            guard,
            class,
            line: instruction.position.line,
            location: instruction.location,
            name: instruction.name(),
            reads,
            writes,
        })
    }
}
