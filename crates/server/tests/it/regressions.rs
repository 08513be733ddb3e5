//! How often a quiet deployment raises something, and how often a change is found: the same code as in production.

use nodespy_server::query::{
    Deployment, RegressionOptions, SeriesQuery, ServicesQuery, mark_deployment,
    profile_of_selection, regressions, series_json, services,
};
use nodespy_store::{CPU_EVENT, Selection};

use crate::fleet::{CHANGED, DEPLOYED, END, FILES, Fleet, START};

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

fn fleet(instances: usize, effect: f64, seed: u64) -> Fleet {
    Fleet {
        instances,
        effect,
        earlier_ends: END,
        later_label: "2.0.0",
        seed,
    }
}

/// Of so many fleets, how many have the changed function among what is slower.
fn found(instances: usize, effect: f64, fleets: u64) -> u64 {
    let name = format!("work{CHANGED}");
    let is_found = |seed: &u64| {
        let deployment = judged(&fleet(instances, effect, 1000 + seed));
        deployment
            .slower
            .iter()
            .any(|slower| slower.change.id.name == name)
    };
    (0..fleets).filter(is_found).count() as u64
}

#[test]
fn quiet_deployments_raise_at_most_one_in_twenty() {
    const FLEETS: u64 = 40;
    let mut raised = 0;
    for seed in 0..FLEETS {
        let deployment = judged(&fleet(12, 1.0, seed));
        assert!(deployment.is_concurrent);
        assert_eq!(deployment.instances, [12, 12]);
        if !deployment.slower.is_empty() {
            raised += 1;
        }
    }
    eprintln!("quiet: {raised} of {FLEETS} fleets of 12 and 12 instances raise something");
    assert!(raised * 20 <= FLEETS, "{raised} of {FLEETS}");
}

#[test]
fn a_quarter_more_is_found_and_named() {
    const FLEETS: u64 = 10;
    for effect in [1.05, 1.10, 1.15, 1.25] {
        let count = found(12, effect, FLEETS);
        eprintln!("x {effect}: found in {count} of {FLEETS} fleets of 12 and 12 instances");
        if effect == 1.25 {
            assert!(count * 10 >= FLEETS * 9, "{count} of {FLEETS}");
        }
    }
    let deployment = judged(&fleet(12, 1.25, 7));
    let change = &deployment.slower[0].change;
    assert_eq!(change.id.name, format!("work{CHANGED}"));
    assert_eq!(change.location.file, FILES[1]);
    assert_eq!(change.location.line, CHANGED as u32 + 1);
    let (low, high) = change.own.interval.unwrap();
    assert!(low < 1.25 && 1.25 < high, "{low} to {high}");
}

#[test]
fn versions_that_did_not_run_together_are_never_sure() {
    let deployment = judged(&Fleet {
        earlier_ends: DEPLOYED,
        ..fleet(12, 1.5, 3)
    });
    assert!(!deployment.is_concurrent);
    assert!(deployment.remarks[0].contains("did not run at the same time"));
    for slower in &deployment.slower {
        assert_eq!(slower.change.own.verdict.label(), "likely slower");
    }
}

#[test]
fn two_instances_are_no_test() {
    let deployment = judged(&fleet(2, 2.0, 5));
    assert!(deployment.slower.is_empty());
    assert!(deployment.remarks[0].starts_with("no verdict"));
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
    let slower: Vec<&str> = marked[0]
        .slower
        .iter()
        .map(|it| &*it.change.id.name)
        .collect();
    assert_eq!(slower, [format!("work{CHANGED}")]);
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
        assert_eq!(samples * (1e9 / 19.0) as u64, total(name), "{name}");
    }
}
