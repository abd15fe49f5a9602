//! Commands whose replacements did not become ready, which make others wait: see [`nodeless_disruption::unready`].

use crate::action::{Action, Batch, Stage, Written};
use crate::execute::Execute;
use crate::pools::EvaluatedPool;
use jiff::Timestamp;
use nodeless_disruption::churn::Churn;
use nodeless_disruption::unready::UnreadyReplacements;
use nodeless_disruption::{NodeClassFacts, template_of};
use nodeless_operations::records;
use nodeless_state::{RecordKind, StoredRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Reads what was done within the last hour.
///
/// # Errors
/// If it cannot be read.
pub(super) async fn recent_churn(executor: &dyn Execute) -> Result<Vec<StoredRecord>, String> {
    let read = executor.carry_out(&Batch::each(Stage::Disruption, vec![Action::ReadChurn])).await;
    match read.into_iter().next() {
        Some(Written::Churn(stored)) => Ok(stored),
        other => Err(other.as_ref().and_then(Written::problem).unwrap_or("it was not read").to_owned()),
    }
}

/// What these NodePools launch, by name.
pub(super) fn templates(
    names: &BTreeSet<String>,
    evaluated: &[EvaluatedPool],
    classes: &BTreeMap<String, NodeClassFacts>,
) -> BTreeMap<String, String> {
    let pools = evaluated.iter().map(|one| &one.pool).filter(|pool| names.contains(&pool.name));
    pools.map(|pool| (pool.name.clone(), template_of(pool, classes.get(&pool.template.node_class)))).collect()
}

/// Records that replacements of a command from NodePools with these templates did not become ready. Returns the written records.
///
/// # Errors
/// If the records cannot be read or written. The command waits then.
pub(super) async fn note(
    command: &str,
    templates: BTreeMap<String, String>,
    now: Timestamp,
    executor: &dyn Execute,
) -> Result<Vec<StoredRecord>, String> {
    if templates.is_empty() {
        return Ok(Vec::new());
    }
    let stored = recent_churn(executor).await?;
    let mut after = Vec::new();
    for (pool, template) in templates {
        let before = stored.iter().find(|stored| stored.node_pool == pool);
        let churn = before.map(|before| records::decode::<Churn>(RecordKind::Churn, before)).transpose();
        // A plan that finds such a record reports it, and disrupts no node with pods of the NodePool.
        let Ok(churn) = churn else { continue };
        let mut churn = churn.unwrap_or_default();
        churn.unready = Some(UnreadyReplacements::after(churn.unready, command, template, now));
        let version = before.map_or(0, |before| before.version);
        let record = records::encode(&pool, version, &churn, churn.expires());
        after.push(record.map_err(|error| error.to_string())?);
    }
    let actions = after.iter().map(|record| Action::PutRecord(RecordKind::Churn, record.clone())).collect();
    let written = executor.carry_out(&Batch::in_turn(Stage::Disruption, actions)).await;
    for (record, answer) in after.iter_mut().zip(&written) {
        match answer {
            Written::Version(version) => record.version = *version,
            other => return Err(other.problem().unwrap_or("it was not written").to_owned()),
        }
    }
    Ok(after)
}
