//! Parsed Markdown documents.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::Problem;

/// A piece of text and the line it stands in, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The line, from 1.
    pub line: usize,
    /// The text.
    pub text: String,
}

/// A parsed Markdown document.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its path, relative to the root of the workspace.
    pub path: PathBuf,
    /// Destinations of links and images.
    pub destinations: Vec<Located>,
    /// Code within text.
    pub code_spans: Vec<Located>,
    /// The lines of code blocks that a shell may read; lines that end with a backslash are joined with the next.
    pub code_lines: Vec<Located>,
    /// Anchors of its headings.
    pub anchors: BTreeSet<String>,
}

impl Document {
    /// Parses `text`.
    pub fn new(path: &Path, text: &str) -> Self {
        let mut document = Self {
            path: path.to_owned(),
            destinations: Vec::new(),
            code_spans: Vec::new(),
            code_lines: Vec::new(),
            anchors: BTreeSet::new(),
        };
        let line_of = |range: &Range<usize>| text[..range.start].matches('\n').count() + 1;
        let mut heading: Option<String> = None;
        let mut block: Option<Vec<Located>> = None;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = line_of(&range);
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.destinations.push(Located { line, text: dest_url.to_string() });
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    document.anchors.extend(heading.take().map(|heading| anchor(&heading)));
                }
                Event::Start(Tag::CodeBlock(kind)) => block = is_shell(&kind).then(Vec::new),
                Event::End(TagEnd::CodeBlock) => {
                    document.code_lines.extend(join_continued(block.take().unwrap_or_default()));
                }
                Event::Text(text) => {
                    if let Some(block) = &mut block {
                        let lines = text.lines().enumerate();
                        block.extend(lines.map(|(i, text)| Located { line: line + i, text: text.to_owned() }));
                    } else if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Code(code) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    document.code_spans.push(Located { line, text: code.to_string() });
                }
                _ => {}
            }
        }
        document
    }

    /// A problem in `line` of this document.
    pub fn problem(&self, line: usize, what: String) -> Problem {
        Problem { document: self.path.clone(), line, what }
    }
}

/// Whether a block's lines may be commands: it names a shell, or no language.
fn is_shell(kind: &CodeBlockKind<'_>) -> bool {
    match kind {
        CodeBlockKind::Indented => true,
        CodeBlockKind::Fenced(language) => ["", "bash", "console", "sh", "text"].contains(&language.as_ref()),
    }
}

/// The anchor that GitHub gives a heading: lower case, without punctuation, hyphens for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

/// Joins lines that end with a backslash with the ones they continue in.
fn join_continued(lines: Vec<Located>) -> Vec<Located> {
    let mut joined: Vec<Located> = Vec::new();
    for next in lines {
        match joined.last_mut() {
            Some(last) if last.text.ends_with('\\') => {
                last.text.pop();
                last.text.truncate(last.text.trim_end().len());
                last.text.push(' ');
                last.text.push_str(next.text.trim_start());
            }
            _ => joined.push(next),
        }
    }
    joined
}
