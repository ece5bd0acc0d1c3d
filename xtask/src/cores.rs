//! CPU cores shared by all concurrent processes. With more processes than cores, each evicts the others' caches and all end
//! later. Sharing follows make's jobserver protocol, which cargo and rustc use too: a computing process holds one of as many tokens
//! as there are cores.

use std::num::NonZero;
use std::process::Command;
use std::sync::LazyLock;
use std::thread;

use anyhow::{Context, Result};
use jobserver::{Acquired, Client};

/// The tokens; `None` if the system provides no pipe, in which case everything runs at once.
static TOKENS: LazyLock<Option<Client>> = LazyLock::new(|| Client::new(count()).ok());

/// Number of cores available to this process.
pub fn count() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Waits for a core, which is released when the result is dropped.
pub fn acquire() -> Result<Option<Acquired>> {
    TOKENS.as_ref().map(Client::acquire).transpose().context("could not wait for a core")
}

/// Lets `program`, whose first thread runs on a core held by the caller, use others while they are free.
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
