//! What is ClickHouse's own: several servers at once, texts that look like SQL, retention, replies that make no sense. What it
//! promises like every engine is in `promises` and `agreement`.

use std::io::{Read, Write};
use std::net::TcpListener;

use nodespy_store::{ClickHouseOptions, ClickHouseStore, ClickHouseTables, Retention, StoreError};

/// Everything is kept: the services of these tests are of a day that goes by.
const FOREVER: Retention = Retention {
    windows: u64::MAX,
    hours: u64::MAX,
    rollups: u64::MAX,
    max_bytes: u64::MAX,
};

fn create(options: &ClickHouseOptions, retention: Retention) {
    let tables = ClickHouseTables {
        retention,
        cluster: None,
    };
    tables.create(options).unwrap();
}

/// An empty store in a database of its own, and where that is.
pub(crate) fn fresh_at() -> Option<(ClickHouseOptions, ClickHouseStore)> {
    let address = crate::clickhouse_server::fresh_address()?;
    let options = ClickHouseOptions::of_address(&address).unwrap();
    create(&options, FOREVER);
    let store = ClickHouseStore::open(&options).unwrap();
    Some((options, store))
}

pub(crate) fn fresh() -> Option<ClickHouseStore> {
    Some(fresh_at()?.1)
}

#[test]
fn without_a_server_the_error_says_where_it_was_looked_for() {
    // A port that was free a moment ago.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let options = ClickHouseOptions::of_address(&address).unwrap();
    let error = ClickHouseStore::open(&options).unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains(&address) && text.contains("is it running"),
        "{text}"
    );
}

/// What opening a store says of a server that replies with this.
fn opened(status: &str, body: &[u8]) -> StoreError {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let reply = [reply.as_bytes(), body].concat();
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        let _ = connection.read(&mut head);
        let _ = connection.write_all(&reply);
        let _ = connection.read(&mut head);
    });
    let options = ClickHouseOptions::of_address(&address).unwrap();
    let error = ClickHouseStore::open(&options).unwrap_err();
    server.join().unwrap();
    error
}

#[test]
fn whatever_a_server_replies_is_an_answer_or_an_error() {
    let missing = opened("404 Not Found", b"Code: 60. DB::Exception: no table marks");
    assert!(
        missing.to_string().contains("nodespy store init"),
        "{missing}"
    );
    let refused = opened(
        "403 Forbidden",
        b"Code: 516. DB::Exception: default: Authentication failed",
    );
    assert!(
        refused.to_string().contains("Authentication failed"),
        "{refused}"
    );
    let page = opened("200 OK", b"<html>a proxy</html>");
    assert!(matches!(page, StoreError::Reply(_)), "{page:?}");
    let length = opened("200 OK", &[0xff; 64]);
    assert!(matches!(length, StoreError::Reply(_)), "{length:?}");
    // Another database of the same name.
    let other = opened("200 OK", b"");
    assert!(matches!(other, StoreError::NoTables { .. }), "{other:?}");
    let later = [b"\x06format", &9_u64.to_le_bytes()[..]].concat();
    let later = opened("200 OK", &later);
    assert!(
        matches!(later, StoreError::TablesTooNew { .. }),
        "{later:?}"
    );
}

/// In the slow tier: the engine has to be installed.
mod matrix {
    use std::time::{SystemTime, UNIX_EPOCH};

    use nodespy_model::{Labels, ThreadRole};
    use nodespy_store::{
        Batch, Count, Detail, HOUR_SECONDS, Selection, Series, Store, StoredFrame, StoredFunction,
        Symbols, WINDOW_SECONDS, Window,
    };

    use super::*;
    use crate::fleet::{START, batch, series, stacks};
    use crate::promises::answer;

    fn count(store: &dyn Store, selection: &Selection, by: &[&str]) -> u64 {
        let merged = store.merge(selection, by).unwrap();
        let stacks = merged.groups.iter().flat_map(|group| &group.stacks);
        stacks.map(|stack| stack.count).sum()
    }

