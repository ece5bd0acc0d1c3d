//! Drawings whose parts have the names of tones of the palette as their classes.

use std::fmt::Write;

use super::plot::Tone;

/// A drawing without colours, which the page that it is on gives it, or [`Drawing::standing_alone`].
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
    /// The SVG, with `head` before all else.
    pub fn svg(&self, head: &str) -> String {
        let Self { width, height, text, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" width=\"{width}\" \
             height=\"{height:.0}\" font-size=\"{text}\" font-family=\"system-ui,sans-serif\" role=\"img\">\n{head}{body}</svg>\n"
        )
    }

    /// The SVG with a title and the colours of its `tones`, for light pages and dark ones.
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

/// A line of text around the height `y`.
pub fn put(body: &mut String, (x, y): (f64, f64), attributes: &str, words: &str) {
    let _ = writeln!(
        body,
        r#"<text class="plot-ink" x="{x:.1}" y="{y:.1}" dy="0.35em" {attributes}>{}</text>"#,
        escaped(words)
    );
}

/// `words` as text of XML.
pub fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
