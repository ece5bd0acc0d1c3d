//! Problems with random inputs on a GPU, and their results in f64.

use cudarc::driver::{CudaSlice, CudaStream};
use fa512::{Addresses, Element, Layout, Mask, Packing, Problem, Shape, Slopes, Strides, Tensor, View};
use half::{bf16, f16};
use std::ops::Range;
use std::sync::Arc;

use super::address;

/// Initial contents of outputs: a NaN in both types, which attention never produces.
pub const UNTOUCHED: u16 = 0x7fe1;

/// A problem with its tensors on a GPU.
pub struct Case {
    pub problem: Problem,
    pub stream: Arc<CudaStream>,
    pub q: CudaSlice<u16>,
    pub k: CudaSlice<u16>,
    pub v: CudaSlice<u16>,
    pub o: CudaSlice<u16>,
    pub lse: CudaSlice<f32>,
    /// For packed sequences.
    pub cu_seqlens: Option<CudaSlice<i32>>,
    /// For packed sequences with separate lengths of K and V.
    pub cu_seqlens_k: Option<CudaSlice<i32>>,
    /// Used rows of each entry of a padded batch: of Q, and of K and V.
    pub seqused: Option<[CudaSlice<i32>; 2]>,
    /// For problems with a bias.
    pub bias: Option<CudaSlice<u16>>,
    /// Where it begins there.
    bias_begin: usize,
    /// For problems with ALiBi.
    pub slopes: Option<CudaSlice<f32>>,
    scores: Scores,
    inputs: [Vec<u16>; 3],
    /// The rows of each sequence of a batch entry, and those of its K and V.
    sequences: Vec<[Range<u32>; 2]>,
}

/// Inputs of score modifications.
struct Scores {
    bias: Option<Vec<u16>>,
    slopes: Option<Vec<f32>>,
}

impl Scores {
    /// Those of a problem: slopes that double from head to head.
    fn of(problem: &Problem) -> Self {
        let (score_mod, shape) = (problem.score_mod(), problem.shape());
        let bias = score_mod.bias_extent(shape).map(|count| random(problem.element(), count as usize, 4));
        let slope = |index: u64| f32::exp2(index as f32) / 64.0;
        Self { bias, slopes: score_mod.slopes(shape, problem.packing()).map(|count| (0..count).map(slope).collect()) }
    }

    /// The score of a query and a key so far from it whose scaled product is `score`.
    fn score(&self, problem: &Problem, [batch, head, query, key]: [u32; 4], distance: i64, score: f64) -> f64 {
        let score_mod = problem.score_mod();
        let capped = score_mod.softcap.map_or(score, |cap| cap * (score / cap).tanh());
        let slope = self.slopes.as_ref().map_or(0.0, |slopes| {
            let of_batch = if score_mod.alibi == Some(Slopes::PerHead) { 0 } else { batch * problem.shape().heads };
            f64::from(slopes[(of_batch + head) as usize])
        });
        let bias = self.bias.as_ref().zip(score_mod.bias).map_or(0.0, |(bias, strides)| {
            let row = index(View::new(strides), batch, head, query);
            decode(problem.element(), bias[row + key as usize])
        });
        capped - slope * distance.unsigned_abs() as f64 + bias
    }
}

/// Elements of a buffer that a tensor spans.
fn elements(problem: &Problem, tensor: Tensor) -> usize {
    (problem.extent(tensor) + problem.views().of(tensor).offset) as usize
}

pub fn decode(element: Element, bits: u16) -> f64 {
    match element {
        Element::F16 => f16::from_bits(bits).to_f64(),
        Element::Bf16 => bf16::from_bits(bits).to_f64(),
    }
}

fn encode(element: Element, value: f64) -> u16 {
    match element {
        Element::F16 => f16::from_f64(value).to_bits(),
        Element::Bf16 => bf16::from_f64(value).to_bits(),
    }
}

/// Numbers between -1 and 1, determined by the seed.
pub fn random(element: Element, count: usize, seed: u64) -> Vec<u16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        encode(element, (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    };
    (0..count).map(|_| next()).collect()
}

