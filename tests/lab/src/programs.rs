//! Programs of the machine that are run to their end.

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

use crate::error::{Error, Result};

/// What the program printed, or what it complained of.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    run_reading(command, Stdio::null())
}

/// The same with a file on its standard input.
pub(crate) fn run_reading(command: &mut Command, input: Stdio) -> Result<String> {
    let output = command.stdin(input).output().map_err(|source| cannot_start(command, source))?;
    said(command, &output)
}

/// The same with some text on its standard input.
pub(crate) fn run_with(command: &mut Command, input: &str) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| cannot_start(command, source))?;
    let output = feed(&mut child, input).and_then(|()| child.wait_with_output());
    said(command, &output.map_err(|source| cannot_start(command, source))?)
}

fn feed(child: &mut Child, input: &str) -> std::io::Result<()> {
    let Some(mut stdin) = child.stdin.take() else { return Ok(()) };
    match stdin.write_all(input.as_bytes()) {
        // It ended without reading all: what it says then is the better message.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn said(command: &Command, output: &Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Program { line: line_of(command), status: output.status.to_string(), said })
}

fn cannot_start(command: &Command, source: std::io::Error) -> Error {
    Error::Start { name: command.get_program().to_string_lossy().into_owned(), source }
}

fn line_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_quoted_with_its_line() {
        let error = run_with(Command::new("sh").args(["-c", "cat >&2; exit 3"]), "no such bridge").unwrap_err();

        assert_eq!(error.to_string(), "sh -c cat >&2; exit 3: no such bridge (exit status: 3)");
    }

    #[test]
    fn what_a_program_prints_comes_back() {
        assert_eq!(run_with(&mut Command::new("cat"), "a bridge").unwrap(), "a bridge");
        assert_eq!(run(Command::new("echo").arg("a link")).unwrap(), "a link\n");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&mut Command::new("/nowhere/ip")).unwrap_err().to_string();

        assert!(error.starts_with("cannot start /nowhere/ip: "), "{error}");
    }
}
