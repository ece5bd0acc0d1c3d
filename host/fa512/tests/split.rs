//! How `build.rs` takes PTX apart, and how it packs the parts.

#[path = "../build/merge.rs"]
mod merge;
#[path = "../src/merged.rs"]
mod merged;
#[path = "../build/package.rs"]
mod package;
#[path = "../build/split.rs"]
mod split;

use split::{Entry, Lines, Refusal};

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align 1024 .b8 shared[];\n\n";

/// An entry as `cargo xtask ptx` writes it.
fn entry(name: &str, body: &str) -> String {
    format!(
        ".visible .entry {name}(\n\t.param .align 8 .b8 {name}_param_0[240]\n)\n.reqntid 128, 1, 1\n.minnctapersm 2\n{{\n{body}}}\n\n"
    )
}

const BODY: &str = "\t.reg .b32 \t%r<3>;\n$L__func_begin0:\n\t.loc\t1 10 0   // a.rs:10:0\n// %bb.0:\n\tmov.u32 %r1, shared;\n\
                    \t// begin inline asm\n\t{\n\t.reg .pred p;\n\t}\n$L__tmp0:\n\t.pragma \"nounroll\";\n\tmov.b64 {%r1, %r2}, 0;\n\tret;\n";
const TAIL: &str = "\t.file\t1 \"a//b.rs\"\n\t.section\t.debug_str\n\t{\n$L__file_name1:\n\t.b8 112\n\t}\n";

/// Without line tables, as a package has them.
fn split(ptx: &str) -> Result<Vec<Entry>, Refusal> {
    split::split(ptx, Lines::LeftOut)
}

fn refusal(ptx: &str) -> String {
    split(ptx).unwrap_err().to_string()
}

#[test]
fn each_entry_becomes_a_module_without_line_tables_and_comments() {
    let ptx = [HEAD, &entry("one", BODY), &entry("two", "\tret;\n"), TAIL].concat();
    let entries = split(&ptx).unwrap();
    let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(
        entries[0].text,
        ".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align 1024 .b8 shared[];\n.visible .entry one(\n\
         .param .align 8 .b8 one_param_0[240]\n)\n.reqntid 128, 1, 1\n.minnctapersm 2\n{\n.reg .b32 \t%r<3>;\n\
         $L__func_begin0:\nmov.u32 %r1, shared;\n{\n.reg .pred p;\n}\n$L__tmp0:\n.pragma \"nounroll\";\n\
         mov.b64 {%r1, %r2}, 0;\nret;\n}\n"
    );
    assert!(!entries[1].text.contains("shared"), "what an entry does not mention is left out");
    assert_eq!((entries[1].ptx_version.as_str(), entries[1].target.as_str()), ("8.0", "sm_80"));
    assert_eq!((&entries[0].parameter_bytes, &entries[1].parameter_bytes), (&vec![240], &vec![240]));
}

#[test]
fn line_tables_are_kept_where_that_is_asked_for() {
    let ptx = [HEAD, &entry("one", BODY), &entry("two", "\tret;\n"), TAIL].concat();
    let entries = split::split(&ptx, Lines::Kept).unwrap();
    let tables = ".file\t1 \"a//b.rs\"\n.section\t.debug_str\n\t{\n$L__file_name1:\n\t.b8 112\n\t}\n";
    assert!(entries[0].text.contains("\n.loc\t1 10 0\n"), "{}", entries[0].text);
    for entry in &entries {
        let tail = entry.text.split_once("ret;\n}\n").expect("the end of the entry").1;
        assert_eq!(tail.replace("\t.", "."), tables.replace("\t.", "."), "{}", entry.name);
    }
}

#[test]
fn what_is_not_understood_is_refused_by_its_line() {
    let with = |line: &str| refusal(&[HEAD, line, "\n", &entry("one", BODY)].concat());
    assert_eq!(with(".global .align 4 .u32 counter;"), "line 6: not understood: `.global .align 4 .u32 counter;`");
    assert_eq!(with(".visible .func f("), "line 6: not understood: `.visible .func f(`");
    assert_eq!(with("/* a comment"), "line 6: a comment in `/* */`");
    assert_eq!(with(".address_size 32"), "line 6: not understood: `.address_size 32`");
    let body = |body: &str| refusal(&[HEAD, &entry("one", body)].concat());
    assert_eq!(body("\t.ascii \"//\";\n"), "line 12: a text within an entry: `.ascii \"`");
    let pointer = entry("one", "").replace(".param .align 8 .b8 one_param_0[240]", ".param .u64 one_param_0");
    assert_eq!(refusal(&[HEAD, &pointer].concat()), "line 7: not understood: `.param .u64 one_param_0`");
}

