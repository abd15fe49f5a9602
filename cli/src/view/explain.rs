//! Explains what a plan made now would do with a node, NodeClaim or pod, as `nodeless plan --disruption --explain` does.

use super::Viewed;
use crate::plan;
use jiff::Timestamp;
use nodeless_view::Target;

/// The lines of the explanation, or why there is none.
pub(super) async fn explain(viewed: &Viewed, target: &Target) -> Vec<String> {
    let reader = match plan::input::live::read(&viewed.connection).await {
        Ok(reader) => reader,
        Err(error) => return vec![format!("The cluster cannot be read for a plan: {error}")],
    };
    let snapshot = reader.finish();
    let at = Timestamp::now().max(snapshot.latest);
    let catalog = match viewed.prices.planned(&snapshot.view) {
        Ok(catalog) => catalog,
        Err(error) => return vec![error.to_string()],
    };
    let name = target.name().to_owned();
    let explained = tokio::task::spawn_blocking(move || plan::one::explain(snapshot, &catalog, &name, at));
    match explained.await {
        Ok(Ok(lines)) => lines,
        Ok(Err(error)) => vec![error.to_string()],
        Err(error) => vec![format!("The plan failed: {error}; this is a bug in nodeless; please report it")],
    }
}
