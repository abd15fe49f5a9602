//! The records of clusters, and reports about them.

use super::times::Times;
use super::{HOUR, OPEN, records};
use crate::error::CliError;
use crate::table::Item;
use jiff::Timestamp;
use nodeless_bill::HourRecord;
use nodeless_bill::report::{By, ClusterRecords, Query, Records, Report, report};
use nodeless_state::costs::HOURS_KEPT;
use std::collections::BTreeMap;

/// The name of a cluster whose items have no partition key, because a projection left it out.
const UNKNOWN: &str = "unknown";

/// The records of each cluster, with its name.
#[derive(Debug, Default)]
pub(crate) struct Clusters(Vec<(String, Records)>);

impl FromIterator<(String, Records)> for Clusters {
    fn from_iter<I: IntoIterator<Item = (String, Records)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

/// The records among items of claims tables. The partition key of a record is the name of its cluster. An item that is given twice,
/// as in the output of two queries, counts once.
///
/// # Errors
/// If a record cannot be decoded.
pub(crate) fn of_items(items: &[Item]) -> Result<Clusters, CliError> {
    let of_costs = items.iter().filter(|item| item.key == OPEN || item.key.starts_with(HOUR));
    let distinct: BTreeMap<(&str, &str), &Item> =
        of_costs.map(|item| ((item.partition().unwrap_or(UNKNOWN), item.key.as_str()), item)).collect();
    let mut clusters: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
    for ((cluster, _), item) in distinct {
        clusters.entry(cluster).or_default().push(item);
    }
    clusters.into_iter().map(|(name, items)| Ok((name.to_owned(), records(items)?))).collect()
}

impl Clusters {
    /// The time whose records a report needs: its own, and that of equal length before it.
    ///
    /// # Errors
    /// If a cluster has no records, or all are before the start.
    pub(crate) fn needed(&self, times: Times) -> Result<Times, CliError> {
        let (from, to, through) = self.resolve(times)?;
        let start = from.checked_sub(to.min(through).duration_since(from)).unwrap_or(Timestamp::MIN);
        Ok(Times { from: Some(nodeless_bill::hour_of(start)), to: Some(to), window: None })
    }

    /// The report about all clusters together.
    ///
    /// # Errors
    /// If a cluster has no records, no record is of the time, or costs are not recorded by a label.
    pub(crate) fn report(&self, times: Times, by: &[By]) -> Result<Report, CliError> {
        let made = report(&self.query(times, by)?, &self.sources()).ok_or_else(|| self.not_recorded())?;
        by.iter().try_for_each(|by| self.check_label(by))?;
        Ok(made)
    }

    /// A report about each cluster that has records of the time.
    ///
    /// # Errors
    /// If a cluster has no records, no record is of the time, or costs are not recorded by a label.
    pub(crate) fn reports(&self, times: Times, by: &[By]) -> Result<Vec<Report>, CliError> {
        let query = self.query(times, by)?;
        let made: Vec<Report> = self.sources().iter().filter_map(|source| report(&query, &[*source])).collect();
        if made.is_empty() {
            return Err(self.not_recorded());
        }
        by.iter().try_for_each(|by| self.check_label(by))?;
        Ok(made)
    }

    /// The records of hours that have ended.
    pub(super) fn hours(&self) -> impl Iterator<Item = &HourRecord> {
        self.0.iter().flat_map(|(_, records)| &records.hours)
    }

    /// The start and the end of a report, and the end of the records.
    pub(super) fn resolve(&self, times: Times) -> Result<(Timestamp, Timestamp, Timestamp), CliError> {
        if let Some((name, _)) = self.0.iter().find(|(_, records)| records.through().is_none()) {
            return Err(CliError::NoCosts { what: nothing(&format!(" of cluster {name}")) });
        }
        let through = self.0.iter().filter_map(|(_, records)| records.through()).max();
        let of = |through| times.resolve(through).map(|(from, to)| (from, to, through));
        through.and_then(of).ok_or_else(|| self.not_recorded())
    }

    fn query(&self, times: Times, by: &[By]) -> Result<Query, CliError> {
        let (from, to, _) = self.resolve(times)?;
        let mut distinct: Vec<By> = Vec::new();
        for by in by {
            if !distinct.contains(by) {
                distinct.push(by.clone());
            }
        }
        Ok(Query { from, to, by: distinct })
    }

    fn sources(&self) -> Vec<ClusterRecords<'_>> {
        self.0.iter().filter_map(|(cluster, records)| records.source(cluster, HOURS_KEPT)).collect()
    }

    /// The error of a report about a time without records.
    fn not_recorded(&self) -> CliError {
        let since = self.0.iter().filter_map(|(_, records)| records.since(HOURS_KEPT)).min();
        let through = self.0.iter().filter_map(|(_, records)| records.through()).max();
        let what = match since.zip(through) {
            Some((since, through)) => {
                format!("costs are recorded from {since:.0} to {through:.0}, for hours in which a NodePool has nodes")
            }
            None => nothing(""),
        };
        CliError::NoCosts { what }
    }

    /// Refuses a label that is not recorded.
    fn check_label(&self, by: &By) -> Result<(), CliError> {
        let By::Label(key) = by else { return Ok(()) };
        let mut known: Vec<&str> = self.0.iter().flat_map(|(_, records)| records.labels()).collect();
        known.sort_unstable();
        known.dedup();
        if known.contains(&key.as_str()) {
            return Ok(());
        }
        Err(CliError::UnknownLabel { key: key.clone(), known: known.join(", ") })
    }
}

/// Describes that there are no records.
fn nothing(of: &str) -> String {
    format!(
        "no costs{of} are recorded: check the names of the table and the cluster; the planner records them every five minutes"
    )
}
