//! A finding as text.

use std::io::IsTerminal;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Snippet};
use ptx_sim::{Finding, LaneAddress, OtherAccess, SourceLocation};

use crate::advice::advice;
use crate::sources::Sources;

/// Lanes listed at most.
const LANES_SHOWN: usize = 8;

/// Turns findings into text.
#[derive(Debug)]
pub struct Renderer {
    sources: Sources,
    renderer: annotate_snippets::Renderer,
}

impl Renderer {
    /// A renderer that shows the lines it finds in `sources`; with `colours` for a terminal.
    pub fn new(sources: Sources, colours: bool) -> Self {
        let renderer = match colours {
            true => annotate_snippets::Renderer::styled(),
            false => annotate_snippets::Renderer::plain(),
        };
        Self { sources, renderer }
    }

    /// A renderer for standard output: in colour on a terminal, unless `NO_COLOR` is set.
    pub fn for_standard_output(sources: Sources) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self::new(sources, std::io::stdout().is_terminal() && !refused)
    }

    /// `finding` in several lines, without a line break at the end.
    pub fn render(&self, finding: &Finding) -> String {
        let title = format!("{}: {}", finding.class, finding.message);
        let mut error = Group::with_title(Level::ERROR.primary_title(title));
        if let Some(source) = &finding.source {
            error = self.place(error, source, AnnotationKind::Primary);
        }
        // Tools other than the simulator know no PTX line.
        if finding.ptx_line > 0 {
            let kind = if finding.source.is_none() { AnnotationKind::Primary } else { AnnotationKind::Context };
            error = error.element(instruction(&finding.ptx_file, finding.ptx_line, &finding.instruction, kind));
        }
        error = error.element(Level::NOTE.message(numbers(finding)));
        let mut groups = vec![error];
        for caller in &finding.inlined_at {
            let note = Group::with_title(Level::NOTE.secondary_title("called from here, and inlined"));
            groups.push(self.place(note, caller, AnnotationKind::Context));
        }
        groups.extend(finding.other.as_ref().map(|other| self.other_access(finding, other)));
        groups.extend(advice(finding.class).map(|text| Group::with_title(Level::HELP.secondary_title(text))));
        self.renderer.render(&groups)
    }

    /// The access that the finding's races with.
    fn other_access<'a>(&self, finding: &'a Finding, other: &'a OtherAccess) -> Group<'a> {
        let access = if other.writes { "write" } else { "read" };
        let agent = if other.by_copy { " by an asynchronous copy" } else { "" };
        let [x, y, z] = other.block;
        let title = format!(
            "the other access, a {access}{agent}: block ({x}, {y}, {z}), warp {}, lane {}",
            other.warp, other.lane
        );
        let mut note = Group::with_title(Level::NOTE.secondary_title(title));
        if let Some(source) = &other.source {
            note = self.place(note, source, AnnotationKind::Context);
        }
        note.element(instruction(&finding.ptx_file, other.ptx_line, &other.instruction, AnnotationKind::Context))
    }

    /// Adds a place in the source, with its line where that can be read.
    fn place<'a>(&self, group: Group<'a>, place: &'a SourceLocation, kind: AnnotationKind) -> Group<'a> {
        let (line, column) = (place.line as usize, place.column as usize);
        match self.sources.line(&place.file, place.line) {
            Some(text) => {
                let span = code_from(&text, column);
                let snippet = Snippet::source(text).line_start(line).path(place.file.as_str());
                group.element(snippet.annotation(kind.span(span)))
            }
            None => {
                let origin = Origin::path(place.file.as_str()).line(line);
                group.element(if column > 0 { origin.char_column(column) } else { origin })
            }
        }
    }
}

/// A line of PTX.
fn instruction<'a>(file: &'a str, line: u32, text: &'a str, kind: AnnotationKind) -> Snippet<'a, Annotation<'a>> {
    let annotation = kind.span(code_from(text, 0));
    Snippet::source(text).line_start(line as usize).path(file).annotation(annotation)
}

/// The bytes of `line` from `column` (from 1) to the end of its code; of all its code when there is no such column.
fn code_from(line: &str, column: usize) -> std::ops::Range<usize> {
    let first = line.len() - line.trim_start().len();
    let end = line.trim_end().len();
    let start = column.checked_sub(1).filter(|start| (first..end).contains(start) && line.is_char_boundary(*start));
    start.unwrap_or(first.min(end))..end
}

/// Block, warp, lanes with their addresses, and how often it happened.
fn numbers(finding: &Finding) -> String {
    let [x, y, z] = finding.block;
    let mut text = format!("block ({x}, {y}, {z}), warp {}", finding.warp);
    match (finding.lanes.as_slice(), finding.lane) {
        ([], None) => {}
        ([], Some(lane)) => {
            text += &format!(", {}", lane_and_address(&LaneAddress { lane, address: finding.address }));
        }
        (lanes, _) => {
            let shown: Vec<String> = lanes.iter().take(LANES_SHOWN).map(lane_and_address).collect();
            text += &format!(", {}", shown.join(", "));
            if lanes.len() > LANES_SHOWN {
                text += &format!(" and {} more lanes", lanes.len() - LANES_SHOWN);
            }
        }
    }
    if finding.occurrences > 1 {
        text += &format!("; {} occurrences in the launch, this is the first", finding.occurrences);
    }
    text
}

fn lane_and_address(lane: &LaneAddress) -> String {
    match lane.address {
        Some(address) => format!("lane {} at {address:#x}", lane.lane),
        None => format!("lane {}", lane.lane),
    }
}
