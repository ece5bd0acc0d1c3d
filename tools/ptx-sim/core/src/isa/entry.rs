//! A whole entry: syntax to typed instructions. All of it is decoded before anything runs.

use super::operation::{self, Operation};
use super::recursion;
use super::tested;
use crate::decode::{Decode, Decoder, Form, Refusal, Signatures};
use crate::parse::{self, Entry, Position, Statement, Syntax};
use crate::program::{Function, Instruction, Layout, Program, Reach};

/// A decoded entry.
pub(crate) struct Code {
    pub program: Program,
    /// What each of the program's instructions does.
    pub operations: Vec<Operation>,
}

/// Decodes an entry whose variables were placed, and the functions that it reaches.
pub(crate) fn decode(
    syntax: &Syntax,
    entry: &Entry,
    reach: &Reach<'_>,
    layout: Layout,
) -> Result<Code, (Position, Refusal)> {
    let mut decoder = Decoder::new(layout, Signatures::of(syntax), syntax.version);
    let mut listing = Listing::default();
    let defined = reach.functions.iter().filter_map(|number| {
        let function = &syntax.functions[*number];
        function.body.as_deref().map(|body| (*number, function, body))
    });
    decoder.begin_entry();
    listing.body(&mut decoder, &entry.body, defined.clone().next().map(|_| "exit"))?;
    let frame = decoder.finish_entry();
    let mut functions: Vec<Option<Function>> = vec![None; syntax.functions.len()];
    for (number, function, body) in defined {
        let start = listing.instructions.len() as u32;
        decoder.begin_function(&function.signature).map_err(|error| (first_position(body), error))?;
        listing.body(&mut decoder, body, Some("ret"))?;
        functions[number] = Some(decoder.finish_function(&function.name, &function.signature, start));
    }
    let Listing { mut instructions, operations } = listing;
    tested::mark(&mut instructions, &operations);
    recursion::find_recursion(&mut functions, &operations, &decoder.calls);
    let has_frame = frame.bytes > 0 || functions.iter().any(Option::is_some);
    let program = Program {
        uses_stack: has_frame || operations.iter().any(Operation::uses_stack),
        uses_wgmma: operations.iter().any(Operation::is_wgmma),
        uses_async_proxy: operations.iter().any(Operation::uses_async_proxy),
        async_proxy_writes: operations.iter().any(Operation::async_proxy_writes),
        waits_for_previous_grid: operations.iter().any(Operation::waits_for_previous_grid),
        instructions,
        registers: decoder.registers,
        register_names: decoder.register_names,
        layout: decoder.layout,
        functions,
        calls: decoder.calls,
        frame,
        minimum_blocks: entry.minimum_blocks,
        maximum_registers: entry.maximum_registers,
    };
    Ok(Code { program, operations })
}

fn first_position(body: &[Statement]) -> Position {
    let positions = body.iter().filter_map(|statement| match statement {
        Statement::Instruction(instruction) => Some(instruction.position),
        _ => None,
    });
    positions.min().unwrap_or_default()
}

/// Instructions so far.
#[derive(Default)]
struct Listing {
    instructions: Vec<Instruction>,
    operations: Vec<Operation>,
}

impl Listing {
    /// Adds a body, and behind it the instruction `end`.
    fn body(
        &mut self,
        decoder: &mut Decoder,
        body: &[Statement],
        end: Option<&str>,
    ) -> Result<(), (Position, Refusal)> {
        decoder.declare(body, self.instructions.len() as u32)?;
        decoder.place_frame();
        decoder.enter_body();
        let mut last = Position::default();
        for statement in body {
            match statement {
                Statement::Open => decoder.open_scope(),
                Statement::Close => decoder.close_scope(),
                Statement::Instruction(syntax) => {
                    self.instruction(decoder, syntax)?;
                    last = syntax.position;
                }
                _ => {}
            }
        }
        let Some(opcode) = end else { return Ok(()) };
        let end = parse::Instruction {
            opcode: opcode.to_owned(),
            modifiers: Vec::new(),
            operands: Vec::new(),
            guard: None,
            position: last,
            location: None,
        };
        self.instruction(decoder, &end)
    }

    fn instruction(&mut self, decoder: &mut Decoder, syntax: &parse::Instruction) -> Result<(), (Position, Refusal)> {
        let decoded = instruction(decoder, syntax).map_err(|error| (syntax.position, error))?;
        self.instructions.push(decoded.0);
        self.operations.push(decoded.1);
        Ok(())
    }
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
        is_tested: false,
        is_compare_and_swap: operation.is_compare_and_swap(),
        reads_texels: operation.reads_texels(),
        is_wgmma: operation.is_wgmma(),
        reaches_cluster: operation.reaches_cluster(syntax),
        line: syntax.position.line,
        location: syntax.location,
        name: syntax.name(),
        reads,
        writes,
    };
    Ok((instruction, operation))
}
