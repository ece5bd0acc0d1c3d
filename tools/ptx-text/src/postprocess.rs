//! From the compiler's PTX text to the one that is shipped: adds launch bounds, removes dead functions, and refuses anything
//! that would make an entry slow or unlaunchable.
//!
//! PTX ISA sections: "Kernel and Function Directives" (`.entry`, `.func`), "Performance-Tuning Directives"
//! (`.reqntid`, `.minnctapersm`), "State Spaces" (`.local`).

mod refusal;

use std::collections::{BTreeMap, BTreeSet};

use contract::args::{TENSOR_MAPS_ALIGNMENT, TENSOR_MAPS_COMPILED_ALIGNMENT, TensorMaps};
use contract::backward::args::BackwardMaps;
use contract::backward::variants::{BACKWARD_VARIANTS, BackwardVariant};
use contract::manifest::Entry;
use contract::probe::PROBES;
use contract::tile::Configuration;
use contract::variants::Variant;

use crate::lines::{
    Files, callee, directive, entry_of_line, has_line, instruction, location, source, source_files, without_comment,
    words,
};
pub use refusal::{Location, Refusal, list};

/// PTX that is ready to be shipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postprocessed {
    /// The text.
    pub text: String,
    /// Its `.version`, as in `8.0`.
    pub ptx_version: String,
    /// Its `.target`, as in `sm_80`.
    pub target: String,
    /// The entries that execute `griddepcontrol.wait` themselves.
    pub waiting: BTreeSet<String>,
    /// The entries that read the block's index in y, which counts parts of an item.
    pub in_parts: BTreeSet<String>,
}

impl Postprocessed {
    /// `entry`, one of this PTX, completed with what the text tells about it.
    pub fn describe(&self, entry: Entry) -> Entry {
        let has = |those: &BTreeSet<String>| those.contains(&entry.name);
        Entry { waits_for_previous_grid: has(&self.waiting), leaves_parts: has(&self.in_parts), ..entry }
    }
}

/// Launch bounds of an entry, for ptxas and the driver.
#[derive(Clone, Copy, Debug)]
pub struct LaunchBounds {
    /// Exact number of threads of a block.
    pub threads: u32,
    /// Minimum resident blocks per multiprocessor.
    pub min_blocks: u32,
}

impl From<Configuration> for LaunchBounds {
    fn from(config: Configuration) -> Self {
        Self { threads: config.threads(), min_blocks: config.min_blocks() }
    }
}

/// Adds launch bounds to every entry, and removes probes, backward entries, and functions that no entry calls.
///
/// The bound on threads is `.reqntid`, not `.maxntid`: the entries are compiled for exactly that many threads, and the driver
/// then refuses a launch with another number instead of computing a wrong result.
///
/// Returns every reason to refuse the PTX, not only the first.
pub fn postprocess(ptx: &str, variants: &[&Variant]) -> Result<Postprocessed, Vec<Refusal>> {
    let bounds = variants.iter().map(|variant| (variant.entry, variant.config.into())).collect();
    scan(ptx, &bounds, Scan::default())
}

/// [`postprocess`] for backward entries; other entries are left out.
pub fn postprocess_backward(ptx: &str, variants: &[&BackwardVariant]) -> Result<Postprocessed, Vec<Refusal>> {
    let bounds = |variant: &BackwardVariant| LaunchBounds {
        threads: variant.tile.threads(),
        min_blocks: variant.tile.min_blocks(),
    };
    let bounds = variants.iter().map(|variant| (variant.entry, bounds(variant))).collect();
    scan(ptx, &bounds, Scan { leaves_others_out: true, ..Scan::default() })
}

/// [`postprocess`] for the entry `name` alone; other entries are left out.
pub fn postprocess_alone(ptx: &str, name: &str, bounds: LaunchBounds) -> Result<Postprocessed, Vec<Refusal>> {
    scan(ptx, &BTreeMap::from([(name, bounds)]), Scan { leaves_others_out: true, ..Scan::default() })
}

