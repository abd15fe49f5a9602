//! The options of calls, and the configuration of a server.

use crate::server::selectors::LabelSelector;
use crate::server::status::Status;
use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;

/// The source of the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The configuration of an [`ApiServer`].
#[derive(Clone)]
pub struct Options {
    /// The clock.
    pub clock: Clock,
    /// Seed of uids and generated names.
    pub seed: u64,
    /// How many changes are kept for watches; older resourceVersions have expired (410).
    pub history: usize,
    /// The bearer token that HTTP requests must have; if unset, any or none.
    pub token: Option<String>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Options")
            .field("seed", &self.seed)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

impl Options {
    /// The default settings with a clock: seed 0, a history of 100,000 changes, no token.
    pub fn with_clock(clock: Clock) -> Self {
        Self { clock, seed: 0, history: 100_000, token: None }
    }
}

/// Options of a creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// The field manager; none when unset.
    pub field_manager: Option<String>,
    /// Dry run: returns the object without storing it.
    pub dry_run: bool,
}

/// Options of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateOptions {
    /// The field manager of the changed fields.
    pub field_manager: Option<String>,
    /// Dry run: returns the object without storing it.
    pub dry_run: bool,
}

/// Options of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// The field manager of the changed fields; required by apply.
    pub field_manager: Option<String>,
    /// Whether apply takes over fields of other managers.
    pub force: bool,
    /// Dry run: returns the object without storing it.
    pub dry_run: bool,
}

/// Options of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// The namespace; all namespaces when unset.
    pub namespace: Option<String>,
    /// Only objects with matching labels.
    pub labels: LabelSelector,
    /// Only objects with matching fields, in the syntax of `kubectl --field-selector`.
    pub fields: String,
}

impl ListOptions {
    /// All objects of one namespace.
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }

    /// All objects whose labels match, in the syntax of `kubectl -l`.
    ///
    /// # Errors
    /// A bad request, when the text is not a selector.
    pub fn labels(selector: &str) -> Result<Self, Status> {
        Ok(Self { labels: LabelSelector::parse(selector)?, ..Self::default() })
    }
}

/// The objects listed, ordered by namespace and name, and the revision they were listed at.
#[derive(Clone, Debug)]
pub struct List {
    /// The revision to watch from.
    pub revision: u64,
    /// The objects.
    pub items: Vec<Arc<Value>>,
}
