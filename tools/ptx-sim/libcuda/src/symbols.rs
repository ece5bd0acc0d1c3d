//! The functions of the driver API, with the CUDA versions that introduced them.

use std::sync::LazyLock;

/// A symbol, the name under which programs look it up, and the CUDA version that introduced it.
pub struct Symbol {
    /// The exported name.
    pub symbol: &'static str,
    /// The name that programs ask for.
    pub base: &'static str,
    /// The CUDA version.
    pub version: i32,
}

/// Every symbol of known version, one per line: symbol, base name, version.
pub static SYMBOLS: LazyLock<Vec<Symbol>> = LazyLock::new(|| {
    let lines = include_str!("symbols.txt").lines().filter(|line| !line.starts_with('#'));
    let symbols = lines.filter_map(|line| {
        let mut words = line.split(' ');
        let (symbol, base) = (words.next()?, words.next()?);
        Some(Symbol { symbol, base, version: words.next()?.parse().ok()? })
    });
    symbols.collect()
});

/// The CUDA version that introduced a function, if known.
pub fn since(symbol: &str) -> Option<i32> {
    SYMBOLS.iter().find(|known| known.symbol == symbol).map(|known| known.version)
}
