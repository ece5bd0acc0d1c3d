//! Times of a record as an image for documents: a bar for each contender in each case, as long as its time is in times of the
//! first one's. The SVG stands alone, on light and on dark pages.

use std::fmt::Write;

use super::number;
use super::plot::PALETTE;
use crate::error::{Error, Result};
use crate::record::{BenchRecord, Case};

const WIDTH: f64 = 760.0;
/// Where bars begin: names of cases and contenders stand before.
const LEFT: f64 = 250.0;
/// Room behind the longest bar, for its numbers.
const RIGHT: f64 = 130.0;
const BAR: f64 = 17.0;
const PITCH: f64 = 21.0;
const GAP: f64 = 14.0;
/// Tones of the first contender and of the others, in the palette.
const OWN: usize = 3;
const OTHERS: usize = 8;

/// A contender, and what it is called in the image.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its name in the record.
    pub contender: String,
    /// Its name in the image.
    pub label: String,
}

/// A case with the contenders' medians, µs, in the order of [`Shown`]; absent for one that was not measured.
struct Group {
    case: Case,
    medians: Vec<Option<f64>>,
}

/// The image of `record`, of these contenders, the first of which is what the others are measured by.
///
/// # Errors
/// [`Error::Invalid`] when there is no contender, or no case in which the first was measured.
pub fn svg(record: &BenchRecord, shown: &[Shown]) -> Result<String> {
    let groups = groups(record, shown)?;
    let ratios = groups.iter().flat_map(|group| group.bars().map(|(_, ratio, _)| ratio));
    let longest = ratios.fold(1.0, f64::max);
    let lines: usize = groups.iter().map(|group| group.bars().count()).sum();
    let height = lines as f64 * PITCH + groups.len() as f64 * GAP;
    let mut text = String::new();
    head(&mut text, height, record);
    let (scale, mut y) = ((WIDTH - LEFT - RIGHT) / longest, GAP / 2.0);
    for group in &groups {
        let Case { shape, mask, .. } = group.case;
        let case = format!("{}, {}, {} {}", shape.batch, shape.heads, shape.sequence, mask.name());
        put(&mut text, (0.0, y), "case", &case);
        for (index, ratio, median) in group.bars() {
            let class = if index == 0 { "own" } else { "other" };
            put(&mut text, (LEFT - 8.0, y), "name", &shown[index].label);
            let (top, width) = (y, ratio * scale);
            let _ =
                writeln!(text, r#"<rect class="{class}" x="{LEFT}" y="{top:.1}" width="{width:.1}" height="{BAR}"/>"#);
            let numbers = format!("{ratio:.2}×  {} µs", number::microseconds(median));
            put(&mut text, (LEFT + width + 8.0, y), "number", &numbers);
            y += PITCH;
        }
        y += GAP;
    }
    text.push_str("</svg>\n");
    Ok(text)
}

fn groups(record: &BenchRecord, shown: &[Shown]) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for row in &record.rows {
        let Some(place) = shown.iter().position(|shown| shown.contender == row.contender) else { continue };
        let index = groups.iter().position(|group| group.case == row.case).unwrap_or_else(|| {
            groups.push(Group { case: row.case, medians: vec![None; shown.len()] });
            groups.len() - 1
        });
        groups[index].medians[place] = row.measurement().map(|measurement| measurement.summary_us.median);
    }
    groups.retain(|group| group.medians.first().is_some_and(Option::is_some));
    if groups.is_empty() {
        let names: Vec<&str> = shown.iter().map(|shown| shown.contender.as_str()).collect();
        return Err(Error::Invalid(format!(
            "the record has no time of {}; name contenders that it has, the first as the measure of the others",
            names.first().copied().unwrap_or("any contender")
        )));
    }
    Ok(groups)
}

impl Group {
    /// Index, time in times of the first one's, and time of each contender that was measured.
    fn bars(&self) -> impl Iterator<Item = (usize, f64, f64)> {
        let own = self.medians[0].unwrap_or(f64::NAN);
        let measured = self.medians.iter().enumerate().filter_map(|(index, median)| Some((index, (*median)?)));
        measured.map(move |(index, median)| (index, median / own, median))
    }
}

fn head(text: &mut String, height: f64, record: &BenchRecord) {
    let (ink, own, others) = (&PALETTE[0], &PALETTE[OWN], &PALETTE[OTHERS]);
    let rules = |pick: fn(&super::plot::Tone) -> &'static str| {
        format!("text{{fill:{}}}.own{{fill:{}}}.other{{fill:{}}}", pick(ink), pick(own), pick(others))
    };
    let _ = writeln!(
        text,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" width="{WIDTH}" height="{height:.0}" role="img">"#
    );
    let gpu = escaped(&record.environment.device.name);
    let _ = writeln!(text, "<title>Times on {gpu}, in times of the first contender's: B, H, S and mask</title>");
    let _ = writeln!(
        text,
        "<style>text{{font:13px system-ui,sans-serif}}.case{{font-weight:600}}.name{{text-anchor:end}}{}\
         @media(prefers-color-scheme:dark){{{}}}</style>",
        rules(|tone| tone.light),
        rules(|tone| tone.dark)
    );
}

/// A line of text beside a bar whose top is at `y`.
fn put(text: &mut String, (x, y): (f64, f64), class: &str, words: &str) {
    let baseline = y + 0.75 * BAR;
    let _ = writeln!(text, r#"<text class="{class}" x="{x:.1}" y="{baseline:.1}">{}</text>"#, escaped(words));
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

    fn shown(names: &[(&str, &str)]) -> Vec<Shown> {
        let shown = names.iter().map(|&(contender, label)| Shown { contender: contender.into(), label: label.into() });
        shown.collect()
    }

    /// A record of two contenders, the second with twice the times.
    fn two() -> BenchRecord {
        let mut both = record(vec![10.0, 10.0, 10.0]);
        let mut other = record(vec![20.0, 20.0, 20.0]).rows.remove(0);
        other.contender = "torch:a&b".into();
        both.rows.push(other);
        both
    }

    #[test]
    fn bars_are_as_long_as_times_are() {
        let record = two();
        let own = record.rows[0].contender.clone();
        let svg = svg(&record, &shown(&[(&own, "ours"), ("torch:a&b", "a & b")])).unwrap();
        let document = roxmltree::Document::parse(&svg).expect("XML");
        let widths = document.descendants().filter(|node| node.has_tag_name("rect"));
        let widths: Vec<f64> = widths.map(|node| node.attribute("width").unwrap().parse().unwrap()).collect();
        assert_eq!(widths.len(), 2);
        assert!((widths[1] / widths[0] - 2.0).abs() < 0.01, "{widths:?}");
        let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
        assert!(texts.contains(&"2.00×  20.00 µs") && texts.contains(&"a & b"), "{texts:?}");
    }

    #[test]
    fn contenders_that_are_not_there_are_left_out_but_for_the_first() {
        let record = two();
        let own = record.rows[0].contender.clone();
        let image = svg(&record, &shown(&[(&own, "ours"), ("nobody", "nobody")])).unwrap();
        assert!(!image.contains("nobody"));
        let error = svg(&record, &shown(&[("nobody", "nobody"), (&own, "ours")])).unwrap_err().to_string();
        assert!(error.contains("no time of nobody"), "{error}");
    }
}
