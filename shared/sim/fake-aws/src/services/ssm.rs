//! SSM: public and own parameters.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::error::Ec2Error;
use super::super::state::{AccountState, Ec2};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
#[allow(dead_code)] // Values are not encrypted here, so decryption changes nothing.
struct GetParameter {
    name: String,
    #[serde(default)]
    with_decryption: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
#[allow(dead_code)] // Values are not encrypted here, so decryption changes nothing.
struct GetParameters {
    names: Vec<String>,
    #[serde(default)]
    with_decryption: bool,
}

fn read<'de, T: Deserialize<'de>>(parameters: &'de Value) -> Result<T, Ec2Error> {
    T::deserialize(parameters).map_err(|error| Ec2Error::new("ValidationException", error.to_string()))
}

pub(in super::super) fn call(ec2: &Ec2, action: &str, parameters: &Value) -> Result<Value, Ec2Error> {
    match action {
        "GetParameter" => ec2.call("ssm", action, parameters, |state| {
            let request: GetParameter = read(parameters)?;
            let found = parameter(state, &request.name);
            let found = found.ok_or_else(|| Ec2Error::new("ParameterNotFound", ""))?;
            Ok(json!({ "Parameter": found }))
        }),
        "GetParameters" => ec2.call("ssm", action, parameters, |state| {
            let request: GetParameters = read(parameters)?;
            if !(1..=10).contains(&request.names.len()) {
                let message = "1 validation error detected: names must have length between 1 and 10";
                return Err(Ec2Error::new("ValidationException", message));
            }
            let unknown = |name: &&String| parameter(state, name).is_none();
            Ok(json!({
                "Parameters": request.names.iter().filter_map(|name| parameter(state, name)).collect::<Value>(),
                "InvalidParameters": request.names.iter().filter(unknown).cloned().collect::<Value>(),
            }))
        }),
        other => Err(Ec2Error::unknown_operation(&format!("ssm:{other}"))),
    }
}

/// A parameter by its name or ARN.
fn parameter(state: &AccountState, requested: &str) -> Option<Value> {
    let account = &state.account;
    let name = match requested.strip_prefix("arn:") {
        Some(arn) => arn.split_once(":parameter").map(|(_, name)| name)?,
        None => requested,
    };
    let value = account.parameters.get(name)?;
    let owner = if name.starts_with("/aws/service/") { "" } else { &account.id };
    let slash = if name.starts_with('/') { "" } else { "/" };
    Some(json!({
        "Name": name,
        "Type": "String",
        "Value": value,
        "Version": 1,
        "DataType": "text",
        "ARN": format!("arn:aws:ssm:{}:{owner}:parameter{slash}{name}", account.facts.region),
        "LastModifiedDate": 0,
    }))
}
