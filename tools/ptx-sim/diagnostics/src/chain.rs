//! The source lines that lead to an instruction, and the user's own line among them.

use ptx_sim::{CallSite, Location, SourceLocation};

/// Path fragments of files that belong to a compiler or a library.
const LIBRARY_FOLDERS: [&str; 20] = [
    "/bin/..//include/",
    "/bin/../include/",
    "/bin/../targets/",
    "/targets/x86_64-linux/include/",
    "/targets/sbsa-linux/include/",
    "/usr/include/",
    "/usr/lib/",
    "/usr/local/cuda",
    "/opt/cuda",
    "/site-packages/",
    "/dist-packages/",
    "/rustc/",
    "/rustlib/",
    "/.cargo/registry/",
    "/include/cub/",
    "/include/thrust/",
    "/include/cuda/",
    "/include/cooperative_groups",
    "/nvidia/cu12/include/",
    "/nvidia/cu13/include/",
];

/// One line in the chain of calls and inlining.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Source location, if known.
    pub place: Option<&'a SourceLocation>,
    /// The call from this line to the next inner one; `None` for the instruction itself and for inlined code.
    pub call: Option<&'a CallSite>,
}

/// The source lines that lead to an instruction, innermost first.
pub struct Chain<'a> {
    frames: Vec<Frame<'a>>,
    /// Index of the innermost frame that is not in a library.
    own: usize,
}

impl<'a> Chain<'a> {
    /// The chain of `at`.
    pub fn of(at: &'a Location) -> Self {
        let inlined = at.source.iter().chain(&at.inlined_at).map(|place| Frame { place: Some(place), call: None });
        let mut frames: Vec<_> = inlined.collect();
        if frames.is_empty() {
            frames.push(Frame { place: None, call: None });
        }
        for call in &at.called_from {
            frames.push(Frame { place: call.source.as_ref(), call: Some(call) });
            frames.extend(call.inlined_at.iter().map(|place| Frame { place: Some(place), call: None }));
        }
        let own = |frame: &Frame<'_>| frame.place.is_some_and(|place| !is_library(&place.file));
        let own = frames.iter().position(own).unwrap_or(0);
        Self { frames, own }
    }

    /// The user's own line; the innermost line if there is none.
    pub fn own(&self) -> Frame<'a> {
        self.frames[self.own]
    }

    /// The frames between the user's own line and the instruction, outermost first, each with the call that leads there.
    pub fn inner(&self) -> impl Iterator<Item = (Frame<'a>, Option<&'a CallSite>)> {
        (0..self.own).rev().map(|index| (self.frames[index], self.frames[index + 1].call))
    }

    /// The frames that lead to the user's own line, innermost first.
    pub fn outer(&self) -> impl Iterator<Item = Frame<'a>> {
        self.frames[self.own + 1..].iter().copied()
    }
}

fn is_library(file: &str) -> bool {
    let file = file.replace('\\', "/");
    LIBRARY_FOLDERS.iter().any(|folder| file.contains(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: &str) -> SourceLocation {
        SourceLocation { file: file.to_owned(), line: 1, column: 1 }
    }

    #[test]
    fn headers_of_cuda_and_rust_are_not_the_users() {
        for (file, expected) in [
            ("/usr/local/cuda-13.0/bin/..//include/cuda_fp16.hpp", true),
            ("/opt/venv/lib/python3.12/site-packages/triton/language/standard.py", true),
            ("/rustc/0123/library/core/src/ptr/mod.rs", true),
            ("/home/me/project/include/kernel.cuh", false),
            ("src/kernel.rs", false),
        ] {
            assert_eq!(is_library(file), expected, "{file}");
        }
    }

    #[test]
    fn the_innermost_line_of_the_users_comes_first() {
        let header = place("/usr/local/cuda/include/cuda_fp16.hpp");
        let at = Location {
            source: Some(header.clone()),
            inlined_at: vec![header],
            called_from: vec![
                CallSite {
                    function: "helper".to_owned(),
                    ptx_line: 3,
                    source: Some(place("/usr/include/helper.h")),
                    inlined_at: vec![place("helper.cu")],
                },
                CallSite {
                    function: "other".to_owned(),
                    ptx_line: 9,
                    source: Some(place("kernel.cu")),
                    inlined_at: Vec::new(),
                },
            ],
            ..Location::default()
        };
        let chain = Chain::of(&at);
        assert_eq!(chain.own().place, Some(&place("helper.cu")));
        let inner: Vec<_> = chain.inner().map(|(_, call)| call.map(|call| call.function.as_str())).collect();
        assert_eq!(inner, [None, Some("helper"), None]);
        assert_eq!(
            chain.outer().map(|frame| frame.place.expect("a place").file.as_str()).collect::<Vec<_>>(),
            ["kernel.cu"]
        );
    }
}
