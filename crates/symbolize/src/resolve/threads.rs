//! Which threads a profile has, what they are called and what they do.

use nodespy_model::{
    FastMap, FastSet, FrameIndex, Profile, ProfileBuilder, StackIndex, Thread, ThreadIndex,
    ThreadRole, classify,
};

use super::processes::Processes;
use super::worker_threads::number_workers;

impl Processes {
    /// Gives processes without a description the name of their main thread.
    pub(super) fn name_processes(&mut self) {
        for thread in &self.threads {
            let about = &mut self.list[thread.process.at()].about;
            if about.name.is_empty() && about.pid == thread.tid {
                about.name.clone_from(&thread.name);
            }
        }
    }

    /// Adds the threads that were seen running.
    pub(super) fn add_threads(&self, builder: &mut ProfileBuilder) -> Vec<ThreadIndex> {
        self.threads
            .iter()
            .map(|thread| {
                if thread.samples == 0 {
                    // Never looked at again: only threads with samples are part of a profile.
                    return ThreadIndex(u32::MAX);
                }
                let pid = self.get(thread.process).about.pid;
                let given = thread.worker.name.as_ref();
                builder.thread(Thread {
                    process: thread.process,
                    tid: thread.tid,
                    name: given
                        .filter(|name| !name.is_empty())
                        .unwrap_or(&thread.name)
                        .clone(),
                    role: if thread.tid == pid {
                        ThreadRole::Main
                    } else if given.is_some() {
                        ThreadRole::Worker
                    } else {
                        role_beside_main(&thread.name)
                    },
                    ..Thread::default()
                })
            })
            .collect()
    }
}

/// What a thread is for that is not the main one, by its name. A thread that an addon starts has the name of
/// the thread that started it.
fn role_beside_main(name: &str) -> ThreadRole {
    match classify::role_of_name(name) {
        ThreadRole::Main => ThreadRole::Other,
        role => role,
    }
}

/// Gives threads their role by the functions at their root, and a name where they only carry
/// their process's.
pub(super) fn name_threads(profile: &mut Profile) {
    let mut nameless = FastSet::default();
    let mut roots: FastMap<ThreadIndex, Vec<StackIndex>> = FastMap::default();
    for sample in &profile.samples {
        if let Some(stack) = sample.stack {
            let known = roots.entry(sample.thread).or_default();
            if known.len() < 4 {
                known.push(stack);
            }
        }
    }
    for (thread, stacks) in roots {
        let role = stacks.iter().find_map(|&stack| {
            let frames: Vec<FrameIndex> = profile.frames_of(stack).collect();
            let names = frames
                .iter()
                .rev()
                .map(|&frame| profile.name_of(profile.frame(frame).function));
            classify::role_of_roots(names)
        });
        let process = profile.threads[thread.at()].process;
        let pid = profile.processes[process.at()].pid;
        let main_name = profile
            .threads
            .iter()
            .find(|other| other.process == process && other.tid == pid)
            .map(|main| main.name.clone());
        let entry = &mut profile.threads[thread.at()];
        if entry.tid == pid {
            entry.role = ThreadRole::Main;
            continue;
        }
        if let Some(role) = role.filter(|role| *role != ThreadRole::Main) {
            entry.role = role;
        }
        // The main thread may have no samples; older versions call every thread `node`.
        let is_borrowed = match main_name {
            Some(name) => name == entry.name,
            None => entry.name == "node",
        } || entry.name.is_empty();
        if is_borrowed && entry.role == ThreadRole::Worker {
            nameless.insert(thread.at());
        } else if is_borrowed && let Some(name) = classify::name_for_role(entry.role) {
            entry.name = name.to_owned();
        }
    }
    number_workers(profile, |thread| nameless.contains(&thread));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_borrows_the_main_threads_name_is_not_main() {
        assert_eq!(role_beside_main("node-MainThread"), ThreadRole::Other);
        assert_eq!(role_beside_main("libuv-worker"), ThreadRole::Pool);
    }
}
