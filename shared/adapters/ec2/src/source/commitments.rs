//! Savings Plans and Reserved Instances of the account.
//!
//! Those of other accounts of an organization, which share their discounts with this one, are not listed:
//! <https://docs.aws.amazon.com/savingsplans/latest/APIReference/API_DescribeSavingsPlans.html>

use aws_sdk_ec2::types as ec2;
use aws_sdk_savingsplans::types::{SavingsPlan, SavingsPlanRate, SavingsPlanRateFilter, SavingsPlanState};
use jiff::Timestamp;
use nodeless_aws::port_error;
use nodeless_commitments::{Rate, RateProperty, check_plan, check_reserved, may_apply, rates_by_type};
use nodeless_model::listed_commitments::{
    AccountCommitments, ListedReservedInstances, ListedSavingsPlan, RecurringCharge,
};
use nodeless_ports::{ErrorKind, PortError};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The maximum page size.
const A_PAGE: i32 = 1000;
/// The maximum number of pages of a list: more are a defect of the service.
const MAX_PAGES: usize = 100;
/// The maximum number of rates that are stored, those of plans with equal rates once. They are about 100 kB in the catalog's item, whose
/// size is limited, and those of ten Compute Savings Plans of different terms.
const MAX_RATES: usize = 10_000;

/// The commitments as they were read, and those that are left out, each with the reason.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) commitments: AccountCommitments,
    pub(super) left_out: Vec<String>,
}

/// Reads the active commitments that may apply to instances of a region. Rates are kept of instance types that `is_known` accepts.
///
/// # Errors
/// When a list cannot be read.
pub(super) async fn read(
    ec2: &aws_sdk_ec2::Client,
    savings_plans: &aws_sdk_savingsplans::Client,
    region: &str,
    is_known: impl Fn(&str) -> bool,
) -> Result<Read, PortError> {
    let mut read = Read::default();
    for reserved in reserved_instances(ec2).await? {
        match check_reserved(&reserved) {
            Ok(()) => read.commitments.reserved.push(reserved),
            Err(unusable) => read.left_out.push(unusable.to_string()),
        }
    }
    let mut plans = plans(savings_plans, &mut read.left_out).await?;
    plans.retain(|plan| may_apply(plan, region));
    // The largest commitments first, if there is no space for all.
    plans.sort_by(|one, two| dollars(two).total_cmp(&dollars(one)).then_with(|| one.id.cmp(&two.id)));
    for plan in plans {
        let listed = rates(savings_plans, &plan.id, region).await?;
        let listed: Vec<Rate<'_>> = listed.iter().map(rate).collect();
        match check_plan(&plan).and_then(|()| rates_by_type(&plan, &listed, region)) {
            Ok(mut rates) => {
                rates.retain(|instance_type, _| is_known(instance_type));
                add(&mut read, plan, rates);
            }
            Err(unusable) => read.left_out.push(unusable.to_string()),
        }
    }
    Ok(read)
}

fn add(read: &mut Read, plan: ListedSavingsPlan, rates: BTreeMap<String, f64>) {
    let stored: usize = read.commitments.rates.iter().map(BTreeMap::len).sum();
    if stored + rates.len() > MAX_RATES && !read.commitments.rates.contains(&rates) {
        read.left_out.push(format!("{}: the catalog has no space for its rates", plan.id));
    } else {
        read.commitments.add_plan(plan, rates);
    }
}

fn dollars(plan: &ListedSavingsPlan) -> f64 {
    plan.commitment.parse().unwrap_or_default()
}

async fn reserved_instances(client: &aws_sdk_ec2::Client) -> Result<Vec<ListedReservedInstances>, PortError> {
    let answer = client
        .describe_reserved_instances()
        .filters(ec2::Filter::builder().name("state").values("active").build())
        .send()
        .await
        .map_err(|error| port_error("EC2 DescribeReservedInstances", &error))?;
    Ok(answer.reserved_instances().iter().filter_map(reserved).collect())
}

