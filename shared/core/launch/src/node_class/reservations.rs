//! Capacity reservations of an EC2NodeClass.

use super::query::{Query, tag_filters};
use jiff::{SignedDuration, Timestamp};
use nodeless_api::nodeclass::{
    CapacityReservation, CapacityReservationSelectorTerm, InstanceMatchCriteria, ReservationState, ReservationType,
};
use nodeless_model::ReservedInstances;

/// EC2 terminates the instances of a capacity block half an hour before its end. From ten minutes before that, nothing is
/// launched into it.
const BLOCK_EXPIRES_BEFORE_END: SignedDuration = SignedDuration::from_mins(40);

/// A reservation in DescribeCapacityReservations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// The id, `cr-…`.
    pub id: String,
    /// The type of its instances.
    pub instance_type: String,
    /// The zone of its instances.
    pub zone: String,
    /// The account that owns it.
    pub owner_id: String,
    /// The match criteria: `open` or `targeted`.
    pub match_criteria: String,
    /// The type: `default` or `capacity-block`.
    pub reservation_type: String,
    /// Whether its owner may interrupt its instances.
    pub interruptible: bool,
    /// When it ends, if it has an end date.
    pub end: Option<Timestamp>,
    /// The number of its instances, if it is known.
    pub total: Option<u32>,
    /// The number of available instances.
    pub available: u32,
}

impl Described {
    /// Its instances. `account` is that of the cluster, if it is known.
    #[must_use]
    pub fn instances(&self, account: Option<&str>) -> ReservedInstances {
        let is_owned = account.is_none_or(|account| account == self.owner_id);
        let used = self.total.filter(|_| is_owned).map(|total| total.saturating_sub(self.available));
        ReservedInstances { available: self.available, used }
    }
}

/// A DescribeCapacityReservations call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationQuery {
    /// The id of the reservation, for which there is no filter.
    pub id: Option<String>,
    /// The filters.
    pub filters: Query,
}

impl ReservationQuery {
    /// All active reservations.
    #[must_use]
    pub fn active() -> Self {
        Self { id: None, filters: vec![("state".to_owned(), vec!["active".to_owned()])] }
    }
}

/// A call for each term, so that an unknown id fails only its own call. Only active reservations are requested.
#[must_use]
pub fn queries(terms: &[CapacityReservationSelectorTerm]) -> Vec<ReservationQuery> {
    let mut queries = Vec::new();
    for term in terms {
        let mut selected = ReservationQuery::active();
        let query = &mut selected.filters;
        // With an id, the other fields of the term are not used.
        if term.id.is_some() {
            selected.id.clone_from(&term.id);
        } else {
            query.extend(term.tags.as_ref().map(tag_filters).unwrap_or_default());
            query.extend(term.owner_id.iter().map(|owner| ("owner-id".to_owned(), vec![owner.clone()])));
            let criteria = term.instance_match_criteria.iter();
            query.extend(criteria.map(|it| ("instance-match-criteria".to_owned(), vec![it.as_str().to_owned()])));
        }
        queries.push(selected);
    }
    queries
}

/// The reservations for the status, each once, by id, without those that have ended.
///
/// # Errors
/// None: reservations with unknown values are omitted, and the second part contains a message for each.
#[must_use]
pub fn select(found: Vec<Described>, now: Timestamp) -> (Vec<CapacityReservation>, Vec<String>) {
    let mut unknown = Vec::new();
    let mut chosen: Vec<CapacityReservation> = Vec::new();
    for described in found {
        if described.end.is_some_and(|end| end <= now) || chosen.iter().any(|known| known.id == described.id) {
            continue;
        }
        match status(&described, now) {
            Ok(reservation) => chosen.push(reservation),
            Err(why) => unknown.push(format!("capacity reservation {}: {why}; it is ignored", described.id)),
        }
    }
    chosen.sort_by(|a, b| a.id.cmp(&b.id));
    (chosen, unknown)
}

