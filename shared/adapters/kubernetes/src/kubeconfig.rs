//! Reads a kubeconfig, and reports what is wrong with it in words that name the file, the context and the command at fault.

use crate::error::chain;
use kube::client::AuthError;
use kube::config::{Kubeconfig, KubeconfigError as Cause};
use nodeless_model::shell::quoted;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Output;

/// The environment variable with the paths of kubeconfig files.
const VARIABLE: &str = "KUBECONFIG";

/// Why no connection could be made with a kubeconfig. Each message explains what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KubeconfigError {
    /// There is no file.
    #[error(
        "no kubeconfig at {}; make one with `aws eks update-kubeconfig --name CLUSTER`, or specify another with --kubeconfig or KUBECONFIG",
        paths(.0)
    )]
    Missing(Vec<PathBuf>),
    /// The home directory, in which kubectl keeps the kubeconfig, is unknown.
    #[error("the home directory is unknown; specify the kubeconfig with --kubeconfig")]
    NoHome,
    /// The file cannot be read or is not a kubeconfig.
    #[error("the kubeconfig {path} cannot be read: {why}; correct it, or specify another with --kubeconfig")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// No context is specified.
    #[error("the kubeconfig has no {}", current_context(.known))]
    NoCurrentContext {
        /// The contexts that it has.
        known: Vec<String>,
    },
    /// The context does not exist.
    #[error("the kubeconfig has no context {context:?}; {}", contexts(.known))]
    UnknownContext {
        /// The name.
        context: String,
        /// The contexts that it has.
        known: Vec<String>,
    },
    /// The context names a cluster that the kubeconfig does not have.
    #[error(
        "the kubeconfig has no cluster {0:?}, which the context names; correct it, or specify another with --context"
    )]
    UnknownCluster(String),
    /// The address or the certificates are wrong.
    #[error(
        "the kubeconfig's address or certificates cannot be used: {0}; make it again with `aws eks update-kubeconfig --name CLUSTER`"
    )]
    Unusable(String),
    /// The command that gets a token cannot be started.
    #[error(
        "{command}, which the kubeconfig runs to get a token, cannot be started: {why}; install it, or add its folder to PATH"
    )]
    PluginNotStarted {
        /// The command.
        command: String,
        /// Why.
        why: String,
    },
    /// The command that gets a token failed.
    #[error(
        "{command}, which the kubeconfig runs to get a token, failed with {status}{output}; run it by itself to see why, or log in again"
    )]
    PluginFailed {
        /// The command with its arguments.
        command: String,
        /// The exit status.
        status: String,
        /// The command's standard error, after a colon; empty if there is none.
        output: String,
    },
    /// The command that gets a token wrote something else.
    #[error("the kubeconfig's credentials cannot be used: {0}; check its user, or log in again")]
    Credentials(String),
}

fn paths(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(" or ")
}

/// What is missing, and what to do.
fn current_context(known: &[String]) -> String {
    match known {
        [] => "context; specify another with --kubeconfig or KUBECONFIG".to_owned(),
        _ => format!("current context; specify one with --context; {}", contexts(known)),
    }
}

fn contexts(known: &[String]) -> String {
    match known {
        [] => "it has none".to_owned(),
        [one] => format!("it has {one}"),
        many => format!("it has {}", many.join(", ")),
    }
}

/// Reads the kubeconfig at `path`, else the files in `KUBECONFIG`, else `~/.kube/config`.
///
/// # Errors
/// When no file exists, or one cannot be read.
pub(crate) fn read(path: Option<&Path>) -> Result<Kubeconfig, KubeconfigError> {
    let variable = std::env::var_os(VARIABLE).unwrap_or_default();
    let paths = match path {
        Some(path) => vec![path.to_owned()],
        None => candidates(&variable, std::env::home_dir()).ok_or(KubeconfigError::NoHome)?,
    };
    read_all(paths)
}

/// The files that kubectl would read.
fn candidates(variable: &OsStr, home: Option<PathBuf>) -> Option<Vec<PathBuf>> {
    let named: Vec<PathBuf> = std::env::split_paths(variable).filter(|path| !path.as_os_str().is_empty()).collect();
    if named.is_empty() { home.map(|home| vec![home.join(".kube").join("config")]) } else { Some(named) }
}

/// The files as one kubeconfig. As with kubectl, files that do not exist are left out if there is another one.
fn read_all(paths: Vec<PathBuf>) -> Result<Kubeconfig, KubeconfigError> {
    let mut merged: Option<Kubeconfig> = None;
    for path in &paths {
        let unreadable = |error: Cause| match error {
            Cause::ReadConfig(source, _) => KubeconfigError::Unreadable { path: path.clone(), why: source.to_string() },
            other => KubeconfigError::Unreadable { path: path.clone(), why: first_line(&chain(&other)) },
        };
        let read = match Kubeconfig::read_from(path) {
            Err(Cause::ReadConfig(source, _)) if source.kind() == ErrorKind::NotFound => continue,
            read => read.map_err(unreadable)?,
        };
        merged = Some(match merged {
            Some(merged) => merged.merge(read).map_err(unreadable)?,
            None => read,
        });
    }
    merged.ok_or(KubeconfigError::Missing(paths))
}

/// Lines of the file, which may be credentials, follow the error of its parser.
fn first_line(error: &str) -> String {
    error.lines().next().unwrap_or_default().to_owned()
}

