//! Instructions that compute each lane's result from that lane's operands alone.

use crate::context::Context;
use crate::decode::{Decode, Form};
use crate::lanes::{LANES, lanes};
use crate::parse::Type;
use crate::program::{Destination, Slot};

type OneResult = Box<dyn Fn(&[u64; 4]) -> u64 + Send + Sync>;
type TwoResults = Box<dyn Fn(&[u64; 4]) -> [u64; 2] + Send + Sync>;

/// One such instruction: up to four operands, one or two results.
pub(crate) struct Lanewise {
    sources: [Slot; 4],
    source_count: usize,
    function: Function,
}

enum Function {
    One(Destination, OneResult),
    Two(Destination, Destination, TwoResults),
}

impl Lanewise {
    /// `destination = function(sources)`. Operands that the instruction lacks have any value.
    pub fn new(
        destination: Destination,
        sources: &[Slot],
        function: impl Fn(&[u64; 4]) -> u64 + Send + Sync + 'static,
    ) -> Lanewise {
        Lanewise::with(sources, Function::One(destination, Box::new(function)))
    }

    /// `[first, second] = function(sources)`.
    pub fn with_two_results(
        first: Destination,
        second: Destination,
        sources: &[Slot],
        function: impl Fn(&[u64; 4]) -> [u64; 2] + Send + Sync + 'static,
    ) -> Lanewise {
        Lanewise::with(sources, Function::Two(first, second, Box::new(function)))
    }

    /// Takes a destination and a source for each of `sources` from `form`, joined by `function`.
    pub fn take(
        form: &mut Form<'_>,
        destination: Type,
        sources: &[Type],
        function: impl Fn(&[u64; 4]) -> u64 + Send + Sync + 'static,
    ) -> Decode<Lanewise> {
        let destination = form.destination(destination)?;
        let sources = sources.iter().map(|kind| form.source(*kind)).collect::<Decode<Vec<_>>>()?;
        Ok(Lanewise::new(destination, &sources, function))
    }

    fn with(sources: &[Slot], function: Function) -> Lanewise {
        let mut slots = [sources.first().copied().unwrap_or(0); 4];
        slots[..sources.len()].copy_from_slice(sources);
        Lanewise { sources: slots, source_count: sources.len(), function }
    }

    /// Executes it in the active lanes.
    pub fn execute(&self, context: &mut Context<'_>) {
        context.require(&self.sources[..self.source_count]);
        let active = context.active;
        let registers = &mut context.warp.registers;
        let [a, b, c, d] = self.sources.map(|slot| slot as usize);
        let inputs =
            |values: &[[u64; LANES]], lane: usize| [values[a][lane], values[b][lane], values[c][lane], values[d][lane]];
        match &self.function {
            Function::One(destination, function) => {
                for lane in lanes(active) {
                    let result = function(&inputs(&registers.values, lane));
                    registers.values[destination.slot as usize][lane] = result & destination.mask;
                }
                registers.initialised[destination.slot as usize] |= active;
            }
            Function::Two(first, second, function) => {
                for lane in lanes(active) {
                    let [one, two] = function(&inputs(&registers.values, lane));
                    registers.values[first.slot as usize][lane] = one & first.mask;
                    registers.values[second.slot as usize][lane] = two & second.mask;
                }
                registers.initialised[first.slot as usize] |= active;
                registers.initialised[second.slot as usize] |= active;
            }
        }
    }
}
