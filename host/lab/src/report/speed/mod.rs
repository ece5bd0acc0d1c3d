//! Times of a record as bars: one per contender and case, its length relative to the reference's time.
//!
//! `groups.rs` takes the times from a record and `drawing.rs` draws them; this module makes an image for documents, for
//! light and dark backgrounds. The report has the same drawing on its page.

mod drawing;
mod groups;

use super::plot::PALETTE;
use cli::error::{Error, Result};
use cli::record::BenchRecord;
pub(super) use drawing::{NARROW, WIDE, draw};
pub(super) use groups::{Entry, groups};

/// Palette indices of the tones of the first contender and of the others.
const OWN: usize = 3;
const OTHERS: usize = 8;

/// A contender with its label in the image.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its name in the record.
    pub contender: String,
    /// Its name in the image.
    pub label: String,
}

/// The image of `record` with the contenders `shown`; the first is the reference.
///
/// # Errors
/// [`Error::Invalid`] when there is no contender, or the first was not measured in any case.
pub fn svg(record: &BenchRecord, shown: &[Shown]) -> Result<String> {
    let reference = shown.first().map_or("any contender", |first| &first.contender);
    let entry = |(index, shown): (usize, &Shown)| Entry {
        contender: shown.contender.clone(),
        label: shown.label.clone(),
        tone: PALETTE[if index == 0 { OWN } else { OTHERS }].name,
    };
    let entries: Vec<Entry> = shown.iter().enumerate().map(entry).collect();
    let mut groups = groups(record, &entries, Some(reference));
    groups.retain(|group| group.reference.is_some());
    if groups.is_empty() {
        return Err(Error::Invalid(format!(
            "the record has no time of {reference}; name contenders that it has, the first as the measure of the others"
        )));
    }
    let title =
        format!("Times on {}, in times of the first contender's: BxHxS and mask", record.environment.device.name);
    let tones = [&PALETTE[0], &PALETTE[OWN], &PALETTE[OTHERS]];
    Ok(draw(&groups, &drawing::DOCUMENT).standing_alone(&title, tones.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cli::stand_ins::record;

    fn shown(names: &[(&str, &str)]) -> Vec<Shown> {
        let shown = names.iter().map(|&(contender, label)| Shown { contender: contender.into(), label: label.into() });
        shown.collect()
    }

    /// A record of two contenders, the second with `factor` times the times.
    fn two(factor: f64) -> BenchRecord {
        let mut both = record(vec![10.0, 10.0, 10.0]);
        let mut other = record(vec![10.0 * factor; 3]).rows.remove(0);
        other.contender = "torch:a&b".into();
        both.rows.push(other);
        both
    }

    fn widths(svg: &str) -> Vec<f64> {
        let document = roxmltree::Document::parse(svg).expect("XML");
        let bars = document.descendants().filter(|node| node.has_tag_name("rect"));
        bars.map(|node| node.attribute("width").unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn bars_are_as_long_as_times_are() {
        let record = two(2.0);
        let own = record.rows[0].contender.clone();
        let svg = svg(&record, &shown(&[(&own, "ours"), ("torch:a&b", "a & b")])).unwrap();
        let widths = widths(&svg);
        assert_eq!(widths.len(), 2);
        assert!((widths[1] / widths[0] - 2.0).abs() < 0.01, "{widths:?}");
        let document = roxmltree::Document::parse(&svg).expect("XML");
        let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
        assert!(texts.contains(&"20.00 µs (2.00×)") && texts.contains(&"a & b"), "{texts:?}");
    }

    #[test]
    fn contenders_that_are_not_there_are_left_out_but_for_the_first() {
        let record = two(2.0);
        let own = record.rows[0].contender.clone();
        let image = svg(&record, &shown(&[(&own, "ours"), ("nobody", "nobody")])).unwrap();
        assert!(!image.contains("nobody"));
        let error = svg(&record, &shown(&[("nobody", "nobody"), (&own, "ours")])).unwrap_err().to_string();
        assert!(error.contains("no time of nobody"), "{error}");
    }

    #[test]
    fn a_time_out_of_all_proportion_does_not_hide_the_others() {
        let record = two(1e6);
        let entries = ["fa512", "torch:a&b"].map(|name| Entry {
            contender: name.into(),
            label: name.into(),
            tone: PALETTE[OWN].name,
        });
        for geometry in [&WIDE, &NARROW] {
            let widths = widths(&draw(&groups(&record, &entries, Some("fa512")), geometry).svg(""));
            assert!(widths[0] > 10.0 && widths[1] < geometry.width, "{widths:?}");
        }
    }
}
