//! The JSON and YAML output of `--what-if`. `docs/what-if.md` describes it; change both together.

use super::cost::Cost;
use super::evaluate::{Alternative, AlternativeKind, Today};
use super::moved::{Moved, Origin};
use crate::plural::counted;
use serde::Serialize;

/// Today's cluster and its alternatives.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhatIfReport {
    pub(crate) today: Cost,
    pub(crate) alternatives: Vec<Alternative>,
    /// What has to be known to read the figures.
    pub(crate) assumptions: Vec<String>,
}

/// What the figures include, and what they assume. `moves` is whether an alternative moves the pods of nodes that stay in the
/// others, `prices` describes the sources of the prices, and `found` are the assumptions about this cluster.
pub(super) fn assumptions(today: &Today<'_>, moves: bool, prices: &str, found: &[String]) -> Vec<String> {
    let (staying, today) = (today.staying(), &today.cost);
    let included = match today.commitments {
        Some(_) => {
            "and discounts other than the Savings Plans and Reserved Instances of --commitments are not included."
        }
        None => {
            "Savings Plans, Reserved Instances and other discounts are not included; --commitments includes the first two."
        }
    };
    let mut all = vec![
        "A month has 730 hours. A launched node has the price of its cheapest offering.".to_owned(),
        format!("EC2 instances only: the EKS control plane, volumes, traffic, load balancers, {included}"),
        "Full is the larger part of CPU and memory that pods request; requests are those of today, whether pods use them or not."
            .to_owned(),
    ];
    if today.commitments.is_some() {
        all.push(
            "A month is what is paid: the commitments, used or not, and what they do not cover. Every alternative is planned to use \
             them first, which the deployed planner does not do."
                .to_owned(),
        );
    }
    if staying > 0 {
        let but = if moves { " but the one that moves them" } else { "" };
        let (nodes, stay) = (counted(staying, "node"), if staying == 1 { "stays" } else { "stay" });
        all.push(format!(
            "{nodes} of no NodePool or of a static NodePool {stay} in every alternative{but}, with the pods."
        ));
    }
    if !today.without_price.is_empty() {
        all.push(format!(
            "The price of {} is unknown and in no sum: {}.",
            counted(today.without_price.len(), "node"),
            {
                let named = |one: &super::cost::NodeWithoutPrice| match &one.instance_type {
                    Some(kind) => format!("{} ({kind})", one.node),
                    None => format!("{} (instance type unknown)", one.node),
                };
                today.without_price.iter().map(named).collect::<Vec<_>>().join(", ")
            }
        ));
    }
    all.extend(found.iter().map(|one| {
        let mut letters = one.chars();
        let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        format!("{first}{}.", letters.as_str())
    }));
    all.push(prices.to_owned());
    all
}

/// What is assumed of the NodePools, how pods get there, and what is not in the figures.
fn moving(moved: &Moved) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(described) = &moved.assumed {
        all.push(format!("the input has no NodePool, so one is assumed: {described}"));
    }
    all.push(
        "to get there, create the NodePools, then drain the nodes and delete their group or profile; a node that its group replaces is not \
         saved"
            .to_owned(),
    );
    if moved.from.iter().any(|source| source.origin == Origin::AutoMode) {
        all.push("today costs more than stated: the fee of EKS Auto Mode for each instance is not included".to_owned());
    }
    all
}

impl Alternative {
    /// The name in the table.
    pub(super) fn name(&self) -> String {
        match &self.kind {
            AlternativeKind::Repacked => "repacked".to_owned(),
            AlternativeKind::Arm64 => "with arm64".to_owned(),
            AlternativeKind::Spot => "with spot".to_owned(),
            AlternativeKind::Moved => "moved to NodePools".to_owned(),
            AlternativeKind::Manifests { file } => format!("with {file}"),
        }
    }

    /// Whether it widens nothing, so that it is the same as repacked.
    pub(super) fn is_repacked_again(&self) -> bool {
        matches!(self.kind, AlternativeKind::Arm64 | AlternativeKind::Spot) && self.widened.is_empty()
    }

    /// What it is.
    pub(super) fn described(&self) -> &'static str {
        match self.kind {
            AlternativeKind::Repacked => {
                "what nodeless would launch for the same pods if it started without nodes of NodePools"
            }
            AlternativeKind::Arm64 => "repacked, and every NodePool allows arm64",
            AlternativeKind::Spot => "repacked, and every NodePool allows spot",
            AlternativeKind::Moved => "repacked, also for the pods of nodes that no NodePool manages",
            AlternativeKind::Manifests { .. } => "repacked, with these manifests in place of those of the same name",
        }
    }

    /// What has to be true of the cluster, and how it gets there.
    pub(super) fn conditions(&self, synthetic_spot: bool) -> Vec<String> {
        let widened = |key: &str| match self.widened.as_slice() {
            [] => format!("no NodePool restricts {key}, so this is the same as repacked"),
            pools => format!("{key} is widened in NodePool {}", pools.join(", ")),
        };
        match self.kind {
            AlternativeKind::Moved => self.moved.iter().flat_map(moving).collect(),
            AlternativeKind::Repacked | AlternativeKind::Manifests { .. } => {
                vec!["disruption gets there over time, within the budgets of the NodePools".to_owned()]
            }
            AlternativeKind::Arm64 => vec![
                widened("kubernetes.io/arch"),
                "images have to be multi-architecture, which the objects of a cluster do not show".to_owned(),
            ],
            AlternativeKind::Spot => {
                let mut all = vec![widened("karpenter.sh/capacity-type")];
                if synthetic_spot {
                    all.push("spot prices are synthetic: use --catalog with those of your account".to_owned());
                }
                all.push("EC2 interrupts spot instances with a notice of two minutes".to_owned());
                all
            }
        }
    }
}
