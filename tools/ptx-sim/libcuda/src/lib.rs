//! `libcuda.so.1` for machines without a GPU: programs that call the CUDA driver run unchanged, and ptx-sim executes their
//! launches with all its checks.
//!
//! Every function of the driver API is exported. Simulated functions follow the CUDA driver API on the machine that
//! [`sim_device`] simulates; the others return `CUDA_ERROR_NOT_SUPPORTED`. A faulty kernel fails as on a GPU: its error becomes
//! the context's. It is printed like a compiler error, with source line, lanes and allocation.
//!
//! # Use
//!
//! `ptx-sim run -- program arguments` does all of this, and turns on the checks that are off by default. By hand: put the library into a folder as `libcuda.so.1` (and `libcuda.so`, which some programs ask for), and name that folder in
//! `LD_LIBRARY_PATH`:
//!
//! ```sh
//! cargo build --release -p libcuda-sim
//! mkdir -p target/simulated
//! ln -sf ../release/liblibcuda_sim.so target/simulated/libcuda.so.1
//! ln -sf libcuda.so.1 target/simulated/libcuda.so
//! LD_LIBRARY_PATH=target/simulated your-program
//! ```
//!
//! # Environment
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `PTX_SIM_GPUS` | number of GPUs | 1 |
//! | `PTX_SIM_ARCH` | their architecture, as in 90 for `sm_90` | 90 |
//! | `PTX_SIM_MULTIPROCESSORS` | multiprocessors of each | 4 |
//! | `PTX_SIM_MEMORY` | memory of each, bytes, or with K, M or G | 16G |
//! | `PTX_SIM_RACES` | 0: data races are not looked for, which is faster | 1 |
//! | `PTX_SIM_SCHEDULE` | the order of warps and blocks: 0 for that of their indices, others are seeded shuffles | 0 |
//! | `PTX_SIM_STRICT` | 1: no liberties with the memory model: an atomic operation or a barrier counts as no missing fence | 0 |
//! | `PTX_SIM_CONTINUE` | 1: the program goes on after findings that a GPU does not notice, such as races | 0 |
//! | `PTX_SIM_LEAKS` | 1: allocations that are never freed are told when their context or the program ends | 0 |
//! | `PTX_SIM_UNINITIALISED_COPIES` | 1: copies to the host of what was never written are told | 0 |
//! | `PTX_SIM_INSTRUCTION_LIMIT` | instructions a warp may execute before its loop is taken to be endless | 100000000 |
//! | `PTX_SIM_JOURNAL` | file that every problem is appended to, one JSON object a line; messages name the program's lines | none |
//! | `PTX_SIM_THREADS` | threads that execute blocks | all cores |
//! | `PTX_SIM_REPORT` | file that messages are appended to | standard error |
//! | `PTX_SIM_QUIET` | 1: no messages | 0 |
//! | `PTX_SIM_DRIVER` | the CUDA version that the driver is for, as in 12.2: what came later is refused | 13.0 |
//! | `PTX_SIM_FAIL` | functions that fail, as in `cuMemAlloc_v2=CUDA_ERROR_OUT_OF_MEMORY,cuCtxCreate_v2=46` | none |
//! | `CUDA_VISIBLE_DEVICES` | the GPUs that the program sees, by number, in its order | all |
//!
//! A value that means nothing is told and makes `cuInit` return `CUDA_ERROR_INVALID_VALUE`.
//!
//! # Differences from a GPU
//!
//! - Modules are loaded from PTX only, as text or in a fat binary; cubins are refused (`CUDA_ERROR_NO_BINARY_FOR_GPU`).
//!   `cuLink…` returns PTX instead of a cubin.
//! - Work is executed when it is queued. The next call that waits returns the error of a kernel; so does every later call.
//! - Host pointers are the program's own and are dereferenced as the driver does; everything else is looked up.

// Thin shims: everything that needs no pointers is in `sim_device`, which has no unsafe code.
mod arrays;
mod border;
mod caller;
mod contexts;
mod copies;
mod devices;
mod driver;
mod graph_nodes;
mod graphs;
mod host_memory;
mod image;
mod jit;
mod launches;
mod libraries;
mod links;
mod memory;
mod modules;
mod nvjitlink;
mod pages;
mod places;
mod pointers;
mod pool_allocations;
mod pools;
mod procs;
mod python;
mod streams;
mod symbols;
mod tensor_maps;
mod textures;
mod types;
mod unsupported;

