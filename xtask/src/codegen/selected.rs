//! A code generator that compiles some of the variants.

use anyhow::Result;
use contract::candidates::declaration;
use contract::manifest;
use contract::variants::Variant;

use super::{CodeGenerator, Compiled, Target};
use crate::environment::Workspace;
use crate::files::{sha256, write_atomically};

/// Compiles these variants and no other.
pub struct Selected<'a> {
    code_generator: Box<dyn CodeGenerator>,
    variants: &'a [&'a Variant<'a>],
}

impl<'a> Selected<'a> {
    /// `variants` by `code_generator`; `None` where it can only compile all.
    pub fn new(
        code_generator: &dyn CodeGenerator,
        variants: &'a [&'a Variant<'a>],
        workspace: &Workspace,
    ) -> Result<Option<Self>> {
        let list: String = variants.iter().map(|variant| declaration(variant)).collect();
        let path = workspace.device_target().join("selected").join(format!("{}.rs", &sha256(list.as_bytes())[..16]));
        write_atomically(&path, list.as_bytes())?;
        // The first worker shares the target folder of all variants, where Rust's `core` is compiled.
        let selected = code_generator.for_candidates(&path, 0);
        Ok(selected.map(|code_generator| Self { code_generator, variants }))
    }
}

impl CodeGenerator for Selected<'_> {
    fn identity(&self) -> manifest::CodeGenerator {
        self.code_generator.identity()
    }

    fn has(&self, variant: &Variant) -> bool {
        self.variants.contains(&variant)
    }

    fn compile(&self, target: &Target) -> Result<Compiled> {
        self.code_generator.compile(target)
    }

    fn lint(&self, target: &Target) -> Result<Option<usize>> {
        self.code_generator.lint(target)
    }
}