/// The error of a kubeconfig whose context could not be loaded. `known` are its contexts.
pub(crate) fn not_loaded(cause: &Cause, known: Vec<String>) -> KubeconfigError {
    match cause {
        Cause::CurrentContextNotSet => KubeconfigError::NoCurrentContext { known },
        Cause::LoadContext(context) if context.is_empty() => KubeconfigError::NoCurrentContext { known },
        Cause::LoadContext(context) => KubeconfigError::UnknownContext { context: context.clone(), known },
        Cause::LoadClusterOfContext(cluster) => KubeconfigError::UnknownCluster(cluster.clone()),
        other => KubeconfigError::Unusable(chain(other)),
    }
}

/// The error of a client that could not be made. `command` is the one that the user of the context runs to get a token.
pub(crate) fn no_client(error: &kube::Error, command: Option<&str>) -> KubeconfigError {
    let named = |command: Option<&str>| command.unwrap_or("the command").to_owned();
    match error {
        kube::Error::Auth(AuthError::AuthExecStart(source)) => {
            KubeconfigError::PluginNotStarted { command: named(command), why: source.to_string() }
        }
        kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => failed(named(command), out),
        kube::Error::Auth(other) => KubeconfigError::Credentials(chain(other)),
        other => KubeconfigError::Unusable(chain(other)),
    }
}

fn failed(command: String, output: &Output) -> KubeconfigError {
    let text = String::from_utf8_lossy(&output.stderr);
    let words: Vec<&str> = text.split_whitespace().collect();
    let output_text = if words.is_empty() { String::new() } else { format!(": {}", words.join(" ")) };
    KubeconfigError::PluginFailed { command, status: output.status.to_string(), output: output_text }
}

/// The command that the user of a context runs to get a token, with its arguments.
pub(crate) fn token_command(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == context)?.context.as_ref()?;
    let user = kubeconfig.auth_infos.iter().find(|named| Some(&named.name) == context.user.as_ref())?;
    let exec = user.auth_info.as_ref()?.exec.as_ref()?;
    let words = exec.command.iter().chain(exec.args.iter().flatten());
    let words: Vec<_> = words.map(|word| quoted(word)).collect();
    Some(format!("`{}`", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    fn path(path: &str) -> PathBuf {
        PathBuf::from(path)
    }

    #[test]
    fn the_files_are_those_that_kubectl_reads() {
        let home = Some(path("/home/u"));
        assert_eq!(candidates(OsStr::new(""), home.clone()), Some(vec![path("/home/u/.kube/config")]));
        assert_eq!(candidates(OsStr::new("/a::/b"), home), Some(vec![path("/a"), path("/b")]));
        assert_eq!(candidates(OsStr::new(""), None), None);
    }

    #[test]
    fn missing_files_are_left_out_if_another_one_exists() {
        let folder = std::env::temp_dir().join(format!("nodeless-kubeconfig-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("config");
        std::fs::write(&file, "apiVersion: v1\nkind: Config\ncurrent-context: blue\n").unwrap();
        let read = read_all(vec![folder.join("none"), file.clone()]).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("blue"));
        let missing = read_all(vec![folder.join("none"), path("/no/other")]).unwrap_err().to_string();
        assert!(missing.contains("none or /no/other") && missing.contains("update-kubeconfig"), "{missing}");
        std::fs::write(&file, "clusters: [{").unwrap();
        let unreadable = read_all(vec![file]).unwrap_err().to_string();
        assert!(unreadable.contains("config cannot be read: "), "{unreadable}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_wrong_context_is_reported_with_those_that_exist() {
        let known = || vec!["blue".to_owned(), "green".to_owned()];
        let error = not_loaded(&Cause::LoadContext("red".into()), known()).to_string();
        assert_eq!(error, "the kubeconfig has no context \"red\"; it has blue, green");
        let error = not_loaded(&Cause::CurrentContextNotSet, known()).to_string();
        assert!(error.contains("--context") && error.ends_with("it has blue, green"), "{error}");
        assert!(not_loaded(&Cause::LoadContext("red".into()), Vec::new()).to_string().ends_with("it has none"));
    }

    #[test]
    fn a_token_command_is_reported_with_its_own_message() {
        let command = "`aws eks get-token --cluster-name blue`";
        let output = Output {
            status: ExitStatus::from_raw(255 << 8),
            stdout: Vec::new(),
            stderr: b"\nThe SSO session\nhas expired\n".to_vec(),
        };
        let run = kube::Error::Auth(AuthError::AuthExecRun { cmd: String::new(), out: Box::new(output) });
        let text = no_client(&run, Some(command)).to_string();
        assert!(text.starts_with(command) && text.contains("exit status: 255: The SSO session has expired;"), "{text}");
        let start = std::io::Error::new(ErrorKind::NotFound, "No such file or directory");
        let start = no_client(&kube::Error::Auth(AuthError::AuthExecStart(start)), Some(command)).to_string();
        assert!(start.contains("cannot be started: No such file") && start.contains("PATH"), "{start}");
    }

    #[test]
    fn the_token_command_is_that_of_the_context() {
        let kubeconfig = "current-context: a\ncontexts:\n- name: a\n  context: { cluster: c, user: u }\n- name: b\n  context: { cluster: c, user: v }\n\
                          users:\n- name: u\n  user: { exec: { command: aws, args: [eks, get-token, 'a b'] } }\n- name: v\n  user: { token: t }\n";
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
        assert_eq!(token_command(&kubeconfig, None).as_deref(), Some("`aws eks get-token 'a b'`"));
        assert_eq!(token_command(&kubeconfig, Some("b")), None);
    }
}
