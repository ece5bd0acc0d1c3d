//! The functions of a module.

use std::collections::HashMap;

use crate::parse::{Signature, Syntax};

/// What is known of the functions of a module.
#[derive(Default)]
pub(crate) struct Signatures {
    pub(super) numbers: HashMap<String, usize>,
    /// By number.
    pub(super) functions: Vec<Known>,
}

/// A function.
pub(super) struct Known {
    pub name: String,
    pub signature: Signature,
    pub is_defined: bool,
}

impl Signatures {
    /// Of all functions of a module.
    pub fn of(syntax: &Syntax) -> Signatures {
        let names = syntax.functions.iter().map(|function| &function.name).chain(syntax.aliases.keys());
        let known = syntax.functions.iter().map(|function| Known {
            name: function.name.clone(),
            signature: function.signature.clone(),
            is_defined: function.body.is_some(),
        });
        Signatures {
            numbers: names.filter_map(|name| Some((name.clone(), syntax.function(name)?))).collect(),
            functions: known.collect(),
        }
    }
}
