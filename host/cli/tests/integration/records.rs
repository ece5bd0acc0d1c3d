//! Bench records, changed and still valid.

use cli::record::{Ceilings, Measurement, Outcome, Row};
use cli::statistics::Bootstrap;
use serde_json::{Value, json};

/// Gives a row of a bench record other samples. [`settle`] makes the record one that is read.
pub fn set_samples(row: &mut Value, samples: Vec<f64>) {
    row["outcome"]["samples_us"] = json!(samples);
}

/// Multiplies the samples of a row of a bench record.
pub fn scale_samples(row: &mut Value, factor: f64) {
    let samples = row["outcome"]["samples_us"].as_array().expect("samples");
    set_samples(row, samples.iter().map(|sample| sample.as_f64().expect("a time") * factor).collect());
}

/// Makes the numbers of a bench record those that follow from its cases, samples and ceilings.
pub fn settle(record: &mut Value) {
    let ceilings: Ceilings = serde_json::from_value(record["ceilings"].clone()).expect("ceilings");
    let bootstrap = Bootstrap::new(0).with_resamples(100);
    for row in record["rows"].as_array_mut().expect("rows") {
        let Row { case, outcome, .. } = serde_json::from_value(row.clone()).expect("a row");
        let Outcome::Measured(measurement) = outcome else { continue };
        let Measurement { correctness, batch, samples_us, gpu, warnings, .. } = *measurement;
        let problem = (case.shape, case.mask);
        let settled = Measurement::new(problem, correctness, batch, samples_us, gpu, &ceilings, &bootstrap);
        row["outcome"] = json!(Outcome::Measured(Box::new(Measurement { warnings, ..settled })));
    }
}