impl Case {
    /// The tensors of `problem` on the stream's GPU.
    pub fn new(problem: Problem, stream: &Arc<CudaStream>) -> Self {
        let input = |tensor, seed| random(problem.element(), elements(&problem, tensor), seed);
        let inputs = [input(Tensor::Q, 1), input(Tensor::K, 2), input(Tensor::V, 3)];
        let [q, k, v] = [&inputs[0], &inputs[1], &inputs[2]].map(|values| stream.clone_htod(values).expect("memory"));
        let o = stream.clone_htod(&vec![UNTOUCHED; elements(&problem, Tensor::O)]).expect("memory");
        let lse = stream.clone_htod(&vec![f32::NAN; problem.shape().rows() as usize]).expect("memory");
        let sequences = vec![[0..problem.shape().sequence, 0..problem.shape().kv_sequence]];
        let scores = Scores::of(&problem);
        let bias = scores.bias.as_ref().map(|bias| stream.clone_htod(bias).expect("memory"));
        let slopes = scores.slopes.as_ref().map(|slopes| stream.clone_htod(slopes).expect("memory"));
        stream.synchronize().expect("copied");
        let stream = stream.clone();
        let (cu_seqlens, cu_seqlens_k, seqused) = (None, None, None);
        Self {
            problem,
            stream,
            q,
            k,
            v,
            o,
            lse,
            cu_seqlens,
            cu_seqlens_k,
            seqused,
            bias,
            bias_begin: 0,
            slopes,
            scores,
            inputs,
            sequences,
        }
    }

    /// Packed sequences with two heads and `rows` rows; `cu_seqlens` is used as given.
    pub fn packed(rows: u32, cu_seqlens: &[i32], mask: Mask, stream: &Arc<CudaStream>) -> Self {
        Self::packed_of(Element::F16, rows, cu_seqlens, mask, stream)
    }

    /// The same with another element type.
    pub fn packed_of(element: Element, rows: u32, cu_seqlens: &[i32], mask: Mask, stream: &Arc<CudaStream>) -> Self {
        let problem = Problem::new(Shape::new(1, 2, rows), mask, Layout::Bshd).unwrap().with_element(element);
        Self::packed_problem(problem, cu_seqlens, stream)
    }

    /// Packed sequences whose rows are those of `problem`.
    pub fn packed_problem(problem: Problem, cu_seqlens: &[i32], stream: &Arc<CudaStream>) -> Self {
        let packing = Packing::new(cu_seqlens.len() as u32 - 1, problem.shape().sequence);
        let problem = problem.packed(packing).unwrap();
        let sequences = ranges(cu_seqlens).into_iter().map(|rows| [rows.clone(), rows]).collect();
        let lengths = stream.clone_htod(cu_seqlens).expect("memory");
        Self { cu_seqlens: Some(lengths), sequences, ..Self::new(problem, stream) }
    }

    /// Packed sequences with separate lengths of K and V.
    pub fn separate(problem: Problem, cu_seqlens: &[i32], cu_seqlens_k: &[i32], stream: &Arc<CudaStream>) -> Self {
        let packing = Packing::separate(cu_seqlens.len() as u32 - 1, problem.shape().sequence);
        let problem = problem.packed(packing).unwrap();
        let pairs = ranges(cu_seqlens).into_iter().zip(ranges(cu_seqlens_k));
        let sequences = pairs.map(|(rows, keys)| [rows, keys]).collect();
        let [cu_seqlens, cu_seqlens_k] =
            [cu_seqlens, cu_seqlens_k].map(|array| stream.clone_htod(array).expect("memory"));
        Self { cu_seqlens: Some(cu_seqlens), cu_seqlens_k: Some(cu_seqlens_k), sequences, ..Self::new(problem, stream) }
    }

    /// A padded batch whose entries use the given numbers of rows of Q, and of K and V.
    pub fn padded(problem: Problem, used: [&[i32]; 2], stream: &Arc<CudaStream>) -> Self {
        let Shape { sequence, kv_sequence, .. } = problem.shape();
        let of = |entry: u32, room: u32, used: i32| entry * room..entry * room + used as u32;
        let entries = (0..).zip(used[0].iter().zip(used[1]));
        let sequences = entries.map(|(entry, (&q, &k))| [of(entry, sequence, q), of(entry, kv_sequence, k)]).collect();
        let seqused = Some(used.map(|used| stream.clone_htod(used).expect("memory")));
        Self { seqused, sequences, ..Self::new(problem.padded().unwrap(), stream) }
    }

