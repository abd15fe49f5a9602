//! The calls that create and delete launch templates and their versions.

use super::error::Ec2Error;
use super::objects::template::{LaunchTemplate, LaunchTemplateVersion};
use super::requests::{CreateLaunchTemplate, DeleteLaunchTemplate, LaunchTemplateData, LaunchTemplateSpecification};
use super::state::{AccountState, Ec2};
use super::tags::tags_for;

const MEMBERS: &[&str] = &[
    "BlockDeviceMappings",
    "CapacityReservationSpecification",
    "CpuOptions",
    "CreditSpecification",
    "DisableApiStop",
    "DisableApiTermination",
    "EbsOptimized",
    "EnclaveOptions",
    "HibernationOptions",
    "InstanceInitiatedShutdownBehavior",
    "InstanceMarketOptions",
    "KeyName",
    "MaintenanceOptions",
    "MetadataOptions",
    "Monitoring",
    "NetworkInterfaces",
    "NetworkPerformanceOptions",
    "Placement",
    "PrivateDnsNameOptions",
];

impl Ec2 {
    /// CreateLaunchTemplate.
    ///
    /// # Errors
    /// EC2's own.
    pub fn create_launch_template(&self, request: &CreateLaunchTemplate) -> Result<LaunchTemplate, Ec2Error> {
        self.call("ec2", "CreateLaunchTemplate", request, |state| state.create_launch_template(request))
    }

    /// CreateLaunchTemplateVersion: a new version of an existing template.
    ///
    /// # Errors
    /// EC2's own.
    pub fn create_launch_template_version(&self, request: &CreateLaunchTemplate) -> Result<LaunchTemplate, Ec2Error> {
        self.call("ec2", "CreateLaunchTemplateVersion", request, |state| {
            let data = checked_data(request)?;
            let (name, id) = (request.launch_template_name.as_deref(), request.launch_template_id.as_deref());
            let id = state.launch_template(id, name)?.id.clone();
            if request.dry_run {
                return Err(Ec2Error::dry_run());
            }
            let created = state.now;
            let found = state.launch_templates.get_mut(&id);
            let template = found.ok_or_else(|| not_found(Some(&id), None))?;
            let number = template.latest_version() + 1;
            let description = request.version_description.clone();
            template.versions.push(LaunchTemplateVersion { number, description, created, data });
            Ok(template.clone())
        })
    }

    /// DeleteLaunchTemplate.
    ///
    /// # Errors
    /// EC2's own.
    pub fn delete_launch_template(&self, request: &DeleteLaunchTemplate) -> Result<LaunchTemplate, Ec2Error> {
        self.call("ec2", "DeleteLaunchTemplate", request, |state| {
            let (id, name) = (request.launch_template_id.as_deref(), request.launch_template_name.as_deref());
            let id = state.launch_template(id, name)?.id.clone();
            if request.dry_run {
                return Err(Ec2Error::dry_run());
            }
            state.launch_templates.remove(&id).ok_or_else(|| not_found(Some(&id), None))
        })
    }
}

/// The template's data, if it exists and has only supported fields.
fn checked_data(request: &CreateLaunchTemplate) -> Result<LaunchTemplateData, Ec2Error> {
    let data = request.launch_template_data.clone().ok_or_else(|| Ec2Error::missing("LaunchTemplateData"))?;
    if let Some(member) = data.other.keys().find(|member| !MEMBERS.contains(&member.as_str())) {
        return Err(Ec2Error::unsupported(&format!("LaunchTemplateData.{member}")));
    }
    if data == LaunchTemplateData::default() {
        return Err(Ec2Error::new(
            "InvalidRequest",
            "The request is empty: at least one parameter of LaunchTemplateData must be given.",
        ));
    }
    check_user_data(data.user_data.as_deref())?;
    Ok(data)
}

/// EC2's limit on user data before base64 encoding, in bytes.
const USER_DATA_LIMIT: usize = 16_384;