fn scan<'a>(
    ptx: &'a str,
    bounds: &BTreeMap<&str, LaunchBounds>,
    scan: Scan<'a>,
) -> Result<Postprocessed, Vec<Refusal>> {
    let mut scan = Scan { files: source_files(ptx), ..scan };
    for (index, line) in ptx.lines().enumerate() {
        scan.line(index + 1, line, bounds);
    }
    for name in bounds.keys().filter(|name| !scan.entries.contains(**name)) {
        scan.refusals.push(Refusal::MissingEntry((*name).to_owned()));
    }
    let ptx_version = directive(ptx, ".version");
    let target = directive(ptx, ".target");
    let (Some(ptx_version), Some(target), []) = (&ptx_version, &target, scan.refusals.as_slice()) else {
        let missing = [(".version", ptx_version.is_none()), (".target", target.is_none())];
        let missing = missing.into_iter().filter(|(_, missing)| *missing);
        scan.refusals.extend(missing.map(|(name, _)| Refusal::MissingDirective(name)));
        return Err(scan.refusals);
    };
    Ok(Postprocessed {
        text: scan.text,
        ptx_version: ptx_version.clone(),
        target: target.clone(),
        waiting: scan.waiting,
        in_parts: scan.in_parts,
    })
}

/// Waits for earlier grids.
const GRID_WAIT: &str = "griddepcontrol.wait";
/// The block's index in y.
const BLOCK_IN_Y: &str = "%ctaid.y";

/// The construct that contains the current line.
#[derive(Default)]
enum Within {
    /// Nothing: module scope.
    #[default]
    Module,
    /// An `.entry`, before (`body` false) or inside its braces.
    Entry { name: String, body: bool },
    /// A `.func`, or an unwanted entry, which is left out.
    LeftOut { body: bool },
}

#[derive(Default)]
struct Scan<'a> {
    within: Within,
    /// Number of open braces.
    depth: usize,
    /// The operands of the last `.loc` that names a line.
    loc: Option<&'a str>,
    files: Files<'a>,
    entries: BTreeSet<String>,
    waiting: BTreeSet<String>,
    /// Those that read the block's index in y.
    in_parts: BTreeSet<String>,
    refusals: Vec<Refusal>,
    text: String,
    /// Whether an entry without a configuration is left out instead of refused.
    leaves_others_out: bool,
}

impl<'a> Scan<'a> {
    fn line(&mut self, number: usize, line: &'a str, bounds: &BTreeMap<&str, LaunchBounds>) {
        // Fast path: most lines, which need no change.
        if let Within::Entry { body: true, .. } = self.within
            && let Some(operands) = location(line)
        {
            if has_line(operands) {
                self.loc = Some(operands);
            }
            self.keep(line);
            return;
        }
        let code = without_comment(line).trim();
        if let Within::Module = self.within {
            self.begin_item(number, code, bounds);
        }
        let mut line = line;
        if let Within::Entry { name, body: false } = &self.within
            && let Some((header, body)) = line.find('{').map(|brace| line.split_at(brace))
            && let Some(bounds) = bounds.get(name.as_str())
        {
            self.text.push_str(header);
            self.text.push_str(&directives(bounds));
            line = body;
        }
        if let Within::Entry { body: true, .. } = self.within {
            self.body_line(number, code);
        }
        match aligned_tensor_maps(line) {
            _ if self.is_left_out(code) => {}
            Some(aligned) if matches!(self.within, Within::Entry { body: false, .. }) => self.keep(&aligned),
            _ => self.keep(line),
        }
        self.end_of_line(code);
    }

