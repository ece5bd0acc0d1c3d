//! The CUDA C++ twins of the kernels (`baselines/cuda/`), compiled by nvcc.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use contract::args::{FORWARD_ARGS_FIELDS, FORWARD_ARGS_LAYOUT};
use contract::config::{Element, Family, Mask, Sequence};
use contract::manifest;
use contract::tile::{Configuration, Sm80};
use contract::variants::{VARIANTS, Variant};

use super::{CodeGenerator, Compiled, Target};
use crate::environment::Workspace;
use crate::files::write_atomically;
use crate::nvcc::Nvcc;
use crate::process::capture;

/// The family that has twins.
pub const FAMILY: Family = Family::Sm80;

/// Whether `variant` has a twin.
pub fn has_twin(variant: &Variant) -> bool {
    twin(variant).is_some()
}

/// The tile of the variant's twin. There is one for the fp16 variants of [`FAMILY`] without a window and for sequences of one
/// length that differ from its defaults in nothing but the tile, the warps, the stages and the blocks of a multiprocessor. It leaves no
/// parts.
fn twin(variant: &Variant) -> Option<Sm80> {
    let Configuration::Sm80(tile) = variant.config else { return None };
    let Sm80 { block_m, block_n, warps, stages, min_blocks, keys, .. } = tile;
    let is_usual = tile == Sm80 { min_blocks, keys, ..Sm80::new(block_m, block_n, warps, stages) };
    let is_computed = variant.mask != Mask::Window && variant.sequence != Sequence::Packed;
    (is_usual && is_computed && variant.element == Element::F16).then_some(tile)
}

/// What to say about the variants of [`FAMILY`] that have no twin; `None` when all have one.
pub fn without_twin(variants: &[Variant]) -> Option<String> {
    let lacking = variants.iter().filter(|variant| variant.family() == FAMILY && !has_twin(variant));
    let names: Vec<&str> = lacking.map(|variant| variant.entry).collect();
    (!names.is_empty()).then(|| {
        format!(
            "no twin of {}: the CUDA C++ kernels have no options but tile, warps, stages and blocks, and no windows or packed \
             sequences",
            names.join(", ")
        )
    })
}

/// nvcc's options. Products and sums stay apart, as rustc leaves them; line directives go into the PTX.
const OPTIONS: [&str; 5] = ["--ptx", "--std=c++17", "--fmad=false", "--generate-line-info", "--Werror=all-warnings"];

/// Compiles the twins with an nvcc.
pub struct CudaCpp {
    nvcc: Nvcc,
    workspace: Workspace,
}

impl CudaCpp {
    /// The twins of `workspace`, by `nvcc`.
    pub fn new(nvcc: Nvcc, workspace: Workspace) -> Self {
        Self { nvcc, workspace }
    }
}

impl CodeGenerator for CudaCpp {
    fn identity(&self) -> manifest::CodeGenerator {
        manifest::CodeGenerator { name: "nvcc".into(), version: self.nvcc.version.clone() }
    }

    fn has(&self, variant: &Variant) -> bool {
        has_twin(variant)
    }

    fn compile(&self, target: &Target) -> Result<Compiled> {
        let folder = self.workspace.device_target().join("nvcc");
        let (source, ptx) = (folder.join("entries.cu"), folder.join(target.file));
        write_atomically(&source, entries().as_bytes())?;
        let mut nvcc = Command::new(&self.nvcc.path);
        nvcc.current_dir(self.workspace.root()).args(OPTIONS).arg(format!("--gpu-architecture={}", target.cpu));
        nvcc.arg("--include-path").arg(source_folder(&self.workspace)).arg("--output-file").arg(&ptx).arg(&source);
        let said = capture(&mut nvcc).context("nvcc does not compile the twins")?;
        eprint!("{said}");
        let text = fs::read_to_string(&ptx).with_context(|| format!("nvcc left no {}", ptx.display()))?;
        Ok(Compiled { ptx: self.without_folders_of_this_machine(&text), warnings: 0 })
    }

