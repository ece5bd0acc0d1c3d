//! A map as an image: a panel for each mask, in it a square for each point, coloured by the best peer's time over ours.

mod drawing;

use super::plot::{HEAT, PALETTE};
use crate::map::record::Map;
use crate::map::summary::standings;
use cli::error::{Error, Result};
pub(super) use drawing::{NARROW, WIDE, draw};

/// The image of `map` for documents, for light and dark backgrounds.
///
/// # Errors
/// [`Error::Invalid`] when no point has a peer's time.
pub fn svg(map: &Map) -> Result<String> {
    let standings = standings(map);
    let drawing = draw(&standings, &drawing::DOCUMENT).ok_or_else(|| {
        Error::Invalid("the map has no point with a peer's time beside ours, so there is nothing to draw".into())
    })?;
    let title = format!("{}: the best peer's time over ours", map.header.environment.device.name);
    Ok(drawing.standing_alone(&title, PALETTE[..3].iter().chain(&HEAT)))
}

#[cfg(test)]
mod tests {
    use roxmltree::Document;

    use super::*;
    use crate::map::record::tests::{header, measured, point};
    use crate::map::record::{OURS, Point};
    use contract::config::Mask;

    fn beside((heads, sequence): (u32, u32), mask: Mask, ratio: f64) -> Point {
        let results = vec![measured(OURS, Some("large"), 10.0), measured("torch:cudnn", None, 10.0 * ratio)];
        let mut point = point((1, heads, sequence), results);
        point.case.mask = mask;
        point
    }

    /// Class and description of each square.
    fn squares(svg: &str) -> Vec<(String, String)> {
        let document = Document::parse(svg).expect("XML");
        let squares = document.descendants().filter(|node| node.has_tag_name("rect") && node.has_children());
        let words = |node: &roxmltree::Node| node.is_text();
        let said =
            |node: roxmltree::Node| node.descendants().filter(words).filter_map(|node| node.text()).collect::<String>();
        squares.map(|node| (node.attribute("class").unwrap().to_owned(), said(node))).collect()
    }

    #[test]
    fn points_are_coloured_by_their_ratios_and_say_them() {
        let points = vec![
            beside((1, 16), Mask::Full, 3.0),
            beside((4096, 16), Mask::Full, 0.7),
            beside((16, 8192), Mask::Causal, 1.1),
        ];
        let svg = svg(&Map { header: header(), points }).unwrap();
        let mut squares = squares(&svg);
        squares.sort();
        let classes: Vec<_> = squares.iter().map(|square| square.0.as_str()).collect();
        assert_eq!(classes, ["heat-1", "heat-4", "heat-8"]);
        assert_eq!(squares[0].1, "1x4096x16 full: 0.700 (large 10.00 µs, torch:cudnn 7.00 µs)");
        assert!(svg.contains("causal mask") && svg.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn squares_lie_within_the_image_wherever_points_are() {
        for points in [
            vec![beside((7, 100), Mask::Full, 1.0)],
            vec![beside((1, 16), Mask::Full, 1.0), beside((4096, 8192), Mask::Full, 1.0)],
        ] {
            for geometry in [&drawing::DOCUMENT, &WIDE, &NARROW] {
                let map = Map { header: header(), points: points.clone() };
                let drawing = draw(&standings(&map), geometry).unwrap();
                let svg = drawing.svg("");
                let document = Document::parse(&svg).expect("XML");
                for node in document.descendants().filter(|node| node.has_tag_name("rect")) {
                    let number = |name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
                    assert!(number("x") >= 0.0 && number("x") + number("width") <= drawing.width, "{node:?}");
                    assert!(number("y") >= 0.0 && number("y") + number("height") <= drawing.height, "{node:?}");
                }
            }
        }
    }

    #[test]
    fn a_map_without_peers_is_not_drawn() {
        let alone = point((1, 1, 16), vec![measured(OURS, Some("large"), 10.0)]);
        let error = svg(&Map { header: header(), points: vec![alone] }).unwrap_err().to_string();
        assert!(error.contains("no point with a peer's time"), "{error}");
    }
}
