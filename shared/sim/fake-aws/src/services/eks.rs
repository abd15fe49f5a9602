//! EKS: DescribeCluster and ListClusters.

use serde_json::{Value, json};

use super::super::error::Ec2Error;
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
        let cluster = account.clusters.iter().find(|cluster| cluster.name == name).ok_or_else(|| {
            Ec2Error::new("ResourceNotFoundException", format!("No cluster found for name: {name}.")).with_status(404)
        })?;
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
            "accessConfig": { "authenticationMode": "API" },
            "tags": {},
        });
        if let Some(mode) = &cluster.egress_mode {
            described["resourcesVpcConfig"]["controlPlaneEgressMode"] = json!(mode);
        }
        Ok(json!({ "cluster": described }))
    })
}
