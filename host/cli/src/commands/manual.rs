//! `fa512 completions` and `fa512 man`: shell completions and manual pages.

use crate::error::{Error, Result};
use clap::Command;
use clap_complete::Shell;

use super::{Verdict, output};

/// Print a completion script for a shell.
#[derive(clap::Args)]
pub struct CompletionsOptions {
    /// The shell, as in bash: `fa512 completions bash > /etc/bash_completion.d/fa512`
    shell: Shell,
}

/// Print a manual page, as in `fa512 man run | man -l -`.
#[derive(clap::Args)]
pub struct ManOptions {
    /// Command to document [default: the program]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

/// Prints the completions of `program`.
pub fn completions(options: &CompletionsOptions, mut program: Command) -> Result<Verdict> {
    let mut text = Vec::new();
    let name = program.get_name().to_owned();
    clap_complete::generate(options.shell, &mut program, name, &mut text);
    print(&text)
}

/// Prints the manual page of a command of `program`.
pub fn man(options: &ManOptions, program: Command) -> Result<Verdict> {
    print(&page(&options.command, program)?)
}

fn page(names: &[String], mut program: Command) -> Result<Vec<u8>> {
    program.build();
    let mut command = &program;
    for name in names {
        command = command.find_subcommand(name).ok_or_else(|| {
            let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let place = command.get_bin_name().unwrap_or_else(|| command.get_name());
            match names.is_empty() {
                true => Error::Invalid(format!("{place} has no commands of its own")),
                false => Error::Invalid(format!("{place} has no command {name:?}; there are {}", names.join(", "))),
            }
        })?;
    }
    let title = command.get_bin_name().unwrap_or_else(|| command.get_name()).replace(' ', "-");
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command.clone()).title(title);
    page.render(&mut text).map_err(|error| Error::Invalid(format!("the page cannot be made: {error}")))?;
    Ok(text)
}

fn print(text: &[u8]) -> Result<Verdict> {
    output::print(&String::from_utf8_lossy(text))?;
    Ok(Verdict::Pass)
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::page;

    fn program() -> Command {
        let plan = Command::new("plan").about("Chooses").arg(Arg::new("out").long("out").help("Where to"));
        Command::new("fa512").subcommand(Command::new("tune").about("Searches").subcommand(plan))
    }

    fn text(names: &[&str]) -> Result<String, String> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let page = page(&names, program()).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(page).unwrap())
    }

    #[test]
    fn every_command_has_a_page() {
        assert!(text(&[]).unwrap().contains("tune"));
        let plan = text(&["tune", "plan"]).unwrap();
        assert!(plan.contains(".TH fa512-tune-plan") && plan.contains("Where to"), "{plan}");
    }

    #[test]
    fn a_command_that_is_none_is_named() {
        assert!(text(&["sing"]).unwrap_err().contains("fa512 has no command \"sing\"; there are tune"));
        assert!(text(&["tune", "plan", "x"]).unwrap_err().contains("fa512 tune plan has no commands of its own"));
    }
}
