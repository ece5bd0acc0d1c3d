//! C++ types of an entry's parameters, which its mangled name holds.

use ptx_diagnostics::demangled;

use crate::element::Element;

/// The types of the parameters of a mangled C++ name.
pub fn parameter_types(entry: &str) -> Option<Vec<String>> {
    let name = demangled(entry);
    let list = name.strip_suffix(')').filter(|_| name != entry)?;
    let mut depth = 0_usize;
    // Read backwards, the list opens at the first parenthesis outside all nested brackets.
    let open = list.char_indices().rev().find(|(_, letter)| match letter {
        ')' | '>' => {
            depth += 1;
            false
        }
        '(' | '<' if depth > 0 => {
            depth -= 1;
            false
        }
        letter => *letter == '(',
    });
    let list = &list[open?.0 + 1..];
    let mut types = vec![String::new()];
    for letter in list.chars() {
        match letter {
            '(' | '<' => depth += 1,
            ')' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (letter, depth) {
            (',', 0) => types.push(String::new()),
            _ => types.last_mut().expect("there is one from the start").push(letter),
        }
    }
    Some(types.into_iter().map(|kind| kind.trim().to_owned()).filter(|kind| !kind.is_empty()).collect())
}

/// Scalar type and number of components of a C++ type.
pub fn element_of_cpp(kind: &str) -> Option<(Element, u64)> {
    let (name, width) = match kind.trim().trim_end_matches("const").trim() {
        "float" => ("f32", 1),
        "float2" => ("f32", 2),
        "float4" => ("f32", 4),
        "double" => ("f64", 1),
        "double2" => ("f64", 2),
        "__half" => ("f16", 1),
        "__half2" => ("f16", 2),
        "__nv_bfloat16" => ("bf16", 1),
        "__nv_bfloat162" => ("bf16", 2),
        "int" => ("i32", 1),
        "int2" => ("i32", 2),
        "int4" => ("i32", 4),
        "unsigned int" => ("u32", 1),
        "uint2" => ("u32", 2),
        "uint4" => ("u32", 4),
        "long" | "long long" => ("i64", 1),
        "unsigned long" | "unsigned long long" => ("u64", 1),
        "short" => ("i16", 1),
        "unsigned short" => ("u16", 1),
        "char" | "signed char" => ("i8", 1),
        "bool" | "unsigned char" => ("u8", 1),
        _ => return None,
    };
    Element::named(name).map(|element| (element, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_parameters_come_from_the_mangled_name() {
        let types = parameter_types("_Z4axpyIfEvT_PKS0_PS0_i").expect("a C++ name");
        assert_eq!(types, ["float", "float const*", "float*", "int"]);
        assert_eq!(parameter_types("_Z1fv").expect("no parameters"), [""; 0]);
        assert_eq!(parameter_types("_Z3runPFviEi").expect("a function pointer"), ["void (*)(int)", "int"]);
        assert_eq!(parameter_types("add"), None);
    }
}
