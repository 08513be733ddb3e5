//! How often a quiet deployment raises something, and how often a change is found: the same code as in production.

use nodespy_server::query::{
    Deployment, Exposure, RegressionOptions, SeriesQuery, ServicesQuery, Slower, mark_deployment,
    profile_of_selection, regressions, regressions_json, series_json, services,
};
use nodespy_store::{Batch, CPU_EVENT, Selection, Window};

use crate::fleet::{DEPLOYED, END, Fleet, START, made_up, recorded, replaced, store_of};

fn judged(fleet: &Fleet) -> Deployment {
    let folder = tempfile::tempdir().unwrap();
    let store = fleet.store(folder.path());
    let options = RegressionOptions::default();
    let found = regressions(&store, Some("shop"), START..END, &options).unwrap();
    assert_eq!(found.len(), 1, "one version was deployed");
    let [deployment] = <[Deployment; 1]>::try_from(found).unwrap();
    assert_eq!(deployment.version, "2.0.0");
    assert_eq!(deployment.before_version, "1.0.0");
    assert!(deployment.first.abs_diff(DEPLOYED) < 60);
    deployment
}

pub(crate) fn fleet(instances: usize, effect: f64, seed: u64) -> Fleet {
    Fleet {
        service: "shop",
        program: made_up(),
        busy: 0.4,
        instances,
        effect,
        effect_ends: END,
        effect_on_all: 1.0,
        requests: 0.0,
        hosts: 0.0,
        earlier: START..END,
        end: END,
        every: 20,
        retires: false,
        wander: 0.0,
        drift: (0.15, 5.2),
        later_label: "2.0.0",
        seed,
    }
}

/// The same, of a server as it was recorded.
fn real_fleet(instances: usize, effect: f64, seed: u64) -> Fleet {
    Fleet {
        program: recorded(),
        ..fleet(instances, effect, seed)
    }
}

fn names(slower: &[Slower]) -> Vec<&str> {
    slower.iter().map(|it| &*it.change.id.name).collect()
}

fn is_sure(slower: &Slower) -> bool {
    slower.change.own.verdict.label() == "regression"
}

/// Of so many fleets, how many have the changed function among what is slower, and how many another.
fn found(
    make: fn(usize, f64, u64) -> Fleet,
    instances: usize,
    effect: f64,
    fleets: u64,
) -> [u64; 2] {
    let mut counts = [0, 0];
    for seed in 0..fleets {
        let fleet = make(instances, effect, 1000 + seed);
        let deployment = judged(&fleet);
        let (changed, ..) = fleet.program.changed();
        let is_changed = |name: &&str| *name == changed;
        let names = names(&deployment.slower);
        counts[0] += u64::from(names.iter().any(is_changed));
        counts[1] += u64::from(!names.iter().all(is_changed));
    }
    eprintln!(
        "x {effect}: found in {} of {fleets} fleets of {instances} and {instances} instances, another function in {}",
        counts[0], counts[1]
    );
    counts
}

/// Of quiet deployments, how many raise something.
#[track_caller]
fn expect_quiet(make: fn(usize, f64, u64) -> Fleet, instances: usize, fleets: u64) {
    let mut raised = 0;
    for seed in 0..fleets {
        let deployment = judged(&make(instances, 1.0, seed));
        assert!(deployment.is_concurrent);
        assert_eq!(deployment.instances, [instances; 2]);
        raised += u64::from(!deployment.slower.is_empty());
    }
    eprintln!(
        "quiet: {raised} of {fleets} fleets of {instances} and {instances} instances raise something"
    );
    assert!(raised * 20 <= fleets, "{raised} of {fleets}");
}

#[test]
fn quiet_deployments_raise_at_most_one_in_twenty() {
    expect_quiet(fleet, 12, 40);
}

#[test]
fn quiet_deployments_of_a_real_server_raise_at_most_one_in_twenty() {
    expect_quiet(real_fleet, 20, 20);
}

