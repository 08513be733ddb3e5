//! How often a quiet deployment raises something, and how often a change is found: the same code as in production.

use nodespy_server::query::{Deployment, RegressionOptions, mark_deployment, regressions};

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
            .any(|change| change.id.name == name)
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
    let change = &deployment.slower[0];
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
    for change in &deployment.slower {
        assert_eq!(change.own.verdict.label(), "likely slower");
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
    let slower: Vec<&str> = marked[0].slower.iter().map(|it| &*it.id.name).collect();
    assert_eq!(slower, [format!("work{CHANGED}")]);
}
