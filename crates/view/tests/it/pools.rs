//! What a recording says of libuv's thread pool.

use nodespy_model::{Pool, PoolJobs, PoolSubmitter, Profile};

use crate::findings::findings;
use crate::sample::{drawn, shop};

fn recorded(pool: Pool) -> Profile {
    let mut profile = shop();
    profile.processes[0].pool = Some(pool);
    profile
}

fn jobs(kind: &str, waiting: u64, about: &str) -> PoolJobs {
    PoolJobs {
        kind: kind.to_owned(),
        waiting,
        about: about.to_owned(),
    }
}

#[test]
fn a_full_pool_is_told_with_what_waits() {
    let pool = Pool {
        threads: 4,
        readings: 100,
        busy: 396,
        full: 98,
        waiting: 1_180,
        jobs: vec![jobs("crypto", 1_062, ""), jobs("fs.open", 118, "/a")],
        ..Pool::default()
    };
    assert_eq!(
        findings(&recorded(pool.clone()), "pool"),
        [
            "11.8 jobs wait for libuv's pool on average, 90.0 % of them crypto: its 4 threads are \
             all busy 98.0 % of the time; raise UV_THREADPOOL_SIZE, or ask for less"
        ]
    );
    let text = drawn(&recorded(pool), "text").replace("\n  ", " ");
    assert!(text.contains("libuv pool: 4.0 of 4 threads busy"), "{text}");
    assert!(text.contains("fs.open /a 10.0 %"), "{text}");
}

#[test]
fn a_line_that_submits_jobs_is_where_to_ask_for_less() {
    let submitter = |function: &str, place: &str, jobs: u64| PoolSubmitter {
        function: function.to_owned(),
        place: place.to_owned(),
        jobs,
    };
    let pool = Pool {
        threads: 4,
        readings: 100,
        busy: 400,
        full: 100,
        waiting: 1_200,
        jobs: vec![jobs("crypto", 1_200, "")],
        submitters: vec![
            submitter("step", "node:internal/fs:9", 30),
            submitter("login", "/app/lib/auth.js:41", 10),
        ],
        ..Pool::default()
    };
    let found = findings(&recorded(pool.clone()), "pool");
    let less = "raise UV_THREADPOOL_SIZE, or call it less (/app/lib/auth.js:41)";
    assert!(found[0].ends_with(less), "{found:?}");
    let json = drawn(&recorded(pool.clone()), "json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let submitter = &json["pools"][0]["submitters"][1];
    assert_eq!(submitter["place"], "/app/lib/auth.js:41");
    assert_eq!(
        (&submitter["function"], &submitter["jobs"]),
        (&"login".into(), &10.into())
    );
    let text = drawn(&recorded(pool), "text");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "submitted by step node:internal/fs:9 75.0 %, login /app/lib/auth.js:41 25.0 %";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_pool_that_is_half_idle_can_be_full_for_dns() {
    let pool = Pool {
        threads: 4,
        readings: 50,
        busy: 100,
        waiting: 700,
        slow_waiting: 700,
        slow_full: 50,
        jobs: vec![jobs("dns.lookup", 700, "db.example")],
        ..Pool::default()
    };
    let found = findings(&recorded(pool), "DNS");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("14.0 lookups wait"), "{found:?}");
    assert!(found[0].contains("2 of its 4 threads"), "{found:?}");
}

#[test]
fn a_pool_with_room_is_no_finding() {
    let pool = Pool {
        threads: 4,
        readings: 100,
        busy: 200,
        waiting: 30,
        full: 40,
        ..Pool::default()
    };
    assert!(findings(&recorded(pool), "pool").is_empty());
    assert!(!drawn(&shop(), "text").contains("libuv pool:"));
}
