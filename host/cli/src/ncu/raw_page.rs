//! Parses the output of `ncu --page raw --csv`: a line of names, a line of units, then a line per profiled launch.

use std::collections::HashMap;

use ptx_diagnostics::printable::printable;

use crate::error::{Error, Result};

/// One profiled launch.
#[derive(Clone, Debug)]
pub struct RawPage {
    /// Unit and value, as printed, by name.
    columns: HashMap<String, Column>,
}

#[derive(Clone, Debug)]
struct Column {
    unit: String,
    value: String,
}

impl RawPage {
    /// Parses the page of the only launch in `text`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not such a page, or has no launch or several.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = |reason: String| {
            Error::Invalid(format!("{reason}; expected what `ncu --import FILE --page raw --csv` prints"))
        };
        let text = printable(text);
        // ncu's own messages precede the table.
        let start = text.find("\"ID\"").ok_or_else(|| invalid("there is no column ID".into()))?;
        let mut reader = csv::ReaderBuilder::new().from_reader(&text.as_bytes()[start..]);
        let read = |error: csv::Error| invalid(format!("not a CSV table: {error}"));
        let names = reader.headers().map_err(read)?.clone();
        let rows = reader.records().collect::<std::result::Result<Vec<_>, _>>().map_err(read)?;
        let [units, values] = rows.as_slice() else {
            return Err(invalid(format!("{} lines of units and values", rows.len())));
        };
        let column = |(unit, value): (&str, &str)| Column { unit: unit.to_owned(), value: value.to_owned() };
        let columns = names.iter().map(str::to_owned).zip(units.iter().zip(values).map(column)).collect();
        Ok(Self { columns })
    }

    /// A value as printed; `None` if the column is missing or empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.columns.get(name).map(|column| column.value.as_str()).filter(|value| !value.is_empty())
    }

    /// A count or a ratio; `None` if the column is missing or ncu could not measure it.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not a number.
    pub fn number(&self, name: &str) -> Result<Option<f64>> {
        Ok(self.measured(name)?.map(|(value, _)| value))
    }

    /// A percentage as a fraction.
    ///
    /// # Errors
    /// As for [`Self::number`], and when the unit is not percent.
    pub fn fraction(&self, name: &str) -> Result<Option<f64>> {
        self.scaled(name, |unit| (unit == "%").then_some(0.01))
    }

    /// A duration, µs.
    ///
    /// # Errors
    /// As for [`Self::number`], and when the unit is not one of time.
    pub fn microseconds(&self, name: &str) -> Result<Option<f64>> {
        self.scaled(name, |unit| match unit {
            "ns" | "nsecond" => Some(1e-3),
            "us" | "usecond" => Some(1.0),
            "ms" | "msecond" => Some(1e3),
            "s" | "second" => Some(1e6),
            _ => None,
        })
    }

    /// A rate of data, 10¹² bytes per second.
    ///
    /// # Errors
    /// As for [`Self::number`], and when the unit is not one of bandwidth.
    pub fn terabytes_per_second(&self, name: &str) -> Result<Option<f64>> {
        self.scaled(name, |unit| {
            let prefix = unit.strip_suffix("byte/s").or_else(|| unit.strip_suffix("byte/second"))?;
            Some(match prefix {
                "" => 1e-12,
                "K" => 1e-9,
                "M" => 1e-6,
                "G" => 1e-3,
                "T" => 1.0,
                _ => return None,
            })
        })
    }

    fn scaled(&self, name: &str, factor: impl Fn(&str) -> Option<f64>) -> Result<Option<f64>> {
        let Some((value, unit)) = self.measured(name)? else { return Ok(None) };
        match factor(unit) {
            Some(factor) => Ok(Some(value * factor)),
            None => Err(Error::Invalid(format!("{name} has the unit {unit:?}, which this program does not know"))),
        }
    }

    fn measured(&self, name: &str) -> Result<Option<(f64, &str)>> {
        const NOT_MEASURED: [&str; 5] = ["", "nan", "n/a", "no data", "(!) n/a"];
        let Some(Column { unit, value }) = self.columns.get(name) else { return Ok(None) };
        if NOT_MEASURED.contains(&value.as_str()) {
            return Ok(None);
        }
        // Numbers without a unit have commas between thousands.
        let number = value.replace(',', "").parse();
        let number = number.map_err(|_| Error::Invalid(format!("{name} is {value:?}, which is not a number")))?;
        Ok(Some((number, unit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> RawPage {
        RawPage::parse(include_str!("../../tests/ncu/full.raw.csv")).unwrap()
    }

    #[test]
    fn values_come_in_one_unit_each() {
        let page = page();
        assert_eq!(page.text("Kernel Name"), Some("fa512_sm80_s512_full_128x64"));
        assert_eq!(page.text("Grid Size"), Some("(1024, 1, 1)"));
        assert_eq!(page.microseconds("gpu__time_duration.sum").unwrap(), Some(63.52));
        assert_eq!(page.number("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum").unwrap(), Some(5_024_398.0));
        let bandwidth = page.terabytes_per_second("dram__bytes.sum.per_second").unwrap().unwrap();
        assert!((bandwidth - 0.921_761_209).abs() < 1e-12, "{bandwidth}");
        let occupancy = page.fraction("sm__maximum_warps_per_active_cycle_pct").unwrap();
        assert_eq!(occupancy, Some(0.125));
    }

    #[test]
    fn what_was_not_measured_is_absent() {
        let page = page();
        assert_eq!(page.number("derived_tempMetric4").unwrap(), None, "nan");
        assert_eq!(page.number("sass__inst_executed_register_spilling_mem_local").unwrap(), None, "no data");
        assert_eq!(page.number("no__such_metric.sum").unwrap(), None);
    }

    #[test]
    fn another_unit_or_no_number_is_an_error() {
        let page = page();
        let message = page.fraction("gpu__time_duration.sum").unwrap_err().to_string();
        assert!(message.contains("has the unit \"us\""), "{message}");
        let message = page.number("launch__cluster_scheduling_policy").unwrap_err().to_string();
        assert!(message.contains("is \"PolicySpread\", which is not a number"), "{message}");
    }

    #[test]
    fn messages_before_the_table_are_passed_over() {
        let text = format!("==PROF== Connected\n{}", include_str!("../../tests/ncu/full.raw.csv"));
        assert_eq!(RawPage::parse(&text).unwrap().text("CC"), Some("9.0"));
    }

    #[test]
    fn other_texts_are_refused() {
        let refusal = |text: &str| RawPage::parse(text).unwrap_err().to_string();
        assert!(refusal("").contains("there is no column ID"));
        assert!(refusal("\"ID\",\"CC\"\n\"\",\"\"\n").contains("1 lines of units and values"));
        assert!(refusal("\"ID\",\"CC\"\n\"\"\n").contains("not a CSV table"));
        let details = refusal(include_str!("../../tests/ncu/full.details.csv"));
        assert!(details.contains("--page raw --csv"), "{details}");
    }
}
