//! What a profile may hold and not every format has room for.

use nodespy_model::{Profile, ThreadRole, Tier, WeightUnit};

/// One kind of knowledge in a profile, which an exporter may have to leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// When each sample was taken.
    Times,
    /// On which processor each sample was taken.
    Processors,
    /// The line of a function that was being run.
    CurrentLines,
    /// The line at which a function was calling the next.
    CallerLines,
    /// Where functions start.
    SourcePositions,
    /// What kind of code a function is.
    Categories,
    /// Which compiler made the code of a frame.
    Tiers,
    /// Which frames were inlined into their callers.
    Inlining,
    /// Which frames are suspended and await what is above them.
    AsyncFrames,
    /// More than one thread, each with its samples.
    Threads,
    /// What threads are for.
    ThreadRoles,
    /// Command lines, versions, when processes started and ended.
    ProcessDetails,
    /// Where and as what processes ran: container, pod, app of pm2 and the like.
    Labels,
    /// Why V8 dropped optimized code.
    DeoptReasons,
    /// The text of source files.
    Sources,
    /// Where functions are in the code that ran, besides where they were written.
    GeneratedPlaces,
    /// Samples for which nothing is known but the time.
    SamplesWithoutStack,
    /// Weights that are not samples or time.
    WeightUnit,
    /// What samples are tagged with.
    Contexts,
    /// What was lost, cut or guessed.
    Notes,
}

impl Detail {
    /// The words for it in messages.
    pub fn label(self) -> &'static str {
        match self {
            Self::Times => "times",
            Self::Processors => "processors",
            Self::CurrentLines => "current lines",
            Self::CallerLines => "lines of callers",
            Self::SourcePositions => "source positions",
            Self::Categories => "kinds of code",
            Self::Tiers => "tiers",
            Self::Inlining => "inlining",
            Self::AsyncFrames => "which frames are async",
            Self::Threads => "threads",
            Self::ThreadRoles => "thread roles",
            Self::ProcessDetails => "process details",
            Self::Labels => "labels",
            Self::DeoptReasons => "deoptimization reasons",
            Self::Sources => "source code",
            Self::GeneratedPlaces => "places in generated code",
            Self::SamplesWithoutStack => "samples without a stack",
            Self::WeightUnit => "the unit of weights",
            Self::Contexts => "labels of samples",
            Self::Notes => "notes on quality",
        }
    }

    /// Whether the profile holds any of it, so that leaving it out loses something.
    pub fn is_in(self, profile: &Profile) -> bool {
        match self {
            Self::Times => profile.samples.iter().any(|sample| sample.time > 0),
            Self::Processors => profile.samples.iter().any(|sample| sample.cpu.is_some()),
            Self::CurrentLines => profile
                .frames
                .iter()
                .any(|frame| frame.line > 0 && frame.line != profile.function(frame.function).line),
            Self::CallerLines => profile
                .stacks
                .iter()
                .filter_map(|stack| stack.parent)
                .any(|parent| profile.frame(profile.stacks[parent.at()].frame).line > 0),
            Self::SourcePositions => profile.functions.iter().any(|function| function.line > 0),
            Self::Categories => !profile.functions.is_empty(),
            Self::Tiers => profile.frames.iter().any(|frame| frame.tier != Tier::None),
            Self::Inlining => profile.frames.iter().any(|frame| frame.kind.is_inlined()),
            Self::AsyncFrames => profile.frames.iter().any(|frame| frame.kind.is_async()),
            Self::Threads => profile.threads.len() > 1,
            Self::ThreadRoles => profile
                .threads
                .iter()
                .any(|thread| thread.role != ThreadRole::Other),
            Self::ProcessDetails => profile
                .processes
                .iter()
                .any(|process| !process.command.is_empty() || process.node_version.is_some()),
            Self::Labels => {
                let mut processes = profile.processes.iter();
                processes.any(|process| !process.labels.is_empty())
            }
            Self::DeoptReasons => !profile.deopt_reasons.is_empty(),
            Self::Sources => !profile.sources.is_empty(),
            Self::GeneratedPlaces => !profile.generated_places.is_empty(),
            Self::SamplesWithoutStack => {
                profile.samples.iter().any(|sample| sample.stack.is_none())
            }
            Self::WeightUnit => matches!(profile.unit(), WeightUnit::Bytes | WeightUnit::Events),
            Self::Contexts => !profile.contexts.is_empty(),
            Self::Notes => {
                let notes = &profile.notes;
                // Who filters knows it.
                !notes.remarks.is_empty()
                    || notes.unwound_stacks > 0
                    || notes.jit_frames > 0
                    || notes.lost_samples > 0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_profile_loses_nothing_in_any_format() {
        let profile = Profile::default();
        let lost: Vec<&str> = super::super::EXPORTERS
            .iter()
            .flat_map(|exporter| exporter.leaves_out())
            .filter(|detail| detail.is_in(&profile))
            .map(|detail| detail.label())
            .collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}