#[test]
fn a_quarter_more_is_found_and_named() {
    for effect in [1.05, 1.10, 1.15] {
        found(fleet, 12, effect, 10);
    }
    let [count, _] = found(fleet, 12, 1.25, 10);
    assert!(count >= 9, "{count}");
    let fleet = fleet(12, 1.25, 7);
    let deployment = judged(&fleet);
    let change = &deployment.slower[0].change;
    let place = (
        &*change.id.name,
        &*change.location.file,
        change.location.line,
    );
    assert_eq!(place, fleet.program.changed());
    let (low, high) = change.own.interval.unwrap();
    assert!(low < 1.25 && 1.25 < high, "{low} to {high}");
}

/// A fifth more of everything for each request: without requests it is load.
#[test]
fn more_of_everything_is_found_where_requests_are_known() {
    const FLEETS: u64 = 10;
    let (mut found, mut functions, mut blindly) = (0, 0, 0);
    for seed in 0..FLEETS {
        let more = |requests| Fleet {
            effect_on_all: 1.2,
            requests,
            ..fleet(12, 1.0, 2000 + seed)
        };
        let blind = judged(&more(0.0));
        assert_eq!(blind.exposure, Exposure::Functions);
        blindly += blind.slower.len();
        let deployment = judged(&more(5.0));
        assert_eq!(deployment.exposure, Exposure::Requests);
        let cpu_ns = deployment.request.unwrap().cpu_ns;
        // 0.4 of a CPU for 5 requests a second, a little more or less by the hour.
        assert!((60e6..100e6).contains(&(cpu_ns[0] as f64)), "{cpu_ns:?}");
        let ratio = cpu_ns[1] as f64 / cpu_ns[0] as f64;
        assert!((1.15..1.25).contains(&ratio), "{ratio}");
        found += u64::from(!deployment.slower.is_empty());
        functions += deployment.slower.len();
    }
    eprintln!(
        "x 1.2 of all: found in {found} of {FLEETS} fleets, {functions} functions in all; {blindly} without requests"
    );
    assert!(blindly <= 1, "{blindly} functions without requests");
    assert!(found * 10 >= FLEETS * 9, "{found} of {FLEETS}");
    let json = regressions_json(&[judged(&Fleet {
        effect_on_all: 1.2,
        requests: 5.0,
        ..fleet(12, 1.0, 2000)
    })]);
    let comparison = &json["comparisons"][0];
    assert_eq!(comparison["exposure"], "requests");
    let whole = comparison["cpu_ns_per_request"]["after"].as_f64().unwrap();
    let row = &json["regressions"][0]["cpu_ns_per_request"];
    let [before, after] = ["before", "after"].map(|side| row[side].as_f64().unwrap());
    assert!(0.0 < before && before < after && after < whole, "{json:#}");
}

/// Load that differs by 25 % between instances raises nothing, and one function that is slower is found as well.
#[test]
fn requests_tell_load_from_code() {
    const FLEETS: u64 = 40;
    fn known(instances: usize, effect: f64, seed: u64) -> Fleet {
        Fleet {
            requests: 5.0,
            ..fleet(instances, effect, seed)
        }
    }
    let mut raised = 0;
    for seed in 0..FLEETS {
        let deployment = judged(&known(12, 1.0, seed));
        assert!(deployment.request.is_some());
        raised += u64::from(!deployment.slower.is_empty());
    }
    eprintln!("quiet, by requests: {raised} of {FLEETS} fleets raise something");
    assert!(raised * 20 <= FLEETS, "{raised} of {FLEETS}");
    // Also where hosts differ by a fifth: what a request costs says less then, the median over functions as much.
    fn on_hosts(instances: usize, effect: f64, seed: u64) -> Fleet {
        Fleet {
            hosts: 0.2,
            ..known(instances, effect, seed)
        }
    }
    for make in [known, on_hosts] {
        let [found, others] = found(make, 12, 1.25, 10);
        assert!(found >= 9 && others <= 1, "{found} and {others} of 10");
    }
}

