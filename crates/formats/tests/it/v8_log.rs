//! Logs of `node --prof`.

use nodespy_formats::{ImportError, ImportOptions, detect, import};
use nodespy_model::{Contents, Profile, Sample};

use crate::fixture::{fixture, fixture_text};
use crate::sample::read;

/// A log with one of everything: `inner` is inlined into `outer`, which is compiled, moved and
/// dropped; the script has three lines.
pub(crate) const SMALL: &str = r"v8-version,12,4,254,21,-node.57,0
v8-platform,linux,linux
shared-library,/opt/node/bin/node,0x400000,0x32e7000,0
shared-library,/usr/lib/libc.so.6,0x7f0000000000,0x7f000017c000,0
shared-library,7f1000000000-7f1000001000,0x7f1000000000,0x7f1000001000,0
shared-library-end
profiler,begin,500
new,CodeRange,0x7f2000000000,0
code-creation,Builtin,2,100,0x7f2010000000,256,ArrayMap
code-creation,BytecodeHandler,0,100,0x7f2010000100,256,Ldar
code-creation,RegExp,3,120,0x7f2000001000,64,a\x2C\\d+
script-source,7,/app/shop.js,function inner(x) {\n  return x + 1; }\nfunction outer() { return inner(2); }
code-creation,JS,10,200,0x1000,16,inner /app/shop.js:1:15,0x5000,~
code-source-info,0x1000,7,14,36,C0O14C4O29,,
code-creation,JS,10,210,0x2000,32,outer /app/shop.js:3:15,0x6000,~
code-source-info,0x2000,7,53,77,C0O53C8O64,,
tick,0x7f2010000110,1000,0,0x0,0,0x2008
tick,0x401234,2000,0,0x0,1,0x2008
code-creation,JS,12,2100,0x7f2000002000,128,outer /app/shop.js:3:15,0x6000,*'
code-source-info,0x7f2000002000,7,53,77,C0O53C16O29I0C32O64,F0O64,S0x5000
tick,0x7f2000002018,3000,0,0x0,0
code-move,0x7f2000002000,0x7f2000003000
tick,0x7f2000003018,4000,0,0x0,0
tick,0x7f2000002018,5000,0,0x0,0
code-deopt,5100,128,0x7f2000003000,0,64,deopt-eager,</app/shop.js:3:31>,not a Smi
tick,0x7f2010000010,6000,1,0x7f0000000100,6,0x7f2000003021
tick,0x7f2000001008,7000,0,0x0,0,+0x8,overflow
tick,0x7f0000000200,8000,0,0x0,8
code-delete,0x7f2000003000
tick,0x7f2000003018,9000,0,0x0,0
profiler,end
";

/// The stack of a sample, leaf first, in V8's own words.
fn told(profile: &Profile, sample: &Sample) -> Vec<String> {
    let frames = sample
        .stack
        .into_iter()
        .flat_map(|it| profile.frames_of(it));
    let told = frames.map(|frame| {
        let frame = profile.frame(frame);
        let mark = ["", "~", "^", "+", "*"][frame.tier as usize];
        let inlined = if frame.kind.is_inlined() {
            " inlined"
        } else {
            ""
        };
        let line = match frame.line {
            0 => String::new(),
            line => format!(":{line}:{}", frame.column),
        };
        format!("{mark}{}{line}{inlined}", profile.name_of(frame.function))
    });
    told.collect()
}

#[test]
fn without_lines_and_compilers_every_tick_has_the_same_functions() {
    let options = ImportOptions {
        functions_only: true,
        ..ImportOptions::default()
    };
    let recording = import(SMALL.as_bytes().to_vec().into(), &options).unwrap();
    let Contents::PartlyNamed(brief, _) = recording.contents else {
        panic!("native code has no names in a log");
    };
    let full = read(SMALL.as_bytes()).unwrap();
    let functions = |profile: &Profile| -> Vec<Vec<String>> {
        let of_sample = |sample: &Sample| {
            let frames = profile.frames_of(sample.stack.unwrap());
            let functions = frames.map(|frame| profile.frame(frame).function);
            functions.map(|it| profile.location_of(it)).collect()
        };
        profile.samples.iter().map(of_sample).collect()
    };
    assert_eq!(functions(&brief), functions(&full));
    assert!(brief.frames.len() < full.frames.len());
    assert_eq!(brief.frames.len(), brief.functions.len());
}