    fn everything() -> Selection {
        Selection::new("shop", "cpu-clock", 0..u64::MAX)
    }

    #[test]
    fn texts_are_never_part_of_a_statement() {
        let Some((options, mut store)) = fresh_at() else {
            return;
        };
        store.append(&batch(&stacks(20, 1), 0..3)).unwrap();
        let of_shop = answer(&store, &everything(), &["pid"]);
        let hostile = [
            "'; DROP TABLE windows; --",
            "\\'; SELECT sleep(3) --",
            "') OR 1=1 --",
            "{t0:String}",
            "%27 OR %271%27=%271",
            "a\0b\tc\nd\\N",
            "` ; \u{1f980} \u{202e}",
            "unhex('00')",
        ];
        let symbols = Symbols {
            functions: hostile
                .iter()
                .map(|text| StoredFunction {
                    name: (*text).to_owned(),
                    file: (*text).to_owned(),
                    ..StoredFunction::default()
                })
                .collect(),
            frames: (0..hostile.len() as u32)
                .map(|function| StoredFrame {
                    function,
                    ..StoredFrame::default()
                })
                .collect(),
            stacks: vec![(0..hostile.len() as u32).collect()],
        };
        let hash = symbols.hashes()[0];
        for (number, text) in (1..).zip(hostile) {
            let mut labels = Labels::default();
            labels.set(text, text);
            labels.set("version", text);
            let labelled = Series {
                service: text.to_owned(),
                event: text.to_owned(),
                labels: labels.clone(),
                ..series("", "", 1, 1)
            };
            let sent = Batch {
                series: vec![labelled],
                windows: vec![Window {
                    series: 0,
                    start: START,
                    counts: vec![Count::new(hash, ThreadRole::Main, number)],
                }],
                symbols: symbols.clone(),
            };
            assert_eq!(store.append(&sent).unwrap().windows, 1, "{text}");
            assert_eq!(store.append(&sent).unwrap().repeated, 1, "{text}");
            store.compact(START + HOUR_SECONDS).unwrap();
            let (key, value) = labels.iter().find(|(key, _)| *key != "version").unwrap();
            let asked = Selection::new(text, text, START..START + 10).with(key, value);
            let asked = asked.with("version", value);
            let found = answer(&store, &asked, &[key]);
            let (values, named) = found.iter().next().unwrap_or_else(|| panic!("{text}"));
            assert_eq!(values, &[value.to_owned()]);
            let (name, sums) = named.iter().next().unwrap();
            assert!(name.contains(&format!("{text:?}")), "{name}");
            assert_eq!(sums.0, number);
            let nothing = Selection::new(text, "cpu-clock", START..START + 10);
            assert_eq!(count(&store, &nothing, &[text]), 0);
        }
        let spans = store.labels(0..u64::MAX).unwrap();
        assert!(
            hostile
                .iter()
                .all(|text| spans.iter().any(|span| span.service == *text))
        );
        assert_eq!(answer(&store, &everything(), &["pid"]), of_shop);
        ClickHouseStore::open(&options).unwrap();
    }