#[test]
fn requests_are_no_event_to_look_at() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = Fleet {
        requests: 5.0,
        ..fleet(3, 1.0, 11)
    };
    let store = fleet.store(folder.path());
    let listed = services(&store, &ServicesQuery::new(START..END)).unwrap();
    assert_eq!(listed[0].events, [CPU_EVENT]);
    assert_eq!(listed[0].instances.len(), 6);
}

#[test]
fn a_quarter_more_of_a_real_server_is_found() {
    for effect in [1.05, 1.10] {
        found(real_fleet, 20, effect, 3);
    }
    let [count, others] = found(real_fleet, 20, 1.25, 5);
    assert!(count >= 4 && others <= 1, "{count}, {others}");
}

#[test]
fn what_went_away_is_no_regression_any_more() {
    let went_away = Fleet {
        effect_ends: DEPLOYED + 3000,
        ..fleet(12, 2.0, 21)
    };
    let (changed, ..) = went_away.program.changed();
    let deployment = judged(&went_away);
    assert_eq!(names(&deployment.gone), [changed]);
    let [_, after] = &deployment.compared;
    let last = after.end - (after.end - after.start) / 3;
    assert!(went_away.effect_ends < last);
    assert_eq!(deployment.gone[0].seen, after.start..last);
    assert_eq!(names(&deployment.slower), [""; 0]);
    let stays = judged(&fleet(12, 2.0, 21));
    assert_eq!(names(&stays.slower), [changed]);
    assert_eq!(stays.slower[0].seen, stays.compared[1]);
    assert_eq!(names(&stays.gone), [""; 0]);
}

#[test]
fn versions_one_after_the_other_are_compared_at_the_same_hours() {
    const DAY: u64 = 86_400;
    const FLEETS: u64 = 12;
    let mut raised = 0;
    for seed in 0..FLEETS {
        let deployment = judged(&Fleet {
            earlier: START - DAY..DEPLOYED,
            drift: (0.5, 24.0),
            ..fleet(12, 1.0, 4 + seed)
        });
        let [before, after] = deployment.compared.clone();
        assert_eq!(
            (before.start + DAY, before.end + DAY),
            (after.start, after.end)
        );
        assert!(deployment.remarks[0].contains("the same hours of the day before"));
        // Of the whole day before, most of the sixty functions have another share.
        let names = names(&deployment.slower);
        assert!(names.len() <= 2, "{names:?}");
        raised += u64::from(!names.is_empty());
    }
    eprintln!("a day after the other: of {FLEETS} quiet fleets {raised} raise something");
    assert!(raised * 20 <= FLEETS, "{raised} of {FLEETS}");
}

#[test]
fn versions_that_did_not_run_together_are_never_sure() {
    let deployment = judged(&Fleet {
        earlier: START..DEPLOYED,
        ..fleet(12, 1.5, 3)
    });
    assert!(!deployment.is_concurrent);
    assert!(deployment.remarks[0].contains("did not run at the same time"));
    assert!(!deployment.slower.iter().any(is_sure));
}

/// What is stored of a fleet where agents are started again with another label.
fn relabelled(fleet: &Fleet, from: u64) -> Batch {
    let mut batch = fleet.batch();
    let count = batch.series.len();
    for number in 0..count {
        let mut series = batch.series[number].clone();
        series.labels.set("env", "production");
        batch.series.push(series);
    }
    for window in &mut batch.windows {
        if window.start >= from {
            window.series += count;
        }
    }
    batch
}

#[test]
fn a_process_whose_agent_was_started_again_with_another_label_is_one_instance() {
    let folder = tempfile::tempdir().unwrap();
    let batch = relabelled(&fleet(2, 2.0, 5), DEPLOYED + 2700);
    let store = store_of(&folder.path().join("store"), &[batch]);
    let found = regressions(&store, None, START..END, &RegressionOptions::default()).unwrap();
    assert_eq!(found[0].instances, [2, 2]);
    assert!(found[0].slower.is_empty());
    assert!(found[0].remarks[0].starts_with("no verdict"));
}

