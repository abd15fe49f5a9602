//! EC2 of the simulated world, with what tests do to it and read of it.

use super::{CLUSTER, small_catalog};
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_aws::requests::{
    CreateLaunchTemplate, Describe, InstanceMarketOptions, LaunchTemplateData, RunInstances, StartInstances, Tag,
    TagSpecification, TerminateInstances,
};
use nodeless_fake_aws::{CapacityType, Ec2, LaunchFault, Offering, OfferingPattern, QuotaFamily, SecurityGroup};
use nodeless_model::instance::{Instance, InstanceState};
use nodeless_model::labels;
use nodeless_world::WorldClock;
use nodeless_world::ports::{MemoryCatalogSource, MemoryCloud};
use std::sync::Arc;

/// The Kubernetes version of the cluster.
pub const VERSION: &str = "1.36";

/// The account of a test. Instances start and end when [`TestCloud::boot`] is called.
#[derive(Clone)]
pub struct TestCloud {
    pub ec2: Ec2,
    /// The Cloud port on this account.
    pub port: MemoryCloud,
    clock: WorldClock,
}

impl TestCloud {
    /// The account of a world, in which instances start and end without delay.
    pub fn new(ec2: Ec2, clock: WorldClock) -> Self {
        ec2.change_account(|account| {
            (account.timing.start_up, account.timing.shut_down) = (SignedDuration::ZERO, SignedDuration::ZERO);
        });
        Self { port: MemoryCloud::new(ec2.clone(), CLUSTER), ec2, clock }
    }

    /// The CatalogSource port on this account.
    pub fn source(&self) -> MemoryCatalogSource {
        MemoryCatalogSource::new(self.ec2.clone(), Arc::new(small_catalog()), CLUSTER, VERSION)
    }

    /// EC2 reaches the time of the clock: pending instances run, and those that shut down are terminated.
    pub fn boot(&self) {
        self.ec2.advance_to(self.clock.time());
    }

    /// EC2 has only so many instances left.
    pub fn set_capacity(&self, left: Option<u64>) {
        self.ec2.restore(OfferingPattern::default());
        if let Some(left) = left {
            self.ec2.run_short(OfferingPattern::default(), left);
        }
    }

    /// The account may have so many vCPUs of standard instances; `None` removes the quota.
    pub fn set_quota(&self, capacity_type: CapacityType, vcpus: Option<u64>) {
        let key = (capacity_type, QuotaFamily::Standard);
        self.ec2.change_account(|account| match vcpus {
            Some(vcpus) => drop(account.vcpu_quotas.insert(key, vcpus)),
            None => drop(account.vcpu_quotas.remove(&key)),
        });
    }

    /// EC2 lists none of its instances any more, as if all had just been launched.
    pub fn hide_all(&self) {
        for id in self.ids() {
            self.list_from(&id, Timestamp::MAX);
        }
    }

    /// EC2 lists this instance from now on.
    pub fn show(&self, id: &str) {
        self.list_from(id, Timestamp::MIN);
    }

    fn list_from(&self, id: &str, from: Timestamp) {
        let change = |it: &mut nodeless_fake_aws::Instance| (it.visible_from, it.tags_visible_from) = (from, from);
        assert!(self.ec2.change_instance(id, change), "{id}");
    }

    /// The machines of the next launches, so many, never join.
    pub fn spoil_joins(&self, times: u32) {
        self.ec2.spoil_launches(OfferingPattern::default(), LaunchFault::NeverJoins, times);
    }

    /// The machines of later launches join.
    pub fn end_launch_faults(&self) {
        self.ec2.end_launch_faults();
    }

    /// The id of the subnet in a zone.
    pub fn subnet(&self, zone: &str) -> String {
        self.ec2.account().subnets.into_iter().find(|subnet| subnet.zone == zone).unwrap().id
    }

    /// Adds a security group to the VPC of the nodes, and returns its id.
    pub fn add_security_group(&self, name: &str) -> String {
        let id = format!("sg-0b{:015x}", self.ec2.account().security_groups.len());
        self.ec2.change_account(|account| {
            let vpc_id = account.vpcs[0].id.clone();
            let (id, name, description) = (id.clone(), name.to_owned(), "Of a test".to_owned());
            account.security_groups.push(SecurityGroup { id, name, vpc_id, description });
        });
        id
    }

