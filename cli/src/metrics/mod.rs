//! `nodeless metrics`: Karpenter's metrics of a cluster, for Prometheus.

use crate::error::CliError;
use crate::local::listen::Port;
use crate::output::{self, report};
use crate::plan::input::catalog::CatalogArguments;
use crate::shutdown::Shutdown;
use crate::view::prices::Prices;
use crate::view::source::Source;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use jiff::Timestamp;
use nodeless_kubernetes::Connection;
use nodeless_view::metrics::{Exposition, Inputs, Measured};
use std::net::SocketAddr;
use std::path::Path;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::oneshot;

/// The media type of the text format: <https://prometheus.io/docs/instrumenting/content_negotiation/>.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The number of scrapes that wait for one to be answered.
const SCRAPES: usize = 16;

/// Whose metrics, and where.
pub(crate) struct MetricsRequest<'a> {
    /// The kubeconfig file, if it is not the default.
    pub(crate) kubeconfig: Option<&'a Path>,
    /// The context of the kubeconfig, if it is not the current one.
    pub(crate) context: Option<&'a str>,
    /// The catalog with the prices.
    pub(crate) catalog: &'a CatalogArguments,
    /// Whether the metrics of all its instance types are included.
    pub(crate) lists_catalog: bool,
    /// The address to serve the metrics at; `None` to print them once.
    pub(crate) address: Option<SocketAddr>,
}

/// The text of the metrics, or why there is none.
type Scraped = Result<String, String>;
/// A scrape that waits for its text.
type Scrape = oneshot::Sender<Scraped>;

/// Prints or serves the metrics. The port is bound before the cluster is read.
pub(crate) async fn run(request: &MetricsRequest<'_>) -> Result<(), CliError> {
    let port = match request.address {
        Some(address) => Some(Port::bind_at(address).await?),
        None => None,
    };
    let connection = Connection::with_kubeconfig(request.kubeconfig, request.context).await?;
    let prices = Prices::load(request.catalog)?;
    let mut metrics = Metrics {
        source: Source::start(&connection),
        measured: Measured::default(),
        prices,
        lists_catalog: request.lists_catalog,
        left_out: Vec::new(),
    };
    metrics.source.first(&mut metrics.measured).await?;
    match port {
        Some(port) => metrics.serve(port).await,
        None => {
            let text = metrics.exposition();
            output::print(text).map(drop)
        }
    }
}

/// The state of the cluster, and what was reported about it.
struct Metrics {
    source: Source<Measured>,
    measured: Measured,
    prices: Prices,
    lists_catalog: bool,
    /// What was reported to be left out.
    left_out: Vec<String>,
}

impl Metrics {
    async fn serve(mut self, port: Port) -> Result<(), CliError> {
        let mut end = Shutdown::new()?;
        let (scrapes, mut scraped) = channel::<Scrape>(SCRAPES);
        let url = port.url();
        port.serve(Router::new().route("/metrics", get(answer)).with_state(scrapes));
        output::line(format_args!("Karpenter's metrics are at {url}/metrics. Press Ctrl-C to end it."))?;
        loop {
            tokio::select! {
                () = end.wait() => return Ok(()),
                () = self.source.changed(&mut self.measured) => {}
                Some(scrape) = scraped.recv() => {
                    let answer = self.scrape();
                    // The client may have closed the connection.
                    let _gone = scrape.send(answer);
                }
            }
        }
    }

    /// The metrics now, unless a kind cannot be read at present: then its objects are out of date.
    fn scrape(&mut self) -> Scraped {
        match self.source.trouble() {
            Some(trouble) => Err(trouble),
            None => Ok(self.exposition()),
        }
    }

    fn exposition(&mut self) -> String {
        self.prices.follow(self.measured.cluster());
        let inputs = Inputs {
            catalog: &self.prices.shown().catalog,
            lists_catalog: self.lists_catalog,
            answered: self.source.answered(),
            clock: Timestamp::now(),
        };
        let Exposition { text, left_out } = self.measured.exposition(&inputs);
        if left_out != self.left_out {
            left_out.iter().for_each(|line| report!("warning: {line}"));
            self.left_out = left_out;
        }
        text
    }
}

async fn answer(State(scrapes): State<Sender<Scrape>>) -> Response {
    let (sender, receiver) = oneshot::channel();
    let ended = || Err("nodeless metrics is ending".to_owned());
    let scraped = match scrapes.send(sender).await {
        Ok(()) => receiver.await.unwrap_or_else(|_| ended()),
        Err(_) => ended(),
    };
    match scraped {
        Ok(text) => ([(CONTENT_TYPE, TEXT)], text).into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("there are no metrics: {why}\n")).into_response(),
    }
}
