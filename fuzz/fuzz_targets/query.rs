//! No text may crash or hang the reader of queries and conditions, nor what it makes of a small profile.
#![no_main]

use nodespy_analysis::{Condition, Query};
use nodespy_model::{
    About, FrameSpec, FunctionSpec, Notes, Process, ProfileBuilder, Thread, WeightUnit,
};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = Condition::parse(text).map_err(|error| error.marked(text));
    if let Ok(query) = Query::parse(text) {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let process = builder.process(Process::default());
        let thread = builder.thread(Thread {
            process,
            ..Thread::default()
        });
        let mut stack = None;
        for name in ["main", "a", "main"] {
            let frame = builder.frame(FrameSpec {
                function: FunctionSpec {
                    name,
                    ..FunctionSpec::default()
                },
                ..FrameSpec::default()
            });
            stack = Some(builder.stack(stack, frame));
        }
        builder.sample(0, thread, stack, 3);
        builder.sample(1, thread, None, 1);
        query.answer(&builder.finish(About::default(), Notes::default()));
    }
});
