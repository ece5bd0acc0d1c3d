//! Whether the numbers of a launch are of the kind that the entry takes.

use ptx_sim::{Module, Use};

use crate::cpp::{element_of_cpp, parameter_types};
use crate::element::Element;
use crate::entry::parameter_name;
use crate::notation::{Field, Parameter};

/// What a parameter takes, as far as the PTX and the entry's name say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer,
    Float,
}

impl Kind {
    fn of(element: Element) -> Kind {
        if element.is_float() { Kind::Float } else { Kind::Integer }
    }

    /// That of a parameter of a C++ type, which may be unknown, and with a use.
    fn of_parameter(cpp: Option<&str>, used: &Use) -> Option<Kind> {
        let of_cpp = cpp.and_then(|kind| match element_of_cpp(kind) {
            Some((element, 1)) => Some(Kind::of(element)),
            _ => kind.ends_with('*').then_some(Kind::Integer),
        });
        let is_typed = !used.element.starts_with('b');
        let of_ptx = || Element::of_ptx(&used.element).filter(|_| is_typed).map(Kind::of);
        of_cpp.or_else(|| if used.is_address { Some(Kind::Integer) } else { of_ptx() })
    }

    fn words(self) -> &'static str {
        match self {
            Kind::Integer => "an integer",
            Kind::Float => "a floating-point number",
        }
    }
}

/// Refuses a floating-point number for an integer, and the reverse: the kernel would take its bits for another number.
///
/// # Errors
/// With the name of the parameter.
pub fn check(module: &Module, entry: &str, given: &[Parameter]) -> Result<(), String> {
    let uses = module.uses(entry).unwrap_or_default();
    let types = parameter_types(entry).filter(|types| types.len() == uses.len());
    let parameters = module.parameters(entry).into_iter().flatten();
    for (index, ((parameter, used), value)) in parameters.zip(&uses).zip(given).enumerate() {
        let cpp = types.as_ref().map(|types| types[index].as_str());
        let (Parameter::Plain(Field::Scalar(element, _)), Some(taken)) = (value, Kind::of_parameter(cpp, used)) else {
            continue;
        };
        if Kind::of(*element) != taken {
            return Err(format!(
                "{} takes {}, and {} is {}; `bytes:` passes any bits",
                parameter_name(entry, parameter.name),
                taken.words(),
                element.name,
                Kind::of(*element).words()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::ELEMENTS;

    fn used(element: &str, is_address: bool) -> Use {
        Use { element: element.to_owned(), is_address, ..Use::default() }
    }

    #[test]
    fn the_name_of_the_entry_says_more_than_the_ptx() {
        for (cpp, element, is_address, expected) in [
            (Some("int"), "u32", false, Some(Kind::Integer)),
            (Some("float"), "b32", false, Some(Kind::Float)),
            (Some("float const*"), "f32", true, Some(Kind::Integer)),
            (Some("float*"), "b64", false, Some(Kind::Integer)),
            (Some("float2"), "b8", false, None),
            (Some("Shape"), "b8", false, None),
            (None, "f32", true, Some(Kind::Integer)),
            (None, "f64", false, Some(Kind::Float)),
            (None, "s16", false, Some(Kind::Integer)),
            (None, "b32", false, None),
        ] {
            assert_eq!(Kind::of_parameter(cpp, &used(element, is_address)), expected, "{cpp:?} {element}");
        }
    }

    #[test]
    fn every_number_of_the_other_kind_is_refused() {
        let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n";
        for element in ELEMENTS {
            for (taken, kind) in
                [("u", Kind::Integer), ("s", Kind::Integer), ("f", Kind::Float), ("b", Kind::of(element))]
            {
                let declared = format!("{taken}{}", 8 * element.bytes);
                if taken == "f" && element.bytes < 4 {
                    continue;
                }
                let text = format!("{ptx}.entry e(.param .{declared} p) {{ ret; }}");
                let module = Module::parse(&text, "e.ptx").expect("PTX");
                let value = Parameter::parse(&format!("{}:1", element.name), "".as_ref()).expect("a number");
                let found = check(&module, "e", &[value]);
                assert_eq!(found.is_ok(), kind == Kind::of(element), ".{declared} {}: {found:?}", element.name);
            }
        }
    }
}
