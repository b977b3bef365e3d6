//! Tables for people, and times as they read them.

use std::fmt;
use std::time::Duration;

/// A table with a head. Columns are as wide as their widest cell.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    columns: [Column; N],
    rows: Vec<[String; N]>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// For words.
    Left(&'static str),
    /// For figures.
    Right(&'static str),
}

impl Column {
    fn head(self) -> &'static str {
        match self {
            Column::Left(head) | Column::Right(head) => head,
        }
    }
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(columns: [Column; N]) -> Table<N> {
        Table { columns, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    fn width(&self, at: usize) -> usize {
        let head = self.columns[at].head().chars().count();
        self.rows.iter().map(|row| row[at].chars().count()).fold(head, usize::max)
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: [usize; N] = std::array::from_fn(|at| self.width(at));
        let head = self.columns.map(|column| column.head().to_owned());
        for row in std::iter::once(&head).chain(&self.rows) {
            let cells = row.iter().zip(&self.columns).zip(widths);
            let cells: Vec<String> = cells
                .map(|((cell, column), width)| match column {
                    Column::Left(_) => format!("{cell:<width$}"),
                    Column::Right(_) => format!("{cell:>width$}"),
                })
                .collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// A duration with as much of it as matters: `40ms`, `1.2s`, `4m 10s`, `3d 4h`.
pub(crate) fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    let two = |large: u64, of: &str, small: u64, unit: &str| match small {
        0 => format!("{large}{of}"),
        small => format!("{large}{of} {small}{unit}"),
    };
    match seconds {
        0 => format!("{}ms", time.as_millis()),
        1..10 => format!("{seconds}.{}s", time.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => two(seconds / 60, "m", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_figures_right() {
        let mut table =
            Table::new([Column::Left("NODE"), Column::Right("ROLES"), Column::Left("STATE")]);
        table.row(["a".into(), "12".into(), "live".into()]);
        table.row(["größer".into(), "123456".into(), "-".into()]);
        let expected = "\
NODE     ROLES  STATE
a           12  live
größer  123456  -
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn a_time_is_as_long_as_it_matters() {
        for (millis, shown) in [
            (0, "0ms"),
            (999, "999ms"),
            (1000, "1.0s"),
            (9_990, "9.9s"),
            (59_000, "59s"),
            (60_000, "1m"),
            (250_000, "4m 10s"),
            (3_600_000, "1h"),
            (7_260_000, "2h 1m"),
            (273_600_000, "3d 4h"),
        ] {
            assert_eq!(short(Duration::from_millis(millis)), shown);
        }
    }
}