    /// The same with the bias behind `begin` other elements.
    #[must_use]
    pub fn with_bias_from(self, begin: usize) -> Self {
        let bias = self.scores.bias.as_ref().map(|bias| [&vec![UNTOUCHED; begin], &bias[..]].concat());
        let bias = bias.map(|bias| self.stream.clone_htod(&bias).expect("memory"));
        self.stream.synchronize().expect("copied");
        Self { bias, bias_begin: begin, ..self }
    }

    /// Q, K and V.
    pub fn inputs(&self) -> &[Vec<u16>; 3] {
        &self.inputs
    }

    /// The rows of each sequence of a batch entry, and those of its K and V.
    pub fn sequences(&self) -> &[[Range<u32>; 2]] {
        &self.sequences
    }

    /// Device addresses of the tensors.
    pub fn addresses(&self) -> Addresses {
        let stream = &self.stream;
        let [q, k, v, o] = [&self.q, &self.k, &self.v, &self.o].map(|slice| address(slice, stream));
        let cu_seqlens = self.cu_seqlens.as_ref().map(|lengths| address(lengths, stream));
        let cu_seqlens_k = self.cu_seqlens_k.as_ref().map(|lengths| address(lengths, stream));
        let used = |index: usize| self.seqused.as_ref().map(|used| address(&used[index], stream));
        let (seqused_q, seqused_k) = (used(0), used(1));
        let bias = self.bias.as_ref().map(|bias| address(bias, stream) + 2 * self.bias_begin as u64);
        let alibi_slopes = self.slopes.as_ref().map(|slopes| address(slopes, stream));
        let lse = Some(address(&self.lse, stream));
        Addresses {
            lse,
            cu_seqlens,
            cu_seqlens_k,
            seqused_q,
            seqused_k,
            bias,
            alibi_slopes,
            ..Addresses::new(q, k, v, o)
        }
    }

    /// Resets the outputs.
    pub fn clear(&mut self) {
        let (o, lse) = (vec![UNTOUCHED; self.o.len()], vec![f32::NAN; self.lse.len()]);
        self.stream.memcpy_htod(&o, &mut self.o).expect("copied");
        self.stream.memcpy_htod(&lse, &mut self.lse).expect("copied");
        self.stream.synchronize().expect("copied");
    }

    /// Whether O and LSE have their initial contents.
    pub fn is_untouched(&self) -> bool {
        self.stream.synchronize().expect("synchronized");
        self.stream.clone_dtoh(&self.o).expect("copied").iter().all(|&bits| bits == UNTOUCHED)
            && self.stream.clone_dtoh(&self.lse).expect("copied").iter().all(|value| value.is_nan())
    }

    /// Requires O and LSE to match the reference within the accuracy of the element type. Rows of no packed sequence are those of no keys,
    /// and rows that an entry of a padded batch does not use are unchanged.
    pub fn check(&self, with_lse: bool) {
        self.stream.synchronize().expect("the kernel ran");
        let o = self.stream.clone_dtoh(&self.o).expect("copied");
        let lse = self.stream.clone_dtoh(&self.lse).expect("copied");
        let (shape, views) = (self.problem.shape(), self.problem.views());
        let columns = shape.head_dim as usize;
        // bf16 has three fraction bits fewer.
        let coarseness = if self.problem.element() == Element::F16 { 1.0 } else { 8.0 };
        let mut row = 0;
        for batch in 0..shape.batch {
            for head in 0..shape.heads {
                for query in 0..shape.sequence {
                    let first = index(views.o, batch, head, query);
                    let keys = self.keys(query).or(self.cu_seqlens.is_some().then_some(0..0));
                    let Some(keys) = keys else {
                        assert!(
                            o[first..first + columns].iter().all(|&bits| bits == UNTOUCHED),
                            "row {query} is of no sequence"
                        );
                        assert!(lse[row].is_nan(), "LSE {row} is of no sequence");
                        row += 1;
                        continue;
                    };
                    let (expected, expected_lse) = self.reference(batch, head, query, keys);
                    for (column, expected) in expected.iter().enumerate() {
                        let got = decode(self.problem.element(), o[first + column]);
                        assert!(
                            (got - expected).abs() < coarseness * 2e-3,
                            "O[{batch}, {head}, {query}, {column}] is {got}, not {expected}: {:?}",
                            self.problem
                        );
                    }
                    if with_lse {
                        let got = f64::from(lse[row]);
                        assert!(
                            got == expected_lse || (got - expected_lse).abs() < coarseness * 1e-3,
                            "LSE {row} is {got}, not {expected_lse}"
                        );
                    } else {
                        assert!(lse[row].is_nan(), "LSE {row} was written");
                    }
                    row += 1;
                }
            }
        }
    }

