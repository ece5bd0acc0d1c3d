//! The simulated machine, and its description in environment variables.

use std::path::PathBuf;
use std::sync::Arc;

use ptx_sim::{HostWords, Options};

use crate::architecture::Architecture;
use crate::code::Code;
use crate::error::{Error, Result};

/// Maximum GPUs of a machine.
const MOST_GPUS: u32 = 64;
/// The default CUDA version of the driver, and the newest that it can be.
pub const NEWEST_DRIVER: u32 = 13_000;
/// Maximum memory of a GPU, bytes: half of the address space of a context.
const MOST_MEMORY: u64 = 256 << 30;

/// Allocates a number of bytes of host memory, if possible.
pub type AllocateHost = fn(u64) -> Option<Arc<dyn HostWords>>;

/// Where messages go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Messages {
    /// To standard error.
    #[default]
    StandardError,
    /// Appended to a file, which is created if missing.
    File(PathBuf),
    /// Nowhere.
    Quiet,
}

/// A machine to simulate.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of GPUs.
    pub gpus: u32,
    /// Their architecture.
    pub architecture: Architecture,
    /// Multiprocessors of each GPU. Few, so that each block of a persistent grid processes several work items.
    pub multiprocessors: u32,
    /// Memory of each, bytes.
    pub memory_bytes: u64,
    /// The GPUs that a program sees, by index, in its order (`CUDA_VISIBLE_DEVICES`); `None` for all.
    pub visible: Option<Vec<u32>>,
    /// How launches are executed.
    pub options: Options,
    /// Where messages go.
    pub messages: Messages,
    /// Whether the program continues after findings that a GPU does not detect, such as races.
    pub continues: bool,
    /// Whether memory that the program never frees is reported.
    pub leaks: bool,
    /// Whether copies of never-written memory to the host are reported.
    pub uninitialised_copies: bool,
    /// A file to which every problem is appended, one JSON object per line.
    pub journal: Option<PathBuf>,
    /// Returns the program's source line that this thread is executing, if it can be found, skipping the function of
    /// the given name (nvcc makes a stub of the same name for each kernel). Messages about allocations, launches and
    /// copies include it.
    pub caller: Option<fn(&str) -> Option<String>>,
    /// Allocates host memory whose addresses are never reused, aligned to 8 bytes. Without it there is no managed
    /// memory.
    pub host_memory: Option<AllocateHost>,
    /// The CUDA version of the driver: 13000 for 13.0.
    pub driver_version: u32,
    /// Driver functions made to fail, with the code that each returns.
    pub failures: Vec<(String, Code)>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            gpus: 1,
            architecture: Architecture::find(90).expect("a row of the table"),
            multiprocessors: 4,
            memory_bytes: 16 << 30,
            visible: None,
            options: Options::default(),
            messages: Messages::default(),
            continues: false,
            leaks: false,
            uninitialised_copies: false,
            journal: None,
            caller: None,
            host_memory: None,
            driver_version: NEWEST_DRIVER,
            failures: Vec::new(),
        }
    }
}

