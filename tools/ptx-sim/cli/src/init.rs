//! Generates a launch description for an entry from its signature, with guesses where that is not enough.

use std::path::{Path, PathBuf};

use clap::Args;
use ptx_diagnostics::demangled;
use ptx_diagnostics::files::is_same_file;
use ptx_sim::{GlobalMemory, Module, ModuleVariable, Parameter, TENSOR_MAP_BYTES, Use};

use crate::cpp::{element_of_cpp, parameter_types};
use crate::element::Element;
use crate::entry::{parameter_name, resolve};
use crate::input::read_ptx;
use crate::report;

/// Default number of elements of a buffer; the last block is not full.
const ELEMENTS: u64 = 1000;
/// Different integers in a buffer: lanes, warps and blocks meet at the same key or counter.
const KEYS: u64 = 10;
/// Bytes of a shared array whose size the launch sets.
const SHARED: u32 = 4096;
/// Default threads of a block.
const THREADS: u32 = 128;
/// Maximum variables listed.
const VARIABLES: usize = 20;

/// Write a launch description for an entry.
#[derive(Args)]
pub struct Init {
    /// The PTX file
    file: PathBuf,
    /// The entry, by its name in the PTX or in the source [default: the only one there is]
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// The file to write, `-` for standard output [default: that of the PTX, as .toml]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

impl Init {
    /// The command that runs the description in `output`.
    fn command(&self, output: &Path) -> String {
        let launch = if output == Path::new("-") { "FILE".into() } else { output.display().to_string() };
        format!("ptx-sim {} --launch {launch}", self.file.display())
    }

    /// Writes the description.
    ///
    /// # Errors
    /// If the PTX cannot be read or the file cannot be written.
    pub fn run(&self) -> Result<(), String> {
        let name = self.file.display().to_string();
        let module = Module::parse(&read_ptx(&self.file)?, &name).map_err(|error| error.to_string())?;
        let entry = resolve(&module, self.entry.as_deref())?;
        let output = self.output.clone().unwrap_or_else(|| self.file.with_extension("toml"));
        let text = description(&module, &entry, &self.command(&output))?;
        if output == Path::new("-") {
            return report::print(&text);
        }
        if !self.force && output.exists() {
            return Err(format!("{} is there already; say --force to replace it, or --output", output.display()));
        }
        if is_same_file(&output, &self.file) {
            return Err(format!("{} is the PTX; say another --output", output.display()));
        }
        report::write(&output, text.as_bytes())?;
        report::note(&format!(
            "wrote {}; sizes and contents are guesses, change them to what your kernel expects",
            output.display()
        ));
        Ok(())
    }
}

/// A description of a launch of `entry`; `command` runs it.
fn description(module: &Module, entry: &str, command: &str) -> Result<String, String> {
    let parameters: Vec<Parameter<'_>> = module.parameters(entry).into_iter().flatten().collect();
    let uses = module.uses(entry).unwrap_or_default();
    let types = parameter_types(entry).filter(|types| types.len() == parameters.len());
    let mut draft = Draft::default();
    for (index, (parameter, used)) in parameters.iter().zip(&uses).enumerate() {
        let name = parameter_name(entry, parameter.name);
        let name = name.split_once("_param_").map_or(name.clone(), |(_, number)| format!("param_{number}"));
        let kind = types.as_ref().map(|types| types[index].as_str());
        draft.add(&name, parameter, used, kind);
    }
    let shared = if module.uses_dynamic_shared() { SHARED } else { 0 };
    let block = module.block_limit(entry).unwrap_or([THREADS, 1, 1]);
    let grid = ELEMENTS.div_ceil(u64::from(block[0].max(1)));
    let mut text =
        format!("# {command}\n# Sizes and contents are guesses: change them to what the kernel expects.\n\n");
    if demangled(entry) != entry {
        text += &format!("# {}\n", demangled(entry));
    }
    text += &format!("entry = {}\n", quoted(entry));
    text += &format!("grid = {grid}          # blocks: one size, or [x, y, z]\n");
    text += &format!(
        "block = {block:?}   # threads of a block\nshared = {shared}          # bytes of dynamic shared memory\n"
    );
    if let Some(architecture) = module.architecture() {
        text += &format!("arch = {architecture}           # stands for sm_{architecture}\n");
    }
    text += &format!("params = [\n{}]\n", draft.params);
    text += &draft.printed.map_or(String::new(), |name| format!("print = [{}]\n", quoted(&name)));
    text += &section("buffers", &draft.buffers);
    text += &draft.tensor_maps;
    let variables = module.place_variables(&mut GlobalMemory::new()).map_err(|error| error.to_string())?;
    text += &section("variables", &variables_text(&variables));
    text += "\n# What a buffer has to hold at the end:\n# [expect.NAME]\n# npy = \"expected.npy\"     # or values = [1, 2, 3]\n\
             # rtol = 1e-5\n# atol = 1e-8\n";
    Ok(text)
}

fn section(name: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\n[{name}]\n{text}") }
}

/// The variables, as comments: their initial values may be right.
fn variables_text(variables: &[ModuleVariable]) -> String {
    let own = variables.iter().filter(|variable| !variable.name.starts_with(['$', '_']));
    let lines = own.take(VARIABLES).map(|variable| {
        let element = Element::of_ptx(&variable.element).unwrap_or(Element::BYTE);
        let count = variable.bytes / element.bytes as u64;
        let value = match count {
            1 => format!("{}:0", element.name),
            count => format!("{}[{count}]=zeros", element.name),
        };
        format!("# {} = {}\n", key(&variable.name), quoted(&value))
    });
    lines.collect()
}

/// A description under construction.
#[derive(Default)]
struct Draft {
    params: String,
    buffers: String,
    tensor_maps: String,
    /// The first buffer that the kernel writes.
    printed: Option<String>,
}

impl Draft {
    fn add(&mut self, name: &str, parameter: &Parameter<'_>, used: &Use, kind: Option<&str>) {
        let mut comment = kind.map_or(String::new(), |kind| format!("   # {kind}"));
        let value = match kind.and_then(|kind| kind.strip_suffix('*')) {
            Some(pointee) if parameter.bytes == 8 => self.pointer(name, pointee.trim(), used),
            _ if used.is_address => {
                let element = Element::of_ptx(&used.element).unwrap_or(Element::BYTE);
                self.buffer(name, (element, 1), used.is_read, !used.is_read)
            }
            _ => self.value(name, parameter, used, kind),
        };
        if value.starts_with("bytes:") {
            comment += "   # a struct; write its fields, as in struct{f32[1000]=zeros; i32:1000}";
        }
        self.params += &format!("    {},{comment}\n", quoted(&value));
    }

