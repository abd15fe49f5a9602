//! Converts a filled node to a launch: its possible instance types, and its usage of the limits.

use crate::packing::bin::{Bin, standing_in};
use crate::pools::limits::Share;
use crate::pools::reservations;
use crate::pools::{Choice, Daemons, Pool};
use crate::problem::solution::{ChosenOffering, Launch, PricedType};
use crate::problem::{MinValuesPolicy, Options};
use nodeless_model::claim::Charge;
use nodeless_model::{
    CapacityType, Offering, Quantity, Requirement, Requirements, Reservation, ResourceIndex, ResourceList, labels,
    resources,
};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The work of listing the instance types and requirements of a launch.
const WORK_PER_LAUNCH: usize = 2000;

/// Converts the nodes of a NodePool to launches. `pods` contains the indices of each node's pods, and `others` is the number of
/// nodes of other NodePools that are converted later.
///
/// Each node may be launched as any instance type with capacity for its pods, the cheapest first, as far as the limits
/// allow the largest and most expensive of them; what the limits leave beyond the nodes themselves is divided evenly.
pub(crate) fn launches(
    pool: &mut Pool<'_>,
    bins: &[Bin],
    pods: Vec<Vec<usize>>,
    others: usize,
    resources: &ResourceIndex,
    options: &Options,
) -> Vec<Launch> {
    let mut launches: Vec<Launch> = Vec::with_capacity(bins.len());
    for (index, (bin, mut pods)) in bins.iter().zip(pods).enumerate() {
        // Without limits, equal nodes have equal launches.
        if pool.limits.are_none()
            && let Some(last) = launches.last().filter(|_| launches.len() == index && bins[index - 1].is_like(bin))
        {
            pods.sort_unstable();
            let alike = Launch { pods, ..last.clone() };
            launches.push(alike);
            continue;
        }
        pool.work.add(WORK_PER_LAUNCH);
        let left = bins.len() - index;
        let slack = pool.limits.slack_each(left, left + others);
        let (choices, beyond) = match &bin.reservation {
            Some(id) => (reserved_choice(pool, bin, id), pool.limits.nothing()),
            None => choices(pool, bin, &slack, options),
        };
        pool.limits.charge(&beyond, 1);
        if let Some(launch) = launch(pool, bin, &choices, pods, resources) {
            launches.push(launch);
        }
    }
    launches
}

/// The possible instance types, and their usage of the limits beyond the node's own share.
fn choices(pool: &Pool<'_>, bin: &Bin, slack: &Share, options: &Options) -> (Vec<Choice>, Share) {
    let own = bin.share.clone();
    let most = if pool.min_values.is_empty() { options.max_instance_types.max(1) } else { usize::MAX };
    let fitting: Vec<&Choice> =
        standing_in(pool, bin).filter(|choice| choice.share.within(&own, slack)).take(most).collect();
    let mut kept = options.max_instance_types.max(1).min(fitting.len());
    if options.min_values == MinValuesPolicy::Strict {
        let kinds: Vec<usize> = fitting.iter().map(|choice| choice.kind).collect();
        while kept < fitting.len() && pool.first_short(&pool.set(bin.set).requirements, &kinds[..kept]).is_some() {
            kept += 1;
        }
    }
    let kept: Vec<Choice> = fitting[..kept].iter().map(|&choice| choice.clone()).collect();
    let greatest = kept.iter().fold(own.clone(), |greatest, choice| greatest.max(&choice.share));
    (kept, greatest.beyond(&own))
}

/// The only instance type of a node in a reservation.
fn reserved_choice(pool: &Pool<'_>, bin: &Bin, id: &str) -> Vec<Choice> {
    let kind = pool.types[bin.shape].kind;
    let requirements = &pool.set(bin.set).requirements;
    let mut offerings = kind.available_offerings(requirements).filter(|offering| reservations::is_of(offering, id));
    let price = offerings.next().map(|offering| offering.price);
    let bought = CapacityType::Reserved;
    price
        .map(|price| Choice { kind: bin.shape, price, share: bin.share.clone(), bought, spot: false })
        .into_iter()
        .collect()
}

fn launch(
    pool: &Pool<'_>,
    bin: &Bin,
    choices: &[Choice],
    mut pods: Vec<usize>,
    resources: &ResourceIndex,
) -> Option<Launch> {
    pods.sort_unstable();
    let set = pool.set(bin.set);
    let cheapest = &pool.types[choices.first()?.kind];
    let by_choice: Vec<Vec<&Offering>> = match &bin.reservation {
        Some(id) => {
            let all = cheapest.kind.available_offerings(&set.requirements);
            vec![all.filter(|offering| reservations::is_of(offering, id)).collect()]
        }
        None => {
            let of = |choice: &Choice| {
                let all = pool.offerings(pool.types[choice.kind].kind, &set.requirements);
                all.filter(|offering| pool.may_launch(choice.bought, offering)).collect()
            };
            choices.iter().map(of).collect()
        }
    };
    let chosen = by_choice.first()?.iter().min_by(|a, b| a.cmp_price(b))?;
    let is_started = chosen.reservation.as_ref().is_some_and(Reservation::is_of_stopped_instances);
    let (starts, reservation) =
        if is_started { (bin.reservation.clone(), None) } else { (None, bin.reservation.as_ref()) };
    let mut requests = resources.list(&bin.used);
    requests.add(&min_daemons(pool, choices));
    Some(Launch {
        node_pool: pool.pool.name.clone(),
        node_class: pool.pool.template.node_class.clone(),
        pods,
        requests,
        instance_types: choices
            .iter()
            .map(|choice| PricedType { name: pool.types[choice.kind].kind.name.clone(), price: choice.price })
            .collect(),
        offering: ChosenOffering {
            instance_type: cheapest.kind.name.clone(),
            zone: chosen.zone.clone(),
            capacity_type: chosen.capacity_type,
            price: chosen.price,
        },
        requirements: narrowed(&set.requirements, pool, choices, &by_choice.concat(), reservation),
        charge: charge(pool, choices, &by_choice),
        min_values_relaxed: bin.min_values_relaxed,
        starts,
    })
}

