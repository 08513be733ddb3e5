//! Are threads told apart: libuv's pool, workers, V8's helpers.

use std::collections::BTreeSet;

use nodespy_model::ThreadRole;

use super::live;
use super::recorded::{Recorded, record, record_enough, share};
use super::versions::on_every_node;
use super::workload::Workload;

/// The threads of a role that were seen running.
fn threads_of(recorded: &Recorded, role: ThreadRole) -> BTreeSet<u32> {
    recorded
        .profile
        .samples
        .iter()
        .map(|sample| recorded.thread_of(sample))
        .filter(|thread| thread.role == role)
        .map(|thread| thread.tid)
        .collect()
}

/// Records `pool.js`: the work is on threads of the pool, and on those only.
fn expect_pool(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("pool.js").on(major).with_perf_map().start();
    let recorded = record_enough(&target, 3, &["-F", "499"], 800);
    let pool = recorded.role_share(ThreadRole::Pool);
    assert!(
        pool > 0.8,
        "{:.1} % on the pool\n{}",
        100.0 * pool,
        recorded.describe()
    );
    let threads = threads_of(&recorded, ThreadRole::Pool);
    assert!(
        (2..=4).contains(&threads.len()),
        "pool threads {threads:?}\n{}",
        recorded.describe()
    );
    assert!(!threads.contains(&target.pid()));
    // The work of the pool is native, and named: SHA-512 above all, then deflate.
    let named = |part: &str| {
        let weight: u64 = recorded
            .weights()
            .iter()
            .filter(|entry| recorded.profile.name_of(entry.function).contains(part))
            .map(|entry| entry.self_weight)
            .sum();
        share(weight, recorded.profile.total_weight())
    };
    let (hashing, deflating) = (named("sha512"), named("deflate") + named("longest_match"));
    assert!(
        hashing > 0.25,
        "{:.1} % in SHA-512\n{}",
        100.0 * hashing,
        recorded.describe()
    );
    assert!(
        deflating > 0.02,
        "{:.1} % in deflate\n{}",
        100.0 * deflating,
        recorded.describe()
    );
}

/// Records `workers.js`: each worker is only ever in its own function.
fn expect_workers(major: &str) {
    let Some(_live) = live() else { return };
    let target = Workload::new("workers.js")
        .on(major)
        .with_perf_map()
        .start();
    let recorded = record_enough(&target, 3, &["-F", "499"], 300);
    let workers = threads_of(&recorded, ThreadRole::Worker);
    assert_eq!(workers.len(), 2, "{}", recorded.describe());
    let share_on_workers = recorded.role_share(ThreadRole::Worker);
    assert!(share_on_workers > 0.9, "{}", recorded.describe());
    let mut found = BTreeSet::new();
    for tid in workers {
        let here = |sample: &nodespy_model::Sample| recorded.thread_of(sample).tid == tid;
        let (resize, parse) = (
            recorded.total_share_in("resizeImages", here),
            recorded.total_share_in("parseFeeds", here),
        );
        assert!(
            resize.max(parse) > 0.85 && resize.min(parse) == 0.0,
            "thread {tid}: {resize:.3} in resizeImages, {parse:.3} in parseFeeds\n{}",
            recorded.describe()
        );
        found.insert(resize > parse);
    }
    assert_eq!(found.len(), 2, "{}", recorded.describe());
}

/// Records `workers.js`: its workers have the names it gave them; node 16 keeps none, so they are numbered.
fn expect_worker_names(major: &str) {
    let Some(_live) = live() else { return };
    let names = match major {
        "16" => ["worker 1", "worker 2"],
        _ => ["parse", "resize"],
    };
    let target = Workload::new("workers.js").on(major).start();
    let recorded = record(&target, &["-d", "1", "-F", "199"]);
    let found: BTreeSet<&str> = recorded
        .profile
        .threads
        .iter()
        .filter(|thread| thread.role == ThreadRole::Worker)
        .map(|thread| thread.name.as_str())
        .collect();
    assert_eq!(found, BTreeSet::from(names), "{}", recorded.describe());
}

on_every_node! {{
    workers_have_the_names_the_program_gave_them(expect_worker_names);
} three {
    the_pool_is_told_from_the_main_thread(expect_pool);
    two_workers_are_told_apart(expect_workers);
}}
