//! Serves an API server with its controllers on a free port of the loopback interface, to compare its responses with those of a real one.
//!
//! Writes the port to standard output. Each line `compact` on standard input removes the history, and is answered with `compacted`; the
//! process ends with its standard input.

use jiff::Timestamp;
use nodeless_fake_kubernetes::controllers::Controllers;
use nodeless_fake_kubernetes::{ApiServer, Options};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The longest time between two steps of the controllers.
const INTERVAL: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let api = ApiServer::new(Options::with_clock(Arc::new(Timestamp::now)))?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?.port());
    let router = api.router();
    let (send, ended) = tokio::sync::oneshot::channel();
    let input = api.clone();
    // Not a task: the runtime would wait for its input.
    std::thread::spawn(move || send.send(commands(&input)));
    tokio::select! {
        served = async { axum::serve(listener, router).await } => Ok(served?),
        failed = step(api) => failed,
        ended = ended => ended?,
    }
}

async fn step(api: ApiServer) -> Result<(), Failure> {
    let (mut controllers, mut changes) = (Controllers::default(), api.subscribe());
    loop {
        changes.mark_unchanged();
        controllers.converge(&api, Timestamp::now())?;
        tokio::time::timeout(INTERVAL, changes.changed()).await.unwrap_or(Ok(()))?;
    }
}

fn commands(api: &ApiServer) -> Result<(), Failure> {
    for line in std::io::stdin().lines() {
        if line? == "compact" {
            api.compact();
            println!("compacted");
        }
    }
    Ok(())
}