impl Config {
    /// The machine that the environment describes: `PTX_SIM_GPUS`, `PTX_SIM_ARCH`, `PTX_SIM_MULTIPROCESSORS`,
    /// `PTX_SIM_MEMORY` (bytes, or with K, M or G), `PTX_SIM_RACES` and `PTX_SIM_STRICT` (0 or 1), `PTX_SIM_SCHEDULE`, `PTX_SIM_THREADS`, `PTX_SIM_REPORT` (a file),
    /// `PTX_SIM_QUIET`, `PTX_SIM_CONTINUE`, `PTX_SIM_LEAKS`, `PTX_SIM_UNINITIALISED_COPIES` (0 or 1), `PTX_SIM_JOURNAL` (a file),
    /// `PTX_SIM_INSTRUCTION_LIMIT`, `PTX_SIM_DRIVER` (a CUDA version), `PTX_SIM_FAIL` (functions and what they return),
    /// `CUDA_VISIBLE_DEVICES`.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] with the variable, its value and the accepted values.
    pub fn from_environment() -> Result<Self> {
        Self::from_variables(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// As [`Config::from_environment`], with variables looked up by `value`.
    ///
    /// # Errors
    /// As [`Config::from_environment`].
    pub fn from_variables(value: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut config = Self::default();
        let number = |name: &str, default: u64, least: u64, most: u64| match value(name) {
            None => Ok(default),
            Some(text) => parse_number(&text)
                .filter(|number| (least..=most).contains(number))
                .ok_or_else(|| wrong(name, &text, &format!("a number from {least} to {most}"))),
        };
        let switch = |name: &str, default: bool| match value(name).as_deref() {
            None => Ok(default),
            Some("0" | "") => Ok(false),
            Some("1") => Ok(true),
            Some(text) => Err(wrong(name, text, "0 or 1")),
        };
        config.gpus = number("PTX_SIM_GPUS", config.gpus.into(), 0, MOST_GPUS.into())? as u32;
        let architecture = match value("PTX_SIM_ARCH") {
            None => config.architecture.number,
            Some(text) => ptx_sim::parse_architecture(&text)
                .ok_or_else(|| wrong("PTX_SIM_ARCH", &text, "a number or a name, as in 90, 9.0 or sm_90"))?,
        };
        config.architecture = Architecture::find(architecture).map_err(|what| {
            wrong("PTX_SIM_ARCH", &architecture.to_string(), &format!("a known architecture; {what}"))
        })?;
        let multiprocessors = number("PTX_SIM_MULTIPROCESSORS", config.multiprocessors.into(), 1, 1024)?;
        config.multiprocessors = multiprocessors as u32;
        config.memory_bytes = number("PTX_SIM_MEMORY", config.memory_bytes, 1 << 20, MOST_MEMORY)?;
        config.options.threads = number("PTX_SIM_THREADS", config.options.threads as u64, 0, 1024)? as usize;
        config.options.schedule = number("PTX_SIM_SCHEDULE", config.options.schedule, 0, u64::MAX)?;
        config.options.races = switch("PTX_SIM_RACES", config.options.races)?;
        config.options.strict = switch("PTX_SIM_STRICT", config.options.strict)?;
        config.continues = switch("PTX_SIM_CONTINUE", config.continues)?;
        config.leaks = switch("PTX_SIM_LEAKS", config.leaks)?;
        config.uninitialised_copies = switch("PTX_SIM_UNINITIALISED_COPIES", config.uninitialised_copies)?;
        config.journal = value("PTX_SIM_JOURNAL").filter(|file| !file.is_empty()).map(PathBuf::from);
        config.options.instructions_per_warp =
            number("PTX_SIM_INSTRUCTION_LIMIT", config.options.instructions_per_warp, 1, u64::MAX)?;
        if let Some(file) = value("PTX_SIM_REPORT").filter(|file| !file.is_empty()) {
            config.messages = Messages::File(file.into());
        } else if switch("PTX_SIM_QUIET", false)? {
            config.messages = Messages::Quiet;
        }
        if let Some(text) = value("PTX_SIM_DRIVER") {
            let expected = format!("a CUDA version up to {}, as in 12.2", version_text(NEWEST_DRIVER));
            config.driver_version = parse_version(&text).ok_or_else(|| wrong("PTX_SIM_DRIVER", &text, &expected))?;
        }
        if let Some(text) = value("PTX_SIM_FAIL") {
            let expected =
                "functions with the codes that they return, as in cuMemAlloc_v2=CUDA_ERROR_OUT_OF_MEMORY,cuInit=999";
            config.failures = parse_failures(&text).ok_or_else(|| wrong("PTX_SIM_FAIL", &text, expected))?;
        }
        config.visible = value("CUDA_VISIBLE_DEVICES").map(|list| visible(&list, config.gpus));
        Ok(config)
    }
}

fn wrong(name: &str, value: &str, expected: &str) -> Error {
    Error::new(Code::INVALID_VALUE, format!("{name} is {value:?}; it has to be {expected}"))
}

/// A number with an optional suffix K, M or G (powers of 1024).
fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// `12.2` as 12020.
fn parse_version(text: &str) -> Option<u32> {
    let (major, minor) = text.trim().split_once('.')?;
    let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok().filter(|minor| *minor < 100)?);
    let version = major.checked_mul(1000)? + 10 * minor;
    (1000..=NEWEST_DRIVER).contains(&version).then_some(version)
}

/// As in `12.2` of 12020.
fn version_text(version: u32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The functions and codes of a list such as `cuInit=999,cuMemAlloc_v2=CUDA_ERROR_OUT_OF_MEMORY`.
fn parse_failures(list: &str) -> Option<Vec<(String, Code)>> {
    let failures = list.split(',').filter(|failure| !failure.trim().is_empty()).map(|failure| {
        let (function, code) = failure.split_once('=')?;
        let code = code.trim();
        let code = code.parse().ok().map(Code).or_else(|| Code::named(code))?;
        let function = function.trim();
        (function.starts_with("cu") && code != Code::SUCCESS).then(|| (function.to_owned(), code))
    });
    failures.collect()
}

/// The GPUs of a list such as `1,0`. The driver ends the list at the first entry that names no GPU, and shows none at all
/// when one is named twice.
fn visible(list: &str, gpus: u32) -> Vec<u32> {
    let indices = list.split(',').map_while(|index| index.trim().parse().ok().filter(|index| *index < gpus));
    let mut seen = Vec::new();
    for index in indices {
        if seen.contains(&index) {
            return Vec::new();
        }
        seen.push(index);
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(variables: &[(&str, &str)]) -> Result<Config> {
        let find =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Config::from_variables(find)
    }

    #[test]
    fn variables_describe_the_machine() {
        let described = config(&[
            ("PTX_SIM_GPUS", "2"),
            ("PTX_SIM_ARCH", "sm_80"),
            ("PTX_SIM_MEMORY", "64M"),
            ("PTX_SIM_RACES", "0"),
            ("PTX_SIM_SCHEDULE", "3"),
            ("PTX_SIM_STRICT", "1"),
            ("PTX_SIM_REPORT", "findings.txt"),
            ("PTX_SIM_DRIVER", "12.2"),
            ("PTX_SIM_FAIL", "cuInit=999, cuMemAlloc_v2=CUDA_ERROR_OUT_OF_MEMORY"),
        ])
        .unwrap();
        assert_eq!((described.gpus, described.architecture.number, described.memory_bytes), (2, 80, 64 << 20));
        assert!(!described.options.races && described.options.strict);
        assert_eq!(described.options.schedule, 3);
        assert_eq!(described.messages, Messages::File("findings.txt".into()));
        assert_eq!(described.driver_version, 12_020);
        let failures = [("cuInit".to_owned(), Code(999)), ("cuMemAlloc_v2".to_owned(), Code::OUT_OF_MEMORY)];
        assert_eq!(described.failures, failures);
    }

    #[test]
    fn a_value_that_means_nothing_is_an_error_that_names_it() {
        for (name, value, expected) in [
            ("PTX_SIM_GPUS", "two", "PTX_SIM_GPUS is \"two\"; it has to be a number from 0 to 64"),
            ("PTX_SIM_ARCH", "42", "PTX_SIM_ARCH is \"42\""),
            ("PTX_SIM_ARCH", "h100", "PTX_SIM_ARCH is \"h100\"; it has to be a number or a name"),
            ("PTX_SIM_MEMORY", "9X", "PTX_SIM_MEMORY is \"9X\""),
            (
                "PTX_SIM_DRIVER",
                "99.1",
                "PTX_SIM_DRIVER is \"99.1\"; it has to be a CUDA version up to 13.0, as in 12.2",
            ),
            ("PTX_SIM_FAIL", "cuInit", "PTX_SIM_FAIL is \"cuInit\"; it has to be functions with the codes"),
            ("PTX_SIM_FAIL", "cuInit=NO_CODE", "PTX_SIM_FAIL is \"cuInit=NO_CODE\""),
            ("PTX_SIM_FAIL", "cuInit=0", "PTX_SIM_FAIL is \"cuInit=0\""),
            ("PTX_SIM_RACES", "no", "PTX_SIM_RACES is \"no\"; it has to be 0 or 1"),
            ("PTX_SIM_THREADS", "-1", "PTX_SIM_THREADS is \"-1\""),
        ] {
            let error = config(&[(name, value)]).unwrap_err();
            assert_eq!(error.code, Code::INVALID_VALUE);
            let message = error.message.unwrap();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn visible_devices_are_those_before_the_first_that_is_none() {
        for (list, expected) in
            [("", vec![]), ("1,0", vec![1, 0]), ("0,7,1", vec![0]), ("-1", vec![]), ("1,1", vec![]), ("GPU-1", vec![])]
        {
            let visible = config(&[("PTX_SIM_GPUS", "2"), ("CUDA_VISIBLE_DEVICES", list)]).unwrap().visible;
            assert_eq!(visible, Some(expected), "{list}");
        }
    }
}
