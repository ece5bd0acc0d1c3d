//! Ways to damage a file.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use serde_json::Value;

/// Numbers that often break programs.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "3",
    "7",
    "0.5",
    "1e308",
    "-1e308",
    "1e-320",
    "255",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
];
/// Texts that often break programs.
const TEXTS: [&str; 8] = ["", " ", "\u{1b}[2J", "../../x", "NaN", "\u{0}", "a\nb", "\u{202e}<script>&\"'"];

/// Other bytes than `whole`: some changed, a part cut out, repeated or exchanged for a number, or the end missing.
pub fn damaged(whole: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    if bytes.is_empty() {
        return bytes;
    }
    let start = random.random_range(0..bytes.len());
    let end = start + random.random_range(0..=(bytes.len() - start).min(400));
    match random.random_range(0..6) {
        0 => bytes.truncate(start),
        1 => drop(bytes.drain(start..end)),
        2 => {
            let part = bytes[start..end].to_vec();
            bytes.splice(start..start, part.repeat(3));
        }
        3 => bytes[start] = random.random(),
        4 => {
            for _ in 0..random.random_range(1..30) {
                let place = random.random_range(0..bytes.len());
                bytes[place] ^= 1 << random.random_range(0..8);
            }
        }
        _ => exchange_a_number(&mut bytes, start, random),
    }
    bytes
}

/// Replaces the first number after `start`.
fn exchange_a_number(bytes: &mut Vec<u8>, start: usize, random: &mut ChaCha8Rng) {
    let Some(first) = bytes[start..].iter().position(u8::is_ascii_digit) else { return };
    let first = start + first;
    let digits = bytes[first..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.splice(first..first + digits, NUMBERS[random.random_range(0..NUMBERS.len())].bytes());
}

/// JSON, or lines of it, that says something else in one to three places: a value of another size or type, a field that is
/// missing, a list that is empty or twice as long. `None` when `whole` is not JSON.
pub fn damaged_json(whole: &[u8], random: &mut ChaCha8Rng) -> Option<Vec<u8>> {
    let documents = serde_json::Deserializer::from_slice(whole).into_iter::<Value>();
    let mut documents: Vec<Value> = documents.collect::<Result<_, _>>().ok()?;
    for _ in 0..random.random_range(1..=3) {
        let count = documents.len();
        let document = documents.get_mut(random.random_range(0..count.max(1)))?;
        let depth = random.random_range(0..9);
        replace(inner(document, depth, random), random);
    }
    let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
    Some((texts.join("\n") + "\n").into_bytes())
}

/// A value at most `depth` levels below `value`.
fn inner<'a>(value: &'a mut Value, depth: u32, random: &mut ChaCha8Rng) -> &'a mut Value {
    let count = match value {
        Value::Array(values) => values.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    };
    if depth == 0 || count == 0 {
        return value;
    }
    let index = random.random_range(0..count);
    match value {
        Value::Array(values) => inner(&mut values[index], depth - 1, random),
        Value::Object(fields) => inner(fields.values_mut().nth(index).expect("one of so many"), depth - 1, random),
        value => value,
    }
}

fn replace(value: &mut Value, random: &mut ChaCha8Rng) {
    match (random.random_range(0..8), &mut *value) {
        (0..=2, Value::Array(values)) if !values.is_empty() => match random.random_range(0..3) {
            0 => values.clear(),
            1 => drop(values.pop()),
            _ => values.extend_from_within(..),
        },
        (0..=2, Value::Object(fields)) if !fields.is_empty() => {
            let name = fields.keys().nth(random.random_range(0..fields.len())).cloned();
            fields.remove(&name.expect("one of so many"));
        }
        (0..=2, Value::String(text)) => TEXTS[random.random_range(0..TEXTS.len())].clone_into(text),
        (0..=5, Value::Number(_)) | (3, _) => {
            let number = NUMBERS[random.random_range(0..NUMBERS.len())];
            *value = serde_json::from_str(number).expect("a number");
        }
        (4, _) => *value = Value::Null,
        (5, _) => *value = TEXTS[random.random_range(0..TEXTS.len())].into(),
        (6, _) => *value = Value::Array(vec![value.clone(); 3]),
        _ => *value = Value::Object(Default::default()),
    }
}