    fn keep(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn begin_item(&mut self, number: usize, code: &str, bounds: &BTreeMap<&str, LaunchBounds>) {
        if let Some(name) = entry_of_line(code) {
            if !bounds.contains_key(name) {
                if self.leaves_others_out || is_elsewhere(name) {
                    self.within = Within::LeftOut { body: false };
                    return;
                }
                self.refusals.push(Refusal::UnlistedEntry(name.to_owned(), number));
            }
            self.entries.insert(name.to_owned());
            self.loc = None;
            self.within = Within::Entry { name: name.to_owned(), body: false };
        } else if words(code).any(|word| word == ".func") {
            self.within = Within::LeftOut { body: false };
        }
    }

    fn body_line(&mut self, number: usize, code: &str) {
        let Within::Entry { name: entry, .. } = &self.within else { return };
        if code.trim_end_matches(';') == GRID_WAIT {
            self.waiting.insert(entry.clone());
        }
        if code.contains(BLOCK_IN_Y) {
            self.in_parts.insert(entry.clone());
        }
        let source = || self.loc.and_then(|operands| source(operands, &self.files));
        let place = || Location { entry: entry.clone(), line: number, source: source() };
        let refusals = code.split([';', '{', '}']).filter_map(|statement| {
            let (opcode, operands) = instruction(statement)?;
            let mut modifiers = opcode.split('.');
            match modifiers.next() {
                Some("call") => Some(Refusal::Call(place(), callee(operands))),
                Some("alloca") => Some(Refusal::LocalMemory(place())),
                _ => modifiers.any(|part| part == "local").then(|| Refusal::LocalMemory(place())),
            }
        });
        let refusals: Vec<Refusal> = refusals.collect();
        self.refusals.extend(refusals);
    }

    /// Whether a line is left out: functions, which no accepted entry calls; unwanted entries; and empty debug sections, which
    /// some consumers of PTX reject.
    fn is_left_out(&self, code: &str) -> bool {
        matches!(self.within, Within::LeftOut { .. })
            || code.strip_prefix(".section").is_some_and(|section| section.trim_start().starts_with(".debug_macinfo"))
    }

    fn end_of_line(&mut self, code: &str) {
        if !code.starts_with(".file") {
            self.depth += code.matches('{').count();
            self.depth = self.depth.saturating_sub(code.matches('}').count());
        }
        let declaration_ends = code.ends_with(';');
        let closed = self.depth == 0;
        match &mut self.within {
            Within::Module => {}
            Within::Entry { body, .. } | Within::LeftOut { body } if !closed => *body = true,
            Within::Entry { body, .. } | Within::LeftOut { body } => {
                if *body || code.ends_with('}') || declaration_ends {
                    self.within = Within::Module;
                }
            }
        }
    }
}

fn directives(bounds: &LaunchBounds) -> String {
    format!(".reqntid {}, 1, 1\n.minnctapersm {}\n", bounds.threads, bounds.min_blocks)
}

/// The declaration of a parameter that holds tensor maps, with the alignment that they need and the compiler cannot express.
fn aligned_tensor_maps(line: &str) -> Option<String> {
    let declared = format!(".param .align {TENSOR_MAPS_COMPILED_ALIGNMENT} .b8 ");
    let sizes = [size_of::<TensorMaps>(), size_of::<BackwardMaps>()];
    let is_maps = line.contains(&declared) && sizes.iter().any(|size| line.contains(&format!("[{size}]")));
    is_maps.then(|| line.replace(&declared, &format!(".param .align {TENSOR_MAPS_ALIGNMENT} .b8 ")))
}

/// Whether an entry has a file of its own kind: probes and backward entries.
fn is_elsewhere(name: &str) -> bool {
    PROBES.iter().any(|probe| probe.entry == name) || BACKWARD_VARIANTS.iter().any(|variant| variant.entry == name)
}

#[cfg(test)]
mod tests {
    use contract::variants::{VARIANTS, Variant};

    use super::{Location, Refusal, list, postprocess};

    /// A module whose only entry, that of the first variant, has this body.
    fn module(body: &str) -> String {
        format!(
            "//\n// Generated by LLVM NVPTX Back-End\n//\n\n.version 8.0\n.target sm_80\n.address_size 64\n\n\
             .extern .shared .align 1024 .b8 dynamic[];\n\n\t// .globl\t{name}\n\
             .visible .entry {name}(\n\t.param .align 8 .b8 {name}_param_0[184]\n)\n{{\n\t.reg .b32 \t%r<4>;\n{body}\tret;\n\n}}\n\
             \t.section\t.debug_macinfo\t{{\t}}\n\t.file\t1 \"kernel-gpu/src/geometry.rs\"\n",
            name = variant().entry
        )
    }

    fn variant() -> &'static Variant<'static> {
        &VARIANTS[0]
    }

    fn refusals(ptx: &str) -> Vec<Refusal> {
        postprocess(ptx, &[variant()]).expect_err("must be refused")
    }

