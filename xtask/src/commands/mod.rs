//! One file per command, and what several of them do.

pub mod baselines;
pub mod bless;
pub mod candle_test;
pub mod ci;
pub mod codegens;
pub mod cubek;
pub mod dist;
pub mod doctor;
pub mod house;
pub mod mutate;
pub mod package;
pub mod ptx;
pub mod python_test;
pub mod release;
pub mod run;
pub mod rust_cuda;
pub mod test;
pub mod toolchain;
pub mod trial;
