//! Functions and calls: what each call of a function has anew, and what it passes.

use super::form::Form;
use super::names::{Body, Decoder, FrameVariable, Prototype};
use super::refusal::{Decode, invalid, unsupported};
use crate::parse::{self, Base, Formal, Kind, Operand, Signature, Space, Type, Variable};
use crate::program::{Call, Callee, Function, Initial, Passed, Slot};

/// Bytes of the variables of a body: more than a thread has local memory.
const MOST_BYTES: u64 = 1 << 20;

/// A call, as far as it is not known yet who executes it.
pub(crate) struct CallForm {
    /// Index into the calls.
    pub index: u32,
    /// Bytes of the arguments, and of the results.
    pub sizes: [Vec<u64>; 2],
    /// The name of a function that the module only declares.
    pub foreign: Option<String>,
}

/// Bodies and their frames.
impl Decoder {
    /// Begins the entry, whose `.local` variables were placed.
    pub fn begin_entry(&mut self) {
        self.clear_scopes();
        let mut body = Body::default();
        (body.frame.locals, body.frame.bytes) = (self.layout.local_bytes, self.layout.local_bytes);
        self.body = body;
    }

    /// Begins a function: declares its formal parameters.
    pub fn begin_function(&mut self, signature: &Signature) -> Decode<()> {
        self.clear_scopes();
        self.body = Body { is_function: true, ..Body::default() };
        for formal in signature.returns.iter().chain(&signature.parameters) {
            match formal {
                Formal::Parameter(variable) => self.declare_variable(variable)?,
                Formal::Register { kind, name } => self.declare_registers(*kind, name)?,
            }
        }
        Ok(())
    }

    /// Declares a variable of a body.
    pub(super) fn declare_variable(&mut self, variable: &Variable) -> Decode<()> {
        let is_function = self.body.is_function;
        let frame = &mut self.body.frame;
        let (space, Some(bytes)) = (variable.space, variable.bytes) else {
            return unsupported(format!("the {} variable `{}` without a size", variable.space, variable.name));
        };
        if frame.locals.max(frame.bytes).saturating_add(bytes) > MOST_BYTES {
            return unsupported(format!(
                "more than {MOST_BYTES} bytes of variables in a body, `{}` among them",
                variable.name
            ));
        }
        frame.alignment = frame.alignment.max(variable.alignment);
        let offset = match space {
            Space::Local if is_function => {
                let offset = frame.locals.next_multiple_of(variable.alignment);
                frame.locals = offset + bytes;
                offset
            }
            Space::Parameter => {
                let offset = frame.bytes.next_multiple_of(variable.alignment);
                frame.bytes = offset + bytes;
                offset
            }
            // They have a place already.
            Space::Local | Space::Shared => return Ok(()),
            Space::Global | Space::Constant => {
                return unsupported(format!("the {space} variable `{}` in a body", variable.name));
            }
        };
        let known = FrameVariable { space, offset, bytes };
        self.current_scope().variables.insert(variable.name.clone(), known);
        Ok(())
    }

    /// Ends the first pass: what is passed lies behind the locals.
    pub fn place_frame(&mut self) {
        let is_function = self.body.is_function;
        let frame = &mut self.body.frame;
        if is_function {
            frame.bytes += frame.locals.next_multiple_of(frame.alignment.max(1));
        }
    }

    /// Where a variable of the frame lies in it.
    fn offset(&self, variable: FrameVariable) -> u64 {
        let frame = &self.body.frame;
        match variable.space {
            Space::Parameter if self.body.is_function => {
                frame.locals.next_multiple_of(frame.alignment.max(1)) + variable.offset
            }
            _ => variable.offset,
        }
    }

    pub(super) fn frame_variable(&self, name: &str) -> Option<FrameVariable> {
        self.find(|scope| scope.variables.get(name).copied())
    }

    /// A register that holds the address of a variable of the frame.
    pub(super) fn frame_address(&mut self, variable: FrameVariable, beyond: i64) -> Slot {
        let offset = self.offset(variable).wrapping_add_signed(beyond);
        self.body.frame.exposes_arguments |= variable.space == Space::Parameter;
        if !self.body.is_function {
            return self.fixed(Initial::Constant(offset));
        }
        if let Some(slot) = self.body.addresses.get(&offset) {
            return *slot;
        }
        let slot = self.new_register(Initial::Undefined, "");
        self.body.addresses.insert(offset, slot);
        slot
    }

    /// The function that was decoded, whose first instruction has that index.
    pub fn finish_function(&mut self, name: &str, signature: &Signature, start: u32) -> Function {
        let formals = |formals: &[Formal]| formals.iter().map(|formal| self.formal(formal)).collect();
        let (returns, parameters) = (formals(&signature.returns), formals(&signature.parameters));
        let body = std::mem::take(&mut self.body);
        Function {
            name: name.to_owned(),
            start,
            frame: body.frame,
            parameters,
            returns,
            registers: body.registers,
            addresses: body.addresses.into_iter().map(|(offset, slot)| (slot, offset)).collect(),
            is_recursive: false,
        }
    }

    /// The frame of the entry that was decoded.
    pub fn finish_entry(&mut self) -> crate::program::FrameLayout {
        std::mem::take(&mut self.body).frame
    }

    fn formal(&self, formal: &Formal) -> Passed {
        let bytes = formal.bytes();
        match formal {
            Formal::Parameter(variable) => {
                let offset = self.frame_variable(&variable.name).map_or(0, |known| self.offset(known));
                Passed::Bytes { offset, bytes }
            }
            Formal::Register { name, .. } => {
                let slot = self.register(&name.name).map_or(0, |register| register.slot);
                Passed::Register { slot, mask: u64::MAX, bytes }
            }
        }
    }
}

