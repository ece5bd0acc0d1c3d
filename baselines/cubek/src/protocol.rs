//! Requests and answers: one JSON object per line, as `baselines/torch/contender.py` describes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::shape::Layout;

/// Version of the protocol.
pub const PROTOCOL: u64 = 4;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Request {
    /// Versions, the device, and for each backend null or the reason why it cannot be used.
    Hello,
    /// Reads Q, K and V, tries the backend's candidates, and keeps the fastest correct one.
    Prepare(Box<Prepare>),
    /// Writes O to the file at `path`.
    Answer {
        /// Key of the prepared problem.
        id: u64,
        /// A `.npy` file.
        path: PathBuf,
    },
    /// Copies the inputs to a number of sets and runs for a given time.
    WarmUp {
        /// Key of the prepared problem.
        id: u64,
        /// Number of input sets.
        input_sets: usize,
        /// Duration of the run.
        milliseconds: f64,
        /// Whether to measure the host's cost of issuing a call.
        host_launch: bool,
    },
    /// Records a number of calls, each on the next input set, as a CUDA graph.
    Capture {
        /// Key of the prepared problem.
        id: u64,
        /// Calls per sample.
        calls: usize,
    },
    /// Replays the graph between two events.
    Sample {
        /// Key of the prepared problem.
        id: u64,
    },
    /// Forgets a prepared problem.
    Release {
        /// Key of the prepared problem.
        id: u64,
    },
}

/// A problem and its inputs.
#[derive(Debug, Deserialize)]
pub struct Prepare {
    /// Key of the prepared problem.
    pub id: u64,
    /// Backend whose fastest candidate is kept.
    pub backend: String,
    /// The file of Q.
    pub q: PathBuf,
    /// The file of K.
    pub k: PathBuf,
    /// The file of V.
    pub v: PathBuf,
    /// The order of dimensions.
    pub layout: Layout,
    /// Window: distances before and behind a query's own row at which its keys begin and end; null for no limit.
    pub rows_around: [Option<i64>; 2],
    /// The factor on scores.
    pub scale: f64,
    /// The type of elements.
    pub element: String,
    /// A file with the bias.
    pub bias: Option<PathBuf>,
    /// ALiBi slopes.
    pub slopes: Option<Value>,
    /// Softcap.
    pub softcap: Option<f64>,
}

/// An error with its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    kind: &'static str,
    error: String,
}

impl Refusal {
    /// Something is missing on this machine.
    pub fn unavailable(error: impl Into<String>) -> Self {
        Self { kind: "unavailable", error: error.into() }
    }

    /// The problem is not supported.
    pub fn invalid(error: impl Into<String>) -> Self {
        Self { kind: "invalid", error: error.into() }
    }

    /// Any other error.
    pub fn failed(error: impl Into<String>) -> Self {
        Self { kind: "failed", error: error.into() }
    }

    /// The reason.
    pub fn error(&self) -> &str {
        &self.error
    }
}

/// An answer or an error.
pub type Answer = Result<Map<String, Value>, Refusal>;

/// The line for `answer`.
pub fn line(answer: Answer) -> String {
    match answer {
        Ok(mut answer) => {
            answer.insert("ok".into(), true.into());
            Value::Object(answer)
        }
        Err(Refusal { kind, error }) => json!({"ok": false, "kind": kind, "error": error}),
    }
    .to_string()
}

/// Parses the request in a line.
///
/// # Errors
/// If it is not a valid request.
pub fn request(line: &str) -> Result<Request, Refusal> {
    serde_json::from_str(line).map_err(|error| Refusal::failed(format!("not a request: {error}: {line}")))
}

/// The answer to `hello`.
pub fn hello(versions: BTreeMap<String, String>, device: &str, backends: BTreeMap<&str, Option<String>>) -> Answer {
    Ok(object(json!({"protocol": PROTOCOL, "versions": versions, "device": device, "backends": backends})))
}

/// The fields of `value`, which must be an object.
pub fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request in the form that `fa512` sends.
    pub const PREPARE: &str = r#"{"command": "prepare", "id": 3, "backend": "accelerated", "q": "/t/q.npy", "k": "/t/k.npy",
        "v": "/t/v.npy", "layout": "bshd", "rows_around": [null, 0], "scale": 0.125, "element": "f16", "bias": null,
        "slopes": null, "softcap": null, "first_position": 0}"#;

    #[test]
    fn requests_are_read_as_fa512_sends_them() {
        assert!(matches!(request(r#"{"command": "hello"}"#), Ok(Request::Hello)));
        let Ok(Request::Prepare(prepare)) = request(PREPARE) else { panic!("not understood") };
        assert_eq!((prepare.id, prepare.layout, prepare.rows_around), (3, Layout::Bshd, [None, Some(0)]));
        let warm_up = r#"{"command": "warm_up", "id": 3, "input_sets": 7, "milliseconds": 20.0, "host_launch": true}"#;
        assert!(matches!(request(warm_up), Ok(Request::WarmUp { input_sets: 7, host_launch: true, .. })));
        assert!(matches!(
            request(r#"{"command": "capture", "id": 3, "calls": 30}"#),
            Ok(Request::Capture { calls: 30, .. })
        ));
        assert!(matches!(request(r#"{"command": "release", "id": 3}"#), Ok(Request::Release { id: 3 })));
    }

    #[test]
    fn what_is_no_request_is_told_back() {
        for text in ["", "[]", r#"{"command": "dance"}"#, r#"{"command": "sample"}"#] {
            let refusal = request(text).expect_err("no request");
            assert!(refusal.error().starts_with("not a request: ") && refusal.error().ends_with(text), "{refusal:?}");
        }
    }

    #[test]
    fn an_answer_is_one_line() {
        assert_eq!(line(Ok(object(json!({"us": 1.5})))), r#"{"ok":true,"us":1.5}"#);
        let refused = line(Err(Refusal::invalid("two\nlines")));
        assert_eq!(refused, r#"{"error":"two\nlines","kind":"invalid","ok":false}"#);
    }
}
