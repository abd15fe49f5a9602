//! The [`CatalogSource`] port in AWS: the catalog of the region, and the resolution of EC2NodeClasses.

mod commitments;
mod filters;
mod groups;
mod images;
mod network;
mod prices;
mod profiles;
mod resolve;
mod spot;
mod type_info;
mod types;

use crate::ClusterDetails;
use crate::control_plane::CurrentControlPlane;
use crate::log_lines::{
    CommitmentsLeftOut, CommitmentsUnread, OnDemandPricesUnread, PlacementGroupsUnread, ReservationsUnread,
    SpotPricesUnread,
};
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_sdk_pricing::config::Region;
use jiff::{SignedDuration, Timestamp};
use nodeless_api::{EC2NodeClass, EC2NodeClassStatus};
use nodeless_catalog::facts::Facts;
use nodeless_catalog::{Catalog, stored::SpotPrices};
use nodeless_ports::{CatalogSource, DescribeControlPlane, ErrorKind, PortError};
use nodeless_telemetry::Context;
use prices::OnDemandPrices;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

/// How often a call to the Price List is attempted. Reading the prices of a region takes more calls than the Price List answers at
/// once (10, and five more each second), and other programs of the account use it as well.
const PRICE_LIST_ATTEMPTS: u32 = 6;
/// How long types, offerings and spot prices are used before they are read again. Reading them takes about forty calls.
const REFRESH: SignedDuration = SignedDuration::from_hours(1);

/// An existing instance profile for a role, so that no call to IAM is needed for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProfile {
    /// The role, by name.
    pub role: String,
    /// The instance profile, by name.
    pub name: String,
}

/// Reads the offerings of the region, and their prices.
#[derive(Clone, Debug)]
struct RegionReader {
    region: String,
    ec2: aws_sdk_ec2::Client,
    /// `None` in regions without a Price List, and if it cannot be reached.
    prices: Option<aws_sdk_pricing::Client>,
    /// `None` if commitments are not read.
    savings_plans: Option<aws_sdk_savingsplans::Client>,
    /// The account of the cluster, if it is known.
    account: Option<String>,
    context: Context,
}

impl RegionReader {
    /// `isolated` if only services with a VPC endpoint can be reached, which excludes the Price List.
    fn new(config: &SdkConfig, isolated: bool, context: Context) -> Result<Self, PortError> {
        let region = config.region().map(ToString::to_string).ok_or_else(|| {
            PortError::new(ErrorKind::Invalid, "AWS configuration", "no region is configured; set AWS_REGION")
        })?;
        let prices = prices::price_list_region(&region).filter(|_| !isolated).map(|list| {
            let retries = config.retry_config().cloned().unwrap_or_else(RetryConfig::standard);
            let retries = retries.with_max_attempts(PRICE_LIST_ATTEMPTS);
            let config = aws_sdk_pricing::config::Builder::from(config).region(Region::new(list)).retry_config(retries);
            aws_sdk_pricing::Client::from_conf(config.build())
        });
        Ok(Self { region, ec2: aws_sdk_ec2::Client::new(config), prices, savings_plans: None, account: None, context })
    }

    /// The facts and their catalog; the previous catalog alone, if it is fresh.
    async fn catalog(&self, previous: Option<&Catalog>) -> Result<(Option<Facts>, Catalog), PortError> {
        let now = self.context.now();
        // Another region's catalog does not apply to this one.
        let previous = previous.filter(|catalog| catalog.region == self.region);
        let known = Facts::embedded().map_err(|error| damaged(&error))?;
        if let Some(previous) = previous.filter(|catalog| is_fresh(catalog, now))
            && (self.prices.is_none() || !prices::due(Some(previous), now))
        {
            let mut catalog = previous.clone();
            self.read_groups(&mut catalog).await;
            if catalog.commitments.is_some() != self.savings_plans.is_some() {
                self.read_commitments(&mut catalog, None).await;
            }
            return Ok((None, catalog));
        }
        let read = types::read(&self.ec2).await?;
        let on_demand = self.on_demand_prices(&read.local_groups, previous, now).await?;
        let (spot, spot_is_new) = self.spot_prices(previous, now).await;
        let facts = types::facts(&self.region, read, on_demand.prices, known);
        let catalog = Catalog::new(0, &facts, on_demand.source, spot.as_ref());
        let read = if spot_is_new { Some(now) } else { previous.and_then(|catalog| catalog.read) };
        let mut catalog = Catalog { read, on_demand_prices_read: on_demand.read, ..catalog };
        if let Some(previous) = previous {
            catalog.reservations.clone_from(&previous.reservations);
            catalog.placement_groups.clone_from(&previous.placement_groups);
        }
        self.read_groups(&mut catalog).await;
        self.read_commitments(&mut catalog, previous).await;
        Ok((Some(facts), catalog))
    }

