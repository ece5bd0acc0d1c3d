//! Tests the contenders with a substitute for Python: a shell script that speaks the protocol.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;

use contract::config::{Element, Mask};

use super::*;
use crate::contender::cubek::Strategy;
use crate::contender::torch::{self, Backend};
use crate::inputs::Distribution;
use crate::timing::{L2, Protocol};
use contract::problem::{Problem, Shape};
use contract::view::Views;

const HELLO: &str = r#"{"ok": true, "protocol": 4, "versions": {"torch": "2.11"}, "device": "stand-in",
    "backends": {"flash": null, "cudnn": null, "efficient": "no kernel for this GPU"}}"#;

/// A fake `python` that answers the hello with `hello`, and other commands by `cases`, the arms of a shell `case`.
struct StandIn {
    folder: tempfile::TempDir,
}

impl StandIn {
    fn new(hello: &str, cases: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "#!/bin/sh\nwhile read -r line; do\n  echo \"$line\" >> \"$(dirname \"$0\")/requests\"\n  case $line in\n\
             *'\"hello\"'*) cat <<'END'\n{}\nEND\n;;\n{cases}\n*) echo '{{\"ok\": true}}' ;;\n  esac\ndone\n",
            hello.replace('\n', " ")
        );
        let path = folder.path().join("python");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn start(&self) -> Result<Rc<Library>> {
        torch::start(Some(&self.folder.path().join("python")))
    }

    fn start_cubek(&self) -> Result<Rc<Library>> {
        let command = Command::new(self.folder.path().join("python"));
        Library::start(command, "the stand-in".into(), Library::folder().unwrap())
    }

    /// The requests received so far.
    fn requests(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("requests")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Answers with Q as O, and fixed times.
const GOOD: &str = r#"*'"answer"'*) o=${line##*'"path":"'}; o=${o%%'"'*}; cp "${o%o.npy}q.npy" "$o"; echo '{"ok": true}' ;;
*'"warm_up"'*) echo '{"ok": true, "call_us": 30.0, "host_launch_us": 12.5}' ;;
*'"sample"'*) echo '{"ok": true, "us": 31.5}' ;;"#;

fn workload(layout: Layout) -> Workload {
    workload_of(Element::F16, layout)
}

fn workload_of(element: Element, layout: Layout) -> Workload {
    let shape = Shape::new(2, 3, 5);
    let problem = Problem::new(shape, Mask::Causal, layout).unwrap().with_element(element);
    let inputs = Inputs::generate(problem, Distribution::Normal, 1).unwrap();
    Workload { inputs, protocol: Protocol::new(L2::Warm) }
}

fn message<T>(result: Result<T>) -> String {
    result.err().expect("must be refused").to_string()
}

#[test]
fn a_contender_answers_and_is_timed() {
    for (layout, element) in [(Layout::Bhsd, Element::F16), (Layout::Bshd, Element::Bf16)] {
        let stand_in = StandIn::new(HELLO, GOOD);
        let library = stand_in.start().unwrap();
        let mut contender = Backend::Cudnn.contender(&library);
        assert_eq!(contender.name(), "torch:cudnn");
        let workload = workload_of(element, layout);
        let mut prepared = contender.prepare(&workload).unwrap();
        let Implementation::Library { versions, .. } = prepared.implementation() else { panic!("it is a library") };
        assert_eq!(versions["torch"], "2.11");
        let answer = prepared.answer().unwrap();
        assert_eq!(answer.outputs.o[..], workload.inputs.storages()[0][..], "the stand-in gives Q");
        let mut sampler = prepared.into_sampler().unwrap();
        let batch = sampler.batch();
        assert_eq!((batch.calls, batch.input_sets, batch.host_launch_us), (34, 1, Some(12.5)), "1 ms of 30 µs calls");
        assert_eq!(sampler.sample().unwrap(), 31.5);
        drop(sampler);
        let requests = stand_in.requests();
        let commands: Vec<_> = requests.iter().map(|request| request["command"].as_str().unwrap()).collect();
        assert_eq!(commands, ["hello", "prepare", "answer", "warm_up", "capture", "sample", "release"]);
        let prepare = &requests[1];
        assert_eq!(prepare["element"], element.name());
        assert_eq!(
            (&prepare["layout"], &prepare["rows_around"], &prepare["scale"]),
            (&layout.name().into(), &json!([null, 0]), &0.125.into())
        );
        let left = fs::read_dir(library.folder.path()).unwrap().count();
        assert_eq!(left, 1, "tensors must not pile up beside the script");
    }
}

#[test]
fn what_the_machine_lacks_is_said_as_the_process_says_it() {
    let hello = r#"{"ok": false, "kind": "unavailable", "error": "python3 has no PyTorch"}"#;
    assert_eq!(message(StandIn::new(hello, "").start()), "python3 has no PyTorch");
    assert!(message(torch::start(Some(Path::new("no/such/python")))).starts_with("could not start no/such/python"));
}

