//! Properties of a running instance that may change: its network, and its capacity reservation.

use super::{MOVED, Read, SweepReport, Sweeper};
use jiff::Timestamp;
use nodeless_catalog::NodeClassSettings;
use nodeless_catalog::node_class::AmiFamily;
use nodeless_lifecycle::{demoted, has_left_its_reservation, moved};
use nodeless_model::{Instance, NodeClaim};
use nodeless_operations::{
    log_lines::Collected,
    node_class,
    offers::{learn, shortages},
};
use nodeless_ports::ErrorKind;
use std::collections::BTreeMap;

impl Sweeper {
    /// Records the current subnet, security groups and capacity reservation of the instances on their claims. Drift compares with
    /// these, and all of them may change while an instance runs. An instance that left its reservation is on-demand from then on,
    /// and its NodePool is charged the on-demand price. Returns the updated claims.
    pub(super) async fn note_moved(
        &self,
        mut claims: Vec<NodeClaim>,
        read: &Read,
        now: Timestamp,
        report: &mut SweepReport,
    ) -> Vec<NodeClaim> {
        let instances: BTreeMap<&str, &Instance> =
            read.instances.iter().map(|instance| (instance.id.as_str(), instance)).collect();
        let mut left = MOVED;
        for claim in &mut claims {
            let id = claim.status.instance.as_ref().map_or("", |launched| launched.id.as_str());
            let Some(instance) = instances.get(id).filter(|_| left > 0) else { continue };
            let (next, charge) = if has_left_its_reservation(claim, instance) {
                match self.price_on_demand(claim, instance, now).await {
                    Ok(price) => {
                        let (next, charge) = demoted(claim, price);
                        (next, Some(charge))
                    }
                    Err(why) => {
                        // The change is recorded together with the price or not at all. The next sweep retries.
                        report.problems.push(format!("NodeClaim {}: what it costs on demand: {why}", claim.name));
                        continue;
                    }
                }
            } else {
                let Some(next) = moved(claim, instance) else { continue };
                (next, None)
            };
            left -= 1;
            match self.claims.update(&next, charge.as_ref()).await {
                Ok(version) => {
                    if charge.is_some() {
                        let why = "its instance is in no capacity reservation any more";
                        self.context.log(&Collected { what: "claim is on demand", name: &claim.name, why });
                    }
                    *claim = NodeClaim { version, ..next };
                    claim.spec.charge = charge.unwrap_or_else(|| claim.spec.charge.clone());
                }
                // Another process is writing the claim. The next sweep retries.
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) => report.problems.push(format!("NodeClaim {}: {error}", claim.name)),
            }
        }
        claims
    }

    /// The on-demand price of an instance: by its EC2NodeClass, or by the catalog alone if the class is gone or excludes the
    /// zone. If the catalog has no price, the previous price is kept.
    async fn price_on_demand(&self, claim: &NodeClaim, instance: &Instance, now: Timestamp) -> Result<f64, String> {
        let class = self.cluster.node_class(&claim.node_class).await.map_err(|error| error.to_string())?;
        let catalog = self.catalog.current(&self.claims).await.map_err(|error| error.to_string())?;
        let of_class = class.and_then(|class| node_class::settings_with(&class, &catalog).ok());
        let plain = NodeClassSettings::new(AmiFamily::Al2023, catalog.zones.clone());
        let shortages = shortages(&[], &[], now);
        let known = of_class.into_iter().chain([plain]).map(|settings| {
            let types = catalog.instance_types_named([instance.instance_type.as_str()], &settings, &shortages);
            learn(instance, &types).price
        });
        let before = claim.status.instance.as_ref().map_or(0.0, |launched| launched.price);
        Ok(known.into_iter().find(|price| *price > 0.0).unwrap_or(before))
    }
}
