//! Consolidation that leaves nodes alone for a time, because the removal of such a node led to a launch.
//!
//! A removal is noted when its command is validated. If a node is launched for pods of the workloads that it moves, while its nodes
//! are removed or within [`WINDOW`] after they are gone, the removal led to the launch. Nodes of the same NodePool and shape that run
//! these workloads are then not consolidated for 15 minutes, and for twice as long each time it happens again, up to 8 hours.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::{CapacityType, NodeClaim, Pod, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// For how long after a removed node is gone a launch counts as caused by its removal.
pub const WINDOW: SignedDuration = SignedDuration::from_mins(5);

/// The first and the longest time for which nodes are not consolidated.
const FIRST_HOLD: SignedDuration = SignedDuration::from_mins(15);
const LONGEST_HOLD: SignedDuration = SignedDuration::from_hours(8);

/// For how long a removal is kept. Launches during a drain that takes longer are not counted.
const KEEP_REMOVALS: SignedDuration = SignedDuration::from_hours(1);

/// The maximum number of names of claims and workloads in all removals of a NodePool, and in all its holds, so that they fit into an
/// item of the table, with at most 350 bytes for each name. Beyond that the oldest are dropped.
const MAX_NAMES: usize = 500;

/// The properties that the nodes of a [`Hold`] have in common, besides the NodePool and the workloads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeShape {
    /// The instance type.
    pub instance_type: String,
    /// The capacity type.
    pub capacity_type: CapacityType,
}

impl NodeShape {
    /// The shape of a claim's instance, once it is launched.
    #[must_use]
    pub fn new(claim: &NodeClaim) -> Option<Self> {
        let instance = claim.status.instance.as_ref()?;
        Some(Self { instance_type: instance.instance_type.clone(), capacity_type: instance.capacity_type })
    }
}

/// The workloads of the pods that need another node when theirs is removed.
#[must_use]
pub fn workloads<'p>(pods: impl IntoIterator<Item = &'p Pod>) -> BTreeSet<Workload> {
    pods.into_iter().filter(|pod| pod.is_reschedulable()).filter_map(Pod::workload).collect()
}

/// The nodes of one NodePool that a command removes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    /// The command's id.
    pub command: String,
    /// When it was validated.
    pub at: Timestamp,
    /// The names of the claims that it removes.
    pub node_claims: BTreeSet<String>,
    /// The workloads whose pods it moves, by the shape of the nodes.
    pub moved: Vec<MovedWorkloads>,
    /// The savings that it predicts: the price of the removed nodes less that of their replacements, in dollars per hour.
    pub predicted: f64,
    /// The launches that it led to, at most as many as nodes it removes: without the removal, there would be no more nodes than that.
    #[serde(default)]
    pub launches: Vec<CausedLaunch>,
}

/// The workloads whose pods move from the nodes of a shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MovedWorkloads {
    /// The shape of the nodes.
    pub shape: NodeShape,
    /// The workloads.
    pub workloads: BTreeSet<Workload>,
}

/// A node whose launch a removal led to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CausedLaunch {
    /// The name of its claim.
    pub node_claim: String,
    /// The price in dollars per hour.
    pub price: f64,
}

/// A node that is launched for pods.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchForPods {
    /// The name of its claim.
    pub node_claim: String,
    /// The price in dollars per hour.
    pub price: f64,
    /// The workloads of the pods.
    pub workloads: BTreeSet<Workload>,
}

/// Nodes of a NodePool that are left alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The shape of the nodes.
    pub shape: NodeShape,
    /// The workloads that run on them, all of these.
    pub workloads: BTreeSet<Workload>,
    /// Since when.
    pub since: Timestamp,
    /// Until when.
    pub until: Timestamp,
}

/// The recent removals of a NodePool, and the nodes that are left alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldBack {
    /// The removals, the oldest first.
    pub removals: Vec<Removal>,
    /// The holds, in the order in which they began.
    pub holds: Vec<Hold>,
}

impl Removal {
    /// The savings that came of it until now, in dollars per hour: the predicted ones less the price of the launches that it led to.
    #[must_use]
    pub fn realized(&self) -> f64 {
        self.predicted - self.launches.iter().map(|launch| launch.price).sum::<f64>()
    }