    /// The score of a query and a key whose scaled product is `scaled`.
    pub fn score(&self, [batch, head, query, key]: [u32; 4], scaled: f64) -> f64 {
        self.scores.score(&self.problem, [batch, head, query, key], self.distance(query, key), scaled)
    }

    /// The keys that a query attends to; `None` for a row of no sequence.
    pub fn keys(&self, query: u32) -> Option<Range<u32>> {
        let [rows, keys] = self.sequences.iter().find(|[rows, _]| rows.contains(&query))?;
        let attended = self.problem.attended_keys(query - rows.start, rows.len() as u32, keys.len() as u32);
        Some(keys.start + attended.start..keys.start + attended.end)
    }

    /// Keys from `key` to the position of `query`, which are of one sequence.
    fn distance(&self, query: u32, key: u32) -> i64 {
        let [rows, keys] = self.sequences.iter().find(|[rows, _]| rows.contains(&query)).expect("it is of a sequence");
        let first = self.problem.alignment().first_position(rows.len() as u32, keys.len() as u32);
        first + i64::from(query - rows.start) - i64::from(key - keys.start)
    }

    /// A row of O and its LSE: of no keys, zeros and −∞.
    fn reference(&self, batch: u32, head: u32, query: u32, keys: Range<u32>) -> (Vec<f64>, f64) {
        let (views, [q, k, v]) = (self.problem.views(), &self.inputs);
        let columns = self.problem.shape().head_dim as usize;
        if keys.is_empty() {
            return (vec![0.0; columns], f64::NEG_INFINITY);
        }
        let group = self.problem.shape().group();
        let row = |values: &[u16], (view, head), row| -> Vec<f64> {
            let first = index(view, batch, head, row);
            values[first..first + columns].iter().map(|&bits| decode(self.problem.element(), bits)).collect()
        };
        let q = row(q, (views.q, head), query);
        let dot = |key: Vec<f64>| -> f64 { q.iter().zip(key).map(|(q, k)| q * k).sum() };
        let score = |key| {
            let scaled = self.problem.scale() * dot(row(k, (views.k, head / group), key));
            self.score([batch, head, query, key], scaled)
        };
        let scores: Vec<f64> = keys.clone().map(score).collect();
        let maximum = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|score| (score - maximum).exp()).sum();
        let mut o = vec![0.0; columns];
        for (key, score) in keys.zip(&scores) {
            let p = (score - maximum).exp() / sum;
            for (o, v) in o.iter_mut().zip(row(v, (views.v, head / group), key)) {
                *o += p * v;
            }
        }
        (o, maximum + sum.ln())
    }
}

/// The rows from each element up to the next.
fn ranges(cu_seqlens: &[i32]) -> Vec<Range<u32>> {
    cu_seqlens.windows(2).map(|pair| pair[0] as u32..pair[1] as u32).collect()
}

/// The first element of a row.
pub fn index(view: View, batch: u32, head: u32, row: u32) -> usize {
    let Strides { batch: of_batch, head: of_head, row: of_row } = view.strides;
    (view.offset + u64::from(batch) * of_batch + u64::from(head) * of_head + u64::from(row) * of_row) as usize
}
