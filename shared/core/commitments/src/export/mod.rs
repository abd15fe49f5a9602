//! Commitments as AWS lists them. [`of_account`] selects those of an account that the API listed. [`Exports`] reads what the AWS CLI exports: `aws savingsplans describe-savings-plans`, `aws savingsplans describe-savings-plan-rates` for each
//! plan, and `aws ec2 describe-reserved-instances`, as JSON.

mod account;
mod plans;
mod rates;
mod reserved;

pub use account::{UnusableCommitment, check_plan, check_reserved, may_apply, of_account, rates_by_type};
pub use rates::{Rate, RateProperty};

use crate::model::{Commitments, Share};
use jiff::Timestamp;
use nodeless_model::listed_commitments::{ListedReservedInstances, ListedSavingsPlan};
use nodeless_model::shell::quoted;
use rates::Rates;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Why exports cannot be used. Each message states what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// A file is not JSON, is not complete, or has a field of another form.
    #[error(
        "{file} is no complete JSON output of the AWS CLI: {why}; export it again, with --output json and without --query"
    )]
    Json {
        /// The file.
        file: String,
        /// The error of the JSON parser.
        why: String,
    },
    /// A file has none of the fields that are read.
    #[error(
        "{file} has no savingsPlans, searchResults or ReservedInstances; give the output of `aws savingsplans describe-savings-plans`, \
         `aws savingsplans describe-savings-plan-rates` and `aws ec2 describe-reserved-instances`"
    )]
    Unknown {
        /// The file.
        file: String,
    },
    /// A file has rates and no Savings Plan.
    #[error(
        "{file} has rates without savingsPlanId, such as those of offerings; give the output of \
         `aws savingsplans describe-savings-plan-rates --savings-plan-id ID`"
    )]
    RatesOfNoPlan {
        /// The file.
        file: String,
    },
    /// A value of a commitment cannot be used.
    #[error("{file}: {id}: {why}; export it again")]
    Value {
        /// The file.
        file: String,
        /// The ID of the Savings Plan or of the Reserved Instances.
        id: String,
        /// What is wrong.
        why: String,
    },
    /// Two files describe the same commitment differently.
    #[error("{file}: {id} is described differently in another file; give the latest export only")]
    Twice {
        /// The file.
        file: String,
        /// The ID.
        id: String,
    },
    /// A list has further pages.
    #[error(
        "{file} has a nextToken, so it is not the whole list; export the other Savings Plans too, with `--next-token`, or all with `--max-results 1000`"
    )]
    MorePlans {
        /// The file.
        file: String,
    },
    /// The rates of a plan are missing, in part or completely.
    #[error("{what}; export them with `{command}`, and add the file to --commitments")]
    Rates {
        /// What is missing.
        what: String,
        /// The command that exports it.
        command: String,
    },
}

/// What was exported.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    plans: BTreeMap<String, ListedSavingsPlan>,
    /// By the ID of the plan.
    rates: BTreeMap<String, Rates>,
    /// Each with the place of its file.
    reserved: BTreeMap<String, (usize, ListedReservedInstances)>,
    files: usize,
    /// A file whose list of plans has a further page, and whether there is one without.
    unfinished: Option<String>,
    has_last_page: bool,
}

#[derive(Deserialize)]
struct File<'a> {
    #[serde(default, rename = "savingsPlans")]
    plans: Option<Vec<ListedSavingsPlan>>,
    #[serde(default, rename = "savingsPlanId")]
    of_plan: Option<String>,
    #[serde(default, borrow, rename = "searchResults")]
    rates: Option<Vec<Rate<'a>>>,
    #[serde(default, rename = "ReservedInstances")]
    reserved: Option<Vec<ListedReservedInstances>>,
    #[serde(default, rename = "nextToken", alias = "NextToken")]
    next_token: Option<String>,
}

impl Exports {
    /// Reads a file. The order of files does not matter.
    pub fn read(&mut self, file: &str, bytes: &[u8]) -> Result<(), ExportError> {
        let named = || file.to_owned();
        let parsed: File<'_> = serde_json::from_slice(bytes)
            .map_err(|error| ExportError::Json { file: named(), why: error.to_string() })?;
        let more = parsed.next_token.is_some_and(|token| !token.is_empty());
        if parsed.plans.is_none() && parsed.rates.is_none() && parsed.reserved.is_none() {
            return Err(ExportError::Unknown { file: named() });
        }
        if let Some(rates) = parsed.rates {
            let Some(id) = parsed.of_plan else { return Err(ExportError::RatesOfNoPlan { file: named() }) };
            self.rates.entry(id.clone()).or_default().add(&rates, more).map_err(|why| ExportError::Value {
                file: named(),
                id,
                why,
            })?;
        } else if parsed.plans.is_some() {
            self.has_last_page |= !more;
            self.unfinished = self.unfinished.take().or_else(|| more.then(named));
        }
        for plan in parsed.plans.into_iter().flatten() {
            plans::check(&plan).map_err(|why| ExportError::Value { file: named(), id: plan.id.clone(), why })?;
            add(&mut self.plans, file, plan.id.clone(), plan, |one, two| one == two)?;
        }
        for reserved in parsed.reserved.into_iter().flatten() {
            reserved::check(&reserved).map_err(|why| ExportError::Value {
                file: named(),
                id: reserved.id.clone(),
                why,
            })?;
            let (id, own) = (reserved.id.clone(), (self.files, reserved));
            add(&mut self.reserved, file, id, own, |(_, one), (_, two)| one == two)?;
        }
        self.files += 1;
        Ok(())
    }

