//! Texels: elements of CUDA arrays, of linear memory and of pitched memory, as textures and surfaces find them (CUDA C++
//! Programming Guide, "Texture and Surface Memory"). How a GPU lays an array out is not known: here rows follow each other.

/// Rows of an array begin at multiples of this.
const ROW_ALIGNMENT: u64 = 16;

/// What the texels are an array of (PTX ISA, "tex", the geometry).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Geometry {
    /// `.1d`.
    Line,
    /// `.2d`.
    Plane,
    /// `.3d`.
    Volume,
    /// `.a1d`: layers of one dimension.
    Lines,
    /// `.a2d`: layers of two dimensions.
    Planes,
}

impl Geometry {
    /// As PTX calls it.
    pub fn name(self) -> &'static str {
        match self {
            Geometry::Line => "1d",
            Geometry::Plane => "2d",
            Geometry::Volume => "3d",
            Geometry::Lines => "a1d",
            Geometry::Planes => "a2d",
        }
    }

    /// Whether it has layers.
    pub fn is_layered(self) -> bool {
        matches!(self, Geometry::Lines | Geometry::Planes)
    }

    /// Dimensions, without the layers.
    pub fn rank(self) -> usize {
        match self {
            Geometry::Line | Geometry::Lines => 1,
            Geometry::Plane | Geometry::Planes => 2,
            Geometry::Volume => 3,
        }
    }
}

/// What a channel of a texel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// An unsigned integer.
    Unsigned,
    /// A signed integer.
    Signed,
    /// A floating-point number.
    Float,
}

/// What a texel consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TexelFormat {
    channel: Channel,
    bits: u32,
    channels: u32,
}

impl TexelFormat {
    /// So many channels of so many bits; `None` unless there are 1, 2 or 4 of 8, 16 or 32 bits, floating-point ones of 16 or 32.
    pub fn new(channel: Channel, bits: u32, channels: u32) -> Option<TexelFormat> {
        let least = if channel == Channel::Float { 16 } else { 8 };
        let is_there = matches!(bits, 8 | 16 | 32) && bits >= least && matches!(channels, 1 | 2 | 4);
        is_there.then_some(TexelFormat { channel, bits, channels })
    }

    /// What each channel is.
    pub fn channel(self) -> Channel {
        self.channel
    }

    /// Bits of a channel.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// How many channels there are.
    pub fn channels(self) -> u32 {
        self.channels
    }

    /// Bytes of a texel.
    pub fn bytes(self) -> u64 {
        u64::from(self.bits / 8 * self.channels)
    }
}

/// Texels in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texels {
    /// The first one.
    pub address: u64,
    /// What they are an array of.
    pub geometry: Geometry,
    /// Width, height, and depth or number of layers; 1 where there is no such dimension.
    pub extent: [u64; 3],
    /// Bytes from row to row.
    pub pitch: u64,
    /// What each of them consists of.
    pub format: TexelFormat,
    /// Whether they are a CUDA array, no ordinary memory.
    pub is_array: bool,
}

impl Texels {
    /// Texels of ordinary memory one behind the other.
    pub fn linear(address: u64, count: u64, format: TexelFormat) -> Texels {
        let pitch = count.saturating_mul(format.bytes());
        Texels { address, geometry: Geometry::Line, extent: [count, 1, 1], pitch, format, is_array: false }
    }

    /// Rows of texels in ordinary memory, `pitch` bytes apart.
    pub fn pitched(address: u64, [width, height]: [u64; 2], pitch: u64, format: TexelFormat) -> Texels {
        Texels { address, geometry: Geometry::Plane, extent: [width, height, 1], pitch, format, is_array: false }
    }

    /// An array that lies nowhere yet.
    pub fn array(geometry: Geometry, extent: [u64; 3], format: TexelFormat) -> Texels {
        let row = extent[0].saturating_mul(format.bytes());
        let pitch = row.checked_next_multiple_of(ROW_ALIGNMENT).unwrap_or(row);
        Texels { address: 0, geometry, extent, pitch, format, is_array: true }
    }

    /// Whether they lie one behind the other in ordinary memory.
    pub fn is_linear(&self) -> bool {
        !self.is_array && self.geometry == Geometry::Line
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> u64 {
        self.extent[0].saturating_mul(self.format.bytes())
    }

    /// From the first byte to the last one; `None` when there are too many to count.
    pub fn bytes(&self) -> Option<u64> {
        let [width, height, depth] = self.extent;
        let rows = height.checked_mul(depth)?.checked_sub(1)?;
        rows.checked_mul(self.pitch)?.checked_add(width.checked_mul(self.format.bytes())?)
    }

    /// The address of byte `x` of row `y` of a layer or a slice `z`; of no use where there is none.
    pub fn place(&self, x: u64, y: u64, z: u64) -> u64 {
        let row = z.wrapping_mul(self.extent[1]).wrapping_add(y);
        self.address.wrapping_add(row.wrapping_mul(self.pitch)).wrapping_add(x)
    }

    /// Sizes and format, as in `64 x 32 texels of 4 bytes`.
    pub fn describe(&self) -> String {
        let [width, height, depth] = self.extent;
        let size = match self.geometry {
            Geometry::Line => format!("{width}"),
            Geometry::Plane => format!("{width} x {height}"),
            Geometry::Volume => format!("{width} x {height} x {depth}"),
            Geometry::Lines => format!("{depth} layers of {width}"),
            Geometry::Planes => format!("{depth} layers of {width} x {height}"),
        };
        match self.format.bytes() {
            1 => format!("{size} texels of a byte"),
            bytes => format!("{size} texels of {bytes} bytes"),
        }
    }

    /// Where a byte of them lies, as in `byte 4 of row 2`; `offset` counts from the first.
    pub(super) fn describe_offset(&self, offset: u64) -> String {
        let (row, x) = (offset / self.pitch.max(1), offset % self.pitch.max(1));
        let (y, z) = (row % self.extent[1], row / self.extent[1]);
        match self.geometry {
            Geometry::Line => format!("byte {x}"),
            Geometry::Plane => format!("byte {x} of row {y}"),
            Geometry::Volume => format!("byte {x} of row {y} of slice {z}"),
            Geometry::Lines => format!("byte {x} of layer {z}"),
            Geometry::Planes => format!("byte {x} of row {y} of layer {z}"),
        }
    }
}
