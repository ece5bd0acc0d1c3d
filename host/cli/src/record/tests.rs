use contract::config::Element;

use super::*;
use crate::stand_ins::record;
use crate::statistics::{Bootstrap, Interval};

/// The only measurement of `record`.
fn measurement(record: &BenchRecord) -> &Measurement {
    record.rows[0].measurement().expect("it was measured")
}

#[test]
fn what_is_saved_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.json");
    let record = record(vec![48.5, 48.0, 49.25]);
    record.save(&path).unwrap();
    assert_eq!(BenchRecord::load(&path).unwrap(), record);
}

#[test]
fn a_case_says_its_element_type_and_is_of_fp16_where_it_says_none() {
    let [f16, bf16] = Element::ALL.map(|element| Case { element, ..record(vec![1.0]).rows[0].case });
    assert_eq!((f16.to_string(), bf16.to_string()), ("32x8x512 full".into(), "32x8x512 full bf16".into()));
    assert_eq!(bf16.problem().unwrap().element(), Element::Bf16);
    let mut written = serde_json::to_value(bf16).unwrap();
    assert_eq!(written["element"], "bf16");
    written.as_object_mut().unwrap().remove("element");
    assert_eq!(serde_json::from_value::<Case>(written).unwrap(), f16);
}

#[test]
fn a_case_says_its_scale_if_it_has_one() {
    let usual = record(vec![1.0]).rows[0].case;
    let scaled = Case { scale: Some(0.5), ..usual };
    assert_eq!(scaled.to_string(), "32x8x512 full scale 0.5");
    assert_eq!((usual.problem().unwrap().scale(), scaled.problem().unwrap().scale()), (0.125, 0.5));
    let written = serde_json::to_value(usual).unwrap();
    assert_eq!(written.get("scale"), None, "records without a scale are as before");
    assert_eq!(serde_json::from_value::<Case>(serde_json::to_value(scaled).unwrap()).unwrap(), scaled);
}

#[test]
fn other_files_are_refused_with_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.json");
    let refusal = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let message = BenchRecord::load(&path).unwrap_err().to_string();
        assert!(message.contains("record.json: "), "the file is not named: {message}");
        message
    };
    assert!(refusal("").contains("not a bench record"));
    assert!(refusal("{\"rows\": []}").contains("not a bench record"));
    assert!(refusal("{\"kind\": \"fa512-tune\", \"version\": 1}").contains("holds a fa512-tune"));
    assert!(refusal("{\"kind\": \"fa512-bench\", \"version\": 0}").contains("of version 0; this program reads 3"));
    assert!(refusal("{\"kind\": \"fa512-bench\", \"version\": 1}").contains("damaged bench record: missing field"));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(BenchRecord::load(&path), Err(crate::error::Error::File { .. })));
}

#[test]
fn throughput_is_of_the_median_and_against_the_ceilings() {
    let record = record(vec![48.0; 5]);
    let measurement = measurement(&record);
    // 4·32·8·512²·64 = 17.18 GFLOP; 4·32·8·512·64·2 + 32·8·512·4 = 67.6 MB
    assert!((measurement.teraflops - 357.9).abs() < 0.1, "{}", measurement.teraflops);
    assert!((measurement.tensor_utilisation.unwrap() - 0.7158).abs() < 1e-3);
    assert!((measurement.bandwidth_utilisation.unwrap() - 0.3522).abs() < 1e-3);
    assert_eq!(measurement.warnings, []);
}

#[test]
fn warnings_say_what_to_do() {
    let words = |samples: Vec<f64>| {
        let record = record(samples);
        measurement(&record).warnings.iter().map(Warning::to_string).collect::<Vec<_>>().join("\n")
    };
    assert!(words(vec![40.0, 50.0, 60.0]).contains("samples vary by 20 %, over 12 %"));
    let short = words(vec![5.0; 3]);
    assert!(short.contains("launch-bound: 5.0 µs are under 10 µs") && short.contains("2.5 µs a call"), "{short}");
}

