//! Checks commands in documents, in code blocks and in code spans.
//!
//! In a block, a command ends at a comment, a pipe, a redirection, or a description after two spaces. A command abbreviated with
//! `…` is not checked. Words in capitals, as in `--seq N`, stand for values. In text a command may omit required arguments, since
//! it may be just the command's name.

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::{Document, Problem};

/// A form in which documents write the start of a command, and its meaning.
#[derive(Clone, Copy, Debug)]
pub struct Form<'a> {
    /// The first words. Of the very first only the file name counts, so that `target/release/fa512` matches `fa512`.
    pub words: &'a [&'a str],
    /// Arguments of the program for which these words stand.
    pub arguments: &'a [&'a str],
}

/// Where a command occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Block,
    Text,
}

/// The commands of the forms in `documents` that `Program` does not accept.
pub fn check<Program: Parser>(documents: &[Document], forms: &[Form<'_>]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for document in documents {
        let lines = document.code_lines.iter().map(|line| (line, Place::Block));
        let spans = document.code_spans.iter().map(|span| (span, Place::Text));
        for (located, place) in lines.chain(spans) {
            for command in simple_commands(&located.text) {
                let rejection = forms.iter().find_map(|form| rejection::<Program>(form, &command, place));
                if let Some(why) = rejection {
                    let what = format!("`{}` is not accepted: {why}", command.join(" "));
                    problems.push(document.problem(located.line, what));
                }
            }
        }
    }
    problems
}

/// Why `Program` does not accept `command`, if it has this form.
fn rejection<Program: Parser>(form: &Form<'_>, command: &[String], place: Place) -> Option<String> {
    let rest = form.rest(command)?;
    let name = form.words.join(" ");
    let arguments = std::iter::once(name.as_str()).chain(form.arguments.iter().copied());
    let error = Program::try_parse_from(arguments.chain(rest.iter().map(String::as_str))).err()?;
    let excused = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            place == Place::Text
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => has_placeholder(&error),
        _ => false,
    };
    (!excused).then(|| first_paragraph(&error.to_string()))
}

/// Clap's error message in one line, without tips, usage and the hint about help.
fn first_paragraph(message: &str) -> String {
    let lines: Vec<&str> = message.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// Whether the invalid value is a placeholder, as in `--seq N`.
fn has_placeholder(error: &clap::Error) -> bool {
    let is_placeholder = |value: &str| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_uppercase());
    matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if is_placeholder(value))
}

impl Form<'_> {
    /// The words of `command` after the first words, if it has this form.
    fn rest<'c>(&self, command: &'c [String]) -> Option<&'c [String]> {
        let (start, rest) = command.split_at_checked(self.words.len())?;
        let file_name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
        let same = |(i, word): (usize, &String)| match i {
            0 => file_name(word) == self.words[0],
            _ => word == self.words[i],
        };
        start.iter().enumerate().all(same).then_some(rest)
    }
}

/// The commands in a shell line, split into words, without leading variables and trailing redirections.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let line = line.trim().trim_start_matches("$ ");
    let line = line.split_once("  ").map_or(line, |(command, _description)| command);
    let Some(words) = shlex::split(line) else { return Vec::new() };
    let separates = |word: &String| ["&&", "||", "|", ";", "&"].contains(&word.as_str());
    let commands = words.split(separates).map(|words| {
        let assigns = |word: &&String| word.split_once('=').is_some_and(|(name, _)| is_variable(name));
        let command = words.iter().skip_while(assigns).take_while(|word| !is_redirection(word));
        command.cloned().collect::<Vec<String>>()
    });
    commands.filter(|command| !command.iter().any(|word| word.contains('…'))).collect()
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

fn is_redirection(word: &str) -> bool {
    word.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['>', '<'])
}
