//! How much memory nodes really have, as they reported it.
//!
//! EC2 states the memory of a machine, and the system sees less of it. How much less is an estimate until the first node of a
//! type has joined with the same image; from then on new nodes are planned by what that one reported.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::Quantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// For how long a report counts, as in Karpenter.
pub const KEEP: SignedDuration = SignedDuration::from_hours(60 * 24);
/// A report that is repeated is only written again when it counts for no longer than this: half of the time.
const RENEWED: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How many reports are kept. Each takes about 60 bytes, and an item of DynamoDB holds 400 kB.
const MOST: usize = 4_000;

/// What nodes reported, by image and instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReportedMemory(BTreeMap<String, BTreeMap<String, Reported>>);

/// The least that any node reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reported {
    memory: Quantity,
    /// Until when it counts.
    until: Timestamp,
}

impl ReportedMemory {
    /// Notes the memory capacity that a node reported. The least counts, so that what is planned fits on every such node.
    pub fn note(&mut self, image_id: &str, instance_type: &str, memory: Quantity, now: Timestamp) {
        let until = now.saturating_add(KEEP).unwrap_or(Timestamp::MAX);
        let of_image = self.0.entry(image_id.to_owned()).or_default();
        let known = of_image.entry(instance_type.to_owned()).or_insert(Reported { memory, until });
        let soon = now.saturating_add(RENEWED).unwrap_or(Timestamp::MAX);
        if known.until <= now || memory < known.memory || (memory == known.memory && known.until <= soon) {
            *known = Reported { memory, until };
        }
    }

    /// Leaves out what counts no more, and where that is too much the reports that end soonest.
    pub fn tidy(&mut self, now: Timestamp) {
        self.0.values_mut().for_each(|types| types.retain(|_, reported| reported.until > now));
        let mut ends: Vec<Timestamp> = self.0.values().flatten().map(|(_, reported)| reported.until).collect();
        if ends.len() > MOST {
            ends.sort_unstable_by(|a, b| b.cmp(a));
            let last = ends[MOST];
            self.0.values_mut().for_each(|types| types.retain(|_, reported| reported.until > last));
        }
        self.0.retain(|_, types| !types.is_empty());
    }

    /// What nodes with any of these images have at the least, by instance type.
    pub fn of_images<'a>(
        &self,
        images: impl IntoIterator<Item = &'a str>,
        now: Timestamp,
    ) -> BTreeMap<String, Quantity> {
        let mut least: BTreeMap<String, Quantity> = BTreeMap::new();
        for (kind, reported) in images.into_iter().filter_map(|image| self.0.get(image)).flatten() {
            if reported.until > now {
                let known = least.entry(kind.clone()).or_insert(reported.memory);
                *known = reported.memory.min(*known);
            }
        }
        least
    }

    /// When all of it counts no more; `None` where there is nothing.
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
    fn the_least_counts_for_sixty_days_after_it_was_last_reported() {
        let mut memory = ReportedMemory::default();
        memory.note("ami-1", "m5.large", mib(7_700), day(0));
        memory.note("ami-1", "m5.large", mib(7_800), day(1));
        assert_eq!(known(&memory, &["ami-1"], day(1)), Some(mib(7_700)));
        memory.note("ami-1", "m5.large", mib(7_600), day(2));
        assert_eq!(known(&memory, &["ami-1"], day(61)), Some(mib(7_600)));
        assert_eq!(known(&memory, &["ami-1"], day(62)), None);
        memory.note("ami-1", "m5.large", mib(7_900), day(62));
        assert_eq!(known(&memory, &["ami-1"], day(62)), Some(mib(7_900)), "what counts no more is forgotten");
    }

    #[test]
    fn the_same_report_changes_nothing_until_half_of_its_time_is_over() {
        let mut memory = ReportedMemory::default();
        memory.note("ami-1", "m5.large", mib(7_700), day(0));
        let first = memory.clone();
        memory.note("ami-1", "m5.large", mib(7_700), day(29));
        assert_eq!(memory, first);
        memory.note("ami-1", "m5.large", mib(7_700), day(30));
        assert_eq!(memory.ends(), Some(day(90)));
    }

    #[test]
    fn reports_are_of_one_image() {
        let mut memory = ReportedMemory::default();
        memory.note("ami-1", "m5.large", mib(7_700), day(0));
        memory.note("ami-2", "m5.large", mib(7_500), day(0));
        assert_eq!(known(&memory, &["ami-1"], day(1)), Some(mib(7_700)));
        assert_eq!(known(&memory, &["ami-1", "ami-2"], day(1)), Some(mib(7_500)));
        assert_eq!(known(&memory, &["ami-3"], day(1)), None);
    }

    #[test]
    fn what_is_kept_fits_into_an_item_and_is_read_as_it_was_written() {
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
        assert_eq!(newest.len(), 150, "the latest stay");
        memory.tidy(day(200));
        assert_eq!(memory, ReportedMemory::default());
    }
}
