//! Declarations in the text of a module that a driver reports about functions and ptx-sim does not: launch bounds, and
//! sizes of variables. ptx-sim has parsed the text before, so nothing is refused here.

/// The launch bounds and sizes of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryDeclaration {
    /// Its name.
    pub name: String,
    /// `.maxntid`.
    pub maximum_threads: Option<u32>,
    /// `.reqntid`.
    pub required_threads: Option<u32>,
    /// `.minnctapersm`.
    pub minimum_blocks: Option<u32>,
    /// `.maxnreg`.
    pub maximum_registers: Option<u32>,
    /// Static shared memory of a block, bytes.
    pub shared_bytes: u64,
    /// Local memory of a thread, bytes.
    pub local_bytes: u64,
    /// Constant memory that the entry uses, bytes.
    pub constant_bytes: u64,
}

/// A variable of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableDeclaration {
    /// Its name.
    pub name: String,
    /// State space, with its dot.
    space: &'static str,
    /// Size, bytes; 0 if the launch decides it.
    pub bytes: u64,
    alignment: u64,
}

impl VariableDeclaration {
    /// Whether it is in global or constant memory.
    pub fn has_address(&self) -> bool {
        matches!(self.space, ".global" | ".const")
    }
}

/// The declarations of a module.
#[derive(Clone, Debug, Default)]
pub struct Declarations {
    /// The entries, in order.
    pub entries: Vec<EntryDeclaration>,
    /// The variables outside functions, in order.
    pub variables: Vec<VariableDeclaration>,
}

const SPACES: [&str; 4] = [".shared", ".local", ".const", ".global"];

impl Declarations {
    /// Reads the declarations of a module that ptx-sim has parsed.
    pub fn read(text: &str) -> Self {
        let mut found = Self::default();
        let code = code(text);
        let mut rest = code.as_str();
        // Functions begin with a header that ends at a brace; what lies between functions ends at semicolons.
        while let Some(end) = rest.find(['{', ';']) {
            let head = &rest[..end];
            if rest.as_bytes()[end] == b'{' && (head.contains(".entry") || head.contains(".func")) {
                let (body, after) = body(&rest[end..]);
                if let Some(entry) = entry(head, body, &found.variables) {
                    found.entries.push(entry);
                }
                rest = after;
                continue;
            }
            found.variables.extend(variable(head));
            // An initialiser in braces.
            rest = match rest.as_bytes()[end] {
                b'{' => body(&rest[end..]).1,
                _ => &rest[end + 1..],
            };
        }
        found
    }
}

/// The text inside the braces at the start of `text`, and the text after them.
fn body(text: &str) -> (&str, &str) {
    let mut depth = 0_usize;
    for (at, letter) in text.bytes().enumerate() {
        match letter {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return (&text[1..at], &text[at + 1..]);
        }
    }
    (text.get(1..).unwrap_or_default(), "")
}

/// `text` without comments and string contents.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"']) {
        code += &rest[..at];
        rest = &rest[at..];
        let end = match rest.as_bytes() {
            [b'/', b'/', ..] => rest.find('\n'),
            [b'/', b'*', ..] => rest[2..].find("*/").map(|end| end + 4),
            [b'"', ..] => rest[1..].find('"').map(|end| end + 2),
            _ => {
                code.push('/');
                Some(1)
            }
        };
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    code + rest
}

fn entry(head: &str, body: &str, variables: &[VariableDeclaration]) -> Option<EntryDeclaration> {
    let after = head.split_once(".entry")?.1;
    let name = after.split(|letter: char| letter.is_whitespace() || letter == '(').find(|name| !name.is_empty())?;
    let bounds = |directive: &str| {
        let numbers = head.split_once(directive)?.1;
        let end = numbers.find(|letter: char| !letter.is_ascii_digit() && letter != ',' && !letter.is_whitespace());
        let numbers = numbers[..end.unwrap_or(numbers.len())].split(',').map(|number| number.trim().parse::<u32>());
        numbers.collect::<Result<Vec<_>, _>>().ok()?.into_iter().reduce(u32::saturating_mul)
    };
    let own: Vec<_> = body.split([';', '{', '}']).filter_map(variable).collect();
    let used: Vec<_> = variables.iter().filter(|variable| mentions(body, &variable.name)).collect();
    let sum = |space: &str| {
        let all = used.iter().copied().chain(&own).filter(|variable| variable.space == space);
        all.fold(0_u64, |end, variable| end.next_multiple_of(variable.alignment).saturating_add(variable.bytes))
    };
    Some(EntryDeclaration {
        name: name.to_owned(),
        maximum_threads: bounds(".maxntid"),
        required_threads: bounds(".reqntid"),
        minimum_blocks: bounds(".minnctapersm"),
        maximum_registers: bounds(".maxnreg"),
        shared_bytes: sum(".shared"),
        local_bytes: sum(".local"),
        constant_bytes: sum(".const"),
    })
}

