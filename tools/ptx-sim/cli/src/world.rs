//! The memory of launches: named buffers, tensor maps and variables.

use std::fs;

use ptx_sim::{GlobalMemory, Module, TENSOR_MAP_BYTES, TensorElement, TensorMap};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::description::TensorMapSpec;
use crate::element::Element;
use crate::notation::{AddressOf, BufferSpec, Field, Fill, Parameter};
use crate::npy::Array;

/// Maximum total size of buffers, bytes.
const LARGEST_WORLD: u64 = 8 << 30;
/// Bytes filled at a time.
const CHUNK: u64 = 1 << 20;

/// A named object in memory.
#[derive(Clone, Debug)]
pub struct Place {
    /// Name of a buffer, tensor map or variable. The buffer of a parameter has the parameter's name, followed by a dot and the number
    /// of the field in a struct.
    pub name: String,
    /// Address.
    pub address: u64,
    /// Type of the elements.
    pub element: Element,
    /// Number of elements.
    pub count: u64,
}

impl Place {
    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.count * self.element.bytes as u64
    }
}

/// Global memory and the named objects in it.
#[derive(Default)]
pub struct World {
    /// The memory.
    pub memory: GlobalMemory,
    places: Vec<Place>,
    /// Aliases.
    aliases: Vec<(String, String)>,
    tensor_maps: Vec<(String, TensorMap)>,
    bytes: u64,
}

impl World {
    /// The object named `name`.
    pub fn find(&self, name: &str) -> Option<&Place> {
        let alias = self.aliases.iter().find(|(alias, _)| alias == name);
        let name = alias.map_or(name, |(_, name)| name.as_str());
        self.places.iter().find(|place| place.name == name)
    }

    /// Adds `alias` as another name of the object `name`.
    pub fn add_alias(&mut self, alias: &str, name: &str) {
        self.aliases.push((alias.to_owned(), name.to_owned()));
    }

    /// All names, in order of placement.
    pub fn names(&self) -> Vec<&str> {
        self.places.iter().map(|place| place.name.as_str()).collect()
    }

    /// As [`World::find`], with an error instead of `None`.
    ///
    /// # Errors
    /// With the existing names.
    pub fn named(&self, name: &str) -> Result<&Place, String> {
        self.find(name).ok_or_else(|| {
            let names = self.names();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            format!("no buffer `{name}`; there are: {names}")
        })
    }

    /// Allocates a buffer, which is filled by [`World::fill`].
    ///
    /// # Errors
    /// If memory is exhausted, or the name is taken.
    pub fn allocate(&mut self, name: &str, spec: &BufferSpec) -> Result<u64, String> {
        if self.find(name).is_some() {
            return Err(format!("two things are called `{name}`"));
        }
        self.bytes += spec.bytes();
        if self.bytes > LARGEST_WORLD {
            return Err(format!("more than {LARGEST_WORLD} bytes of buffers; make them smaller"));
        }
        let address = self.memory.allocate(name, spec.bytes()).map_err(|error| error.to_string())?;
        let (element, count) = (spec.element, spec.count);
        self.places.push(Place { name: name.to_owned(), address, element, count });
        Ok(address)
    }

