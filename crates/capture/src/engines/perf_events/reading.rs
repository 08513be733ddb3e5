//! The readers of all CPUs.

use std::sync::Arc;

use nodespy_model::{CopyRules, EventIndex};
use nodespy_perf_abi::RecordLayout;

use super::reader::{ReadRing, Reader, ReaderCounts};
use super::ring_set::RingSet;
use super::walking::SAMPLED;
use crate::sys::bpf::ProgramOptions;
use crate::sys::ring::Ring;

/// With fewer than this part of all samples read, async callers and routes are rare.
const FEW: f64 = 0.9;

/// Readers that run, or will.
#[derive(Debug)]
pub(super) struct Reading {
    options: ProgramOptions,
    readers: Vec<Reader>,
    has_started: bool,
    counts: Arc<ReaderCounts>,
}

impl Reading {
    pub(super) fn new(options: ProgramOptions) -> Self {
        Self {
            options,
            readers: Vec::new(),
            has_started: false,
            counts: Arc::default(),
        }
    }

    pub(super) fn has_started(&self) -> bool {
        self.has_started
    }

    /// Starts a reader for each ring, given by its CPU and the descriptor that is ready when it has something. Returns the
    /// descriptors that readers wait for.
    pub(super) fn start(
        &mut self,
        owners: &[(u32, i32)],
        layout: &RecordLayout,
        rings: &mut RingSet<Ring>,
    ) -> Vec<i32> {
        self.has_started = true;
        let event = EventIndex(SAMPLED as u16);
        let views: Vec<_> = rings
            .rings_of(event)
            .map(|(cpu, ring)| (cpu, ring.view()))
            .collect();
        let mut woken = Vec::new();
        for (cpu, view) in views {
            let Some(&(_, fd)) = owners.iter().find(|(of, _)| *of == cpu) else {
                continue;
            };
            let ring = ReadRing {
                cpu,
                fd,
                view,
                layout: *layout,
            };
            match Reader::start(ring, self.options, Arc::clone(&self.counts)) {
                Ok((reader, output)) => {
                    rings.expect_reader(cpu, event, output);
                    self.readers.push(reader);
                    woken.push(fd);
                }
                Err(error) => log::info!("no reader for CPU {cpu}: {error}"),
            }
        }
        woken
    }

    /// Copies more of objects from now on.
    pub(super) fn copy_also(&self, rules: &CopyRules) {
        self.readers
            .iter()
            .for_each(|reader| reader.copy_also(rules));
    }

    /// Ends the readers; a remark where they have read little.
    pub(super) fn finish(&mut self) -> Option<String> {
        self.readers.clear();
        let (samples, unchanged) = self.counts.counts();
        log::info!("{unchanged} of {samples} samples were read before their thread ran on");
        let share = unchanged as f64 / samples.max(1) as f64;
        (samples > 0 && share < FEW).then(|| {
            format!(
                "async callers and routes were looked for in {:.0} % of samples: the others ran on before they could be read \
                 (run as root, for an eBPF program that reads at once)",
                100.0 * share
            )
        })
    }
}
