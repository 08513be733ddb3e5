//! A part of the time, as if only it had been recorded.

use nodespy_model::{Nanoseconds, Profile};

/// The samples from `start` up to, but not at, `end`. Times count from `start` afterwards: the
/// result is a recording of its own, which began then.
pub fn only_between(mut profile: Profile, start: Nanoseconds, end: Nanoseconds) -> Profile {
    let end = end.max(start);
    profile
        .samples
        .retain(|sample| (start..end).contains(&sample.time));
    for process in &mut profile.processes {
        if process.ended.is_some_and(|ended| ended >= end) {
            process.ended = None;
            process.exit = None;
        }
    }
    profile.about.duration = profile.about.duration.min(end);
    cut_timelines(&mut profile, 0, end);
    starting_at(profile, start)
}

/// The profile as a recording that began at `start`: times count from there. Nothing is left out: what
/// is earlier is at the start.
pub fn starting_at(mut profile: Profile, start: Nanoseconds) -> Profile {
    for sample in &mut profile.samples {
        sample.time = sample.time.saturating_sub(start);
    }
    for process in &mut profile.processes {
        process.started = process.started.saturating_sub(start);
        process.ended = process.ended.map(|ended| ended.saturating_sub(start));
        // The kernel's account is of the whole recording.
        process.cpu_time = None;
    }
    cut_timelines(&mut profile, start, Nanoseconds::MAX);
    let about = &mut profile.about;
    about.duration = about.duration.saturating_sub(start);
    if about.started_unix > 0 {
        about.started_unix = about.started_unix.saturating_add(start);
    }
    profile
}

/// Leaves what event loops, pools and the garbage collector did from `start` to `end`, counted from `start`.
fn cut_timelines(profile: &mut Profile, start: Nanoseconds, end: Nanoseconds) {
    let processes = profile.processes.iter_mut();
    for timeline in processes.filter_map(|process| process.pool_timeline.as_mut()) {
        **timeline = timeline.between(start, end);
    }
    for thread in &mut profile.threads {
        if let Some(timeline) = &mut thread.loop_timeline {
            **timeline = timeline.between(start, end);
        }
        thread.gc_timeline = thread.gc_timeline.between(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile_of;
    use nodespy_model::{ExitReason, LoopStall, LoopTimeline, MIN_STALL};

    #[test]
    fn the_part_is_a_recording_of_its_own() {
        let mut profile = profile_of("a 1\nb 2\nc 4\nd 8");
        for (position, sample) in profile.samples.iter_mut().enumerate() {
            sample.time = position as u64 * 10;
        }
        let mut timeline = LoopTimeline::default();
        timeline.stall(LoopStall {
            start: 20,
            lasted: MIN_STALL + 10,
        });
        profile.threads[0].loop_timeline = Some(Box::new(timeline));
        profile.about.duration = 100;
        profile.about.started_unix = 1000;
        profile.processes[0].ended = Some(35);
        profile.processes[0].exit = Some(ExitReason::Ended);
        let part = only_between(profile.clone(), 10, 30);
        let times: Vec<(u64, u64)> = part.samples.iter().map(|s| (s.time, s.weight)).collect();
        assert_eq!(times, [(0, 2), (10, 4)]);
        assert_eq!((part.about.duration, part.about.started_unix), (20, 1010));
        let stalls = |part: &Profile| {
            part.threads[0]
                .loop_timeline
                .as_ref()
                .unwrap()
                .stalls()
                .len()
        };
        // All of the stall is in the rest, too little of it in the part.
        let after = only_between(profile.clone(), 15, Nanoseconds::MAX);
        assert_eq!((stalls(&part), stalls(&after)), (0, 1));
        assert_eq!(part.processes[0].ended, None);
        let rest = only_between(profile.clone(), 30, Nanoseconds::MAX);
        assert_eq!(rest.total_weight(), 8);
        assert_eq!(rest.about.duration, 70);
        assert_eq!(rest.processes[0].ended, Some(5));
        let whole = starting_at(profile.clone(), 20);
        let times: Vec<u64> = whole.samples.iter().map(|sample| sample.time).collect();
        assert_eq!(times, [0, 0, 0, 10]);
        assert_eq!(only_between(profile.clone(), 0, Nanoseconds::MAX), profile);
        assert_eq!(only_between(profile, 50, 20).total_weight(), 0);
    }
}
