//! Directives of a module: versions, files, variables, entries and functions.

use super::{Entry, Initialiser, Parse, Parser, Space, TokenKind, Type, Variable};

/// Maximum alignment of a variable in bytes; more than any hardware needs.
const LARGEST_ALIGNMENT: u64 = 1 << 16;

impl<'a> Parser<'a> {
    /// A module.
    pub(super) fn module(&mut self) -> Parse<()> {
        loop {
            match self.peek() {
                TokenKind::End => break,
                TokenKind::Dot(directive) => self.directive(directive)?,
                _ => return self.expected("a directive"),
            }
        }
        if self.syntax.version == (0, 0) {
            return self.expected("a `.version` directive");
        }
        if self.syntax.target.is_empty() {
            return self.expected("a `.target` directive");
        }
        Ok(())
    }

    fn directive(&mut self, name: &'a str) -> Parse<()> {
        match name {
            "version" => self.version(),
            "target" => self.target(),
            "address_size" => self.address_size(),
            "file" => self.file_table(),
            "loc" => self.location(),
            "section" => self.section(),
            "pragma" => self.skip_statement(),
            "alias" => self.alias(),
            "visible" | "extern" | "weak" | "common" => {
                self.advance();
                Ok(())
            }
            "entry" => self.entry(),
            "func" => self.function(),
            _ => match Space::parse(name) {
                Some(space @ (Space::Global | Space::Shared | Space::Constant)) => {
                    for variable in self.variables(space)? {
                        self.syntax.variables.push(variable);
                    }
                    Ok(())
                }
                _ => self.expected("a directive of a module"),
            },
        }
    }

    fn version(&mut self) -> Parse<()> {
        self.advance();
        let position = self.position();
        let TokenKind::Double(bits) = self.peek() else { return self.expected("a version as in `8.0`") };
        let tenths = (f64::from_bits(bits) * 10.0).round();
        if !(10.0..=1000.0).contains(&tenths) {
            return self.error(position, "there is no such PTX version");
        }
        self.advance();
        self.syntax.version = (tenths as u32 / 10, tenths as u32 % 10);
        Ok(())
    }

    fn target(&mut self) -> Parse<()> {
        self.advance();
        let target = self.word("a target as in `sm_80`")?;
        target.clone_into(&mut self.syntax.target);
        while self.eat(',') {
            self.word("a target option")?;
        }
        Ok(())
    }

    fn address_size(&mut self) -> Parse<()> {
        self.advance();
        let position = self.position();
        match self.integer("an address size")? {
            64 => Ok(()),
            other => self.error(position, format!("an address size of {other} bits; only 64 is supported")),
        }
    }

    fn file_table(&mut self) -> Parse<()> {
        self.advance();
        let number = self.small_integer("file number")?;
        let TokenKind::Text(name) = self.peek() else { return self.expected("a file name in quotes") };
        self.advance();
        // Time stamp and size may follow.
        while self.eat(',') {
            self.integer("a number")?;
        }
        self.syntax.files.insert(number, name.to_owned());
        Ok(())
    }

    /// Skips debug information other than `.loc`.
    fn section(&mut self) -> Parse<()> {
        self.advance();
        self.advance();
        self.skip_braces()
    }

    fn entry(&mut self) -> Parse<()> {
        self.advance();
        let position = self.position();
        let name = self.word("the name of an entry")?.to_owned();
        if self.syntax.entries.iter().any(|entry| entry.name == name) {
            return self.error(position, format!("a second entry called `{name}`"));
        }
        let parameters = if self.peek() == TokenKind::Symbol('(') { self.parameters()? } else { Vec::new() };
        let body = Vec::new();
        let mut entry = Entry {
            name,
            parameters,
            maximum_threads: None,
            required_threads: None,
            minimum_blocks: None,
            maximum_registers: None,
            cluster: None,
            maximum_cluster: None,
            needs_cluster: false,
            body,
        };
        self.performance_directives(&mut entry)?;
        if self.eat(';') {
            return Ok(());
        }
        self.location = None;
        entry.body = self.body()?;
        self.syntax.entries.push(entry);
        Ok(())
    }

