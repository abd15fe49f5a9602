//! `nodeless view`: reads a cluster, and shows it.

mod draw;
mod explain;
mod live;
mod source;
mod terminal;
mod web;

use crate::commands::view::{Arguments, Format};
use crate::error::CliError;
use crate::local::listen::Port;
use crate::output::{self, Reader};
use crate::plan::catalog::{self, LoadedCatalog};
use jiff::Timestamp;
use nodeless_kubernetes::Connection;
use nodeless_view::{Cluster, Line, Picture, Screen, plain, table};
use source::Source;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

/// The width of the table if standard output is no terminal.
const WIDTH: usize = 160;
/// How often changes are printed with `--plain`.
const PLAIN_INTERVAL: Duration = Duration::from_secs(2);

/// What every form of the view uses.
pub(crate) struct Viewed {
    connection: Connection,
    catalog: LoadedCatalog,
    title: String,
}

/// Shows a cluster in the form that the arguments ask for.
pub(crate) async fn run(arguments: &Arguments) -> Result<(), CliError> {
    let once = arguments.once || arguments.output == Format::Json;
    let takes_terminal = !(once || arguments.plain || arguments.web);
    if takes_terminal {
        terminal::check(draw::SMALLEST)?;
    }
    let port = if arguments.web { Some(Port::bind("--port", arguments.port).await?) } else { None };
    let viewed = Viewed {
        connection: arguments.cluster.connect().await?,
        catalog: catalog::read(arguments.catalog.as_deref())?,
        title: title(arguments),
    };
    let mut cluster = Cluster::default();
    let mut source = Source::start(&viewed.connection);
    source.first(&mut cluster).await?;
    if once {
        return print(&viewed.picture(&cluster), arguments, &viewed.title);
    }
    if let Some(port) = port {
        return web::run(viewed, source, cluster, port).await;
    }
    if arguments.plain {
        return sentences(&viewed, &mut source, &mut cluster).await;
    }
    live::run(viewed, source, cluster).await
}

/// Serves the view of a local cluster to browsers until the process ends.
pub(crate) async fn serve_local(kubeconfig: &Path, cluster_name: &str, port: Port) -> Result<(), CliError> {
    let viewed = Viewed {
        connection: Connection::with_kubeconfig(Some(kubeconfig), None).await?,
        catalog: catalog::read(None)?,
        title: format!("nodeless view, local cluster {cluster_name}"),
    };
    let mut cluster = Cluster::default();
    let mut source = Source::start(&viewed.connection);
    source.first(&mut cluster).await?;
    web::serve(viewed, source, cluster, port).await
}

fn title(arguments: &Arguments) -> String {
    match arguments.cluster.context() {
        Some(context) => format!("nodeless view, context {context}"),
        None => "nodeless view".to_owned(),
    }
}

impl Viewed {
    /// The picture of a cluster now. The clock of `nodeless local --speed` is ahead of the system clock.
    fn picture(&self, cluster: &Cluster) -> Picture {
        let system = Timestamp::now();
        let now = cluster.latest().map_or(system, |latest| latest.max(system));
        Picture::of(cluster, &self.catalog.catalog, now)
    }
}

/// Prints a picture: JSON, sentences or the table.
fn print(picture: &Picture, arguments: &Arguments, title: &str) -> Result<(), CliError> {
    if arguments.output == Format::Json {
        let text = serde_json::to_string_pretty(picture).map_err(CliError::Json)?;
        return output::line(text).map(drop);
    }
    if arguments.plain {
        return lines(plain::sentences(picture)).map(drop);
    }
    let width = terminal::width().filter(|_| std::io::stdout().is_terminal()).unwrap_or(WIDTH);
    let head = table::header(picture, title, width).into_iter().chain([table::headings(width)]);
    let body = table::body(picture, &Screen::default(), width);
    lines(head.chain(body).map(|line: Line| line.text().trim_end().to_owned())).map(drop)
}

/// Prints the whole picture as sentences, and then what changes, until Ctrl-C.
async fn sentences(viewed: &Viewed, source: &mut Source, cluster: &mut Cluster) -> Result<(), CliError> {
    let mut end = crate::commands::local::Shutdown::new()?;
    let mut picture = viewed.picture(cluster);
    let mut reader = lines(plain::sentences(&picture))?;
    let mut trouble = None;
    let mut tick = tokio::time::interval(PLAIN_INTERVAL);
    while reader == Reader::Open {
        tokio::select! {
            () = end.wait() => return Ok(()),
            () = source.changed(cluster) => {}
            _ = tick.tick() => {
                let next = viewed.picture(cluster);
                reader = lines(plain::changes(&picture, &next))?;
                picture = next;
                if source.trouble() != trouble {
                    trouble = source.trouble();
                    reader = lines(trouble.clone())?;
                }
            }
        }
    }
    Ok(())
}

/// Prints lines. Control characters in texts of the cluster do not reach the terminal.
fn lines(all: impl IntoIterator<Item = String>) -> Result<Reader, CliError> {
    let mut text = String::new();
    for line in all {
        text.extend(line.chars().map(|c| if c.is_control() { ' ' } else { c }));
        text.push('\n');
    }
    if text.is_empty() { Ok(Reader::Open) } else { output::print(text) }
}
