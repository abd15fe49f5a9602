//! Compares the objects of nodeless in a cluster with this command, and states what to do.

use crate::error::CliError;
use crate::output;
use nodeless_kubernetes::install::{Found, Installed};
use semver::Version;
use std::fmt::Write as _;
use std::process::ExitCode;

/// The exit code if the cluster does not have the objects of this version.
const DIFFERS: u8 = 2;
/// How to upgrade.
const UPGRADE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/install/upgrade.md");
const INSTALL: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/install/README.md");

/// An object compared with this command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// Of the same version, or an optional object that is absent, or a definition of another tool that has every field.
    Same,
    /// Of an older version, without a version, or absent although nodeless needs it.
    Older,
    /// Of a newer version.
    Newer,
    /// It may not be read.
    Unread,
}

/// The comparison, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparison {
    /// A line for each object, and what to do.
    text: String,
    /// Whether the cluster has exactly the objects of this version.
    is_current: bool,
    /// The number of objects that may not be read.
    unread: usize,
}

fn relation(own: &Version, installed: &Installed) -> Relation {
    match &installed.found {
        Found::Absent if installed.optional => Relation::Same,
        Found::Absent | Found::Applied(None) => Relation::Older,
        // A definition of another tool that is not complete is extended or refused by an installation.
        Found::Foreign { complete, .. } => {
            if *complete || installed.optional {
                Relation::Same
            } else {
                Relation::Older
            }
        }
        Found::Unread(_) => Relation::Unread,
        Found::Applied(Some(version)) => match Version::parse(version) {
            Ok(version) if version > *own => Relation::Newer,
            Ok(version) if version == *own => Relation::Same,
            // A version that cannot be read is none of a release: the installation applies its own.
            Ok(_) | Err(_) => Relation::Older,
        },
    }
}

fn line(installed: &Installed) -> String {
    let what = match &installed.found {
        Found::Absent if installed.optional => "absent, not needed".to_owned(),
        Found::Absent => "absent".to_owned(),
        Found::Applied(Some(version)) => version.clone(),
        Found::Applied(None) => "states no version".to_owned(),
        Found::Foreign { note, .. } => note.clone(),
        Found::Unread(why) => format!("cannot be read: {why}"),
    };
    format!("  {}: {what}\n", installed.object)
}

/// Compares what a cluster has with this command, and prints the comparison. The exit code states the result.
pub(crate) fn report(installed: &[Installed]) -> Result<ExitCode, CliError> {
    let own = Version::parse(env!("CARGO_PKG_VERSION")).map_err(CliError::OwnVersion)?;
    let comparison = compare(&own, installed);
    output::text(&comparison.text)?;
    match comparison {
        Comparison { unread: unread @ 1.., .. } => Err(CliError::UnreadObjects { unread }),
        Comparison { is_current: true, .. } => Ok(ExitCode::SUCCESS),
        Comparison { .. } => Ok(ExitCode::from(DIFFERS)),
    }
}

/// Compares what a cluster has with this version.
fn compare(own: &Version, all: &[Installed]) -> Comparison {
    let relations: Vec<Relation> = all.iter().map(|one| relation(own, one)).collect();
    let count = |of| relations.iter().filter(|relation| **relation == of).count();
    let is_none = all.iter().all(|one| one.optional || matches!(one.found, Found::Absent | Found::Foreign { .. }));
    let (older, newer, unread) = (count(Relation::Older), count(Relation::Newer), count(Relation::Unread));
    let mut text = format!("This command is nodeless {own}. The cluster has:\n");
    text.extend(all.iter().map(line));
    let advice = if is_none {
        format!("nodeless is not installed in this cluster. How to install it: {INSTALL}")
    } else if newer > 0 {
        newer_cluster(own, all)
    } else if older > 0 {
        older_cluster(own)
    } else if unread > 0 {
        "The other objects are of this version.".to_owned()
    } else {
        "The cluster has the objects of this version.".to_owned()
    };
    // Writing into a String does not fail.
    let _ = writeln!(text, "\n{advice}\n\n{LIMITS}");
    Comparison { text, is_current: older + newer + unread == 0 && !is_none, unread }
}