    /// The commitments that are in effect at a time for a region, with this part of each.
    pub fn in_effect(&self, region: &str, at: Timestamp, share: Share) -> Result<Commitments, ExportError> {
        // An export of several pages ends with one that has no token.
        if let Some(file) = self.unfinished.as_ref().filter(|_| !self.has_last_page) {
            return Err(ExportError::MorePlans { file: file.clone() });
        }
        let mut commitments = Commitments::default();
        for plan in self.plans.values() {
            match plans::in_effect(plan, region, at) {
                Err(why) => commitments.notes.push(format!("Savings Plan {} does not count: {why}", plan.id)),
                Ok(()) => {
                    let rates = self.rates_of(plan, region)?;
                    commitments.plans.push(plans::with_rates(plan, rates, share));
                }
            }
        }
        for id in self.rates.keys().filter(|id| !self.plans.contains_key(*id)) {
            commitments.notes.push(format!(
                "the rates of Savings Plan {id} do not count, because no export of describe-savings-plans contains it"
            ));
        }
        self.add_reserved(region, at, share, &mut commitments);
        Ok(commitments)
    }

    fn rates_of(&self, plan: &ListedSavingsPlan, region: &str) -> Result<BTreeMap<String, f64>, ExportError> {
        let missing = |what: String| ExportError::Rates { what, command: rates_command(&plan.id, region) };
        let id = &plan.id;
        let Some(rates) = self.rates.get(id) else {
            return Err(missing(format!("the rates of Savings Plan {id} are missing")));
        };
        if !rates.is_complete() {
            return Err(missing(format!(
                "the rates of Savings Plan {id} have a nextToken, so further pages are missing"
            )));
        }
        let rates = rates.by_instance_type(region, plans::family_of(plan));
        if rates.is_empty() {
            return Err(missing(format!(
                "the rates of Savings Plan {id} contain none of Linux instances of shared tenancy in {region}"
            )));
        }
        Ok(rates)
    }

    fn add_reserved(&self, region: &str, at: Timestamp, share: Share, commitments: &mut Commitments) {
        let mut assumed = Vec::new();
        for (file, reserved) in self.reserved.values() {
            // Regional ones are those of the region whose zones the others of the same file are in.
            let zones =
                self.reserved.values().filter(|(other, _)| other == file).filter_map(|(_, one)| reserved::zone_of(one));
            let zones: Vec<&str> = zones.collect();
            let elsewhere = !zones.is_empty() && !zones.iter().any(|zone| reserved::is_in(zone, region));
            match reserved::in_effect(reserved, region, at, elsewhere) {
                Err(why) => {
                    commitments.notes.push(format!("Reserved Instances {} do not count: {why}", reserved.id));
                }
                Ok(()) => {
                    if reserved::zone_of(reserved).is_none() && zones.is_empty() {
                        assumed.push(reserved.id.as_str());
                    }
                    commitments.reserved.push(reserved::committed(reserved, share));
                }
            }
        }
        if !assumed.is_empty() {
            commitments.notes.push(format!(
                "regional Reserved Instances are assumed to be those of {region}, because their export states no region: {}",
                assumed.join(", ")
            ));
        }
    }
}

/// Adds a commitment, which several files may contain.
fn add<T>(
    all: &mut BTreeMap<String, T>,
    file: &str,
    id: String,
    one: T,
    same: impl Fn(&T, &T) -> bool,
) -> Result<(), ExportError> {
    match all.get(&id) {
        Some(known) if same(known, &one) => {}
        Some(_) => return Err(ExportError::Twice { file: file.to_owned(), id }),
        None => {
            all.insert(id, one);
        }
    }
    Ok(())
}

/// The command that exports the rates of a plan which a cluster needs.
fn rates_command(id: &str, region: &str) -> String {
    let id = quoted(id);
    format!(
        "aws savingsplans describe-savings-plan-rates --savings-plan-id {id} --max-results 1000 --filters name=region,values={region} \
         name=productType,values=EC2 name=productDescription,values=Linux/UNIX name=tenancy,values=shared > rates-{id}.json"
    )
}