fn status(described: &Described, now: Timestamp) -> Result<CapacityReservation, String> {
    let instance_match_criteria = match described.match_criteria.as_str() {
        "open" => InstanceMatchCriteria::Open,
        "targeted" => InstanceMatchCriteria::Targeted,
        other => return Err(format!("unknown instance match criteria {other:?}")),
    };
    let reservation_type = match described.reservation_type.as_str() {
        "" | "default" => ReservationType::Default,
        "capacity-block" => ReservationType::CapacityBlock,
        other => return Err(format!("unknown reservation type {other:?}")),
    };
    let expiring = reservation_type == ReservationType::CapacityBlock
        && described.end.is_some_and(|end| end.duration_since(now) <= BLOCK_EXPIRES_BEFORE_END);
    Ok(CapacityReservation {
        id: described.id.clone(),
        availability_zone: described.zone.clone(),
        end_time: described.end.map(Into::into),
        instance_match_criteria,
        instance_type: described.instance_type.clone(),
        interruptible: described.interruptible.then_some(true),
        owner_id: described.owner_id.clone(),
        reservation_type,
        state: if expiring { ReservationState::Expiring } else { ReservationState::Active },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn described(id: &str) -> Described {
        Described {
            id: id.into(),
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            owner_id: "123456789012".into(),
            match_criteria: "targeted".into(),
            reservation_type: "default".into(),
            ..Described::default()
        }
    }

    #[test]
    fn terms_select_active_reservations() {
        let terms = [
            CapacityReservationSelectorTerm { id: Some("cr-1".into()), ..CapacityReservationSelectorTerm::default() },
            CapacityReservationSelectorTerm {
                tags: Some([("team".to_owned(), "a".to_owned())].into()),
                owner_id: Some("123456789012".into()),
                instance_match_criteria: Some(InstanceMatchCriteria::Open),
                ..CapacityReservationSelectorTerm::default()
            },
        ];
        let names = |query: &ReservationQuery| {
            query.filters.iter().map(|(name, values)| format!("{name}={}", values[0])).collect::<Vec<_>>()
        };
        let queries = queries(&terms);
        assert_eq!((queries[0].id.as_deref(), queries[1].id.as_deref()), (Some("cr-1"), None));
        assert_eq!(names(&queries[0]), ["state=active"]);
        assert_eq!(
            names(&queries[1]),
            ["state=active", "tag:team=a", "owner-id=123456789012", "instance-match-criteria=open"]
        );
    }

    #[test]
    fn a_block_near_its_end_is_expiring_and_ended_reservations_are_omitted() {
        let block = |id: &str, end| Described {
            reservation_type: "capacity-block".into(),
            end: Some(at(end)),
            ..described(id)
        };
        let plain_with_end = Described { end: Some(at(60)), ..described("cr-d") };
        let (chosen, unknown) = select(
            vec![block("cr-c", 2_401), block("cr-b", 2_400), block("cr-a", 0), plain_with_end, described("cr-d")],
            at(0),
        );
        let states: Vec<(&str, ReservationState)> = chosen.iter().map(|r| (r.id.as_str(), r.state)).collect();
        assert_eq!(
            states,
            [
                ("cr-b", ReservationState::Expiring),
                ("cr-c", ReservationState::Active),
                ("cr-d", ReservationState::Active)
            ]
        );
        assert!(unknown.is_empty());
    }

    #[test]
    fn how_many_instances_are_in_use_is_known_of_the_accounts_own_reservations() {
        let own = Described { total: Some(5), available: 2, ..described("cr-a") };
        let used = |described: &Described, account| described.instances(account).used;
        assert_eq!(own.instances(None), ReservedInstances { available: 2, used: Some(3) });
        assert_eq!((used(&own, Some("123456789012")), used(&own, Some("444455556666"))), (Some(3), None));
        assert_eq!(used(&Described { total: None, ..own.clone() }, None), None);
        // The owner may have made it smaller than what is in use.
        assert_eq!(used(&Described { total: Some(1), ..own }, None), Some(0));
    }

    #[test]
    fn unknown_reservations_are_ignored_and_reported() {
        let odd = Described { reservation_type: "future".into(), ..described("cr-x") };
        let (chosen, unknown) = select(vec![odd, described("cr-y")], at(0));
        assert_eq!(chosen.len(), 1);
        assert!(unknown[0].contains("cr-x") && unknown[0].contains("future"), "{unknown:?}");
    }

    #[test]
    fn the_status_lists_which_reservations_are_interruptible() {
        let interruptible = Described { interruptible: true, ..described("cr-a") };
        let (chosen, _) = select(vec![interruptible, described("cr-b")], at(0));
        let marks: Vec<Option<bool>> = chosen.iter().map(|reservation| reservation.interruptible).collect();
        assert_eq!(marks, [Some(true), None]);
    }
}
