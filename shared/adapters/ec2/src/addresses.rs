//! Orders the subnets of a zone by free addresses: those that EC2 reports, less those of launches in flight.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::Filter;
use nodeless_api::EC2NodeClass;
use nodeless_aws::port_error;
use nodeless_launch::fleet::{self, FleetPlan};
use nodeless_ports::PortError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The addresses that launches of this process are about to use, by subnet. EC2 counts them after it has answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    in_flight: Arc<Mutex<BTreeMap<String, i64>>>,
}

/// Addresses that a call is about to use. They are released when the call ends: EC2 counts them from then on.
pub(crate) struct Taken {
    in_flight: Arc<Mutex<BTreeMap<String, i64>>>,
    subnets: BTreeSet<String>,
    count: i64,
}

impl Addresses {
    /// Orders the subnets of the class by the free addresses that EC2 reports now, the most first. If no zone has several
    /// subnets, the order of the catalog function is kept.
    ///
    /// # Errors
    /// When EC2 cannot be read.
    pub(crate) async fn most_free_first(
        &self,
        client: &Client,
        class: &EC2NodeClass,
    ) -> Result<EC2NodeClass, PortError> {
        let ids = fleet::subnets_to_choose_from(class);
        if ids.is_empty() {
            return Ok(class.clone());
        }
        Ok(fleet::most_free_first(class, &self.free(client, ids).await?))
    }

    async fn free(&self, client: &Client, ids: Vec<String>) -> Result<BTreeMap<String, i64>, PortError> {
        let filter = Filter::builder().name("subnet-id").set_values(Some(ids)).build();
        let answer = client.describe_subnets().filters(filter).send().await;
        let answer = answer.map_err(|error| port_error("EC2 DescribeSubnets", &error))?;
        let in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let free = answer.subnets().iter().filter_map(|subnet| {
            let id = subnet.subnet_id()?.to_owned();
            let taken = in_flight.get(&id).copied().unwrap_or(0);
            Some((id, i64::from(subnet.available_ip_address_count()?) - taken))
        });
        Ok(free.collect())
    }

    /// Counts a launch of `count` instances as in flight in every subnet that it may use, until the answer is dropped.
    pub(crate) fn take(&self, plan: &FleetPlan, count: u32) -> Taken {
        let subnets: BTreeSet<String> = plan.groups.values().flatten().map(|entry| entry.subnet_id.clone()).collect();
        let taken = Taken { in_flight: self.in_flight.clone(), subnets, count: i64::from(count) };
        taken.add(taken.count);
        taken
    }
}

impl Taken {
    fn add(&self, count: i64) {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        for subnet in &self.subnets {
            *in_flight.entry(subnet.clone()).or_default() += count;
        }
        in_flight.retain(|_, count| *count != 0);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.add(-self.count);
    }
}
