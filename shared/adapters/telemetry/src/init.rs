//! The logs of libraries, which use `tracing`.

use std::future::Future;
use std::io::{IsTerminal as _, Write};
use tracing::Instrument as _;
use tracing_subscriber::EnvFilter;

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The filter in the environment is invalid.
    #[error("NODELESS_LOG is not a log filter: {0}; valid are for example warn and info,hyper=warn")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Logging is set up already.
    #[error("logging is set up already: {0}")]
    Again(#[from] tracing_subscriber::util::TryInitError),
}

/// Sets up the logs of libraries in text form without colours, for a writer that gets each line as a whole. The filter is that of
/// [`init`].
///
/// # Errors
/// When `NODELESS_LOG` is not a filter, or when logging is set up already.
pub fn init_for_people<W: Write + 'static>(writer: fn() -> W) -> Result<(), InitError> {
    use tracing_subscriber::util::SubscriberInitExt as _;
    let filter = filter()?;
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(writer).finish().try_init()?;
    Ok(())
}

/// The Kubernetes client logs every response from 500 on, and every interrupted connection, as an error; the caller gets the error
/// and logs its effect.
const QUIET: &str = "kube_client::client::builder=off";

fn filter() -> Result<EnvFilter, InitError> {
    let text = std::env::var("NODELESS_LOG").unwrap_or_else(|_| "warn".to_owned());
    Ok(filter_of(&text)?)
}

/// The filter with [`QUIET`], unless it names the Kubernetes client itself.
fn filter_of(text: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    // Without a directive, a filter shows errors; with another one it would show nothing else.
    let filter = EnvFilter::try_new(if text.trim().is_empty() { "error" } else { text })?;
    Ok(if text.contains("kube_client") { filter } else { filter.add_directive(QUIET.parse()?) })
}

/// Sets up the logs of libraries: as text on standard error if that is a terminal, otherwise as JSON on standard output.
/// The environment variable `NODELESS_LOG` filters them; without it, warnings are shown. Errors of the Kubernetes client, which
/// callers log, are shown if the filter names `kube_client`.
///
/// # Errors
/// When `NODELESS_LOG` is no filter, or when this was called before.
pub fn init() -> Result<(), InitError> {
    use tracing_subscriber::util::SubscriberInitExt as _;
    let filter = filter()?;
    if std::io::stderr().is_terminal() {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).finish().try_init()?;
    } else {
        tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).finish().try_init()?;
    }
    Ok(())
}

/// Does the work for a cluster: log lines of libraries that are written meanwhile contain the cluster under `span`.
pub fn within<F: Future>(cluster: &str, work: F) -> impl Future<Output = F::Output> + use<F> {
    work.instrument(tracing::error_span!("work", cluster))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(filter: &str, work: impl FnOnce()) -> String {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter_of(filter).unwrap())
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, work);
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    fn lines_of_libraries() {
        tracing::error!(target: "kube_client::client::builder", "failed with status 503");
        tracing::debug!(target: "kube_client::client::builder", "requesting");
        tracing::warn!(target: "kube_client::client::tls", "failed to reload CA bundle");
        tracing::info!(target: "hyper", "connected");
        tracing::debug!(target: "hyper", "parsed");
    }

    #[tokio::test]
    async fn lines_of_libraries_name_the_cluster() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_env_filter(filter_of("warn").unwrap())
            .with_writer(move || writer.clone())
            .finish();
        let _until_the_end = tracing::subscriber::set_default(subscriber);
        within("prod", async { tracing::warn!(target: "hyper", "closed") }).await;
        let line: serde_json::Value = serde_json::from_slice(&written.0.lock().unwrap()).unwrap();
        assert_eq!((&line["message"], &line["span"]["cluster"]), (&"closed".into(), &"prod".into()));
    }

    #[test]
    fn errors_of_the_kubernetes_client_are_not_logged_at_any_level() {
        let text = logged("warn", lines_of_libraries);
        assert!(text.contains("CA bundle") && !text.contains("status 503") && !text.contains("connected"), "{text}");
        let text = logged("info", lines_of_libraries);
        assert!(text.contains("CA bundle") && text.contains("connected") && !text.contains("status 503"), "{text}");
        let text = logged("warn,hyper=debug", lines_of_libraries);
        assert!(text.contains("CA bundle") && text.contains("parsed") && !text.contains("status 503"), "{text}");
        let text = logged("", || tracing::error!(target: "hyper", "an empty filter shows errors"));
        assert!(text.contains("an empty filter"), "{text}");
    }

    #[test]
    fn a_filter_that_names_the_kubernetes_client_shows_its_errors() {
        let text = logged("kube_client=debug", lines_of_libraries);
        assert!(text.contains("status 503") && text.contains("requesting") && !text.contains("connected"), "{text}");
        let text = logged("info,kube_client::client::builder=error", lines_of_libraries);
        assert!(text.contains("status 503") && text.contains("connected") && !text.contains("requesting"), "{text}");
    }
}