/// `None` for one without an ID, a type or a term, which covers nothing.
fn reserved(listed: &ec2::ReservedInstances) -> Option<ListedReservedInstances> {
    let charge = |charge: &ec2::RecurringCharge| RecurringCharge {
        amount: charge.amount().unwrap_or_default(),
        frequency: charge.frequency().map(|it| it.as_str().to_owned()).unwrap_or_default(),
    };
    let seconds = |at: Option<&aws_sdk_ec2::primitives::DateTime>| Timestamp::from_second(at?.secs()).ok();
    Some(ListedReservedInstances {
        id: listed.reserved_instances_id()?.to_owned(),
        instance_type: listed.instance_type()?.as_str().to_owned(),
        instance_count: u32::try_from(listed.instance_count()?).ok()?,
        availability_zone: listed.availability_zone().map(str::to_owned),
        product_description: listed.product_description()?.as_str().to_owned(),
        instance_tenancy: listed.instance_tenancy()?.as_str().to_owned(),
        // It is in dollars if it is missing.
        currency_code: listed.currency_code().map_or("USD", |it| it.as_str()).to_owned(),
        state: listed.state()?.as_str().to_owned(),
        start: seconds(listed.start())?,
        end: seconds(listed.end())?,
        #[expect(clippy::cast_precision_loss, reason = "three years are 10^8 seconds")]
        duration: listed.duration()? as f64,
        fixed_price: f64::from(listed.fixed_price().unwrap_or_default()),
        usage_price: f64::from(listed.usage_price().unwrap_or_default()),
        recurring_charges: listed.recurring_charges().iter().map(charge).collect(),
    })
}

async fn plans(
    client: &aws_sdk_savingsplans::Client,
    left_out: &mut Vec<String>,
) -> Result<Vec<ListedSavingsPlan>, PortError> {
    const OPERATION: &str = "Savings Plans DescribeSavingsPlans";
    let (mut plans, mut token) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let request = client.describe_savings_plans().states(SavingsPlanState::Active);
        let request = request.max_results(A_PAGE).set_next_token(token);
        let page = request.send().await.map_err(|error| port_error(OPERATION, &error))?;
        for listed in page.savings_plans() {
            match plan(listed) {
                Some(plan) => plans.push(plan),
                None => left_out.push(format!(
                    "{}: it is described without kind, commitment or term",
                    listed.savings_plan_id().unwrap_or("a Savings Plan")
                )),
            }
        }
        token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(plans);
        }
    }
    Err(endless(OPERATION))
}

fn plan(listed: &SavingsPlan) -> Option<ListedSavingsPlan> {
    Some(ListedSavingsPlan {
        id: listed.savings_plan_id()?.to_owned(),
        savings_plan_type: listed.savings_plan_type()?.as_str().to_owned(),
        commitment: listed.commitment()?.to_owned(),
        currency: listed.currency().map_or("USD", |it| it.as_str()).to_owned(),
        state: listed.state()?.as_str().to_owned(),
        start: listed.start()?.parse().ok()?,
        end: listed.end()?.parse().ok()?,
        family: listed.ec2_instance_family().map(str::to_owned),
        region: listed.region().map(str::to_owned),
    })
}

/// The rates of a plan for Linux instances of shared tenancy in a region.
async fn rates(
    client: &aws_sdk_savingsplans::Client,
    id: &str,
    region: &str,
) -> Result<Vec<SavingsPlanRate>, PortError> {
    const OPERATION: &str = "Savings Plans DescribeSavingsPlanRates";
    let filters =
        [("region", region), ("productType", "EC2"), ("productDescription", "Linux/UNIX"), ("tenancy", "shared")];
    let filters = filters.map(|(name, value)| SavingsPlanRateFilter::builder().name(name.into()).values(value).build());
    let (mut rates, mut token) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let request = client.describe_savings_plan_rates().savings_plan_id(id).max_results(A_PAGE);
        let request = request.set_filters(Some(filters.to_vec())).set_next_token(token);
        let page = request.send().await.map_err(|error| port_error(OPERATION, &error))?;
        token = page.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
        rates.extend(page.search_results.unwrap_or_default());
        if token.is_none() {
            return Ok(rates);
        }
    }
    Err(endless(OPERATION))
}

fn endless(operation: &str) -> PortError {
    PortError::new(ErrorKind::Unavailable, operation, format!("the list has more than {MAX_PAGES} pages"))
}

fn rate(listed: &SavingsPlanRate) -> Rate<'_> {
    let text = |text: Option<&'_ str>| Cow::Owned(text.unwrap_or_default().to_owned());
    let property = |one: &aws_sdk_savingsplans::types::SavingsPlanRateProperty| RateProperty {
        name: text(one.name().map(|it| it.as_str())),
        value: text(one.value()),
    };
    Rate {
        rate: text(listed.rate()),
        unit: text(listed.unit().map(|it| it.as_str())),
        product_type: text(listed.product_type().map(|it| it.as_str())),
        usage_type: text(listed.usage_type()),
        currency: text(listed.currency().map(|it| it.as_str())),
        properties: listed.properties().iter().map(property).collect(),
    }
}
