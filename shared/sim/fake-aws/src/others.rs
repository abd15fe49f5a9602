//! Instances that another program launches and terminates. Its calls are not recorded, and it uses none of the injected faults, addresses
//! and capacities, so it does not change what the calls of nodeless return. Its instances cost nothing.

use super::objects::account::Tags;
use super::objects::instance::{Instance, InstanceState};
use super::objects::offering::Offering;
use super::state::Ec2;
use std::sync::Arc;

impl Ec2 {
    /// Adds a running instance. No kubelet runs on it.
    pub fn add_instance_of_others(&self, id: &str, offering: Offering, tags: Tags) {
        let mut state = self.lock();
        let (now, account) = (state.now, &state.account);
        let zone_id = account.facts.zone(&offering.zone).map(|zone| zone.id.clone()).unwrap_or_default();
        let instance = Instance {
            id: id.to_owned(),
            reservation_id: format!("r-of-{id}"),
            launch_index: 0,
            offering,
            architecture: "x86_64".to_owned(),
            zone_id,
            image_id: "ami-of-others".to_owned(),
            platform: None,
            root_device: "/dev/xvda".to_owned(),
            subnet_id: "subnet-of-others".to_owned(),
            vpc_id: "vpc-of-others".to_owned(),
            private_ip: "192.0.2.1".to_owned(),
            private_dns_name: format!("{id}.others.internal"),
            network_interface_id: format!("eni-of-{id}"),
            volume_id: format!("vol-of-{id}"),
            security_group_ids: Vec::new(),
            instance_profile: None,
            data: Arc::default(),
            fleet_id: None,
            spot_request_id: None,
            capacity_reservation_id: None,
            partition: None,
            client_token: None,
            price: 0.0,
            launched: now,
            visible_from: now,
            tags_visible_from: now,
            state: InstanceState::Running,
            stopped: None,
            restarted: false,
            uses_capacity: false,
            state_reason: None,
            impaired_since: None,
            system_impaired_since: None,
            planned: Vec::new(),
            joins: false,
            tags,
        };
        state.instances.insert(id.to_owned(), instance);
    }

    /// Terminates an instance.
    pub fn end_instance_of_others(&self, id: &str) {
        self.lock().terminate(id);
    }
}