    fn parameters(&mut self) -> Parse<Vec<Variable>> {
        self.expect('(')?;
        let mut parameters = Vec::new();
        if self.eat(')') {
            return Ok(parameters);
        }
        loop {
            if self.peek() != TokenKind::Dot("param") {
                return self.expected("`.param`");
            }
            self.advance();
            parameters.push(self.variable(Space::Parameter)?);
            if !self.eat(',') {
                self.expect(')')?;
                return Ok(parameters);
            }
        }
    }

    /// The directives between the parameters and the body.
    fn performance_directives(&mut self, entry: &mut Entry) -> Parse<()> {
        while let TokenKind::Dot(name) = self.peek() {
            let position = self.position();
            self.advance();
            match name {
                "maxntid" => entry.maximum_threads = Some(self.extent()?),
                "reqntid" => entry.required_threads = Some(self.extent()?),
                "reqnctapercluster" => entry.cluster = Some(self.extent()?),
                "minnctapersm" => entry.minimum_blocks = Some(self.small_integer("a number of blocks")?),
                "maxnreg" => entry.maximum_registers = Some(self.small_integer("a number of registers")?),
                "maxclusterrank" => entry.maximum_cluster = Some(self.small_integer("a number of blocks")?),
                "explicitcluster" => entry.needs_cluster = true,
                "maxnctapersm" => drop(self.integer("a number")?),
                "noreturn" => {}
                "pragma" => self.skip_statement()?,
                _ => {
                    return self.error(position, format!("expected a performance directive or `{{`, found `.{name}`"));
                }
            }
        }
        Ok(())
    }

    fn extent(&mut self) -> Parse<[u32; 3]> {
        let mut extent = [1; 3];
        for (index, size) in extent.iter_mut().enumerate() {
            if index == 0 || self.eat(',') {
                *size = self.small_integer("size")?;
            }
        }
        Ok(extent)
    }

    /// A declaration of one or more variables, from the directive of its space to the `;`.
    pub(super) fn variables(&mut self, space: Space) -> Parse<Vec<Variable>> {
        self.advance();
        let first = self.variable(space)?;
        let mut variables = vec![first];
        while self.eat(',') {
            let (alignment, element) = (variables[0].alignment, variables[0].element);
            variables.push(self.declarator(space, alignment, element, 1)?);
        }
        self.expect(';')?;
        Ok(variables)
    }

    /// Alignment, type and name of a variable.
    pub(super) fn variable(&mut self, space: Space) -> Parse<Variable> {
        let (mut alignment, mut element, mut vector, mut is_managed) = (None, None, 1, false);
        while let TokenKind::Dot(word) = self.peek() {
            let position = self.position();
            self.advance();
            match word {
                "align" => {
                    let value = self.integer("an alignment in bytes")?;
                    if !value.is_power_of_two() || value > LARGEST_ALIGNMENT {
                        let message =
                            format!("an alignment of {value}; it must be a power of two up to {LARGEST_ALIGNMENT}");
                        return self.error(position, message);
                    }
                    // The alignment after `.ptr` is that of the pointee.
                    alignment = alignment.or((element.is_none() || space != Space::Parameter).then_some(value));
                }
                "attribute" => is_managed |= self.is_managed()?,
                "ptr" | "global" | "shared" | "const" | "local" if space == Space::Parameter => {}
                "v2" => vector = 2,
                "v4" => vector = 4,
                _ => match Type::parse(word) {
                    Some(kind) => element = Some(kind),
                    None => return self.error(position, format!("`.{word}` in the declaration of a variable")),
                },
            }
        }
        let Some(element) = element else { return self.expected("a type") };
        let natural = u64::from(element.bytes()) * vector;
        let variable = self.declarator(space, alignment.unwrap_or(natural), element, vector)?;
        Ok(Variable { is_managed, ..variable })
    }

