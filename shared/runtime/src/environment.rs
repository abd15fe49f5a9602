//! Environment variables, as Terraform sets them.

use nodeless_model::duration::{format_go_duration, parse_go_duration};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

/// A variable that is missing or invalid. Terraform sets all of them; set them yourself if you run a function manually.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// The variable is not set, or empty.
    #[error("the environment variable {name} is not set; it sets {meaning}")]
    Missing {
        /// The variable.
        name: &'static str,
        /// What the variable sets.
        meaning: &'static str,
    },
    /// The variable has an invalid value.
    #[error("the environment variable {name} is {value:?}: {why}; it sets {meaning}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// The value.
        value: String,
        /// What is wrong with the value.
        why: String,
        /// What the variable sets.
        meaning: &'static str,
    },
}

type Reader<'a> = dyn Fn(&str) -> Option<String> + Send + Sync + 'a;

/// The environment variables of a process.
pub struct Environment<'a> {
    read: Box<Reader<'a>>,
    endpoints: BTreeMap<String, String>,
}

impl std::fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment")
    }
}

impl<'a> Environment<'a> {
    /// The variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self::from_fn(|name| std::env::var(name).ok())
    }

    /// Variables from elsewhere, for tests.
    pub fn from_fn(read: impl Fn(&str) -> Option<String> + Send + Sync + 'a) -> Self {
        Self { read: Box::new(read), endpoints: BTreeMap::new() }
    }

    /// The variables of a cluster whose functions are those of another deployment.
    #[must_use]
    pub fn of_cluster(variables: BTreeMap<String, String>) -> Self {
        let endpoint = |name: &str| name.starts_with("AWS_ENDPOINT_URL");
        let endpoints = variables.iter().filter(|(name, _)| endpoint(name));
        let endpoints = endpoints.map(|(name, url)| (name.clone(), url.clone())).collect();
        Self { read: Box::new(move |name| variables.get(name).cloned()), endpoints }
    }

    /// Endpoints of AWS services that differ from those of the process, by their variables.
    #[must_use]
    pub const fn endpoints(&self) -> &BTreeMap<String, String> {
        &self.endpoints
    }

    /// A variable that may be missing. An empty one counts as missing, because Lambda does not distinguish the two.
    #[must_use]
    pub fn optional(&self, name: &str) -> Option<String> {
        (self.read)(name).filter(|value| !value.is_empty())
    }

    /// A required variable.
    ///
    /// # Errors
    /// When it is not set.
    pub fn required(&self, name: &'static str, meaning: &'static str) -> Result<String, EnvironmentError> {
        self.optional(name).ok_or(EnvironmentError::Missing { name, meaning })
    }

    /// A variable with a default.
    ///
    /// # Errors
    /// When its value cannot be parsed.
    pub fn parsed_or<T>(&self, name: &'static str, meaning: &'static str, default: T) -> Result<T, EnvironmentError>
    where
        T: FromStr,
        T::Err: std::fmt::Display,
    {
        let Some(value) = self.optional(name) else { return Ok(default) };
        value.parse().map_err(|error: T::Err| EnvironmentError::Invalid {
            name,
            value,
            why: error.to_string(),
            meaning,
        })
    }

    /// A duration in Karpenter's format, such as `10s`, with a default and a maximum.
    ///
    /// # Errors
    /// When its value cannot be parsed, or exceeds the maximum.
    pub fn duration_or(
        &self,
        name: &'static str,
        meaning: &'static str,
        default: Duration,
        max: Duration,
    ) -> Result<Duration, EnvironmentError> {
        let Some(value) = self.optional(name) else { return Ok(default) };
        let invalid = |why: String| EnvironmentError::Invalid { name, value: value.clone(), why, meaning };
        let duration = parse_go_duration(&value).map_err(|error| invalid(error.to_string()))?;
        if duration > max {
            return Err(invalid(format!("it is more than {}", format_go_duration(max))));
        }
        Ok(duration)
    }

    /// A boolean that is false by default.
    fn switch(&self, name: &'static str, meaning: &'static str) -> Result<bool, EnvironmentError> {
        self.parsed_or(name, meaning, false)
    }

    /// Karpenter's `ISOLATED_VPC`: whether only services with a VPC endpoint are called.
    ///
    /// # Errors
    /// When it is neither `true` nor `false`.
    pub fn isolated_vpc(&self) -> Result<bool, EnvironmentError> {
        self.switch("NODELESS_ISOLATED_VPC", "whether only AWS services with a VPC endpoint are called, true or false")
    }

    /// Karpenter's `DISABLE_DRY_RUN`: whether EC2NodeClasses become ready without EC2 dry runs.
    ///
    /// # Errors
    /// When it is neither `true` nor `false`.
    pub fn disable_dry_run(&self) -> Result<bool, EnvironmentError> {
        self.switch("NODELESS_DISABLE_DRY_RUN", "whether EC2NodeClasses are ready without dry runs, true or false")
    }

    /// The name of the cluster in EKS.
    ///
    /// # Errors
    /// When it is not set.
    pub fn cluster_name(&self) -> Result<String, EnvironmentError> {
        self.required("CLUSTER_NAME", "the name of the EKS cluster")
    }

    /// The name of the claims table.
    ///
    /// # Errors
    /// When it is not set.
    pub fn table(&self) -> Result<String, EnvironmentError> {
        self.required("NODELESS_TABLE", "the name of the DynamoDB table of the claims")
    }

    /// The URL of the plan queue.
    ///
    /// # Errors
    /// When it is not set.
    pub fn plan_queue_url(&self) -> Result<String, EnvironmentError> {
        self.required("NODELESS_PLAN_QUEUE_URL", "the URL of the SQS queue that wakes the planner")
    }

    /// Whether zonal shifts of Amazon Application Recovery Controller are honoured; false by default.
    ///
    /// # Errors
    /// When it is neither `true` nor `false`.
    pub fn zonal_shift(&self) -> Result<bool, EnvironmentError> {
        self.parsed_or("NODELESS_ZONAL_SHIFT", "whether zonal shifts of the cluster are honoured, true or false", false)
    }

    /// Whether nodes are nominated for the pods that they were launched for; true by default.
    ///
    /// # Errors
    /// When it is neither `true` nor `false`.
    pub fn nominations(&self) -> Result<bool, EnvironmentError> {
        self.parsed_or("NODELESS_NOMINATIONS", "whether nodes are nominated for pods, true or false", true)
    }

    /// Whether metrics are published for each NodePool too; false by default.
    ///
    /// # Errors
    /// When it is neither `true` nor `false`.
    pub fn metrics_by_node_pool(&self) -> Result<bool, EnvironmentError> {
        self.parsed_or(
            "NODELESS_METRICS_BY_NODEPOOL",
            "whether metrics are published for each NodePool too, true or false",
            false,
        )
    }

    /// The URL of the claims queue, for the functions that send to it.
    #[must_use]
    pub fn claims_queue_url(&self) -> Option<String> {
        self.optional("NODELESS_CLAIMS_QUEUE_URL")
    }

    /// The URL of the catalog queue, for the planner, which sends to it.
    #[must_use]
    pub fn catalog_queue_url(&self) -> Option<String> {
        self.optional("NODELESS_CATALOG_QUEUE_URL")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_variable_and_its_value() {
        let environment = Environment::from_fn(|name| match name {
            "CLUSTER_NAME" => Some(String::new()),
            "SIZE" => Some("many".to_owned()),
            _ => None,
        });
        let missing = environment.cluster_name().unwrap_err().to_string();
        assert_eq!(missing, "the environment variable CLUSTER_NAME is not set; it sets the name of the EKS cluster");
        let invalid = environment.parsed_or("SIZE", "how many", 3_u32).unwrap_err().to_string();
        assert!(invalid.starts_with("the environment variable SIZE is \"many\": invalid digit"), "{invalid}");
        assert_eq!(environment.parsed_or("OTHER", "how many", 3_u32), Ok(3));
        assert_eq!(environment.zonal_shift(), Ok(false));
        assert_eq!((environment.isolated_vpc(), environment.disable_dry_run()), (Ok(false), Ok(false)));
    }

    #[test]
    fn the_variables_of_a_cluster_are_its_own() {
        let variables =
            [("CLUSTER_NAME", "green"), ("NODELESS_TABLE", "shared"), ("AWS_ENDPOINT_URL_EC2", "http://ec2")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = Environment::of_cluster(variables.clone().into());
        assert_eq!((environment.cluster_name(), environment.table()), (Ok("green".into()), Ok("shared".into())));
        assert_eq!(environment.optional("PATH"), None, "nothing comes from the process");
        assert_eq!(environment.endpoints(), &variables.into_iter().skip(2).collect());
        assert!(Environment::of_process().endpoints().is_empty(), "the SDK reads them itself");
    }

    #[test]
    fn durations_are_read_strictly_and_bounded() {
        let read = |value: &str| {
            let value = value.to_owned();
            let environment = Environment::from_fn(move |_| Some(value.clone()));
            environment.duration_or("WINDOW", "how long", Duration::from_secs(10), Duration::from_secs(30))
        };
        for (text, expected) in [("", 10_000), ("1s", 1000), ("250ms", 250), ("0s", 0), ("30s", 30_000)] {
            assert_eq!(read(text), Ok(Duration::from_millis(expected)), "{text}");
        }
        for (text, why) in [
            ("10", "a number lacks its unit"),
            ("-1s", "it is negative"),
            ("Never", "is not a duration"),
            ("31s", "it is more than 30s"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("WINDOW"), "{error}");
        }
    }

    #[test]
    fn switches_are_true_or_false() {
        let environment = Environment::from_fn(|_| Some("yes".to_owned()));
        for error in [environment.isolated_vpc(), environment.disable_dry_run()].map(Result::unwrap_err) {
            assert!(error.to_string().contains("true or false"), "{error}");
        }
    }
}
