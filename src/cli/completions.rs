//! `serin completions` and `serin man`: made from the command line's own definition.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap_complete::Shell;

use super::{
    command,
    exit::Exit,
    output::{self, Trouble},
};

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin completions bash > /etc/bash_completion.d/serin
  serin completions zsh > \"${fpath[1]}/_serin\"
  serin completions fish > ~/.config/fish/completions/serin.fish")]
pub(super) struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Print the manual page, or write the pages of all verbs into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  serin man | man -l -
  serin man --to /usr/local/share/man/man1")]
pub(super) struct ManArgs {
    /// Writes serin.1 and one page for each verb into this folder, which must exist
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

pub(super) fn completions(args: &CompletionsArgs) -> Result<Exit, Trouble> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "serin", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

pub(super) fn man(args: &ManArgs) -> Result<Exit, Trouble> {
    let Some(folder) = &args.to else {
        output::print(&page(&command())?)?;
        return Ok(Exit::Done);
    };
    let mut all = command();
    all.build();
    save(folder, "serin.1", &page(&all)?)?;
    let verbs: Vec<&clap::Command> = all.get_subcommands().collect();
    for verb in &verbs {
        save(folder, &format!("serin-{}.1", verb.get_name()), &page(verb)?)?;
    }
    output::print(&format!("{} pages are in {}\n", verbs.len() + 1, folder.display()))?;
    Ok(Exit::Done)
}

fn page(command: &clap::Command) -> Result<String, Trouble> {
    let mut text = Vec::new();
    let made = clap_mangen::Man::new(command.clone()).render(&mut text);
    made.map_err(|error| Trouble::new(Exit::Failed, format!("the page cannot be made: {error}")))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn save(folder: &Path, name: &str, text: &str) -> Result<(), Trouble> {
    let file = folder.join(name);
    fs::write(&file, text)
        .map_err(|error| Trouble::new(Exit::Failed, format!("cannot write {}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(man(&ManArgs { to: Some(folder.path().to_owned()) }), Ok(Exit::Done));
        let page = fs::read_to_string(folder.path().join("serin-abort.1")).unwrap();
        assert!(page.contains("Gives all traffic to stable") && page.contains("\\-\\-reason"), "{page}");
        let verbs = command().get_subcommands().count();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), verbs + 1);
    }
}