    /// An instance that another program launches, in the first subnet of its zone, with these tags and that of the cluster.
    /// Returns the id of the running instance.
    pub fn launch(&self, offering: &Offering, tags: &[(&str, &str)]) -> String {
        let all = [(labels::CLUSTER_NAME_TAG, CLUSTER)].into_iter().chain(tags.iter().copied());
        let tags = all.map(|(key, value)| Tag::new(key, value)).collect();
        let spot = InstanceMarketOptions { market_type: Some("spot".into()), ..InstanceMarketOptions::default() };
        let request = RunInstances {
            min_count: Some(1),
            max_count: Some(1),
            instance_type: Some(offering.instance_type.clone()),
            image_id: Some(self.ec2.account().images[0].id.clone()),
            subnet_id: Some(self.subnet(&offering.zone)),
            instance_market_options: (offering.capacity_type == CapacityType::Spot).then_some(spot),
            tag_specifications: vec![TagSpecification { resource_type: Some("instance".into()), tags }],
            ..RunInstances::default()
        };
        let launched = self.ec2.run_instances(&request).unwrap().remove(0);
        self.boot();
        launched.id
    }

    /// An instance of a NodePool that no claim owns. It has been running for an hour.
    pub fn launch_orphan(&self) -> String {
        let tags = [(labels::NODE_POOL, "default"), (labels::EC2_NODE_CLASS, "default")];
        let id = self.launch(&Offering::new("m6i.xlarge", "us-east-1a", CapacityType::OnDemand), &tags);
        let launched = self.clock.time() - SignedDuration::from_hours(1);
        self.ec2.change_instance(&id, |instance| instance.launched = launched);
        id
    }

    /// Starts a stopped instance, as another program does.
    pub fn start(&self, id: &str) {
        let request = StartInstances { instance_ids: vec![id.to_owned()], dry_run: false };
        self.ec2.start_instances(&request).unwrap();
        self.boot();
    }

    /// Terminates an instance, as another program does.
    pub fn end(&self, id: &str) {
        let request = TerminateInstances { instance_ids: vec![id.to_owned()], dry_run: false };
        self.ec2.terminate_instances(&request).unwrap();
        self.boot();
    }

    /// Adds a launch template of the cluster that was last used at a time.
    pub fn put_template(&self, name: &str, used: Timestamp) {
        let used = used.strftime("%Y-%m-%d").to_string();
        let tags = vec![Tag::new(labels::CLUSTER_NAME_TAG, CLUSTER), Tag::new("nodeless.sh/last-used", &used)];
        let request = CreateLaunchTemplate {
            launch_template_name: Some(name.to_owned()),
            launch_template_data: Some(LaunchTemplateData {
                instance_type: Some("m6i.large".into()),
                ..LaunchTemplateData::default()
            }),
            tag_specifications: vec![TagSpecification { resource_type: Some("launch-template".into()), tags }],
            ..CreateLaunchTemplate::default()
        };
        self.ec2.create_launch_template(&request).unwrap();
    }

    pub fn templates(&self) -> Vec<String> {
        let (found, _) = self.ec2.describe_launch_templates(&Describe::default()).unwrap();
        let mut names: Vec<String> = found.into_iter().map(|template| template.name).collect();
        names.sort();
        names
    }

    /// How many instances were ever launched.
    pub fn launched(&self) -> usize {
        self.ec2.launched()
    }

    /// How often CreateFleet was called.
    pub fn launch_calls(&self) -> u64 {
        self.ec2.call_counts().get("ec2:CreateFleet").copied().unwrap_or(0)
    }

    /// The ids of all instances, in the order of their launches.
    pub fn ids(&self) -> Vec<String> {
        self.ec2.instances().into_iter().map(|instance| instance.id).collect()
    }

    pub fn alive(&self) -> Vec<Instance> {
        self.port.every_instance().into_iter().filter(Instance::is_alive).collect()
    }

    pub fn running(&self) -> Vec<Instance> {
        let all = self.port.every_instance().into_iter();
        all.filter(|instance| instance.state == InstanceState::Running).collect()
    }
}
