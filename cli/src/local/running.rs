//! A local cluster that another process runs, found by its kubeconfig: its records and its catalog, without the AWS SDK.

use super::kubeconfig::{EXTENSION, KUBECONFIG, MARK_START};
use super::table::{QUERY, TARGET};
use crate::error::CliError;
use crate::origin::Origin;
use crate::table::{Item, items};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// More bytes than a kubeconfig of a local cluster has.
const LONGEST_KUBECONFIG: u64 = 64 * 1024;
/// More bytes than the records of a local cluster and its catalog have.
const LONGEST_ANSWER: u64 = 1024 * 1024 * 1024;
/// The timeout for a connection to a process on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The timeout for each part of its response. At a high speed the process is busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The name of a local cluster that gets no other.
const DEFAULT_NAME: &str = "local";
/// The path of the catalog below the address of the AWS APIs.
pub(super) const CATALOG: &str = "/nodeless/catalog";

/// A local cluster of a kubeconfig.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    kubeconfig: PathBuf,
    aws: SocketAddr,
}

impl Running {
    /// The local cluster with this name, in which nodeless runs, whose kubeconfig is one that kubectl reads here, or is in the current
    /// directory under its default name. It may have ended without removing the file.
    pub(crate) fn find(cluster: &str) -> Option<Self> {
        kubeconfigs().into_iter().find_map(|path| Self::new(&path, cluster))
    }

    /// The local cluster with this name, unless the table of a cluster in AWS is named. The name that `nodeless local` gives a cluster is
    /// not looked for in AWS.
    pub(crate) fn of_table(cluster: &str, table: Option<&str>) -> Result<Option<Self>, CliError> {
        if table.is_some() {
            return Ok(None);
        }
        match Self::find(cluster) {
            None if cluster == DEFAULT_NAME => Err(CliError::NoLocalCluster {
                name: cluster.to_owned(),
                otherwise: "name the table of a cluster in AWS with --table",
            }),
            found => Ok(found),
        }
    }

    /// `None` if the file does not exist or cannot be read, too: then it is not the kubeconfig of this cluster.
    fn new(path: &Path, cluster: &str) -> Option<Self> {
        let mut text = String::new();
        File::open(path).ok()?.take(LONGEST_KUBECONFIG).read_to_string(&mut text).ok()?;
        if !text.starts_with(MARK_START) {
            return None;
        }
        let kubeconfig: Value = serde_saphyr::from_str(&text).ok()?;
        let entry = &kubeconfig["clusters"][0];
        let extensions = entry["cluster"]["extensions"].as_array()?;
        let own = extensions.iter().find(|extension| extension["name"] == EXTENSION)?;
        let aws: SocketAddr = own["extension"]["aws"].as_str()?.strip_prefix("http://")?.parse().ok()?;
        // A file of somebody else must not send requests to another machine.
        (entry["name"] == cluster && aws.ip().is_loopback()).then(|| Self {
            name: cluster.to_owned(),
            kubeconfig: path.to_owned(),
            aws,
        })
    }

    /// The latest decisions, the latest first.
    pub(crate) fn decisions(&self, limit: u32) -> Result<Vec<Item>, CliError> {
        self.items(&json!({ "Limit": limit, "ScanIndexForward": false }), "decision#")
    }

    /// The cost records.
    pub(crate) fn costs(&self) -> Result<Vec<Item>, CliError> {
        let mut found = self.items(&json!({}), "cost#open")?;
        found.extend(self.items(&json!({}), "hour#")?);
        Ok(found)
    }

    /// The catalog of its region, as a catalog file.
    pub(crate) fn catalog(&self) -> Result<String, CliError> {
        self.ask(&format!("GET {CATALOG} HTTP/1.0\r\nhost: {}\r\n\r\n", self.aws))
    }

    /// The items of a query with these options whose keys begin with a prefix.
    fn items(&self, options: &Value, prefix: &str) -> Result<Vec<Item>, CliError> {
        let mut query = options.clone();
        query["TableName"] = json!(self.name);
        query["KeyConditionExpression"] = json!("pk = :cluster AND begins_with(sk, :prefix)");
        query["ExpressionAttributeValues"] = json!({ ":cluster": { "S": self.name }, ":prefix": { "S": prefix } });
        let body = query.to_string();
        let headers = format!("host: {}\r\n{TARGET}: {}\r\ncontent-length: {}", self.aws, QUERY, body.len());
        let text = self.ask(&format!("POST / HTTP/1.0\r\n{headers}\r\n\r\n{body}"))?;
        items(&text, &Origin::Local(self.name.clone())).map_err(|why| self.unusable(&why))
    }

