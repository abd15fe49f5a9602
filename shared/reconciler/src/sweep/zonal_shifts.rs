//! Reads the zonal shifts from ARC and stores them, for [`zonal_shift`](nodeless_operations::zonal_shift).

use super::{SweepReport, Sweeper};
use jiff::{SignedDuration, Timestamp};
use nodeless_api::EC2NodeClass;
use nodeless_model::events::{zonal_shift_active, zonal_shift_cleared};
use nodeless_model::object::ObjectEvent;
use nodeless_model::{NodePool, labels};
use nodeless_operations::{
    log_lines::{Failed, ZonalShiftsChanged, ZonalShiftsUnread},
    records,
    zonal_shift::{StoredZonalShifts, words},
};
use nodeless_ports::queue::WakeSource;
use nodeless_ports::{ErrorKind, PortError, ShiftedZone, ZonalShift};
use nodeless_state::RecordKind;
use std::collections::{BTreeMap, BTreeSet};

/// How long a shift without an expiry stays in effect after ARC last listed it, so that ARC may be unavailable for this time.
const ENDLESS: SignedDuration = SignedDuration::from_hours(1);
/// The record is written again if less than this time is left.
const RENEWED: SignedDuration = SignedDuration::from_mins(45);

/// The zones to shift away from according to ARC, and the ids of zones whose name is unknown.
fn next(
    stored: &StoredZonalShifts,
    applied: &[ZonalShift],
    names: &BTreeMap<String, String>,
    now: Timestamp,
) -> (Vec<ShiftedZone>, BTreeSet<String>) {
    let mut zones: BTreeMap<&str, ShiftedZone> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for ZonalShift { zone_id, until } in applied {
        let present = stored.zones.iter().find(|zone| zone.zone_id == *zone_id);
        let Some(zone) = present.map(|zone| &zone.zone).or_else(|| names.get(zone_id)).cloned() else {
            unknown.insert(zone_id.clone());
            continue;
        };
        let lasts = |duration| now.checked_add(duration).unwrap_or(Timestamp::MAX);
        let until = until.unwrap_or_else(|| match present {
            Some(present) if present.until >= lasts(RENEWED) => present.until.min(lasts(ENDLESS)),
            _ => lasts(ENDLESS),
        });
        let shifted = ShiftedZone { zone_id: zone_id.clone(), zone, until };
        let known = zones.entry(zone_id).or_insert_with(|| shifted.clone());
        known.until = known.until.max(shifted.until);
    }
    (zones.into_values().filter(|zone| zone.until > now).collect(), unknown)
}

impl Sweeper {
    /// Reads the zonal shifts and stores them if they changed. Publishes events on NodePools and requests a plan when a shift
    /// starts or ends. Returns the zones that are shifted away from now.
    ///
    /// If ARC cannot be read, each known shift stays in effect until its expiry.
    ///
    /// # Errors
    /// When the claims table cannot be read.
    pub(super) async fn honour_zonal_shifts(&self, report: &mut SweepReport) -> Result<Vec<ShiftedZone>, PortError> {
        let Some(arc) = &self.zonal_shifts else { return Ok(Vec::new()) };
        let now = self.context.now();
        let mut stored = StoredZonalShifts::read(&self.claims).await?;
        match arc.applied().await {
            Ok(applied) => {
                let names = self.zone_names(&stored, &applied, report).await;
                let (zones, unknown) = next(&stored, &applied, &names, now);
                for zone in unknown {
                    report
                        .problems
                        .push(format!("the zonal shift away from {zone} is not honoured: no such zone is known"));
                }
                if stored.zones != zones {
                    stored.zones = zones;
                    self.write_zonal_shifts(&mut stored, report).await;
                }
            }
            Err(error) => {
                let zones: Vec<String> = stored.in_effect(now).iter().map(words).collect();
                self.context.log(&ZonalShiftsUnread { known: &zones, why: &error.to_string() });
                report.problems.push(format!("zonal shifts: {error}"));
            }
        }
        let shifted = stored.in_effect(now);
        let present = shifted.iter().map(|zone| (zone.zone_id.clone(), zone.zone.clone())).collect();
        if stored.reported != present {
            self.report_zonal_shifts(&stored, &shifted, report).await;
            stored.reported = present;
            self.write_zonal_shifts(&mut stored, report).await;
        }
        Ok(shifted)
    }

    /// The names of all zones by id. They are read only if a shift is about a zone whose name is not stored.
    async fn zone_names(
        &self,
        stored: &StoredZonalShifts,
        applied: &[ZonalShift],
        report: &mut SweepReport,
    ) -> BTreeMap<String, String> {
        let known: BTreeSet<&str> = stored.zones.iter().map(|zone| zone.zone_id.as_str()).collect();
        if applied.iter().all(|shift| known.contains(shift.zone_id.as_str())) {
            return BTreeMap::new();
        }
        match self.catalog.current(&self.claims).await {
            Ok(catalog) => catalog.zones.iter().map(|zone| (zone.id.clone(), zone.name.clone())).collect(),
            Err(error) => {
                report.problems.push(format!("names of zones: {error}"));
                BTreeMap::new()
            }
        }
    }

    async fn write_zonal_shifts(&self, stored: &mut StoredZonalShifts, report: &mut SweepReport) {
        let write = async {
            let record = records::encode("", stored.version, stored, None)?;
            self.claims.put_record(RecordKind::ZonalShifts, &record).await
        };
        match write.await {
            Ok(version) => stored.version = version,
            // Another sweep wrote the same.
            Err(error) if error.kind == ErrorKind::Conflict => {}
            Err(error) => report.problems.push(format!("zonal shifts: {error}")),
        }
    }

