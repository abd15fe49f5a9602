//! EKS: DescribeCluster, ListClusters, and the access policies of access entries, which tests add to a cluster.

use std::collections::BTreeMap;

use axum::http::Method;
use serde_json::{Value, json};

use super::super::error::Ec2Error;
use super::super::objects::account::{Account, Cluster};
use super::super::state::Ec2;

/// `GET /clusters`
pub(in super::super) fn list_clusters(ec2: &Ec2) -> Result<Value, Ec2Error> {
    ec2.call("eks", "ListClusters", &Value::Null, |state| {
        let names: Value = state.account.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
        Ok(json!({ "clusters": names }))
    })
}

/// `GET /clusters/{name}`
pub(in super::super) fn describe_cluster(ec2: &Ec2, name: &str) -> Result<Value, Ec2Error> {
    ec2.call("eks", "DescribeCluster", &json!({ "name": name }), |state| {
        let account = &state.account;
        let cluster = account.clusters.iter().find(|cluster| cluster.name == name).ok_or_else(|| no_cluster(name))?;
        let family = if cluster.service_cidr.contains(':') { "ipv6" } else { "ipv4" };
        let service = if family == "ipv6" { "serviceIpv6Cidr" } else { "serviceIpv4Cidr" };
        let mut network = json!({ "ipFamily": family });
        network[service] = json!(cluster.service_cidr);
        let mut described = json!({
            "name": cluster.name,
            "arn": format!("arn:aws:eks:{}:{}:cluster/{}", account.facts.region, account.id, cluster.name),
            "createdAt": cluster.created.as_second(),
            "version": cluster.version,
            "platformVersion": "eks.1",
            "endpoint": cluster.endpoint,
            "roleArn": format!("arn:aws:iam::{}:role/{}-cluster", account.id, cluster.name),
            "resourcesVpcConfig": {
                "subnetIds": cluster.subnet_ids,
                "securityGroupIds": [],
                "clusterSecurityGroupId": cluster.security_group_id,
                "vpcId": cluster.vpc_id,
                "endpointPublicAccess": true,
                "endpointPrivateAccess": false,
                "publicAccessCidrs": ["0.0.0.0/0"],
            },
            "kubernetesNetworkConfig": network,
            "status": "ACTIVE",
            "certificateAuthority": { "data": cluster.certificate_authority },
            "accessConfig": { "authenticationMode": cluster.authentication_mode },
            "tags": {},
        });
        if let Some(mode) = &cluster.egress_mode {
            described["resourcesVpcConfig"]["controlPlaneEgressMode"] = json!(mode);
        }
        Ok(json!({ "cluster": described }))
    })
}

/// `POST` and `GET /clusters/{name}/access-entries/{principalArn}/access-policies`, and `DELETE` of one of them.
pub(in super::super) fn access_policies(
    ec2: &Ec2,
    method: &Method,
    name: &str,
    principal: &str,
    policy: &[&str],
    body: &[u8],
) -> Result<Value, Ec2Error> {
    match (method, policy) {
        (&Method::POST, []) => associate(ec2, name, principal, body),
        (&Method::GET, []) => list_associated(ec2, name, principal),
        (&Method::DELETE, [policy]) => disassociate(ec2, name, principal, policy),
        _ => Err(Ec2Error::unknown_operation(&format!("{method} of EKS access policies"))),
    }
}

/// AssociateAccessPolicy, which changes the scope of a policy that is associated.
fn associate(ec2: &Ec2, name: &str, principal: &str, body: &[u8]) -> Result<Value, Ec2Error> {
    let request: Value = serde_json::from_slice(body)
        .map_err(|error| Ec2Error::new("InvalidParameterException", format!("The request is no JSON: {error}")))?;
    let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (policy, scope) = (text("/policyArn"), text("/accessScope/type"));
    let parameters = json!({ "name": name, "principalArn": principal, "policyArn": policy, "accessScope": scope });
    ec2.call("eks", "AssociateAccessPolicy", &parameters, |state| {
        if !policy.contains(":cluster-access-policy/") || !["cluster", "namespace"].contains(&scope.as_str()) {
            return Err(Ec2Error::new("InvalidParameterException", "The policyArn or the accessScope is not valid."));
        }
        entry(&mut state.account, name, principal)?.insert(policy.clone(), scope.clone());
        let associated = json!({ "policyArn": policy, "accessScope": { "type": scope, "namespaces": [] } });
        Ok(json!({ "clusterName": name, "principalArn": principal, "associatedAccessPolicy": associated }))
    })
}

/// ListAssociatedAccessPolicies, on one page.
fn list_associated(ec2: &Ec2, name: &str, principal: &str) -> Result<Value, Ec2Error> {
    let parameters = json!({ "name": name, "principalArn": principal });
    ec2.call("eks", "ListAssociatedAccessPolicies", &parameters, |state| {
        let policies = entry(&mut state.account, name, principal)?.iter();
        let associated: Vec<Value> = policies
            .map(|(policy, scope)| json!({ "policyArn": policy, "accessScope": { "type": scope, "namespaces": [] } }))
            .collect();
        Ok(json!({ "clusterName": name, "principalArn": principal, "associatedAccessPolicies": associated }))
    })
}

/// DisassociateAccessPolicy.
fn disassociate(ec2: &Ec2, name: &str, principal: &str, policy: &str) -> Result<Value, Ec2Error> {
    let parameters = json!({ "name": name, "principalArn": principal, "policyArn": policy });
    ec2.call("eks", "DisassociateAccessPolicy", &parameters, |state| {
        let removed = entry(&mut state.account, name, principal)?.remove(policy);
        let message = format!("The policy {policy} is not associated with {principal}.");
        removed.map(|_| json!({})).ok_or_else(|| not_found(message))
    })
}

/// The access policies of an access entry.
fn entry<'a>(
    account: &'a mut Account,
    name: &str,
    principal: &str,
) -> Result<&'a mut BTreeMap<String, String>, Ec2Error> {
    let named = |cluster: &&mut Cluster| cluster.name == name;
    let cluster = account.clusters.iter_mut().find(named).ok_or_else(|| no_cluster(name))?;
    if cluster.authentication_mode == "CONFIG_MAP" {
        let message = "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform \
                       this operation.";
        return Err(Ec2Error::new("InvalidRequestException", message));
    }
    let message = "The specified principalArn could not be found. You can view your available access entries with \
                   'list-access-entries'.";
    cluster.access_entries.get_mut(principal).ok_or_else(|| not_found(message))
}

fn no_cluster(name: &str) -> Ec2Error {
    not_found(format!("No cluster found for name: {name}."))
}

fn not_found(message: impl Into<String>) -> Ec2Error {
    Ec2Error::new("ResourceNotFoundException", message).with_status(404)
}
