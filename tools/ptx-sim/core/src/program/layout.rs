//! Placement of an entry's variables in the shared, local, param and global spaces.

use std::collections::HashMap;

use super::function::function_address;
use super::reach::Reach;
use crate::memory::{GlobalMemory, MemoryError, SYSTEM_SHARED_BYTES, parameter_address};
use crate::parse::{Entry, Initialiser, Space, Statement, Syntax, Variable};

/// Location of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub space: Space,
    pub address: u64,
    pub bytes: u64,
}

/// A placed module variable in global or constant memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleVariable {
    /// Its name.
    pub name: String,
    /// Its first address.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its declared element type, for example `f32`; `b8` for most arrays and structs.
    pub element: String,
}

/// A parameter of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub name: String,
    /// Address in the param space.
    pub address: u64,
    pub bytes: u64,
}

/// Sizes of the spaces of an entry, and locations of the variables.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub parameters: Vec<Parameter>,
    /// Static shared memory, including padding before the dynamic part.
    pub static_shared_bytes: u64,
    /// Local memory per thread.
    pub local_bytes: u64,
    /// By name; variables of the body first, then those of the module.
    pub places: HashMap<String, Place>,
    /// Names and first addresses of shared variables, for messages.
    pub shared_names: Vec<(String, u64)>,
}

impl Layout {
    /// Places everything that `entry` reaches; allocates and initialises global variables in `memory`.
    pub fn new(
        syntax: &Syntax,
        module: u64,
        entry: &Entry,
        reach: &Reach<'_>,
        memory: &mut GlobalMemory,
    ) -> Result<Layout, MemoryError> {
        let mut layout = Layout::default();
        layout.place_parameters(entry);
        layout.place_functions(syntax);
        layout.place_globals(&reach.variables, module, memory)?;
        let functions = reach.functions.iter().filter_map(|number| syntax.functions[*number].body.as_deref());
        let bodies = std::iter::once(entry.body.as_slice()).chain(functions);
        let own = bodies.flatten().filter_map(variable);
        let shared = reach.variables.iter().copied().chain(own).filter(|variable| variable.space == Space::Shared);
        layout.place_shared(&shared.collect::<Vec<_>>());
        let own = entry.body.iter().filter_map(variable);
        for variable in own.filter(|variable| variable.space == Space::Local) {
            let bytes = variable.bytes.unwrap_or(0);
            let address = layout.local_bytes.next_multiple_of(variable.alignment);
            layout.local_bytes = address + bytes;
            layout.places.insert(variable.name.clone(), Place { space: Space::Local, address, bytes });
        }
        Ok(layout)
    }

    /// Allocates and initialises the module's global variables in `memory` that no launch has placed, and returns all.
    pub fn place_variables(
        syntax: &Syntax,
        module: u64,
        memory: &mut GlobalMemory,
    ) -> Result<Vec<ModuleVariable>, MemoryError> {
        let mut layout = Layout::default();
        layout.place_functions(syntax);
        layout.place_globals(&syntax.variables.iter().collect::<Vec<_>>(), module, memory)?;
        let placed = |variable: &Variable| {
            let Place { address, bytes, .. } = *layout.places.get(&variable.name)?;
            let element = variable.element.to_string().trim_start_matches('.').to_owned();
            Some(ModuleVariable { name: variable.name.clone(), address, bytes, element })
        };
        let lies_in_memory = |variable: &&Variable| matches!(variable.space, Space::Global | Space::Constant);
        Ok(syntax.variables.iter().filter(lies_in_memory).filter_map(placed).collect())
    }

    /// Function addresses are the same in all entries of a module, since variables may hold them.
    fn place_functions(&mut self, syntax: &Syntax) {
        let aliases = syntax.aliases.keys().map(String::as_str);
        let names = syntax.functions.iter().map(|function| function.name.as_str()).chain(aliases);
        for name in names {
            let Some(number) = syntax.function(name) else { continue };
            let place = Place { space: Space::Global, address: function_address(number), bytes: 0 };
            self.places.insert(name.to_owned(), place);
        }
    }

    fn place_parameters(&mut self, entry: &Entry) {
        let mut end = 0;
        for parameter in &entry.parameters {
            let (name, bytes) = (parameter.name.clone(), parameter.bytes.unwrap_or(0));
            let address = parameter_address(end, parameter.alignment);
            end = if bytes == 0 { end } else { address + bytes };
            self.places.insert(name.clone(), Place { space: Space::Parameter, address, bytes });
            self.parameters.push(Parameter { name, address, bytes });
        }
    }

    fn place_shared(&mut self, variables: &[&Variable]) {
        for variable in variables {
            let Some(bytes) = variable.bytes else { continue };
            let address = self.static_shared_bytes.next_multiple_of(variable.alignment);
            self.static_shared_bytes = address + bytes;
            self.place_shared_variable(variable, address, bytes);
        }
        let dynamic = variables.iter().filter(|variable| variable.bytes.is_none());
        let alignment = dynamic.clone().map(|variable| variable.alignment).max().unwrap_or(1);
        self.static_shared_bytes = self.static_shared_bytes.next_multiple_of(alignment);
        for variable in dynamic {
            self.place_shared_variable(variable, self.static_shared_bytes, 0);
        }
    }

    /// Places a variable `offset` bytes into the block's shared memory.
    fn place_shared_variable(&mut self, variable: &Variable, offset: u64, bytes: u64) {
        let address = SYSTEM_SHARED_BYTES + offset;
        self.places.insert(variable.name.clone(), Place { space: Space::Shared, address, bytes });
        self.shared_names.push((variable.name.clone(), address));
    }

    /// Two passes, since initialisers refer to addresses of other variables.
    fn place_globals(&mut self, used: &[&Variable], module: u64, memory: &mut GlobalMemory) -> Result<(), MemoryError> {
        let mut new = Vec::new();
        for variable in used.iter().filter(|variable| matches!(variable.space, Space::Global | Space::Constant)) {
            let Some(bytes) = variable.bytes else { continue };
            let (address, is_new) = memory.variable(module, &variable.name, bytes)?;
            self.places.insert(variable.name.clone(), Place { space: variable.space, address, bytes });
            if is_new {
                new.push((*variable, address, bytes));
            }
        }
        for (variable, address, bytes) in new {
            let contents = self.contents(variable);
            memory.write(address, &contents)?;
            memory.set_8(address + contents.len() as u64, 0, bytes - contents.len() as u64)?;
        }
        Ok(())
    }

    /// The bytes of an initialiser.
    fn contents(&self, variable: &Variable) -> Vec<u8> {
        let width = variable.element.bytes() as usize;
        let bits = |value: &Initialiser| match value {
            Initialiser::Bits(bits) => *bits,
            Initialiser::Address { name, offset } => {
                self.places.get(name).map_or(0, |place| place.address).wrapping_add_signed(*offset)
            }
        };
        let values = variable.initialiser.iter().map(bits);
        values.flat_map(|bits| u128::from(bits).to_le_bytes().into_iter().take(width)).collect()
    }
}

fn variable(statement: &Statement) -> Option<&Variable> {
    match statement {
        Statement::Variable(variable) => Some(variable),
        _ => None,
    }
}