    /// Requests a plan, and publishes events on the NodePools concerned.
    async fn report_zonal_shifts(&self, stored: &StoredZonalShifts, shifted: &[ShiftedZone], report: &mut SweepReport) {
        let zones: Vec<&str> = shifted.iter().map(|zone| zone.zone.as_str()).collect();
        self.context.log(&ZonalShiftsChanged { zones });
        if let Err(error) = self.queue.wake_planner(WakeSource::Lifecycle).await {
            report.problems.push(format!("zonal shifts: {error}"));
        }
        let published = async {
            let (pools, (classes, _)) = futures::try_join!(self.cluster.node_pools(), self.cluster.node_classes())?;
            let events = events(&pools.node_pools, &classes, &stored.reported, shifted);
            nodeless_operations::events::publish(self.cluster.as_ref(), &events).await
        };
        if let Err(error) = published.await {
            self.context.log(&Failed { what: "publish events", why: &error.to_string() });
        }
    }
}

/// The events on NodePools that can launch into a zone whose reported state differs from its actual state.
fn events(
    pools: &[NodePool],
    classes: &[EC2NodeClass],
    reported: &BTreeMap<String, String>,
    shifted: &[ShiftedZone],
) -> Vec<ObjectEvent> {
    let mut events = Vec::new();
    for pool in pools {
        let class = classes.iter().find(|class| class.metadata.name.as_deref() == Some(&pool.template.node_class));
        let Some(class) = class else { continue };
        for begun in shifted.iter().filter(|zone| !reported.contains_key(&zone.zone_id)) {
            if reaches(pool, class, &begun.zone_id, &begun.zone) {
                events.push(zonal_shift_active(pool, &begun.zone_id, &words(begun)));
            }
        }
        for (id, zone) in reported.iter().filter(|(id, _)| shifted.iter().all(|zone| zone.zone_id != **id)) {
            if reaches(pool, class, id, zone) {
                events.push(zonal_shift_cleared(pool, id, zone));
            }
        }
    }
    events
}

/// Whether a NodePool can launch into a zone: it allows the zone, and its EC2NodeClass has a subnet there.
fn reaches(pool: &NodePool, class: &EC2NodeClass, id: &str, zone: &str) -> bool {
    let subnets = class.status.iter().flat_map(|status| &status.subnets);
    let allows = |key: &str, value: &str| {
        pool.template.requirements.get(key).is_none_or(|requirement| requirement.has(value))
            && pool.template.labels.get(key).is_none_or(|label| label == value)
    };
    subnets.into_iter().any(|subnet| subnet.zone == zone) && allows(labels::ZONE, zone) && allows(labels::ZONE_ID, id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn shift(zone_id: &str, until: Option<i64>) -> ZonalShift {
        ZonalShift { zone_id: zone_id.into(), until: until.map(at) }
    }

    fn zone(name: &str, zone_id: &str, until: i64) -> ShiftedZone {
        ShiftedZone { zone_id: zone_id.into(), zone: name.into(), until: at(until) }
    }

    fn names() -> BTreeMap<String, String> {
        [("use1-az1", "us-east-1a"), ("use1-az2", "us-east-1b")].map(|(id, name)| (id.into(), name.into())).into()
    }

    fn known(zones: Vec<ShiftedZone>) -> StoredZonalShifts {
        StoredZonalShifts { zones, ..StoredZonalShifts::default() }
    }

    #[test]
    fn what_arc_lists_replaces_what_was_stored() {
        let before = known(vec![zone("us-east-1a", "use1-az1", 900)]);
        let (zones, unknown) = next(&before, &[shift("use1-az2", Some(500))], &names(), at(100));
        assert_eq!(
            zones,
            [zone("us-east-1b", "use1-az2", 500)],
            "the other was cancelled, although it would still last"
        );
        assert!(unknown.is_empty());
        let (zones, _) = next(&before, &[shift("use1-az1", Some(2000))], &BTreeMap::new(), at(100));
        assert_eq!(zones, [zone("us-east-1a", "use1-az1", 2000)], "extended, without any need of the catalog");
        assert_eq!(next(&before, &[], &names(), at(100)), (Vec::new(), BTreeSet::new()));
    }

    #[test]
    fn what_is_over_or_has_no_name_is_left_out() {
        let applied = [shift("use1-az1", Some(100)), shift("use1-az9", Some(500))];
        let (zones, unknown) = next(&known(Vec::new()), &applied, &names(), at(100));
        assert!(zones.is_empty());
        assert_eq!(unknown, ["use1-az9".to_owned()].into());
    }

    #[test]
    fn of_two_shifts_away_from_a_zone_the_longer_one_counts() {
        let applied = [shift("use1-az1", Some(700)), shift("use1-az1", Some(500))];
        assert_eq!(next(&known(Vec::new()), &applied, &names(), at(0)).0, [zone("us-east-1a", "use1-az1", 700)]);
    }

    #[test]
    fn one_without_end_lasts_an_hour_from_when_it_was_last_seen_and_is_seldom_written() {
        let seen =
            |before: Vec<ShiftedZone>, now| next(&known(before), &[shift("use1-az1", None)], &names(), at(now)).0;
        let first = seen(Vec::new(), 0);
        assert_eq!(first, [zone("us-east-1a", "use1-az1", 3600)]);
        assert_eq!(seen(first.clone(), 900), first);
        assert_eq!(seen(first, 901), [zone("us-east-1a", "use1-az1", 4501)]);
        let ended_far_away = vec![zone("us-east-1a", "use1-az1", 90_000)];
        assert_eq!(seen(ended_far_away, 0), [zone("us-east-1a", "use1-az1", 3600)]);
    }
}
