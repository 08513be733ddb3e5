//! The choice among processes, without any process.

use super::*;
use crate::target::Pm2App;

fn resident(pid: u32, app: &str, script: &str) -> Resident {
    Resident {
        pid,
        start_time: 1,
        uid: 0,
        parent_pid: 1,
        inner_pid: pid,
        threads: 1,
        app: app.to_owned(),
        script: Some(script.to_owned()),
        pm2: None,
        worker: None,
        is_pm2_itself: false,
        container: None,
        pid_namespace: None,
    }
}

fn managed(pid: u32, id: u32, name: &str) -> Resident {
    let app = Pm2App {
        name: name.to_owned(),
        id,
        ..Pm2App::default()
    };
    Resident {
        pm2: Some(app),
        ..resident(pid, "api", "/srv/api.js")
    }
}

fn daemon(pid: u32) -> Resident {
    Resident {
        is_pm2_itself: true,
        ..resident(pid, "pm2", "/usr/lib/pm2/Daemon.js")
    }
}

fn chosen(wanted: &Wanted, everybody: &[Resident]) -> Result<Vec<u32>, String> {
    let chosen = wanted
        .choose(everybody)
        .map_err(|error| error.to_string())?;
    Ok(chosen.iter().map(|resident| resident.pid).collect())
}

fn named(name: &str) -> Wanted {
    Wanted {
        name: Some(name.to_owned()),
        ..Wanted::default()
    }
}

#[test]
fn a_name_is_a_package_a_script_or_its_stem() {
    let everybody = [
        resident(10, "shop", "/srv/server.js"),
        resident(11, "other", "/srv/worker.mjs"),
    ];
    for name in ["shop", "/srv/server.js", "server.js", "server"] {
        assert_eq!(chosen(&named(name), &everybody), Ok(vec![10]), "{name}");
    }
    let missing = chosen(&named("serv"), &everybody).unwrap_err();
    assert!(missing.contains("there are other, shop"), "{missing}");
}

#[test]
fn a_name_of_several_applications_is_not_guessed_at() {
    let everybody = [
        resident(10, "a", "/a/server.js"),
        resident(11, "b", "/b/server.js"),
    ];
    let refused = chosen(&named("server"), &everybody).unwrap_err();
    assert!(
        refused.contains("-p 10 a") && refused.contains("-p 11 b"),
        "{refused}"
    );
    let same = [
        resident(10, "a", "/a/server.js"),
        resident(11, "a", "/a/server.js"),
    ];
    assert_eq!(chosen(&named("server"), &same), Ok(vec![10, 11]));
}

#[test]
fn pm2_knows_its_apps_by_name_and_number_and_is_none_of_them() {
    let everybody = [daemon(9), managed(10, 0, "web"), managed(11, 1, "jobs")];
    let by_pm2 = |text: &str| Wanted {
        pm2: Some(text.to_owned()),
        ..Wanted::default()
    };
    assert_eq!(chosen(&by_pm2("web"), &everybody), Ok(vec![10]));
    assert_eq!(chosen(&by_pm2("1"), &everybody), Ok(vec![11]));
    let all = Wanted {
        all: true,
        ..Wanted::default()
    };
    assert_eq!(chosen(&all, &everybody), Ok(vec![10, 11]));
    assert_eq!(chosen(&named("pm2"), &everybody), Ok(vec![9]));
}

#[test]
fn of_everything_only_what_is_refused_is_left_out_and_never_all_of_it() {
    let left_with = |allowed: &[u32]| {
        let mut everybody = vec![resident(10, "a", "/a.js"), resident(11, "b", "/b.js")];
        let mut remarks = Vec::new();
        leave_out_refused(&mut everybody, |pid| allowed.contains(&pid), &mut remarks);
        let pids: Vec<u32> = everybody.iter().map(|resident| resident.pid).collect();
        (pids, remarks.len())
    };
    assert_eq!(left_with(&[10, 11]), (vec![10, 11], 0));
    assert_eq!(left_with(&[11]), (vec![11], 1));
    assert_eq!(left_with(&[]), (vec![10, 11], 0));
}

#[test]
fn a_process_that_appears_later_joins_only_what_can_grow() {
    let late = managed(12, 2, "web");
    let by_pm2 = Wanted {
        pm2: Some("web".to_owned()),
        ..Wanted::default()
    };
    assert!(by_pm2.can_grow() && by_pm2.admits(&late));
    assert!(!by_pm2.admits(&managed(13, 3, "jobs")));
    let by_pid = Wanted {
        pids: vec![12],
        ..Wanted::default()
    };
    assert!(!by_pid.can_grow() && !by_pid.admits(&late));
}
