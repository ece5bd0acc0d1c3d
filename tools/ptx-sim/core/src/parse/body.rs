//! Bodies of entries: declarations, labels and instructions.

use super::{
    Base, Guard, Instruction, Location, Operand, Parse, Parser, RegisterNames, Space, Statement, TokenKind, Type,
};

impl<'a> Parser<'a> {
    /// From `{` to its `}`.
    pub(super) fn body(&mut self) -> Parse<Vec<Statement>> {
        let start = self.position();
        self.expect('{')?;
        let mut statements = Vec::new();
        let mut depth = 1;
        while depth > 0 {
            match self.peek() {
                TokenKind::Symbol('{') => {
                    self.advance();
                    depth += 1;
                    statements.push(Statement::Open);
                }
                TokenKind::Symbol('}') => {
                    self.advance();
                    depth -= 1;
                    if depth > 0 {
                        statements.push(Statement::Close);
                    }
                }
                TokenKind::Symbol(';') => drop(self.advance()),
                TokenKind::Dot(directive) => self.body_directive(directive, &mut statements)?,
                TokenKind::Symbol('@') => statements.push(Statement::Instruction(self.instruction()?)),
                TokenKind::Word(name) if self.peek_second() == TokenKind::Symbol(':') => {
                    statements.push(self.label(name)?);
                }
                TokenKind::Word(_) => statements.push(Statement::Instruction(self.instruction()?)),
                TokenKind::End => return self.error(start, "a `{` that is never closed"),
                _ => return self.expected("an instruction, a label, a directive or `}`"),
            }
        }
        Ok(statements)
    }

    /// `name:`, or a labelled directive: branch targets, call prototype or call targets.
    fn label(&mut self, name: &'a str) -> Parse<Statement> {
        let (name, position) = (name.to_owned(), self.position());
        self.advance();
        self.advance();
        match self.peek() {
            TokenKind::Dot("branchtargets") => {
                Ok(Statement::BranchTargets { name, labels: self.names("a label")?, position })
            }
            TokenKind::Dot("calltargets") => {
                Ok(Statement::CallTargets { name, functions: self.names("the name of a function")? })
            }
            TokenKind::Dot("callprototype") => Ok(Statement::Prototype { name, signature: self.prototype()? }),
            _ => Ok(Statement::Label { name, position }),
        }
    }

    /// A directive with a list of names.
    fn names(&mut self, what: &str) -> Parse<Vec<String>> {
        self.advance();
        let mut names = vec![self.word(what)?.to_owned()];
        while self.eat(',') {
            names.push(self.word(what)?.to_owned());
        }
        self.expect(';')?;
        Ok(names)
    }

    fn body_directive(&mut self, name: &'a str, statements: &mut Vec<Statement>) -> Parse<()> {
        match name {
            "reg" => statements.push(self.registers()?),
            "loc" => self.location()?,
            "pragma" => self.skip_statement()?,
            _ => match Space::parse(name) {
                Some(space) => statements.extend(self.variables(space)?.into_iter().map(Statement::Variable)),
                None => return self.expected("a directive of a body"),
            },
        }
        Ok(())
    }

    /// The type after `.reg`.
    pub(super) fn register_type(&mut self) -> Parse<Type> {
        self.advance();
        let kind = match self.peek() {
            TokenKind::Dot(word) => Type::parse(word),
            _ => None,
        };
        let Some(kind) = kind else { return self.expected("a register type") };
        self.advance();
        Ok(kind)
    }

    fn registers(&mut self) -> Parse<Statement> {
        let kind = self.register_type()?;
        let mut names = Vec::new();
        loop {
            let position = self.position();
            let name = self.word("the name of a register")?.to_owned();
            let count = if self.eat('<') {
                let count = self.small_integer("number of registers")?;
                self.expect('>')?;
                Some(count)
            } else {
                None
            };
            names.push(RegisterNames { name, count, position });
            if !self.eat(',') {
                self.expect(';')?;
                return Ok(Statement::Registers { kind, names });
            }
        }
    }

    /// `.loc file line column[, function_name label[+offset]][, inlined_at file line column]`. Line 0 marks code
    /// without a line of its own: it takes the call at which it was inlined, or else the previous line.
    pub(super) fn location(&mut self) -> Parse<()> {
        self.advance();
        let (file, line, column) = self.location_numbers()?;
        let mut inlined_at = None;
        while self.eat(',') {
            match self.word("`function_name` or `inlined_at`")? {
                "function_name" => {
                    self.word("a label")?;
                    self.signed_offset()?;
                }
                _ => {
                    let call = self.location_numbers()?;
                    inlined_at = (call.1 != 0).then(|| self.known_location(call));
                }
            }
        }
        if line == 0 {
            self.location = inlined_at.or(self.location);
            return Ok(());
        }
        let index = self.syntax.locations.len() as u32;
        self.syntax.locations.push(Location { file, line, column, inlined_at });
        self.known_locations.insert((file, line, column), index);
        self.location = Some(index);
        Ok(())
    }

    fn location_numbers(&mut self) -> Parse<(u32, u32, u32)> {
        Ok((self.small_integer("file number")?, self.small_integer("line")?, self.small_integer("column")?))
    }

