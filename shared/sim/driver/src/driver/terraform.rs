//! The driver repeats timeouts, schedules and settings of the Terraform module, because a simulation reads no Terraform. These
//! tests read both, so a change of one of them fails until the other follows.

use super::Schedule;
use super::concurrency::{CLAIMS_CONCURRENCY, INTERRUPTION_CONCURRENCY};
use super::deliveries::{
    CLAIMS_RECEIVES, CLAIMS_VISIBILITY, INTERRUPTION_RECEIVES, INTERRUPTION_VISIBILITY, PLAN_RECEIVES, PLAN_VISIBILITY,
};
use jiff::SignedDuration;
use nodeless_operations::{CapacitySettings, gates::FeatureGates};
use nodeless_planner::PlanSettings;
use nodeless_scheduling::MinValuesPolicy;
use nodeless_world::WorldOptions;
use nodeless_world::memory::Function;

const QUEUES: &str = include_str!("../../../../../terraform/queues.tf");
const FUNCTIONS: &str = include_str!("../../../../../terraform/functions.tf");
const VARIABLES: &str = include_str!("../../../../../terraform/variables.tf");

/// The lines of a block, up to the line that closes it: a brace with the indentation of the line that opens it.
fn block<'a>(text: &'a str, opens: &str) -> &'a str {
    let at = text.find(opens).unwrap_or_else(|| panic!("Terraform has no {opens}"));
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let indentation = &text[line..at];
    let end = text[at..].find(&format!("\n{indentation}}}")).unwrap_or_else(|| panic!("{opens} is not closed"));
    &text[at..at + end]
}

/// The value of an attribute, without a comment.
fn attribute<'a>(block: &'a str, name: &str) -> &'a str {
    let value = block.lines().find_map(|line| {
        let (left, right) = line.split_once('=')?;
        (left.trim() == name).then(|| right.split('#').next().unwrap_or(right).trim())
    });
    value.unwrap_or_else(|| panic!("no attribute {name} in {block}"))
}

/// The default of an attribute `optional(TYPE, DEFAULT)` in the type of a variable.
fn optional<'a>(block: &'a str, name: &str) -> &'a str {
    let value = attribute(block, name);
    let arguments = value.strip_prefix("optional(").and_then(|rest| rest.strip_suffix(')'));
    arguments.and_then(|arguments| arguments.split_once(',')).unwrap_or_else(|| panic!("{name} = {value}")).1.trim()
}

fn variable(name: &str) -> &'static str {
    block(VARIABLES, &format!("variable \"{name}\" {{"))
}

fn default(name: &str) -> &'static str {
    attribute(variable(name), "default").trim_matches('"')
}

fn timeout(function: &str) -> i64 {
    optional(block(variable("functions"), &format!("{function} = optional(object({{")), "timeout").parse().unwrap()
}

/// The visibility timeout of a queue. The attribute is the timeout of its function, from `var.functions`, plus some seconds.
fn visibility(queue: &str, function: &str) -> SignedDuration {
    let resource = block(QUEUES, &format!("resource \"aws_sqs_queue\" \"{queue}\" {{"));
    let value = attribute(resource, "visibility_timeout_seconds");
    let seconds = value
        .strip_prefix(&format!("local.timeouts.{function} + "))
        .unwrap_or_else(|| panic!("visibility timeout of {queue}: {value}"));
    SignedDuration::from_secs(timeout(function) + seconds.parse::<i64>().unwrap())
}

/// The interval of a schedule expression such as `rate(5 minutes)`.
fn rate(schedule: &str) -> SignedDuration {
    let expression = optional(variable("schedules"), schedule).trim_matches('"');
    let rate = expression.strip_prefix("rate(").and_then(|rest| rest.strip_suffix(')'));
    let (count, unit) =
        rate.and_then(|rate| rate.split_once(' ')).unwrap_or_else(|| panic!("{schedule}: {expression}"));
    assert!(["minute", "minutes"].contains(&unit), "{schedule}: {expression}");
    SignedDuration::from_mins(count.parse().unwrap())
}

