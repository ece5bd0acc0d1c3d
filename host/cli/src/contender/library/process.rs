//! A child process that answers each line of JSON with another one.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::error::{Error, Result};

/// Number of last lines of standard error that are kept for messages.
const LINES_KEPT: usize = 12;
/// Number of characters of an answer that a message shows.
const SHOWN_CHARACTERS: usize = 200;
/// How long a program may take to exit after its output has ended, and to deliver its last messages.
const TIME_TO_END: Duration = Duration::from_secs(2);

/// A running child process; killed on drop.
pub struct Process {
    /// Its name in messages.
    name: String,
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
    complaints: Arc<Mutex<VecDeque<String>>>,
    complaints_reader: JoinHandle<()>,
}

impl Process {
    /// Starts `command`; messages call it `name`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it cannot be started.
    pub fn start(mut command: Command, name: String) -> Result<Self> {
        let program = command.get_program().display().to_string();
        let cannot_start = |reason: String| Error::Unavailable(format!("could not start {program}: {reason}"));
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| cannot_start(error.to_string()))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(requests), Some(output), Some(errors)) = pipes else {
            return Err(cannot_start("it has no standard streams".into()));
        };
        let complaints = Arc::new(Mutex::new(VecDeque::new()));
        let kept = complaints.clone();
        let complaints_reader = thread::spawn(move || keep_last_lines(errors, &kept));
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { name, child, requests, answers, complaints, complaints_reader })
    }

    /// Sends `request` and returns its answer.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the program has ended, takes longer than `patience`, or answers with something other
    /// than a JSON object. It cannot be used afterwards.
    pub fn ask(&mut self, request: &Value, patience: Duration) -> Result<Value> {
        if writeln!(self.requests, "{request}").and_then(|()| self.requests.flush()).is_err() {
            return Err(self.ended());
        }
        let line = match self.answers.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                let command = request["command"].as_str().unwrap_or_default();
                return Err(self.failure(format!("did not answer `{command}` within {patience:?}")));
            }
        };
        match serde_json::from_str(&line) {
            Ok(answer @ Value::Object(_)) => Ok(answer),
            _ => {
                // The pairing of requests and answers is lost.
                self.kill();
                let shown: String = line.chars().take(SHOWN_CHARACTERS).collect();
                Err(self.failure(format!("answered with something that is not a JSON object: {shown}")))
            }
        }
    }

    /// The error for a process that no longer runs.
    fn ended(&mut self) -> Error {
        let deadline = Instant::now() + TIME_TO_END;
        let is_ending =
            |this: &mut Self| matches!(this.child.try_wait(), Ok(None)) || !this.complaints_reader.is_finished();
        while is_ending(self) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        self.kill();
        let status = self.child.wait().map(|status| format!(" ({status})")).unwrap_or_default();
        self.failure(format!("ended{status}"))
    }

    fn failure(&self, what: String) -> Error {
        let complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        let said: String = complaints.iter().map(|line| format!("\n  {line}")).collect();
        Error::Unavailable(format!("{} {what}{said}", self.name))
    }

    fn kill(&mut self) {
        // An error means that it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn keep_last_lines(errors: impl Read, kept: &Mutex<VecDeque<String>>) {
    for line in BufReader::new(errors).lines().map_while(std::result::Result::ok) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == LINES_KEPT {
            kept.pop_front();
        }
        kept.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Time limit for immediate answers.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, "the stand-in".into()).unwrap()
    }

    fn ask(process: &mut Process, patience: Duration) -> String {
        process.ask(&json!({"command": "hello"}), patience).unwrap_err().to_string()
    }

    #[test]
    fn requests_and_answers_alternate() {
        let mut echo = shell("while read -r line; do echo \"{\\\"heard\\\": $line}\"; done");
        for number in 0..3 {
            let request = json!({"command": "count", "number": number});
            assert_eq!(echo.ask(&request, PATIENCE).unwrap(), json!({"heard": request}));
        }
    }

    #[test]
    fn a_program_that_ends_is_told_with_its_last_words() {
        let mut process = shell("read -r line; echo 'out of luck' >&2; exit 3");
        let message = ask(&mut process, PATIENCE);
        assert!(message.starts_with("the stand-in ended (exit status: 3)"), "{message}");
        assert!(message.contains("out of luck"), "{message}");
        assert!(ask(&mut process, PATIENCE).contains("ended"), "it stays ended");
    }

    #[test]
    fn a_program_that_does_not_answer_is_ended() {
        let mut process = shell("exec sleep 1000");
        let message = ask(&mut process, Duration::from_millis(50));
        assert_eq!(message, "the stand-in did not answer `hello` within 50ms");
        assert!(process.child.try_wait().unwrap().is_some(), "it must not run on");
    }

    #[test]
    fn an_answer_that_is_not_a_json_object_is_shown() {
        for said in ["Segmentation fault", "[1, 2]", ""] {
            let mut process = shell(&format!("read -r line; echo '{said}'; exec sleep 1000"));
            let message = ask(&mut process, PATIENCE);
            assert_eq!(message, format!("the stand-in answered with something that is not a JSON object: {said}"));
        }
    }

    #[test]
    fn a_program_that_is_no_longer_wanted_is_ended() {
        let mut process = shell("echo \"{\\\"pid\\\": $$}\"; exec sleep 1000");
        let pid = process.ask(&json!({}), PATIENCE).unwrap()["pid"].to_string();
        drop(process);
        let alive = Command::new("kill").args(["-0", &pid]).stderr(Stdio::null()).status().unwrap();
        assert!(!alive.success(), "process {pid} still runs");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = Process::start(Command::new("no-such-python"), "PyTorch".into()).err().unwrap().to_string();
        assert!(error.starts_with("could not start no-such-python: "), "{error}");
    }
}
