//! Functions, their declarations, aliases, and prototypes of calls.

use super::{Formal, Function, Parse, Parser, RegisterNames, Signature, Space, TokenKind};

impl<'a> Parser<'a> {
    /// `.func [(returns)] name [(parameters)]`, with a body or `;`.
    pub(super) fn function(&mut self) -> Parse<()> {
        self.advance();
        self.function_directives()?;
        let returns = self.optional_formals()?;
        let position = self.position();
        let name = self.word("the name of a function")?.to_owned();
        let parameters = self.optional_formals()?;
        self.function_directives()?;
        let signature = Signature { returns, parameters };
        self.location = None;
        let body = if self.eat(';') { None } else { Some(self.body()?) };
        match self.syntax.functions.iter_mut().find(|function| function.name == name) {
            Some(known) if known.body.is_some() && body.is_some() => {
                return self.error(position, format!("a second function called `{name}`"));
            }
            Some(known) if body.is_some() => *known = Function { name, signature, body },
            Some(_) => {}
            None => self.syntax.functions.push(Function { name, signature, body }),
        }
        Ok(())
    }

    /// `.alias other_name, function;`
    pub(super) fn alias(&mut self) -> Parse<()> {
        self.advance();
        let alias = self.word("a name")?.to_owned();
        self.expect(',')?;
        let function = self.word("the name of a function")?.to_owned();
        self.expect(';')?;
        self.syntax.aliases.insert(alias, function);
        Ok(())
    }

    /// `.callprototype [(returns)] _ [(parameters)] [directives];`
    pub(super) fn prototype(&mut self) -> Parse<Signature> {
        self.advance();
        let returns = self.optional_formals()?;
        self.word("`_`")?;
        let parameters = self.optional_formals()?;
        self.function_directives()?;
        self.expect(';')?;
        Ok(Signature { returns, parameters })
    }

    fn optional_formals(&mut self) -> Parse<Vec<Formal>> {
        let mut formals = Vec::new();
        if !self.eat('(') || self.eat(')') {
            return Ok(formals);
        }
        loop {
            formals.push(self.formal()?);
            if !self.eat(',') {
                self.expect(')')?;
                return Ok(formals);
            }
        }
    }

    fn formal(&mut self) -> Parse<Formal> {
        match self.peek() {
            TokenKind::Dot("param") => {
                self.advance();
                Ok(Formal::Parameter(self.variable(Space::Parameter)?))
            }
            TokenKind::Dot("reg") => {
                let kind = self.register_type()?;
                let position = self.position();
                let name = self.word("the name of a register")?.to_owned();
                Ok(Formal::Register { kind, name: RegisterNames { name, count: None, position } })
            }
            _ => self.expected("`.param` or `.reg`"),
        }
    }

    /// Directives around a function's signature; none of them changes what the function does.
    fn function_directives(&mut self) -> Parse<()> {
        while let TokenKind::Dot(name) = self.peek() {
            match name {
                "noreturn" => drop(self.advance()),
                "abi_preserve" | "abi_preserve_control" => {
                    self.advance();
                    self.integer("a number of registers")?;
                }
                "attribute" => {
                    self.advance();
                    self.skip_parentheses()?;
                }
                "pragma" => self.skip_statement()?,
                _ => return self.expected("a directive of a function"),
            }
        }
        Ok(())
    }
}
