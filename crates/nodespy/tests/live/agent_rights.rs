//! `nodespy agent` as a user without rights but for some capabilities: those of the systemd unit, and the two that are enough.

use std::process::Command;

use nodespy_store::{OpenMode, SqliteStore};

use super::agent::{HOT, file, share, start_in, wait_for};
use super::errors::NOBODY;
use super::workload::root;
use super::{is_root, live};
use crate::own_status::{capabilities_of, status_of};
use crate::run::Started;
use crate::scratch::Scratch;
use crate::skip::skip;

/// The capabilities of the unit by their numbers: not every setpriv knows the names of the later ones.
const NUMBERS: [(&str, u32); 7] = [
    ("CAP_DAC_READ_SEARCH", 2),
    ("CAP_IPC_LOCK", 14),
    ("CAP_SYS_PTRACE", 19),
    ("CAP_SYSLOG", 34),
    ("CAP_PERFMON", 38),
    ("CAP_BPF", 39),
    ("CAP_CHECKPOINT_RESTORE", 40),
];

/// The capabilities of a setting of the unit.
fn of_unit(setting: &str) -> Vec<u32> {
    let unit = std::fs::read_to_string(root().join("deploy/nodespy-agent.service")).unwrap();
    let mut lines = unit.lines();
    let names = lines.find_map(|line| line.strip_prefix(setting)).unwrap();
    let number = |name: &str| {
        let known = NUMBERS.iter().find(|(known, _)| *known == name);
        known.unwrap_or_else(|| panic!("{name}?")).1
    };
    names.split_whitespace().map(number).collect()
}

/// An agent that runs as an unprivileged user with only these capabilities, as systemd would start it.
fn agent(scratch: &Scratch, capabilities: &[u32]) -> Started {
    let program = scratch.copy_program(env!("CARGO_BIN_EXE_nodespy"), "nodespy");
    let named = capabilities.iter().map(|number| format!(",+cap_{number}"));
    let set = format!("-all{}", named.collect::<String>());
    let mut command = Command::new("setpriv");
    command.args(NOBODY).arg("--no-new-privs");
    for kind in ["inh-caps", "ambient-caps", "bounding-set"] {
        command.arg(format!("--{kind}={set}"));
    }
    command.args([&program, "agent", "--store", &scratch.file("store")]);
    command.env("NO_COLOR", "1");
    Started::new(command, "")
}

#[test]
fn an_agent_needs_the_rights_of_its_unit_and_no_root() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("only root can become another user");
    }
    let of_unit = {
        let ambient = of_unit("AmbientCapabilities=");
        assert_eq!(ambient, of_unit("CapabilityBoundingSet="));
        ambient
    };
    // CAP_PERFMON and CAP_SYS_PTRACE: by perf events of threads, and no less true.
    let least = vec![38, 19];
    let service = format!("owned-{}", std::process::id());
    // Of root, which the agent is not; its package.json is for everybody to read.
    let folder = Scratch::for_other_users();
    let _busy = start_in(folder, &service, "2.0.0", "parseOrders");
    let both = [of_unit, least].map(|capabilities| {
        let scratch = Scratch::for_other_users();
        let started = agent(&scratch, &capabilities);
        (capabilities, scratch, started)
    });
    for (capabilities, scratch, started) in both {
        started.wait_until_it_says(&format!("service={service}"));
        let allowed = capabilities.iter().fold(0, |set, number| set | 1 << number);
        let kept = capabilities_of(started.pid());
        assert_eq!(kept & !allowed, 0, "{kept:#x} of {allowed:#x}");
        let uids = status_of(started.pid(), "Uid");
        assert!(uids.split_whitespace().all(|uid| uid == "65534"), "{uids}");
        let store = scratch.path().join("store");
        let span = wait_for(&store, &service, "2.0.0");
        started.signal("TERM");
        let outcome = started.finish();
        outcome.expect_code(0);
        let opened = SqliteStore::open(&file(&store), OpenMode::Read).unwrap();
        let share = share(&opened, &span, "parseOrders");
        assert!(share > HOT, "{share} with {capabilities:?}\n{outcome}");
    }
}

#[test]
fn systemd_understands_every_line_of_the_unit() {
    let unit = std::fs::read_to_string(root().join("deploy/nodespy-agent.service")).unwrap();
    let scratch = Scratch::new();
    let file = scratch.file("nodespy-agent.service");
    // What it starts has to be there.
    let unit = unit.replace("/usr/bin/nodespy", env!("CARGO_BIN_EXE_nodespy"));
    std::fs::write(&file, unit).unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", &file]);
    match command.output() {
        Err(_) => skip("there is no systemd-analyze (Debian's package systemd)"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{said}");
        }
    }
}
