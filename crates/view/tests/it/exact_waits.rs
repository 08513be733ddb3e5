//! What a recording says of every wait of its threads.

use nodespy_model::ExactWaits;

use crate::sample::{drawn, shop};

#[test]
fn waits_are_told_by_reason_with_their_histogram() {
    assert!(!drawn(&shop(), "text").contains("off the CPU"));
    let mut profile = shop();
    let mut locks = ExactWaits {
        what: "futex".to_owned(),
        ..ExactWaits::default()
    };
    (0..3).for_each(|_| locks.add(1_500));
    locks.add(9_000);
    profile.threads[0].exact_waits = vec![locks];
    let text = drawn(&profile, "text");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "futex 4 times for 14 µs, max 9 µs, p50 2 µs, p99 9 µs [█";
    assert!(text.contains(line), "{text}");
    let json = drawn(&profile, "json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let first = &json["exact_waits"][0];
    assert_eq!(
        (&first["what"], &first["count"]),
        (&"futex".into(), &4.into())
    );
    assert_eq!(first["histogram"], serde_json::json!([3, 0, 0, 1]));
}
