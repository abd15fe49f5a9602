//! Capacity reservations that are given as files, because neither exports nor the Kubernetes API contain how many instances are available.

use crate::error::CliError;
use crate::input_files;
use clap::Args;
use nodeless_api::EC2NodeClass;
use nodeless_api::view::ClusterView;
use nodeless_launch::node_class::exported_reservations::ExportedReservations;
use std::path::PathBuf;

/// The option that names capacity reservations.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ReservationArguments {
    /// Files, or directories of such files, with the output of `aws ec2 describe-capacity-reservations`: EC2NodeClasses select among
    /// these capacity reservations, and nodes are planned in their available instances [default: capacity reservations count as
    /// full]; may be repeated
    #[arg(long, value_name = "FILE", num_args = 1..)]
    capacity_reservations: Vec<PathBuf>,
}

impl ReservationArguments {
    /// Whether files are given.
    pub(crate) fn are_given(&self) -> bool {
        !self.capacity_reservations.is_empty()
    }

    /// Reads the files; `None` if none are given.
    pub(crate) fn read(&self) -> Result<Option<ExportedReservations>, CliError> {
        if !self.are_given() {
            return Ok(None);
        }
        let mut exported = ExportedReservations::default();
        for (name, bytes) in input_files::contents(&self.capacity_reservations)? {
            exported.read(&name, &bytes)?;
        }
        Ok(Some(exported))
    }
}

/// The assumption about the capacity reservations of EC2NodeClasses if no files are given.
pub(crate) fn assumed_full(view: &ClusterView) -> Option<String> {
    let selects = |(name, class): (&String, &EC2NodeClass)| {
        (!class.spec.capacity_reservation_selector_terms.is_empty()).then(|| name.clone())
    };
    let classes: Vec<String> = view.node_classes.iter().filter_map(selects).collect();
    (!classes.is_empty()).then(|| {
        format!(
            "the capacity reservations of EC2NodeClass {} are assumed to have no available instances; give the output of \
             `aws ec2 describe-capacity-reservations` with --capacity-reservations",
            classes.join(", ")
        )
    })
}