    /// Sends a request, and returns the body of the response.
    fn ask(&self, request: &str) -> Result<String, CliError> {
        let response = exchanged(self.aws, request).map_err(|error| self.unusable(&error.to_string()))?;
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
        match head.split_whitespace().nth(1) {
            Some("200") => Ok(body.to_owned()),
            _ => Err(self.unusable("another program answers there")),
        }
    }

    /// The error for a response that is not the one of a local cluster.
    pub(crate) fn unusable(&self, why: &str) -> CliError {
        let (name, kubeconfig) = (self.name.clone(), self.kubeconfig.clone());
        CliError::LocalCluster { name, kubeconfig, address: self.aws, why: why.to_owned() }
    }
}

/// The kubeconfigs that may be those of a local cluster: those that kubectl reads, and the one in the current directory.
fn kubeconfigs() -> Vec<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty());
    let mut paths: Vec<PathBuf> = match named {
        Some(paths) => std::env::split_paths(&paths).collect(),
        None => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
    };
    paths.push(PathBuf::from(KUBECONFIG));
    paths
}

/// A response over HTTP/1.0, which ends with the connection.
fn exchanged(address: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.take(LONGEST_ANSWER).read_to_string(&mut response)?;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::kubeconfig::Kubeconfig;
    use std::net::TcpListener;

    /// The cluster of a kubeconfig whose AWS APIs are at this address.
    fn running(name: &str, aws: Option<&str>, cluster: &str) -> Option<Running> {
        let path = std::env::temp_dir().join(format!("nodeless-running-{}-{name}", std::process::id()));
        let _removed = Kubeconfig::write(&path, "local", "http://127.0.0.1:1", aws).unwrap();
        Running::new(&path, cluster)
    }

    #[test]
    fn a_cluster_is_found_by_its_name_and_address() {
        let address = Some("http://127.0.0.1:8001");
        assert_eq!(running("own", address, "local").unwrap().aws.to_string(), "127.0.0.1:8001");
        assert!(running("other", address, "prod").is_none());
        assert!(running("without", None, "local").is_none(), "nodeless does not run in it");
        assert!(Running::new(Path::new("/none"), "local").is_none());
    }

    #[test]
    fn other_kubeconfigs_are_those_of_no_local_cluster() {
        let path = std::env::temp_dir().join(format!("nodeless-running-{}-foreign", std::process::id()));
        let own = super::super::kubeconfig::content("local", "http://127.0.0.1:1", Some("http://127.0.0.1:2"));
        let unmarked = own.lines().skip(1).collect::<Vec<_>>().join("\n");
        for foreign in [
            unmarked.as_str(),
            "",
            "\u{0}",
            &own[..own.len() / 2],
            &own.replace(":2", ":x"),
            &own.replace("127.0.0.1:2", "10.0.0.1:2"),
            &own.replace("clusters", "c"),
        ] {
            std::fs::write(&path, foreign).unwrap();
            assert!(Running::new(&path, "local").is_none(), "{foreign}");
        }
        std::fs::write(&path, &own).unwrap();
        let found = Running::new(&path, "local");
        std::fs::remove_file(&path).unwrap();
        assert!(found.is_some());
    }

    #[test]
    fn a_cluster_that_ended_and_another_program_are_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let program = std::thread::spawn(move || {
            for response in ["hello", "HTTP/1.0 404 Not Found\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nhello"] {
                let (mut stream, _) = listener.accept().unwrap();
                let _request = stream.read(&mut [0; 1_024]).unwrap();
                write!(stream, "{response}").unwrap();
            }
        });
        let found = running("program", Some(&url), "local").unwrap();
        for why in ["another program answers there", "another program answers there", "it is not JSON"] {
            let error = found.decisions(1).err().unwrap().to_string();
            assert!(error.contains(why) && error.contains("nodeless-running"), "{error}");
        }
        program.join().unwrap();
        let error = found.catalog().unwrap_err().to_string();
        assert!(error.contains("start it again") && error.contains(&url["http://".len()..]), "{error}");
    }
}
