//! Texels: elements of CUDA arrays, linear memory and pitched memory, as textures and surfaces access them (CUDA C++
//! Programming Guide, "Texture and Surface Memory"). The layout of arrays on a GPU is not known; here rows follow each
//! other.

/// Alignment of the rows of an array.
const ROW_ALIGNMENT: u64 = 16;

/// Geometry of texels (PTX ISA, "tex").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Geometry {
    /// `.1d`.
    Line,
    /// `.2d`.
    Plane,
    /// `.3d`.
    Volume,
    /// `.a1d`: layers of one-dimensional texels.
    Lines,
    /// `.a2d`: layers of two-dimensional texels.
    Planes,
}

impl Geometry {
    /// Its PTX modifier.
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

    /// Number of dimensions, without layers.
    pub fn rank(self) -> usize {
        match self {
            Geometry::Line | Geometry::Lines => 1,
            Geometry::Plane | Geometry::Planes => 2,
            Geometry::Volume => 3,
        }
    }
}

/// Type of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// An unsigned integer.
    Unsigned,
    /// A signed integer.
    Signed,
    /// A floating-point number.
    Float,
}

/// Format of a texel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TexelFormat {
    channel: Channel,
    bits: u32,
    channels: u32,
}

impl TexelFormat {
    /// A format of `channels` channels of `bits` bits; `None` unless there are 1, 2 or 4 of 8, 16 or 32 bits (floating
    /// point: 16 or 32).
    pub fn new(channel: Channel, bits: u32, channels: u32) -> Option<TexelFormat> {
        let least = if channel == Channel::Float { 16 } else { 8 };
        let is_there = matches!(bits, 8 | 16 | 32) && bits >= least && matches!(channels, 1 | 2 | 4);
        is_there.then_some(TexelFormat { channel, bits, channels })
    }

    /// Type of the channels.
    pub fn channel(self) -> Channel {
        self.channel
    }

    /// Bits of a channel.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Number of channels.
    pub fn channels(self) -> u32 {
        self.channels
    }

    /// Size of a texel, bytes.
    pub fn bytes(self) -> u64 {
        u64::from(self.bits / 8 * self.channels)
    }
}

/// Texels in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texels {
    /// Address of the first texel.
    pub address: u64,
    /// Their geometry.
    pub geometry: Geometry,
    /// Width, height, and depth or number of layers; 1 for an absent dimension.
    pub extent: [u64; 3],
    /// Distance between rows, bytes.
    pub pitch: u64,
    /// Format of a texel.
    pub format: TexelFormat,
    /// Whether they are a CUDA array and not ordinary memory.
    pub is_array: bool,
}

impl Texels {
    /// Contiguous texels of ordinary memory.
    pub fn linear(address: u64, count: u64, format: TexelFormat) -> Texels {
        let pitch = count.saturating_mul(format.bytes());
        Texels { address, geometry: Geometry::Line, extent: [count, 1, 1], pitch, format, is_array: false }
    }

    /// Rows of texels in ordinary memory, `pitch` bytes apart.
    pub fn pitched(address: u64, [width, height]: [u64; 2], pitch: u64, format: TexelFormat) -> Texels {
        Texels { address, geometry: Geometry::Plane, extent: [width, height, 1], pitch, format, is_array: false }
    }

    /// An array without an address yet.
    pub fn array(geometry: Geometry, extent: [u64; 3], format: TexelFormat) -> Texels {
        let row = extent[0].saturating_mul(format.bytes());
        let pitch = row.checked_next_multiple_of(ROW_ALIGNMENT).unwrap_or(row);
        Texels { address: 0, geometry, extent, pitch, format, is_array: true }
    }

    /// Whether they are contiguous in ordinary memory.
    pub fn is_linear(&self) -> bool {
        !self.is_array && self.geometry == Geometry::Line
    }

    /// Size of a row, bytes.
    pub fn row_bytes(&self) -> u64 {
        self.extent[0].saturating_mul(self.format.bytes())
    }

    /// Size from the first byte to the last; `None` on overflow.
    pub fn bytes(&self) -> Option<u64> {
        let [width, height, depth] = self.extent;
        let rows = height.checked_mul(depth)?.checked_sub(1)?;
        rows.checked_mul(self.pitch)?.checked_add(width.checked_mul(self.format.bytes())?)
    }

    /// Address of byte `x` of row `y` of layer or slice `z`; meaningless outside the texels.
    pub fn place(&self, x: u64, y: u64, z: u64) -> u64 {
        let row = z.wrapping_mul(self.extent[1]).wrapping_add(y);
        self.address.wrapping_add(row.wrapping_mul(self.pitch)).wrapping_add(x)
    }

    /// Sizes and format in words: `64 x 32 texels of 4 bytes`.
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

    /// Position of a byte in words, `byte 4 of row 2`; `offset` counts from the first byte.
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
