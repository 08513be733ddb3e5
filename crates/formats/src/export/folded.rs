//! Folded stacks as FlameGraph reads them: `thread;root;…;leaf weight`, a line per stack.
//!
//! A line starts with the name of the thread, as `stackcollapse-perf.pl` starts it with perf's
//! `comm`; the main thread goes by its process's name. Lines are sorted, so equal profiles give
//! equal bytes. Times, lines being run and tiers are left out: the format has no room for them.

use std::collections::BTreeMap;
use std::io::Write;

use nodespy_analysis::CallTree;
use nodespy_model::{NO_STACK, Profile, ThreadIndex, folded_label, folded_thread};

use super::{Detail, ExportError, Exporter};

/// The exporter of folded stacks.
pub(crate) struct Folded;

impl Exporter for Folded {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["folded", "collapsed"]
    }

    fn leaves_out(&self) -> &'static [Detail] {
        &[
            Detail::Times,
            Detail::Processors,
            Detail::CurrentLines,
            Detail::Tiers,
            Detail::Inlining,
            Detail::ThreadRoles,
            Detail::ProcessDetails,
            Detail::Labels,
            Detail::DeoptReasons,
            Detail::WeightUnit,
            Detail::Notes,
            Detail::Sources,
            Detail::GeneratedPlaces,
            Detail::Contexts,
        ]
    }

    fn export(&self, profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError> {
        let mut threads: BTreeMap<String, Vec<ThreadIndex>> = BTreeMap::new();
        for position in 0..profile.threads.len() {
            let thread = ThreadIndex(position as u32);
            threads
                .entry(folded_thread(profile, thread))
                .or_default()
                .push(thread);
        }
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        for (name, members) in &threads {
            let mut is_member = vec![false; profile.threads.len()];
            for thread in members {
                is_member[thread.at()] = true;
            }
            let tree = CallTree::of(profile, |sample| is_member[sample.thread.at()]);
            add_lines(profile, name, &tree, &mut lines);
        }
        for (line, weight) in &lines {
            writeln!(output, "{line} {weight}")?;
        }
        Ok(())
    }
}

fn add_lines(profile: &Profile, thread: &str, tree: &CallTree, lines: &mut BTreeMap<String, u64>) {
    let mut labels: Vec<Option<String>> = vec![None; profile.functions.len()];
    let mut path = Vec::new();
    for node in tree.nodes.iter().filter(|node| node.self_weight > 0) {
        path.clear();
        let mut next = Some(node);
        while let Some(node) = next {
            path.push(node.function);
            next = node.parent.map(|parent| tree.node(parent));
        }
        let mut line = thread.to_owned();
        for function in path.iter().rev() {
            if !line.is_empty() {
                line.push(';');
            }
            line.push_str(
                labels[function.at()].get_or_insert_with(|| folded_label(profile, *function)),
            );
        }
        add(lines, line, node.self_weight);
    }
    if tree.without_stack > 0 {
        let line = match thread {
            "" => NO_STACK.to_owned(),
            thread => format!("{thread};{NO_STACK}"),
        };
        add(lines, line, tree.without_stack);
    }
}

fn add(lines: &mut BTreeMap<String, u64>, line: String, weight: u64) {
    let sum = lines.entry(line).or_default();
    *sum = sum.saturating_add(weight);
}
