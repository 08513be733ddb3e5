//! No bytes bring a reader down, not even those that other programs wrote and something broke.

use crate::corpus;
use crate::mutate::{collapse_survives, shortened_perf_data, survive};

#[test]
fn no_file_of_the_corpus_brings_its_reader_down() {
    for (from, name) in [
        ("cpuprofile", "cpuprofile/node10-example.cpuprofile"),
        ("chrome-trace", "chrome-trace/event-simple.json"),
        (
            "chrome-trace",
            "chrome-trace/event-simple-with-samples.json",
        ),
        ("speedscope", "speedscope/simple.speedscope.json"),
        ("perf-script", "perf-script/perf-js-stacks-01.txt"),
    ] {
        survive(from, &corpus(name), <[u8]>::to_vec);
    }
    let heap = corpus("heapprofile/node10.heapprofile");
    survive("heapprofile", &heap[..2000], <[u8]>::to_vec);
    let perf = shortened_perf_data(corpus("perf-data/node20.perf.data"));
    survive("perf.data", &perf, <[u8]>::to_vec);
}

#[test]
fn no_text_brings_collapse_down() {
    collapse_survives(&corpus("perf-script/inferno-go-stacks.txt"));
}
