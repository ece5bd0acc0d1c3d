//! The names that an entry declares, scope by scope, and the registers they stand for.

use std::collections::HashMap;

use super::refusal::{Decode, Refusal, invalid, unsupported};
use super::signatures::Signatures;
use crate::parse::{self, Kind, Position, Space, Statement, Type};
use crate::program::{Call, FrameLayout, Guard, Initial, Layout, Slot};

/// A register of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Register {
    pub slot: Slot,
    pub kind: Type,
}

/// The names declared in one `{ … }`.
#[derive(Default)]
pub(super) struct Scope {
    parent: Option<usize>,
    registers: HashMap<String, Register>,
    pub labels: HashMap<String, u32>,
    /// The labels that each `.branchtargets` lists.
    pub branch_targets: HashMap<String, Vec<String>>,
    /// Variables of the frame.
    pub variables: HashMap<String, FrameVariable>,
    /// What each `.callprototype` and `.calltargets` says.
    pub prototypes: HashMap<String, Prototype>,
}

/// What a function has that is called through a pointer.
#[derive(Clone)]
pub(super) enum Prototype {
    Signature(parse::Signature),
    /// That of the functions with these names.
    Targets(Vec<String>),
}

/// A variable that each call of a function has anew.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameVariable {
    pub space: Space,
    /// From the first of the variables of its space on.
    pub offset: u64,
    pub bytes: u64,
}

/// What the body declares that is being decoded.
#[derive(Default)]
pub(super) struct Body {
    pub is_function: bool,
    pub frame: FrameLayout,
    /// Its registers.
    pub registers: Vec<Slot>,
    /// Registers that hold addresses of its frame, by distance from the first byte.
    pub addresses: HashMap<u64, Slot>,
}

/// What is known while an entry is decoded.
pub(crate) struct Decoder {
    scopes: Vec<Scope>,
    /// The scope being decoded.
    scope: usize,
    /// Scopes entered so far; they are numbered in the order of their `{`.
    entered: usize,
    /// What the registers of a warp hold when it starts.
    pub registers: Vec<Initial>,
    /// Their names; empty for those that hold literals.
    pub register_names: Vec<String>,
    fixed: HashMap<Initial, Slot>,
    sink: Option<Slot>,
    carry: Option<Slot>,
    pub(super) body: Body,
    pub(super) signatures: Signatures,
    /// The PTX version of the module.
    pub(super) version: (u32, u32),
    /// Calls so far.
    pub calls: Vec<Call>,
    /// Where variables lie.
    pub layout: Layout,
}

impl Decoder {
    /// Nothing but variables is known yet.
    pub fn new(layout: Layout, signatures: Signatures, version: (u32, u32)) -> Decoder {
        Decoder {
            scopes: vec![Scope::default()],
            scope: 0,
            entered: 1,
            registers: Vec::new(),
            register_names: Vec::new(),
            fixed: HashMap::new(),
            sink: None,
            carry: None,
            body: Body::default(),
            signatures,
            version,
            calls: Vec::new(),
            layout,
        }
    }

    /// First pass: collects registers, labels and variables of every scope of a body whose first instruction has that
    /// index.
    pub fn declare(&mut self, body: &[Statement], start: u32) -> Result<(), (Position, Refusal)> {
        let mut next_instruction = start;
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
                    self.declare_variable(variable).map_err(|error| (variable.position, error))?;
                }
                Statement::Prototype { name, signature } => {
                    let prototype = Prototype::Signature(signature.clone());
                    self.scopes[self.scope].prototypes.insert(name.clone(), prototype);
                }
                Statement::CallTargets { name, functions } => {
                    let prototype = Prototype::Targets(functions.clone());
                    self.scopes[self.scope].prototypes.insert(name.clone(), prototype);
                }
                Statement::Instruction(_) => next_instruction += 1,
            }
        }
        Ok(())
    }

    pub(super) fn declare_registers(&mut self, kind: Type, names: &parse::RegisterNames) -> Decode<()> {
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
            self.body.registers.push(slot);
            if kind.bits == 128 {
                // The upper half.
                let upper = self.new_register(Initial::Undefined, &name);
                self.body.registers.push(upper);
            }
            if self.scopes[self.scope].registers.insert(name.clone(), Register { slot, kind }).is_some() {
                return invalid(format!("a second register `{name}`"));
            }
        }
        Ok(())
    }

    /// The scope that is open.
    pub(super) fn current_scope(&mut self) -> &mut Scope {
        &mut self.scopes[self.scope]
    }

    /// Forgets the names of the body before.
    pub(super) fn clear_scopes(&mut self) {
        self.scopes = vec![Scope::default()];
        self.enter_body();
    }

    /// Begins the second pass.
    pub fn enter_body(&mut self) {
        self.scope = 0;
        self.entered = 1;
    }

    /// `{`.
    pub fn open_scope(&mut self) {
        self.scope = self.entered;
        self.entered += 1;
    }

    /// `}`.
    pub fn close_scope(&mut self) {
        self.scope = self.scopes[self.scope].parent.unwrap_or(0);
    }

    pub(super) fn new_register(&mut self, initial: Initial, name: &str) -> Slot {
        self.registers.push(initial);
        self.register_names.push(name.to_owned());
        (self.registers.len() - 1) as Slot
    }

    /// The register that always holds `initial`.
    pub(super) fn fixed(&mut self, initial: Initial) -> Slot {
        if let Some(slot) = self.fixed.get(&initial) {
            return *slot;
        }
        let slot = self.new_register(initial, "");
        self.fixed.insert(initial, slot);
        slot
    }

    /// A register that is written and never read, for `_`.
    pub(super) fn sink(&mut self) -> Slot {
        if let Some(slot) = self.sink {
            return slot;
        }
        let slot = self.new_register(Initial::Undefined, "_");
        self.sink = Some(slot);
        slot
    }

    /// The register of the carry flag of `add.cc` and its relatives.
    pub(super) fn carry(&mut self) -> Slot {
        if let Some(slot) = self.carry {
            return slot;
        }
        let slot = self.new_register(Initial::Undefined, "the carry flag");
        self.carry = Some(slot);
        slot
    }

    /// Finds something by name in the current scope or those around it.
    pub(super) fn find<T>(&self, mut get: impl FnMut(&Scope) -> Option<T>) -> Option<T> {
        let mut scope = Some(self.scope);
        while let Some(index) = scope {
            if let Some(found) = get(&self.scopes[index]) {
                return Some(found);
            }
            scope = self.scopes[index].parent;
        }
        None
    }

    /// The register called `name`.
    pub(super) fn register(&self, name: &str) -> Option<Register> {
        self.find(|scope| scope.registers.get(name).copied())
    }

    /// The guard of an instruction.
    pub fn guard(&self, guard: &parse::Guard) -> Decode<Guard> {
        match self.register(&guard.register) {
            Some(Register { slot, kind }) if kind.kind == Kind::Predicate => Ok(Guard { slot, negated: guard.negated }),
            Some(_) => invalid(format!("guard `{}` is not a predicate register", guard.register)),
            None => invalid(format!("guard `{}` is not declared", guard.register)),
        }
    }
}
