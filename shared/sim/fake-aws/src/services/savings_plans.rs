//! Savings Plans: DescribeSavingsPlans and DescribeSavingsPlanRates, by their paths.

use nodeless_model::listed_commitments::AccountCommitments;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::error::Ec2Error;
use super::super::state::Ec2;

/// The maximum size of a page. AWS does not document one for each call, and may return fewer than requested.
const A_PAGE: usize = 2;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request {
    savings_plan_id: Option<String>,
    #[serde(default)]
    states: Vec<String>,
    #[serde(default)]
    filters: Vec<Filter>,
    next_token: Option<String>,
    max_results: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Filter {
    name: String,
    values: Vec<String>,
}

pub(in super::super) fn call(ec2: &Ec2, action: &str, body: &[u8]) -> Result<Value, Ec2Error> {
    let invalid = |message: String| Ec2Error::new("ValidationException", message);
    let parameters: Value = serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
    ec2.call("savingsplans", action, &parameters, |state| {
        let request = Request::deserialize(&parameters).map_err(|error| invalid(error.to_string()))?;
        let none = AccountCommitments::default();
        let all = state.account.commitments.as_ref().unwrap_or(&none);
        match action {
            "DescribeSavingsPlans" => plans(all, &request),
            _ => rates(all, &request, &state.account.facts.region),
        }
    })
}

fn plans(all: &AccountCommitments, request: &Request) -> Result<Value, Ec2Error> {
    let of_state =
        all.plans.iter().filter(|(plan, _)| request.states.is_empty() || request.states.contains(&plan.state));
    page("savingsPlans", of_state.map(|(plan, _)| json!(plan)).collect(), request)
}

fn rates(all: &AccountCommitments, request: &Request, region: &str) -> Result<Value, Ec2Error> {
    let id = request.savings_plan_id.as_deref().unwrap_or_default();
    let found = all.plans().find(|(plan, _)| plan.id == id).and_then(|(_, rates)| rates);
    let missing = || Ec2Error::new("ResourceNotFoundException", format!("There is no Savings Plan {id}"));
    let rates = found.ok_or_else(missing)?.iter().map(|(instance_type, dollars)| {
        json!({
            "rate": dollars.to_string(), "currency": "USD", "unit": "Hrs", "productType": "EC2",
            "serviceCode": "AmazonEC2", "usageType": format!("BoxUsage:{instance_type}"), "operation": "RunInstances",
            "properties": [
                { "name": "instanceType", "value": instance_type }, { "name": "region", "value": region },
                { "name": "productDescription", "value": "Linux/UNIX" }, { "name": "tenancy", "value": "shared" },
            ],
        })
    });
    let passes = |rate: &Value| {
        request.filters.iter().all(|filter| filter.values.iter().any(|value| has(rate, &filter.name, value)))
    };
    page("searchResults", rates.filter(passes).collect(), request).map(|mut page| {
        page["savingsPlanId"] = json!(id);
        page
    })
}

fn has(rate: &Value, name: &str, value: &str) -> bool {
    let properties = rate["properties"].as_array().into_iter().flatten();
    rate[name] == value || properties.into_iter().any(|one| one["name"] == name && one["value"] == value)
}

fn page(name: &str, all: Vec<Value>, request: &Request) -> Result<Value, Ec2Error> {
    let start: usize = match &request.next_token {
        None => 0,
        Some(token) => token.parse().map_err(|_| Ec2Error::new("ValidationException", "Invalid token"))?,
    };
    let size = request.max_results.unwrap_or(A_PAGE).min(A_PAGE);
    let count = all.len();
    let mut answer = json!({ name: all.into_iter().skip(start).take(size).collect::<Vec<_>>() });
    if start + size < count {
        answer["nextToken"] = json!((start + size).to_string());
    }
    Ok(answer)
}
