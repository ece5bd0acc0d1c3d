//! Colours and markers.

use plotters::style::RGBColor;

/// A colour of the plots. The page's style replaces its key by a colour that suits the background.
pub struct Tone {
    /// Name of the style variable.
    pub name: &'static str,
    /// The colour in the SVG.
    pub key: &'static str,
    rgb: RGBColor,
    /// On a light background.
    pub light: &'static str,
    /// On a dark background.
    pub dark: &'static str,
}

const fn tone(name: &'static str, key: &'static str, rgb: RGBColor, light: &'static str, dark: &'static str) -> Tone {
    Tone { name, key, rgb, light, dark }
}

/// Tones of axes and text, then those of contenders: the hues of Okabe & Ito's palette, distinguishable with any colour
/// vision, with a contrast of at least 3:1 to both backgrounds.
pub const PALETTE: [Tone; 10] = [
    tone("plot-ink", "#010000", RGBColor(1, 0, 0), "#1b1f24", "#e6e9ed"),
    tone("plot-axis", "#020000", RGBColor(2, 0, 0), "#6b7480", "#8b95a1"),
    tone("plot-grid", "#030000", RGBColor(3, 0, 0), "#d9dee4", "#333b45"),
    tone("plot-blue", "#0072B2", RGBColor(0x00, 0x72, 0xB2), "#0072b2", "#5bb8f5"),
    tone("plot-vermillion", "#D55E00", RGBColor(0xD5, 0x5E, 0x00), "#cf5a00", "#ff8a4c"),
    tone("plot-green", "#009E73", RGBColor(0x00, 0x9E, 0x73), "#008761", "#3ccfa0"),
    tone("plot-purple", "#CC79A7", RGBColor(0xCC, 0x79, 0xA7), "#a8447f", "#e39ac6"),
    tone("plot-ochre", "#E69F00", RGBColor(0xE6, 0x9F, 0x00), "#9a6a00", "#f0b840"),
    tone("plot-grey", "#808080", RGBColor(0x80, 0x80, 0x80), "#5f5f5f", "#bdbdbd"),
    tone("plot-sky", "#56B4E9", RGBColor(0x56, 0xB4, 0xE9), "#2f8cc4", "#a5dcff"),
];

/// Tones of ratios, from far below 1 to far above: warm if we are slower, blue if we are clearly faster.
pub const HEAT: [Tone; 8] = [
    tone("heat-1", "#A33200", RGBColor(0xA3, 0x32, 0x00), "#a33200", "#ff6a2b"),
    tone("heat-2", "#E06A1C", RGBColor(0xE0, 0x6A, 0x1C), "#e06a1c", "#f0924f"),
    tone("heat-3", "#F7B267", RGBColor(0xF7, 0xB2, 0x67), "#f7b267", "#c98a4a"),
    tone("heat-4", "#D9D6C7", RGBColor(0xD9, 0xD6, 0xC7), "#d9d6c7", "#5c5b54"),
    tone("heat-5", "#A9CFE8", RGBColor(0xA9, 0xCF, 0xE8), "#a9cfe8", "#355a75"),
    tone("heat-6", "#68A9D6", RGBColor(0x68, 0xA9, 0xD6), "#68a9d6", "#3f7fae"),
    tone("heat-7", "#2E7CB8", RGBColor(0x2E, 0x7C, 0xB8), "#2e7cb8", "#5fb0e8"),
    tone("heat-8", "#0B4F8A", RGBColor(0x0B, 0x4F, 0x8A), "#0b4f8a", "#a8dbff"),
];

/// Colour of text.
pub const INK: RGBColor = PALETTE[0].rgb;
/// Colour of axes and limits.
pub const AXIS: RGBColor = PALETTE[1].rgb;
/// Colour of grid lines.
pub const GRID: RGBColor = PALETTE[2].rgb;
/// Index of the first contender tone.
const CONTENDERS: usize = 3;

/// Outlines of markers, within 10 units of (0, 0).
const MARKERS: [&[(i32, i32)]; 8] = [
    &[(0, -9), (5, -8), (8, -5), (9, 0), (8, 5), (5, 8), (0, 9), (-5, 8), (-8, 5), (-9, 0), (-8, -5), (-5, -8)],
    &[(-8, -8), (8, -8), (8, 8), (-8, 8)],
    &[(0, -10), (10, 8), (-10, 8)],
    &[(0, -11), (11, 0), (0, 11), (-11, 0)],
    &[
        (-3, -10),
        (3, -10),
        (3, -3),
        (10, -3),
        (10, 3),
        (3, 3),
        (3, 10),
        (-3, 10),
        (-3, 3),
        (-10, 3),
        (-10, -3),
        (-3, -3),
    ],
    &[(0, -4), (5, -9), (9, -5), (4, 0), (9, 5), (5, 9), (0, 4), (-5, 9), (-9, 5), (-4, 0), (-9, -5), (-5, -9)],
    &[(0, 10), (10, -8), (-10, -8)],
    &[(-10, -4), (10, -4), (10, 4), (-10, 4)],
];

/// How something is drawn.
#[derive(Clone, Copy)]
pub struct Style {
    /// Its colour.
    pub colour: RGBColor,
    /// Name of the colour's tone in the palette.
    pub tone: &'static str,
    /// Outline of its marker, in units of the plot.
    pub marker: &'static [(i32, i32)],
}

impl Style {
    /// The style of contender number `index`; combinations of colour and marker repeat after 56.
    pub fn nth(index: usize) -> Self {
        let tones = &PALETTE[CONTENDERS..];
        let tone = &tones[index % tones.len()];
        Self { colour: tone.rgb, tone: tone.name, marker: MARKERS[index % MARKERS.len()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_colours_that_the_backend_writes() {
        for Tone { name, key, rgb: RGBColor(red, green, blue), .. } in PALETTE.iter().chain(&HEAT) {
            assert_eq!(*key, format!("#{red:02X}{green:02X}{blue:02X}"), "{name}");
        }
    }

    #[test]
    fn no_two_of_many_contenders_look_alike() {
        let styles: std::collections::HashSet<_> = (0..56)
            .map(|index| (Style::nth(index).marker, Style::nth(index).colour))
            .map(|(marker, RGBColor(red, green, blue))| (marker, red, green, blue))
            .collect();
        assert_eq!(styles.len(), 56);
    }
}
