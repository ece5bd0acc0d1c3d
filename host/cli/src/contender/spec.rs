//! Contender specifications on the command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::cubek;
use super::torch::Backend;
use crate::error::{Error, Result};

/// A contender specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// `fa512`: our own kernel, as chosen for the case.
    Preferred,
    /// `variant:NAME`: the entry of this name.
    Variant(String),
    /// `codegen:NAME`: the chosen entry of another code generator, from the folder `ptx-NAME` next to our own.
    CodeGenerator(String),
    /// `ptx:FOLDER` or `ptx:FOLDER:NAME`: the chosen entry of another PTX folder, or the one of this name.
    Folder(PathBuf, Option<String>),
    /// `torch:BACKEND`: PyTorch's attention.
    Torch(Backend),
    /// `cubek` or `cubek:unit`: a strategy of cubek-attention.
    Cubek(cubek::Strategy),
}

impl Spec {
    /// The accepted forms, for messages.
    pub const FORMS: &str = "fa512, variant:NAME, twin (the CUDA C++ twin), codegen:NAME, ptx:FOLDER[:VARIANT], \
                             torch:flash, torch:cudnn, torch:efficient, torch:flex, cubek, cubek:unit";
    /// Name of the twins' code generator.
    const TWIN: &str = "cuda";

    /// The CUDA C++ twin of the chosen entry.
    pub fn twin() -> Self {
        Self::CodeGenerator(Self::TWIN.into())
    }
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || Error::Invalid(format!("there is no contender {text:?}; there are: {}", Self::FORMS));
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        if let Some(strategy) = cubek::Strategy::from_contender_name(text) {
            return Ok(Self::Cubek(strategy));
        }
        match (kind, name) {
            ("fa512", "") if text == "fa512" => Ok(Self::Preferred),
            ("twin", "") if text == "twin" => Ok(Self::twin()),
            (_, "") => Err(refuse()),
            ("variant", name) => Ok(Self::Variant(name.into())),
            ("codegen", name) if !name.contains(std::path::is_separator) => Ok(Self::CodeGenerator(name.into())),
            ("torch", backend) => Backend::from_name(backend).map(Self::Torch).ok_or_else(refuse),
            ("ptx", place) => match place.rsplit_once(':') {
                Some((folder, variant)) if !folder.is_empty() && !variant.contains(std::path::is_separator) => {
                    Ok(Self::Folder(folder.into(), Some(variant.into())))
                }
                _ => Ok(Self::Folder(place.into(), None)),
            },
            _ => Err(refuse()),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preferred => write!(formatter, "fa512"),
            Self::Variant(name) => write!(formatter, "variant:{name}"),
            Self::CodeGenerator(name) if name == Self::TWIN => write!(formatter, "twin"),
            Self::CodeGenerator(name) => write!(formatter, "codegen:{name}"),
            Self::Torch(backend) => write!(formatter, "torch:{}", backend.name()),
            Self::Cubek(strategy) => write!(formatter, "{}", strategy.contender_name()),
            Self::Folder(folder, None) => write!(formatter, "ptx:{}", folder.display()),
            Self::Folder(folder, Some(variant)) => write!(formatter, "ptx:{}:{variant}", folder.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_understood() {
        let parse = |text: &str| text.parse::<Spec>().unwrap();
        assert_eq!(parse("fa512"), Spec::Preferred);
        assert_eq!(parse("variant:fa512_sm80_any_full_128x64"), Spec::Variant("fa512_sm80_any_full_128x64".into()));
        assert_eq!(parse("twin"), Spec::CodeGenerator("cuda".into()));
        assert_eq!(parse("codegen:rust-cuda"), Spec::CodeGenerator("rust-cuda".into()));
        assert_eq!(parse("torch:cudnn"), Spec::Torch(Backend::Cudnn));
        assert_eq!(parse("cubek"), Spec::Cubek(cubek::Strategy::Accelerated));
        assert_eq!(parse("cubek:unit"), Spec::Cubek(cubek::Strategy::Unit));
        assert_eq!(parse("ptx:target/old"), Spec::Folder("target/old".into(), None));
        assert_eq!(parse("ptx:target/old:fa512_x"), Spec::Folder("target/old".into(), Some("fa512_x".into())));
        assert_eq!(parse("ptx:C:/old"), Spec::Folder("C:/old".into(), None), "a folder of Windows");
    }

    #[test]
    fn a_contender_is_named_as_it_was_written() {
        for text in [
            "fa512",
            "variant:x",
            "twin",
            "codegen:rust-cuda",
            "ptx:target/old",
            "ptx:target/old:x",
            "torch:flex",
            "cubek",
            "cubek:unit",
        ] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_there_is() {
        for text in [
            "",
            "fa513",
            "fa512:x",
            "variant:",
            "codegen:",
            "codegen:a/b",
            "twin:x",
            "cubek:x",
            "ptx:",
            "torch:",
            "torch:math",
        ] {
            let message = text.parse::<Spec>().unwrap_err().to_string();
            assert!(message.contains("there are: fa512, variant:NAME"), "{text}: {message}");
        }
    }
}
