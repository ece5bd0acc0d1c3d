//! Instructions that compute each lane's result from its own operands only.

use super::propagate::dependent_bits;
use crate::context::Context;
use crate::decode::{Decode, Form};
use crate::lane_function::LaneFunction;
use crate::lanes::lanes;
use crate::machine::Registers;
use crate::parse::Type;
use crate::program::{Destination, Slot};
use crate::unknown::Unknown;

/// Such an instruction: up to four operands, one or two results.
pub(crate) struct Lanewise {
    sources: [Slot; 4],
    source_count: usize,
    function: Function,
}

/// The operands of a `selp`.
pub(crate) struct Selection {
    pub from: [Slot; 2],
    /// The predicate.
    pub by: Slot,
    /// Whether a true predicate takes the first.
    pub takes_first: bool,
}

enum Function {
    One([Destination; 1], Box<dyn LaneFunction<1>>),
    Two([Destination; 2], Box<dyn LaneFunction<2>>),
}

impl Lanewise {
    /// `destination = function(sources)`. Missing operands have arbitrary values.
    pub fn new(
        destination: Destination,
        sources: &[Slot],
        function: impl Fn(&[u64; 4]) -> u64 + Send + Sync + 'static,
    ) -> Lanewise {
        Lanewise::with(sources, Function::One([destination], Box::new(move |operands: &[u64; 4]| [function(operands)])))
    }

    /// `[first, second] = function(sources)`.
    pub fn with_two_results(
        first: Destination,
        second: Destination,
        sources: &[Slot],
        function: impl Fn(&[u64; 4]) -> [u64; 2] + Send + Sync + 'static,
    ) -> Lanewise {
        Lanewise::with(sources, Function::Two([first, second], Box::new(function)))
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
        let unknown = context.unknown_in(&self.sources[..self.source_count], context.active);
        if unknown != 0 {
            return self.execute_with_unknown(context, unknown);
        }
        self.compute(&mut context.warp.registers, context.active);
    }

    fn compute(&self, registers: &mut Registers, active: u32) {
        match &self.function {
            Function::One(destinations, function) => self.apply(registers, active, &**function, destinations),
            Function::Two(destinations, function) => self.apply(registers, active, &**function, destinations),
        }
    }

    fn apply<const RESULTS: usize>(
        &self,
        registers: &mut Registers,
        active: u32,
        function: &dyn LaneFunction<RESULTS>,
        destinations: &[Destination; RESULTS],
    ) {
        let operands = self.sources.map(|slot| &registers.values[slot as usize]);
        let results = function.of_lanes(operands, active, destinations.map(|destination| destination.mask));
        for (destination, row) in destinations.iter().zip(&results) {
            registers.set(destination.slot, active, row);
        }
    }

    /// [`Self::execute`] for lanes with undetermined operands.
    #[cold]
    fn execute_with_unknown(&self, context: &mut Context<'_>, lanes_with_unknown: u32) {
        let registers = &mut context.warp.registers;
        let found: Vec<_> =
            lanes(lanes_with_unknown).map(|lane| (lane, self.unknown_results(registers, lane))).collect();
        self.compute(registers, context.active);
        for (lane, results) in found {
            for (destination, unknown) in self.destinations().into_iter().zip(results) {
                if let Some(destination) = destination {
                    registers.set_unknown(destination.slot, lane, unknown);
                }
            }
        }
    }

    /// What it selects from, if it is a `selp`.
    pub fn selection(&self) -> Selection {
        let [first, second, by, _] = self.sources;
        let takes_first = match &self.function {
            Function::One(_, function) => function.of_lane(&[1, 0, 1, 0]) == [1],
            Function::Two(..) => false,
        };
        Selection { from: [first, second], by, takes_first }
    }

    fn destinations(&self) -> [Option<Destination>; 2] {
        match &self.function {
            Function::One([destination], _) => [Some(*destination), None],
            Function::Two(destinations, _) => destinations.map(Some),
        }
    }

    /// The undetermined bits of the results in a lane.
    fn unknown_results(&self, registers: &Registers, lane: usize) -> [Option<Unknown>; 2] {
        let operands = self.sources.map(|slot| registers.values[slot as usize][lane]);
        let unknown = self.sources.map(|slot| registers.unknown(slot, lane));
        let Some(first) = unknown.into_iter().flatten().next() else { return [None; 2] };
        let bits = unknown.map(|unknown| unknown.map_or(0, |unknown| unknown.bits));
        let masks = self.destinations().map(|destination| destination.map_or(0, |destination| destination.mask));
        let results = match &self.function {
            Function::One(_, function) => {
                dependent_bits(|v| [function.of_lane(v)[0], 0], &operands, &bits, &self.sources, masks)
            }
            Function::Two(_, function) => {
                dependent_bits(|v| function.of_lane(v), &operands, &bits, &self.sources, masks)
            }
        };
        let computed = Unknown { is_computed: true, ..first };
        [computed.with_bits(results[0] & masks[0]), computed.with_bits(results[1] & masks[1])]
    }
}
