//! V8's sampled heap profile, `.heapprofile`, as Chrome's DevTools and VS Code open it.

use std::io::Write;

use nodespy_model::{Profile, WeightUnit};

use super::cpuprofile::{ROOT, Row, Tree, busiest_thread, idle_code, samples_of, write_call_frame};
use super::{Detail, ExportError, Exporter};
use crate::json::Writer;

/// The exporter of `.heapprofile`.
pub(crate) struct HeapProfile;

impl Exporter for HeapProfile {
    fn name(&self) -> &'static str {
        "heapprofile"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["heapprofile"]
    }

    fn leaves_out(&self) -> &'static [Detail] {
        &[
            Detail::Threads,
            Detail::Times,
            Detail::CurrentLines,
            Detail::Processors,
            Detail::Tiers,
            Detail::Inlining,
            Detail::AsyncFrames,
            Detail::ThreadRoles,
            Detail::ProcessDetails,
            Detail::Labels,
            Detail::DeoptReasons,
            Detail::Notes,
            Detail::Sources,
            Detail::GeneratedPlaces,
            Detail::Contexts,
        ]
    }

    fn export(&self, profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError> {
        if profile.unit() != WeightUnit::Bytes {
            return Err(ExportError::WrongUnit {
                format: self.name(),
                unit: profile.unit().label(),
                instead: "cpuprofile",
            });
        }
        let thread = busiest_thread(profile);
        let of_thread = samples_of(profile, thread);
        let tree = Tree::of(profile, &of_thread, idle_code(profile));
        let samples: Vec<(Row, u64)> = of_thread
            .iter()
            .map(|sample| {
                let row = sample.stack.map_or(ROOT, |stack| tree.row_of(stack));
                (row, sample.weight)
            })
            .collect();
        let mut writer = Writer::new(output);
        writer.begin_object();
        writer.key("head");
        write_tree(&mut writer, profile, &tree, &samples);
        writer.key("samples");
        writer.begin_array();
        for (position, (row, bytes)) in samples.iter().enumerate() {
            writer.begin_object();
            writer.number_field("size", *bytes);
            writer.number_field("nodeId", *row + 1);
            writer.number_field("ordinal", position as u64 + 1);
            writer.end_object();
        }
        writer.end_array();
        writer.end_object();
        Ok(writer.finish()?)
    }
}

/// Writes the nodes inside one another, however deep, without recursion.
fn write_tree(writer: &mut Writer<'_>, profile: &Profile, tree: &Tree, samples: &[(Row, u64)]) {
    let mut sizes = vec![0u64; tree.nodes.len()];
    for (row, bytes) in samples {
        let size = &mut sizes[*row as usize];
        *size = size.saturating_add(*bytes);
    }
    let (starts, children) = tree.children();
    // The nodes that are open, each with the position of its next child.
    let mut open = Vec::new();
    let mut entered = Some(ROOT);
    loop {
        if let Some(row) = entered.take() {
            writer.begin_object();
            write_call_frame(writer, profile, tree.nodes[row as usize].code);
            writer.number_field("selfSize", sizes[row as usize]);
            writer.number_field("id", row + 1);
            writer.key("children");
            writer.begin_array();
            open.push((row, starts[row as usize]));
        }
        let Some((row, next)) = open.last_mut() else {
            break;
        };
        if *next < starts[*row as usize + 1] {
            entered = Some(children[*next]);
            *next += 1;
        } else {
            open.pop();
            writer.end_array();
            writer.end_object();
        }
    }
}