/// Calls and their parameters.
impl<'a> Form<'a> {
    /// Whether a function is decoded, no entry.
    pub fn is_in_function(&self) -> bool {
        self.decoder.body.is_function
    }

    /// Whether the next operand is the address of something that a call passes.
    pub fn next_is_passed(&self, position: usize) -> bool {
        match self.instruction.operands.get(position) {
            Some(Operand::Address { base: Base::Name(name), .. }) => {
                self.decoder.frame_variable(name).is_some_and(|variable| variable.space == Space::Parameter)
            }
            _ => false,
        }
    }

    /// Takes `[variable + offset]` of something that a call passes: where it lies in the frame.
    pub fn passed_address(&mut self, bytes: u64) -> Decode<u64> {
        let Operand::Address { base: Base::Name(name), offset, .. } = self.operand()? else {
            return invalid(format!("`{}` takes an address in brackets here", self.name()));
        };
        let Some(variable) = self.decoder.frame_variable(name) else {
            return invalid(format!("`{name}` is not declared"));
        };
        let end = u64::try_from(*offset).ok().and_then(|offset| offset.checked_add(bytes));
        match end {
            Some(end) if end <= variable.bytes => Ok(self.decoder.offset(variable) + *offset as u64),
            _ => invalid(format!("{bytes} bytes at offset {offset} of `{name}`, which has {}", variable.bytes)),
        }
    }

    /// Takes what follows `call`: results, the function, arguments, a prototype.
    pub fn call(&mut self) -> Decode<CallForm> {
        let results = self.list()?;
        let callee = self.operand()?;
        let arguments = self.list()?;
        let prototype = if self.remaining() > 0 { Some(self.operand()?) } else { None };
        let Operand::Name(name) = callee else { return invalid("a call takes a function or a register here") };
        let register = self.decoder.register(name);
        let (callee, signature, foreign) = match (register, prototype) {
            (Some(register), Some(Operand::Name(prototype))) if register.kind.bits == 64 => {
                self.registers.0.push(register.slot);
                (Callee::Address(register.slot), self.prototype(prototype)?, None)
            }
            (Some(_), _) => return invalid(format!("a call through `{name}` takes 64 bits and a prototype")),
            (None, _) => {
                let known = self.decoder.signatures.numbers.get(name).copied();
                let Some(number) = known else { return invalid(format!("function `{name}` is not declared")) };
                let known = &self.decoder.signatures.functions[number];
                let foreign = (!known.is_defined).then(|| known.name.clone());
                (Callee::Function(number), known.signature.clone(), foreign)
            }
        };
        let results = self.pass(results, &signature.returns, "result", true)?;
        let arguments = self.pass(arguments, &signature.parameters, "argument", false)?;
        let sizes = [&arguments, &results].map(|list| list.iter().map(|passed| passed.bytes()).collect());
        self.decoder.calls.push(Call { callee, arguments, results });
        Ok(CallForm { index: (self.decoder.calls.len() - 1) as u32, sizes, foreign })
    }

    /// Takes a list in parentheses if one comes next.
    fn list(&mut self) -> Decode<&'a [Operand]> {
        match self.peek_operand() {
            Some(Operand::List(items)) => {
                self.operand()?;
                Ok(items)
            }
            _ => Ok(&[]),
        }
    }

    fn prototype(&self, name: &str) -> Decode<Signature> {
        match self.decoder.find(|scope| scope.prototypes.get(name).cloned()) {
            Some(Prototype::Signature(signature)) => Ok(signature),
            Some(Prototype::Targets(functions)) => {
                let number = functions.first().and_then(|name| self.decoder.signatures.numbers.get(name));
                let known = number.map(|number| &self.decoder.signatures.functions[*number]);
                known.map_or_else(
                    || invalid(format!("the functions that `{name}` lists are not declared")),
                    |known| Ok(known.signature.clone()),
                )
            }
            None => invalid(format!("the prototype `{name}` is not declared")),
        }
    }

    /// The values that a call passes one way, each of the size that `formals` say.
    fn pass(&mut self, items: &[Operand], formals: &[Formal], what: &str, is_written: bool) -> Decode<Vec<Passed>> {
        if items.len() != formals.len() {
            return invalid(format!("a call with {} {what}s of a function with {}", items.len(), formals.len()));
        }
        let values = items.iter().zip(formals).map(|(item, formal)| {
            let passed = self.value(item, formal, is_written)?;
            match (passed.bytes(), formal.bytes()) {
                (given, expected) if given == expected => Ok(passed),
                (given, expected) => invalid(format!("{what} of {given} bytes where the function has {expected}")),
            }
        });
        values.collect()
    }

    fn value(&mut self, item: &Operand, formal: &Formal, is_written: bool) -> Decode<Passed> {
        let bytes = formal.bytes();
        if let Operand::Name(name) = item
            && let Some(variable) = self.decoder.frame_variable(name)
            && variable.space == Space::Parameter
        {
            return Ok(Passed::Bytes { offset: self.decoder.offset(variable), bytes: variable.bytes });
        }
        if bytes > 8 || matches!(formal, Formal::Parameter(variable) if bytes != u64::from(variable.element.bytes())) {
            return invalid(format!("a value of {bytes} bytes is passed in a variable of the .param space"));
        }
        let kind = match formal {
            Formal::Register { kind, .. } => *kind,
            Formal::Parameter(parse::Variable { element, .. }) => Type { kind: Kind::Bits, ..*element },
        };
        if is_written {
            return Ok(Passed::to(self.destination_of(item, kind, true)?, bytes));
        }
        Ok(Passed::Register { slot: self.source_of(item, kind, true)?, mask: u64::MAX, bytes })
    }
}
