//! A whole entry: syntax to typed instructions. All of it is decoded before anything runs.

use super::operation::{self, Operation};
use crate::decode::{Decode, Decoder, Form, Refusal};
use crate::parse::{self, Entry, Position, Statement};
use crate::program::{Instruction, Layout, Program};

/// A decoded entry.
pub(crate) struct Code {
    pub program: Program,
    /// What each of the program's instructions does.
    pub operations: Vec<Operation>,
}

/// Decodes an entry whose variables were placed.
pub(crate) fn decode(entry: &Entry, layout: Layout) -> Result<Code, (Position, Refusal)> {
    let mut decoder = Decoder::new(layout);
    decoder.declare(&entry.body)?;
    decoder.enter_body();
    let (mut instructions, mut operations) = (Vec::new(), Vec::new());
    for statement in &entry.body {
        match statement {
            Statement::Open => decoder.open_scope(),
            Statement::Close => decoder.close_scope(),
            Statement::Instruction(syntax) => {
                let decoded = instruction(&mut decoder, syntax).map_err(|error| (syntax.position, error))?;
                instructions.push(decoded.0);
                operations.push(decoded.1);
            }
            _ => {}
        }
    }
    let program = Program {
        uses_wgmma: operations.iter().any(Operation::is_wgmma),
        uses_async_proxy: operations.iter().any(Operation::uses_async_proxy),
        waits_for_previous_grid: operations.iter().any(Operation::waits_for_previous_grid),
        instructions,
        registers: decoder.registers,
        register_names: decoder.register_names,
        layout: decoder.layout,
        minimum_blocks: entry.minimum_blocks,
        maximum_registers: entry.maximum_registers,
    };
    Ok(Code { program, operations })
}

fn instruction(decoder: &mut Decoder, syntax: &parse::Instruction) -> Decode<(Instruction, Operation)> {
    let guard = syntax.guard.as_ref().map(|guard| decoder.guard(guard)).transpose()?;
    let mut form = Form::new(decoder, syntax);
    let (class, operation) = operation::decode(&mut form)?;
    let (reads, writes) = form.finish()?;
    let instruction = Instruction {
        guard,
        class,
        collective: operation.collective(),
        semantics: operation.semantics(),
        is_strong_read: operation.is_strong_memory() && !writes.is_empty(),
        is_compare_and_swap: operation.is_compare_and_swap(),
        is_wgmma: operation.is_wgmma(),
        line: syntax.position.line,
        location: syntax.location,
        name: syntax.name(),
        reads,
        writes,
    };
    Ok((instruction, operation))
}
