//! The kubeconfig of a local simulated cluster: written when the cluster is ready, and removed at its end.

use crate::error::CliError;
use serde_json::Value;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default path of the file.
pub(crate) const KUBECONFIG: &str = "nodeless.kubeconfig";

/// The first line of each file that nodeless writes.
const MARK: &str = "# Written by nodeless for a local cluster, and removed when that cluster ends.";

/// The start of that line in files of all versions. A file without it was not written by nodeless.
pub(super) const MARK_START: &str = "# Written by nodeless for a local ";

/// The name of the extension of the cluster with the address of its AWS APIs, where its records are.
pub(super) const EXTENSION: &str = "nodeless.sh/local";

/// The timeout for a connection to the API server of another local cluster, and for its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// More bytes than the answer of an API server about its version has.
const LONGEST_ANSWER: u64 = 4_096;

/// A kubeconfig that was written.
#[derive(Debug)]
pub(crate) struct Kubeconfig {
    path: PathBuf,
    content: String,
}

impl Kubeconfig {
    /// Writes the file atomically, with the address of the AWS APIs of a cluster in which nodeless runs. An existing file is replaced
    /// only if it is left over from a local cluster that has ended.
    ///
    /// # Errors
    /// When the file was not written by nodeless, belongs to a cluster that still runs, or cannot be written.
    pub(crate) fn write(path: &Path, cluster: &str, url: &str, aws: Option<&str>) -> Result<Self, CliError> {
        let unwritable = |source| CliError::Write { path: path.to_owned(), source };
        let path = std::path::absolute(path).map_err(unwritable)?;
        may_replace(&path, url)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(unwritable)?;
        let content = content(cluster, url, aws);
        let mut partial = path.clone().into_os_string();
        partial.push(format!(".{}", std::process::id()));
        let partial = PathBuf::from(partial);
        let written = write_private(&partial, &content).and_then(|()| fs::rename(&partial, &path));
        if let Err(source) = written {
            let _unfinished = fs::remove_file(&partial);
            return Err(unwritable(source));
        }
        Ok(Self { path, content })
    }

    /// The absolute path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file, unless it was changed meanwhile. Returns whether it is gone.
    pub(crate) fn remove(&self) -> bool {
        match fs::read_to_string(&self.path) {
            Ok(now) => now == self.content && fs::remove_file(&self.path).is_ok(),
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }
}

/// The file is removed even if the command ends with an error.
impl Drop for Kubeconfig {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Only the owner can read the file, because some clients warn otherwise.
fn write_private(path: &Path, content: &str) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(content.as_bytes())
}

/// Whether the file may be replaced for the server at this URL. That server already listens, perhaps at the address of a cluster that ended
/// without removing its file.
fn may_replace(path: &Path, url: &str) -> Result<(), CliError> {
    let present = match fs::read_to_string(path) {
        Ok(present) => present,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::InvalidData => String::new(),
        Err(source) => return Err(CliError::Write { path: path.to_owned(), source }),
    };
    if !present.starts_with(MARK_START) {
        return Err(CliError::ForeignFile { path: path.to_owned() });
    }
    match server_of(&present).filter(|address| url != format!("http://{address}")) {
        Some(address) if is_cluster(address) => Err(CliError::FileInUse { path: path.to_owned(), address }),
        _ => Ok(()),
    }
}

/// Whether a cluster answers at an address. Another program may have the port of a cluster that ended. A server that accepts the connection
/// and does not answer counts as a cluster, because it may be busy.
fn is_cluster(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT) else { return false };
    let (request, mut answer) = (format!("GET /version HTTP/1.0\r\nhost: {address}\r\n\r\n"), Vec::new());
    let asked = stream
        .set_read_timeout(Some(ANSWER_TIMEOUT))
        .and_then(|()| stream.write_all(request.as_bytes()))
        .and_then(|()| stream.take(LONGEST_ANSWER).read_to_end(&mut answer));
    asked.is_err() || String::from_utf8_lossy(&answer).contains("gitVersion")
}

/// The address of the API server in a kubeconfig that nodeless wrote.
fn server_of(content: &str) -> Option<SocketAddr> {
    let kubeconfig: Value = serde_saphyr::from_str(content).ok()?;
    kubeconfig.pointer("/clusters/0/cluster/server")?.as_str()?.strip_prefix("http://")?.parse().ok()
}

