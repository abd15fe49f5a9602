//! `nodeless view`: reads a cluster, and shows it.

mod draw;
mod explain;
mod live;
pub(crate) mod prices;
pub(crate) mod source;
mod terminal;
mod web;

use crate::commitments::CommitmentArguments;
use crate::error::CliError;
use crate::local::listen::Port;
use crate::output::{self, Reader};
use crate::plan::input::catalog::{CatalogArguments, LoadedCatalog};
use jiff::Timestamp;
use nodeless_catalog::Catalog;
use nodeless_commitments::Commitments;
use nodeless_kubernetes::Connection;
use nodeless_model::printable::printable_line;
use nodeless_view::{Cluster, Line, Picture, Screen, Viewing, plain, table};
use prices::Prices;
use source::Source;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

/// The width of the table if standard output is no terminal.
const WIDTH: usize = 160;
/// How often changes are printed with `--plain`.
const PLAIN_INTERVAL: Duration = Duration::from_secs(2);

/// What to show, and in which form.
pub(crate) struct ViewRequest<'a> {
    /// The kubeconfig file, if it is not the default.
    pub(crate) kubeconfig: Option<&'a Path>,
    /// The context of the kubeconfig, if it is not the current one.
    pub(crate) context: Option<&'a str>,
    /// The catalog with the prices.
    pub(crate) catalog: &'a CatalogArguments,
    /// What the user chose to see.
    pub(crate) viewing: Viewing,
    /// The files of commitments.
    pub(crate) commitments: &'a CommitmentArguments,
    /// The form.
    pub(crate) form: Form,
}

/// A form of the view.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// In the terminal, until the user quits.
    Live,
    /// Printed once.
    Once(Printed),
    /// Printed as sentences, followed by the changes, until Ctrl-C.
    Sentences,
    /// To browsers at this port, until the process ends.
    Web(u16),
}

/// How a picture is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Printed {
    Table,
    Sentences,
    Json,
}

/// What every form of the view uses.
pub(crate) struct Viewed {
    connection: Connection,
    prices: Prices,
    /// The commitments that are in effect when the view starts, if exports of them are given.
    commitments: Option<Commitments>,
    title: String,
    viewing: Viewing,
}

/// Shows a cluster. What a form needs of this machine is checked before the cluster is read.
pub(crate) async fn run(request: &ViewRequest<'_>) -> Result<(), CliError> {
    match request.form {
        Form::Live => {
            let (columns, rows) = draw::SMALLEST;
            terminal::check(columns, rows)?;
            let (viewed, source, cluster) = read(request).await?;
            live::run(viewed, source, cluster).await
        }
        Form::Once(printed) => {
            let (viewed, _, cluster) = read(request).await?;
            print(&viewed.picture(&cluster), printed, &viewed.title)
        }
        Form::Sentences => {
            let (viewed, mut source, mut cluster) = read(request).await?;
            sentences(&viewed, &mut source, &mut cluster).await
        }
        Form::Web(port) => {
            let port = Port::bind("--port", port).await?;
            let (viewed, source, cluster) = read(request).await?;
            web::run(viewed, source, cluster, port).await
        }
    }
}

/// The cluster, read for the first time.
async fn read(request: &ViewRequest<'_>) -> Result<(Viewed, Source, Cluster), CliError> {
    let exported = request.commitments.read()?;
    let mut viewed = Viewed {
        connection: Connection::with_kubeconfig(request.kubeconfig, request.context).await?,
        prices: Prices::load(request.catalog)?,
        commitments: None,
        title: title(request.context),
        viewing: request.viewing.clone(),
    };
    let mut cluster = Cluster::default();
    let mut source = Source::start(&viewed.connection);
    source.first(&mut cluster).await?;
    viewed.prices.follow(&cluster);
    let region = &viewed.prices.shown().catalog.region;
    let now = cluster.now(Timestamp::now());
    viewed.commitments = exported.map(|exported| exported.in_effect(region, now)).transpose()?;
    Ok((viewed, source, cluster))
}

/// Serves the view of a local cluster, whose simulated EC2 has this catalog, to browsers until the process ends.
pub(crate) async fn serve_local(
    kubeconfig: &Path,
    cluster_name: &str,
    catalog: &Catalog,
    port: Port,
) -> Result<(), CliError> {
    let viewed = Viewed {
        connection: Connection::with_kubeconfig(Some(kubeconfig), None).await?,
        prices: Prices::Fixed(Box::new(LoadedCatalog::simulated(catalog.clone()))),
        commitments: None,
        title: format!("nodeless view, local cluster {cluster_name}"),
        viewing: Viewing::default(),
    };
    let mut cluster = Cluster::default();
    let mut source = Source::start(&viewed.connection);
    source.first(&mut cluster).await?;
    web::serve(viewed, source, cluster, port).await
}

fn title(context: Option<&str>) -> String {
    match context {
        Some(context) => format!("nodeless view, context {context}"),
        None => "nodeless view".to_owned(),
    }
}

impl Viewed {
    /// The picture of a cluster now.
    fn picture(&self, cluster: &Cluster) -> Picture {
        self.prices.follow(cluster);
        let (prices, now) = (&self.prices.shown().catalog, cluster.now(Timestamp::now()));
        let picture = Picture::viewed(cluster, prices, now, &self.viewing);
        match &self.commitments {
            Some(commitments) => picture.with_commitments(cluster, commitments, prices),
            None => picture,
        }
    }
}

/// Prints a picture: JSON, sentences or the table.
fn print(picture: &Picture, printed: Printed, title: &str) -> Result<(), CliError> {
    match printed {
        Printed::Json => return output::json(picture).map(drop),
        Printed::Sentences => return lines(plain::sentences(picture)).map(drop),
        Printed::Table => {}
    }
    let width = terminal::width().filter(|_| std::io::stdout().is_terminal()).unwrap_or(WIDTH);
    let head = table::header(picture, title, width);
    let body = table::body(picture, &Screen::grouped_by(picture.group_by), width);
    lines(head.into_iter().chain(body).map(|line: Line| line.text().trim_end().to_owned())).map(drop)
}

/// Prints the whole picture as sentences, and then what changes, until Ctrl-C.
async fn sentences(viewed: &Viewed, source: &mut Source, cluster: &mut Cluster) -> Result<(), CliError> {
    let mut end = crate::shutdown::Shutdown::new()?;
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

/// Prints lines. Texts of the cluster do not begin a line.
fn lines(all: impl IntoIterator<Item = String>) -> Result<Reader, CliError> {
    let mut text = String::new();
    for line in all {
        text.push_str(&printable_line(&line));
        text.push('\n');
    }
    if text.is_empty() { Ok(Reader::Open) } else { output::print(text) }
}
