//! The catalog of the simulated account, for `nodeless catalog export` without the AWS SDK.

use super::running::CATALOG;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use nodeless_catalog::facts::Facts;
use nodeless_catalog::file;
use nodeless_ports::CatalogSource as _;
use nodeless_world::ports::MemoryCatalogSource;

/// The router with the instance types of these facts, at the current prices of the account.
pub(super) fn with_catalog(router: Router, facts: Facts, source: MemoryCatalogSource) -> Router {
    let answer = move || async move { written(&facts, &source).await };
    router.route(CATALOG, get(answer))
}

async fn written(facts: &Facts, source: &MemoryCatalogSource) -> Response {
    let failed = |error: String| (StatusCode::INTERNAL_SERVER_ERROR, error).into_response();
    let catalog = match source.catalog(None).await {
        Ok(catalog) => catalog,
        Err(error) => return failed(error.to_string()),
    };
    match file::write(facts, &catalog) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => failed(error.to_string()),
    }
}