/// The minimum requests of the DaemonSets on any of the instance types, resource by resource.
fn min_daemons(pool: &Pool<'_>, choices: &[Choice]) -> ResourceList {
    let mut all: Vec<&Rc<Daemons>> = choices.iter().map(|choice| &pool.types[choice.kind].daemons).collect();
    // Most types have the same DaemonSets.
    all.dedup_by(|a, b| Rc::ptr_eq(a, b));
    let mut all = all.into_iter().map(|daemons| &daemons.requests);
    let Some(first) = all.next() else { return ResourceList::new() };
    let mut least = first.clone();
    for other in all {
        least = least.iter().map(|(name, quantity)| (name.to_owned(), quantity.min(other.get(name)))).collect();
    }
    least.iter().filter(|(_, quantity)| !quantity.is_zero()).map(|(name, q)| (name.to_owned(), q)).collect()
}

/// The requirements with the instance types, zones and capacity types that may be launched.
fn narrowed(
    requirements: &Requirements,
    pool: &Pool<'_>,
    choices: &[Choice],
    offerings: &[&Offering],
    reservation: Option<&String>,
) -> Requirements {
    let mut narrowed = requirements.clone();
    let names = choices.iter().map(|choice| pool.types[choice.kind].kind.name.as_str());
    narrowed.add(labels::INSTANCE_TYPE, Requirement::one_of(names));
    let zones: BTreeSet<&str> = offerings.iter().map(|offering| offering.zone.as_str()).collect();
    narrowed.add(labels::ZONE, Requirement::one_of(zones));
    let capacity_types: BTreeSet<&str> = offerings.iter().map(|offering| offering.capacity_type.as_str()).collect();
    narrowed.add(labels::CAPACITY_TYPE, Requirement::one_of(capacity_types));
    if let Some(id) = reservation {
        narrowed.add(labels::CAPACITY_RESERVATION_ID, Requirement::one_of([id.as_str()]));
    }
    narrowed.remove(labels::HOSTNAME);
    fix_own_labels(&mut narrowed);
    lower_min_values(&mut narrowed, pool, choices);
    narrowed
}

/// Lowers `minValues` to the number of values that the instance types have, as Karpenter does: the API server refuses a NodeClaim with
/// fewer values than that. Only launches with relaxed `minValues` have fewer.
fn lower_min_values(requirements: &mut Requirements, pool: &Pool<'_>, choices: &[Choice]) {
    let kinds: Vec<usize> = choices.iter().map(|choice| choice.kind).collect();
    for (key, required) in &pool.min_values {
        let found = pool.number_of_values(key, requirements, &kinds);
        if found < *required
            && let Some(requirement) = requirements.get(key).cloned()
        {
            requirements.remove(key);
            requirements.add(key, requirement.with_min_values((found > 0).then_some(found)));
        }
    }
}

/// Chooses one value for every user-defined label: instance types do not define them.
fn fix_own_labels(requirements: &mut Requirements) {
    let own: Vec<(String, Requirement)> = requirements
        .iter()
        .filter(|(key, requirement)| !labels::is_well_known(key) && requirement.single().is_none())
        .filter(|(_, requirement)| !requirement.allows_absence())
        .filter_map(|(key, requirement)| Some((key.to_owned(), Requirement::one_of([requirement.some_value()?]))))
        .collect();
    for (key, value) in own {
        requirements.add(&key, value);
    }
}

fn charge(pool: &Pool<'_>, choices: &[Choice], by_choice: &[Vec<&Offering>]) -> Charge {
    let mut greatest = ResourceList::new();
    for choice in choices {
        greatest.max_with(&pool.types[choice.kind].kind.capacity);
    }
    greatest.set(resources::name::NODES, Quantity::from_units(1));
    let with_root_volume = |(choice, offerings): (&Choice, &Vec<&Offering>)| {
        let dearest = offerings.iter().map(|offering| offering.price).fold(0.0, f64::max);
        dearest + pool.types[choice.kind].kind.root_volume_price()
    };
    let dollars_per_hour = choices.iter().zip(by_choice).map(with_root_volume).fold(0.0, f64::max);
    Charge { resources: greatest, dollars_per_hour }
}