/// Whether `text` contains `name` as a whole word.
fn mentions(text: &str, name: &str) -> bool {
    let part = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || "_$%".contains(letter));
    text.match_indices(name)
        .any(|(at, _)| !part(text[..at].chars().next_back()) && !part(text[at + name.len()..].chars().next()))
}

/// The variable that a statement such as `.visible .global .align 4 .b8 name[16] = ` declares.
fn variable(statement: &str) -> Option<VariableDeclaration> {
    let declaration = statement.split('=').next().unwrap_or_default();
    let mut words = declaration.split_whitespace().peekable();
    // Before the space stand the linkage and directives that end without a semicolon, such as `.target sm_80`.
    let space = words.find_map(|word| SPACES.into_iter().find(|space| *space == word))?;
    let (mut alignment, mut element, mut count) = (None, 1, 1);
    while let Some(word) = words.next_if(|word| word.starts_with('.')) {
        match word {
            ".align" => alignment = words.next().and_then(|number| number.parse().ok()),
            ".v2" => count = 2,
            ".v4" => count = 4,
            _ => element = element_bytes(word),
        }
    }
    let rest = words.collect::<String>();
    let name = rest.split('[').next().unwrap_or_default();
    let extents = rest.split('[').skip(1).map(|extent| extent.trim_end_matches([']', ',']).parse::<u64>());
    let elements = extents.fold(count, |product, extent| product * extent.unwrap_or(0));
    let alignment = alignment.filter(|alignment: &u64| alignment.is_power_of_two()).unwrap_or(element * count);
    Some(VariableDeclaration { name: name.to_owned(), space, bytes: element * elements, alignment })
}

/// Bytes of a fundamental type, as in `.b32`.
fn element_bytes(word: &str) -> u64 {
    let digits = word.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    match digits.parse::<u64>() {
        Ok(bits) => (bits / 8).max(1),
        Err(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .b8 table[8] = {1, 2, 3, 4}; // .global .b8 no[9]; {
/* .global .b8 no[9]; { */
.file 1 "a{.rs"
.const .f32 factor = 0f3f800000;
.extern .shared .align 16 .b8 dynamic[];
.func (.param .b32 r) helper() { ret; }
.visible .entry first(
    .param .u64 first_param_0
)
.maxntid 128, 2, 1
.minnctapersm 2
{
    .local .align 8 .b8 __local_depot0[40];
    .shared .align 4 .b8 tile[20];
    .shared .f32 pair[2][3];
    .reg .b32 %r<3>;
    { .reg .b32 t; }
    ld.const.f32 %f0, [factor];
    mov.u32 %r1, dynamic;
    ret;
}
.entry second() .reqntid 64 .maxnreg 40 { ret; }"#;

    #[test]
    fn entries_have_bounds_and_sizes() {
        let found = Declarations::read(TEXT);
        let first = EntryDeclaration {
            name: "first".into(),
            maximum_threads: Some(256),
            minimum_blocks: Some(2),
            shared_bytes: 44,
            local_bytes: 40,
            constant_bytes: 4,
            ..EntryDeclaration::default()
        };
        let second = EntryDeclaration {
            name: "second".into(),
            required_threads: Some(64),
            maximum_registers: Some(40),
            ..EntryDeclaration::default()
        };
        assert_eq!(found.entries, [first, second]);
    }

    #[test]
    fn variables_have_sizes() {
        let found = Declarations::read(TEXT);
        let sizes: Vec<_> = found.variables.iter().map(|variable| (variable.name.as_str(), variable.bytes)).collect();
        assert_eq!(sizes, [("table", 8), ("factor", 4), ("dynamic", 0)]);
        assert!(found.variables[0].has_address() && !found.variables[2].has_address());
    }
}
