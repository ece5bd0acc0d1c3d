//! cubek-attention as a contender of `fa512 bench`: computes and times on request, by the protocol of `baselines/torch/contender.py`.
//!
//! To run by hand: `echo '{"command": "hello"}' | fa512-cubek`. The argument is a Python interpreter whose wheels may have CUDA's
//! headers and NVRTC.

mod candidate;
mod cuda;
mod prepared;
mod problem;
mod protocol;
mod reference;
mod shape;
mod tensor_file;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;

use cubecl::client::Client;
use serde_json::json;

use candidate::BACKENDS;
use prepared::{Prepared, caught};
use protocol::{Answer, Refusal, Request, object};

/// Versions of the contender's crates, as in Cargo.toml.
const VERSIONS: [(&str, &str); 2] = [("cubek-attention", "0.3.1"), ("cubecl", "0.11.3")];

/// Answers requests.
#[derive(Default)]
struct Contender {
    client: Option<Client>,
    prepared: BTreeMap<u64, Prepared>,
}

impl Contender {
    fn answer(&mut self, request: Request, python: Option<&PathBuf>) -> Answer {
        match request {
            Request::Hello => self.hello(python),
            Request::Prepare(request) => {
                let client = self.client.as_ref().ok_or_else(|| Refusal::failed("the first request must be hello"))?;
                let prepared = Prepared::new(client, &request)?;
                let function = prepared.function();
                self.prepared.insert(request.id, prepared);
                Ok(object(json!({"function": function})))
            }
            Request::Answer { id, path } => self.known(id)?.answer(&path),
            Request::WarmUp { id, input_sets, milliseconds, host_launch } => {
                self.known(id)?.warm_up(input_sets, milliseconds, host_launch)
            }
            Request::Capture { id, calls } => self.known(id)?.capture(calls),
            Request::Sample { id } => self.known(id)?.sample(),
            Request::Release { id } => {
                self.prepared.remove(&id);
                if let Some(client) = &self.client {
                    // Memory that cannot be freed now is freed when the process ends.
                    let _ = client.memory_cleanup();
                }
                Ok(object(json!({})))
            }
        }
    }

    fn known(&mut self, id: u64) -> Result<&mut Prepared, Refusal> {
        self.prepared.get_mut(&id).ok_or_else(|| Refusal::failed(format!("nothing is prepared under id {id}")))
    }

    fn hello(&mut self, python: Option<&PathBuf>) -> Answer {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let toolkit = cuda::find(variable, python.map(PathBuf::as_path))?;
        let nvrtc = toolkit.load()?;
        // SAFETY: no other thread runs yet; CubeCL starts its threads with the client.
        unsafe { std::env::set_var(cuda::VARIABLES[0], &toolkit.root) };
        let device = cubecl::Device::cuda(0).map_err(|error| Refusal::unavailable(format!("CubeCL: {error}")))?;
        let client = self.client.insert(device.client());
        let versions = VERSIONS.iter().map(|&(name, version)| (name.to_owned(), version.to_owned()));
        let versions = versions.chain([("nvrtc".to_owned(), nvrtc)]).collect();
        protocol::hello(versions, &client.properties().identity.name, BACKENDS.map(|backend| (backend, None)).into())
    }
}

fn main() -> std::io::Result<()> {
    let argument = std::env::args_os().nth(1);
    if argument.as_deref() == Some("--version".as_ref()) {
        let versions = VERSIONS.map(|(name, version)| format!("{name} {version}"));
        return writeln!(std::io::stdout(), "{}", versions.join(", "));
    }
    let python = argument.map(PathBuf::from);
    let mut contender = Contender::default();
    let mut answers = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer =
            protocol::request(&line?).and_then(|request| caught(|| contender.answer(request, python.as_ref())));
        writeln!(answers, "{}", protocol::line(answer))?;
        answers.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_that_are_built() {
        let manifest = include_str!("../Cargo.toml");
        for (name, version) in VERSIONS {
            assert!(manifest.contains(&format!("{name} = {{ version = \"={version}\"")), "{name} {version}");
        }
    }

    #[test]
    fn nothing_is_answered_before_hello() {
        let mut contender = Contender::default();
        let refused = contender.answer(Request::Sample { id: 4 }, None).unwrap_err();
        assert_eq!(refused.error(), "nothing is prepared under id 4");
        let plain = r#"{"command": "prepare", "id": 0, "backend": "accelerated", "q": "q", "k": "k", "v": "v", "layout": "bhsd",
            "rows_around": [null, null], "scale": 0.125, "element": "f16"}"#;
        let refused = contender.answer(protocol::request(plain).unwrap(), None).unwrap_err();
        assert_eq!(refused.error(), "the first request must be hello");
    }

    #[test]
    fn a_panic_is_an_answer() {
        let refused = caught::<()>(|| panic!("CUDA_ERROR_OUT_OF_MEMORY")).unwrap_err();
        assert_eq!(refused.error(), "panicked: CUDA_ERROR_OUT_OF_MEMORY");
    }
}