/// The functions of all files.
fn functions() -> impl Iterator<Item = &'static [(&'static str, border::Address)]> {
    [
        arrays::FUNCTIONS,
        contexts::FUNCTIONS,
        copies::FUNCTIONS,
        devices::FUNCTIONS,
        graph_nodes::FUNCTIONS,
        graphs::FUNCTIONS,
        host_memory::FUNCTIONS,
        launches::FUNCTIONS,
        libraries::FUNCTIONS,
        links::FUNCTIONS,
        memory::FUNCTIONS,
        modules::FUNCTIONS,
        pointers::FUNCTIONS,
        pools::FUNCTIONS,
        procs::FUNCTIONS,
        streams::FUNCTIONS,
        tensor_maps::FUNCTIONS,
        textures::FUNCTIONS,
        unsupported::FUNCTIONS,
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::path::PathBuf;
    use std::process::Command;

    /// Calls every function with zero arguments, except `cuInit`, which would create a machine from the environment.
    fn call_all() {
        /// A driver function of up to twelve words.
        type Any = unsafe extern "C" fn(
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
        ) -> u32;
        for (name, border::Address(address)) in functions().flatten().filter(|(name, _)| *name != "cuInit") {
            // SAFETY: every function takes at most twelve words, and the C calling convention allows extra arguments; every
            // function accepts null for every pointer.
            let code = unsafe { std::mem::transmute::<*const (), Any>(*address)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) };
            assert_ne!(code, sim_device::Code::UNKNOWN.0, "{name} panics");
        }
    }

    #[test]
    fn no_function_crashes_when_all_its_arguments_are_null() {
        call_all();
        let config = sim_device::Config { messages: sim_device::Messages::Quiet, ..Default::default() };
        driver::init_with(|| Ok(config)).unwrap();
        let context = driver::machine().unwrap().retain_primary(0).unwrap();
        call_all();
        driver::with_stack(|stack| stack.push(driver::context_handle(&context)));
        call_all();
    }

    /// The directory of a package's manifest.
    fn package_folder(name: &str) -> PathBuf {
        let metadata = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version=1", "--locked"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        assert!(metadata.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&metadata.stderr));
        let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("cargo metadata prints JSON");
        let packages = metadata["packages"].as_array().expect("a list of packages");
        let package = packages.iter().find(|package| package["name"] == name).expect("a dependency");
        let manifest = PathBuf::from(package["manifest_path"].as_str().expect("a path"));
        manifest.parent().expect("a folder").to_owned()
    }

    /// The names in `text` that follow `before`.
    fn names_after(text: &str, before: &str) -> Vec<String> {
        let names = text
            .split(before)
            .skip(1)
            .map(|rest| rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_'));
        let names = names.filter_map(|mut words| words.next()).map(str::to_owned);
        names.filter(|name| name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(char::is_uppercase))).collect()
    }

    #[test]
    fn every_function_that_bindings_declare_is_exported() {
        let cudarc = std::fs::read_to_string(package_folder("cudarc").join("src/driver/sys/mod.rs")).unwrap();
        let delay_load = include_str!("../../libcuda-delay-load/src/functions.rs");
        let declared = [names_after(&cudarc, "pub unsafe fn "), names_after(delay_load, "\n            ")];
        let exported: HashSet<_> = functions().flatten().map(|(name, _)| *name).collect();
        for (names, least) in declared.iter().zip([500, 350]) {
            assert!(names.len() >= least, "only {} names found", names.len());
            let missing: Vec<_> = names.iter().filter(|name| !exported.contains(name.as_str())).collect();
            assert!(missing.is_empty(), "add these to unsupported.rs: {missing:?}");
        }
    }

    #[test]
    fn every_function_has_one_name() {
        let names: Vec<_> = functions().flatten().map(|(name, _)| *name).collect();
        let different: HashSet<_> = names.iter().collect();
        assert_eq!((names.len(), different.len()), (names.len(), names.len()));
        assert!(names.len() >= 678, "{} functions", names.len());
    }
}
