//! A problem on the GPU: the fastest correct strategy, and its timings.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cubecl::client::{Client, Graph};
use cubecl::future::block_on;
use cubecl::prelude::*;
use cubecl::server::Handle;
use cubek_attention::forward::definition::{AttentionGlobalTypes, AttentionOptions};
use cubek_attention::forward::launch::launch_ref;
use half::{bf16, f16};
use serde_json::json;

use crate::candidate::Candidate;
use crate::problem::Problem;
use crate::protocol::{Answer, Prepare, Refusal, object};
use crate::reference::Reference;
use crate::shape::{Element, Shape};
use crate::tensor_file;

/// Time budget for a candidate, µs, and its maximum calls.
const TRIAL_US: f64 = 1000.0;
const TRIAL_CALLS: usize = 20;
/// A candidate is dropped if its first call takes this many times as long as the fastest.
const HOPELESS: f64 = 2.0;
/// Length of the work before a sample, µs: the host issues the sample meanwhile, so that the GPU does not wait between the events.
const LEAD_US: f64 = 100.0;
/// Calls used to measure the cost of issuing one.
const HOST_CALLS: u32 = 32;
/// Maximum characters of an error message.
const SHOWN_CHARACTERS: usize = 300;
/// Value of O before a candidate computes it: NaN.
const UNWRITTEN: u16 = u16::MAX;

/// Q, K and V with O.
struct Set {
    q: Handle,
    k: Handle,
    v: Handle,
    o: Handle,
}

/// A recorded sample.
struct Sample {
    lead: Graph,
    graph: Graph,
    calls: usize,
}

/// A problem computed by one candidate.
pub struct Prepared {
    client: Client,
    problem: Problem,
    candidate: Candidate,
    inputs: [Vec<u16>; 3],
    sets: Vec<Set>,
    call_us: f64,
    sample: Option<Sample>,
}

impl Prepared {
    /// Reads the inputs of `request`, tries its candidates and keeps the fastest correct one.
    ///
    /// # Errors
    /// If the problem is not supported, or every candidate fails, with the reason of each.
    pub fn new(client: &Client, request: &Prepare) -> Result<Self, Refusal> {
        let candidates = Candidate::of(&request.backend);
        if candidates.is_empty() {
            return Err(Refusal::invalid(format!("there is no backend {}", request.backend)));
        }
        let element = if request.element == "bf16" { Element::Bf16 } else { Element::F16 };
        let [q, k, v] =
            [&request.q, &request.k, &request.v].map(|path| tensor_file::read(path, request.layout, element));
        let (q, k, v) = (q?, k?, v?);
        let problem = Problem::new(request, q.shape, k.shape)?;
        if v.shape != k.shape {
            return Err(Refusal::invalid(format!("V is of {:?}, K of {:?}", v.shape, k.shape)));
        }
        let reference = Reference::new(&problem, &q.bits, &k.bits, &v.bits);
        let mut prepared = Self {
            client: client.clone(),
            problem,
            candidate: Candidate::Unit,
            inputs: [q.bits, k.bits, v.bits],
            sets: Vec::new(),
            call_us: 0.0,
            sample: None,
        };
        prepared.sets.push(prepared.new_set());
        prepared.choose(&candidates, &reference)?;
        prepared.compute()?;
        Ok(prepared)
    }

    /// Name of the kept candidate.
    pub fn function(&self) -> String {
        format!("cubek_attention::forward::launch::launch_ref ({})", self.candidate)
    }

    /// Keeps the fastest correct one of `candidates`.
    fn choose(&mut self, candidates: &[Candidate], reference: &Reference) -> Result<(), Refusal> {
        let mut best: Option<(f64, Candidate)> = None;
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for &candidate in candidates {
            self.candidate = candidate;
            let fastest = best.map_or(f64::INFINITY, |(us, _)| us);
            match self.attempt(reference, fastest) {
                Ok(us) => {
                    eprintln!("{candidate}: {us:.1} µs");
                    best = if us < fastest { Some((us, candidate)) } else { best };
                }
                Err(refusal) => {
                    eprintln!("{candidate}: {}", refusal.error());
                    *reasons.entry(refusal.error().to_owned()).or_default() += 1;
                }
            }
        }
        let Some((_, candidate)) = best else {
            let all = candidates.len();
            let reasons: Vec<_> =
                reasons.iter().map(|(reason, number)| format!("{reason} ({number} of {all} sizes)")).collect();
            return Err(Refusal::invalid(format!("cubek-attention does not compute this: {}", reasons.join("; "))));
        };
        self.candidate = candidate;
        Ok(())
    }

