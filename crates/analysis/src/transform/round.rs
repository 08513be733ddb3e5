//! Times less exact than they were recorded, for where samples are too many to carry every digit.

use nodespy_model::{Nanoseconds, Profile};

/// The profile with its samples' times rounded down to multiples of `grain`. A weight that is the
/// time until the next sample stays that; others stay as they are.
pub fn with_round_times(mut profile: Profile, grain: Nanoseconds) -> Profile {
    let grain = grain.max(1);
    let round = |time: Nanoseconds| time - time % grain;
    for row in 0..profile.samples.len() {
        let next = profile.samples.get(row + 1).map(|next| next.time);
        let sample = &mut profile.samples[row];
        if let Some(next) =
            next.filter(|next| sample.time.checked_add(sample.weight) == Some(*next))
        {
            sample.weight = round(next) - round(sample.time);
        }
        sample.time = round(sample.time);
    }
    profile
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile_of;

    #[test]
    fn weights_that_are_times_follow_and_others_stay() {
        let rows = [(3, 14), (17, 8), (25, 1), (40, 100)];
        let mut profile = profile_of(&"a 1\n".repeat(rows.len()));
        for (sample, (time, weight)) in profile.samples.iter_mut().zip(rows) {
            (sample.time, sample.weight) = (time, weight);
        }
        let rounded = with_round_times(profile, 10);
        let samples = rounded.samples.iter();
        let rows: Vec<(u64, u64)> = samples.map(|each| (each.time, each.weight)).collect();
        assert_eq!(rows, [(0, 10), (10, 10), (20, 1), (40, 100)]);
    }
}
