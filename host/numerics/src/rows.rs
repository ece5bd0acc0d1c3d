//! Rows of one width.

use std::ops::{Index, IndexMut, Range};
use std::slice::{ChunksExact, ChunksExactMut};

/// Rows of equal width, contiguous.
#[derive(Clone, Debug)]
pub struct Rows<T> {
    columns: usize,
    values: Vec<T>,
}

impl<T> Rows<T> {
    /// Splits `values` into rows.
    ///
    /// # Panics
    /// When `columns` is 0, or the last row is incomplete.
    pub fn new(columns: usize, values: Vec<T>) -> Self {
        assert!(values.len().is_multiple_of(columns), "{} values are no rows of {columns}", values.len());
        Self { columns, values }
    }

    /// `rows` rows, each value computed from its row and column, in order.
    pub fn filled(rows: usize, columns: usize, mut value: impl FnMut(usize, usize) -> T) -> Self {
        Self::new(columns, (0..rows * columns).map(|index| value(index / columns, index % columns)).collect())
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The rows.
    pub fn iter(&self) -> ChunksExact<'_, T> {
        self.values.chunks_exact(self.columns)
    }

    /// The rows `rows`.
    pub fn of(&self, rows: Range<usize>) -> ChunksExact<'_, T> {
        self.values[rows.start * self.columns..rows.end * self.columns].chunks_exact(self.columns)
    }

    /// The rows, mutable.
    pub fn iter_mut(&mut self) -> ChunksExactMut<'_, T> {
        self.values.chunks_exact_mut(self.columns)
    }

    /// All values, row by row.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// All values, mutable.
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// Applies `function` to every value.
    pub fn map<U>(&self, function: impl FnMut(&T) -> U) -> Rows<U> {
        Rows { columns: self.columns, values: self.values.iter().map(function).collect() }
    }
}

impl<T> Index<usize> for Rows<T> {
    type Output = [T];

    fn index(&self, row: usize) -> &[T] {
        &self.values[row * self.columns..][..self.columns]
    }
}

impl<T> IndexMut<usize> for Rows<T> {
    fn index_mut(&mut self, row: usize) -> &mut [T] {
        &mut self.values[row * self.columns..][..self.columns]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_as_wide_as_it_was_said() {
        let mut rows = Rows::filled(3, 2, |row, column| 10 * row + column);
        assert_eq!(rows.values(), [0, 1, 10, 11, 20, 21]);
        assert_eq!(rows[1], [10, 11]);
        rows[2][0] = 7;
        assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), [0, 10, 7]);
        assert_eq!(rows.of(1..3).flatten().collect::<Vec<_>>(), [&10, &11, &7, &21]);
        assert_eq!(rows.map(|value| value * 2)[2], [14, 42]);
    }

    #[test]
    #[should_panic(expected = "3 values are no rows of 2")]
    fn the_last_row_is_whole() {
        Rows::new(2, vec![1, 2, 3]);
    }
}
