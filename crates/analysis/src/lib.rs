//! Questions about a profile: call trees, filters, differences, what stands out.
//!
//! Each answer is a new value; the profile that was asked is never changed. No input or output, and no
//! knowledge of formats: those and the views ask here, so that weights are counted in one place.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod charged;
mod compare;
mod diff;
mod expression;
mod filter;
mod outline;
mod package;
mod query;
mod routes;
mod siblings;
mod states;
mod submitters;
mod subsystem;
#[cfg(test)]
mod testing;
mod threads;
mod time_order;
mod transform;
mod tree;
mod twin;
mod weights;

pub use charged::{ChargedWeights, charged_stacks, charged_weights, passing_on};
pub use compare::{
    Basis, Change, CompareError, CompareOptions, Comparison, CostUnit, FamilyChange,
    FunctionCaller, FunctionChange, FunctionId, Location, MIN_RUNS, Rows, RunCosts, SelfCheck,
    SideSummary, Verdict, Work, compare, own_weights, self_check,
};
pub use diff::{DiffTree, NodeWeights, ProfilePair};
pub use expression::{Condition, ExpressionError, Field};
pub use filter::{
    FilterError, Filters, Holding, LabelFilter, Pattern, Share, TimeRange, filtered, grouped,
    only_routes, other_events, parse_bytes, parse_seconds, shaped, shown_event,
};
pub use outline::{Outline, OutlineNode};
pub use package::{Package, PackageKind, package_in};
pub use query::{Aggregate, Answer, AnswerRow, Query, RowKey};
pub use routes::{
    NO_REQUEST, RouteWeights, Routes, as_routes, functions_by_route, has_routes, route_weights,
};
pub use siblings::{OddProcess, odd_process};
pub use states::{ThreadTime, has_states, thread_times, without_idle_states};
pub use submitters::pool_submitters;
pub use subsystem::{
    Division, Subsystem, SubsystemWeights, is_evaluated, subsystem_of, subsystem_weights,
};
pub use threads::{
    BusyThread, busy_main_threads, busy_threads, main_threads, process_weights, thread_weights,
};
pub use time_order::TimeTree;
pub use transform::{
    CodeKind, collapse_recursion, condensed, focus, fold, hide, ignore, merge_processes, only,
    only_between, only_threads, redact, redact_paths, reverse, show_from, split_tiers, starting_at,
    with_round_times, without_idle, without_internals, without_small, without_unused,
};
pub use tree::{CallTree, ChildLists, NodeIndex, TreeNode};
pub use twin::{Agreement, join_twins};
pub use weights::{
    FunctionWeights, PackageWeights, Shares, collected_under, function_weights, package_weights,
    shares, tier_weights,
};
