//! `nodeless simulate`: simulates hours of a cluster in seconds, with faults.

use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::{self, Plain, Reader};
use crate::simulate::{Progress, text};
use clap::Args;
use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::Run;
use nodeless_model::shell::quoted;
use nodeless_operations::gates::{FeatureGates, FeatureGatesError};
use nodeless_telemetry::{Level, Null, Sink};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(
    long_about = "Simulate hours of a cluster in seconds: an EKS cluster and an EC2 account with nodeless, changing load, spot \
interruptions, and failures of calls, messages and processes.

Invariants are checked after every step: at most one instance for each NodeClaim, limits and disruption budgets, no instance \
without a NodeClaim, no pod evicted against its PodDisruptionBudget, a NodeClaim or a reason for each pending pod, and at the end \
a quiescent cluster. The same scenario, seed and hours always result in the same run, byte for byte.",
    after_long_help = "Exit code: 0 if every invariant holds, 1 otherwise; the output then ends with the command that repeats \
the run. Ctrl-C ends a run early: what it did until then is printed, and the exit code is 1. A second Ctrl-C ends \
it at once, with the exit code 130.

Examples:
  nodeless simulate
  nodeless simulate --seed 7 --hours 48
  nodeless simulate faults --seeds 0..200
  nodeless simulate my-cluster.yaml"
)]
pub(crate) struct SimulateArguments {
    /// The seed of all random events
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Run a range of seeds, such as 0..200, and print those that violate an invariant
    #[arg(long, value_name = "FROM..TO", value_parser = seeds, conflicts_with = "seed")]
    seeds: Option<(u64, u64)>,
    /// The simulated hours, without the time at the end until the cluster is quiescent [default: those of the scenario]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=24 * 366))]
    hours: Option<u32>,
    /// A scenario file (see docs/simulate.md), or the name of a built-in scenario: autoscalers, canary,
    /// certificate-authority, cluster-settings, combined, commitments, day, faults, faults-all-features, moving-pods,
    /// refused-pods, restore-surge, restore-warm, rotation-warm, schedules, slow-api, slow-services, spot, stateful, surge,
    /// tenants, unready-nodes or warm
    #[arg(value_name = "SCENARIO", default_value = "day")]
    scenario: String,
    /// The same as SCENARIO
    #[arg(long = "scenario", value_name = "SCENARIO", conflicts_with = "scenario")]
    named_scenario: Option<String>,
    /// Feature gates in the format of Karpenter, such as NodeRepair=true,SpotToSpotConsolidation=true; they are added to
    /// those of the scenario
    #[arg(long, value_name = "GATES", value_parser = gates)]
    feature_gates: Option<String>,
    /// Print the log of nodeless to standard error
    #[arg(long)]
    verbose: bool,
}

impl SimulateArguments {
    fn scenario(&self) -> &str {
        self.named_scenario.as_ref().unwrap_or(&self.scenario)
    }
}

/// Reads `0..200`.
fn seeds(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once("..").ok_or("give a range such as 0..200")?;
    let number =
        |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}; give a range such as 0..200"));
    match (number(from)?, number(to)?) {
        (from, to) if from < to => Ok((from, to)),
        _ => Err("the second number must be greater than the first".to_owned()),
    }
}

/// Validates feature gates and returns them unchanged.
fn gates(text: &str) -> Result<String, FeatureGatesError> {
    text.parse::<FeatureGates>().map(|_| text.to_owned())
}

pub(crate) fn run(arguments: &SimulateArguments) -> Result<(), CliError> {
    let mut scenario = scenario(arguments.scenario())?;
    if let Some(gates) = &arguments.feature_gates {
        // The last of several gates with the same name applies.
        scenario.feature_gates = format!("{},{gates}", scenario.feature_gates);
    }
    match arguments.seeds {
        None => run_one(arguments, scenario),
        Some((from, to)) => run_many(arguments, &scenario, from, to),
    }
}

fn scenario(name: &str) -> Result<Scenario, CliError> {
    let path = Path::new(name);
    let unusable = |source| CliError::ScenarioForm { path: path.to_owned(), source };
    if Scenario::built_in_names().any(|known| known == name) {
        return Scenario::built_in(name).map_err(unusable);
    }
    let yaml = std::fs::read_to_string(path).map_err(|source| CliError::Scenario { path: path.to_owned(), source })?;
    Scenario::parse(&yaml).map_err(unusable)
}

fn sink(arguments: &SimulateArguments) -> Arc<dyn Sink> {
    if arguments.verbose { Arc::new(Plain { level: Level::Info }) } else { Arc::new(Null) }
}

fn run_one(arguments: &SimulateArguments, scenario: Scenario) -> Result<(), CliError> {
    let interrupt = Interrupt::watch()?;
    let run = Run::new(scenario, arguments.seed, arguments.hours, sink(arguments))?;
    let progress = Progress::of_run();
    let report = run.finish_observed(|at, part| {
        progress.advance(at, part);
        if interrupt.is_noted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    progress.finish();
    let replay = replay(arguments, report.seed, report.hours);
    output::text(&text::page(&report, &replay))?;
    if report.holds() && report.interrupted.is_none() { Ok(()) } else { Err(CliError::AlreadyReported) }
}

fn run_many(arguments: &SimulateArguments, scenario: &Scenario, from: u64, to: u64) -> Result<(), CliError> {
    let interrupt = Interrupt::watch()?;
    let progress = Progress::of_seeds(to - from);
    let (mut run, mut broken) = (0_u64, 0_u64);
    for seed in from..to {
        let simulation = Run::new(scenario.clone(), seed, arguments.hours, sink(arguments))?;
        let report = simulation.finish_observed(|_, _| match interrupt.is_noted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })?;
        if report.interrupted.is_some() {
            break;
        }
        run += 1;
        progress.seed_done();
        if let Some(first) = report.violations.first() {
            broken += 1;
            let replay = replay(arguments, seed, report.hours);
            let found =
                format!("seed {seed}: {}: {} ({})\n  repeat: {replay}", first.invariant, first.detail, first.at);
            if progress.suspend(|| output::line(found))? == Reader::Closed {
                return Err(CliError::AlreadyReported);
            }
        }
    }
    progress.finish();
    let early = if run < to - from { format!(" (interrupted; {} not run)", to - from - run) } else { String::new() };
    output::line(format_args!("{run} seeds of {}{early}: every invariant holds in {}", scenario.name, run - broken))?;
    if broken == 0 && run == to - from { Ok(()) } else { Err(CliError::AlreadyReported) }
}

/// The command that repeats the run.
fn replay(arguments: &SimulateArguments, seed: u64, hours: u32) -> String {
    let gates =
        arguments.feature_gates.as_ref().map(|gates| format!(" --feature-gates {}", quoted(gates))).unwrap_or_default();
    format!("nodeless simulate --seed {seed} --hours {hours} --scenario {}{gates}", quoted(arguments.scenario()))
}

#[cfg(test)]
mod tests {
    use super::seeds;

    #[test]
    fn ranges_of_seeds_are_read() {
        assert_eq!(seeds("3..5"), Ok((3, 5)));
        assert!(["5..3", "3", "a..4", "4..4"].iter().all(|text| seeds(text).is_err()));
    }
}