    /// The account's commitments, which change a few times a year: read as often as types. What cannot be read stays unchanged.
    async fn read_commitments(&self, catalog: &mut Catalog, previous: Option<&Catalog>) {
        catalog.commitments = None;
        let Some(client) = &self.savings_plans else { return };
        let read = commitments::read(&self.ec2, client, &self.region, |name| catalog.get(name).is_some()).await;
        match read {
            Ok(read) => {
                if !read.left_out.is_empty() {
                    self.context.log(&CommitmentsLeftOut { left_out: &read.left_out });
                }
                catalog.commitments = Some(read.commitments);
            }
            Err(error) => {
                catalog.commitments = previous.and_then(|previous| previous.commitments.clone());
                let kept = catalog.commitments.is_some();
                self.context.log(&CommitmentsUnread { kept, error: &error.to_string() });
            }
        }
    }

    /// The available capacity of reservations, and the placement groups: read each time, because both change by the minute. What
    /// cannot be read stays unchanged.
    async fn read_groups(&self, catalog: &mut Catalog) {
        match groups::reserved_instances(&self.ec2, self.account.as_deref()).await {
            Ok(instances) => catalog.reservations = instances,
            Err(error) => self.context.log(&ReservationsUnread { error: &error.to_string() }),
        }
        match groups::placement_groups(&self.ec2).await {
            Ok(groups) => catalog.placement_groups = groups,
            Err(error) => self.context.log(&PlacementGroupsUnread { error: &error.to_string() }),
        }
    }

    /// On-demand prices: read again when they are due; otherwise, or if that fails, the previous ones, or else the embedded ones.
    async fn on_demand_prices(
        &self,
        local_groups: &BTreeMap<String, String>,
        previous: Option<&Catalog>,
        now: Timestamp,
    ) -> Result<OnDemandPrices, PortError> {
        let embedded = Facts::embedded_prices_in(&self.region).map_err(|error| damaged(&error))?;
        let Some(client) = self.prices.as_ref().filter(|_| prices::due(previous, now)) else {
            return Ok(prices::fallback(previous, embedded));
        };
        Ok(match prices::read(client, &self.region, local_groups).await {
            Ok(new) => prices::merge(previous, new, now),
            Err(error) => {
                let kept = prices::fallback(previous, embedded);
                let line = OnDemandPricesUnread { source: kept.source, read: kept.read, error: &error.to_string() };
                self.context.log(&line);
                kept
            }
        })
    }

    /// Spot prices, and whether they are current.
    async fn spot_prices(&self, previous: Option<&Catalog>, now: Timestamp) -> (Option<SpotPrices>, bool) {
        let old = spot::of_catalog(previous);
        match spot::read(&self.ec2, now).await {
            Ok(new) => (Some(spot::merge(old, new)), true),
            Err(error) => {
                self.context.log(&SpotPricesUnread { kept: old.is_some(), error: &error.to_string() });
                (old, false)
            }
        }
    }
}

fn damaged(error: &impl Display) -> PortError {
    PortError::new(ErrorKind::Invalid, "embedded EC2 facts", error.to_string())
}