    /// Whether the attributes in parentheses include `.managed`.
    fn is_managed(&mut self) -> Parse<bool> {
        self.expect('(')?;
        let is_managed = self.peek() == TokenKind::Dot("managed");
        while !self.eat(')') {
            let is_nested = self.peek() == TokenKind::Symbol('(');
            match self.peek() {
                TokenKind::End => return self.expected("`)`"),
                _ if is_nested => self.skip_parentheses()?,
                _ => drop(self.advance()),
            }
        }
        Ok(is_managed)
    }

    /// Name, dimensions and initialiser.
    fn declarator(&mut self, space: Space, alignment: u64, element: Type, vector: u64) -> Parse<Variable> {
        let position = self.position();
        let name = self.word("the name of a variable")?.to_owned();
        let element_bytes = u64::from(element.bytes()) * vector;
        let mut bytes = Some(element_bytes);
        self.element_bytes.insert(name.clone(), element_bytes);
        let mut inferred = false;
        while self.eat('[') {
            if self.eat(']') {
                inferred = true;
                continue;
            }
            let count = self.integer("an array size")?;
            self.expect(']')?;
            bytes = bytes.and_then(|bytes| bytes.checked_mul(count)).filter(|bytes| *bytes < 1 << 46);
            if bytes.is_none() {
                return self.error(position, format!("`{name}` is larger than any memory"));
            }
        }
        let initialiser = if self.eat('=') { self.initialiser(element)? } else { Vec::new() };
        if inferred {
            let count = initialiser.len() as u64;
            bytes = (count > 0).then(|| u64::from(element.bytes()) * count);
        }
        let given = initialiser.len() as u64 * u64::from(element.bytes());
        if given > bytes.unwrap_or(0) && given > 0 {
            return self.error(position, format!("{given} bytes of initial values for `{name}`, which is smaller"));
        }
        Ok(Variable { name, space, position, alignment, bytes, element, initialiser, is_managed: false })
    }

    /// One value, or values in braces (nested ones in order).
    fn initialiser(&mut self, element: Type) -> Parse<Vec<Initialiser>> {
        let mut values = Vec::new();
        let mut depth = 0_u32;
        loop {
            while self.eat('{') {
                depth += 1;
            }
            if self.peek() != TokenKind::Symbol('}') {
                values.push(self.initial_value(element)?);
            }
            while depth > 0 && self.eat('}') {
                depth -= 1;
            }
            if depth == 0 {
                return Ok(values);
            }
            self.expect(',')?;
        }
    }

    fn initial_value(&mut self, element: Type) -> Parse<Initialiser> {
        let negative = self.eat('-');
        let position = self.position();
        match self.advance() {
            TokenKind::Integer(value) => Ok(Initialiser::Bits(if negative { value.wrapping_neg() } else { value })),
            TokenKind::Single(bits) => Ok(Initialiser::Bits(u64::from(bits) ^ u64::from(negative) << 31)),
            TokenKind::Double(bits) => {
                let value = if negative { -f64::from_bits(bits) } else { f64::from_bits(bits) };
                let bits = if element == Type::F32 { u64::from((value as f32).to_bits()) } else { value.to_bits() };
                Ok(Initialiser::Bits(bits))
            }
            TokenKind::Word("generic") => {
                self.expect('(')?;
                let name = self.word("the name of a variable")?.to_owned();
                self.expect(')')?;
                Ok(Initialiser::Address { name, offset: self.signed_offset()? })
            }
            TokenKind::Word(name) => Ok(Initialiser::Address { name: name.to_owned(), offset: self.signed_offset()? }),
            other => self.error(position, format!("expected an initial value, found {}", other.describe())),
        }
    }
}
