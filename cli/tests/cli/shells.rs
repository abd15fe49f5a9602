//! `nodeless completions` and `nodeless man`.

use crate::support::{Folder, nodeless, run};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

fn script(shell: &str) -> String {
    let printed = run(nodeless().args(["completions", shell]));
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    printed.stdout
}

/// The commands with their subcommands, such as `catalog show`, as the help lists them.
fn commands() -> Vec<String> {
    let mut all = Vec::new();
    let mut left = vec![String::new()];
    while let Some(parent) = left.pop() {
        let help = run(nodeless().args(parent.split_whitespace()).arg("--help")).stdout;
        let listed = help.split_once("Commands:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap());
        let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names = names.map(|line| line.split_whitespace().next().unwrap()).filter(|name| *name != "help");
        left.extend(names.map(|name| format!("{parent} {name}").trim().to_owned()));
        all.push(parent);
    }
    all.retain(|command| !command.is_empty());
    assert!(all.iter().any(|command| command == "catalog show"), "{all:?}");
    all
}

/// The command with the name of another executable.
fn named(folder: &Folder, name: &str) -> Command {
    let path = folder.path().join(name);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_nodeless"), &path).unwrap();
    Command::new(path)
}

/// What bash proposes for the last of these words.
fn completed(bash: &Path, words: &[&str]) -> Vec<String> {
    let program = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
        _nodeless nodeless \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let ended = run(Command::new("bash").args(["--norc", "-c", program, "bash"]).arg(bash).args(words));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    ended.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_options() {
    let folder = Folder::new();
    let path = folder.path().join("nodeless.bash");
    fs::write(&path, script("bash")).unwrap();
    assert_eq!(completed(&path, &["nodeless", "pl"]), ["plan"]);
    assert_eq!(completed(&path, &["nodeless", "catalog", "sh"]), ["show"]);
    assert_eq!(completed(&path, &["nodeless", "plan", "--disr"]), ["--disruption"]);
    assert_eq!(completed(&path, &["nodeless", "completions", ""])[2..], SHELLS);
    let registered =
        run(Command::new("bash").args(["--norc", "-c", "source \"$1\"; complete -p nodeless", "bash"]).arg(&path));
    assert!(registered.stdout.contains("-F _nodeless nodeless"), "{registered:?}");
}

#[test]
fn the_script_of_each_shell_has_all_commands() {
    for shell in SHELLS {
        let script = script(shell);
        for command in commands() {
            let last = command.rsplit(' ').next().unwrap();
            assert!(script.contains(last), "{shell}: {command}");
        }
        assert!(script.chars().all(|character| matches!(character, '\n' | '\t') || !character.is_control()), "{shell}");
    }
}

#[test]
fn a_script_is_the_same_whatever_the_name_of_the_executable_is() {
    let folder = Folder::new();
    let printed = run(named(&folder, "kubectl-nodeless").args(["completions", "bash"]));
    assert_eq!(printed.stdout, script("bash"));
}

#[test]
fn usage_lines_of_a_plugin_of_kubectl_begin_with_kubectl() {
    let folder = Folder::new();
    let mut plugin = named(&folder, "kubectl-nodeless");
    let help = run(plugin.args(["catalog", "show", "--help"]));
    assert!(help.stdout.contains("\nUsage: kubectl nodeless catalog show [OPTIONS]\n"), "{help:?}");
    let wrong = run(Command::new(plugin.get_program()).args(["plan", "--no-such-flag"]));
    assert!(wrong.code == Some(1) && wrong.stderr.contains("Usage: kubectl nodeless plan"), "{wrong:?}");
    let version = run(Command::new(plugin.get_program()).arg("--version"));
    assert_eq!(version.stdout, format!("nodeless {}\n", env!("CARGO_PKG_VERSION")));
    let own = run(nodeless().args(["catalog", "show", "--help"]));
    assert!(own.stdout.contains("\nUsage: nodeless catalog show [OPTIONS]\n"), "{own:?}");
}

#[test]
fn an_unknown_shell_is_refused() {
    let refused = run(nodeless().args(["completions", "tcsh"]));
    assert!(refused.code == Some(2) && refused.stderr.contains("bash, elvish, fish"), "{refused:?}");
}

/// The manual pages by the names of their files.
fn pages(folder: &Path) -> Vec<(String, String)> {
    let written = run(nodeless().args(["man", "--write"]).arg(folder));
    assert_eq!((written.code, written.stderr.as_str()), (Some(0), ""));
    let mut pages: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect();
    pages.sort();
    pages
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = Folder::new();
    let target = folder.path().join("a/man1");
    let found: BTreeSet<String> = pages(&target).into_iter().map(|(name, _)| name).collect();
    let mut expected: BTreeSet<String> =
        commands().iter().map(|command| format!("nodeless-{}.1", command.replace(' ', "-"))).collect();
    expected.insert("nodeless.1".to_owned());
    assert_eq!(found, expected);
}

#[test]
fn manual_pages_are_well_formed() {
    let folder = Folder::new();
    for (name, page) in pages(folder.path()) {
        assert!(page.is_ascii() && !page.contains('\t') && !page.contains('\r'), "{name}");
        let title =
            format!(".TH {} 1 \"\" \"nodeless {}\" nodeless", name.trim_end_matches(".1"), env!("CARGO_PKG_VERSION"));
        assert!(page.contains(&title), "{name}: {page}");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
            assert!(page.contains(&format!(".SH {section}\n")), "{name}: {section}");
        }
        for line in page.lines().filter(|line| line.starts_with('.')) {
            let request = line[1..].split(' ').next().unwrap();
            assert!(
                ["TH", "SH", "TP", "PP", "RS", "RE", "IP", "br", "nf", "fi", "ie", "el"].contains(&request),
                "{name}: {line}"
            );
        }
        assert_eq!(page.matches(".ie ").count(), 1, "{name}");
        assert!(page.matches("\n.nf\n").count() == page.matches("\n.fi\n").count(), "{name}");
    }
}

#[test]
fn man_shows_a_page_with_its_sections_and_examples() {
    if !nodeless_tests::has("man", &["--version"]) || !nodeless_tests::has("groff", &["--version"]) {
        return;
    }
    let folder = Folder::new();
    for (name, _) in pages(folder.path()) {
        let mut man = Command::new("man");
        man.args(["--warnings=all", "-l"]).arg(folder.path().join(&name));
        let shown = run(man.env("MANPAGER", "cat").env("MANWIDTH", "120").env("LC_ALL", "C.UTF-8"));
        assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{name}");
        if name == "nodeless-decisions.1" {
            let text = shown.stdout;
            assert!(text.contains("--output json \\\n"), "{text}");
            assert!(text.contains("nodeless decisions --cluster CLUSTER --about ip-10-0-0-4.ec2.internal\n"), "{text}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = run(nodeless().args(["man", "--write"]).arg(file.join("man1")));
    assert!(refused.code == Some(1) && refused.stderr.contains("file/man1 cannot be written"), "{refused:?}");
}
