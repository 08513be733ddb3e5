//! Every engine gives the answers of the plain one, whatever is asked and in whatever state the hours are.

use nodespy_model::ThreadRole;
use nodespy_store::{
    Detail, HOUR_SECONDS, OpenMode, Selection, SqliteStore, Store, WINDOW_SECONDS,
};
use proptest::prelude::*;

use crate::fleet::{Random, START, batch, stacks};
use crate::plain::PlainStore;
use crate::promises::answer;

fn selection(random: &mut Random) -> Selection {
    let from = START + random.below(4 * HOUR_SECONDS);
    let length = match random.below(3) {
        0 => random.below(3 * HOUR_SECONDS),
        1 => HOUR_SECONDS,
        _ => 4 * HOUR_SECONDS,
    };
    // Often whole hours, as pages ask for.
    let from = match random.below(2) {
        0 => from / HOUR_SECONDS * HOUR_SECONDS,
        _ => from,
    };
    let service = ["shop", "mail", "none"][random.below(3) as usize];
    let mut selection = Selection::new(service, "cpu-clock", from..from + length);
    match random.below(4) {
        0 => selection = selection.with("version", "1.0"),
        1 => selection = selection.with("host", "host-1"),
        _ => {}
    }
    if random.below(3) == 0 {
        selection = selection.on(ThreadRole::Main).on(ThreadRole::Pool);
    }
    selection
}

/// Does the same to an engine and to the plain one, and asks both. `reopen` closes and opens the store.
fn agree(
    seed: u64,
    mut stored: Box<dyn Store>,
    reopen: &dyn Fn(Box<dyn Store>) -> Box<dyn Store>,
) -> Result<(), TestCaseError> {
    let mut random = Random(seed);
    let mut plain = PlainStore::default();
    let symbols = stacks(60, seed);
    // Four hours, in batches that come out of order and overlap.
    for _ in 0..30 {
        let from = random.below(1440);
        let sent = batch(&symbols, from..from + random.below(80));
        let (stored_windows, plain_windows) = (
            stored.append(&sent).unwrap().windows,
            plain.append(&sent).unwrap().windows,
        );
        prop_assert!(stored_windows >= plain_windows);
        if random.below(4) == 0 {
            stored
                .compact(START + random.below(5 * HOUR_SECONDS))
                .unwrap();
        }
        if random.below(10) == 0 {
            stored = reopen(stored);
        }
    }
    for detail in [
        None,
        Some(Detail::Windows),
        Some(Detail::Hours),
        Some(Detail::Rollups),
    ] {
        if let Some(detail) = detail {
            let time = START + random.below(3 * HOUR_SECONDS);
            stored.drop_before(detail, time).unwrap();
            plain.drop_before(detail, time).unwrap();
        }
        for _ in 0..12 {
            let asked = selection(&mut random);
            let by: &[&str] = [&[][..], &["version"], &["pid", "host"]][random.below(3) as usize];
            let (left, right) = (
                stored.merge(&asked, by).unwrap(),
                plain.merge(&asked, by).unwrap(),
            );
            prop_assert_eq!(left.is_widened, right.is_widened, "{:?} by {:?}", asked, by);
            prop_assert_eq!(
                left.missing_hours,
                right.missing_hours,
                "{:?} by {:?}",
                asked,
                by
            );
            prop_assert_eq!(
                answer(&*stored, &asked, by),
                answer(&plain, &asked, by),
                "{:?} by {:?}",
                asked,
                by
            );
            for (role, merged) in stored.merge_roles(&asked).unwrap() {
                let mut of_role = asked.clone();
                of_role.roles = vec![role];
                prop_assert_eq!(&merged, &stored.merge(&of_role, &[]).unwrap());
            }
            // The plain engine forgets no windows, so steps are compared before some are dropped.
            if detail.is_none() {
                let step = match random.below(3) {
                    0 => (1 + random.below(3)) * HOUR_SECONDS,
                    _ => (1 + random.below(400)) * WINDOW_SECONDS,
                };
                prop_assert_eq!(
                    stored.series(&asked, step, by).unwrap(),
                    plain.series(&asked, step, by).unwrap()
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn sqlite_answers_as_the_plain_engine(seed in any::<u64>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let open = || SqliteStore::open(&path, OpenMode::Write).unwrap();
        agree(seed, Box::new(open()), &|stored| {
            drop(stored);
            Box::new(open())
        })?;
        open().check().unwrap();
    }
}

/// In the slow tier: the engine has to be installed.
mod matrix {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2))]

        #[test]
        fn clickhouse_answers_as_the_plain_engine(seed in any::<u64>()) {
            if let Some((options, stored)) = crate::clickhouse::fresh_at() {
                agree(seed, Box::new(stored), &|_| {
                    Box::new(nodespy_store::ClickHouseStore::open(&options).unwrap())
                })?;
            }
        }
    }
}
