//! Kinds of machines that packages are for.

/// A kind of Linux machine, named as `uname -m` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Machine {
    /// Intel's and AMD's
    #[value(name = "x86_64")]
    X86_64,
    /// ARM's: the hosts of GH200 and GB200
    #[value(name = "aarch64")]
    Aarch64,
}

impl Machine {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// Its name in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Its name in documents.
    #[cfg(test)]
    pub fn title(self) -> &'static str {
        match self {
            Self::X86_64 => "x86-64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Rust's target triple.
    pub fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }

    /// File name of its dynamic linker.
    pub fn dynamic_linker(self) -> &'static str {
        match self {
            Self::X86_64 => "ld-linux-x86-64.so.2",
            Self::Aarch64 => "ld-linux-aarch64.so.1",
        }
    }

    /// Debian's name of its architecture.
    pub fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Whether its programs run on this machine.
    pub fn is_this(self) -> bool {
        self.name() == std::env::consts::ARCH
    }
}
