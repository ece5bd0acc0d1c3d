//! Rendering of a finding as text.

use std::io::IsTerminal;

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Snippet};
use ptx_sim::{Finding, FindingClass, LaneAddress, Location, OtherAccess, SourceLocation};

use crate::advice::advice;
use crate::chain::{Chain, Frame};
use crate::names::{demangled_text, short_name};
use crate::printable::printable;
use crate::sources::Sources;

/// Maximum lanes listed.
const LANES_SHOWN: usize = 8;

/// Renders findings as text.
#[derive(Debug)]
pub struct Renderer {
    sources: Sources,
    renderer: annotate_snippets::Renderer,
}

impl Renderer {
    /// A renderer that shows source lines found in `sources`, with ANSI colours if `colours`.
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

    /// `finding` as several lines, without a final line break.
    pub fn render(&self, finding: &Finding) -> String {
        let title = format!("{}: {}", finding.class, demangled_text(&finding.message));
        let error = Group::with_title(Level::ERROR.primary_title(title));
        let chain = Chain::of(&finding.at);
        let error = self.location(error, &finding.ptx_file, &finding.at, &chain, AnnotationKind::Primary);
        let mut groups = vec![error.element(Level::NOTE.message(numbers(finding)))];
        groups.extend(self.around(&chain));
        if let Some(other) = &finding.other {
            let chain = Chain::of(&other.at);
            groups.push(self.other_access(finding, other, &chain));
            groups.extend(self.around(&chain));
        }
        groups.extend(advice(finding.class).map(|text| Group::with_title(Level::HELP.secondary_title(text))));
        self.renderer.render(&groups)
    }

    /// The other access of a race, or the origin of the value that the finding is about.
    fn other_access<'a>(&self, finding: &'a Finding, other: &'a OtherAccess, chain: &Chain<'a>) -> Group<'a> {
        let access = if other.writes { "write" } else { "read" };
        let title = match finding.class {
            FindingClass::Uninitialised => format!("the value was read here: {}", thread(&other.at)),
            _ => format!("the other access, a {access}{}: {}", other.engine.by(), thread(&other.at)),
        };
        let note = Group::with_title(Level::NOTE.secondary_title(title));
        self.location(note, &finding.ptx_file, &other.at, chain, AnnotationKind::Context)
    }

    /// Adds the user's line that an instruction comes from, and the instruction itself.
    fn location<'a>(
        &self,
        mut group: Group<'a>,
        ptx_file: &'a str,
        at: &'a Location,
        chain: &Chain<'a>,
        mut kind: AnnotationKind,
    ) -> Group<'a> {
        if let Some(source) = chain.own().place {
            group = self.place(group, source, kind);
            kind = AnnotationKind::Context;
        }
        // Findings of other tools have no PTX line.
        match at.ptx_line {
            0 => group,
            line => group.element(instruction(ptx_file, line, &at.instruction, kind)),
        }
    }

    /// The frames between the user's line and the instruction, then those that lead to the user's line.
    fn around<'a>(&self, chain: &Chain<'a>) -> Vec<Group<'a>> {
        let inner = chain.inner().map(|(frame, call)| {
            let title = match call {
                Some(call) => format!("in `{}`, which is called there", short_name(&call.function)),
                None => "in what is inlined there".to_owned(),
            };
            self.note(title, frame)
        });
        let outer = chain.outer().map(|frame| {
            let title = match frame.call {
                Some(call) => {
                    format!("`{}` is called here, line {} of the PTX", short_name(&call.function), call.ptx_line)
                }
                None => "called from here, and inlined".to_owned(),
            };
            self.note(title, frame)
        });
        inner.chain(outer).collect()
    }

    fn note<'a>(&self, title: String, frame: Frame<'a>) -> Group<'a> {
        let note = Group::with_title(Level::NOTE.secondary_title(title));
        match frame.place {
            Some(place) => self.place(note, place, AnnotationKind::Context),
            None => note,
        }
    }

    /// Adds a source location, with its text if the file can be read.
    fn place<'a>(&self, group: Group<'a>, place: &'a SourceLocation, kind: AnnotationKind) -> Group<'a> {
        let (line, column) = (place.line as usize, place.column as usize);
        match self.sources.line(&place.file, place.line) {
            Some(text) => {
                let span = code_from(&text, column);
                let snippet = Snippet::source(text).line_start(line).path(printable(&place.file));
                group.element(snippet.annotation(kind.span(span)))
            }
            None => {
                let origin = Origin::path(printable(&place.file)).line(line);
                group.element(if column > 0 { origin.char_column(column) } else { origin })
            }
        }
    }
}

/// Adds a line of PTX.
fn instruction<'a>(file: &'a str, line: u32, text: &'a str, kind: AnnotationKind) -> Snippet<'a, Annotation<'a>> {
    let annotation = kind.span(code_from(text, 0));
    Snippet::source(text).line_start(line as usize).path(printable(file)).annotation(annotation)
}

/// Byte range of the code of `line` from `column` (from 1) to its end; of all code if there is no such column.
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
