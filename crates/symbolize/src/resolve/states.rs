//! What threads were doing, as labels of samples. Idle time gets a frame that says so.

use nodespy_model::{
    Category, ContextIndex, FastMap, FrameIndex, FrameSpec, FunctionSpec, Labels, ProfileBuilder,
    StackIndex, ThreadState, label_key, state, wait_of,
};

/// The frame on top of idle time, which V8 calls the same.
const IDLE: FunctionSpec<'static> = FunctionSpec {
    name: "(idle)",
    file: "",
    line: 0,
    column: 0,
    category: Category::Idle,
};

/// What a thread was doing, for the request with this number, with the labels of this number.
type Of = (ThreadState, u32, u32);
/// A route, and other labels that samples come with.
type Given<'a> = (Option<&'a String>, Option<&'a Labels>);
/// A stack and its labels.
type Tagged = (Option<StackIndex>, ContextIndex);

/// The stacks and labels of one profile.
#[derive(Debug, Default)]
pub(super) struct States {
    known: FastMap<(Of, Option<StackIndex>), Tagged>,
    idle: Option<FrameIndex>,
}

impl States {
    /// The stack and labels of a sample of a thread that was doing this.
    pub(super) fn tag(
        &mut self,
        of: Of,
        stack: Option<StackIndex>,
        given: Given<'_>,
        builder: &mut ProfileBuilder,
    ) -> Tagged {
        if of.0 == ThreadState::Unknown && given == (None, None) {
            return (stack, ContextIndex::NONE);
        }
        let key = (of, stack);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let tagged = self.tagged(of.0, stack, given, builder);
        self.known.insert(key, tagged);
        tagged
    }

    fn tagged(
        &mut self,
        of: ThreadState,
        stack: Option<StackIndex>,
        (route, labels): Given<'_>,
        builder: &mut ProfileBuilder,
    ) -> Tagged {
        let mut labels = labels.cloned().unwrap_or_default();
        if let Some(route) = route {
            labels.set(label_key::ROUTE, route);
        }
        let mut tagged = stack;
        match of {
            ThreadState::Unknown => {}
            ThreadState::OnCpu => labels.set(label_key::STATE, state::ON_CPU),
            ThreadState::Runnable => labels.set(label_key::STATE, state::RUNNABLE),
            ThreadState::Waiting(waiting_in) => {
                let profile = builder.so_far();
                let frames = stack.into_iter().flat_map(|stack| profile.frames_of(stack));
                let functions: Vec<(&str, Category)> = frames
                    .map(|frame| profile.frame(frame).function)
                    .map(|function| {
                        let category = profile.function(function).category;
                        (profile.name_of(function), category)
                    })
                    .collect();
                let wait = wait_of(waiting_in, functions.iter().copied());
                labels.set(label_key::WAIT, wait.kind);
                let words = if wait.is_idle {
                    let frame = self.idle_frame(builder);
                    tagged = Some(builder.stack(stack, frame));
                    state::IDLE
                } else {
                    state::WAITING
                };
                labels.set(label_key::STATE, words);
            }
        }
        (tagged, builder.context(labels))
    }

    fn idle_frame(&mut self, builder: &mut ProfileBuilder) -> FrameIndex {
        *self.idle.get_or_insert_with(|| {
            builder.frame(FrameSpec {
                function: IDLE,
                ..FrameSpec::default()
            })
        })
    }
}
