//! `printf` (ISO C, "The fprintf function") for output of kernels.

/// Maximum field width and precision; larger ones are truncated.
const LARGEST: usize = 4096;

/// Arguments of a template.
pub(crate) trait Arguments {
    /// The next argument, of 4 or 8 bytes.
    fn number(&mut self, bytes: usize) -> u64;
    /// The next argument as a string: the bytes at an address up to the first NUL.
    fn text(&mut self) -> Vec<u8>;
}

/// `%[flags][width][.precision][length]conversion`.
#[derive(Clone, Copy, Default)]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternative: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    /// Of an integer.
    bytes: usize,
}

/// The formatted `template`, and the number of arguments consumed.
pub(crate) fn print(template: &[u8], arguments: &mut dyn Arguments) -> (Vec<u8>, u32) {
    let mut counted = Counted { arguments, count: 0 };
    let mut text = Vec::new();
    let mut rest = template;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            text.push(*first);
            continue;
        }
        let conversion = Conversion::take(&mut rest, &mut counted);
        match rest.split_first() {
            None => text.push(b'%'),
            Some((letter, after)) => {
                rest = after;
                text.extend(conversion.apply(*letter, &mut counted));
            }
        }
    }
    (text, counted.count)
}

/// Counts arguments.
struct Counted<'a> {
    arguments: &'a mut dyn Arguments,
    count: u32,
}

impl Counted<'_> {
    fn number(&mut self, bytes: usize) -> u64 {
        self.count += 1;
        self.arguments.number(bytes)
    }

    fn text(&mut self) -> Vec<u8> {
        self.count += 1;
        self.arguments.text()
    }
}

fn eat(rest: &mut &[u8], letter: u8) -> bool {
    let found = rest.first() == Some(&letter);
    if found {
        *rest = &rest[1..];
    }
    found
}

fn digits(rest: &mut &[u8]) -> usize {
    let mut value = 0;
    while let Some(digit) = rest.first().filter(|letter| letter.is_ascii_digit()) {
        value = (value * 10 + usize::from(digit - b'0')).min(LARGEST);
        *rest = &rest[1..];
    }
    value
}

impl Conversion {
    /// Everything up to the letter.
    fn take(rest: &mut &[u8], arguments: &mut Counted<'_>) -> Conversion {
        let mut conversion = Conversion { bytes: 4, ..Conversion::default() };
        loop {
            match rest.first() {
                Some(b'-') => conversion.left = true,
                Some(b'+') => conversion.plus = true,
                Some(b' ') => conversion.space = true,
                Some(b'#') => conversion.alternative = true,
                Some(b'0') => conversion.zeros = true,
                Some(b'\'') => {}
                _ => break,
            }
            *rest = &rest[1..];
        }
        if eat(rest, b'*') {
            let width = arguments.number(4) as i32;
            conversion.left |= width < 0;
            conversion.width = (width.unsigned_abs() as usize).min(LARGEST);
        } else {
            conversion.width = digits(rest);
        }
        if eat(rest, b'.') {
            conversion.precision = match eat(rest, b'*') {
                true => usize::try_from(arguments.number(4) as i32).ok().map(|value| value.min(LARGEST)),
                false => Some(digits(rest)),
            };
        }
        while let Some(letter @ (b'h' | b'l' | b'j' | b'z' | b't' | b'L')) = rest.first() {
            conversion.bytes = if *letter == b'h' { 4 } else { 8 };
            *rest = &rest[1..];
        }
        conversion
    }