/// Functions had samples enough as long as each counted as the five that it stands for.
#[test]
fn samples_that_stand_for_others_are_not_more_samples() {
    let deployment = judged(&Fleet {
        busy: 0.004,
        ..fleet(3, 1.0, 6)
    });
    assert_eq!(deployment.exposure, Exposure::CpuTime);
}

#[test]
fn two_instances_are_no_test() {
    let deployment = judged(&fleet(2, 2.0, 5));
    assert!(deployment.slower.is_empty());
    assert!(deployment.remarks[0].starts_with("no verdict"));
}

/// Two programs that are both called `server.js`: the question failed for every service.
#[test]
fn what_cannot_be_compared_hides_no_regression_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let slower = fleet(12, 1.5, 13);
    let other = Fleet {
        service: "server.js",
        program: replaced(),
        ..fleet(3, 1.0, 14)
    };
    let path = folder.path().join("store");
    let store = store_of(&path, &[other.batch(), slower.batch()]);
    let found = regressions(&store, None, START..END, &RegressionOptions::default()).unwrap();
    let of = |service: &str| found.iter().find(|it| it.service == service).unwrap();
    let (changed, ..) = slower.program.changed();
    assert_eq!(names(&of("shop").slower), [changed]);
    let [remark] = &of("server.js").remarks[..] else {
        panic!("{:?}", of("server.js").remarks);
    };
    assert!(
        remark.starts_with("no verdict: the two sides have no function"),
        "{remark}"
    );
}

/// One damaged block failed the question for every service, and webhooks with it.
#[test]
fn damage_of_one_service_hides_no_regression_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let slower = fleet(12, 1.5, 13);
    let other = Fleet {
        service: "damaged",
        ..fleet(3, 1.0, 14)
    };
    let path = folder.path().join("store");
    let store = store_of(&path, &[other.batch(), slower.batch()]);
    let sql = "UPDATE recent SET block = x'ffffff' WHERE scope =
        (SELECT id FROM scope WHERE service = 'damaged')";
    let connection = rusqlite::Connection::open(&path).unwrap();
    assert!(connection.execute(sql, []).unwrap() > 0);
    let found = regressions(&store, None, START..END, &RegressionOptions::default()).unwrap();
    let of = |service: &str| found.iter().find(|it| it.service == service).unwrap();
    assert_eq!(names(&of("shop").slower), [slower.program.changed().0]);
    let remarks = &of("damaged").remarks;
    assert!(
        remarks[0].starts_with("no verdict: the store is damaged"),
        "{remarks:?}"
    );
}

/// What is stored of a fleet of which another version, which did not last, was there for three minutes before the later one.
fn with_rollback(fleet: &Fleet) -> Batch {
    let mut batch = fleet.batch();
    let count = fleet.instances;
    let first = batch.series.len();
    for number in 0..count {
        let mut series = batch.series[number].clone();
        series.labels.set("version", "1.5.0");
        batch.series.push(series);
    }
    let time = DEPLOYED - 900..DEPLOYED - 720;
    let rolled_back = (batch.windows.iter())
        .filter(|window| window.series < count && time.contains(&window.start))
        .map(|window| Window {
            series: first + window.series,
            ..window.clone()
        });
    let rolled_back: Vec<Window> = rolled_back.collect();
    batch.windows.extend(rolled_back);
    batch
}

/// The next version was compared with it alone: "no verdict", for good.
#[test]
fn a_version_that_was_rolled_back_hides_no_regression_of_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = fleet(12, 1.5, 17);
    let store = store_of(&folder.path().join("store"), &[with_rollback(&fleet)]);
    let found = regressions(&store, None, START..END, &RegressionOptions::default()).unwrap();
    let [next, rolled_back] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((&*next.before_version, &*next.version), ("1.0.0", "2.0.0"));
    assert_eq!(names(&next.slower), [fleet.program.changed().0]);
    assert_eq!(rolled_back.version, "1.5.0");
    assert!(rolled_back.remarks[0].starts_with("no verdict"));
}

