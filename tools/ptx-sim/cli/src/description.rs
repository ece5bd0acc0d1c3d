//! Launch descriptions: TOML files that specify launches, buffers and expected results.
//!
//! ```toml
//! [buffers]                         # by name, for several parameters and launches
//! x = "f32[1000]=random(1)"
//! rows = "ptr[&x, &x+512]"
//!
//! [variables]                       # of the module, __device__ or __constant__
//! factor = "f32:0.5"
//!
//! [tensor_maps.tiles]
//! buffer = "&x"
//! sizes = [32, 31]
//! box = [32, 8]
//!
//! [[launch]]                        # one after the other; what a launch leaves out, the top of the file says
//! entry = "weighted_sum"
//! grid = 1
//! block = [256, 1]
//! params = ["&x", "f32[1]", "&rows", "tensor_map:tiles", "u32:1000"]
//!
//! [expect.x]
//! npy = "x.npy"
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ptx_diagnostics::files::read_text;
use ptx_diagnostics::printable::printable;
use ptx_sim::Swizzle;
use serde::Deserialize;
use toml::Spanned;

use crate::element::{ELEMENTS, Element};
use crate::notation::{AddressOf, BufferSpec, Field, Parameter};

/// Maximum size of a file, bytes.
const LARGEST_FILE: u64 = 4 << 20;
/// Maximum number of launches.
const MOST_LAUNCHES: usize = 1000;

/// A launch description; the command line supplies what it omits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    entry: Option<String>,
    grid: Option<Spanned<ExtentValue>>,
    block: Option<Spanned<ExtentValue>>,
    cluster: Option<Spanned<ExtentValue>>,
    cooperative: Option<bool>,
    shared: Option<u32>,
    arch: Option<u32>,
    params: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    launch: Vec<LaunchTable>,
    #[serde(default)]
    buffers: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    variables: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    tensor_maps: BTreeMap<String, Spanned<TensorMapTable>>,
    #[serde(default)]
    expect: BTreeMap<String, Spanned<ExpectTable>>,
    #[serde(default)]
    print: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LaunchTable {
    entry: Option<String>,
    grid: Option<Spanned<ExtentValue>>,
    block: Option<Spanned<ExtentValue>>,
    cluster: Option<Spanned<ExtentValue>>,
    cooperative: Option<bool>,
    shared: Option<u32>,
    params: Option<Vec<Spanned<String>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorMapTable {
    buffer: Spanned<String>,
    element: Option<Spanned<String>>,
    sizes: Vec<u64>,
    strides: Option<Vec<u64>>,
    r#box: Vec<u32>,
    element_strides: Option<Vec<u32>>,
    swizzle: Option<Spanned<u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectTable {
    npy: Option<PathBuf>,
    values: Option<Vec<Number>>,
    rtol: Option<f64>,
    atol: Option<f64>,
}

/// A number in a list.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Number {
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ExtentValue {
    One(u32),
    Several(Vec<u32>),
}

/// A parsed description.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Architecture: 80 for `sm_80`.
    pub architecture: Option<u32>,
    /// Named buffers.
    pub buffers: Vec<(String, BufferSpec)>,
    /// Initial values of module variables.
    pub variables: Vec<(String, Parameter)>,
    /// Tensor maps.
    pub tensor_maps: Vec<(String, TensorMapSpec)>,
    /// Launches in order; at least one.
    pub launches: Vec<LaunchSpec>,
    /// Expected contents of buffers at the end.
    pub expected: Vec<(String, Expected)>,
    /// Buffers to print at the end.
    pub print: Vec<String>,
}

/// A launch.
#[derive(Clone, Debug, Default)]
pub struct LaunchSpec {
    /// Name of the entry.
    pub entry: Option<String>,
    /// Blocks in x, y and z.
    pub grid: Option<[u32; 3]>,
    /// Threads of a block in x, y and z.
    pub block: Option<[u32; 3]>,
    /// Blocks of a cluster in x, y and z; `None` for what the entry requires.
    pub cluster: Option<[u32; 3]>,
    /// Whether all blocks are resident together, so that they may wait for each other.
    pub cooperative: Option<bool>,
    /// Dynamic shared memory, bytes.
    pub shared: Option<u32>,
    /// Parameters, in order.
    pub params: Vec<Parameter>,
}

/// A tensor map.
#[derive(Clone, Debug)]
pub struct TensorMapSpec {
    /// Address of the first element.
    pub buffer: AddressOf,
    /// Element type; `None` for that of the buffer.
    pub element: Option<Element>,
    /// Elements in each dimension, the contiguous one first.
    pub sizes: Vec<u64>,
    /// Byte strides of all dimensions but the first; `None` if packed.
    pub strides: Option<Vec<u64>>,
    /// Elements of a box in each dimension.
    pub box_sizes: Vec<u32>,
    /// Element stride in each dimension; `None` for 1.
    pub element_strides: Option<Vec<u32>>,
    /// Swizzle of a box in shared memory.
    pub swizzle: Swizzle,
}

/// Expected contents of a buffer at the end.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The numbers.
    pub numbers: Numbers,
    /// Relative tolerance.
    pub relative: Option<f64>,
    /// Absolute tolerance.
    pub absolute: Option<f64>,
}