    fn names(&self) -> usize {
        let workloads: usize = self.moved.iter().map(|moved| moved.workloads.len()).sum();
        self.node_claims.len() + workloads
    }

    /// The workloads of a launch that this removal moved, by the shape of the nodes; empty if there are none.
    fn shared(&self, launch: &LaunchForPods) -> Vec<MovedWorkloads> {
        let of = |moved: &MovedWorkloads| MovedWorkloads {
            shape: moved.shape.clone(),
            workloads: moved.workloads.intersection(&launch.workloads).cloned().collect(),
        };
        self.moved.iter().map(of).filter(|moved| !moved.workloads.is_empty()).collect()
    }
}

impl Hold {
    fn length(&self) -> SignedDuration {
        self.until.duration_since(self.since)
    }

    /// Until when it is remembered: for as long as it was in effect, so that the next one is twice as long.
    fn remembered_until(&self) -> Timestamp {
        self.until.checked_add(self.length()).unwrap_or(Timestamp::MAX)
    }
}

impl HeldBack {
    /// Notes a removal that is about to begin, once however often it is called. Removals without a workload are not noted,
    /// because no launch can be attributed to them, and neither are removals with more names than the record may have.
    pub fn note_removal(&mut self, removal: Removal, now: Timestamp) {
        self.forget(now);
        let moves = removal.moved.iter().any(|moved| !moved.workloads.is_empty());
        let fits = removal.names() <= MAX_NAMES;
        if moves && fits && self.removals.iter().all(|old| old.command != removal.command) {
            self.removals.push(removal);
        }
        drop_oldest(&mut self.removals, Removal::names);
    }

    /// Notes a launch, once however often it is called, and returns the removal that led to it, if one did that is not noted yet. The
    /// nodes that were removed are left alone from now on. `removing` names the claims that commands remove, or that ended within
    /// [`WINDOW`].
    pub fn note_launch(
        &mut self,
        launch: &LaunchForPods,
        removing: &BTreeSet<&str>,
        now: Timestamp,
    ) -> Option<&Removal> {
        self.forget(now);
        let known = |removal: &Removal| removal.launches.iter().any(|old| old.node_claim == launch.node_claim);
        if self.removals.iter().any(known) {
            return None;
        }
        // The youngest one, because a launch has one cause.
        let place = self.removals.iter().rposition(|removal| {
            removal.launches.len() < removal.node_claims.len()
                && removal.node_claims.iter().any(|name| removing.contains(name.as_str()))
                && !removal.shared(launch).is_empty()
        })?;
        let removal = self.removals.get_mut(place)?;
        let (made, shared) = (removal.at, removal.shared(launch));
        removal.launches.push(CausedLaunch { node_claim: launch.node_claim.clone(), price: launch.price });
        for MovedWorkloads { shape, workloads } in shared {
            self.begin(shape, workloads, made, now);
        }
        drop_oldest(&mut self.holds, |hold| hold.workloads.len());
        self.removals.get(place)
    }

    /// The hold on a node of this shape that runs these workloads, if there is one: the one that ends last.
    #[must_use]
    pub fn held(&self, shape: &NodeShape, workloads: &BTreeSet<Workload>, now: Timestamp) -> Option<&Hold> {
        let holds = self.in_effect(now).filter(|hold| hold.shape == *shape && hold.workloads.is_subset(workloads));
        holds.max_by_key(|hold| hold.until)
    }

    /// The holds that are in effect.
    pub fn in_effect(&self, now: Timestamp) -> impl Iterator<Item = &Hold> {
        self.holds.iter().filter(move |hold| now < hold.until)
    }

    /// When nothing of it matters any more.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        let removals = self.removals.iter().filter_map(|removal| removal.at.checked_add(KEEP_REMOVALS).ok());
        removals.chain(self.holds.iter().map(Hold::remembered_until)).max()
    }

    /// Begins a hold because of a removal of this time, or makes it longer.
    fn begin(&mut self, shape: NodeShape, workloads: BTreeSet<Workload>, removed: Timestamp, now: Timestamp) {
        let place = self.holds.iter().position(|hold| hold.shape == shape && hold.workloads == workloads);
        let before = place.map(|place| self.holds.remove(place));
        let hold = match before {
            // The removal was decided before the hold began, so it is no repetition.
            Some(hold) if removed <= hold.since => hold,
            before => {
                let twice = before.map(|hold| hold.length().saturating_add(hold.length()));
                let length = twice.map_or(FIRST_HOLD, |twice| twice.min(LONGEST_HOLD));
                Hold { shape, workloads, since: now, until: now.checked_add(length).unwrap_or(Timestamp::MAX) }
            }
        };
        self.holds.push(hold);
    }

    fn forget(&mut self, now: Timestamp) {
        self.removals.retain(|removal| now.duration_since(removal.at) < KEEP_REMOVALS);
        self.holds.retain(|hold| now < hold.remembered_until());
    }
}