/// The file contains a token, because clients without credentials may prompt for them; the API server accepts any token.
pub(super) fn content(cluster: &str, url: &str, aws: Option<&str>) -> String {
    let extensions = aws.map_or_else(String::new, |aws| {
        format!(
            "
      extensions:
        - name: {EXTENSION}
          extension:
            aws: {aws:?}"
        )
    });
    format!(
        "{MARK}
apiVersion: v1
kind: Config
clusters:
  - name: {cluster:?}
    cluster:
      server: {url:?}{extensions}
contexts:
  - name: {cluster:?}
    context:
      cluster: {cluster:?}
      user: {cluster:?}
users:
  - name: {cluster:?}
    user:
      token: any
current-context: {cluster:?}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A folder that is removed when this is dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("nodeless-kubeconfig-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// An address where nothing listens any more.
    fn no_process() -> String {
        format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
    }

    #[test]
    fn it_is_written_to_new_directories_and_removed_at_the_end() {
        let folder = Folder::new("new");
        let path = folder.0.join("a/b/kubeconfig");
        let kubeconfig = Kubeconfig::write(&path, "local", "http://127.0.0.1:8001", None).unwrap();
        let value: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(value["clusters"][0]["cluster"]["server"], "http://127.0.0.1:8001");
        assert_eq!(value["current-context"], value["contexts"][0]["name"]);
        assert_eq!(value["contexts"][0]["context"]["user"], value["users"][0]["name"]);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no unfinished file stays");
        assert!(kubeconfig.remove());
        assert!(!path.exists());
        assert!(kubeconfig.remove(), "another process removed it first");
    }

    #[test]
    fn a_file_of_an_ended_cluster_is_replaced() {
        let folder = Folder::new("ended");
        let path = folder.0.join("kubeconfig");
        let first = Kubeconfig::write(&path, "one", &no_process(), None).unwrap();
        let second = Kubeconfig::write(&path, "two", &no_process(), None).unwrap();
        assert!(!first.remove(), "the file belongs to the second cluster");
        assert!(second.remove());
    }

    #[test]
    fn a_file_of_an_ended_cluster_at_the_same_address_is_replaced() {
        let folder = Folder::new("same-address");
        let path = folder.0.join("kubeconfig");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        // A process that is killed does not remove its file.
        fs::write(&path, content("local", &url, None)).unwrap();
        let kubeconfig = Kubeconfig::write(&path, "local", &url, None).unwrap();
        assert!(kubeconfig.remove());
    }

    /// A program that answers one request.
    fn answers(body: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _request = stream.read(&mut [0; 1_024]).unwrap();
            write!(stream, "HTTP/1.0 200 OK\r\n\r\n{body}").unwrap();
        });
        url
    }

    #[test]
    fn a_file_of_an_ended_cluster_whose_port_another_program_has_is_replaced() {
        let folder = Folder::new("other-program");
        let path = folder.0.join("kubeconfig");
        fs::write(&path, content("local", &answers("hello"), None)).unwrap();
        assert!(Kubeconfig::write(&path, "local", &no_process(), None).is_ok());
        fs::write(&path, content("local", &answers(r#"{"gitVersion":"v1.36.0"}"#), None)).unwrap();
        assert!(Kubeconfig::write(&path, "local", &no_process(), None).is_err());
    }

    #[test]
    fn a_file_of_a_running_cluster_is_kept() {
        let folder = Folder::new("running");
        let path = folder.0.join("kubeconfig");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let _first = Kubeconfig::write(&path, "one", &url, None).unwrap();
        let error = Kubeconfig::write(&path, "two", &no_process(), None).unwrap_err().to_string();
        assert!(error.contains("--kubeconfig") && error.contains(&url["http://".len()..]), "{error}");
    }

    #[test]
    fn a_foreign_file_is_kept() {
        let folder = Folder::new("foreign");
        let path = folder.0.join("config");
        for foreign in [b"apiVersion: v1\nkind: Config\n".as_slice(), b"", b"\xff\xfe"] {
            fs::write(&path, foreign).unwrap();
            let error = Kubeconfig::write(&path, "local", &no_process(), None).unwrap_err().to_string();
            assert!(error.contains("--kubeconfig"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), foreign);
        }
    }

    #[test]
    fn an_error_names_a_path_that_cannot_be_written() {
        let folder = Folder::new("unwritable");
        let file = folder.0.join("file");
        fs::write(&file, "").unwrap();
        let error = Kubeconfig::write(&file.join("config"), "local", &no_process(), None).unwrap_err().to_string();
        assert!(error.contains("file/config cannot be written"), "{error}");
    }
}
