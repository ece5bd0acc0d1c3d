//! What documents say of limits and functions is what the code has.

use std::fs;

use contract::limits::{MAXIMUM_HEAD_DIM, TENSOR_ALIGNMENT};

fn read(path: &str) -> String {
    let path = doc_lint::workspace_root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_page_of_the_library_names_the_widest_head() {
    let pages =
        ["README.md", "docs/use/README.md", "docs/use/candle.md", "host/fa512/README.md", "host/python/README.md"];
    for page in pages {
        assert!(read(page).contains(&MAXIMUM_HEAD_DIM.to_string()), "{page} does not name {MAXIMUM_HEAD_DIM}");
    }
}

#[test]
fn the_alignment_of_lse_stands_where_its_shape_does() {
    for page in ["docs/use/README.md", "docs/use/rust.md", "host/fa512/README.md"] {
        let text = read(page);
        let mut lines =
            text.split("\n\n").flat_map(|paragraph| paragraph.split("\n* ")).filter(|text| text.contains("LSE"));
        let named = format!("multiple of {TENSOR_ALIGNMENT} bytes");
        assert!(lines.any(|text| text.contains(&named)), "{page} does not say that LSE is at a {named}");
    }
}

/// The functions of candle-flash-attn 0.11.
const OF_CANDLE_FLASH_ATTN: [&str; 11] = [
    "flash_attn",
    "flash_attn_alibi",
    "flash_attn_alibi_windowed",
    "flash_attn_alibi_windowed_softcap",
    "flash_attn_varlen",
    "flash_attn_varlen_alibi",
    "flash_attn_varlen_alibi_windowed",
    "flash_attn_varlen_alibi_windowed_softcap",
    "flash_attn_varlen_paged_windowed",
    "flash_attn_varlen_windowed",
    "flash_attn_windowed",
];

#[test]
fn a_function_of_candle_flash_attn_is_there_or_named_as_missing() {
    let (code, page) = (read("host/candle/src/lib.rs"), read("docs/use/candle.md"));
    let missing = page.lines().find(|line| line.contains("is missing")).unwrap_or_default();
    for name in OF_CANDLE_FLASH_ATTN {
        let is_there = code.contains(&format!("pub fn {name}("));
        let is_named = missing.contains(&format!("`{name}`"));
        assert_ne!(is_there, is_named, "{name}: there {is_there}, named as missing {is_named}");
    }
    let unpublished = read("host/candle/Cargo.toml").contains("publish = false");
    assert_eq!(unpublished, page.contains("not published"), "docs/use/candle.md");
}
