//! Changes that have another cause than the program: however sure they are, they are likely at most.

use super::table::Table;
use super::{Change, Verdict};
use crate::package::PackageKind;

/// How far up its callers an interrupt is looked for.
const MAX_CALLERS: usize = 16;

/// Caps the verdicts on what a function costs itself.
///
/// - What the kernel does in interrupts, and when it takes the CPU away, follows the load on the machine.
/// - Where each side has its own version of Node, each compiles the same code in its own way: what a function has
///   inlined on one side is its callees' on the other. Only a function that costs more with what it calls is slower.
pub(super) fn cap(table: &Table, own: &mut [Change], total: &[Change], has_other_node: bool) {
    for row in 0..own.len() {
        let is_elsewhere = has_other_node && !table.rows[row].is_merged && {
            let is_same = |verdict| total[row].verdict == verdict;
            match own[row].verdict {
                Verdict::Regression => {
                    !is_same(Verdict::Regression) && !is_same(Verdict::LikelySlower)
                }
                Verdict::Improvement => {
                    !is_same(Verdict::Improvement) && !is_same(Verdict::LikelyFaster)
                }
                _ => continue,
            }
        };
        if is_elsewhere || is_interrupt(table, row) {
            own[row].verdict = likely(own[row].verdict);
        }
    }
}

fn likely(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Regression => Verdict::LikelySlower,
        Verdict::Improvement => Verdict::LikelyFaster,
        other => other,
    }
}

/// Whether a function of the kernel runs mostly because of an interrupt: going up by the caller that spends most in
/// it leads to where the kernel is entered by one, or left again, where another thread may be scheduled.
fn is_interrupt(table: &Table, row: usize) -> bool {
    let mut at = Some(row);
    for _ in 0..MAX_CALLERS {
        let Some(row) = at else { return false };
        let function = &table.rows[row];
        if function.package.kind != PackageKind::Kernel {
            return false;
        }
        let name = function.id.name.as_str();
        if name.starts_with("asm_sysvec_")
            || name.starts_with("exit_to_user_mode")
            || matches!(
                name,
                "asm_common_interrupt"
                    | "irqentry_exit_to_user_mode"
                    | "irqentry_exit_cond_resched"
            )
        {
            return true;
        }
        at = table.main_callers[row];
    }
    false
}