    /// Time per call of the candidate, µs. The result is checked only if it is faster than `fastest`.
    fn attempt(&self, reference: &Reference, fastest: f64) -> Result<f64, Refusal> {
        if let Some(reason) = self.candidate.refusal(self.problem.queries.columns) {
            return Err(Refusal::invalid(reason));
        }
        caught(|| {
            // The first call compiles it.
            self.time(1)?;
            let first = self.time(1)?;
            if first > HOPELESS * fastest {
                return Ok(first);
            }
            let us = self.time((TRIAL_US / first).clamp(1.0, TRIAL_CALLS as f64) as usize)?;
            if us < fastest
                && let Some(difference) = reference.difference(&self.compute()?)
            {
                return Err(Refusal::invalid(format!("wrong: {difference}")));
            }
            Ok(us)
        })
    }

    /// Computes O of the first set.
    fn compute(&self) -> Result<Vec<u16>, Refusal> {
        let set = &self.sets[0];
        let unwritten = vec![UNWRITTEN; self.problem.queries.elements()];
        self.client.write(&set.o, cubecl::bytes::Bytes::from_bytes_vec(bytemuck::cast_slice(&unwritten).to_vec()));
        self.launch(set)?;
        let bytes = self.client.read_one(set.o.clone()).map_err(|error| Refusal::failed(short(&error)))?;
        Ok(bytes.as_chunks().0.iter().map(|&bytes| u16::from_le_bytes(bytes)).collect())
    }

    /// Time per call, averaged over a number of calls on the first set, µs.
    fn time(&self, calls: usize) -> Result<f64, Refusal> {
        let window = self.client.profile_start().map_err(|error| Refusal::failed(short(&error)))?;
        for _ in 0..calls {
            self.launch(&self.sets[0])?;
        }
        let duration = self.client.profile_end(window).map_err(|error| Refusal::failed(short(&error)))?;
        let ticks = block_on(duration.resolve()).ok_or_else(|| Refusal::failed("CubeCL measured no time"))?;
        Ok(microseconds(ticks.duration()) / calls as f64)
    }

    fn launch(&self, set: &Set) -> Result<(), Refusal> {
        let Problem { queries, keys, .. } = self.problem;
        let element = match self.problem.element {
            Element::F16 => f16::elem_type_native(),
            Element::Bf16 => bf16::elem_type_native(),
        };
        let types =
            AttentionGlobalTypes::from_single_float_dtype(element, AttentionGlobalTypes::mask_dtype(&self.client));
        let options = AttentionOptions { causal: self.problem.causal, ..AttentionOptions::default() };
        let tensor = |handle: &Handle, shape: Shape| {
            let Shape { batch, heads, sequence, columns } = shape;
            let strides = shape.strides(self.problem.layout);
            // SAFETY: the buffer has as many elements as the shape, and these strides reach exactly those.
            unsafe {
                TensorBinding::from_raw_parts(handle.clone(), strides.into(), [batch, heads, sequence, columns].into())
            }
        };
        launch_ref(
            self.candidate.strategy(),
            &self.client,
            tensor(&set.q, queries),
            tensor(&set.k, keys),
            tensor(&set.v, keys),
            None,
            tensor(&set.o, queries),
            &types,
            options,
        )
        .map_err(|error| Refusal::invalid(short(&error)))
    }

    fn new_set(&self) -> Set {
        let [q, k, v] = self.inputs.each_ref().map(|bits| self.client.create_from_slice(bytemuck::cast_slice(bits)));
        Set { q, k, v, o: self.client.empty(self.problem.queries.elements() * size_of::<u16>()) }
    }

    /// Writes O to the file at `path`.
    ///
    /// # Errors
    /// When it cannot be computed or written.
    pub fn answer(&self, path: &std::path::Path) -> Answer {
        let Problem { layout, element, queries, .. } = self.problem;
        tensor_file::write(path, layout, element, queries, &self.compute()?)?;
        Ok(object(json!({})))
    }

