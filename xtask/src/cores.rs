//! The cores of this machine, shared by all that runs side by side: with more programs than cores each takes the others'
//! cache, and all of them end later. They share in make's way, which cargo and rustc follow too: a process that computes holds one
//! of as many tokens as there are cores.

use std::num::NonZero;
use std::process::Command;
use std::sync::LazyLock;
use std::thread;

use anyhow::{Context, Result};
use jobserver::{Acquired, Client};

/// The tokens; `None` where the system gives no pipe, and everything runs at once.
static TOKENS: LazyLock<Option<Client>> = LazyLock::new(|| Client::new(count()).ok());

/// How many cores this process may use.
pub fn count() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Waits for a core. It is free again when what comes back is dropped.
pub fn acquire() -> Result<Option<Acquired>> {
    TOKENS.as_ref().map(Client::acquire).transpose().context("could not wait for a core")
}

/// Lets `program`, for whose first thread the caller holds a core, take others while they are free.
pub fn share_with(program: &mut Command) {
    if let Some(tokens) = TOKENS.as_ref() {
        tokens.configure(program);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::share_with;
    use crate::process::capture;

    #[test]
    fn cargo_is_told_where_the_tokens_are() {
        let mut program = Command::new("sh");
        program.args(["-c", "echo $CARGO_MAKEFLAGS"]).env_remove("CARGO_MAKEFLAGS");
        share_with(&mut program);
        let said = capture(&mut program).unwrap();
        assert!(said.contains("--jobserver"), "it would start a thread for every core beside the others': {said:?}");
    }
}
