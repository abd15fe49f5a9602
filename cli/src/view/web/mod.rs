//! The view in a browser: one page, the picture as JSON, and explanations, on the loopback address.

mod server;

use super::Viewed;
use super::source::Source;
use crate::error::CliError;
use crate::local::listen::Port;
use crate::output;
use crate::shutdown::Shutdown;
use nodeless_model::printable::printable;
use nodeless_view::{Cluster, Picture};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// How often the picture is made again if anything changed.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time alone changes a picture, as when a drain becomes stuck, so it is made again at least this often.
const LONGEST: Duration = Duration::from_secs(30);
/// A picture is made at most so often that this share of the time is spent on it.
const SHARE: u32 = 10;

/// The picture that browsers get.
#[derive(Debug)]
struct Shown {
    /// Increases with each change.
    revision: u64,
    /// The JSON of [`Document`].
    json: String,
}

/// The JSON of the picture for browsers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'d> {
    revision: u64,
    title: &'d str,
    /// The sources of the prices.
    prices: &'d str,
    /// Why the picture is out of date, or null.
    trouble: Option<String>,
    #[serde(flatten)]
    picture: &'d Picture,
}

/// Serves the view until Ctrl-C.
pub(super) async fn run(viewed: Viewed, source: Source, cluster: Cluster, port: Port) -> Result<(), CliError> {
    let mut end = Shutdown::new()?;
    let url = port.url();
    output::line(format_args!("{} is at {url}/ for browsers on this machine. Press Ctrl-C to end it.", viewed.title))?;
    tokio::select! {
        () = end.wait() => Ok(()),
        failed = serve(viewed, source, cluster, port) => failed,
    }
}

/// Serves the view until the process ends.
pub(super) async fn serve(
    viewed: Viewed,
    mut source: Source,
    mut cluster: Cluster,
    port: Port,
) -> Result<(), CliError> {
    let viewed = Arc::new(viewed);
    let mut picture = viewed.picture(&cluster);
    let mut trouble = None;
    let (sender, receiver) = watch::channel(Arc::new(viewed.shown(1, &picture, None)?));
    port.serve(server::router(server::State { viewed: viewed.clone(), shown: receiver }));
    let (mut dirty, mut pause, mut made) = (false, INTERVAL, Instant::now());
    let mut tick = interval(INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = source.changed(&mut cluster) => dirty = true,
            _ = tick.tick() => {
                let changed = dirty || trouble != source.trouble() || made.elapsed() >= LONGEST;
                if !changed || made.elapsed() < pause {
                    continue;
                }
                let started = Instant::now();
                let mut next = viewed.picture(&cluster);
                let at = std::mem::replace(&mut next.at, picture.at);
                // Whether anything but the time is different.
                let differs = next != picture;
                next.at = at;
                if differs || trouble != source.trouble() {
                    trouble = source.trouble();
                    let revision = sender.borrow().revision + 1;
                    sender.send_replace(Arc::new(viewed.shown(revision, &next, trouble.clone())?));
                }
                (picture, dirty, made) = (next, false, Instant::now());
                pause = INTERVAL.max(started.elapsed() * SHARE);
            }
        }
    }
}

impl Viewed {
    fn shown(&self, revision: u64, picture: &Picture, trouble: Option<String>) -> Result<Shown, CliError> {
        let document =
            Document { revision, title: &self.title, prices: &self.prices.shown().described, trouble, picture };
        let json = serde_json::to_string(&document).map_err(CliError::Json)?;
        // The page shows the texts as they are.
        let json = printable(&json).into_owned();
        Ok(Shown { revision, json })
    }
}
