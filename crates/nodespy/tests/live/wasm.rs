//! WebAssembly on every Node: functions by the names of their module, its url, their tier.

use nodespy_model::{Category, Tier};

use super::live;
use super::recorded::{Recorded, record_enough, share};
use super::truth::start;
use super::versions::on_every_node;

/// The part of the frames of a function that have this tier, 0 to 1.
fn tier_share(recorded: &Recorded, name: &str, tier: Tier) -> f64 {
    let profile = &recorded.profile;
    let (mut all, mut with) = (0, 0);
    for stack in profile.samples.iter().filter_map(|sample| sample.stack) {
        for frame in profile.frames_of(stack) {
            let frame = profile.frame(frame);
            if profile.name_of(frame.function) == name {
                all += 1;
                with += u64::from(frame.tier == tier);
            }
        }
    }
    share(with, all)
}

fn expect_named(version: &str) {
    let Some(_live) = live() else { return };
    for (flag, tier) in [
        ("--liftoff-only", Tier::Baseline),
        ("--no-liftoff", Tier::Optimized),
    ] {
        let target = start(version, &[flag], "wasm.js", &[]);
        let recorded = record_enough(&target, 1, &["-F", "999"], 300);
        let hot = recorded.total_share("hotLoop");
        assert!(hot > 0.9, "{hot}\n{}", recorded.describe());
        // Since V8 13 TurboFan inlines `helper`, and Liftoff has a builtin set up its frame.
        if tier == Tier::Baseline {
            let helper = recorded.total_share("helper");
            assert!(helper > 0.1, "{helper}\n{}", recorded.describe());
        }
        let profile = &recorded.profile;
        let weights = recorded.weights();
        let found = weights
            .iter()
            .find(|entry| profile.name_of(entry.function) == "hotLoop");
        let function = found.expect("it was seen").function;
        assert_eq!(profile.function(function).category, Category::Wasm);
        let place = profile.location_of(function);
        assert!(place.starts_with("wasm://wasm/"), "{place}");
        let unnamed = recorded.total_share("wasm-function[?]");
        assert!(unnamed < 0.01, "{}", recorded.describe());
        let tiers = tier_share(&recorded, "hotLoop", tier);
        assert!(tiers > 0.99, "{tiers} of {tier:?}");
    }
}

on_every_node! {{
    functions_of_webassembly_are_named(expect_named);
}}
