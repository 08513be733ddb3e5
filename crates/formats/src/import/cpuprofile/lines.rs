//! Which line each sample was in.
//!
//! The file has a histogram of lines for a node (`positionTicks`), not a line for a sample. The
//! samples of a node get its lines in the proportion of the ticks and in their order: the k-th
//! sample the line of the k-th tick, as long as there are as many. So the lines of a node have
//! their share, while which of them came first is only as true as the file's order.

use nodespy_model::{ProfileBuilder, StackIndex};

use super::nodes::{Nodes, Row, Ticks};
use super::timeline::Placed;

/// Hands out lines to the samples of nodes.
pub(super) struct Lines {
    ticks: Vec<Ticks>,
    /// The stack of each entry of `ticks`, once it is known.
    stacks: Vec<Option<StackIndex>>,
    /// One for each node that has ticks, in order of its row.
    nodes: Vec<NodeLines>,
    /// Where in `nodes` a row is; none for rows without ticks.
    place_of_row: Vec<u32>,
}

struct NodeLines {
    /// Samples it has altogether, and how many of them have a line already.
    samples: u64,
    given: u64,
    total_ticks: u64,
    /// The entry the last sample got, and the ticks before that entry.
    entry: usize,
    ticks_before: u64,
}

const NONE: u32 = u32::MAX;

impl Lines {
    /// The lines of `nodes` for these samples.
    pub(super) fn new(nodes: &mut Nodes, samples: &[Placed]) -> Self {
        let ticks = nodes.take_ticks();
        let mut lines = Self {
            stacks: vec![None; ticks.len()],
            nodes: Vec::new(),
            place_of_row: vec![NONE; if ticks.is_empty() { 0 } else { nodes.len() }],
            ticks,
        };
        for (entry, ticks) in lines.ticks.iter().enumerate() {
            let place = &mut lines.place_of_row[ticks.row as usize];
            if *place == NONE {
                *place = lines.nodes.len() as u32;
                lines.nodes.push(NodeLines {
                    samples: 0,
                    given: 0,
                    total_ticks: 0,
                    entry,
                    ticks_before: 0,
                });
            }
            let node = lines.nodes.last_mut().expect("one was just added");
            node.total_ticks = node.total_ticks.saturating_add(ticks.count);
        }
        for sample in samples {
            if let Some(place) = lines.place_of(sample.row) {
                lines.nodes[place].samples += 1;
            }
        }
        lines
    }

    fn place_of(&self, row: Row) -> Option<usize> {
        match self.place_of_row.get(row as usize) {
            Some(&place) if place != NONE => Some(place as usize),
            _ => None,
        }
    }

    /// The stack of the next sample of a node.
    pub(super) fn next_stack(
        &mut self,
        row: Row,
        nodes: &mut Nodes,
        builder: &mut ProfileBuilder,
    ) -> Option<StackIndex> {
        let Some(place) = self.place_of(row) else {
            return nodes.stack(row, builder);
        };
        let node = &mut self.nodes[place];
        let wanted =
            u128::from(node.given) * u128::from(node.total_ticks) / u128::from(node.samples.max(1));
        node.given += 1;
        let mut ticks = self.ticks[node.entry];
        while u128::from(node.ticks_before) + u128::from(ticks.count) <= wanted {
            let next = self.ticks.get(node.entry + 1);
            let Some(next) = next.filter(|next| next.row == row) else {
                break;
            };
            node.ticks_before += ticks.count;
            node.entry += 1;
            ticks = *next;
        }
        let known = &mut self.stacks[node.entry];
        if known.is_none() {
            *known = nodes.stack_at(row, ticks.line, builder);
        }
        *known
    }
}
