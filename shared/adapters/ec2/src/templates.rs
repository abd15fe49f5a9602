//! Finding and deleting launch templates.

use aws_config::SdkConfig;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::{Filter, LaunchTemplate};
use nodeless_aws::port_error;
use nodeless_model::labels;
use nodeless_ports::{ErrorKind, PortError};

/// The prefix of the names of nodeless' launch templates. Karpenter's have another one.
pub(crate) const PREFIX: &str = "nodeless/";
/// The maximum page size of EC2.
const PAGE: i32 = 200;

/// Deletes all launch templates that nodeless created for this cluster, for the uninstallation of nodeless. Running instances do
/// not need them. Returns their names.
///
/// # Errors
/// When EC2 cannot be read, or rejected a deletion.
pub async fn delete_launch_templates(config: &SdkConfig, cluster: &str) -> Result<Vec<String>, PortError> {
    let client = Client::new(config);
    let found = list(&client, cluster, None).await?;
    delete(&client, found.iter().filter(|template| is_ours(template))).await
}

/// The launch templates with these names that exist. With a filter, because a name that does not exist fails the whole call.
pub(crate) async fn named<'a>(
    client: &Client,
    names: impl Iterator<Item = &'a str>,
) -> Result<Vec<LaunchTemplate>, PortError> {
    let names = names.map(str::to_owned).collect();
    described(client, vec![Filter::builder().name("launch-template-name").set_values(Some(names)).build()]).await
}

/// The launch templates of a cluster, or of one of its EC2NodeClasses.
pub(crate) async fn list(
    client: &Client,
    cluster: &str,
    node_class: Option<&str>,
) -> Result<Vec<LaunchTemplate>, PortError> {
    let filter = |key: &str, value: &str| Filter::builder().name(format!("tag:{key}")).values(value).build();
    let filters = std::iter::once(filter(labels::CLUSTER_NAME_TAG, cluster))
        .chain(node_class.map(|class| filter(labels::EC2_NODE_CLASS, class)));
    described(client, filters.collect()).await
}

async fn described(client: &Client, filters: Vec<Filter>) -> Result<Vec<LaunchTemplate>, PortError> {
    let request = client.describe_launch_templates().set_filters(Some(filters));
    let mut pages = request.into_paginator().page_size(PAGE).send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| port_error("EC2 DescribeLaunchTemplates", &error))?;
        found.extend(page.launch_templates.unwrap_or_default());
    }
    Ok(found)
}

/// Deletes launch templates; a missing one counts as success. Returns their names.
pub(crate) async fn delete<'a>(
    client: &Client,
    templates: impl Iterator<Item = &'a LaunchTemplate>,
) -> Result<Vec<String>, PortError> {
    let mut deleted = Vec::new();
    for template in templates {
        let Some(id) = template.launch_template_id() else { continue };
        let answer = client.delete_launch_template().launch_template_id(id).send().await;
        match answer.map_err(|error| port_error("EC2 DeleteLaunchTemplate", &error)) {
            Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
            _ => deleted.push(template.launch_template_name().unwrap_or(id).to_owned()),
        }
    }
    Ok(deleted)
}

/// Whether nodeless, and not Karpenter, created the template.
pub(crate) fn is_ours(template: &LaunchTemplate) -> bool {
    template.launch_template_name().is_some_and(|name| name.starts_with(PREFIX))
}