#[test]
fn a_mark_is_a_deployment_where_no_label_tells_it() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = Fleet {
        later_label: "1.0.0",
        ..fleet(12, 1.5, 9)
    };
    let mut store = fleet.store(folder.path());
    let options = RegressionOptions::default();
    let unmarked = regressions(&store, None, START..END, &options).unwrap();
    assert!(unmarked.is_empty());
    for _ in 0..2 {
        mark_deployment(&mut store, "shop", "hotfix", DEPLOYED - 30).unwrap();
    }
    let marked = regressions(&store, None, START..END, &options).unwrap();
    assert_eq!(marked.len(), 1);
    assert_eq!(marked[0].version, "1.0.0 (hotfix)");
    assert_eq!(names(&marked[0].slower), [fleet.program.changed().0]);
}

#[test]
fn a_marked_version_selects_its_processes() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = Fleet {
        later_label: "1.0.0",
        ..fleet(3, 1.0, 11)
    };
    let mut store = fleet.store(folder.path());
    mark_deployment(&mut store, "shop", "hotfix", DEPLOYED - 30).unwrap();
    let listed = services(&store, &ServicesQuery::new(START..END)).unwrap();
    let names: Vec<&str> = listed[0].versions.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["1.0.0", "1.0.0 (hotfix)"]);
    let query = SeriesQuery {
        selection: Selection::new("shop", CPU_EVENT, START..END),
        step: Some(3600),
        by: vec!["version".to_owned()],
    };
    let drawn = series_json(&store, &query).unwrap();
    let total = |name: &str| -> u64 {
        let series = drawn["series"].as_array().unwrap();
        let of_name = series.iter().find(|it| it["labels"]["version"] == name);
        let weights = of_name.unwrap()["weights"].as_array().unwrap();
        weights.iter().map(|it| it.as_u64().unwrap()).sum()
    };
    for name in names {
        let asked = Selection::new("shop", CPU_EVENT, START..END).with("version", name);
        let profile = profile_of_selection(&store, &asked).unwrap();
        let samples: u64 = profile.samples.iter().map(|sample| sample.weight).sum();
        assert_eq!(samples * (1_000_000_000 / 95), total(name), "{name}");
    }
}

/// A quiet fleet of which an instance is replaced every five minutes, while the mix of functions drifts.
pub(crate) fn replaced_slowly(seed: u64) -> Fleet {
    Fleet {
        every: 300,
        retires: true,
        drift: (0.5, 5.2),
        ..fleet(12, 1.0, seed)
    }
}

/// Old instances that end one by one are of the beginning of the time that both versions ran, new ones of its end: they are compared
/// with the same hours of the day before, or not at all.
#[test]
fn a_slow_replacement_is_compared_with_the_day_before() {
    const FLEETS: u64 = 20;
    let day_before = |effect: f64, seed: u64| Fleet {
        earlier: START - 86_400..END,
        drift: (0.5, 24.0),
        effect,
        ..replaced_slowly(4000 + seed)
    };
    let mut raised = 0;
    for seed in 0..FLEETS {
        let deployment = judged(&replaced_slowly(4000 + seed));
        assert!(
            deployment.remarks[0].starts_with("no verdict: instances were replaced one by one")
        );
        assert!(deployment.slower.is_empty());
        let deployment = judged(&day_before(1.0, seed));
        assert!(deployment.remarks[0].contains("the same hours of the day before"));
        raised += u64::from(!deployment.slower.is_empty());
    }
    eprintln!("replaced one by one: of {FLEETS} quiet fleets {raised} raise something");
    assert!(raised * 20 <= FLEETS, "{raised} of {FLEETS}");
    for seed in 0..3 {
        let slower = day_before(1.5, seed);
        let deployment = judged(&slower);
        assert_eq!(names(&deployment.slower), [slower.program.changed().0]);
        assert!(!is_sure(&deployment.slower[0]));
    }
    // A quick one is as sure as ever.
    let deployment = judged(&fleet(12, 1.5, 3));
    assert!(is_sure(&deployment.slower[0]));
}
