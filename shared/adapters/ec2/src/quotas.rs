//! The quotas of EC2 in an account and region.

use aws_config::SdkConfig;
use aws_sdk_servicequotas::Client;
use nodeless_aws::port_error;
use nodeless_ports::PortError;

/// A quota, as Service Quotas lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedQuota {
    /// The name, such as `Running On-Demand G and VT instances`.
    pub name: String,
    /// The code, such as `L-DB2E81BA`.
    pub code: String,
    /// The value for this account, in the unit of the quota.
    pub value: f64,
}

/// All quotas of EC2 that apply to the account, by ListServiceQuotas.
///
/// # Errors
/// When Service Quotas does not answer, or denies the request.
pub async fn quotas(config: &SdkConfig) -> Result<Vec<ListedQuota>, PortError> {
    let request = Client::new(config).list_service_quotas().service_code("ec2");
    let mut pages = request.into_paginator().items().send();
    let mut quotas = Vec::new();
    while let Some(quota) = pages.next().await {
        let quota = quota.map_err(|error| port_error("ServiceQuotas ListServiceQuotas", &error))?;
        if let (Some(name), Some(code), Some(value)) = (quota.quota_name, quota.quota_code, quota.value) {
            quotas.push(ListedQuota { name, code, value });
        }
    }
    Ok(quotas)
}
