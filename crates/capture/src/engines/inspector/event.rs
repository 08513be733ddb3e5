//! What V8 is asked to sample, and in which words.

use serde_json::{Value, json};

use super::InspectorOptions;

/// What makes a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InspectorEvent {
    /// Time: where each thread is, a thousand times a second.
    #[default]
    Cpu,
    /// Memory: who allocates, once for each so many bytes.
    Allocations,
}

impl InspectorEvent {
    /// Its name in a profile.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cpu => "CPU profiler",
            Self::Allocations => "allocations",
        }
    }

    /// The commands that start it; the last one is the start.
    pub(super) fn start(self, options: &InspectorOptions) -> Vec<(&'static str, Value)> {
        match self {
            Self::Cpu => vec![
                ("Profiler.enable", json!({})),
                (
                    "Profiler.setSamplingInterval",
                    json!({ "interval": options.interval_us }),
                ),
                ("Profiler.start", json!({})),
            ],
            Self::Allocations => vec![
                ("HeapProfiler.enable", json!({})),
                (
                    "HeapProfiler.startSampling",
                    // Node 20 and later count what was collected since, too; earlier ones take no
                    // notice of these two.
                    json!({
                        "samplingInterval": options.alloc_bytes,
                        "includeObjectsCollectedByMajorGC": true,
                        "includeObjectsCollectedByMinorGC": true,
                    }),
                ),
            ],
        }
    }

    /// The command that ends it and answers with the profile.
    pub(super) fn stop(self) -> &'static str {
        match self {
            Self::Cpu => "Profiler.stop",
            Self::Allocations => "HeapProfiler.stopSampling",
        }
    }
}
