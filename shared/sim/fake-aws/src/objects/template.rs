//! A launch template and its versions.

use jiff::Timestamp;

use super::account::Tags;
use crate::error::Ec2Error;
use crate::requests::LaunchTemplateData;

/// A version of a launch template.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchTemplateVersion {
    /// The number, starting at 1.
    pub number: u64,
    /// The description.
    pub description: Option<String>,
    /// Creation time.
    pub created: Timestamp,
    /// The data of the template.
    pub data: LaunchTemplateData,
}

/// A launch template.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchTemplate {
    /// `lt-…`
    pub id: String,
    /// Name, unique in the account.
    pub name: String,
    /// Creation time.
    pub created: Timestamp,
    /// The version of `$Default`.
    pub default_version: u64,
    /// All versions, oldest first; there is always one.
    pub versions: Vec<LaunchTemplateVersion>,
    /// Tags.
    pub tags: Tags,
}

impl LaunchTemplate {
    /// The number of `$Latest`.
    pub fn latest_version(&self) -> u64 {
        self.versions.last().map_or(0, |version| version.number)
    }

    /// The version that a request means: a number, `$Latest`, `$Default` or nothing, which is the default.
    ///
    /// # Errors
    /// When there is no such version.
    pub fn version(&self, requested: Option<&str>) -> Result<&LaunchTemplateVersion, Ec2Error> {
        let number = match requested {
            None | Some("$Default") => Some(self.default_version),
            Some("$Latest") => Some(self.latest_version()),
            Some(number) => number.parse().ok(),
        };
        self.versions.iter().find(|version| Some(version.number) == number).ok_or_else(|| {
            let requested = requested.unwrap_or("$Default");
            Ec2Error::new(
                "InvalidLaunchTemplateId.VersionNotFound",
                format!("Could not find launch template version '{requested}' of launch template '{}'.", self.id),
            )
        })
    }
}
