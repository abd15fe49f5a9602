//! NodeOverlays, applied to the instance types of each NodePool.

use nodeless_model::requirement::Requirement;
use nodeless_model::{
    InstanceType, InstanceTypes, NodeOverlay, NodePool, Offering, PriceChange, Quantity, Requirements, labels,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A NodePool and its instance types without overlays.
#[derive(Clone, Debug)]
pub struct Plain<'a> {
    /// The NodePool.
    pub pool: &'a NodePool,
    /// The instance types for its EC2NodeClass.
    pub instance_types: InstanceTypes,
}

/// The instance types of all NodePools with all overlays applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlaid {
    /// The instance types of each NodePool, by its name, in the order of the given ones.
    pub pools: BTreeMap<String, OverlaidTypes>,
    /// The overlays that are not applied because they conflict with others, by name, with the reason.
    pub conflicts: BTreeMap<String, String>,
}

/// Instance types with the changes of overlays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverlaidTypes {
    /// The instance types: the given ones, not copies, if no overlay changed any.
    pub instance_types: InstanceTypes,
    /// The names of types with an offering whose price was changed.
    pub priced: BTreeSet<String>,
    /// The names of types to which resources were added.
    pub resourced: BTreeSet<String>,
}

/// Applies overlays to the instance types of NodePools.
///
/// An offering's price or a type's resource is set by the overlay with the greatest weight; with equal weights, by the last
/// one in the order of names. Two overlays of the same weight conflict if both set a price, or set different amounts of a
/// resource of a type: the later one is not applied to any pool. Invalid overlays are not applied either. An absolute price
/// for types that are listed by name makes those available that lack only a price. Karpenter 1.14 does the same.
#[must_use]
pub fn apply(overlays: &[NodeOverlay], pools: &[Plain<'_>]) -> Overlaid {
    let mut ordered: Vec<&NodeOverlay> = overlays.iter().filter(|overlay| overlay.valid.is_ok()).collect();
    ordered.sort_by_key(|overlay| (Reverse(overlay.weight), Reverse(&overlay.name)));
    let mut conflicts = BTreeMap::new();
    let mut stated = Stated::default();
    let mut accepted: Vec<(&NodeOverlay, Vec<Statement>)> = Vec::new();
    for overlay in ordered {
        let statements: Vec<Statement> =
            pools.iter().enumerate().flat_map(|(place, plain)| statements(overlay, place, plain)).collect();
        match statements.iter().find_map(|statement| stated.contradicts(overlay, statement, pools)) {
            Some(why) => {
                conflicts.insert(overlay.name.clone(), why);
            }
            None => {
                stated.note(overlay, &statements);
                accepted.push((overlay, statements));
            }
        }
    }
    let mut overlaid: Vec<Vec<InstanceType>> = vec![Vec::new(); pools.len()];
    let mut marks: Vec<OverlaidTypes> = vec![OverlaidTypes::default(); pools.len()];
    let mut decided = BTreeSet::new();
    for (overlay, statements) in accepted {
        for statement in statements {
            if decided.insert(statement.clone()) {
                let types = &mut overlaid[statement.pool];
                if types.is_empty() {
                    *types = pools[statement.pool].instance_types.to_vec();
                }
                change(overlay, &statement, &mut types[statement.kind], &mut marks[statement.pool]);
            }
        }
    }
    let finished = pools.iter().zip(overlaid).zip(marks).map(|((plain, changed), marks)| {
        let instance_types = if changed.is_empty() { plain.instance_types.clone() } else { changed.into() };
        (plain.pool.name.clone(), OverlaidTypes { instance_types, ..marks })
    });
    Overlaid { pools: finished.collect(), conflicts }
}

/// A value that an overlay sets, with the NodePool and the type. Types, pools and offerings are identified by index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Statement {
    pool: usize,
    kind: usize,
    about: About,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Price { offering: usize },
    Capacity { resource: String },
}

/// The values and the overlays that set them, by weight.
#[derive(Default)]
struct Stated {
    by_weight: BTreeMap<(i32, Statement), (String, Option<Quantity>)>,
}

