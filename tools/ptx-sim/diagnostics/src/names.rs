//! Demangling of names.

use std::borrow::Cow;
use std::fmt;

use cpp_demangle::{DemangleOptions, Symbol};

/// Longer names are shown mangled, and so are names whose demangled form is longer: a few substitutions can expand to gigabytes.
const LONGEST_NAME: usize = 4096;

/// `name` demangled, with its parameter types: `axpy<float>(float, float const*)` for `_Z4axpyIfEvfPKf`. An unmangled name
/// stays as it is.
pub fn demangled(name: &str) -> Cow<'_, str> {
    demangle(name, DemangleOptions::new().no_return_type())
}

/// As [`demangled`], without parameter types.
pub fn short_name(name: &str) -> Cow<'_, str> {
    demangle(name, DemangleOptions::new().no_return_type().no_params())
}

fn demangle(name: &str, options: DemangleOptions) -> Cow<'_, str> {
    if !is_mangled(name) || name.len() > LONGEST_NAME {
        return name.into();
    }
    if let Ok(demangled) = rustc_demangle::try_demangle(name) {
        return format!("{demangled:#}").into();
    }
    let mut text = Bounded(String::new());
    match Symbol::new(name).map(|symbol| symbol.structured_demangle(&mut text, &options)) {
        Ok(Ok(())) => Cow::Owned(without_tags(&text.0)),
        _ => name.into(),
    }
}

/// `name` without its ABI tags, in which numba encodes versions and options.
fn without_tags(name: &str) -> String {
    let mut parts = name.split("[abi:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + part.split_once(']').map_or(part, |(_, rest)| rest))
}

/// Text of limited length.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

/// `text` with [`short_name`] applied to every mangled name in it. `NAME_param_1`, as compilers name parameters, becomes
/// `parameter 1 of NAME`.
pub fn demangled_text(text: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_$.".contains(letter);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|letter| !is_part(letter)).unwrap_or(from.len()));
        shown += before;
        shown += &parameter(word).unwrap_or_else(|| short_name(word).into_owned());
        rest = after;
    }
    shown + rest
}

/// The parameter of a mangled name that `word` denotes.
fn parameter(word: &str) -> Option<String> {
    let (name, number) = word.rsplit_once("_param_").filter(|(name, _)| is_mangled(name))?;
    number.parse::<u32>().ok().map(|number| format!("parameter {number} of {}", short_name(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cpp_and_rust_are_shown_as_written() {
        for (name, full, short) in [
            ("_Z4axpyIfEvT_PKS0_PS0_i", "axpy<float>(float, float const*, float*, int)", "axpy<float>"),
            ("_ZN3app9by_structENS_4ArgsE", "app::by_struct(app::Args)", "app::by_struct"),
            ("_ZN4core3num7nonzero17h0123456789abcdefE", "core::num::nonzero", "core::num::nonzero"),
            ("_RNvC6kernel5entry", "kernel::entry", "kernel::entry"),
            ("_ZN8__main__6boundsB2v1B4cw51Ef", "__main__::bounds(float)", "__main__::bounds"),
            ("add_kernel", "add_kernel", "add_kernel"),
            ("_Z", "_Z", "_Z"),
            ("_Znonsense", "_Znonsense", "_Znonsense"),
        ] {
            assert_eq!((demangled(name).as_ref(), short_name(name).as_ref()), (full, short), "{name}");
        }
        let endless = format!("_Z{}", "P".repeat(100_000));
        assert_eq!(demangled(&endless), endless);
        // Each type is a pair of the previous one.
        let doubling: String = (0..60).fold("1aIiiE".to_owned(), |inner, _| format!("1aI{inner}S_E"));
        let doubling = format!("_Z1fI{doubling}S0_S1_S2_S3_EvT_T_T_T_");
        assert!(demangled(&doubling).len() <= LONGEST_NAME);
    }

    #[test]
    fn names_are_found_in_text() {
        let text = "end of `_Z4axpyIfEvT_PKS0_PS0_i_param_2`, called by _ZN3app9by_structENS_4ArgsE.";
        let expected = "end of `parameter 2 of axpy<float>`, called by app::by_struct.";
        assert_eq!(demangled_text(text.trim_end_matches('.')), expected.trim_end_matches('.'));
        assert_eq!(demangled_text("é `add_param_1` – 16 bytes"), "é `add_param_1` – 16 bytes");
    }
}