#[test]
fn another_protocol_is_refused() {
    let hello = HELLO.replace(r#""protocol": 4"#, r#""protocol": 9"#);
    assert!(message(StandIn::new(&hello, "").start()).contains("speaks protocol 9, this program 4"));
    assert!(message(StandIn::new(r#"{"ok": true}"#, "").start()).contains("missing field"));
}

#[test]
fn a_backend_that_cannot_be_used_says_why() {
    let stand_in = StandIn::new(HELLO, GOOD);
    let library = stand_in.start().unwrap();
    let workload = workload(Layout::Bhsd);
    for (backend, reason) in [(Backend::Efficient, "no kernel for this GPU"), (Backend::Flex, "does not know it")] {
        let refused = message(backend.contender(&library).prepare(&workload));
        assert!(refused.contains(reason) && refused.contains(backend.name()), "{refused}");
    }
}

#[test]
fn a_refused_problem_names_the_contender() {
    let refuse = r#"*'"prepare"'*) echo '{"ok": false, "kind": "invalid", "error": "No available kernel"}' ;;"#;
    let stand_in = StandIn::new(HELLO, refuse);
    let library = stand_in.start().unwrap();
    let mut contender = Backend::Flash.contender(&library);
    let workload = workload(Layout::Bhsd);
    let error = contender.prepare(&workload).err().expect("must be refused");
    assert!(matches!(&error, Error::Invalid(reason) if reason == "torch:flash: No available kernel"), "{error}");
}

#[test]
fn a_process_that_dies_fails_what_it_was_asked_and_all_after() {
    let stand_in = StandIn::new(HELLO, r#"*'"answer"'*) echo 'CUDA error: an illegal memory access' >&2; exit 7 ;;"#);
    let library = stand_in.start().unwrap();
    let mut contender = Backend::Flash.contender(&library);
    let workload = workload(Layout::Bhsd);
    let error = message(contender.prepare(&workload).unwrap().answer());
    assert!(error.contains("ended (exit status: 7)") && error.contains("illegal memory access"), "{error}");
    assert!(message(contender.prepare(&workload)).contains("ended"));
}

#[test]
fn an_output_of_another_shape_is_refused() {
    let stand_in = StandIn::new(HELLO, GOOD);
    let library = stand_in.start().unwrap();
    let mut contender = Backend::Flash.contender(&library);
    let workload = workload(Layout::Bhsd);
    let mut prepared = contender.prepare(&workload).unwrap();
    let q = fs::read_dir(library.folder.path()).unwrap().flatten().map(|entry| entry.path());
    let q = q.into_iter().find(|path| path.to_string_lossy().ends_with("q.npy")).unwrap();
    npy::write_elements(&q, &[1, 1, 2, 64], Element::F16, &[0; 128]).unwrap();
    assert!(message(prepared.answer()).starts_with("torch:flash gave O of "));
}

#[test]
fn strides_that_pytorch_is_not_given_are_refused() {
    let stand_in = StandIn::new(HELLO, GOOD);
    let library = stand_in.start().unwrap();
    let contiguous = *workload(Layout::Bhsd).inputs.problem();
    let k = View::new(contract::args::Strides { head: 0, ..contiguous.views().k.strides });
    let problem = contiguous.with_views(Views { k, ..*contiguous.views() }).unwrap();
    let inputs = Inputs::generate(problem, Distribution::Normal, 1).unwrap();
    let workload = Workload { inputs, protocol: Protocol::new(L2::Warm) };
    assert!(message(Backend::Flash.contender(&library).prepare(&workload)).contains("contiguous tensors only"));
}

#[test]
fn a_process_that_chooses_by_the_problem_says_what_it_calls() {
    let hello = r#"{"ok": true, "protocol": 4, "versions": {"cubecl": "0.11"}, "device": "stand-in", "backends": {"accelerated": null}}"#;
    let prepared = r#"*'"prepare"'*) echo '{"ok": true, "function": "launch_ref (Unit)"}' ;;"#;
    let stand_in = StandIn::new(hello, &format!("{prepared}\n{GOOD}"));
    let mut contender = Strategy::Accelerated.contender(&stand_in.start_cubek().unwrap());
    assert_eq!(contender.name(), "cubek");
    let workload = workload(Layout::Bhsd);
    let prepared = contender.prepare(&workload).unwrap();
    let Implementation::Library { function, versions } = prepared.implementation() else { panic!("it is a library") };
    assert_eq!((function.as_str(), versions["cubecl"].as_str()), ("launch_ref (Unit)", "0.11"));
    assert_eq!(stand_in.requests()[1]["backend"], "accelerated");
}
