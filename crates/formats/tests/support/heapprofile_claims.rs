//! What must be true of any heap profile that V8 wrote.

use nodespy_model::{Profile, WeightUnit};
use serde_json::Value;

use crate::convert::{read, written};
use crate::in_words::{json, path, self_weight};

/// Every node of a file, without recursion.
fn nodes(file: &Value) -> Vec<&Value> {
    let mut found = vec![&file["head"]];
    let mut at = 0;
    while at < found.len() {
        found.extend(found[at]["children"].as_array().unwrap());
        at += 1;
    }
    found
}

/// How much, and where.
pub(crate) fn places(profile: &Profile) -> Vec<(u64, String)> {
    let samples = profile.samples.iter();
    samples
        .map(|sample| (sample.weight, path(profile, sample)))
        .collect()
}

/// Every byte is there, at its function.
pub(crate) fn all_bytes_are_there(bytes: &[u8]) -> Profile {
    let file = json(bytes);
    let profile = read(bytes).unwrap();
    let nodes = nodes(&file);
    let size = |node: &Value| node["selfSize"].as_u64().unwrap();
    assert_eq!(profile.unit(), WeightUnit::Bytes);
    assert_eq!(
        profile.total_weight(),
        nodes.iter().map(|node| size(node)).sum::<u64>()
    );
    let with_size: Vec<_> = nodes.into_iter().filter(|node| size(node) > 0).collect();
    // Later files list the samples that a size is the sum of.
    let listed = file["samples"].as_array().map_or(&[][..], Vec::as_slice);
    let samples = with_size.iter().map(|node| {
        let own = listed.iter().filter(|one| one["nodeId"] == node["id"]);
        let sizes: Vec<u64> = own.map(|one| one["size"].as_u64().unwrap()).collect();
        match sizes.iter().sum::<u64>() == size(node) {
            true => sizes.len(),
            false => 1,
        }
    });
    assert_eq!(profile.samples.len(), samples.sum::<usize>());
    for node in with_size {
        let name = node["callFrame"]["functionName"].as_str().unwrap();
        assert!(name.is_empty() || self_weight(&profile, name) >= size(node));
    }
    assert_eq!(profile.notes.remarks, [""; 0]);
    profile
}

/// What is read is the same after it was written and read once more.
pub(crate) fn comes_back_as_it_was(bytes: &[u8]) {
    let first = read(bytes).unwrap();
    let bytes = written(&first, "heapprofile");
    assert_eq!(json(&bytes)["head"]["callFrame"]["functionName"], "(root)");
    assert_eq!(places(&read(&bytes).unwrap()), places(&first));
}
