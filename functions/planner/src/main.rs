//! Woken by the plan queue: plans what to launch and what to remove. The queue's message group ensures that one planner runs for
//! a cluster at a time.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod log_lines;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use log_lines::PlanFailed;
use nodeless_bill::CostLabels;
use nodeless_model::{ExpectedPods, NillableDuration};
use nodeless_operations::gates::FeatureGates;
use nodeless_planner::{PlanSettings, Planner};
use nodeless_ports::queue::{PlanMessage, WakeSource};
use nodeless_runtime::{
    Clusters, ConnectError, Connected, Connections, Environment, EnvironmentError, Link, Source, Unserved, batch,
    memory_megabytes,
};
use nodeless_scheduling::{MinValuesPolicy, Options, PreferencePolicy};
use nodeless_telemetry::{log, within};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    nodeless_telemetry::init()?;
    let planners = Clusters::new("planner", "NODELESS_PLAN_QUEUE_URL");
    nodeless_runtime::run_until(async |event: SqsEvent, deadline| -> Result<SqsBatchResponse, lambda_runtime::Error> {
        // The messages are deleted whatever the result of the plan. If they were returned, they would block their message group,
        // and with it every plan, for the visibility timeout. The planner requests the next plan itself, and the heartbeat does
        // so every minute.
        let (cluster, problem) = match planners
            .connected(Source::of_event(&event).map_err(|error| error.to_string())?, deadline, connect)
            .await
        {
            Ok(Connected { name, state: planner }) => {
                let Some(event) = batch::current(event, &name, PlanMessage::scheduled) else {
                    return Ok(SqsBatchResponse::default());
                };
                let woken = sources(&event, &name);
                let planned = Box::pin(within(&name, planner.run_until(deadline.timestamp(), &woken))).await;
                (Some(name), planned.err().map(|error| error.to_string()))
            }
            Err(Unserved::Unreachable { cluster, why }) => (cluster, Some(why)),
            Err(Unserved::Configuration(error)) => return Err(error.to_string().into()),
        };
        if let Some(error) = problem {
            log(cluster.as_deref(), &PlanFailed { error: &error });
        }
        Ok(SqsBatchResponse::default())
    })
    .await
}

/// The source of the plan request.
fn sources(event: &SqsEvent, cluster: &str) -> Vec<WakeSource> {
    batch::well_formed(event, Some(cluster)).into_iter().map(|PlanMessage::Wake { source, .. }| source).collect()
}

/// Scheduling options, from Karpenter's settings with these names.
fn scheduling(environment: &Environment<'_>) -> Result<Options, EnvironmentError> {
    Ok(Options {
        preferences: environment.parsed_or(
            "NODELESS_PREFERENCE_POLICY",
            "whether preferences of pods are tried before they are given up: Respect or Ignore",
            PreferencePolicy::default(),
        )?,
        min_values: environment.parsed_or(
            "NODELESS_MIN_VALUES_POLICY",
            "what happens where minValues cannot be reached: Strict or BestEffort",
            MinValuesPolicy::default(),
        )?,
        ..Options::default()
    })
}

/// The maximum batch window: a planner has 40 s, and has to plan in the rest of them.
const LONGEST_BATCH: Duration = Duration::from_secs(30);

/// The idle duration and the maximum duration of the batch window.
fn batching(environment: &Environment<'_>) -> Result<(Duration, Duration), EnvironmentError> {
    let default = PlanSettings::default();
    let idle = environment.duration_or(
        "NODELESS_BATCH_IDLE_DURATION",
        "for how long no further pod may become pending before a plan is made",
        default.batch_idle,
        LONGEST_BATCH,
    )?;
    let max = environment.duration_or(
        "NODELESS_BATCH_MAX_DURATION",
        "how long a plan waits for further pods at most",
        default.batch_max,
        LONGEST_BATCH,
    )?;
    Ok((idle, max))
}

async fn connect(environment: &Environment<'_>) -> Result<(Planner, Link), ConnectError> {
    let (batch_idle, batch_max) = batching(environment)?;
    let gates = environment.parsed_or(
        "NODELESS_FEATURE_GATES",
        "which of Karpenter's feature gates are on, such as NodeRepair=true",
        FeatureGates::default(),
    )?;
    let zonal_shift = environment.zonal_shift()?;
    let keep_snapshots = environment.parsed_or(
        "NODELESS_KEEP_SNAPSHOTS",
        "for how long the table keeps what each plan was made from, such as 2h; not at all where it is not set",
        NillableDuration::Never,
    )?;
    let expected_pods = environment.parsed_or(
        "NODELESS_EXPECTED_PODS",
        "for which pods nodes are launched before their workload has created them: off, samples or templates",
        ExpectedPods::Off,
    )?;
    let cost_labels = environment.parsed_or(
        "NODELESS_COST_LABELS",
        "by which labels of pods the costs of nodes are recorded, such as team,app.kubernetes.io/name: at most 5",
        CostLabels::default(),
    )?;
    let scheduling = scheduling(environment)?;
    let connections = Connections::connect(environment).await?;
    let link = connections.link();
    let planner = Planner::new(
        connections.context,
        connections.claims,
        connections.queue,
        connections.cluster,
        PlanSettings {
            batch_idle,
            batch_max,
            expected_pods,
            gates,
            zonal_shift,
            keep_snapshots: keep_snapshots.duration(),
            scheduling,
            cost_labels,
            memory_megabytes: memory_megabytes(),
            ..PlanSettings::default()
        },
    );
    Ok((planner, link))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_with_the_values_of_karpenter() {
        let of = |preferences: &'static str, min_values: &'static str| {
            let read = move |name: &str| match name {
                "NODELESS_PREFERENCE_POLICY" => Some(preferences.to_owned()),
                "NODELESS_MIN_VALUES_POLICY" => Some(min_values.to_owned()),
                _ => None,
            };
            scheduling(&Environment::from_fn(read)).map(|options| (options.preferences, options.min_values))
        };
        assert_eq!(of("", ""), Ok((PreferencePolicy::Respect, MinValuesPolicy::Strict)), "Karpenter's defaults");
        assert_eq!(of("Ignore", "BestEffort"), Ok((PreferencePolicy::Ignore, MinValuesPolicy::BestEffort)));
        assert!(of("Sometimes", "").unwrap_err().to_string().contains("NODELESS_PREFERENCE_POLICY"));
        assert!(of("", "Sometimes").unwrap_err().to_string().contains("NODELESS_MIN_VALUES_POLICY"));
    }

    #[test]
    fn the_batching_window_is_read_strictly() {
        let of = |idle: &'static str, most: &'static str| {
            let read = move |name: &str| Some(if name.contains("IDLE") { idle } else { most }.to_owned());
            batching(&Environment::from_fn(read))
        };
        assert_eq!(of("", ""), Ok((Duration::from_secs(1), Duration::from_secs(10))), "Karpenter's defaults");
        assert_eq!(of("500ms", "20s"), Ok((Duration::from_millis(500), Duration::from_secs(20))));
        assert!(of("soon", "").unwrap_err().to_string().contains("NODELESS_BATCH_IDLE_DURATION"));
        assert!(of("", "1m").unwrap_err().to_string().contains("it is more than 30s"));
    }
}
