//! The memory capacity that nodes reported.
//!
//! The memory capacity of a node is less than the memory of its instance type in EC2. The difference is estimated until the first
//! node of a type has joined with the same image; later nodes are planned with the capacity that it reported.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::Quantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How long a report is used, as in Karpenter.
pub const KEEP: SignedDuration = SignedDuration::from_hours(60 * 24);
/// A repeated report is written again only when it expires within this time, which is half of the above.
const RENEWED: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The maximum number of reports. Each takes about 60 bytes, and an item of DynamoDB has at most 400 kB.
const MAX_REPORTS: usize = 4_000;

/// The reports of nodes, by image and instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReportedMemory(BTreeMap<String, BTreeMap<String, Reported>>);

/// The minimum of all reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reported {
    memory: Quantity,
    /// When it expires.
    until: Timestamp,
}

impl ReportedMemory {
    /// Records the memory capacity that a node reported. The minimum is kept, so that planned pods fit on every such node.
    pub fn note(&mut self, image_id: &str, instance_type: &str, memory: Quantity, now: Timestamp) {
        let until = now.saturating_add(KEEP).unwrap_or(Timestamp::MAX);
        let of_image = self.0.entry(image_id.to_owned()).or_default();
        let known = of_image.entry(instance_type.to_owned()).or_insert(Reported { memory, until });
        let soon = now.saturating_add(RENEWED).unwrap_or(Timestamp::MAX);
        if known.until <= now || memory < known.memory || (memory == known.memory && known.until <= soon) {
            *known = Reported { memory, until };
        }
    }

    /// Removes expired reports, and if too many remain, those that expire first.
    pub fn tidy(&mut self, now: Timestamp) {
        self.0.values_mut().for_each(|types| types.retain(|_, reported| reported.until > now));
        let mut ends: Vec<Timestamp> = self.0.values().flatten().map(|(_, reported)| reported.until).collect();
        if ends.len() > MAX_REPORTS {
            ends.sort_unstable_by(|a, b| b.cmp(a));
            let last = ends[MAX_REPORTS];
            self.0.values_mut().for_each(|types| types.retain(|_, reported| reported.until > last));
        }
        self.0.retain(|_, types| !types.is_empty());
    }

    /// The minimum memory of nodes with any of these images, by instance type.
    pub fn of_images<'a>(
        &self,
        images: impl IntoIterator<Item = &'a str>,
        now: Timestamp,
    ) -> BTreeMap<String, Quantity> {
        let mut minimum: BTreeMap<String, Quantity> = BTreeMap::new();
        for (kind, reported) in images.into_iter().filter_map(|image| self.0.get(image)).flatten() {
            if reported.until > now {
                let known = minimum.entry(kind.clone()).or_insert(reported.memory);
                *known = reported.memory.min(*known);
            }
        }
        minimum
    }

    /// When the last report expires; `None` if there are none.
    #[must_use]
    pub fn ends(&self) -> Option<Timestamp> {
        self.0.values().flatten().map(|(_, reported)| reported.until).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: i64) -> Timestamp {
        Timestamp::from_second(day * 86_400).unwrap()
    }

    fn mib(amount: i64) -> Quantity {
        Quantity::from_mebibytes(amount)
    }

    fn known(memory: &ReportedMemory, images: &[&str], at: Timestamp) -> Option<Quantity> {
        memory.of_images(images.iter().copied(), at).get("m5.large").copied()
    }

    #[test]
    fn the_minimum_is_used_for_sixty_days_after_the_last_report() {
        let mut memory = ReportedMemory::default();
        memory.note("ami-1", "m5.large", mib(7_700), day(0));
        memory.note("ami-1", "m5.large", mib(7_800), day(1));
        assert_eq!(known(&memory, &["ami-1"], day(1)), Some(mib(7_700)));
        memory.note("ami-1", "m5.large", mib(7_600), day(2));
        assert_eq!(known(&memory, &["ami-1"], day(61)), Some(mib(7_600)));
        assert_eq!(known(&memory, &["ami-1"], day(62)), None);
        memory.note("ami-1", "m5.large", mib(7_900), day(62));
        assert_eq!(known(&memory, &["ami-1"], day(62)), Some(mib(7_900)), "expired reports are removed");
    }

    #[test]
    fn a_repeated_report_is_recorded_only_in_the_second_half_of_its_time() {
        let mut memory = ReportedMemory::default();
        memory.note("ami-1", "m5.large", mib(7_700), day(0));
        let first = memory.clone();
        memory.note("ami-1", "m5.large", mib(7_700), day(29));
        assert_eq!(memory, first);
        memory.note("ami-1", "m5.large", mib(7_700), day(30));
        assert_eq!(memory.ends(), Some(day(90)));
    }

    #[test]
    fn a_report_is_used_only_for_its_image() {
        let mut memory = ReportedMemory::default();
        memory.note("ami-1", "m5.large", mib(7_700), day(0));
        memory.note("ami-2", "m5.large", mib(7_500), day(0));
        assert_eq!(known(&memory, &["ami-1"], day(1)), Some(mib(7_700)));
        assert_eq!(known(&memory, &["ami-1", "ami-2"], day(1)), Some(mib(7_500)));
        assert_eq!(known(&memory, &["ami-3"], day(1)), None);
    }

    #[test]
    fn the_reports_fit_into_an_item_and_are_read_as_written() {
        let mut memory = ReportedMemory::default();
        for image in 0..40 {
            for kind in 0..150 {
                let image_id = format!("ami-0123456789abcde{image:02}");
                memory.note(&image_id, &format!("m5dn.metal-{kind}xl"), mib(7_700), day(image));
            }
        }
        memory.tidy(day(41));
        let written = serde_json::to_string(&memory).unwrap();
        assert!(written.len() < 400_000, "{}", written.len());
        assert_eq!(serde_json::from_str::<ReportedMemory>(&written).unwrap(), memory);
        let newest = memory.of_images(["ami-0123456789abcde39"], day(41));
        assert_eq!(newest.len(), 150, "the latest reports are kept");
        memory.tidy(day(200));
        assert_eq!(memory, ReportedMemory::default());
    }
}
