//! Signals that end this process: they go to the program that it runs, whose end then is reported as any other.

use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, c_int};

/// The signals.
const SIGNALS: [c_int; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// The process of the program; 0 if there is none.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// A signal that came before the program was there; 0 for none.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Passes a signal on. A terminal sends its own, of its keys, to the program as well.
extern "C" fn pass_on(signal: c_int) {
    let program = PROGRAM.load(SeqCst);
    if signal == SIGINT || signal == SIGQUIT {
        return;
    }
    if program == 0 {
        EARLY.store(signal, SeqCst);
        return;
    }
    // SAFETY: `kill` may be called in a signal handler and takes no pointers.
    unsafe {
        libc::kill(program, signal);
    }
}

/// Runs a program to its end. Signals that would end this process end the program instead.
///
/// # Errors
/// If it cannot be started.
pub fn status(command: &mut Command) -> std::io::Result<ExitStatus> {
    for signal in SIGNALS {
        // SAFETY: the handler uses nothing but atomics and `kill`. The program starts without it.
        unsafe {
            libc::signal(signal, pass_on as *const () as libc::sighandler_t);
        }
    }
    let mut program = command.spawn()?;
    PROGRAM.store(program.id() as i32, SeqCst);
    match EARLY.swap(0, SeqCst) {
        0 => {}
        signal => pass_on(signal),
    }
    let status = program.wait();
    PROGRAM.store(0, SeqCst);
    status
}