#[test]
fn a_hot_or_throttled_gpu_is_warned_about() {
    let steady = |value| crate::statistics::Interval { low: value, high: value };
    let state = GpuState {
        readings: 1,
        sm_clock_mhz: steady(1200.0),
        memory_clock_mhz: steady(3201.0),
        power_watts: steady(700.0),
        temperature_celsius: steady(84.0),
        throttle_reasons: vec!["SW_POWER_CAP".into()],
    };
    let record = record(vec![48.0]);
    let Measurement { summary_us, batch, .. } = measurement(&record);
    let words: Vec<_> = Warning::all(summary_us, batch, Some(&state)).iter().map(Warning::to_string).collect();
    assert!(words[0].contains("84 °C, over 80 °C") && words[1].contains("(SW_POWER_CAP)"), "{words:?}");
    let cool = GpuState { temperature_celsius: steady(60.0), throttle_reasons: vec![], ..state };
    assert_eq!(Warning::all(summary_us, batch, Some(&cool)), []);
}

#[test]
fn a_summary_that_is_not_of_its_samples_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.json");
    let load = |change: &dyn Fn(&mut Measurement)| {
        let mut record = record(vec![3.0, 1.0, 2.0, 5.0]);
        if let Outcome::Measured(measurement) = &mut record.rows[0].outcome {
            change(measurement);
        }
        record.save(&path).unwrap();
        BenchRecord::load(&path).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(load(&|_| {}), Ok(()));
    let refused = |change: &dyn Fn(&mut Measurement), words: &str| {
        let error = load(change).unwrap_err();
        assert!(error.contains(words), "{error}");
    };
    refused(&|measurement| measurement.summary_us.median = 1.5, "says a median of 1.5, and its samples have 2.5");
    refused(&|measurement| measurement.summary_us.count = 5, "says a count of 5");
    refused(&|measurement| measurement.summary_us.p99 *= 1.01, "says a p99");
    refused(
        &|measurement| measurement.summary_us.median_interval.low = 2.6,
        "lower end of the median's interval of 2.6",
    );
    refused(
        &|measurement| measurement.summary_us.median_interval.high = 6.0,
        "upper end of the median's interval of 6",
    );
    refused(&|measurement| measurement.correctness.wrong_elements = 3, "is measured, and ");
    refused(&|measurement| measurement.teraflops = 9999.0, "says a rate of 9999");
    refused(&|measurement| measurement.tensor_utilisation = Some(0.99), "says a tensor utilisation of 0.99");
    refused(&|measurement| measurement.tensor_utilisation = None, "says a tensor utilisation of NaN");
    refused(&|measurement| measurement.bandwidth_utilisation = Some(0.99), "says a bandwidth utilisation of 0.99");
}

#[test]
fn a_ratio_that_is_not_of_its_samples_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.json");
    let load = |change: &dyn Fn(&mut Pair)| {
        let mut record = record(vec![2.0, 2.1, 1.9, 2.0]);
        let slow = Row { contender: "slow".into(), ..record_row(vec![8.0; 4]) };
        let mut pair = Pair::new(&record.rows[0], &slow, &Bootstrap::new(7)).unwrap();
        change(&mut pair);
        record.rows.push(slow);
        record.pairs.push(pair);
        record.save(&path).unwrap();
        BenchRecord::load(&path).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(load(&|_| {}), Ok(()));
    let refused = |change: &dyn Fn(&mut Pair), words: &str| {
        let error = load(change).unwrap_err();
        assert!(error.contains(words), "{error}");
    };
    refused(&|pair| pair.ratio = 0.5, "slow of 0.5, and their samples have 0.25");
    refused(&|pair| pair.second = "another".into(), "without samples of both");
    refused(&|pair| pair.ratio_interval.low = 0.1, "slow from 0.1 to ");
    refused(&|pair| pair.ratio_interval.high = 1.5, " to 1.5, and their samples have ");
    refused(&|pair| pair.ratio_interval = Interval { low: 0.26, high: 0.24 }, "slow from 0.26 to 0.24");
}

fn record_row(samples_us: Vec<f64>) -> Row {
    record(samples_us).rows.remove(0)
}