    fn lint(&self, _: &Target) -> Result<Option<usize>> {
        Ok(None)
    }
}

impl CudaCpp {
    /// Names the sources relative to the workspace, and NVIDIA's headers as `cuda/…`, on every machine.
    fn without_folders_of_this_machine(&self, ptx: &str) -> String {
        let root = format!("\"{}/", self.workspace.root().display());
        let installation =
            self.nvcc.path.parent().map(|folder| format!("\"{}/..//", folder.display())).unwrap_or_default();
        let rename = |line: &str| match line.trim_start().starts_with(".file") {
            true => line.replacen(&installation, "\"cuda/", 1).replacen(&root, "\"", 1) + "\n",
            false => format!("{line}\n"),
        };
        ptx.lines().map(rename).collect()
    }
}

/// The folder of the twins' source.
pub fn source_folder(workspace: &Workspace) -> PathBuf {
    workspace.root().join("baselines/cuda")
}

/// A translation unit with the twins, and the proof that both sides of a launch agree on the argument.
fn entries() -> String {
    let mut text =
        String::from("// Written by `cargo xtask baselines` from kernel-gpu/contract/src/launch/variants.rs.\n");
    text.push_str("#include \"forward.cuh\"\n\n");
    text.push_str(&argument_assertions());
    for (variant, tile) in VARIANTS.iter().filter_map(|variant| Some((variant, twin(variant)?))) {
        text.push_str(&entry(variant, tile));
    }
    text
}

/// The line of one entry.
fn entry(variant: &Variant, tile: Sm80) -> String {
    let sequence = match variant.sequence {
        Sequence::Exact(length) => format!("Exact<{length}>"),
        Sequence::Any => "Any".to_owned(),
        Sequence::Packed => unreachable!("it has no twin"),
    };
    let mask = match variant.mask {
        Mask::Full => "Full",
        Mask::Causal => "Causal",
        Mask::Window => unreachable!("it has no twin"),
    };
    format!(
        "FA512_ENTRY({}, {}, {}, {}, {}, {sequence}, {mask})\n",
        variant.entry, tile.block_m, tile.block_n, tile.warps, tile.stages
    )
}

