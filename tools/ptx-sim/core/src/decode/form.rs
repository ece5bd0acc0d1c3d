//! One instruction while it is decoded: takes modifiers and operands, and notices what nobody took.

use super::names::Decoder;
use super::refusal::{Decode, invalid, unsupported};
use crate::memory::generic_address;
use crate::parse::{Base, Instruction, Kind, Operand, Space, Type};
use crate::program::{Address, Destination, Initial, Slot, Special};

/// An instruction being decoded.
pub(crate) struct Form<'a> {
    pub(super) decoder: &'a mut Decoder,
    pub(super) instruction: &'a Instruction,
    /// Modifiers that were not taken yet.
    modifiers: Vec<&'a str>,
    /// Operands taken so far.
    taken: usize,
    /// Registers of the text that it reads, and those that it writes.
    pub(super) registers: (Vec<Slot>, Vec<Slot>),
}

impl<'a> Form<'a> {
    /// Nothing of `instruction` is taken yet.
    pub fn new(decoder: &'a mut Decoder, instruction: &'a Instruction) -> Self {
        let modifiers = instruction.modifiers.iter().map(String::as_str).collect();
        Form { decoder, instruction, modifiers, taken: 0, registers: Default::default() }
    }

    /// The opcode.
    pub fn opcode(&self) -> &'a str {
        &self.instruction.opcode
    }

    /// Opcode and modifiers as written.
    pub fn name(&self) -> String {
        self.instruction.name()
    }

    /// The PTX version of the module, as in (8, 0).
    pub fn version(&self) -> (u32, u32) {
        self.decoder.version
    }

    /// Refuses an instruction of which something was not understood; the registers it reads and those it writes.
    pub fn finish(self) -> Decode<(Vec<Slot>, Vec<Slot>)> {
        if let Some(modifier) = self.modifiers.first() {
            return unsupported(format!("`.{modifier}` in `{}`", self.name()));
        }
        if self.taken < self.instruction.operands.len() {
            return unsupported(format!("operand {} of `{}`", self.taken + 1, self.name()));
        }
        Ok(self.registers)
    }

    // Modifiers

    /// Whether every modifier was taken.
    pub fn is_taken(&self) -> bool {
        self.modifiers.is_empty()
    }

    /// Takes `modifier` if it is there.
    pub fn flag(&mut self, modifier: &str) -> bool {
        let found = self.modifiers.iter().position(|candidate| *candidate == modifier);
        found.map(|index| self.modifiers.remove(index)).is_some()
    }

    /// Whether `modifier` is there; it is not taken.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }

    /// Takes the first modifier that `get` has a value for.
    pub fn take<T>(&mut self, get: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (index, value) = self
            .modifiers
            .iter()
            .enumerate()
            .find_map(|(index, modifier)| get(modifier).map(|value| (index, value)))?;
        self.modifiers.remove(index);
        Some(value)
    }

    /// Takes one of `choices` if one is there.
    pub fn choice<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        self.take(|modifier| choices.iter().find(|(name, _)| *name == modifier).map(|(_, value)| *value))
    }

    /// Takes the next type modifier.
    pub fn kind(&mut self) -> Decode<Type> {
        match self.take(Type::parse) {
            Some(kind) => Ok(kind),
            None => invalid(format!("`{}` lacks a type", self.name())),
        }
    }

    /// The first type modifier; it is not taken.
    pub fn peek_kind(&self) -> Option<Type> {
        self.modifiers.iter().find_map(|modifier| Type::parse(modifier))
    }

    /// Refuses the instruction as one of a kind that is not supported.
    pub fn refuse<T>(&self) -> Decode<T> {
        unsupported(format!("`{}`", self.name()))
    }

    // Operands

    /// Operands not taken yet.
    pub fn remaining(&self) -> usize {
        self.instruction.operands.len() - self.taken
    }

    /// Takes the next operand.
    pub fn operand(&mut self) -> Decode<&'a Operand> {
        match self.instruction.operands.get(self.taken) {
            Some(operand) => {
                self.taken += 1;
                Ok(operand)
            }
            None => invalid(format!("`{}` lacks operand {}", self.name(), self.taken + 1)),
        }
    }

    /// The next operand; it is not taken.
    pub fn peek_operand(&self) -> Option<&'a Operand> {
        self.instruction.operands.get(self.taken)
    }

    /// Takes a register to write, of exactly the size of `kind`.
    pub fn destination(&mut self, kind: Type) -> Decode<Destination> {
        let operand = self.operand()?;
        self.destination_of(operand, kind, false)
    }

    /// Takes a register to write that may be wider than `kind`.
    pub fn wide_destination(&mut self, kind: Type) -> Decode<Destination> {
        let operand = self.operand()?;
        self.destination_of(operand, kind, true)
    }

    /// `operand` as a register to write.
    pub fn destination_of(&mut self, operand: &Operand, kind: Type, may_be_wider: bool) -> Decode<Destination> {
        let Operand::Name(name) = operand else { return invalid("a destination must be a register") };
        if name == "_" {
            return Ok(Destination { slot: self.decoder.sink(), mask: u64::MAX });
        }
        let Some(register) = self.decoder.register(name) else {
            return invalid(format!("register `{name}` is not declared"));
        };
        check_size(name, register.kind, kind, may_be_wider)?;
        self.registers.1.push(register.slot);
        Ok(Destination { slot: register.slot, mask: u64::MAX >> (64 - register.kind.bits.min(64)) })
    }

    /// Takes a value to read, of exactly the size of `kind`.
    pub fn source(&mut self, kind: Type) -> Decode<Slot> {
        let operand = self.operand()?;
        self.source_of(operand, kind, false)
    }

    /// Takes a value to read whose register may be wider than `kind`.
    pub fn wide_source(&mut self, kind: Type) -> Decode<Slot> {
        let operand = self.operand()?;
        self.source_of(operand, kind, true)
    }

    /// `operand` as a value to read.
    pub fn source_of(&mut self, operand: &Operand, kind: Type, may_be_wider: bool) -> Decode<Slot> {
        let value = match operand {
            Operand::Name(name) => return self.named_source(name, 0, kind, may_be_wider),
            Operand::Offset { name, offset } => return self.named_source(name, *offset, kind, may_be_wider),
            Operand::Integer(value) if kind.kind == Kind::Predicate => u64::from(*value != 0),
            Operand::Integer(value) if !kind.is_float() => *value,
            Operand::Single(bits) if kind == Type::F32 || kind.kind == Kind::Bits => u64::from(*bits),
            Operand::Double(bits) if kind == Type::F32 => u64::from((f64::from_bits(*bits) as f32).to_bits()),
            Operand::Double(bits) if kind == Type::F64 || kind == Type::B64 => *bits,
            Operand::Single(_) | Operand::Double(_) | Operand::Integer(_) => {
                return invalid(format!("the literal is not of type `{kind}`"));
            }
            Operand::Negated(_) => return unsupported("a negated operand here"),
            Operand::Vector(_) => return invalid("a vector where a single value is expected"),
            Operand::Address { .. } => return invalid("an address where a value is expected"),
            Operand::Pair(..) | Operand::List(_) => return invalid("a pair or list where a single value is expected"),
        };
        Ok(self.constant(value & (u64::MAX >> (64 - kind.bits.min(64)))))
    }

    fn named_source(&mut self, name: &str, offset: i64, kind: Type, may_be_wider: bool) -> Decode<Slot> {
        if let Some(register) = self.decoder.register(name) {
            if offset != 0 {
                return invalid(format!("an offset added to register `{name}` outside an address"));
            }
            check_size(name, register.kind, kind, may_be_wider)?;
            self.registers.0.push(register.slot);
            return Ok(register.slot);
        }
        if let Some(variable) = self.decoder.frame_variable(name) {
            return Ok(self.decoder.frame_address(variable, offset));
        }
        if let Some(special) = Special::parse(name) {
            return Ok(self.special(special));
        }
        if name == "WARP_SZ" {
            return Ok(self.constant(32));
        }
        if let Some(place) = self.decoder.layout.places.get(name) {
            let (space, address) = (place.space, place.address.wrapping_add_signed(offset));
            return Ok(self.address_of(space, address));
        }
        match name.starts_with('%') {
            true => unsupported(format!("register `{name}`, which is neither declared nor a known special register")),
            false => invalid(format!("`{name}` is not declared")),
        }
    }

    /// Takes the register pair `d|p` or the register `d`.
    pub fn destination_pair(&mut self, first: Type, second: Type) -> Decode<(Destination, Option<Destination>)> {
        match self.operand()? {
            Operand::Pair(a, b) => {
                Ok((self.destination_of(a, first, false)?, Some(self.destination_of(b, second, false)?)))
            }
            single => Ok((self.destination_of(single, first, false)?, None)),
        }
    }

    /// Takes a predicate to read, and whether it is negated.
    pub fn predicate(&mut self) -> Decode<(Slot, bool)> {
        match self.operand()? {
            Operand::Negated(name) => Ok((self.named_source(name, 0, Type::PREDICATE, false)?, true)),
            operand => Ok((self.source_of(operand, Type::PREDICATE, false)?, false)),
        }
    }

    /// Takes `{a, b, …}`, or a single operand as a vector of one.
    pub fn vector(&mut self) -> Decode<&'a [Operand]> {
        match self.operand()? {
            Operand::Vector(items) => Ok(items),
            single => Ok(std::slice::from_ref(single)),
        }
    }

    /// Takes a vector of exactly `count` registers to read.
    pub fn source_vector(&mut self, count: usize, kind: Type) -> Decode<Vec<Slot>> {
        let items = self.vector_of(count)?;
        items.iter().map(|item| self.source_of(item, kind, false)).collect()
    }

    /// Takes a vector of exactly `count` registers to write.
    pub fn destination_vector(&mut self, count: usize, kind: Type) -> Decode<Vec<Destination>> {
        let items = self.vector_of(count)?;
        items.iter().map(|item| self.destination_of(item, kind, false)).collect()
    }

    fn vector_of(&mut self, count: usize) -> Decode<&'a [Operand]> {
        let items = self.vector()?;
        if items.len() != count {
            return invalid(format!("`{}` takes {count} registers here, not {}", self.name(), items.len()));
        }
        Ok(items)
    }

    /// Takes `[base + offset]`. A base of 32 bits is allowed in every space but the global one.
    pub fn address(&mut self, space: Option<Space>) -> Decode<Address> {
        let (address, coordinates) = self.address_and_coordinates(space)?;
        if !coordinates.is_empty() {
            return unsupported(format!("tensor coordinates in `{}`", self.name()));
        }
        Ok(address)
    }

    /// Takes `[map, {coordinates}]`: the generic address of a tensor map, and coordinates in the tensor.
    pub fn tensor_address(&mut self) -> Decode<(Address, Vec<Slot>)> {
        let (address, coordinates) = self.address_and_coordinates(None)?;
        let [Operand::Vector(items)] = coordinates else {
            return invalid(format!("`{}` takes a tensor map and a vector of coordinates here", self.name()));
        };
        let coordinates = items.iter().map(|item| self.source_of(item, Type::B32, false)).collect::<Decode<_>>()?;
        Ok((address, coordinates))
    }

    /// Takes `[handle, coordinates]`: a texture or surface object in a register, and coordinates, none for queries.
    pub fn object(&mut self) -> Decode<(Slot, &'a [Operand])> {
        let Operand::Address { base: Base::Name(name), offset: 0, coordinates } = self.operand()? else {
            return invalid(format!("`{}` takes an object in brackets here", self.name()));
        };
        let Some(register) = self.decoder.register(name) else {
            return unsupported(format!(
                "`{name}` in `{}`: only objects in registers are textures and surfaces here",
                self.name()
            ));
        };
        if register.kind.bits != 64 || register.kind.is_float() {
            return invalid(format!("`{name}` ({}) cannot hold an object", register.kind));
        }
        if coordinates.len() > 1 {
            return unsupported(format!("a separate sampler in `{}`", self.name()));
        }
        self.registers.0.push(register.slot);
        Ok((register.slot, coordinates))
    }

    fn address_and_coordinates(&mut self, space: Option<Space>) -> Decode<(Address, &'a [Operand])> {
        let Operand::Address { base, offset, coordinates } = self.operand()? else {
            return invalid(format!("`{}` takes an address in brackets here", self.name()));
        };
        let Base::Name(name) = base else {
            return Ok((Address { base: self.constant(0), offset: *offset }, coordinates));
        };
        if let Some(register) = self.decoder.register(name) {
            let is_narrow = register.kind.bits == 32 && !matches!(space, None | Some(Space::Global | Space::Constant));
            if register.kind.bits != 64 && !is_narrow || register.kind.is_float() {
                return invalid(format!("`{name}` ({}) cannot hold an address here", register.kind));
            }
            self.registers.0.push(register.slot);
            return Ok((Address { base: register.slot, offset: *offset }, coordinates));
        }
        if let Some(variable) = self.decoder.frame_variable(name) {
            if space.is_none_or(|space| space != Space::Local) {
                return invalid(format!("`{name}` lies in the local space"));
            }
            return Ok((Address { base: self.decoder.frame_address(variable, 0), offset: *offset }, coordinates));
        }
        let Some(place) = self.decoder.layout.places.get(name).copied() else {
            return invalid(format!("`{name}` is not declared"));
        };
        if space.is_some_and(|space| space != place.space) {
            return invalid(format!("`{name}` lies in the {} space", place.space));
        }
        let address = match space {
            None => generic_address(place.space, place.address),
            Some(_) => place.address,
        };
        Ok((Address { base: self.address_of(place.space, address), offset: *offset }, coordinates))
    }

    /// A register that holds an address, in a space or the generic one, of a variable.
    fn address_of(&mut self, space: Space, address: u64) -> Slot {
        match space {
            Space::Shared => self.decoder.fixed(Initial::Shared(address)),
            _ => self.constant(address),
        }
    }

    /// Takes an integer literal.
    pub fn literal(&mut self) -> Decode<u64> {
        match self.operand()? {
            Operand::Integer(value) => Ok(*value),
            _ => unsupported(format!("`{}` with anything but an integer literal here", self.name())),
        }
    }

    /// Whether the next operand is a predicate register.
    pub fn next_is_predicate(&self) -> bool {
        let Some(Operand::Name(name)) = self.peek_operand() else { return false };
        self.decoder.register(name).is_some_and(|register| register.kind.kind == Kind::Predicate)
    }

    /// Takes a label: the index of the instruction it stands before.
    pub fn label(&mut self) -> Decode<u32> {
        let Operand::Name(name) = self.operand()? else { return invalid("a branch target must be a label") };
        self.label_named(name)
    }

    fn label_named(&self, name: &str) -> Decode<u32> {
        match self.decoder.find(|scope| scope.labels.get(name).copied()) {
            Some(target) => Ok(target),
            None => invalid(format!("label `{name}` is not declared")),
        }
    }

    /// Takes the name of a list of branch targets: the indices of the instructions the labels stand before.
    pub fn branch_targets(&mut self) -> Decode<Vec<u32>> {
        let Operand::Name(name) = self.operand()? else { return invalid("a list of branch targets must be a name") };
        match self.decoder.find(|scope| scope.branch_targets.get(name).cloned()) {
            Some(labels) => labels.iter().map(|label| self.label_named(label)).collect(),
            None => invalid(format!("the list of branch targets `{name}` is not declared")),
        }
    }

    /// A register that always holds `value`.
    pub fn constant(&mut self, value: u64) -> Slot {
        self.decoder.fixed(Initial::Constant(value))
    }

    /// The register of a special register.
    pub fn special(&mut self, special: Special) -> Slot {
        self.decoder.fixed(Initial::Special(special))
    }

    /// Where the variables of constant memory lie that the entry reaches.
    pub fn constant_variables(&self) -> Vec<std::ops::Range<u64>> {
        let places = self.decoder.layout.places.values().filter(|place| place.space == Space::Constant);
        places.map(|place| place.address..place.address + place.bytes).collect()
    }

    /// The register of the carry flag.
    pub fn carry(&mut self) -> Slot {
        self.decoder.carry()
    }
}

fn check_size(name: &str, register: Type, wanted: Type, may_be_wider: bool) -> Decode<()> {
    let is_predicate = |kind: Type| kind.kind == Kind::Predicate;
    let fits = register.bits == wanted.bits || may_be_wider && register.bits > wanted.bits;
    if is_predicate(register) == is_predicate(wanted) && fits {
        return Ok(());
    }
    invalid(format!("register `{name}` is `{register}` where `{wanted}` is expected"))
}