/// Expected numbers.
#[derive(Clone, Debug)]
pub enum Numbers {
    /// A `.npy` file.
    Npy(PathBuf),
    /// A list.
    List(Vec<Number>),
}

/// A text with positions for error messages.
struct Source<'a> {
    path: &'a Path,
    text: String,
}

impl Source<'_> {
    fn at(&self, offset: usize, message: &str) -> String {
        let (line, column) = position(&self.text, offset);
        format!("{}:{line}:{column}: {message}", self.path.display())
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    fn parameter(&self, text: &Spanned<String>) -> Result<Parameter, String> {
        // The text starts after a quotation mark.
        let start = text.span().start + 1;
        let parsed = Parameter::parse(text.get_ref(), self.folder());
        parsed.map_err(|error| self.at(start + error.offset, &error.message))
    }

    fn extent(&self, value: Option<Spanned<ExtentValue>>) -> Result<Option<[u32; 3]>, String> {
        let Some(value) = value else { return Ok(None) };
        let start = value.span().start;
        let sizes = match value.into_inner() {
            ExtentValue::One(size) => vec![size],
            ExtentValue::Several(sizes) => sizes,
        };
        extent(&sizes).map(Some).ok_or_else(|| self.at(start, "expected one to three sizes"))
    }

    fn launch(&self, table: LaunchTable) -> Result<LaunchSpec, String> {
        let params = table.params.into_iter().flatten().map(|text| self.parameter(&text));
        Ok(LaunchSpec {
            params: params.collect::<Result<_, _>>()?,
            entry: table.entry,
            grid: self.extent(table.grid)?,
            block: self.extent(table.block)?,
            cluster: self.extent(table.cluster)?,
            cooperative: table.cooperative,
            shared: table.shared,
        })
    }

    fn buffer(&self, text: &Spanned<String>) -> Result<BufferSpec, String> {
        match self.parameter(text)? {
            Parameter::Plain(Field::Buffer(spec)) => Ok(spec),
            _ => Err(self.at(text.span().start, "expected a buffer, as in \"f32[1024]=zeros\" or \"ptr[&x, &y]\"")),
        }
    }

    fn tensor_map(&self, table: TensorMapTable) -> Result<TensorMapSpec, String> {
        let buffer = AddressOf::parse(table.buffer.get_ref());
        let element = table.element.map(|name| {
            Element::named(name.get_ref()).ok_or_else(|| {
                let known: Vec<_> = ELEMENTS.iter().map(|element| element.name).collect();
                self.at(name.span().start, &format!("expected one of {}", known.join(", ")))
            })
        });
        let swizzle = table.swizzle.map_or(Ok(Swizzle::None), |swizzle| {
            let known = Swizzle::ALL.into_iter().find(|known| known.row_bytes() == u64::from(*swizzle.get_ref()));
            known.ok_or_else(|| self.at(swizzle.span().start, "expected a swizzle of 0, 32, 64 or 128 bytes"))
        });
        Ok(TensorMapSpec {
            buffer: buffer.map_err(|message| self.at(table.buffer.span().start, &message))?,
            element: element.transpose()?,
            sizes: table.sizes,
            strides: table.strides,
            box_sizes: table.r#box,
            element_strides: table.element_strides,
            swizzle: swizzle?,
        })
    }

    fn expected(&self, table: Spanned<ExpectTable>) -> Result<Expected, String> {
        let start = table.span().start;
        let ExpectTable { npy, values, rtol: relative, atol: absolute } = table.into_inner();
        let numbers = match (npy, values) {
            (Some(path), None) => Numbers::Npy(self.folder().join(path)),
            (None, Some(values)) => Numbers::List(values),
            _ => return Err(self.at(start, "expected either npy = \"FILE\" or values = [1, 2, …]")),
        };
        let bad =
            [relative, absolute].into_iter().flatten().find(|tolerance| !(0.0..f64::INFINITY).contains(tolerance));
        match bad {
            Some(bad) => Err(self.at(start, &format!("a tolerance of {bad}; it must be a number from 0 on"))),
            None => Ok(Expected { numbers, relative, absolute }),
        }
    }

    /// Parses each value of a table, in the order of the file.
    fn each<T, U>(
        &self,
        table: BTreeMap<String, Spanned<T>>,
        parse: impl Fn(&Self, Spanned<T>) -> Result<U, String>,
    ) -> Result<Vec<(String, U)>, String> {
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(_, value)| value.span().start);
        let named = entries.into_iter().map(|(name, value)| match printable(&name) {
            shown if shown == name => Ok((name, parse(self, value)?)),
            shown => Err(self.at(value.span().start, &format!("a name cannot have control characters: {shown}"))),
        });
        named.collect()
    }
}