/// Drops the first items until the others have at most [`MAX_NAMES`] names.
fn drop_oldest<T>(items: &mut Vec<T>, names: impl Fn(&T) -> usize) {
    let mut all: usize = items.iter().map(&names).sum();
    let mut dropped = 0;
    for item in items.iter() {
        if all <= MAX_NAMES {
            break;
        }
        all -= names(item);
        dropped += 1;
    }
    items.drain(..dropped);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: &str = "m6i.large";

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn workloads(names: &[&str]) -> BTreeSet<Workload> {
        let one =
            |name: &&str| Workload { namespace: "shop".into(), kind: "Deployment".into(), name: (*name).to_owned() };
        names.iter().map(one).collect()
    }

    fn shape(instance_type: &str) -> NodeShape {
        NodeShape { instance_type: instance_type.into(), capacity_type: CapacityType::OnDemand }
    }

    /// The removal of one node, whose claim has the name of the command.
    fn removal(command: &str, moved: &[&str], minute: i64) -> Removal {
        Removal {
            command: command.into(),
            at: at(minute),
            node_claims: BTreeSet::from([command.to_owned()]),
            moved: vec![MovedWorkloads { shape: shape(HELD), workloads: workloads(moved) }],
            predicted: 0.5,
            launches: Vec::new(),
        }
    }

    fn launch(name: &str, of: &[&str]) -> LaunchForPods {
        LaunchForPods { node_claim: name.into(), price: 0.4, workloads: workloads(of) }
    }

    fn held(all: &HeldBack, instance_type: &str, on_node: &[&str], minute: i64) -> bool {
        all.held(&shape(instance_type), &workloads(on_node), at(minute)).is_some()
    }

    /// A removal and the launch that it leads to, and until which minute nodes are held.
    fn round(all: &mut HeldBack, minute: i64) -> i64 {
        let name = format!("removed-{minute}");
        all.note_removal(removal(&name, &["web"], minute), at(minute));
        let launch = launch(&format!("launched-{minute}"), &["web"]);
        assert!(all.note_launch(&launch, &BTreeSet::from([name.as_str()]), at(minute + 1)).is_some());
        all.holds.last().unwrap().until.as_second() / 60
    }

    #[test]
    fn a_launch_for_pods_of_a_removal_begins_a_hold_and_is_recorded() {
        let mut all = HeldBack::default();
        all.note_removal(removal("a", &["web", "cart"], 0), at(0));
        let going = BTreeSet::from(["a"]);
        assert_eq!(all.note_launch(&launch("other", &["queue"]), &going, at(1)), None, "other pods");
        assert_eq!(all.note_launch(&launch("late", &["web"]), &BTreeSet::new(), at(1)), None, "the window is over");
        assert!(all.holds.is_empty() && !held(&all, HELD, &["web"], 1));
        let caused = all.note_launch(&launch("new", &["queue", "web"]), &going, at(1)).unwrap();
        assert!((caused.realized() - 0.1).abs() < 1e-9, "{caused:?}");
        assert_eq!(caused.launches, [CausedLaunch { node_claim: "new".into(), price: 0.4 }]);
        // The workload for which it was launched, and not the others on either node.
        assert!(held(&all, HELD, &["web"], 1) && held(&all, HELD, &["web", "queue"], 1));
        assert!(!held(&all, HELD, &["cart", "queue"], 1) && !held(&all, "m6i.xlarge", &["web"], 1));
        let spot = NodeShape { capacity_type: CapacityType::Spot, ..shape(HELD) };
        assert_eq!(all.held(&spot, &workloads(&["web"]), at(1)), None);
        assert!(held(&all, HELD, &["web"], 15) && !held(&all, HELD, &["web"], 16), "for a quarter of an hour");
    }

    #[test]
    fn what_is_noted_again_changes_nothing() {
        let mut all = HeldBack::default();
        let removing = BTreeSet::from(["a", "b"]);
        for _ in 0..2 {
            all.note_removal(removal("a", &["web"], 0), at(0));
            all.note_removal(removal("b", &["web"], 0), at(0));
        }
        assert_eq!(all.removals.len(), 2);
        assert_eq!(all.note_launch(&launch("new", &["web"]), &removing, at(1)).unwrap().command, "b");
        let once = all.clone();
        assert_eq!(all.note_launch(&launch("new", &["web"]), &removing, at(2)), None);
        all.note_removal(removal("b", &["web"], 0), at(2));
        assert_eq!(all, once);
        // A launch of the other removal, which was decided before the hold, does not make it longer.
        assert_eq!(all.note_launch(&launch("second", &["web"]), &removing, at(2)).unwrap().command, "a");
        assert_eq!(all.holds, once.holds);
        // Each removed node is the cause of one launch.
        assert_eq!(all.note_launch(&launch("third", &["web"]), &removing, at(2)), None);
    }

    #[test]
    fn a_hold_doubles_up_to_eight_hours_and_is_forgotten_after_as_long_without_use() {
        let mut all = HeldBack::default();
        let mut minute = 0;
        let mut lengths = Vec::new();
        for _ in 0..7 {
            let until = round(&mut all, minute);
            lengths.push(until - minute - 1);
            assert_eq!(all.holds.len(), 1);
            minute = until + 5;
        }
        assert_eq!(lengths, [15, 30, 60, 120, 240, 480, 480]);
        assert_eq!(all.expires(), Some(at(minute - 5 + 480)));
        let until = minute - 5;
        assert_eq!(round(&mut all.clone(), until + 478), until + 479 + 480);
        assert_eq!(round(&mut all, until + 479), until + 480 + 15, "it begins again");
    }

    #[test]
    fn only_equal_shapes_and_workloads_double() {
        let mut all = HeldBack::default();
        assert_eq!(round(&mut all, 0), 16);
        let mut other = removal("both", &["web", "cart"], 20);
        let larger = MovedWorkloads { shape: shape("m6i.xlarge"), workloads: workloads(&["web"]) };
        other.moved.push(larger);
        all.note_removal(other, at(20));
        all.note_launch(&launch("new", &["web", "cart"]), &BTreeSet::from(["both"]), at(21)).unwrap();
        let until: Vec<i64> = all.holds.iter().map(|hold| hold.until.as_second() / 60).collect();
        assert_eq!(until, [16, 36, 36]);
        assert!(held(&all, HELD, &["web", "cart"], 21) && held(&all, "m6i.xlarge", &["web"], 21));
        assert!(!held(&all, HELD, &["web"], 21));
    }

    #[test]
    fn a_removal_without_workloads_is_not_noted_and_old_ones_are_forgotten() {
        let mut all = HeldBack::default();
        all.note_removal(removal("bare", &[], 0), at(0));
        assert_eq!(all, HeldBack::default());
        assert_eq!(all.expires(), None);
        all.note_removal(removal("a", &["web"], 0), at(0));
        assert_eq!(all.expires(), Some(at(60)));
        all.note_removal(removal("b", &["web"], 60), at(60));
        assert_eq!(all.removals.iter().map(|removal| removal.command.as_str()).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn the_record_has_a_bounded_number_of_names() {
        let mut all = HeldBack::default();
        for number in 0..MAX_NAMES {
            let name = format!("removed-{number}");
            all.note_removal(removal(&name, &[&name], 0), at(0));
            let launch = launch(&format!("launched-{number}"), &[&name]);
            all.note_launch(&launch, &BTreeSet::from([name.as_str()]), at(1)).unwrap();
        }
        assert_eq!((all.removals.len(), all.holds.len()), (MAX_NAMES / 2, MAX_NAMES));
        assert_eq!(all.removals.last().unwrap().command, format!("removed-{}", MAX_NAMES - 1));
        let names: Vec<String> = (0..MAX_NAMES).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let before = all.clone();
        all.note_removal(removal("large", &names, 2), at(2));
        assert_eq!(all, before, "one that is too large would not fit into the table");
    }
}
