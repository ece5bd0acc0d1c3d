//! A code generator that compiles some of the variants.

use anyhow::Result;
use contract::backward::variants::BackwardVariant;
use contract::candidates::{declaration, declaration_of_backward};
use contract::manifest;
use contract::variants::Variant;

use super::{CodeGenerator, Compiled, Target};
use crate::environment::Workspace;
use crate::files::{sha256, write_atomically};

/// Compiles these variants and no other.
pub struct Selected<'a> {
    code_generator: Box<dyn CodeGenerator>,
    variants: &'a [&'a Variant<'a>],
    backward: &'a [&'a BackwardVariant],
}

impl<'a> Selected<'a> {
    /// `variants` and `backward` entries by `code_generator`; `None` where it can only compile all.
    pub fn new(
        code_generator: &dyn CodeGenerator,
        variants: &'a [&'a Variant<'a>],
        backward: &'a [&'a BackwardVariant],
        workspace: &Workspace,
    ) -> Result<Option<Self>> {
        let mut list: String = variants.iter().map(|variant| declaration(variant)).collect();
        list.extend(backward.iter().map(|variant| declaration_of_backward(variant)));
        let path = workspace.device_target().join("selected").join(format!("{}.rs", &sha256(list.as_bytes())[..16]));
        write_atomically(&path, list.as_bytes())?;
        // The first worker shares the target folder of all variants, where Rust's `core` is compiled.
        let selected = code_generator.for_candidates(&path, 0);
        Ok(selected.map(|code_generator| Self { code_generator, variants, backward }))
    }
}

impl CodeGenerator for Selected<'_> {
    fn identity(&self) -> manifest::CodeGenerator {
        self.code_generator.identity()
    }

    fn has(&self, variant: &Variant) -> bool {
        self.variants.contains(&variant)
    }

    fn has_backward(&self, variant: &BackwardVariant) -> bool {
        self.backward.contains(&variant)
    }

    fn compile(&self, target: &Target) -> Result<Compiled> {
        self.code_generator.compile(target)
    }

    fn lint(&self, target: &Target) -> Result<Option<usize>> {
        self.code_generator.lint(target)
    }
}