    fn at(line: usize, source: Option<&str>) -> Location {
        Location { entry: variant().entry.into(), line, source: source.map(str::to_owned) }
    }

    /// Line number of the first line of a body in [`module`].
    const BODY: usize = 17;

    #[test]
    fn tensor_maps_get_the_alignment_that_the_compiler_cannot_give() {
        for bytes in [512, 640] {
            let maps = format!("\t.param .align 16 .b8 maps[{bytes}]");
            let text = module("\tmov.u32 \t%r1, %tid.x;\n").replace("[184]\n)", &format!("[184],\n{maps}\n)"));
            let text = postprocess(&text, &[variant()]).expect("it is accepted").text;
            assert!(text.contains(&format!("\t.param .align 64 .b8 maps[{bytes}]\n")), "{text}");
            assert!(text.contains(".param .align 8 .b8"), "other parameters stay as they are: {text}");
        }
    }

    #[test]
    fn every_entry_gets_the_launch_bounds_of_its_variant() {
        let done = postprocess(&module("\tmov.u32 \t%r1, %tid.x;\n"), &[variant()]).unwrap();
        let config = variant().config;
        let bounds = format!(")\n.reqntid {}, 1, 1\n.minnctapersm {}\n{{\n", config.threads(), config.min_blocks());
        assert_eq!(done.text.matches(&bounds).count(), 1, "{}", done.text);
        assert_eq!((done.ptx_version.as_str(), done.target.as_str()), ("8.0", "sm_80"));
    }

    #[test]
    fn a_body_that_begins_on_the_header_line_gets_them_too() {
        let ptx = module("").replace(")\n{\n", ") {\n");
        let done = postprocess(&ptx, &[variant()]).unwrap();
        let bound = format!(") .reqntid {}, 1, 1\n", variant().config.threads());
        assert!(done.text.contains(&bound), "{}", done.text);
        assert!(refusals(&module("\tcall.uni f, ();\n").replace(")\n{\n", ") {\n")).len() == 1);
    }

    #[test]
    fn nothing_but_bounds_is_added_and_only_the_empty_section_is_removed() {
        let ptx = module("\t{ .reg .pred p; setp.eq.u32 p, %r1, %r2; @p bra $L; }\n");
        let done = postprocess(&ptx, &[variant()]).unwrap();
        let added = |line: &&str| !line.starts_with(".reqntid") && !line.starts_with(".minnctapersm");
        let kept: Vec<&str> = done.text.lines().filter(added).collect();
        let expected: Vec<&str> = ptx.lines().filter(|line| !line.contains(".debug_macinfo")).collect();
        assert_eq!(kept, expected);
    }

    #[test]
    fn functions_that_no_entry_calls_are_removed() {
        let functions = ".extern .func  (.param .b32 func_retval0) write_str\n(\n\t.param .b64 write_str_param_0\n)\n;\n\
                         .extern .func panic\n(\n\t.param .b64 panic_param_0\n)\n.noreturn;\n\
                         .visible .func rust_begin_unwind(\n\t.param .b64 p\n)\n.noreturn\n{\n\t{ call.uni panic, (p); }\n}\n";
        let ptx = module("").replace("\t// .globl", &format!("{functions}\t// .globl"));
        assert_eq!(postprocess(&ptx, &[variant()]), postprocess(&module(""), &[variant()]));
    }

    #[test]
    fn a_call_is_refused_with_its_place() {
        let body = "\t.loc\t1 37 22\n\t{ // callseq 1, 0\n\t.param .b64 \tparam0;\n\tcall.uni (retval0), panic, (param0);\n\t}\n";
        let refusals = refusals(&module(body));
        let place = at(BODY + 3, Some("kernel-gpu/src/geometry.rs:37"));
        assert_eq!(refusals, [Refusal::Call(place, "panic".into())]);
        let message = refusals[0].to_string();
        assert!(message.contains(&format!("PTX line {}", BODY + 3)) && message.contains("geometry.rs:37"), "{message}");
    }

    #[test]
    fn a_call_hides_behind_nothing() {
        for body in [
            "\t@%p1 call f;\n",
            "label: call f;\n",
            "\t{ .reg .pred p; @!p call.uni f, (x); }\n",
            "\tcall %rd1, (x), f;\n",
        ] {
            let refusals = refusals(&module(body));
            assert!(matches!(refusals[..], [Refusal::Call(..)]), "{body}: {refusals:?}");
        }
    }

