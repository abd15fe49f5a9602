//! Zonal shifts: the events of ARC, and the nodes of the zone that EKS cordons.

use super::{World, WorldError};
use crate::memory::MemoryZonalShifts;
use jiff::Timestamp;
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_fake_kubernetes::{ListOptions, PatchOptions, PatchType};
use nodeless_model::labels;
use serde_json::{Value, json};
use std::collections::BTreeSet;

impl World {
    /// The zonal shifts of the cluster, as ARC reports them. Clones share one state.
    pub fn zonal_shifts(&self) -> &MemoryZonalShifts {
        &self.zonal_shifts
    }

    /// Starts a zonal shift away from a zone, given by its name, until a time: EventBridge gets an event, and EKS cordons the
    /// nodes there. Returns whether the zone exists.
    pub fn start_zonal_shift(&mut self, zone: &str, until: Timestamp) -> bool {
        let Some(id) = self.zone_id(zone) else { return false };
        self.zonal_shifts.start(&id, Some(until));
        self.zonal_shift_event("Manual Shift Started", &id);
        true
    }

    /// Ends the shift away from a zone early. Returns whether there was one.
    pub fn cancel_zonal_shift(&mut self, zone: &str) -> bool {
        let Some(id) = self.zone_id(zone).filter(|id| self.zonal_shifts.cancel(id)) else { return false };
        self.zonal_shift_event("Manual Shift Canceled", &id);
        true
    }

    /// Whether the cluster is shifted away from a zone, by the zone's name.
    pub fn is_shifted(&self, zone: &str) -> bool {
        let id = self.zone_id(zone);
        self.zonal_shifts.shifts().into_iter().any(|shift| id.as_ref() == Some(&shift.zone_id))
    }

    /// When the next shift expires.
    pub(super) fn zonal_shift_ends(&self) -> Option<Timestamp> {
        self.zonal_shifts.shifts().into_iter().filter_map(|shift| shift.until).min()
    }

    /// Ends expired shifts, and cordons and uncordons nodes as EKS does. An expiry does not send an event.
    pub(super) fn apply_zonal_shifts(&mut self, now: Timestamp) -> Result<(), WorldError> {
        self.zonal_shifts.expire(now);
        let away: BTreeSet<String> = self.zonal_shifts.shifts().into_iter().map(|shift| shift.zone_id).collect();
        if away.is_empty() && self.cordoned.is_empty() {
            return Ok(());
        }
        let mut present = BTreeSet::new();
        for node in self.api.list(&NODES, &ListOptions::default())?.items {
            let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let zone = node["metadata"]["labels"][labels::ZONE].as_str().unwrap_or_default();
            let shifted = self.zone_id(zone).is_some_and(|id| away.contains(&id));
            let cordoned = node["spec"]["unschedulable"] == true;
            if shifted && !cordoned {
                self.cordon(&name, true)?;
                self.cordoned.insert(name.clone());
            } else if !shifted && self.cordoned.remove(&name) {
                self.cordon(&name, false)?;
            }
            present.insert(name);
        }
        self.cordoned.retain(|name| present.contains(name));
        Ok(())
    }

    fn cordon(&self, node: &str, unschedulable: bool) -> Result<(), WorldError> {
        let patch = json!({ "spec": { "unschedulable": if unschedulable { Value::Bool(true) } else { Value::Null } } });
        self.api.patch(&NODES, "", node, None, PatchType::Merge, &patch, &PatchOptions::default())?;
        Ok(())
    }

    fn zone_id(&self, zone: &str) -> Option<String> {
        self.catalog.zones.iter().find(|known| known.name == zone).map(|known| known.id.clone())
    }

    fn zonal_shift_event(&mut self, what: &str, zone_id: &str) {
        let event = json!({
            "version": "0", "id": "05d4d2d5-9c76-bfea-72d2-d4614802adb4", "detail-type": what,
            "source": "aws.arc-zonal-shift", "account": self.options.account, "time": self.now().to_string(),
            "region": self.catalog.region, "resources": [self.options.cluster_name],
            "detail": { "version": "0.0.1", "data": "", "metadata": { "awayFrom": zone_id, "notes": "" } },
        });
        self.keep_event(event);
    }
}
