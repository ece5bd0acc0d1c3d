//! All tests of this folder, in one program: to link one for each file takes longer than to compile them.

mod async_copy;
mod blocks;
mod bulk_copy;
mod bulk_reduce;
mod bulk_writes;
mod calls;
mod cluster;
mod cluster_copies;
mod clusters;
mod collectives;
mod common;
mod compiled;
mod compiled_calls;
mod compiled_clusters;
mod compiled_textures;
mod compiled_tiles;
mod device_heap;
mod findings;
mod float;
mod global_memory;
mod hostile;
mod hostile_operands;
mod hostile_textures;
mod integer;
mod launch;
mod left_undetermined;
mod matrix;
mod matrix_types;
mod mbarrier;
mod memory;
mod module;
mod overtaken_loads;
mod parameters;
mod previous_grid;
mod progress;
mod race_values;
mod races;
mod small_forms;
mod sparse;
mod surfaces;
mod tensor_maps;
mod textures;
mod undefined;
mod unused_reads;
mod volatile;
mod wgmma;
mod wgmma_types;
mod whole_grid;

/// A file that is no module here would not be tested.
#[test]
fn every_file_is_a_module() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let entries =
        std::fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it can be read").path());
    let is_file = |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let names = entries.filter(is_file).filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    let missing: Vec<String> = names
        .filter(|name| name != "all" && !include_str!("all.rs").lines().any(|line| line == format!("mod {name};")))
        .collect();
    assert!(missing.is_empty(), "tests/all.rs has no `mod` for {missing:?}");
}
