//! Several processes as one.

use nodespy_model::{Process, Thread};
use nodespy_model::{ProcessIndex, Profile, ThreadIndex};

/// The profile with all processes as one: threads of one role and, but for main threads, one name
/// become one. Labels stay where all processes agree.
pub fn merge_processes(mut profile: Profile) -> Profile {
    let Some((first, rest)) = profile.processes.split_first() else {
        return profile;
    };
    if rest.is_empty() {
        return profile;
    }
    let mut merged = Process {
        pid: 0,
        parent_pid: 0,
        name: format!("{} processes", profile.processes.len()),
        command: String::new(),
        exit: None,
        ended: None,
        pool: None,
        pool_timeline: None,
        ..first.clone()
    };
    for process in rest {
        merged.labels = merged.labels.shared_with(&process.labels);
        merged.started = merged.started.min(process.started);
        merged.cpu_time = merged
            .cpu_time
            .zip(process.cpu_time)
            .map(|(one, other)| one.saturating_add(other));
        if process.node_version != merged.node_version {
            merged.node_version = None;
        }
    }
    profile.processes = vec![merged];
    merge_threads(&mut profile);
    profile
}

fn merge_threads(profile: &mut Profile) {
    let mut threads: Vec<Thread> = Vec::new();
    let mut moved = Vec::with_capacity(profile.threads.len());
    for thread in &profile.threads {
        let name = match thread.role {
            nodespy_model::ThreadRole::Main => "main",
            _ => thread.name.as_str(),
        };
        let is_same = |known: &Thread| known.role == thread.role && known.name == name;
        let position = threads.iter().position(is_same).unwrap_or(threads.len());
        if position == threads.len() {
            threads.push(Thread {
                process: ProcessIndex(0),
                tid: 0,
                name: name.to_owned(),
                role: thread.role,
                ..Thread::default()
            });
        }
        moved.push(ThreadIndex(position as u32));
    }
    profile.threads = threads;
    for sample in &mut profile.samples {
        sample.thread = moved[sample.thread.at()];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::Notes;
    use nodespy_model::ProfileBuilder;
    use nodespy_model::WeightUnit;
    use nodespy_model::{About, ThreadRole};

    #[test]
    fn threads_of_one_kind_become_one_and_all_weight_stays() {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        for pid in 1..=3 {
            let mut process = Process {
                pid,
                name: format!("shop worker {pid}"),
                cpu_time: Some(10),
                ..Process::default()
            };
            process.labels.set("container", "web");
            process.labels.set("worker", pid.to_string());
            let process = builder.process(process);
            for (name, role) in [("x", ThreadRole::Main), ("pool", ThreadRole::Pool)] {
                let thread = builder.thread(Thread {
                    process,
                    tid: pid,
                    name: format!("{name}{}", if role == ThreadRole::Main { pid } else { 0 }),
                    role,
                    ..Thread::default()
                });
                builder.sample(u64::from(pid), thread, None, 5);
            }
        }
        let profile = builder.finish(About::default(), Notes::default());
        let merged = merge_processes(profile.clone());
        assert_eq!(merged.total_weight(), profile.total_weight());
        assert_eq!((merged.processes.len(), merged.threads.len()), (1, 2));
        assert_eq!(merged.processes[0].name, "3 processes");
        assert_eq!(merged.processes[0].labels.get("container"), Some("web"));
        assert_eq!(merged.processes[0].labels.get("worker"), None);
        assert_eq!(merged.processes[0].cpu_time, Some(30));
        assert_eq!(merge_processes(merged.clone()), merged);
        assert_eq!(merge_processes(Profile::default()), Profile::default());
    }
}