/// C and C++ assertions that `ForwardArgs` is laid out as kernel-gpu's.
fn argument_assertions() -> String {
    let mut text = String::from("#include <assert.h>\n#include <stddef.h>\n");
    let size = FORWARD_ARGS_LAYOUT.size();
    let _ = writeln!(text, "static_assert(sizeof(ForwardArgs) == {size}, \"size of ForwardArgs\");");
    for field in FORWARD_ARGS_FIELDS {
        let (name, offset, size) = (field.name, field.offset, field.size);
        let _ = writeln!(
            text,
            "static_assert(offsetof(ForwardArgs, {name}) == {offset} && sizeof(((ForwardArgs*)0)->{name}) == {size}, \
             \"{name} of ForwardArgs\");"
        );
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use anyhow::Result;
    use contract::config::{Element, Mask, Sequence};
    use contract::tile::{Configuration, Epilogue, Sm80, Sm90Tma};
    use contract::variants::{VARIANTS, Variant};
    use tempfile::TempDir;

    use super::{CudaCpp, argument_assertions, entries, has_twin, source_folder, without_twin};
    use crate::environment::Workspace;
    use crate::nvcc::Nvcc;
    use crate::process::capture;

    fn header() -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        source_folder(&Workspace::new(root.to_owned())).join("forward_args.h")
    }

    /// Gives the argument's definition to the host's C compiler, with the assertions that the twins are compiled with.
    fn check_argument_layout(header: &Path, folder: &Path) -> Result<()> {
        let source = folder.join("layout.c");
        fs::write(&source, format!("#include \"{}\"\n{}", header.display(), argument_assertions()))?;
        capture(Command::new("cc").args(["-std=c11", "-fsyntax-only", "-Wall", "-Werror"]).arg(&source)).map(drop)
    }

    #[test]
    fn the_twins_argument_is_laid_out_like_ours() {
        let folder = TempDir::new().unwrap();
        check_argument_layout(&header(), folder.path()).unwrap();
    }

    #[test]
    fn an_argument_laid_out_differently_is_noticed() {
        let folder = TempDir::new().unwrap();
        let header = fs::read_to_string(header()).unwrap();
        for (ours, theirs, field) in [
            ("uint64_t k;", "uint32_t k;", "k"),
            ("    uint32_t sequence;", "", "sequence"),
            ("Strides v_strides;\n    Strides o_strides;", "Strides o_strides;\n    Strides v_strides;", "v_strides"),
        ] {
            assert!(header.contains(ours), "{ours} is not in the header");
            let changed = folder.path().join("changed.h");
            fs::write(&changed, header.replace(ours, theirs)).unwrap();
            let error = format!("{:#}", check_argument_layout(&changed, folder.path()).unwrap_err());
            assert!(error.contains(field), "{theirs}: {error}");
        }
    }

    #[test]
    fn a_twin_has_the_name_and_tile_of_its_variant() {
        let text = entries();
        for variant in VARIANTS {
            let config = variant.config;
            let begin = format!("FA512_ENTRY({}, {}, {}, ", variant.entry, config.block_m(), config.block_n());
            assert_eq!(text.matches(&begin).count(), usize::from(has_twin(variant)), "{begin} in\n{text}");
        }
    }

    #[test]
    fn a_variant_with_options_that_the_twins_lack_has_none() {
        let tile = Sm80 { min_blocks: 2, ..Sm80::new(128, 32, 8, 3) };
        let variant = |entry, config| {
            let (element, sequence, mask) = (Element::F16, Sequence::Any, Mask::Full);
            let scores = contract::config::Scores::Unmodified;
            Variant {
                entry,
                config,
                element,
                sequence,
                mask,
                scores,
                waits_for_previous_grid: false,
                leaves_parts: false,
            }
        };
        let plain = variant("plain", Configuration::Sm80(tile));
        let others = [
            variant("exchange", Configuration::Sm80(Sm80 { epilogue: Epilogue::Exchange, ..tile })),
            variant("groups", Configuration::Sm80(Sm80 { key_groups: 2, ..tile })),
            Variant { entry: "packed", sequence: Sequence::Packed, ..plain },
            Variant { entry: "wide", config: Configuration::Sm80(Sm80 { columns: 128, ..tile }), ..plain },
        ];
        let hopper = variant("hopper", Configuration::Sm90Tma(Sm90Tma::new(1, 4)));
        assert!(has_twin(&plain) && !others.iter().any(has_twin) && !has_twin(&hopper));
        assert_eq!(without_twin(&[plain, hopper]), None);
        let said = without_twin(&[others[0], plain, others[1], hopper]).unwrap();
        assert!(said.starts_with("no twin of exchange, groups: "), "{said}");
    }

    #[test]
    fn sources_are_named_without_the_folders_of_this_machine() {
        let nvcc = Nvcc { path: "/opt/cuda/bin/nvcc".into(), version: "13.0".into() };
        let twins = CudaCpp::new(nvcc, Workspace::new("/home/me/fa512".into()));
        let ptx = "ret;\n\t.file\t1 \"/home/me/fa512/baselines/cuda/ptx.cuh\"\n\t.file\t2 \"/opt/cuda/bin/..//include/a.h\"\n";
        let expected = "ret;\n\t.file\t1 \"baselines/cuda/ptx.cuh\"\n\t.file\t2 \"cuda/include/a.h\"\n";
        assert_eq!(twins.without_folders_of_this_machine(ptx), expected);
    }
}