    #[test]
    fn servers_that_take_the_same_windows_at_once_count_them_once() {
        let Some((options, store)) = fresh_at() else {
            return;
        };
        let symbols = stacks(50, 1);
        let sent = batch(&symbols, 300..420);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut server = ClickHouseStore::open(&options).unwrap();
                    for windows in sent.windows.chunks(200) {
                        let part = Batch {
                            windows: windows.to_vec(),
                            ..sent.clone()
                        };
                        server.append(&part).unwrap();
                        server.compact(START + HOUR_SECONDS).unwrap();
                    }
                });
            }
        });
        let mut plain = crate::plain::PlainStore::default();
        plain.append(&sent).unwrap();
        for by in [&[][..], &["pid"], &["version"]] {
            let expected = answer(&plain, &everything(), by);
            assert_eq!(answer(&store, &everything(), by), expected, "{by:?}");
        }
        let step = 6 * WINDOW_SECONDS;
        let asked = Selection::new("shop", "cpu-clock", START..START + 2 * HOUR_SECONDS);
        assert_eq!(
            store.series(&asked, step, &["host"]).unwrap(),
            plain.series(&asked, step, &["host"]).unwrap()
        );
    }

    #[test]
    fn each_detail_goes_by_itself_and_gives_its_space_back() {
        let Some((_, mut store)) = fresh_at() else {
            return;
        };
        let day = 24 * HOUR_SECONDS;
        let mut sent = batch(&stacks(200, 1), 0..180);
        for _ in 0..3 {
            store.append(&sent).unwrap();
            sent.windows
                .iter_mut()
                .for_each(|window| window.start += day);
        }
        store.compact(START + 3 * day).unwrap();
        let (all, bytes) = (
            count(&store, &everything(), &["pid"]),
            store.bytes().unwrap(),
        );
        store.drop_before(Detail::Windows, START + 2 * day).unwrap();
        let without_windows = store.bytes().unwrap();
        assert!(without_windows < bytes, "{bytes} → {without_windows}");
        assert_eq!(count(&store, &everything(), &["pid"]), all);
        let part = Selection::new("shop", "cpu-clock", START + 600..START + 1200);
        assert!(store.merge(&part, &["pid"]).unwrap().is_widened);
        store.drop_before(Detail::Hours, START + 2 * day).unwrap();
        assert!(store.bytes().unwrap() < without_windows);
        assert_eq!(count(&store, &everything(), &["version"]), all);
        assert_eq!(
            store.merge(&everything(), &["pid"]).unwrap().missing_hours,
            2
        );
        // Late, and not counted twice.
        let again = store.append(&batch(&stacks(200, 1), 0..180)).unwrap();
        assert_eq!((again.windows, again.too_old), (0, 900));
        store.drop_before(Detail::Rollups, START + 2 * day).unwrap();
        let left = count(&store, &everything(), &["version"]);
        assert_eq!(left, count(&store, &everything(), &["pid"]));
        assert!(left > 0 && left < all / 2, "{left} of {all}");
    }

    /// The tables say how long what is kept, whoever writes: what is older is refused, and not answered in detail.
    #[test]
    fn tables_expire_and_their_age_can_be_changed() {
        let Some((options, mut store)) = fresh_at() else {
            return;
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let mut sent = batch(&stacks(50, 1), 0..30);
        let (day, ago) = (
            24 * HOUR_SECONDS,
            now / HOUR_SECONDS * HOUR_SECONDS - 3 * 24 * HOUR_SECONDS,
        );
        sent.windows
            .iter_mut()
            .for_each(|window| window.start = window.start - START + ago);
        assert_eq!(store.append(&sent).unwrap().windows, 150);
        store.compact(ago + HOUR_SECONDS).unwrap();
        let all = count(&store, &everything(), &["pid"]);
        let kept = Retention {
            windows: day,
            hours: 30 * day,
            rollups: 300 * day,
            max_bytes: u64::MAX,
        };
        create(&options, kept);
        let mut store = ClickHouseStore::open(&options).unwrap();
        assert_eq!(store.retention(), kept);
        assert_eq!(count(&store, &everything(), &["pid"]), all);
        let part = Selection::new("shop", "cpu-clock", ago + 60..ago + 120);
        assert!(store.merge(&part, &["pid"]).unwrap().is_widened);
        assert_eq!(store.append(&sent).unwrap().too_old, 150);
        create(&options, Retention { hours: day, ..kept });
        assert_eq!(
            store.merge(&everything(), &["pid"]).unwrap().missing_hours,
            1
        );
        assert_eq!(count(&store, &everything(), &["version"]), all);
    }
}