#[test]
fn every_tick_is_named_by_what_was_there_at_that_moment() {
    let profile = read(SMALL.as_bytes()).unwrap();
    let ticks: Vec<(u64, String)> = profile
        .samples
        .iter()
        .map(|sample| (sample.time / 1000, told(&profile, sample).join(" < ")))
        .collect();
    let expected = [
        (1000, "LdarHandler < ~outer:3:27"),
        (2000, "[node+0x1234] < (garbage collector) < ~outer:3:27"),
        (3000, "*inner:2:10 inlined < *outer:3:27"),
        (4000, "*inner:2:10 inlined < *outer:3:27"),
        (5000, "[unknown]"),
        (6000, "[libc.so.6+0x100] < *outer:3:27"),
        (7000, "a,\\d+ < a,\\d+"),
        (8000, "(idle) < [libc.so.6+0x200]"),
        (9000, "[unknown]"),
    ];
    assert_eq!(
        ticks,
        expected.map(|(time, stack)| (time, stack.to_owned()))
    );
}

#[test]
fn a_log_tells_its_rate_its_application_and_why_code_was_dropped() {
    let profile = read(SMALL.as_bytes()).unwrap();
    assert_eq!(profile.event().rate_hz(), 2000);
    assert_eq!(profile.about.app, "shop.js");
    assert_eq!(profile.about.duration, 9_000_000);
    let reasons: Vec<(&str, &str)> = profile
        .deopt_reasons
        .iter()
        .map(|(function, reason)| (profile.name_of(*function), profile.strings.get(*reason)))
        .collect();
    assert_eq!(reasons, [("outer", "not a Smi")]);
    assert_eq!(profile.notes.remarks, [""; 0]);
}

#[test]
fn logs_of_several_isolates_in_one_file_are_a_thread_each() {
    let both = format!("{SMALL}{SMALL}");
    let profile = read(both.as_bytes()).unwrap();
    assert_eq!(profile.threads.len(), 2);
    for thread in 0..2 {
        let of_thread = profile.samples.iter().filter(|it| it.thread.0 == thread);
        assert_eq!(of_thread.count(), 9);
    }
}

#[test]
fn a_log_that_is_cut_off_keeps_what_came_before_and_says_where() {
    let at = SMALL.find("tick,0x7f2000003018,4000").unwrap();
    let profile = read(&SMALL.as_bytes()[..at + 12]).unwrap();
    assert_eq!(profile.samples.len(), 3);
    assert_eq!(
        profile.notes.remarks,
        ["the log is cut off in line 23, which is left out"]
    );
}

#[test]
fn lines_that_make_no_sense_are_counted_and_the_first_is_named() {
    let damaged = SMALL
        .replace("tick,0x401234,", "tick,0x40\x00234,")
        .replace("code-move,0x7f2000002000,", "code-move,");
    let profile = read(damaged.as_bytes()).unwrap();
    assert_eq!(
        profile.notes.remarks,
        ["2 lines of the log make no sense and are left out; line 18 is the first"]
    );
}

#[test]
fn a_log_without_ticks_is_an_error() {
    let error = read(b"v8-version,12,4,254,21,-node.57,0\nprofiler,begin,1000\n").unwrap_err();
    assert!(matches!(error, ImportError::NoStacks), "{error}");
}

/// How many ticks `--prof-process` counts.
fn processed_ticks(text: &str) -> usize {
    let (_, rest) = text.split_once('(').unwrap();
    rest.split_once(" ticks").unwrap().0.parse().unwrap()
}

#[test]
fn logs_of_node_16_to_26_are_recognized_and_read_whole() {
    // Node 26 logs no code of the functions that its snapshot holds, the loader of modules among them.
    for (name, least) in [("node16", 0.86), ("node20", 0.86), ("node26", 0.5)] {
        let bytes = fixture(&format!("v8_log/{name}-v8.log.gz"));
        assert_eq!(detect(&bytes).unwrap().name(), "v8-log", "{name}");
        let profile = read(&bytes).unwrap();
        let expected = fixture_text(&format!("v8_log/{name}.prof-process.txt"));
        assert_eq!(profile.samples.len(), processed_ticks(&expected), "{name}");
        assert_eq!(profile.notes.remarks, [""; 0], "{name}");
        let named = profile.notes.confidence().jit_named;
        assert!(named > least, "{name}: {named}");
    }
}

/// Node 20 runs copies of its builtins, which its tool counts as nothing.
#[test]
fn copied_builtins_of_node_20_have_names() {
    let profile = read(&fixture("v8_log/node20-v8.log.gz")).unwrap();
    let ticks = |name| crate::in_words::self_weight(&profile, name);
    assert!(ticks("ArrayTimSort") > 10, "{}", ticks("ArrayTimSort"));
    // What is left are ticks without an address.
    let without_name = ticks("[unknown]") as usize;
    assert!(without_name * 10 < profile.samples.len(), "{without_name}");
}