impl Description {
    /// Reads a description; relative file names in it refer to its folder.
    ///
    /// # Errors
    /// With file, line and column, the text found and what would be accepted.
    pub fn read(path: &Path) -> Result<Description, String> {
        let error = |error: std::io::Error| format!("{}: {error}", path.display());
        let source = Source { path, text: read_text(path, LARGEST_FILE).map_err(error)? };
        let file: File = toml::from_str(&source.text)
            .map_err(|error| source.at(error.span().map_or(0, |span| span.start), error.message()))?;
        let tables = file.launch;
        if tables.len() > MOST_LAUNCHES {
            let count = tables.len();
            return Err(format!("{}: {count} launches; at most {MOST_LAUNCHES} are possible", path.display()));
        }
        let top = LaunchTable {
            entry: file.entry,
            grid: file.grid,
            block: file.block,
            cluster: file.cluster,
            cooperative: file.cooperative,
            shared: file.shared,
            params: file.params,
        };
        let top = source.launch(top)?;
        let launches = tables.into_iter().map(|table| {
            let has_params = table.params.is_some();
            let own = source.launch(table)?;
            Ok::<_, String>(LaunchSpec {
                entry: own.entry.or_else(|| top.entry.clone()),
                grid: own.grid.or(top.grid),
                block: own.block.or(top.block),
                cluster: own.cluster.or(top.cluster),
                cooperative: own.cooperative.or(top.cooperative),
                shared: own.shared.or(top.shared),
                params: if has_params { own.params } else { top.params.clone() },
            })
        });
        let launches: Vec<_> = launches.collect::<Result<_, _>>()?;
        Ok(Description {
            architecture: file.arch,
            buffers: source.each(file.buffers, |source, text| source.buffer(&text))?,
            variables: source.each(file.variables, |source, text| source.parameter(&text))?,
            tensor_maps: source.each(file.tensor_maps, |source, table| source.tensor_map(table.into_inner()))?,
            launches: if launches.is_empty() { vec![top] } else { launches },
            expected: source.each(file.expect, Source::expected)?,
            print: file.print,
        })
    }
}

/// One to three sizes for x, y and z.
pub fn extent(sizes: &[u32]) -> Option<[u32; 3]> {
    let mut extent = [1; 3];
    (1..=3).contains(&sizes.len()).then(|| extent[..sizes.len()].copy_from_slice(sizes))?;
    Some(extent)
}

/// Line and column, from 1, of a byte offset in `text`.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
