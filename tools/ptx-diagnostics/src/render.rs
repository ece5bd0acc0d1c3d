//! A finding as text.

use std::io::IsTerminal;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Snippet};
use ptx_sim::{Finding, FindingClass, LaneAddress, Location, OtherAccess, SourceLocation};

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
        let error = Group::with_title(Level::ERROR.primary_title(title));
        let error = self.location(error, &finding.ptx_file, &finding.at, AnnotationKind::Primary);
        let mut groups = vec![error.element(Level::NOTE.message(numbers(finding)))];
        groups.extend(self.callers(&finding.at));
        groups.extend(self.calls(&finding.at));
        if let Some(other) = &finding.other {
            groups.push(self.other_access(finding, other));
            groups.extend(self.callers(&other.at));
        }
        groups.extend(advice(finding.class).map(|text| Group::with_title(Level::HELP.secondary_title(text))));
        self.renderer.render(&groups)
    }

    /// The access that the finding's races with, or that gave what it makes use of.
    fn other_access<'a>(&self, finding: &'a Finding, other: &'a OtherAccess) -> Group<'a> {
        let access = if other.writes { "write" } else { "read" };
        let title = match finding.class {
            FindingClass::Uninitialised => format!("the value was read here: {}", thread(&other.at)),
            _ => format!("the other access, a {access}{}: {}", other.engine.by(), thread(&other.at)),
        };
        let note = Group::with_title(Level::NOTE.secondary_title(title));
        self.location(note, &finding.ptx_file, &other.at, AnnotationKind::Context)
    }

    /// Adds the source of an instruction, and the instruction itself.
    fn location<'a>(
        &self,
        mut group: Group<'a>,
        ptx_file: &'a str,
        at: &'a Location,
        mut kind: AnnotationKind,
    ) -> Group<'a> {
        if let Some(source) = &at.source {
            group = self.place(group, source, kind);
            kind = AnnotationKind::Context;
        }
        // Tools other than the simulator know no PTX line.
        match at.ptx_line {
            0 => group,
            line => group.element(instruction(ptx_file, line, &at.instruction, kind)),
        }
    }

    /// The calls that an instruction was inlined through.
    fn callers<'a>(&self, at: &'a Location) -> impl Iterator<Item = Group<'a>> {
        at.inlined_at.iter().map(|caller| {
            let note = Group::with_title(Level::NOTE.secondary_title("called from here, and inlined"));
            self.place(note, caller, AnnotationKind::Context)
        })
    }

    /// The calls that the thread is in.
    fn calls<'a>(&self, at: &'a Location) -> impl Iterator<Item = Group<'a>> {
        at.called_from.iter().map(|call| {
            let title = format!("`{}` is called here, line {} of the PTX", call.function, call.ptx_line);
            let note = Group::with_title(Level::NOTE.secondary_title(title));
            match &call.source {
                Some(source) => self.place(note, source, AnnotationKind::Context),
                None => note,
            }
        })
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

/// Block and warp.
fn warp(at: &Location) -> String {
    let [x, y, z] = at.block;
    format!("block ({x}, {y}, {z}), warp {}", at.warp)
}

/// Block, warp and lane.
fn thread(at: &Location) -> String {
    at.lane.map_or_else(|| warp(at), |lane| format!("{}, lane {lane}", warp(at)))
}

/// Block, warp, lanes with their addresses, and how often it happened.
fn numbers(finding: &Finding) -> String {
    let mut text = warp(&finding.at);
    match (finding.lanes.as_slice(), finding.at.lane) {
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
