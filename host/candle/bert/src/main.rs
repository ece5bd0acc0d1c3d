//! A BERT encoder with random weights: attention by fa512, packed or padded, compared with candle's own, and timed.
//!
//!     cargo run --release -p fa512-candle-bert --features cuda -- [--layers 12] [--hidden 768] [--batch 32] [--length 512] [--rounds 20] [--json FILE]
//!
//! The encoder runs on GPU 0. Without the feature `cuda` it runs on the CPU, with candle's own attention only.

use std::time::Instant;

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::ops::softmax_last_dim;

/// Head size.
const HEAD_DIM: usize = 64;

/// The command line's options.
struct Options {
    layers: usize,
    hidden: usize,
    batch: usize,
    length: usize,
    rounds: usize,
    json: Option<String>,
}

impl Options {
    fn read() -> std::result::Result<Self, String> {
        let mut options = Self { layers: 12, hidden: 768, batch: 32, length: 512, rounds: 20, json: None };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} has no value"))?;
            let number = || value.parse::<usize>().ok().filter(|&number| number > 0);
            let place = match name.as_str() {
                "--layers" => &mut options.layers,
                "--hidden" => &mut options.hidden,
                "--batch" => &mut options.batch,
                "--length" => &mut options.length,
                "--rounds" => &mut options.rounds,
                "--json" => {
                    options.json = Some(value);
                    continue;
                }
                _ => {
                    return Err(format!(
                        "{name} is unknown; there are --layers, --hidden, --batch, --length, --rounds, --json"
                    ));
                }
            };
            *place = number().ok_or_else(|| format!("{name} is {value}; it must be a positive number"))?;
        }
        match options.hidden % HEAD_DIM {
            0 => Ok(options),
            _ => Err(format!("--hidden is {}; it must be a multiple of {HEAD_DIM}", options.hidden)),
        }
    }
}

/// An attention: takes `[batch, sequence, heads, 64]`, returns `[batch, sequence, hidden]`.
type Attend = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

/// Attention by matrix products and a softmax over all scores, as in candle's models.
fn by_candle(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
    let heads_first = |tensor: &Tensor| tensor.transpose(1, 2)?.contiguous();
    let (q, k, v) = (heads_first(q)?, heads_first(k)?, heads_first(v)?);
    let scores = (q.matmul(&k.t()?)? / (HEAD_DIM as f64).sqrt())?;
    softmax_last_dim(&scores)?.matmul(&v)?.transpose(1, 2)?.flatten_from(2)
}

/// Attention by fa512.
fn by_fa512(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
    fa512_candle::flash_attn(q, k, v, 1.0 / (HEAD_DIM as f32).sqrt(), false)?.flatten_from(2)
}

/// Weights of a layer, `[in, out]`.
struct Layer {
    qkv: Tensor,
    out: Tensor,
    up: Tensor,
    down: Tensor,
    norms: [candle_nn::LayerNorm; 2],
}

impl Layer {
    fn new(hidden: usize, dtype: DType, device: &Device) -> Result<Self> {
        let weight = |rows: usize, columns: usize| {
            let scale = 1.0 / (rows as f64).sqrt();
            (Tensor::randn(0f32, 1f32, (rows, columns), device)? * scale)?.to_dtype(dtype)
        };
        let norm = || {
            let ones = Tensor::ones(hidden, dtype, device)?;
            Ok::<_, candle_core::Error>(candle_nn::LayerNorm::new(ones.clone(), ones.zeros_like()?, 1e-12))
        };
        Ok(Self {
            qkv: weight(hidden, 3 * hidden)?,
            out: weight(hidden, hidden)?,
            up: weight(hidden, 4 * hidden)?,
            down: weight(4 * hidden, hidden)?,
            norms: [norm()?, norm()?],
        })
    }

    fn forward(&self, x: &Tensor, attend: Attend) -> Result<Tensor> {
        use candle_nn::Module;
        let (batch, length, hidden) = x.dims3()?;
        let qkv = x.broadcast_matmul(&self.qkv)?.reshape((batch, length, 3, hidden / HEAD_DIM, HEAD_DIM))?;
        // Views: attention reads them in place.
        let part = |index| qkv.narrow(2, index, 1)?.squeeze(2);
        let attended = attend(&part(0)?, &part(1)?, &part(2)?)?.broadcast_matmul(&self.out)?;
        let x = self.norms[0].forward(&(x + attended)?)?;
        let inner = x.broadcast_matmul(&self.up)?.gelu()?.broadcast_matmul(&self.down)?;
        self.norms[1].forward(&(x + inner)?)
    }
}

fn encode(layers: &[Layer], x: &Tensor, attend: Attend) -> Result<Tensor> {
    layers.iter().try_fold(x.clone(), |x, layer| layer.forward(&x, attend))
}

/// Milliseconds of a pass, until the device has completed it.
fn milliseconds(device: &Device, pass: impl Fn() -> Result<Tensor>) -> Result<f64> {
    device.synchronize()?;
    let begun = Instant::now();
    let _output = pass()?;
    device.synchronize()?;
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn run(options: &Options) -> Result<()> {
    let Options { layers, hidden, batch, length, rounds, .. } = *options;
    let device = Device::cuda_if_available(0)?;
    let dtype = if device.is_cuda() { DType::F16 } else { DType::F32 };
    let layers: Vec<Layer> = (0..layers).map(|_| Layer::new(hidden, dtype, &device)).collect::<Result<_>>()?;
    let x = Tensor::randn(0f32, 1f32, (batch, length, hidden), &device)?.to_dtype(dtype)?;
    let mut contenders: Vec<(&str, Attend)> = vec![("candle", by_candle)];
    if device.is_cuda() {
        contenders.push(("fa512", by_fa512));
        let [own, theirs] = [by_fa512 as Attend, by_candle].map(|attend| encode(&layers, &x, attend));
        let difference = (own? - theirs?)?.to_dtype(DType::F32)?.abs()?.flatten_all()?.max(D::Minus1)?;
        let difference = difference.to_scalar::<f32>()?;
        println!("largest difference of the outputs: {difference:.4}");
        if difference.is_nan() || difference > 0.06 {
            candle_core::bail!("the outputs differ by {difference}");
        }
    } else {
        println!("no GPU: candle's own attention alone");
    }
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); contenders.len()];
    for _ in 0..rounds {
        for ((_, attend), times) in contenders.iter().zip(&mut times) {
            times.push(milliseconds(&device, || encode(&layers, &x, *attend))?);
        }
    }
    println!(
        "{} layers, hidden {hidden}, batch {batch}, length {length}; ms of a pass, medians of {rounds} in turns",
        layers.len()
    );
    let medians: Vec<(&str, f64)> =
        contenders.iter().zip(times).map(|((name, _), times)| (*name, median(times))).collect();
    medians.iter().for_each(|(name, time)| println!("  {name:8} {time:9.3}"));
    if let Some(path) = &options.json {
        let times: Vec<String> = medians.iter().map(|(name, time)| format!("\"{name}\": {time}")).collect();
        let text = format!(
            "{{\"kind\": \"fa512-candle-bert\", \"layers\": {}, \"hidden\": {hidden}, \"batch\": {batch}, \"length\": {length}, \
             \"rounds\": {rounds}, \"milliseconds\": {{{}}}}}\n",
            layers.len(),
            times.join(", ")
        );
        std::fs::write(path, text)?;
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    let done = Options::read().and_then(|options| run(&options).map_err(|error| error.to_string()));
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bert: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