/// What the comparison does not know.
const LIMITS: &str = "Only the API server is asked. The versions of the functions cannot be read there: Terraform deploys them together with \
the installer, which applies these objects. Whether there is a newer release is not checked.";

fn newer_cluster(own: &Version, all: &[Installed]) -> String {
    let parsed = all.iter().filter_map(|one| match &one.found {
        Found::Applied(Some(version)) => Version::parse(version).ok(),
        _ => None,
    });
    let newest = parsed.max().map_or_else(|| own.to_string(), |newest| newest.to_string());
    format!(
        "The cluster is newer than this command. Install nodeless {newest} on this machine, and do not run `nodeless install` with this \
         command: it would apply the older objects."
    )
}

fn older_cluster(own: &Version) -> String {
    format!(
        "The cluster is older than this command. To upgrade it to {own}:\n\
         1. Read the changelog from the version of the cluster on.\n\
         2. Set the functions and the module of {own}. Where clusters share functions, begin with the module of the functions.\n\
         3. Run `terraform apply`: the installer applies these objects. With `install = false`, then run `nodeless install`.\n\
         {UPGRADE} describes each step."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Version = Version::new(1, 10, 0);

    fn role(found: Found) -> Installed {
        Installed { object: "ClusterRole nodeless:planner".to_owned(), optional: false, found }
    }

    fn installed(version: &str) -> Installed {
        role(Found::Applied(Some(version.to_owned())))
    }

    fn webhook(found: Found) -> Installed {
        Installed { object: "ValidatingWebhookConfiguration nodeless".to_owned(), optional: true, found }
    }

    fn foreign(complete: bool) -> Installed {
        role(Found::Foreign { complete, note: "Helm release karpenter/crd manages it".to_owned() })
    }

    #[test]
    fn a_cluster_with_the_objects_of_this_version_is_current() {
        for more in [installed("1.10.0"), webhook(Found::Absent), foreign(true)] {
            let comparison = compare(&OWN, &[installed("1.10.0"), more]);
            assert!(comparison.is_current && comparison.unread == 0, "{comparison:?}");
            assert!(comparison.text.contains("The cluster has the objects of this version."), "{comparison:?}");
        }
    }

    #[test]
    fn versions_are_compared_by_number_and_a_pre_release_is_before_its_release() {
        for version in ["1.9.0", "0.9.11", "1.10.0-rc.1", "main"] {
            let comparison = compare(&OWN, &[installed("1.10.0"), installed(version)]);
            assert!(!comparison.is_current && comparison.text.contains("is older than this command"), "{comparison:?}");
            assert!(comparison.text.contains(&format!("ClusterRole nodeless:planner: {version}\n")), "{comparison:?}");
        }
        for version in ["1.10.1", "1.11.0-rc.1", "2.0.0"] {
            let comparison = compare(&OWN, &[installed("1.9.0"), installed(version)]);
            let advice = format!("Install nodeless {version} on this machine");
            assert!(!comparison.is_current && comparison.text.contains(&advice), "{comparison:?}");
        }
    }

    #[test]
    fn what_is_absent_or_lacks_a_version_or_fields_is_older() {
        for one in [role(Found::Absent), role(Found::Applied(None)), foreign(false), webhook(Found::Applied(None))] {
            let comparison = compare(&OWN, &[installed("1.10.0"), one]);
            assert!(!comparison.is_current && comparison.text.contains("Set the functions and the module of 1.10.0"));
        }
    }

    #[test]
    fn a_cluster_without_nodeless_is_no_older_one() {
        let comparison = compare(&OWN, &[role(Found::Absent), foreign(true), webhook(Found::Absent)]);
        assert!(!comparison.is_current && comparison.text.contains("not installed in this cluster"), "{comparison:?}");
    }

    #[test]
    fn what_may_not_be_read_is_counted() {
        let unread = role(Found::Unread("forbidden".to_owned()));
        let comparison = compare(&OWN, &[installed("1.10.0"), unread]);
        assert!(!comparison.is_current && comparison.unread == 1, "{comparison:?}");
        assert!(comparison.text.contains("cannot be read: forbidden") && comparison.text.contains("The other objects"));
    }
}