/// The catalog of the region of a configuration: the facts as EC2 describes them, and the catalog built from them.
///
/// # Errors
/// When no region is configured, or EC2 cannot be read. Prices that cannot be read are no error: the catalog contains the source
/// of its prices.
pub async fn read_region(config: &SdkConfig, context: Context) -> Result<(Facts, Catalog), PortError> {
    let (facts, catalog) = RegionReader::new(config, false, context)?.catalog(None).await?;
    let facts = facts.ok_or_else(|| {
        PortError::new(ErrorKind::Invalid, "EC2 catalog", "nothing was read although nothing was known")
    })?;
    Ok((facts, catalog))
}

/// EC2, SSM, IAM and the Price List, as the catalog function reads them.
#[derive(Clone, Debug)]
pub struct AwsCatalogSource {
    region: String,
    cluster: ClusterDetails,
    control_plane: CurrentControlPlane,
    node_profile: Option<NodeProfile>,
    /// The path below which instance profiles are created.
    iam_path: String,
    ec2: aws_sdk_ec2::Client,
    /// `None` if IAM cannot be reached.
    iam: Option<aws_sdk_iam::Client>,
    ssm: aws_sdk_ssm::Client,
    reader: RegionReader,
    parameters: Arc<images::Parameters>,
}

impl AwsCatalogSource {
    /// The source for the nodes of this cluster. `control_plane` reads from time to time what changes of it.
    /// `node_profile` is the existing instance profile of the node role; profiles of other roles are created here.
    ///
    /// `isolated` is Karpenter's `ISOLATED_VPC`: services without a VPC endpoint, IAM and the Price List, are not called.
    ///
    /// # Errors
    /// When the configuration names no region.
    pub fn new(
        config: &SdkConfig,
        cluster: ClusterDetails,
        control_plane: Arc<dyn DescribeControlPlane>,
        node_profile: Option<NodeProfile>,
        isolated: bool,
        context: Context,
    ) -> Result<Self, PortError> {
        let reader = RegionReader::new(config, isolated, context)?;
        Ok(Self {
            region: reader.region.clone(),
            control_plane: CurrentControlPlane::new(&cluster, control_plane, reader.context.now()),
            cluster,
            node_profile,
            iam_path: "/".to_owned(),
            ec2: reader.ec2.clone(),
            iam: (!isolated).then(|| aws_sdk_iam::Client::new(config)),
            ssm: aws_sdk_ssm::Client::new(config),
            reader,
            parameters: Arc::default(),
        })
    }
}

impl AwsCatalogSource {
    const fn context(&self) -> &Context {
        &self.reader.context
    }

    /// Creates instance profiles below this path, which begins and ends with `/`, for organizations that allow none elsewhere.
    #[must_use]
    pub fn with_iam_path(self, iam_path: String) -> Self {
        Self { iam_path, ..self }
    }

    /// With the account of the cluster: what is left of the capacity reservations of others may be used by others.
    #[must_use]
    pub fn with_account(mut self, account: Option<String>) -> Self {
        self.reader.account = account;
        self
    }

    /// Reads the account's Savings Plans and Reserved Instances too. The API of Savings Plans has one endpoint for each partition, which
    /// the SDK knows.
    #[must_use]
    pub fn with_commitments(mut self, config: &SdkConfig) -> Self {
        self.reader.savings_plans = Some(aws_sdk_savingsplans::Client::new(config));
        self
    }
}

#[async_trait]
impl CatalogSource for AwsCatalogSource {
    async fn catalog(&self, previous: Option<&Catalog>) -> Result<Catalog, PortError> {
        Ok(self.reader.catalog(previous).await?.1)
    }

    async fn resolve(&self, node_class: &EC2NodeClass) -> Result<EC2NodeClassStatus, PortError> {
        self.resolve_class(node_class).await
    }

    async fn release(&self, node_class: &EC2NodeClass) -> Result<(), PortError> {
        self.release_class(node_class).await
    }

    async fn certificate_authority(&self) -> Option<String> {
        self.control_plane.last().await.certificate_authority.as_deref().map(nodeless_launch::authority_digests)
    }
}

fn is_fresh(catalog: &Catalog, now: Timestamp) -> bool {
    catalog.read.is_some_and(|read| now.duration_since(read) < REFRESH)
}
