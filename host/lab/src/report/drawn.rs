//! Drawings whose parts have palette tones as CSS classes.

use std::fmt::Write;

use super::plot::Tone;

/// A drawing without colours: the page provides them, or [`Drawing::standing_alone`].
pub struct Drawing {
    /// Width, in pixels.
    pub width: f64,
    /// Height, in pixels.
    pub height: f64,
    /// Size of its texts, in pixels.
    pub text: f64,
    /// Its parts, as SVG.
    pub body: String,
}

impl Drawing {
    /// The SVG, with `head` as its first content.
    pub fn svg(&self, head: &str) -> String {
        let Self { width, height, text, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" width=\"{width}\" \
             height=\"{height:.0}\" font-size=\"{text}\" font-family=\"system-ui,sans-serif\" role=\"img\">\n{head}{body}</svg>\n"
        )
    }

    /// A stand-alone SVG with a title and the colours of its `tones`, for light and dark backgrounds.
    pub fn standing_alone<'a>(&self, title: &str, tones: impl Iterator<Item = &'a Tone> + Clone) -> String {
        let mut head = format!("<title>{}</title>\n", escaped(title));
        let rules = |pick: fn(&Tone) -> &'static str| -> String {
            tones.clone().map(|tone| format!(".{}{{fill:{}}}", tone.name, pick(tone))).collect()
        };
        let (light, dark) = (rules(|tone| tone.light), rules(|tone| tone.dark));
        let _ = writeln!(head, "<style>{light}@media(prefers-color-scheme:dark){{{dark}}}</style>");
        self.svg(&head)
    }
}

/// A line of text, vertically centred at `y`.
pub fn put(body: &mut String, (x, y): (f64, f64), attributes: &str, words: &str) {
    let _ = writeln!(
        body,
        r#"<text class="plot-ink" x="{x:.1}" y="{y:.1}" dy="0.35em" {attributes}>{}</text>"#,
        escaped(words)
    );
}

/// `words` escaped for XML.
pub fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
