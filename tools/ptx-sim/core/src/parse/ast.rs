//! Syntax tree of a PTX text, before instructions are interpreted.

use super::types::{Space, Type};

/// A position in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
}

/// A `.loc`: source location of the following instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// Number of its `.file`.
    pub file: u32,
    /// From 1.
    pub line: u32,
    /// From 1; 0 if unknown.
    pub column: u32,
    /// Index of the location at which it was inlined.
    pub inlined_at: Option<u32>,
}

/// A variable of a module, an entry or a parameter list.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub name: String,
    pub space: Space,
    pub position: Position,
    /// Bytes.
    pub alignment: u64,
    /// Size in bytes; `None` for `name[]`, which the launch sizes.
    pub bytes: Option<u64>,
    /// Element type of the initialiser.
    pub element: Type,
    pub initialiser: Vec<Initialiser>,
    /// Whether the host accesses it too (`.attribute(.managed)`).
    pub is_managed: bool,
}

/// One element of an initialiser.
#[derive(Clone, Debug)]
pub(crate) enum Initialiser {
    /// A number, as bits of the element type.
    Bits(u64),
    /// The address of a variable plus an offset.
    Address { name: String, offset: i64 },
}

/// A kernel.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub parameters: Vec<Variable>,
    /// `.maxntid`: maximum threads in each dimension.
    pub maximum_threads: Option<[u32; 3]>,
    /// `.reqntid`: required threads in each dimension.
    pub required_threads: Option<[u32; 3]>,
    /// `.minnctapersm`: minimum resident blocks per multiprocessor.
    pub minimum_blocks: Option<u32>,
    /// `.maxnreg`: maximum registers per thread.
    pub maximum_registers: Option<u32>,
    /// `.reqnctapercluster`: required blocks of a cluster in each dimension.
    pub cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`: maximum blocks of a cluster.
    pub maximum_cluster: Option<u32>,
    /// `.explicitcluster`: launches must specify a cluster size.
    pub needs_cluster: bool,
    pub body: Vec<Statement>,
}

/// A function (`.func`).
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub name: String,
    pub signature: Signature,
    /// `None` for a declaration.
    pub body: Option<Vec<Statement>>,
}

/// Parameters and results of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signature {
    pub returns: Vec<Formal>,
    pub parameters: Vec<Formal>,
}

/// A formal parameter of a function.
#[derive(Clone, Debug)]
pub(crate) enum Formal {
    /// `.param`.
    Parameter(Variable),
    /// `.reg`.
    Register { kind: Type, name: RegisterNames },
}

impl Formal {
    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Formal::Parameter(variable) => variable.bytes.unwrap_or(0),
            Formal::Register { kind, .. } => u64::from(kind.bytes()),
        }
    }
}

/// A statement of a body, in order; braces are statements of their own.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    /// `.reg`.
    Registers { kind: Type, names: Vec<RegisterNames> },
    /// A variable in `.shared`, `.local` … space.
    Variable(Variable),
    /// `name:`.
    Label { name: String, position: Position },
    /// `name: .branchtargets label, …;`
    BranchTargets { name: String, labels: Vec<String>, position: Position },
    /// `name: .callprototype (…) _ (…);`
    Prototype { name: String, signature: Signature },
    /// `name: .calltargets function, …;`
    CallTargets { name: String, functions: Vec<String> },
    /// An instruction.
    Instruction(Instruction),
    /// `{`.
    Open,
    /// `}`.
    Close,
}

/// One item of a `.reg` list.
#[derive(Clone, Debug)]
pub(crate) struct RegisterNames {
    pub name: String,
    /// `n` in `name<n>`: declares `name0` to `name(n-1)`.
    pub count: Option<u32>,
    pub position: Position,
}

/// An instruction.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub opcode: String,
    /// Without their dots.
    pub modifiers: Vec<String>,
    pub operands: Vec<Operand>,
    pub guard: Option<Guard>,
    pub position: Position,
    /// Index into the module's locations.
    pub location: Option<u32>,
}

impl Instruction {
    /// Opcode and modifiers as written.
    pub fn name(&self) -> String {
        let mut name = self.opcode.clone();
        for modifier in &self.modifiers {
            name.push('.');
            name.push_str(modifier);
        }
        name
    }
}

/// `@p` or `@!p`.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub register: String,
    pub negated: bool,
}

/// An operand.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    /// A register, special register, variable or label.
    Name(String),
    /// `!name`.
    Negated(String),
    /// An integer literal.
    Integer(u64),
    /// A single-precision literal's bits.
    Single(u32),
    /// A double-precision literal's bits.
    Double(u64),
    /// `{a, b, …}`.
    Vector(Vec<Operand>),
    /// `[base + offset, coordinates…]`.
    Address { base: Base, offset: i64, coordinates: Vec<Operand> },
    /// `a|b`.
    Pair(Box<Operand>, Box<Operand>),
    /// `name + offset` outside brackets.
    Offset { name: String, offset: i64 },
    /// `(a, b, …)`.
    List(Vec<Operand>),
}

/// Base of an address.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    /// A register or variable.
    Name(String),
    /// None: the offset is the address.
    None,
}