    #[test]
    fn words_that_look_like_calls_are_none() {
        let body = "\t// call f\n\tmov.u32 \t%r1, call_count;\n\tld.shared::cta.L2::128B.b32 \t%r1, [%r2];\n";
        assert!(postprocess(&module(body), &[variant()]).is_ok());
    }

    #[test]
    fn local_memory_is_refused() {
        for body in [
            "\t.local .align 16 .b8 \t__local_depot0[792];\n",
            "\tst.local.v4.b32 \t[%rd1], {%r1, %r2, %r3, %r4};\n",
            "\tld.local.L2::128B.b32 \t%r1, [%rd1];\n",
            "\talloca.u64 \t%rd1, 16;\n",
        ] {
            assert_eq!(refusals(&module(body)), [Refusal::LocalMemory(at(BODY, None))], "{body}");
        }
    }

    #[test]
    fn the_place_is_the_last_line_that_is_named_and_its_caller() {
        let inlined = "\t.loc\t1 59 13\n\t.loc\t1 14 9, function_name $L__name, inlined_at 1 59 13\n";
        let body = format!("{inlined}\t.loc\t1 0 9\n\tst.local.b32 \t[%rd1], 0;\n");
        let source = "kernel-gpu/src/geometry.rs:14, called in kernel-gpu/src/geometry.rs:59";
        assert_eq!(refusals(&module(&body)), [Refusal::LocalMemory(at(BODY + 3, Some(source)))]);
    }

    #[test]
    fn instructions_from_one_line_are_listed_once() {
        let refusal = |entry: &str, line, source: &str| {
            Refusal::LocalMemory(Location { entry: entry.into(), line, source: Some(source.into()) })
        };
        let refusals = [
            refusal("one", 17, "a.rs:1"),
            refusal("one", 18, "a.rs:1"),
            refusal("one", 19, "b.rs:1"),
            refusal("two", 30, "a.rs:1"),
            refusal("three", 40, "a.rs:1"),
            Refusal::MissingEntry("four".into()),
        ];
        assert_eq!(
            list(&refusals),
            "\n  entry one, PTX line 17 (from a.rs:1): uses local memory, and so do 2 other entries\
             \n  entry one, PTX line 19 (from b.rs:1): uses local memory\
             \n  entry four is in the variant list but not in the PTX"
        );
    }

    #[test]
    fn the_entries_must_be_those_of_the_variant_list() {
        let ptx = module("");
        let missing = postprocess(&ptx, &[variant(), &VARIANTS[1]]).expect_err("must be refused");
        assert_eq!(missing, [Refusal::MissingEntry(VARIANTS[1].entry.into())]);
        assert_eq!(postprocess(&ptx, &[]), Err(vec![Refusal::UnlistedEntry(variant().entry.into(), 12)]));
    }

    #[test]
    fn entries_that_leave_parts_are_named() {
        let in_parts = |body| postprocess(&module(body), &[variant()]).expect("nothing to refuse").in_parts;
        assert!(in_parts("\tmov.u32 \t%r1, %ctaid.x;\n\t// %ctaid.y\n").is_empty());
        assert!(in_parts("\tmov.u32 \t%r1, %ctaid.y;\n").iter().eq([variant().entry]));
    }

    #[test]
    fn entries_that_wait_for_the_grids_before_them_are_named() {
        let waiting = |body| postprocess(&module(body), &[variant()]).expect("nothing to refuse").waiting;
        assert!(waiting("\t// griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;\n").is_empty());
        assert!(waiting("\tgriddepcontrol.wait;\n").iter().eq([variant().entry]));
    }

    #[test]
    fn text_that_is_not_ptx_is_refused() {
        let refusals = refusals("");
        assert!(refusals.contains(&Refusal::MissingDirective(".version")), "{refusals:?}");
        assert!(refusals.contains(&Refusal::MissingDirective(".target")), "{refusals:?}");
        assert!(refusals.contains(&Refusal::MissingEntry(variant().entry.into())), "{refusals:?}");
    }
}
