//! STS: GetCallerIdentity.

use serde_json::{Value, json};

use super::super::error::Ec2Error;
use super::super::state::Ec2;

pub(in super::super) const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

pub(in super::super) fn call(ec2: &Ec2, action: &str) -> Result<Value, Ec2Error> {
    if action != "GetCallerIdentity" {
        return Err(Ec2Error::unknown_action(action));
    }
    ec2.call("sts", action, &Value::Null, |state| {
        let account = &state.account.id;
        Ok(json!({
            "Account": account,
            "UserId": "AROASIMULATED00000001:session",
            "Arn": format!("arn:aws:sts::{account}:assumed-role/simulated/session"),
        }))
    })
}
