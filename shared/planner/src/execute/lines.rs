//! The log lines of a plan.

use super::{Live, RECORD_COSTS};
use crate::action::PlanLine;
use nodeless_bill::PoolNow;
use nodeless_operations::log_lines::{
    BudgetExceeded, ClaimRefused, CommandStepped, CommandWaits, CostsRecorded, DisruptionSkipped, DisruptionStopped,
    Failed, ObjectSkipped, PlanUnfinished,
};

impl Live<'_> {
    pub(super) fn log(&self, line: &PlanLine) {
        let context = &self.planner.context;
        match line {
            PlanLine::ObjectSkipped { kind, name, why } => context.log(&ObjectSkipped { kind, name, why }),
            PlanLine::DisruptionSkipped { why } => context.log(&DisruptionSkipped { why }),
            PlanLine::DisruptionStopped { node_pool, why } => context.log(&DisruptionStopped { node_pool, why }),
            PlanLine::ClaimRefused { claim, node_pool, why } => {
                context.log(&ClaimRefused { claim, node_pool: node_pool.as_deref(), why });
            }
            PlanLine::CostsRecorded(pool) => context.log(&recorded(pool)),
            PlanLine::CostsNotRecorded { why } => context.log(&Failed { what: RECORD_COSTS, why }),
            PlanLine::BudgetExceeded {
                node_pool,
                dollars_per_month,
                dollars_this_month,
                dollars_this_month_at_this_pace,
            } => context.log(&BudgetExceeded {
                node_pool: (!node_pool.is_empty()).then_some(node_pool.as_str()),
                dollars_per_month: *dollars_per_month,
                dollars_this_month: *dollars_this_month,
                dollars_this_month_at_this_pace: *dollars_this_month_at_this_pace,
            }),
            PlanLine::CommandStepped { command, to, summary } => context.log(&CommandStepped { command, to, summary }),
            PlanLine::CommandWaits { command, why } => context.log(&CommandWaits { command, why }),
            PlanLine::PlanUnfinished { plan, began, consecutive } => {
                context.log(&PlanUnfinished { plan, began: &began.to_string(), consecutive: *consecutive });
            }
        }
    }
}

fn recorded(pool: &PoolNow) -> CostsRecorded<'_> {
    CostsRecorded {
        node_pool: &pool.node_pool,
        nodes: pool.nodes,
        dollars_per_hour: rounded(pool.dollars_per_hour),
        dollars_today: rounded(pool.dollars_today),
        dollars_this_month: rounded(pool.dollars_this_month),
        dollars_this_month_at_this_pace: rounded(pool.dollars_this_month_at_this_pace),
        idle_dollars_per_hour: rounded(pool.idle_dollars_per_hour),
        on_demand_dollars_per_hour: rounded(pool.on_demand_dollars_per_hour),
    }
}

/// Six decimal places, as prices have.
fn rounded(dollars: f64) -> f64 {
    (dollars * 1e6).round() / 1e6
}
