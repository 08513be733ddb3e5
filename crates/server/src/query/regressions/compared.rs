//! Which time of two versions is compared.

use std::ops::Range;

use nodespy_store::UnixSeconds;

use super::Pair;

const DAY: u64 = 86_400;
/// How far back hours are looked for that a deployment is compared with.
pub(super) const REACH: u64 = 7 * DAY;
/// How much of a range has to be known for it to stand for the other, of all of it.
const KNOWN: f64 = 0.8;

/// While both versions ran, without the warm-up of the first instance.
pub(super) fn together(pair: &Pair, warm_up: u64) -> [Range<UnixSeconds>; 2] {
    let until = pair.ended[0].min(pair.ended[1]);
    let both = (pair.first + warm_up).min(until)..until;
    [both.clone(), both]
}

/// One version after the other, and how the times were matched: the same hours before, or else right before the deployment.
pub(super) fn one_after_the_other(
    pair: &Pair,
    horizon: u64,
) -> ([Range<UnixSeconds>; 2], &'static str) {
    same_hours(pair, horizon).unwrap_or_else(|| {
        let before = pair.first.saturating_sub(horizon)..pair.first.min(pair.ended[0]);
        ([before, since(pair, horizon)], "the hours before")
    })
}

/// The same hours a week before or else a day before, if the earlier version ran then, so that what changes with the hour is in both.
pub(super) fn same_hours(
    pair: &Pair,
    horizon: u64,
) -> Option<([Range<UnixSeconds>; 2], &'static str)> {
    let after = since(pair, horizon);
    let days = [
        (7, "the same hours a week before"),
        (1, "the same hours of the day before"),
    ];
    days.into_iter().find_map(|(days, how)| {
        let earlier = |time: UnixSeconds| time.saturating_sub(days * DAY);
        let before = earlier(after.start)..earlier(after.end);
        let is_usable = before.end <= pair.first && is_known(pair, &before);
        is_usable.then(|| ([before, after.clone()], how))
    })
}

/// What is compared of the later version.
fn since(pair: &Pair, horizon: u64) -> Range<UnixSeconds> {
    pair.first..pair.ended[1].min(pair.first + horizon)
}

/// Whether the earlier version ran in nearly all of a range.
fn is_known(pair: &Pair, time: &Range<UnixSeconds>) -> bool {
    let start = time.start.max(pair.before_first);
    let end = time.end.min(pair.ended[0]);
    end.saturating_sub(start) as f64 >= KNOWN * (time.end - time.start) as f64
}

/// The last third of a range, to see whether what is in all of it still is.
pub(super) fn lately(time: &Range<UnixSeconds>) -> Range<UnixSeconds> {
    time.end - time.end.saturating_sub(time.start) / 3..time.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(before: Range<u64>, after: Range<u64>) -> Pair {
        Pair {
            before: "1".to_owned(),
            after: "2".to_owned(),
            first: after.start,
            ended: [before.end, after.end],
            before_first: before.start,
        }
    }

    #[test]
    fn versions_that_overlap_are_compared_while_both_ran() {
        let [before, after] = together(&pair(0..9_000, 5_000..20_000), 300);
        assert_eq!((before.clone(), before), (after, 5_300..9_000));
        let [never, _] = together(&pair(0..5_100, 5_000..20_000), 300);
        assert!(never.is_empty());
    }

    #[test]
    fn hours_are_compared_with_the_same_hours_where_they_are_known() {
        let deployed = 10 * DAY;
        let after = deployed..deployed + 7_200;
        let days = |first: u64| one_after_the_other(&pair(first..deployed, after.clone()), DAY);
        let ([before, _], how) = days(0);
        assert_eq!(before, 3 * DAY..3 * DAY + 7_200);
        assert_eq!(how, "the same hours a week before");
        let ([before, _], how) = days(8 * DAY);
        assert_eq!(before, 9 * DAY..9 * DAY + 7_200);
        assert_eq!(how, "the same hours of the day before");
        let ([before, _], how) = days(deployed - 3_600);
        assert_eq!(before, 9 * DAY..deployed);
        assert_eq!(how, "the hours before");
    }
}