    /// The text of the next argument.
    fn apply(self, letter: u8, arguments: &mut Counted<'_>) -> Vec<u8> {
        match letter {
            b'%' => vec![b'%'],
            b'c' => self.pad("", &[arguments.number(4) as u8], false),
            b's' => {
                let text = arguments.text();
                self.pad("", &text[..text.len().min(self.precision.unwrap_or(usize::MAX))], false)
            }
            b'p' => {
                let address = arguments.number(8);
                self.pad("", format!("{address:#x}").as_bytes(), false)
            }
            b'd' | b'i' => {
                let value = arguments.number(self.bytes);
                let value = if self.bytes == 4 { i64::from(value as i32) } else { value as i64 };
                self.integer(self.sign(value < 0), &value.unsigned_abs().to_string())
            }
            b'u' => self.integer("", &arguments.number(self.bytes).to_string()),
            b'o' => {
                let value = arguments.number(self.bytes);
                self.integer(if self.alternative && value != 0 { "0" } else { "" }, &format!("{value:o}"))
            }
            b'x' | b'X' => {
                let value = arguments.number(self.bytes);
                let (prefix, digits) = match letter {
                    b'x' => ("0x", format!("{value:x}")),
                    _ => ("0X", format!("{value:X}")),
                };
                self.integer(if self.alternative && value != 0 { prefix } else { "" }, &digits)
            }
            b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
                self.float(letter, f64::from_bits(arguments.number(8)))
            }
            // Not a C conversion.
            _ => vec![b'%', letter],
        }
    }

    fn sign(self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, _, _) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        }
    }

    fn integer(self, prefix: &str, digits: &str) -> Vec<u8> {
        let digits = if self.precision == Some(0) && digits == "0" { "" } else { digits };
        let digits = format!("{digits:0>width$}", width = self.precision.unwrap_or(0));
        self.pad(prefix, digits.as_bytes(), self.precision.is_none())
    }

    fn float(self, letter: u8, value: f64) -> Vec<u8> {
        let sign = self.sign(value.is_sign_negative());
        let magnitude = value.abs();
        let is_finite = magnitude.is_finite();
        let (prefix, mut text) = match letter.to_ascii_lowercase() {
            _ if magnitude.is_nan() => ("", "nan".to_owned()),
            _ if !is_finite => ("", "inf".to_owned()),
            b'f' => ("", self.with_point(format!("{magnitude:.*}", self.precision.unwrap_or(6)))),
            b'e' => ("", self.scientific(magnitude, self.precision.unwrap_or(6))),
            b'g' => ("", self.shortest(magnitude)),
            _ => ("0x", self.hexadecimal(magnitude)),
        };
        let mut prefix = format!("{sign}{prefix}");
        if letter.is_ascii_uppercase() {
            (prefix, text) = (prefix.to_uppercase(), text.to_uppercase());
        }
        self.pad(&prefix, text.as_bytes(), is_finite)
    }

    /// `#` keeps the decimal point of a number without a fraction.
    fn with_point(self, text: String) -> String {
        if self.alternative && !text.contains('.') { text + "." } else { text }
    }

    fn scientific(self, magnitude: f64, precision: usize) -> String {
        let text = format!("{magnitude:.precision$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", self.with_point(mantissa.to_owned()), exponent.abs())
    }

    fn shortest(self, magnitude: f64) -> String {
        let precision = self.precision.unwrap_or(6).max(1);
        let rounded = format!("{magnitude:.*e}", precision - 1);
        let exponent: i32 = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
        let is_fixed = (-4..precision as i32).contains(&exponent);
        let text = match is_fixed {
            true => self.with_point(format!("{magnitude:.*}", (precision as i32 - 1 - exponent) as usize)),
            false => self.scientific(magnitude, precision - 1),
        };
        if self.alternative {
            return text;
        }
        let (mantissa, tail) = match text.find('e') {
            Some(place) => text.split_at(place),
            None => (text.as_str(), ""),
        };
        let mantissa = match mantissa.contains('.') {
            true => mantissa.trim_end_matches('0').trim_end_matches('.'),
            false => mantissa,
        };
        format!("{mantissa}{tail}")
    }

    /// What follows `0x`.
    fn hexadecimal(self, magnitude: f64) -> String {
        const FRACTION: u32 = 52;
        let bits = magnitude.to_bits();
        let (field, fraction) = (bits >> FRACTION, bits & ((1 << FRACTION) - 1));
        let (mut whole, exponent) = match field {
            0 if fraction == 0 => (0, 0),
            0 => (fraction, -1022),
            _ => (fraction | 1 << FRACTION, field as i64 - 1023),
        };
        let most = (FRACTION / 4) as usize;
        let count = self.precision.unwrap_or(most).min(most);
        let dropped = FRACTION - 4 * count as u32;
        let (half, low) = (1_u64 << dropped >> 1, whole & ((1 << dropped) - 1));
        whole >>= dropped;
        // To nearest, ties to even.
        whole += u64::from(low > half || low == half && dropped > 0 && whole & 1 == 1);
        let kept = 4 * count as u32;
        let digits = format!("{:0count$x}", whole & ((1_u64 << kept) - 1));
        let mut digits = if count == 0 { String::new() } else { digits };
        match self.precision {
            None => digits.truncate(digits.trim_end_matches('0').len()),
            Some(precision) => digits = format!("{digits:0<precision$}"),
        }
        let point = if digits.is_empty() && !self.alternative { "" } else { "." };
        format!("{}{point}{digits}p{exponent:+}", whole >> kept)
    }

    /// Pads to the field width.
    fn pad(self, prefix: &str, text: &[u8], may_have_zeros: bool) -> Vec<u8> {
        let missing = self.width.saturating_sub(prefix.len() + text.len());
        let (spaces, zeros) = match self.zeros && may_have_zeros && !self.left {
            true => (0, missing),
            false => (missing, 0),
        };
        let (before, after) = if self.left { (0, spaces) } else { (spaces, 0) };
        let mut padded = vec![b' '; before];
        padded.extend(prefix.as_bytes());
        padded.extend(std::iter::repeat_n(b'0', zeros));
        padded.extend(text);
        padded.extend(std::iter::repeat_n(b' ', after));
        padded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct List(Vec<u64>);

    impl Arguments for List {
        fn number(&mut self, bytes: usize) -> u64 {
            let value = self.0.remove(0);
            if bytes == 4 { value & 0xffff_ffff } else { value }
        }

        fn text(&mut self) -> Vec<u8> {
            vec![b'a' + self.0.remove(0) as u8; 3]
        }
    }

    fn check(template: &str, arguments: &[u64], expected: &str) {
        let (text, count) = print(template.as_bytes(), &mut List(arguments.to_vec()));
        assert_eq!(String::from_utf8_lossy(&text), expected, "{template}");
        assert_eq!(count as usize, arguments.len(), "{template}");
    }

    /// Output of glibc 2.36.
    #[test]
    fn integers() {
        check("%d|%5d|%-5d|%05d|%+d|% d", &[u64::MAX, 42, 42, 42, 42, 42], "-1|   42|42   |00042|+42| 42");
        check("%.4d|%8.4d|%08.4d|%.0d|", &[42, 42, 42, 0], "0042|    0042|    0042||");
        check("%u|%lu|%lld", &[u64::MAX, u64::MAX, u64::MAX], "4294967295|18446744073709551615|-1");
        check("%x|%#X|%#o|%#08x|%#x", &[255, 255, 8, 255, 0], "ff|0XFF|010|0x0000ff|0");
        check("%*d|%-*d|%*d", &[6, 7, 6, 7, 0xffff_fffa, 7], "     7|7     |7     ");
        check("100%% %c%5c", &[65, 66], "100% A    B");
        check("%lld", &[1 << 63], "-9223372036854775808");
    }

    #[test]
    fn texts_and_addresses() {
        check("%s|%5s|%-5s|%.2s|%p", &[0, 1, 2, 3, 0x7f00], "aaa|  bbb|ccc  |dd|0x7f00");
        check("%y 5%", &[], "%y 5%");
    }

    /// Output of glibc 2.36.
    #[test]
    fn floats() {
        let cases: [(&str, f64, &str); 22] = [
            ("%f", 0.1, "0.100000"),
            ("%.0f", 2.5, "2"),
            ("%#.0f", 3.5, "4."),
            ("%8.3f", -1.0 / 3.0, "  -0.333"),
            ("%08.3f", -1.0 / 3.0, "-000.333"),
            ("%e", 12345.678, "1.234568e+04"),
            ("%.2E", 1e-100, "1.00E-100"),
            ("%e", 0.0, "0.000000e+00"),
            ("%g", 100_000.0, "100000"),
            ("%g", 1_000_000.0, "1e+06"),
            ("%g", 0.0001, "0.0001"),
            ("%g", 0.00001, "1e-05"),
            ("%#g", 1.0, "1.00000"),
            ("%.3g", 1234.0, "1.23e+03"),
            ("%g", 0.0, "0"),
            ("%a", 1.0, "0x1p+0"),
            ("%a", 0.1, "0x1.999999999999ap-4"),
            ("%.2a", 1.999, "0x2.00p+0"),
            ("%010a", -2.5, "-0x01.4p+1"),
            ("%5f", f64::INFINITY, "  inf"),
            ("%05F", f64::NEG_INFINITY, " -INF"),
            ("%f", f64::NAN, "nan"),
        ];
        for (template, value, expected) in cases {
            check(template, &[value.to_bits()], expected);
        }
    }
}