impl Stated {
    fn contradicts(&self, overlay: &NodeOverlay, statement: &Statement, pools: &[Plain<'_>]) -> Option<String> {
        let (other, amount) = self.by_weight.get(&(overlay.weight, statement.clone()))?;
        let kind = &pools[statement.pool].instance_types[statement.kind];
        let what = match &statement.about {
            About::Price { offering } => {
                let offering = &kind.offerings[*offering];
                format!("the price of {} in {} as {}", kind.name, offering.zone, offering.capacity_type.as_str())
            }
            About::Capacity { resource } if *amount != Some(overlay.capacity.get(resource)) => {
                format!("the {resource} of {}", kind.name)
            }
            About::Capacity { .. } => return None,
        };
        Some(format!(
            "it and NodeOverlay {other}, both of weight {}, decide {what}; give one of them a greater spec.weight or narrow \
             its spec.requirements",
            overlay.weight
        ))
    }

    fn note(&mut self, overlay: &NodeOverlay, statements: &[Statement]) {
        for statement in statements {
            let amount = match &statement.about {
                About::Price { .. } => None,
                About::Capacity { resource } => Some(overlay.capacity.get(resource)),
            };
            self.by_weight.insert((overlay.weight, statement.clone()), (overlay.name.clone(), amount));
        }
    }
}

/// All values that an overlay sets for the instance types of a NodePool.
fn statements(overlay: &NodeOverlay, pool: usize, plain: &Plain<'_>) -> Vec<Statement> {
    let mut from_pool = Requirements::from_labels(&plain.pool.template.labels);
    from_pool.add(labels::NODE_POOL, Requirement::one_of([plain.pool.name.as_str()]));
    from_pool.add(labels::EC2_NODE_CLASS, Requirement::one_of([plain.pool.template.node_class.as_str()]));
    let mut list = Vec::new();
    for (kind, instance_type) in plain.instance_types.iter().enumerate() {
        let matching = matching_offerings(overlay, &from_pool, instance_type);
        if matching.is_empty() {
            continue;
        }
        let resources = overlay.capacity.iter().map(|(name, _)| About::Capacity { resource: name.to_owned() });
        list.extend(resources.map(|about| Statement { pool, kind, about }));
        if overlay.price.is_some() {
            let prices = matching.into_iter().map(|offering| About::Price { offering });
            list.extend(prices.map(|about| Statement { pool, kind, about }));
        }
    }
    list
}

/// The indices of the offerings of a type that match an overlay.
fn matching_offerings(overlay: &NodeOverlay, from_pool: &Requirements, kind: &InstanceType) -> Vec<usize> {
    let of_type = |key: &str| kind.requirements.get(key).or_else(|| from_pool.get(key));
    let possible =
        overlay.requirements.iter().all(|(key, required)| of_type(key).is_none_or(|has| has.intersects(required)));
    if !possible {
        return Vec::new();
    }
    let matches = |offering: &Offering| {
        overlay.requirements.iter().all(|(key, required)| match key {
            labels::ZONE => required.has(&offering.zone),
            labels::CAPACITY_TYPE => required.has(offering.capacity_type.as_str()),
            key => match offering.requirements.get(key).or_else(|| of_type(key)) {
                Some(has) => has.intersects(required),
                None => required.allows_absence(),
            },
        })
    };
    kind.offerings.iter().enumerate().filter(|(_, offering)| matches(offering)).map(|(place, _)| place).collect()
}

/// Whether an overlay replaces the price lists: an absolute price whose only requirement lists instance types by name, as in
/// Karpenter. An overlay for a whole family may not be meant for types that are not available yet.
fn is_price_list(overlay: &NodeOverlay) -> bool {
    let mut requirements = overlay.requirements.iter();
    let only = requirements.next().filter(|_| requirements.next().is_none());
    matches!(overlay.price, Some(PriceChange::Absolute(price)) if price > 0.0)
        && only.is_some_and(|(key, required)| key == labels::INSTANCE_TYPE && required.values().is_some())
}

fn change(overlay: &NodeOverlay, statement: &Statement, kind: &mut InstanceType, marks: &mut OverlaidTypes) {
    match &statement.about {
        About::Price { offering } => {
            if let (Some(price), Some(offering)) = (overlay.price, kind.offerings.get_mut(*offering)) {
                offering.price = price.apply(offering.price);
                if offering.lacks_price && is_price_list(overlay) {
                    offering.available = true;
                    offering.lacks_price = false;
                }
                marks.priced.insert(kind.name.clone());
            }
        }
        About::Capacity { resource } => {
            kind.capacity.set(resource, overlay.capacity.get(resource));
            marks.resourced.insert(kind.name.clone());
        }
    }
}

#[cfg(test)]
mod tests;
