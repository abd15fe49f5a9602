//! Capacity reservations as `aws ec2 describe-capacity-reservations` exports them, for plans without an account.

use super::reservations::{self, Described};
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
use nodeless_api::nodeclass::selectors::SelectorTags;
use nodeless_api::nodeclass::{CapacityReservation, CapacityReservationSelectorTerm};
use nodeless_model::ReservedInstances;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Why an export cannot be used. Each message states what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReservationExportError {
    /// A file is not JSON, is not complete, or has a field of another form.
    #[error(
        "{file} is no complete output of `aws ec2 describe-capacity-reservations`: {why}; export it again, with --output json \
         and without --query"
    )]
    Json {
        /// The file.
        file: String,
        /// The error of the JSON parser.
        why: String,
    },
    /// A list has further pages.
    #[error(
        "{file} has a NextToken, so it is not the whole list; export it again without --max-items and --max-results"
    )]
    MorePages {
        /// The file.
        file: String,
    },
    /// Two files describe the same reservation differently.
    #[error("{file}: {id} is described differently in another file; give the latest export only")]
    Twice {
        /// The file.
        file: String,
        /// The reservation.
        id: String,
    },
}

/// The capacity reservations of one or several accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportedReservations {
    by_id: BTreeMap<String, Exported>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Exported {
    described: Described,
    tags: SelectorTags,
    active: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    capacity_reservations: Vec<ListedReservation>,
    next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedReservation {
    capacity_reservation_id: String,
    instance_type: String,
    availability_zone: String,
    state: String,
    instance_match_criteria: String,
    total_instance_count: Option<u32>,
    available_instance_count: u32,
    #[serde(default)]
    owner_id: String,
    #[serde(default)]
    reservation_type: String,
    #[serde(default)]
    interruptible: bool,
    end_date: Option<Timestamp>,
    #[serde(default)]
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Tag {
    key: String,
    value: String,
}

impl From<ListedReservation> for Exported {
    fn from(listed: ListedReservation) -> Self {
        Self {
            active: listed.state == "active",
            tags: listed.tags.into_iter().map(|tag| (tag.key, tag.value)).collect(),
            described: Described {
                id: listed.capacity_reservation_id,
                instance_type: listed.instance_type,
                zone: listed.availability_zone,
                owner_id: listed.owner_id,
                match_criteria: listed.instance_match_criteria,
                reservation_type: listed.reservation_type,
                interruptible: listed.interruptible,
                end: listed.end_date,
                total: listed.total_instance_count,
                available: listed.available_instance_count,
            },
        }
    }
}

impl ExportedReservations {
    /// Adds the reservations of a file.
    ///
    /// # Errors
    /// When the file is not the whole output of the command, or contradicts another file.
    pub fn read(&mut self, file: &str, bytes: &[u8]) -> Result<(), ReservationExportError> {
        let file = || file.to_owned();
        let listed: Listed = serde_json::from_slice(bytes)
            .map_err(|error| ReservationExportError::Json { file: file(), why: error.to_string() })?;
        if listed.next_token.is_some() {
            return Err(ReservationExportError::MorePages { file: file() });
        }
        for reservation in listed.capacity_reservations {
            let exported = Exported::from(reservation);
            let id = exported.described.id.clone();
            let before = self.by_id.insert(id.clone(), exported);
            if before.is_some_and(|before| self.by_id.get(&id) != Some(&before)) {
                return Err(ReservationExportError::Twice { file: file(), id });
            }
        }
        Ok(())
    }

    /// The instances of each active reservation, by id. The account of the cluster is unknown, and counts as the owner.
    #[must_use]
    pub fn instances(&self) -> BTreeMap<String, ReservedInstances> {
        let active = self.by_id.values().filter(|exported| exported.active).map(|exported| &exported.described);
        active.map(|described| (described.id.clone(), described.instances(None))).collect()
    }

    /// Sets the status of EC2NodeClasses as the catalog function does. Returns what is left out, and classes that select nothing.
    #[must_use]
    pub fn resolve(&self, classes: &mut BTreeMap<String, EC2NodeClass>, at: Timestamp) -> Vec<String> {
        let mut notes = Vec::new();
        for (name, class) in classes {
            let terms = &class.spec.capacity_reservation_selector_terms;
            if terms.is_empty() {
                continue;
            }
            let (selected, left_out) = self.selected(terms, at);
            notes.extend(left_out);
            if selected.is_empty() {
                notes.push(format!(
                    "EC2NodeClass {name} selects no active capacity reservation of --capacity-reservations; compare its \
                     spec.capacityReservationSelectorTerms with them"
                ));
            }
            class.status.get_or_insert_default().capacity_reservations = selected;
        }
        notes
    }

    /// The active reservations that any of the terms selects, as the status of an EC2NodeClass lists them, and a message for each
    /// that is left out because of a value that is unknown.
    #[must_use]
    pub fn selected(
        &self,
        terms: &[CapacityReservationSelectorTerm],
        now: Timestamp,
    ) -> (Vec<CapacityReservation>, Vec<String>) {
        let selects = |exported: &&Exported| {
            exported.active && terms.iter().any(|term| selects(term, &exported.described, Some(&exported.tags)))
        };
        let found = self.by_id.values().filter(selects).map(|exported| exported.described.clone());
        reservations::select(found.collect(), now)
    }
}

/// Whether EC2 returns the reservation for the [query](reservations::queries) of a term.
#[must_use]
pub fn selects(term: &CapacityReservationSelectorTerm, described: &Described, tags: Option<&SelectorTags>) -> bool {
    if let Some(id) = &term.id {
        return *id == described.id;
    }
    let has = |(key, value): (&String, &String)| {
        let present = tags.and_then(|tags| tags.get(key));
        present.is_some_and(|present| matches!(value.as_str(), "*" | "") || value == present)
    };
    term.tags.iter().flatten().all(has)
        && term.owner_id.as_ref().is_none_or(|owner| *owner == described.owner_id)
        && term.instance_match_criteria.is_none_or(|criteria| criteria.as_str() == described.match_criteria)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_api::nodeclass::{InstanceMatchCriteria, ReservationState};
    use serde_json::{Value, json};

    fn listed(id: &str, changes: &Value) -> Value {
        let mut reservation = json!({
            "CapacityReservationId": id, "OwnerId": "111122223333", "InstanceType": "m5.large", "InstancePlatform": "Linux/UNIX",
            "AvailabilityZone": "us-east-1a", "Tenancy": "default", "TotalInstanceCount": 5, "AvailableInstanceCount": 3,
            "State": "active", "InstanceMatchCriteria": "targeted", "EndDateType": "unlimited",
            "Tags": [{ "Key": "team", "Value": "search" }],
        });
        for (key, value) in changes.as_object().unwrap() {
            reservation[key] = value.clone();
        }
        reservation
    }

    fn read(reservations: &[Value]) -> ExportedReservations {
        let mut exported = ExportedReservations::default();
        exported.read("a.json", json!({ "CapacityReservations": reservations }).to_string().as_bytes()).unwrap();
        exported
    }

    fn ids(exported: &ExportedReservations, term: CapacityReservationSelectorTerm) -> Vec<String> {
        let (found, left_out) = exported.selected(&[term], Timestamp::UNIX_EPOCH);
        assert_eq!(left_out, Vec::<String>::new());
        found.into_iter().map(|reservation| reservation.id).collect()
    }

    #[test]
    fn terms_select_active_reservations_as_ec2_does() {
        let exported = read(&[
            listed("cr-1", &json!({})),
            listed("cr-2", &json!({ "InstanceMatchCriteria": "open", "Tags": [] })),
            listed("cr-3", &json!({ "State": "expired" })),
            listed("cr-4", &json!({ "OwnerId": "444455556666", "Tags": [{ "Key": "team", "Value": "web" }] })),
        ]);
        assert_eq!(exported.instances().keys().collect::<Vec<_>>(), ["cr-1", "cr-2", "cr-4"]);
        assert_eq!(exported.instances()["cr-1"], ReservedInstances { available: 3, used: Some(2) });
        let term = CapacityReservationSelectorTerm::default;
        let tagged = |value: &str| Some(SelectorTags::from([("team".to_owned(), value.to_owned())]));
        assert_eq!(ids(&exported, CapacityReservationSelectorTerm { tags: tagged("search"), ..term() }), ["cr-1"]);
        for any in ["*", ""] {
            assert_eq!(
                ids(&exported, CapacityReservationSelectorTerm { tags: tagged(any), ..term() }),
                ["cr-1", "cr-4"]
            );
        }
        let other =
            CapacityReservationSelectorTerm { tags: tagged("*"), owner_id: Some("444455556666".into()), ..term() };
        assert_eq!(ids(&exported, other), ["cr-4"]);
        let open =
            CapacityReservationSelectorTerm { instance_match_criteria: Some(InstanceMatchCriteria::Open), ..term() };
        assert_eq!(ids(&exported, open), ["cr-2"]);
        // With an id, the other fields are not used; an ended reservation is not selected by it either.
        let id = |id: &str| CapacityReservationSelectorTerm { id: Some(id.into()), tags: tagged("none"), ..term() };
        assert_eq!(ids(&exported, id("cr-2")), ["cr-2"]);
        assert_eq!(ids(&exported, id("cr-3")), Vec::<String>::new());
    }

    #[test]
    fn a_block_near_its_end_is_expiring() {
        let block = json!({ "ReservationType": "capacity-block", "EndDate": "2026-01-31T11:30:00+00:00" });
        let exported = read(&[listed("cr-1", &block)]);
        let term = CapacityReservationSelectorTerm { id: Some("cr-1".into()), ..Default::default() };
        let state = |now: &str| exported.selected(std::slice::from_ref(&term), now.parse().unwrap()).0[0].state;
        assert_eq!(state("2026-01-31T10:00:00Z"), ReservationState::Active);
        assert_eq!(state("2026-01-31T11:00:00Z"), ReservationState::Expiring);
    }

    #[test]
    fn an_incomplete_or_contradictory_export_is_refused() {
        let mut exported = ExportedReservations::default();
        let mut refused = |text: &str| exported.read("b.json", text.as_bytes()).unwrap_err().to_string();
        assert!(refused("[]").contains("b.json") && refused("{}").contains("CapacityReservations"));
        assert!(refused(r#"{"CapacityReservations":[],"NextToken":"x"}"#).contains("--max-items"));
        let one =
            |left: u32| json!({ "CapacityReservations": [listed("cr-1", &json!({ "AvailableInstanceCount": left }))] });
        exported.read("a.json", one(3).to_string().as_bytes()).unwrap();
        exported.read("same.json", one(3).to_string().as_bytes()).unwrap();
        let twice = exported.read("b.json", one(2).to_string().as_bytes()).unwrap_err();
        assert_eq!(twice, ReservationExportError::Twice { file: "b.json".into(), id: "cr-1".into() });
    }
}