/// User data is base64 of at most 16 KiB.
pub(super) fn check_user_data(data: Option<&str>) -> Result<(), Ec2Error> {
    use base64::Engine as _;
    let Some(data) = data else { return Ok(()) };
    let decoded = base64::engine::general_purpose::STANDARD.decode(data.trim());
    match decoded.map(|bytes| bytes.len()) {
        Err(_) => Err(Ec2Error::new("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")),
        Ok(length) if length > USER_DATA_LIMIT => {
            Err(Ec2Error::new("InvalidUserData.Malformed", format!("User data is limited to {USER_DATA_LIMIT} bytes")))
        }
        Ok(_) => Ok(()),
    }
}

pub(super) fn not_found(id: Option<&str>, name: Option<&str>) -> Ec2Error {
    match (id, name) {
        (Some(id), _) => Ec2Error::new(
            "InvalidLaunchTemplateId.NotFound",
            format!("The specified launch template, with template ID {id}, does not exist."),
        ),
        (None, name) => Ec2Error::new(
            "InvalidLaunchTemplateName.NotFoundException",
            format!("The specified launch template, with template name {}, does not exist.", name.unwrap_or_default()),
        ),
    }
}

impl AccountState {
    /// The template of a request.
    pub(super) fn launch_template(&self, id: Option<&str>, name: Option<&str>) -> Result<&LaunchTemplate, Ec2Error> {
        match (id, name) {
            (Some(_), Some(_)) => Err(Ec2Error::new(
                "InvalidParameterCombination",
                "Either provide launch template ID or launch template name, not both.",
            )),
            (None, None) => Err(Ec2Error::missing("LaunchTemplateId or LaunchTemplateName")),
            (Some(id), None) => self.launch_templates.get(id).ok_or_else(|| not_found(Some(id), None)),
            (None, Some(name)) => self
                .launch_templates
                .values()
                .find(|template| template.name == name)
                .ok_or_else(|| not_found(None, Some(name))),
        }
    }

    /// The template and version of a launch.
    pub(super) fn launch_template_version(
        &self,
        requested: &LaunchTemplateSpecification,
    ) -> Result<(&LaunchTemplate, &LaunchTemplateVersion), Ec2Error> {
        let (id, name) = (requested.launch_template_id.as_deref(), requested.launch_template_name.as_deref());
        let template = self.launch_template(id, name)?;
        Ok((template, template.version(requested.version.as_deref())?))
    }

    fn create_launch_template(&mut self, request: &CreateLaunchTemplate) -> Result<LaunchTemplate, Ec2Error> {
        let name = request.launch_template_name.clone();
        let name = name.ok_or_else(|| Ec2Error::missing("LaunchTemplateName"))?;
        let well_formed = |c: char| c.is_ascii_alphanumeric() || "()./_-".contains(c);
        if !(3..=128).contains(&name.len()) || !name.chars().all(well_formed) {
            return Err(Ec2Error::new(
                "InvalidLaunchTemplateName.MalformedException",
                format!("A launch template name must be 3 to 128 characters of A-Za-z0-9()./_-: '{name}'"),
            ));
        }
        let data = checked_data(request)?;
        let tags = tags_for(&request.tag_specifications, "launch-template")?;
        self.authorize("CreateLaunchTemplate", &request.tag_specifications, &["launch-template"])?;
        if let Some(id) = self.replayed::<String>("CreateLaunchTemplate", request.client_token.as_deref(), request)?
            && let Some(template) = self.launch_templates.get(&id)
        {
            return Ok(template.clone());
        }
        if self.launch_templates.values().any(|template| template.name == name) {
            return Err(Ec2Error::new(
                "InvalidLaunchTemplateName.AlreadyExistsException",
                format!("Launch template name already in use: {name}"),
            ));
        }
        if request.dry_run {
            return Err(Ec2Error::dry_run());
        }
        let id = self.new_id("lt");
        let first = LaunchTemplateVersion {
            number: 1,
            description: request.version_description.clone(),
            created: self.now,
            data,
        };
        let template =
            LaunchTemplate { id: id.clone(), name, created: self.now, default_version: 1, versions: vec![first], tags };
        self.launch_templates.insert(id.clone(), template.clone());
        self.remember("CreateLaunchTemplate", request.client_token.as_deref(), request, &id);
        Ok(template)
    }
}
