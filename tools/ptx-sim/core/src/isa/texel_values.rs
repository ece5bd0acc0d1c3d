//! Converts texels to register values.

use crate::memory::{Channel, Texture};
use crate::numeric::{Format, sign_extend};
use crate::unknown::{Unknown, UnknownBytes};

/// Number of registers that a fetch writes.
pub(super) const CHANNELS: usize = 4;

/// A value of a fetch: its bits, and the undetermined ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Value {
    pub bits: u32,
    pub unknown: Option<Unknown>,
}

/// A texel that was read.
pub(super) struct Texel {
    pub data: [u8; 16],
    pub unknown: Option<Box<UnknownBytes>>,
}

impl Texel {
    /// The bits of a channel, and the undetermined ones. 0 if the texture lacks the channel.
    fn raw(&self, texture: &Texture, channel: usize) -> Value {
        let format = texture.texels().format;
        if channel >= format.channels() as usize {
            return Value::default();
        }
        let width = format.bits() as usize / 8;
        let first = channel * width;
        let mut word = [0; 4];
        word[..width].copy_from_slice(&self.data[first..first + width]);
        let unknown = self.unknown.as_ref().and_then(|unknown| unknown.value(first, width));
        Value { bits: u32::from_le_bytes(word), unknown }
    }

    /// A channel as a register value.
    pub fn value(&self, texture: &Texture, channel: usize) -> Value {
        let Value { bits, unknown } = self.raw(texture, channel);
        let format = texture.texels().format;
        if format.bits() == 32 {
            return Value { bits, unknown };
        }
        let bits = match format.channel() {
            _ if texture.gives_floats() => (number(texture, bits) as f32).to_bits(),
            Channel::Signed => sign_extend(u64::from(bits), format.bits()) as u32,
            _ => bits,
        };
        Value { bits, unknown: unknown.map(computed) }
    }

    /// A channel of a texture that returns floating-point numbers.
    pub fn number(&self, texture: &Texture, channel: usize) -> (f64, Option<Unknown>) {
        let Value { bits, unknown } = self.raw(texture, channel);
        (number(texture, bits), unknown.map(computed))
    }
}

/// A computed value is undetermined as a whole if any of its inputs is.
pub(super) fn computed(unknown: Unknown) -> Unknown {
    Unknown { bits: u32::MAX.into(), is_computed: true, ..unknown }
}

/// The number that a channel's bits represent.
fn number(texture: &Texture, bits: u32) -> f64 {
    let format = texture.texels().format;
    let bits = u64::from(bits);
    match (format.channel(), format.bits()) {
        (Channel::Float, 16) => Format::F16.value(bits),
        (Channel::Float, _) => Format::F32.value(bits),
        (Channel::Unsigned, width) => bits as f64 / ((1_u64 << width) - 1) as f64,
        // The two lowest numbers are both -1.
        (Channel::Signed, width) => (sign_extend(bits, width) as f64 / ((1_u64 << (width - 1)) - 1) as f64).max(-1.0),
    }
}
