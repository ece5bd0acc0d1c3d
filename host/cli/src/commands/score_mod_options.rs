//! Command-line options for score modifications.

use crate::score_mod::{BiasForm, ScoreModForm, slopes_name};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use contract::problem::Slopes;

/// Score modifications, which may be combined.
#[derive(clap::Args)]
pub struct ScoreModOptions {
    /// Cap of the scores s, which become CAP · tanh(s / CAP)
    #[arg(long, value_name = "CAP", allow_negative_numbers = true)]
    softcap: Option<f64>,
    /// Subtract an ALiBi term, slope · distance, from the scores. The slopes are those of the paper, one for each head, or one for each
    /// head of each batch entry
    #[arg(long, value_name = "SLOPES", num_args = 0..=1, require_equals = true, default_missing_value = slopes_name(Slopes::PerHead), value_parser = slopes_parser())]
    alibi: Option<Slopes>,
    /// Add a random bias to the scores. The letters say along which dimensions it varies: b batch, h head, q query, k key
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = BiasForm::Hqk.name(), value_parser = bias_parser())]
    bias: Option<BiasForm>,
    /// Pad the rows of the bias, so that they are apart by multiples of 16 bytes, which kernels copy at once
    #[arg(long, requires = "bias")]
    padded_bias: bool,
}

impl ScoreModOptions {
    /// The score modifications.
    pub fn form(&self) -> ScoreModForm {
        ScoreModForm { softcap: self.softcap, alibi: self.alibi, bias: self.bias, padded_bias: self.padded_bias }
    }
}

/// Parser of the shape of ALiBi slopes.
fn slopes_parser() -> impl TypedValueParser<Value = Slopes> {
    const ALL: [Slopes; 2] = [Slopes::PerHead, Slopes::PerBatchAndHead];
    PossibleValuesParser::new(ALL.map(slopes_name))
        .map(|name| ALL.into_iter().find(|slopes| slopes_name(*slopes) == name).expect("clap accepts only these names"))
}

/// Parser of the form of a bias.
fn bias_parser() -> impl TypedValueParser<Value = BiasForm> {
    PossibleValuesParser::new(BiasForm::ALL.map(BiasForm::name))
        .map(|name| BiasForm::ALL.into_iter().find(|form| form.name() == name).expect("clap accepts only these names"))
}