    /// Places the variables of `module`.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub fn place_variables(&mut self, module: &Module) -> Result<(), String> {
        let variables = module.place_variables(&mut self.memory).map_err(|error| error.to_string())?;
        self.places.extend(variables.into_iter().map(|variable| {
            let element = Element::of_ptx(&variable.element).unwrap_or(Element::BYTE);
            let count = variable.bytes / element.bytes as u64;
            Place { name: variable.name, address: variable.address, element, count }
        }));
        Ok(())
    }

    /// Sets a variable of the module; a buffer in the notation gives its contents.
    ///
    /// # Errors
    /// If there is no such variable, or its size differs.
    pub fn set_variable(&mut self, name: &str, value: &Parameter) -> Result<(), String> {
        let place = self.named(name)?.clone();
        let (element, count, bytes) = match value {
            Parameter::Plain(Field::Buffer(spec)) => (spec.element, spec.count, spec.bytes()),
            other => (place.element, place.count, self.size(other)? as u64),
        };
        if bytes != place.bytes() {
            return Err(format!("the variable has {} bytes; {bytes} are given", place.bytes()));
        }
        match value {
            Parameter::Plain(Field::Buffer(spec)) => self.fill(place.address, spec)?,
            other => {
                let value = self.bytes_of(name, other)?;
                self.memory.write(place.address, &value).map_err(|error| error.to_string())?;
            }
        }
        let known = self.places.iter_mut().find(|known| known.name == name);
        known.into_iter().for_each(|known| (known.element, known.count) = (element, count));
        Ok(())
    }

    /// Encodes a tensor map for use as a parameter, and places a named copy in memory.
    ///
    /// # Errors
    /// If its buffer does not exist, or a GPU would refuse the map.
    pub fn add_tensor_map(&mut self, name: &str, spec: &TensorMapSpec) -> Result<(), String> {
        let own = spec.buffer.name.as_deref().ok_or("the buffer of a tensor map is null")?;
        let buffer = self.named(own)?;
        let element = spec.element.unwrap_or(buffer.element);
        let kind = tensor_element(element).ok_or_else(|| format!("{} is not a type of a tensor map", element.name))?;
        let packed = spec.sizes.iter().scan(element.bytes as u64, |stride, size| {
            *stride = stride.saturating_mul(*size);
            Some(*stride)
        });
        let packed = packed.take(spec.sizes.len().saturating_sub(1)).collect();
        let map = TensorMap {
            element: kind,
            address: buffer.address + spec.buffer.offset,
            sizes: spec.sizes.clone(),
            strides: spec.strides.clone().unwrap_or(packed),
            box_sizes: spec.box_sizes.clone(),
            element_strides: spec.element_strides.clone().unwrap_or_else(|| vec![1; spec.sizes.len()]),
            swizzle: spec.swizzle,
        };
        let address = self.memory.allocate_tensor_map(name, map.clone()).map_err(|error| error.to_string())?;
        let count = TENSOR_MAP_BYTES as u64;
        self.places.push(Place { name: name.to_owned(), address, element: Element::BYTE, count });
        self.tensor_maps.push((name.to_owned(), map));
        Ok(())
    }

    /// Allocates the buffers of a parameter, under its name or the names of its fields.
    ///
    /// # Errors
    /// As [`World::allocate`].
    pub fn allocate_parameter(&mut self, name: &str, parameter: &Parameter) -> Result<(), String> {
        for (name, field) in fields(name, parameter) {
            if let Field::Buffer(spec) = field {
                self.allocate(&name, spec)?;
            }
        }
        Ok(())
    }

    /// The bytes of a parameter; fills its buffers, which were allocated before.
    ///
    /// # Errors
    /// If an object that it names does not exist, or a file cannot be read.
    pub fn bytes_of(&mut self, name: &str, parameter: &Parameter) -> Result<Vec<u8>, String> {
        let is_struct = matches!(parameter, Parameter::Struct(_));
        let (mut bytes, mut largest) = (Vec::new(), 1);
        for (name, field) in fields(name, parameter) {
            let value = self.bytes_of_field(&name, field)?;
            let alignment = if is_struct { field.alignment(value.len()) } else { 1 };
            largest = largest.max(alignment);
            bytes.resize(bytes.len().next_multiple_of(alignment), 0);
            bytes.extend(value);
        }
        bytes.resize(bytes.len().next_multiple_of(largest), 0);
        Ok(bytes)
    }

    fn bytes_of_field(&mut self, name: &str, field: &Field) -> Result<Vec<u8>, String> {
        match field {
            Field::Scalar(_, bytes) | Field::Bytes(bytes) => Ok(bytes.clone()),
            Field::Address(address) => Ok(self.address(address)?.to_le_bytes().to_vec()),
            Field::TensorMap(map) => {
                let known = self.tensor_maps.iter().find(|(known, _)| known == map);
                let (name, map) = known.ok_or_else(|| {
                    format!("no tensor map `{map}`; describe it in the file of the launch, as [tensor_maps.{map}]")
                })?;
                let bytes = self.memory.encode_tensor_map(name, map.clone()).map_err(|error| error.to_string())?;
                Ok(bytes.to_vec())
            }
            Field::Buffer(spec) => {
                let address = self.named(name)?.address;
                self.fill(address, spec)?;
                Ok(address.to_le_bytes().to_vec())
            }
        }
    }

    /// Bytes of a value other than a buffer.
    fn size(&self, parameter: &Parameter) -> Result<usize, String> {
        match parameter {
            Parameter::Plain(field) => Ok(field.bytes()),
            Parameter::Struct(_) => Err("a struct is not a value of a variable; give it as bytes".to_owned()),
        }
    }

    fn address(&self, of: &AddressOf) -> Result<u64, String> {
        match &of.name {
            None => Ok(0),
            Some(name) => Ok(self.named(name)?.address + of.offset),
        }
    }

    /// Writes the contents of `spec` to the memory at `address`.
    ///
    /// # Errors
    /// If a file cannot be read, or an address names an object that does not exist.
    pub fn fill(&mut self, address: u64, spec: &BufferSpec) -> Result<(), String> {
        let element = spec.element;
        match &spec.fill {
            Fill::Uninitialised => Ok(()),
            Fill::Zeros => self.memory.set_8(address, 0, spec.bytes()).map_err(|error| error.to_string()),
            Fill::Range(numbers) => {
                let numbers = *numbers;
                self.fill_with(address, spec, |index| element.encode_integer(index % numbers))
            }
            Fill::Random { seed } => {
                let mut random = ChaCha8Rng::seed_from_u64(*seed);
                match element.is_float() {
                    true => self.fill_with(address, spec, |_| element.encode_float(random.random_range(-1.0..1.0))),
                    false => self.fill_with(address, spec, |_| element.encode_integer(random.random())),
                }
            }
            Fill::File(path) => {
                let name = path.display();
                let size = fs::metadata(path).map_err(|error| format!("{name}: {error}"))?.len();
                if size != spec.bytes() {
                    return Err(format!("{name}: has {size} bytes; the buffer has {}", spec.bytes()));
                }
                let contents = fs::read(path).map_err(|error| format!("{name}: {error}"))?;
                self.memory.write(address, &contents).map_err(|error| error.to_string())
            }
            Fill::Npy(path) => {
                let array = Array::read(path)?;
                if (array.element, array.count()) != (element, spec.count) {
                    let (have, count) = (array.element.name, array.count());
                    let (need, path) = (element.name, path.display());
                    return Err(format!("{path}: holds {have}[{count}]; the buffer is {need}[{}]", spec.count));
                }
                self.memory.write(address, &array.data).map_err(|error| error.to_string())
            }
            Fill::Addresses(addresses) => {
                let values = addresses.iter().map(|address| self.address(address));
                let values: Vec<u8> =
                    values.collect::<Result<Vec<_>, _>>()?.into_iter().flat_map(u64::to_le_bytes).collect();
                self.memory.write(address, &values).map_err(|error| error.to_string())
            }
        }
    }

    fn fill_with(
        &mut self,
        address: u64,
        spec: &BufferSpec,
        mut value: impl FnMut(u64) -> Vec<u8>,
    ) -> Result<(), String> {
        let step = CHUNK / spec.element.bytes as u64;
        for first in (0..spec.count).step_by(step as usize) {
            let part: Vec<u8> = (first..spec.count.min(first + step)).flat_map(&mut value).collect();
            let at = address + first * spec.element.bytes as u64;
            self.memory.write(at, &part).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// The fields of a parameter, with the names of their buffers.
fn fields<'a>(name: &str, parameter: &'a Parameter) -> Vec<(String, &'a Field)> {
    match parameter {
        Parameter::Plain(field) => vec![(name.to_owned(), field)],
        Parameter::Struct(fields) => {
            fields.iter().enumerate().map(|(index, field)| (format!("{name}.{index}"), field)).collect()
        }
    }
}

fn tensor_element(element: Element) -> Option<TensorElement> {
    Some(match element.name {
        "u8" => TensorElement::U8,
        "u16" => TensorElement::U16,
        "u32" => TensorElement::U32,
        "u64" => TensorElement::U64,
        "i32" => TensorElement::S32,
        "i64" => TensorElement::S64,
        "f16" => TensorElement::F16,
        "bf16" => TensorElement::Bf16,
        "f32" => TensorElement::F32,
        "f64" => TensorElement::F64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn placed(text: &str) -> (Vec<u8>, World) {
        let mut world = World::default();
        let parameter = Parameter::parse(text, Path::new("")).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        world.allocate_parameter("p", &parameter).expect("allocating");
        let bytes = world.bytes_of("p", &parameter).expect("placing");
        (bytes, world)
    }

    #[test]
    fn a_struct_lies_in_memory_as_c_lays_it_out() {
        let (bytes, world) = placed("struct{u8:1; u16[4]; u32:7; bytes:aabbcc}");
        assert_eq!(bytes.len(), 24, "padded to the alignment of the address");
        let address = world.find("p.1").expect("a buffer").address;
        assert_eq!((bytes[0], &bytes[8..16]), (1, &address.to_le_bytes()[..]));
        assert_eq!(bytes[16..], [7, 0, 0, 0, 0xaa, 0xbb, 0xcc, 0]);
    }

    #[test]
    fn buffers_are_filled_as_asked() {
        let contents = |text: &str| {
            let (_, world) = placed(text);
            let place = world.find("p").expect("a buffer");
            let mut data = vec![0xee; place.bytes() as usize];
            world.memory.read(place.address, &mut data).expect("reading");
            data
        };
        assert_eq!(contents("u16[3]=range"), [0, 0, 1, 0, 2, 0]);
        assert_eq!(contents("u8[5]=range(2)"), [0, 1, 0, 1, 0]);
        assert_eq!(contents("f32[1]=zeros"), [0; 4]);
        assert_eq!(contents("f32[64]=random(7)"), contents("f32[64]=random(7)"));
        assert_ne!(contents("f32[64]=random(7)"), contents("f32[64]=random(8)"));
        let long = contents("u32[600000]=range");
        assert_eq!(long[4 * 599_999..], 599_999_u32.to_le_bytes(), "longer than what is filled at a time");
    }

    #[test]
    fn addresses_point_to_what_they_name() {
        let (bytes, world) = placed("struct{f32[8]; ptr[&p.0, &p.0+16, null]}");
        let place = world.find("p.1").expect("a buffer");
        let mut data = [0; 24];
        world.memory.read(place.address, &mut data).expect("reading");
        let first = u64::from_le_bytes(*bytes[..8].as_array().expect("8 bytes"));
        let expected: Vec<u8> = [first, first + 16, 0].into_iter().flat_map(u64::to_le_bytes).collect();
        assert_eq!(data, expected[..]);
    }

    #[test]
    fn buffers_have_a_limit_together() {
        let mut world = World::default();
        let spec = |text: &str| match Parameter::parse(text, Path::new("")) {
            Ok(Parameter::Plain(Field::Buffer(spec))) => spec,
            other => panic!("{other:?}"),
        };
        let largest = spec("u8[4294967296]");
        world.allocate("a", &largest).expect("the first");
        world.allocate("b", &largest).expect("the second");
        let message = world.allocate("c", &spec("u8[1]")).expect_err("the third");
        assert!(message.contains("more than 8589934592 bytes"), "{message}");
        assert!(world.allocate("a", &spec("u8[1]")).expect_err("the same name").contains("two things are called `a`"));
    }
}
