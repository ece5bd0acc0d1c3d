//! Where the variables of a module lie.
//!
//! ptx-sim places them when an entry that uses them is launched. To learn the addresses before, modules with variables get an
//! entry more, behind their text, which stores them.

use ptx_sim::{GlobalMemory, Launch, Options};

use crate::declarations::{Declarations, VariableDeclaration};
use crate::error::{Error, Result};

/// Name of the entry; the driver API does not show it.
const ENTRY: &str = "$sim_device_addresses_of_variables";
/// Bytes of an address.
const ADDRESS: usize = 8;

/// The variables that have addresses.
fn placed(declarations: &Declarations) -> impl Iterator<Item = &VariableDeclaration> {
    declarations.variables.iter().filter(|variable| variable.has_address())
}

/// `text` with an entry that stores the addresses of its variables; `None` when it has none.
pub(crate) fn with_probe(text: &str, declarations: &Declarations) -> Option<String> {
    placed(declarations).next()?;
    let stores = placed(declarations).enumerate().map(|(index, variable)| {
        let (name, offset) = (&variable.name, index * ADDRESS);
        format!("mov.u64 %address, {name};\nst.global.u64 [%to+{offset}], %address;\n")
    });
    Some(format!(
        "{text}\n.visible .entry {ENTRY}(.param .u64 {ENTRY}_to)\n{{\n.reg .b64 %to, %address;\n\
         ld.param.u64 %to, [{ENTRY}_to];\n{}ret;\n}}\n",
        stores.collect::<String>()
    ))
}

/// Address and size of each variable of a module made from what [`with_probe`] gave, by name; they are placed now, unless they
/// were before.
pub(crate) fn addresses(
    module: &ptx_sim::Module,
    declarations: &Declarations,
    memory: &mut GlobalMemory,
    architecture: u32,
) -> Result<Vec<(String, u64, u64)>> {
    let failed = |error: &dyn std::fmt::Display| Error::unsupported(format!("the addresses of variables: {error}"));
    let bytes = placed(declarations).count() * ADDRESS;
    let to = memory.allocate("the addresses of variables", bytes as u64).map_err(|error| failed(&error))?;
    let launch = Launch {
        entry: ENTRY,
        grid: [1; 3],
        block: [1; 3],
        dynamic_shared_bytes: 0,
        params: &[&to.to_le_bytes()],
        architecture,
    };
    let options = Options { threads: 1, races: false, overlaps_previous: Some(false), ..Options::default() };
    let result = ptx_sim::run(module, memory, &launch, &options).map_err(|error| failed(&error));
    let mut stored = vec![0; bytes];
    let read = memory.read(to, &mut stored).and_then(|()| memory.free(to)).map_err(|error| failed(&error));
    if let Some(finding) = result?.findings.first() {
        return Err(failed(finding));
    }
    read?;
    let (each, _) = stored.as_chunks::<ADDRESS>();
    let addresses = each.iter().map(|bytes| u64::from_le_bytes(*bytes));
    Ok(placed(declarations).zip(addresses).map(|(one, address)| (one.name.clone(), address, one.bytes)).collect())
}
