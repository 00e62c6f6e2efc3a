//! Everything that reaches the user's terminal: documents, tables, and errors as one sentence.

use std::io::{self, Write};

use serde::Serialize;

use crate::args::Format;

/// The command has printed its answer, and ends with this exit code.
#[derive(Debug)]
pub struct Ended(pub u8);

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit code {}", self.0)
    }
}

impl std::error::Error for Ended {}

/// Prints a value as JSON or YAML, one document.
pub fn print_document<T: Serialize>(format: Format, value: &T) -> anyhow::Result<()> {
    print(&document(format, value)?)
}

/// A value as JSON or YAML, one document.
pub fn document<T: Serialize>(format: Format, value: &T) -> anyhow::Result<String> {
    match format {
        Format::Json => Ok(serde_json::to_string_pretty(value)? + "\n"),
        Format::Yaml | Format::Table | Format::Markdown => yaml(value),
    }
}

/// As kubectl reads and writes it.
pub fn yaml<T: Serialize>(value: &T) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    Ok(serde_saphyr::to_string_with_options(value, options)?)
}

/// Prints text as it is. Unlike `print!`, it does not panic when the reader has gone.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Rows in columns that are as wide as their widest cell, two blanks apart.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// An error with its causes on one line. Readers of YAML add a drawing of the place, from the second line on; what comes
/// behind it, such as the remedy, is kept.
pub fn one_sentence(error: &anyhow::Error) -> String {
    let text = format!("{error:#}").replace(": error: ", ": ");
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().trim_end();
    let remedy = lines.last().and_then(|line| line.split_once("; ")).map(|(_, remedy)| remedy);
    match remedy {
        Some(remedy) => format!("{first}; {remedy}"),
        None => first.to_owned(),
    }
}

pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|io| io.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_without_blanks() {
        let rows = [vec!["NAME".to_owned(), "KIND".to_owned()], vec!["a-long-name".to_owned(), "x".to_owned()]];
        assert_eq!(table(&rows), "NAME         KIND\na-long-name  x\n");
    }

    #[test]
    fn an_error_with_a_drawing_becomes_one_line() {
        let drawn =
            "error: line 1 column 8: invalid u64\n --> <input>:1:8\n  |\n1 | nodes: many\n  |        ^ invalid u64";
        let error = anyhow::anyhow!("{drawn}").context("x is not valid");
        assert_eq!(one_sentence(&error), "x is not valid: line 1 column 8: invalid u64");

        let error = anyhow::anyhow!("cannot read x: {drawn}; check the path");
        assert_eq!(one_sentence(&error), "cannot read x: line 1 column 8: invalid u64; check the path");
    }

    #[test]
    fn only_a_closed_reader_counts_as_a_broken_pipe() {
        let closed = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("printing");
        assert!(is_broken_pipe(&closed));
        assert!(!is_broken_pipe(&anyhow::anyhow!("other")));
    }
}
