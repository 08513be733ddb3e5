//! What no sample needs any more.

use super::threads::{positions_after, retain_at};
use nodespy_model::{FrameIndex, FunctionIndex, Profile, StackIndex, StringIndex, StringTable};

/// The profile without the stacks, frames, functions, strings and sources that no sample leads to:
/// a part of a recording that is handed on does not reveal the rest. Threads and processes stay.
pub fn without_unused(mut profile: Profile) -> Profile {
    let mut stacks = vec![false; profile.stacks.len()];
    for stack in profile.samples.iter().filter_map(|sample| sample.stack) {
        stacks[stack.at()] = true;
    }
    let mut frames = vec![false; profile.frames.len()];
    for (position, stack) in profile.stacks.iter().enumerate().rev() {
        if stacks[position] {
            frames[stack.frame.at()] = true;
            if let Some(parent) = stack.parent {
                stacks[parent.at()] = true;
            }
        }
    }
    let mut functions = vec![false; profile.functions.len()];
    for (frame, _) in profile.frames.iter().zip(&frames).filter(|each| *each.1) {
        functions[frame.function.at()] = true;
    }
    retain_at(&mut profile.stacks, &stacks);
    retain_at(&mut profile.frames, &frames);
    retain_at(&mut profile.functions, &functions);
    for rows in [&mut profile.deopt_reasons, &mut profile.generated_places] {
        rows.retain(|(function, _)| functions[function.at()]);
    }
    let stacks = positions_after(&stacks);
    let frames = positions_after(&frames);
    let functions = positions_after(&functions);
    for sample in &mut profile.samples {
        sample.stack = sample
            .stack
            .map(|stack| StackIndex::new(stacks[stack.at()]));
    }
    for stack in &mut profile.stacks {
        stack.parent = stack
            .parent
            .map(|parent| StackIndex::new(stacks[parent.at()]));
        stack.frame = FrameIndex(frames[stack.frame.at()]);
    }
    for frame in &mut profile.frames {
        frame.function = FunctionIndex(functions[frame.function.at()]);
    }
    let rows = profile.deopt_reasons.iter_mut();
    for (function, _) in rows.chain(&mut profile.generated_places) {
        *function = FunctionIndex(functions[function.at()]);
    }
    let mut files = vec![false; profile.strings.len()];
    for file in profile.functions.iter().filter_map(|row| row.file) {
        files[file.at()] = true;
    }
    profile.sources.retain(|source| files[source.file.at()]);
    without_unused_strings(profile)
}

fn without_unused_strings(mut profile: Profile) -> Profile {
    let mut strings = StringTable::default();
    let mut moved: Vec<Option<StringIndex>> = vec![None; profile.strings.len()];
    let old = std::mem::take(&mut profile.strings);
    let mut moved_to = |string: StringIndex| {
        *moved[string.at()].get_or_insert_with(|| strings.push(old.get(string)))
    };
    for function in &mut profile.functions {
        function.name = moved_to(function.name);
        function.file = function.file.map(&mut moved_to);
    }
    let rows = profile.deopt_reasons.iter_mut();
    for (_, text) in rows.chain(&mut profile.generated_places) {
        *text = moved_to(*text);
    }
    for source in &mut profile.sources {
        source.file = moved_to(source.file);
    }
    profile.strings = strings;
    profile
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_sound, folded, named, profile_of, random_profile, random_stacks};
    use crate::transform::{condensed, focus};
    use nodespy_model::{About, FunctionSpec, Notes, Source, rewritten};
    use proptest::prelude::*;

    #[test]
    fn names_of_what_is_gone_are_gone() {
        let profile = profile_of("a;secret@/home/secret.js 2\na;b@/srv/b.js 1");
        let part = without_unused(focus(profile, named("b")));
        assert_eq!(
            part.strings.iter().collect::<Vec<_>>(),
            ["a", "b", "/srv/b.js"]
        );
        assert_eq!(folded(&part), ["a;b 1"]);
    }

    #[test]
    fn sources_of_what_is_gone_are_gone() {
        let mut profile = profile_of("a;secret@/home/secret.js 2\na;b@/srv/b.js 1");
        let files: Vec<_> = profile
            .functions
            .iter()
            .filter_map(|row| row.file)
            .collect();
        profile.sources = files
            .into_iter()
            .map(|file| Source {
                file,
                text: format!("// {}\n", profile.strings.get(file)),
            })
            .collect();
        let part = without_unused(focus(profile, named("b")));
        let texts: Vec<_> = part.sources.iter().map(|source| &source.text).collect();
        assert_eq!(texts, ["// /srv/b.js\n"]);
        assert_eq!(part.strings.get(part.sources[0].file), "/srv/b.js");
    }

    #[test]
    fn generated_places_go_with_their_functions() {
        let profile = profile_of("a 2\nsecret 1");
        let spec = |index| FunctionSpec {
            file: "/src/all.ts",
            ..profile.spec_of(index)
        };
        let (mut builder, functions) = rewritten(&profile, spec, |_| (7, 1));
        builder.generated_place(functions[0], "/dist/all.js:1:20");
        builder.generated_place(functions[1], "/dist/all.js:1:50");
        let written = builder.finish(About::default(), Notes::default());
        let kept = without_unused(condensed(&focus(written, named("a"))));
        assert_eq!(kept.generated_places.len(), 1);
        let (function, place) = kept.generated_places[0];
        assert_eq!(kept.location_of(function), "/src/all.ts");
        assert_eq!(kept.strings.get(place), "/dist/all.js:1:20");
    }

    proptest! {
        #[test]
        fn stacks_stay_what_they_were(stacks in random_stacks()) {
            let part = focus(random_profile(&stacks), named("a|d"));
            let before = folded(&part);
            let part = without_unused(part);
            prop_assert_eq!(folded(&part), before);
            assert_sound(&part);
            prop_assert_eq!(&without_unused(part.clone()), &part);
        }
    }
}
