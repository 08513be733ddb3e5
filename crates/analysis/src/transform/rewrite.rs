//! The one pass through the stacks that every filter on frames makes.

use nodespy_model::FastMap;
use nodespy_model::{
    Category, Frame, FrameIndex, FrameKind, Function, FunctionIndex, Profile, Stack, StackIndex,
    Tier,
};
use nodespy_model::{MovedStacks, StackMoves};

/// What becomes of the frame that a stack adds to its caller's.
pub(super) enum Fate {
    /// It is shown as this frame, itself or another.
    Stays(FrameIndex),
    /// It goes, and its weight with it to the caller.
    JoinsCaller,
}

/// What becomes of a sample none of whose frames is left.
#[derive(Clone, Copy)]
pub(super) enum Leftover {
    /// It is left out, and so are samples that had no stack to begin with.
    Dropped,
    /// It keeps its innermost frame.
    Innermost,
    /// It is in a frame of this name, which is no function.
    Named(&'static str),
}

/// A frame to decide on.
pub(super) struct Step<'a> {
    /// The profile, its stacks apart.
    pub(super) profile: &'a Profile,
    /// The position of the stack that adds the frame.
    pub(super) stack: StackIndex,
    /// The frame.
    pub(super) frame: FrameIndex,
    /// What its caller is shown as; none at the root.
    pub(super) caller: Option<FrameIndex>,
}

impl Step<'_> {
    /// The frame's function.
    pub(super) fn function(&self) -> FunctionIndex {
        self.profile.frame(self.frame).function
    }

    /// Leaves the frame as it is.
    pub(super) fn stays(&self) -> Fate {
        Fate::Stays(self.frame)
    }
}

/// The profile with every frame of every stack as `fate` decides, callers before their callees.
pub(super) fn rewrite(
    mut profile: Profile,
    leftover: Leftover,
    mut fate: impl FnMut(Step<'_>) -> Fate,
) -> Profile {
    let old = std::mem::take(&mut profile.stacks);
    let mut moves = StackMoves::of(&old);
    for (position, stack) in old.iter().enumerate() {
        let step = Step {
            profile: &profile,
            stack: StackIndex::new(position as u32),
            frame: stack.frame,
            caller: moves.next_caller(),
        };
        moves.next(match fate(step) {
            Fate::Stays(frame) => Some(frame),
            Fate::JoinsCaller => None,
        });
    }
    let MovedStacks { mut stacks, moved } = moves.finish();
    let is_left = |stack: StackIndex| moved[stack.at()].is_some();
    let mut samples = std::mem::take(&mut profile.samples);
    let stand_in = match leftover {
        Leftover::Dropped => {
            samples.retain(|sample| sample.stack.is_some_and(is_left));
            None
        }
        Leftover::Innermost => None,
        Leftover::Named(name) => {
            let is_needed = |stack: StackIndex| !is_left(stack);
            let is_needed = samples.iter().any(|each| each.stack.is_some_and(is_needed));
            is_needed.then(|| frame_called(&mut profile, name, Category::Unknown))
        }
    };
    let mut roots: Option<Roots> = None;
    for sample in &mut samples {
        sample.stack = sample.stack.map(|stack| {
            let innermost = stand_in.unwrap_or(old[stack.at()].frame);
            moved[stack.at()].unwrap_or_else(|| {
                let roots = roots.get_or_insert_with(|| Roots::of(&stacks));
                roots.intern(&mut stacks, innermost)
            })
        });
    }
    profile.samples = samples;
    profile.stacks = stacks;
    profile.stacks.shrink_to_fit();
    profile
}

/// The frame of a function that is only a name, which the profile gets if it has none such.
pub(super) fn frame_called(profile: &mut Profile, name: &str, category: Category) -> FrameIndex {
    let is_it = |function: &Function| {
        function.file.is_none()
            && function.line == 0
            && function.category == category
            && profile.strings.get(function.name) == name
    };
    let known = profile.functions.iter().position(is_it);
    let frame_of = |function: usize| Frame {
        function: FunctionIndex(function as u32),
        line: 0,
        column: 0,
        tier: Tier::None,
        kind: FrameKind::Physical,
    };
    if let Some(function) = known {
        let is_its = |frame: &Frame| *frame == frame_of(function);
        if let Some(position) = profile.frames.iter().position(is_its) {
            return FrameIndex(position as u32);
        }
    }
    let function = known.unwrap_or_else(|| {
        profile.functions.push(Function {
            name: profile.strings.push(name),
            file: None,
            line: 0,
            column: 0,
            category,
        });
        profile.functions.len() - 1
    });
    profile.frames.push(frame_of(function));
    FrameIndex(profile.frames.len() as u32 - 1)
}

/// The stacks of a table that have no caller.
struct Roots {
    of_frame: FastMap<FrameIndex, StackIndex>,
}

impl Roots {
    fn of(stacks: &[Stack]) -> Self {
        let roots = stacks.iter().enumerate();
        let roots = roots.filter(|(_, stack)| stack.parent.is_none());
        Self {
            of_frame: roots
                .map(|(position, stack)| (stack.frame, StackIndex::new(position as u32)))
                .collect(),
        }
    }

    fn intern(&mut self, stacks: &mut Vec<Stack>, frame: FrameIndex) -> StackIndex {
        *self.of_frame.entry(frame).or_insert_with(|| {
            let parent = None;
            stacks.push(Stack { parent, frame });
            StackIndex::new(stacks.len() as u32 - 1)
        })
    }
}

/// The answer to a question for every function, asked once each.
pub(super) fn of_functions(
    profile: &Profile,
    ask: impl Fn(&Profile, FunctionIndex) -> bool,
) -> Vec<bool> {
    (0..profile.functions.len())
        .map(|position| ask(profile, FunctionIndex(position as u32)))
        .collect()
}
