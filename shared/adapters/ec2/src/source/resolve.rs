//! Resolves an EC2NodeClass to its status.

use super::images::ImageSource;
use super::{AwsCatalogSource, groups, network, profiles};
use crate::control_plane::READ_AGAIN;
use crate::log_lines::{ControlPlaneUnread, ReservationSkipped};
use crate::templates;
use nodeless_api::{EC2NodeClass, EC2NodeClassStatus, hash};
use nodeless_launch::node_class::{Section, check, conditions, or_previous, validation};
use nodeless_ports::{ErrorKind, PortError};
use profiles::Owner;

impl AwsCatalogSource {
    /// Resolves everything that the class selects.
    ///
    /// # Errors
    /// When something cannot be read temporarily; the present status is kept.
    pub(super) async fn resolve_class(&self, class: &EC2NodeClass) -> Result<EC2NodeClassStatus, PortError> {
        let now = self.context().now();
        let (spec, node_class) = (&class.spec, class.metadata.name.as_deref().unwrap_or_default());
        let before = class.status.clone().unwrap_or_default();
        let subnets = network::subnets(&self.ec2, &spec.subnet_selector_terms).await;
        let subnets = or_previous("spec.subnetSelectorTerms", subnets, before.subnets)?;
        let security_groups = network::security_groups(&self.ec2, &spec.security_group_selector_terms).await;
        let security_groups = or_previous("spec.securityGroupSelectorTerms", security_groups, before.security_groups)?;
        let reservations =
            groups::selected_reservations(&self.ec2, &spec.capacity_reservation_selector_terms, now).await;
        let reservations = reservations.map(|(section, left_out)| {
            for why in &left_out {
                self.context().log(&ReservationSkipped { node_class, why });
            }
            section
        });
        let reservations =
            or_previous("spec.capacityReservationSelectorTerms", reservations, before.capacity_reservations)?;
        let placement = groups::placement_group(&self.ec2, spec.placement_group_selector.as_ref()).await;
        let placement = or_previous("spec.placementGroupSelector", placement, ())?;
        let (control_plane, unread) = self.control_plane.at(now, READ_AGAIN).await;
        if let Some(error) = unread {
            self.context().log(&ControlPlaneUnread { error: &error.to_string() });
        }
        let source = ImageSource {
            ec2: &self.ec2,
            ssm: &self.ssm,
            parameters: &self.parameters,
            context: self.context(),
            node_class,
        };
        let known = if check::resolves_to_its_status(class) { before.amis.as_slice() } else { &[] };
        let amis = source.find(spec, &control_plane.version, known, now).await;
        let amis = or_previous("spec.amiSelectorTerms", amis, before.amis)?;
        let profile = self.instance_profile(class, before.instance_profile.as_deref()).await;
        let profile = or_previous("spec.role", profile, before.instance_profile)?;
        let sections = [
            ("SubnetsReady", subnets.problem),
            ("SecurityGroupsReady", security_groups.problem),
            ("CapacityReservationsReady", reservations.problem),
            ("AMIsReady", amis.problem),
            ("InstanceProfileReady", profile.problem),
            ("PlacementGroupReady", placement.problem),
        ];
        Ok(EC2NodeClassStatus {
            subnets: subnets.value,
            security_groups: security_groups.value,
            capacity_reservations: reservations.value,
            amis: amis.value,
            instance_profile: profile.value,
            resolved_hash: Some(hash::resolved_fields(spec)),
            conditions: conditions(class, &sections, validation::validate(&self.cluster, spec), now),
        })
    }

    /// The profile that the class names, the existing one for its role, or one that is created here.
    async fn instance_profile(
        &self,
        class: &EC2NodeClass,
        in_use: Option<&str>,
    ) -> Result<Section<Option<String>>, PortError> {
        if let Some(profile) = &class.spec.instance_profile {
            return Ok(Section::ready(Some(profile.clone())));
        }
        let role = profiles::role_name(class.spec.role.as_deref().unwrap_or_default());
        if role.is_empty() {
            let message = "the class has neither spec.role nor spec.instanceProfile; set one of them";
            return Err(PortError::new(ErrorKind::Invalid, "IAM instance profile", message));
        }
        if let Some(made) = self.node_profile.as_ref().filter(|made| made.role == role) {
            return Ok(Section::ready(Some(made.name.clone())));
        }
        let Some(iam) = &self.iam else {
            let made = self.node_profile.as_ref().map_or("none was made beforehand".to_owned(), |made| {
                format!("the one that was made beforehand is for the role {}", made.role)
            });
            let message = format!(
                "an instance profile for the role {role} cannot be made, since IAM is not called from an isolated VPC, and \
                 {made}; name a profile in spec.instanceProfile, or that role"
            );
            return Err(PortError::new(ErrorKind::Invalid, "IAM instance profile", message));
        };
        let owner = Owner::new(&self.region, &self.cluster.name, &self.iam_path, class)?;
        profiles::ensure(iam, &owner, role, &class.spec.tags, in_use).await
    }

    /// Deletes profiles and launch templates of the class.
    ///
    /// # Errors
    /// When something could not be read or deleted.
    pub(super) async fn release_class(&self, class: &EC2NodeClass) -> Result<(), PortError> {
        let owner = Owner::new(&self.region, &self.cluster.name, &self.iam_path, class)?;
        let in_use = class.status.as_ref().and_then(|status| status.instance_profile.as_deref());
        // A profile that the class names, or that existed, belongs to another owner.
        let named = class.spec.instance_profile.as_deref();
        let made = self.node_profile.as_ref().map(|made| made.name.as_str());
        let in_use = in_use.filter(|profile| Some(*profile) != named && Some(*profile) != made);
        // Without IAM no profile was created.
        if let Some(iam) = &self.iam {
            profiles::release(iam, &owner, in_use).await?;
        }
        // Including Karpenter's: nothing launches from them any more.
        let found = templates::list(&self.ec2, &self.cluster.name, Some(&owner.class)).await?;
        templates::delete(&self.ec2, found.iter()).await.map(drop)
    }
}
