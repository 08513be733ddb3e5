//! Folded stacks.

use std::collections::BTreeMap;

use nodespy_model::{
    About, Category, FrameSpec, FunctionSpec, NO_STACK, Notes, Process, Profile, ProfileBuilder,
    Thread, ThreadRole, WeightUnit, folded_label, folded_thread,
};
use proptest::prelude::*;

use crate::sample::{any_profile, read, small, written};

#[test]
fn lines_are_sorted_and_marked() {
    let text = String::from_utf8(written(&small(), "folded")).unwrap();
    assert_eq!(
        text,
        "\
libuv-worker;[no stack] 2
libuv-worker;uv_run;do_syscall_64_[k] 8
shop;[unknown] 3
shop;uv_run;processTimers node:internal/timers:500:250;total /shop/lib/cart.js:17:8_[j] 40
shop;uv_run;processTimers node:internal/timers:500:250;total /shop/lib/cart.js:17:8_[j];format /shop/node_modules/money/index.js:4:2_[j] 25
shop;uv_run;processTimers node:internal/timers:500:250;total /shop/lib/cart.js:17:8_[j];format /shop/node_modules/money/index.js:4:2_[j];Builtins_StringAdd_[j] 10
shop;uv_run;processTimers node:internal/timers:500:250;total /shop/lib/cart.js:17:8_[j];v8::internal::Scavenger::Process 12
"
    );
}

#[test]
fn what_was_exported_reads_back_and_exports_the_same() {
    let first = written(&small(), "folded");
    let again = written(&read(&first).unwrap(), "folded");
    assert_eq!(
        String::from_utf8(first).unwrap(),
        String::from_utf8(again).unwrap()
    );
}

/// Every sample's line, added up and sorted: what the streamed lines must be.
fn lines_the_simple_way(profile: &Profile) -> String {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for sample in &profile.samples {
        let mut parts = vec![folded_thread(profile, sample.thread)];
        parts.retain(|thread| !thread.is_empty());
        let threads = parts.len();
        if let Some(stack) = sample.stack {
            let frames = profile.frames_of(stack);
            let labels = frames.map(|frame| folded_label(profile, profile.frame(frame).function));
            parts.extend(labels);
            parts[threads..].reverse();
        } else {
            parts.push(NO_STACK.to_owned());
        }
        *lines.entry(parts.join(";")).or_default() += sample.weight;
    }
    let lines = lines.iter().filter(|(_, weight)| **weight > 0);
    lines
        .map(|(line, weight)| format!("{line} {weight}\n"))
        .collect()
}

#[test]
fn names_that_start_alike_are_sorted_as_lines_and_equal_lines_are_one() {
    // A space and a colon sort before `;`, a letter after it; a thread without a name gives lines
    // that look like those of threads that have one.
    let mut builder = ProfileBuilder::new(WeightUnit::Samples);
    let process = builder.process(Process::default());
    let names = ["f", "f g", "f:1", "fz", "t", "t u"];
    let frames: Vec<_> = names
        .iter()
        .flat_map(|name| [(*name, "a.so"), (*name, "b.so")])
        .map(|(name, file)| {
            let function = FunctionSpec {
                name,
                file,
                category: Category::Native,
                ..Default::default()
            };
            builder.frame(FrameSpec {
                function,
                ..Default::default()
            })
        })
        .collect();
    for (tid, name) in ["", "t", "t u", "f"].into_iter().enumerate() {
        let thread = builder.thread(Thread {
            process,
            tid: tid as u32 + 1,
            name: name.to_owned(),
            role: ThreadRole::Other,
            ..Thread::default()
        });
        builder.sample(0, thread, None, 1);
        for (position, &outer) in frames.iter().enumerate() {
            let outer = builder.stack(None, outer);
            builder.sample(0, thread, Some(outer), position as u64);
            for &inner in &frames {
                let inner = builder.stack(Some(outer), inner);
                builder.sample(0, thread, Some(inner), 2);
            }
        }
    }
    let profile = builder.finish(About::default(), Notes::default());
    let text = String::from_utf8(written(&profile, "folded")).unwrap();
    assert_eq!(text, lines_the_simple_way(&profile));
}

proptest! {
    #[test]
    fn streamed_lines_are_the_lines_of_all_samples(profile in any_profile()) {
        let text = String::from_utf8(written(&profile, "folded")).unwrap();
        prop_assert_eq!(text, lines_the_simple_way(&profile));
    }
}