#[test]
fn parameters_are_counted_by_their_bytes() {
    let two = entry("one", "").replace("[240]\n", "[240],\n\t.param .align 64 .b8 one_param_1[512]\n");
    let entries = split(&[HEAD, &two].concat()).unwrap();
    assert_eq!(entries[0].parameter_bytes, [240, 512]);
    assert!(entries[0].text.contains("one_param_0[240],\n.param .align 64 .b8 one_param_1[512]\n)\n"));
}

#[test]
fn a_module_that_ends_early_is_refused() {
    assert_eq!(refusal(HEAD), "line 5: the module ends without an entry");
    assert_eq!(refusal(""), "line 0: the module ends without an entry");
    let whole = [HEAD, &entry("one", BODY)].concat();
    let cut = whole.trim_end().strip_suffix('}').unwrap();
    assert!(refusal(cut).contains("ends within an entry"), "{}", refusal(cut));
    assert_eq!(refusal(&entry("one", "\tret;\n")), "line 8: entry one ends, and there was no .version");
}

#[test]
fn a_package_is_read_as_it_was_written() {
    let folder = std::env::temp_dir().join(format!("fa512-package-{}", std::process::id()));
    let names = ["fa512_one_any", "fa512_two", "fa512_one_bf16_any", "fa512_bf16_alone"];
    let body = |name: &str| if name.contains("bf16") { BODY.replace(".u32", ".b16") } else { BODY.to_owned() };
    let texts: Vec<String> = names.iter().map(|name| entry(name, &body(name))).collect();
    let entries = split(&[HEAD, &texts.concat()].concat()).unwrap();
    package::write(&folder, &entries, Lines::LeftOut).unwrap();
    let index = package::read(&folder).unwrap();
    assert_eq!(index.len(), names.len());
    for entry in &entries {
        let indexed = index.iter().find(|indexed| indexed.name == entry.name).unwrap();
        assert_eq!(indexed.parameter_bytes, entry.parameter_bytes);
        let zlib = std::fs::read(folder.join(indexed.file())).unwrap();
        let merged = miniz_oxide::inflate::decompress_to_vec_zlib(&zlib).unwrap();
        let part = merged::part(&merged, indexed.side);
        assert_eq!((merged.len(), part.len()), (indexed.merged_bytes, indexed.text_bytes));
        assert_eq!(part, entry.text.as_bytes(), "{}", entry.name);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 4, "a stream of two entries, two of one, the index");
    std::fs::write(folder.join(package::INDEX), "something else\n").unwrap();
    assert!(package::read(&folder).unwrap_err().contains("its first line is not `fa512 kernels, format 2"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn merged_texts_come_apart_again() {
    let texts = ["", "a\n", "\n", "a 1\nb 1\nc 1\n", "b 1\nc 2\n", "x\na 2\nb 1\ny\nz\nc 1\n", "c 1\nb 1\na 1\n"];
    let long: String = (0..50).map(|line| format!("{line} {line}\n")).collect();
    let texts: Vec<&str> = texts.into_iter().chain([long.as_str(), &long[90..]]).collect();
    for first in &texts {
        for second in &texts {
            let merged = merge::merge(first, second).unwrap();
            assert_eq!(merged::part(merged.as_bytes(), merged::Side::First), first.as_bytes());
            assert_eq!(merged::part(merged.as_bytes(), merged::Side::Second), second.as_bytes());
        }
    }
    assert_eq!(merge::merge("a 1\nb\nc 1\n", "a 2\nx\nb\nc 1\n").unwrap(), "-a 1\n+a 2\n+x\nb\nc 1\n");
    for unfit in ["-a\n", "a\n+\n", "a"] {
        assert!(merge::merge(unfit, unfit).is_err(), "{unfit}");
    }
}