#[test]
fn visibility_timeouts_are_those_of_the_queues() {
    assert_eq!(PLAN_VISIBILITY, visibility("plan", "planner"));
    assert_eq!(CLAIMS_VISIBILITY, visibility("claims", "lifecycle"));
    assert_eq!(INTERRUPTION_VISIBILITY, visibility("interruption", "interruption"));
}

#[test]
fn timeouts_are_those_of_the_functions() {
    let of = |function| i64::try_from(super::timeouts::timeout(function).as_secs()).unwrap();
    assert_eq!(of(Function::Planner), timeout("planner"));
    assert_eq!(of(Function::Lifecycle), timeout("lifecycle"));
    assert_eq!(of(Function::Interruption), timeout("interruption"));
    assert_eq!(of(Function::Catalog), timeout("catalog"));
}

/// How often a queue lets a message be received.
fn receives(queue: &str) -> u32 {
    let resource = block(QUEUES, &format!("resource \"aws_sqs_queue\" \"{queue}\" {{"));
    attribute(resource, "maxReceiveCount").parse().unwrap()
}

#[test]
fn receives_are_those_of_the_queues() {
    assert_eq!(PLAN_RECEIVES, receives("plan"));
    assert_eq!(CLAIMS_RECEIVES, receives("claims"));
    assert_eq!(INTERRUPTION_RECEIVES, receives("interruption"));
}

#[test]
fn concurrency_is_that_of_the_mappings() {
    let of = |queue: &str| {
        let mapping = block(FUNCTIONS, &format!("resource \"aws_lambda_event_source_mapping\" \"{queue}\" {{"));
        mapping.contains("maximum_concurrency").then(|| attribute(mapping, "maximum_concurrency"))
    };
    assert_eq!((of("plan"), of("catalog")), (None, None), "FIFO");
    assert_eq!(of("claims"), Some("var.claims_concurrency"));
    assert_eq!(default("claims_concurrency").parse(), Ok(CLAIMS_CONCURRENCY));
    assert_eq!(of("interruption").map(str::parse), Some(Ok(INTERRUPTION_CONCURRENCY)));
}

#[test]
fn schedules_are_those_of_the_rules() {
    let schedule = Schedule::default();
    let intervals = [schedule.heartbeat, schedule.sweep, schedule.catalog];
    assert_eq!(intervals, [rate("heartbeat"), rate("sweep"), rate("catalog")]);
}

#[test]
fn settings_are_the_defaults_of_the_variables() {
    let plan = PlanSettings::default();
    let duration = |name: &str| default(name).parse::<SignedDuration>().unwrap().unsigned_abs();
    assert_eq!((plan.batch_idle, plan.batch_max), (duration("batch_idle_duration"), duration("batch_max_duration")));
    assert_eq!(Ok(plan.expected_pods), default("expected_pods").parse());

    let capacity = CapacitySettings {
        reserved_enis: default("reserved_enis").parse().unwrap(),
        memory_overhead: default("vm_memory_overhead_percent").parse().unwrap(),
    };
    assert_eq!(CapacitySettings::default(), capacity);

    let gate = |name: &str| optional(variable("feature_gates"), name).parse::<bool>().unwrap();
    let gates = FeatureGates {
        node_repair: gate("node_repair"),
        reboot_for_repair: gate("reboot_for_repair"),
        spot_to_spot_consolidation: gate("spot_to_spot_consolidation"),
    };
    assert_eq!(FeatureGates::default(), gates);

    assert_eq!(WorldOptions::default().zonal_shift.to_string(), default("zonal_shift_enabled"));
    assert_eq!(Ok(MinValuesPolicy::default()), default("min_values_policy").parse());
    // The driver passes this one as a literal, and no scheduler configuration.
    assert_eq!((default("disable_dry_run"), default("scheduler_config")), ("false", ""));
}