    /// Address of a buffer for a C++ pointer to `pointee`.
    fn pointer(&mut self, name: &str, pointee: &str, used: &Use) -> String {
        let is_constant = pointee.ends_with("const");
        let pointee = pointee.trim_end_matches("const").trim();
        if let Some(inner) = pointee.strip_suffix('*') {
            let (inner, width) = element_of_cpp(inner).unwrap_or((Element::BYTE, 1));
            let row = self.buffer(&format!("{name}_0"), (inner, width), true, false);
            self.buffers += &format!("{} = {}   # addresses\n", key(name), quoted(&format!("ptr[{row}]")));
            return format!("&{name}");
        }
        let of_ptx = || Element::of_ptx(&used.element).map(|element| (element, 1));
        let elements = element_of_cpp(pointee).or_else(of_ptx).unwrap_or((Element::BYTE, 1));
        self.buffer(name, elements, is_constant || used.is_read || !used.is_address, !is_constant)
    }

    /// Address of a buffer of scalars or vectors.
    fn buffer(&mut self, name: &str, (element, width): (Element, u64), is_read: bool, is_written: bool) -> String {
        let contents = match (is_read, element.is_float()) {
            (false, _) => String::new(),
            (true, true) => "=random(1)".to_owned(),
            (true, false) => format!("=range({KEYS})"),
        };
        let value = format!("{}[{}]{contents}", element.name, ELEMENTS * width);
        self.buffers += &format!("{} = {}\n", key(name), quoted(&value));
        if is_written {
            self.printed.get_or_insert_with(|| name.to_owned());
        }
        format!("&{name}")
    }

    /// A parameter that is not an address.
    fn value(&mut self, name: &str, parameter: &Parameter<'_>, used: &Use, kind: Option<&str>) -> String {
        if parameter.bytes == TENSOR_MAP_BYTES as u64 && parameter.alignment >= 64 {
            let data = format!("{name}_data");
            self.buffers += &format!("{} = \"f16[4096]=random(1)\"\n", key(&data));
            self.tensor_maps += &format!(
                "\n[tensor_maps.{}]\nbuffer = {}\nsizes = [64, 64]     # elements, the contiguous dimension first\n\
                 box = [64, 64]\nswizzle = 128        # 0, 32, 64 or 128\n\
                 # strides = [128]    # bytes, of every dimension but the first\n",
                key(name),
                quoted(&format!("&{data}"))
            );
            return format!("tensor_map:{name}");
        }
        let element = kind.and_then(element_of_cpp).map(|(element, _)| element);
        let element = element.or_else(|| Element::of_ptx(&used.element));
        match element.filter(|element| element.bytes as u64 == parameter.bytes) {
            Some(element) if !used.is_used => format!("{}:0", element.name),
            Some(element) if element.is_float() => format!("{}:1", element.name),
            Some(element) if element.bytes == 1 => format!("{}:1", element.name),
            Some(element) => format!("{}:{ELEMENTS}", element.name),
            // A struct: the PTX does not describe its fields.
            None => format!("bytes:{}", "00".repeat(parameter.bytes as usize)),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// `name` as a TOML key.
fn key(name: &str) -> String {
    let is_bare = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter));
    if is_bare { name.to_owned() } else { quoted(name) }
}