    /// Makes a number of input sets and runs for a given time.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn warm_up(&mut self, input_sets: usize, milliseconds: f64, host_launch: bool) -> Answer {
        while self.sets.len() < input_sets.max(1) {
            self.sets.push(self.new_set());
        }
        self.calls(self.sets.len())?;
        self.wait()?;
        let host_launch_us = if host_launch { Some(self.host_launch_us()?) } else { None };
        // As a graph, since issuing calls one by one may take longer than executing them.
        self.capture(self.sets.len())?;
        let begun = Instant::now();
        self.call_us = self.take_sample()?;
        while begun.elapsed() < Duration::from_secs_f64(milliseconds / 1e3) {
            self.call_us = self.take_sample()?;
        }
        Ok(object(json!({"call_us": self.call_us, "host_launch_us": host_launch_us})))
    }

    /// Host time for issuing a call while the GPU does not block it.
    fn host_launch_us(&self) -> Result<f64, Refusal> {
        let begun = Instant::now();
        self.calls(HOST_CALLS as usize)?;
        // A thread of CubeCL issues the calls; it answers when all are issued.
        self.client.flush().map_err(|error| Refusal::failed(short(&error)))?;
        let us = microseconds(begun.elapsed()) / f64::from(HOST_CALLS);
        self.wait()?;
        Ok(us)
    }

    /// Issues a number of calls, each on the next set and the last one on the last set.
    fn calls(&self, calls: usize) -> Result<(), Refusal> {
        let sets = self.sets.len();
        let first = sets - calls % sets;
        (first..first + calls).try_for_each(|call| self.launch(&self.sets[call % sets]))
    }

    fn wait(&self) -> Result<(), Refusal> {
        block_on(self.client.sync()).map_err(|error| Refusal::failed(short(&error)))
    }

    /// Records a number of calls as a CUDA graph.
    ///
    /// # Errors
    /// When they cannot be recorded.
    pub fn capture(&mut self, calls: usize) -> Answer {
        self.sample = None;
        let lead = if self.call_us > 0.0 { (LEAD_US / self.call_us).ceil() as usize } else { 1 };
        let lead = self.record(lead.clamp(1, calls))?;
        self.sample = Some(Sample { lead, graph: self.record(calls)?, calls });
        self.take_sample()?;
        Ok(object(json!({})))
    }

    fn record(&self, calls: usize) -> Result<Graph, Refusal> {
        let failed = |error: cubecl::server::ServerError| Refusal::failed(format!("no graph: {}", short(&error)));
        self.client.graph_prepare().map_err(failed)?;
        // Allocations and other calls forbidden during capture happen now.
        self.calls(calls)?;
        self.wait()?;
        self.client.start_capture().map_err(failed)?;
        let recorded = self.calls(calls);
        let graph = self.client.stop_capture().map_err(failed)?;
        recorded.map(|()| graph)
    }

    /// Takes a sample.
    ///
    /// # Errors
    /// If nothing was captured.
    pub fn sample(&self) -> Answer {
        Ok(object(json!({"us": self.take_sample()?})))
    }

    fn take_sample(&self) -> Result<f64, Refusal> {
        let Some(Sample { lead, graph, calls }) = &self.sample else {
            return Err(Refusal::failed("nothing was captured before the sample"));
        };
        let failed = |error: String| Refusal::failed(error);
        let replay = |graph: &Graph| {
            // SAFETY: the graph's input sets live as long as `self`, and nothing else uses them meanwhile.
            unsafe { graph.replay() }.map_err(|error| failed(short(&error)))
        };
        replay(lead)?;
        let window = self.client.profile_start().map_err(|error| failed(short(&error)))?;
        replay(graph)?;
        let duration = self.client.profile_end(window).map_err(|error| failed(short(&error)))?;
        let ticks = block_on(duration.resolve()).ok_or_else(|| failed("CubeCL measured no time".into()))?;
        Ok(microseconds(ticks.duration()) / *calls as f64)
    }
}

fn microseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// The result of `work`, with panics as errors: CubeCL reports some errors that way.
pub fn caught<T>(work: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word");
        Err(Refusal::failed(format!("panicked: {}", one_line(text))))
    })
}

/// The cause of a CubeCL error, which may be pages long, in one line.
fn short(error: &impl std::fmt::Debug) -> String {
    let text = one_line(&format!("{error:?}"));
    text.rsplit("Caused by: ").next().unwrap_or_default().chars().take(SHOWN_CHARACTERS).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
