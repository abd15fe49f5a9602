//! The embedded catalog of us-east-1, whose spot prices are synthetic.

use nodeless_catalog::node_class::AmiFamily;
use nodeless_catalog::{Catalog, Facts, NodeClassSettings, UnavailableOfferings};
use nodeless_model::InstanceTypes;

pub const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// All of it, in three zones, as a node class of Amazon Linux 2023 launches it.
pub fn catalog() -> InstanceTypes {
    let facts = Facts::embedded().unwrap().within_zones(&ZONES);
    let catalog = Catalog::synthetic(1, &facts);
    let settings = NodeClassSettings::new(AmiFamily::Al2023, facts.zones);
    InstanceTypes::from(catalog.instance_types(&settings, &UnavailableOfferings::default()))
}
