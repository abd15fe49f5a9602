//! Subnets and security groups of an EC2NodeClass.

use super::filters::sdk_filters;
use aws_sdk_ec2::Client;
use nodeless_api::nodeclass::{SecurityGroup, SecurityGroupSelectorTerm, Subnet, SubnetSelectorTerm};
use nodeless_aws::port_error;
use nodeless_launch::node_class::query::{Query, tag_filters, terms_in_words};
use nodeless_launch::node_class::{Problem, Section};
use nodeless_ports::PortError;
use std::collections::BTreeMap;

/// A subnet with its free addresses.
#[derive(Clone, Debug, PartialEq)]
struct Found {
    subnet: Subnet,
    free_addresses: i32,
}

/// Finds the subnets that any of the terms selects.
///
/// # Errors
/// When EC2 cannot be read.
pub(super) async fn subnets(client: &Client, terms: &[SubnetSelectorTerm]) -> Result<Section<Vec<Subnet>>, PortError> {
    let mut found = Vec::new();
    for query in subnet_queries(terms) {
        let mut pages = client.describe_subnets().set_filters(Some(sdk_filters(&query))).into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| port_error("EC2 DescribeSubnets", &error))?;
            found.extend(page.subnets().iter().filter_map(|subnet| {
                Some(Found {
                    subnet: Subnet {
                        id: subnet.subnet_id()?.to_owned(),
                        zone: subnet.availability_zone()?.to_owned(),
                        zone_id: subnet.availability_zone_id().map(str::to_owned),
                    },
                    free_addresses: subnet.available_ip_address_count().unwrap_or_default(),
                })
            }));
        }
    }
    let subnets = ordered(found);
    let problem = subnets.is_empty().then(|| {
        let words = terms_in_words(terms.iter().map(|term| (term.tags.as_ref(), term.id.as_deref(), None)));
        Problem::new(
            "SubnetsNotFound",
            format!("spec.subnetSelectorTerms: this account and region has no subnet with {words}"),
        )
    });
    Ok(Section { value: subnets, problem })
}

/// Ids are combined in one query, and each set of tags has its own. In a term with an id everything else is ignored.
fn subnet_queries(terms: &[SubnetSelectorTerm]) -> Vec<Query> {
    let ids: Vec<String> = terms.iter().filter_map(|term| term.id.clone()).collect();
    let by_id = (!ids.is_empty()).then(|| vec![("subnet-id".to_owned(), ids)]);
    let by_tags = terms.iter().filter(|term| term.id.is_none()).filter_map(|term| term.tags.as_ref()).map(tag_filters);
    by_id.into_iter().chain(by_tags).collect()
}

/// Each subnet once; those with the most free addresses first, so that launches use the first one of a zone.
fn ordered(mut found: Vec<Found>) -> Vec<Subnet> {
    found.sort_by(|a, b| b.free_addresses.cmp(&a.free_addresses).then_with(|| a.subnet.id.cmp(&b.subnet.id)));
    let mut subnets: Vec<Subnet> = Vec::new();
    for Found { subnet, .. } in found {
        if subnets.iter().all(|known| known.id != subnet.id) {
            subnets.push(subnet);
        }
    }
    subnets
}

/// Finds the security groups that any of the terms selects, by id.
///
/// # Errors
/// When EC2 cannot be read.
pub(super) async fn security_groups(
    client: &Client,
    terms: &[SecurityGroupSelectorTerm],
) -> Result<Section<Vec<SecurityGroup>>, PortError> {
    let mut found = BTreeMap::new();
    for query in security_group_queries(terms) {
        let mut pages =
            client.describe_security_groups().set_filters(Some(sdk_filters(&query))).into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| port_error("EC2 DescribeSecurityGroups", &error))?;
            found.extend(page.security_groups().iter().filter_map(|group| {
                let id = group.group_id()?.to_owned();
                Some((id.clone(), SecurityGroup { id, name: group.group_name().map(str::to_owned) }))
            }));
        }
    }
    let problem = found.is_empty().then(|| {
        let words =
            terms_in_words(terms.iter().map(|term| (term.tags.as_ref(), term.id.as_deref(), term.name.as_deref())));
        let message =
            format!("spec.securityGroupSelectorTerms: this account and region has no security group with {words}");
        Problem::new("SecurityGroupsNotFound", message)
    });
    Ok(Section { value: found.into_values().collect(), problem })
}

fn security_group_queries(terms: &[SecurityGroupSelectorTerm]) -> Vec<Query> {
    let ids: Vec<String> = terms.iter().filter_map(|term| term.id.clone()).collect();
    let named = |term: &&SecurityGroupSelectorTerm| term.id.is_none();
    let names: Vec<String> = terms.iter().filter(named).filter_map(|term| term.name.clone()).collect();
    let mut queries = Vec::new();
    for (filter, values) in [("group-id", ids), ("group-name", names)] {
        if !values.is_empty() {
            queries.push(vec![(filter.to_owned(), values)]);
        }
    }
    let by_tags = terms.iter().filter(|term| term.id.is_none() && term.name.is_none());
    queries.extend(by_tags.filter_map(|term| term.tags.as_ref()).map(tag_filters));
    queries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
        Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    fn filter(name: &str, values: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
    }

    #[test]
    fn ids_are_asked_for_together_and_tags_apart() {
        let term = |tags, id: Option<&str>| SubnetSelectorTerm { tags, id: id.map(str::to_owned) };
        let terms = [
            term(None, Some("subnet-1")),
            term(tags(&[("a", "1"), ("b", "*")]), None),
            term(None, Some("subnet-2")),
            term(tags(&[("c", "3")]), None),
        ];
        assert_eq!(
            subnet_queries(&terms),
            [
                vec![filter("subnet-id", &["subnet-1", "subnet-2"])],
                vec![filter("tag:a", &["1"]), filter("tag-key", &["b"])],
                vec![filter("tag:c", &["3"])],
            ]
        );
    }

    #[test]
    fn groups_are_found_by_id_name_and_tags() {
        let terms = [
            SecurityGroupSelectorTerm { name: Some("nodes".into()), ..SecurityGroupSelectorTerm::default() },
            SecurityGroupSelectorTerm { id: Some("sg-1".into()), ..SecurityGroupSelectorTerm::default() },
            SecurityGroupSelectorTerm { tags: tags(&[("a", "1")]), ..SecurityGroupSelectorTerm::default() },
        ];
        assert_eq!(
            security_group_queries(&terms),
            [
                vec![filter("group-id", &["sg-1"])],
                vec![filter("group-name", &["nodes"])],
                vec![filter("tag:a", &["1"])]
            ]
        );
    }

    #[test]
    fn the_subnet_with_the_most_free_addresses_comes_first_and_once() {
        let found = |id: &str, zone: &str, free_addresses| Found {
            subnet: Subnet { id: id.into(), zone: zone.into(), zone_id: None },
            free_addresses,
        };
        let subnets =
            ordered(vec![found("s-3", "a", 5), found("s-2", "a", 9), found("s-1", "b", 5), found("s-2", "a", 9)]);
        let ids: Vec<&str> = subnets.iter().map(|subnet| subnet.id.as_str()).collect();
        assert_eq!(ids, ["s-2", "s-1", "s-3"]);
    }
}
