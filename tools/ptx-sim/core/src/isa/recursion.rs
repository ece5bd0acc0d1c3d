//! Which functions can be called recursively.

use super::operation::Operation;
use crate::program::{Call, Callee, Function};

/// Determines which functions can be called recursively. A call through a pointer may call any function.
pub(super) fn find_recursion(functions: &mut [Option<Function>], operations: &[Operation], calls: &[Call]) {
    let known: Vec<usize> = (0..functions.len()).filter(|number| functions[*number].is_some()).collect();
    let mut starts: Vec<(u32, usize)> = Vec::new();
    for number in &known {
        starts.extend(functions[*number].as_ref().map(|function| (function.start, *number)));
    }
    starts.sort_unstable();
    let mut callees: Vec<Vec<usize>> = vec![Vec::new(); functions.len()];
    for (pc, operation) in operations.iter().enumerate() {
        let after = starts.partition_point(|(start, _)| *start as usize <= pc);
        let (Some(call), Some(caller)) = (operation.call(), after.checked_sub(1)) else { continue };
        let caller = &mut callees[starts[caller].1];
        match calls[call as usize].callee {
            Callee::Function(number) => caller.push(number),
            Callee::Address(_) => caller.extend(&known),
        }
    }
    for number in known {
        let mut seen = vec![false; functions.len()];
        let mut open = callees[number].clone();
        while let Some(next) = open.pop() {
            if !std::mem::replace(&mut seen[next], true) {
                open.extend(&callees[next]);
            }
        }
        if let Some(function) = &mut functions[number] {
            function.is_recursive = seen[number];
        }
    }
}
