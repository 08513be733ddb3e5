//! What an HTML page holds of a recording: everything, but for digits of times when there are
//! millions of samples.

use std::borrow::Cow;

use nodespy_analysis::{with_round_times, without_idle_states};
use nodespy_model::{EventType, Nanoseconds, Profile};

/// With more samples than this a page would mostly be made of digits that can't be seen.
const MAX_EXACT_SAMPLES: usize = 1_000_000;

/// How many grains of time there are between two samples of a thread.
const GRAINS: u64 = 16;

/// The profile as a page holds it.
pub fn for_page(profile: &Profile) -> Cow<'_, Profile> {
    let mut held = without_idle_states(profile);
    if let Cow::Owned(held) = &mut held {
        held.notes.remark(
            "This page leaves idle time out: threads without work; a .nspy file has it".to_owned(),
        );
    }
    if held.samples.len() <= MAX_EXACT_SAMPLES {
        return held;
    }
    let grain = grain(&held);
    let mut rounded = with_round_times(held.into_owned(), grain);
    rounded.notes.remark(format!(
        "This page has the times of its samples to {} us, as there are more than a million; a .nspy file has them exactly",
        grain / 1000
    ));
    Cow::Owned(rounded)
}

/// A round number of microseconds: a sixteenth of the time between samples, or a little less. Of
/// several events the one with the most samples a second decides.
fn grain(profile: &Profile) -> Nanoseconds {
    let rates = profile.events.iter().map(EventType::rate_hz);
    let step = match rates.max().unwrap_or(0) {
        0 => profile.about.duration / profile.samples.len().max(1) as u64,
        rate => 1_000_000_000 / u64::from(rate),
    };
    let wanted = (step / GRAINS / 1000).max(1);
    let power = 10u64.pow(wanted.ilog10());
    let digits = [5, 2, 1].into_iter().find(|digit| digit * power <= wanted);
    digits.unwrap_or(1) * power * 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::Sample;

    #[test]
    fn grains_are_round() {
        let mut profile = Profile::default();
        for (rate, expected) in [(99, 500), (999, 50), (10_000, 5), (100_000, 1)] {
            profile.events = vec![EventType::default().at_rate(rate)];
            assert_eq!(grain(&profile), expected * 1000);
        }
    }

    #[test]
    fn only_millions_of_samples_are_rounded() {
        let mut profile = Profile {
            events: vec![EventType::default().at_rate(999)],
            ..Profile::default()
        };
        let sample = |row: u64| Sample {
            time: row * 1_001_001,
            weight: 1,
            ..Sample::default()
        };
        profile.samples = (0..MAX_EXACT_SAMPLES as u64).map(sample).collect();
        assert!(matches!(for_page(&profile), Cow::Borrowed(_)));
        profile.samples.push(sample(MAX_EXACT_SAMPLES as u64));
        let page = for_page(&profile);
        assert_eq!(page.samples[1].time, 1_000_000);
        assert!(page.notes.remarks[0].contains("to 50 us"));
    }
}