    /// Index of the latest location at a position; added if missing.
    fn known_location(&mut self, position: (u32, u32, u32)) -> u32 {
        if let Some(index) = self.known_locations.get(&position) {
            return *index;
        }
        let index = self.syntax.locations.len() as u32;
        let (file, line, column) = position;
        self.syntax.locations.push(Location { file, line, column, inlined_at: None });
        self.known_locations.insert(position, index);
        index
    }

    fn instruction(&mut self) -> Parse<Instruction> {
        let guard = if self.eat('@') {
            let negated = self.eat('!');
            Some(Guard { register: self.word("a predicate register")?.to_owned(), negated })
        } else {
            None
        };
        let position = self.position();
        let opcode = self.word("an instruction")?.to_owned();
        let mut modifiers = Vec::new();
        while let TokenKind::Dot(modifier) = self.peek() {
            self.advance();
            modifiers.push(modifier.to_owned());
        }
        let mut operands = Vec::new();
        if self.peek() != TokenKind::Symbol(';') {
            operands.push(self.operand(&opcode)?);
            while self.eat(',') {
                operands.push(self.operand(&opcode)?);
            }
        }
        self.expect(';')?;
        Ok(Instruction { opcode, modifiers, operands, guard, position, location: self.location })
    }

    fn operand(&mut self, opcode: &str) -> Parse<Operand> {
        let first = match self.peek() {
            TokenKind::Word(name) if self.peek_second() == TokenKind::Symbol('[') => {
                self.array_element(name, opcode)?
            }
            TokenKind::Symbol('{') => Operand::Vector(self.operand_list('{', '}')?),
            TokenKind::Symbol('(') => Operand::List(self.operand_list('(', ')')?),
            TokenKind::Symbol('[') => self.address()?,
            _ => self.scalar()?,
        };
        if self.eat('|') {
            let second = self.scalar()?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    /// `name[index]` of an array: the element itself, or its address for `mov`.
    fn array_element(&mut self, name: &str, opcode: &str) -> Parse<Operand> {
        let position = self.position();
        let Some(bytes) = self.element_bytes.get(name).copied() else {
            return self.error(position, format!("`{name}` is indexed and is no array that was declared before"));
        };
        self.advance();
        self.advance();
        let index = self.integer("an index")? as i64;
        self.expect(']')?;
        let (name, offset) = (name.to_owned(), index.wrapping_mul(bytes as i64));
        Ok(match opcode {
            "mov" => Operand::Offset { name, offset },
            _ => Operand::Address { base: Base::Name(name), offset, coordinates: Vec::new() },
        })
    }

    /// Scalars between brackets.
    fn operand_list(&mut self, open: char, close: char) -> Parse<Vec<Operand>> {
        self.expect(open)?;
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(self.scalar()?);
            if !self.eat(',') {
                self.expect(close)?;
                return Ok(items);
            }
        }
    }

    /// A name or a literal.
    fn scalar(&mut self) -> Parse<Operand> {
        let negative = self.eat('-');
        match self.peek() {
            TokenKind::Integer(value) => {
                self.advance();
                Ok(Operand::Integer(if negative { value.wrapping_neg() } else { value }))
            }
            TokenKind::Single(bits) => {
                self.advance();
                Ok(Operand::Single(bits ^ u32::from(negative) << 31))
            }
            TokenKind::Double(bits) => {
                self.advance();
                Ok(Operand::Double(bits ^ u64::from(negative) << 63))
            }
            TokenKind::Symbol('!') if !negative => {
                self.advance();
                Ok(Operand::Negated(self.word("a predicate register")?.to_owned()))
            }
            TokenKind::Word(_) if !negative => {
                let name = self.dotted_name()?;
                match self.peek() {
                    TokenKind::Symbol('+' | '-') => Ok(Operand::Offset { name, offset: self.signed_offset()? }),
                    _ => Ok(Operand::Name(name)),
                }
            }
            _ => self.expected("an operand"),
        }
    }

    /// A name with members, as in `%tid.x`.
    fn dotted_name(&mut self) -> Parse<String> {
        let mut name = self.word("a name")?.to_owned();
        while let TokenKind::Dot(member) = self.peek() {
            self.advance();
            name.push('.');
            name.push_str(member);
        }
        Ok(name)
    }

    fn address(&mut self) -> Parse<Operand> {
        self.expect('[')?;
        let (base, offset) = match self.peek() {
            TokenKind::Word(_) => (Base::Name(self.dotted_name()?), self.signed_offset()?),
            TokenKind::Integer(value) => {
                self.advance();
                (Base::None, value as i64)
            }
            _ => return self.expected("an address"),
        };
        let mut coordinates = Vec::new();
        while self.eat(',') {
            coordinates.push(match self.peek() {
                TokenKind::Symbol('{') => Operand::Vector(self.operand_list('{', '}')?),
                _ => self.scalar()?,
            });
        }
        self.expect(']')?;
        Ok(Operand::Address { base, offset, coordinates })
    }

    /// Any number of `+ n`, `- n`, `+ -n`; their sum.
    pub(super) fn signed_offset(&mut self) -> Parse<i64> {
        let mut offset = 0_i64;
        loop {
            let mut negative = match self.peek() {
                TokenKind::Symbol('+') => false,
                TokenKind::Symbol('-') => true,
                _ => return Ok(offset),
            };
            self.advance();
            negative ^= self.eat('-');
            let value = self.integer("an offset")? as i64;
            offset = if negative { offset.wrapping_sub(value) } else { offset.wrapping_add(value) };
        }
    }
}
