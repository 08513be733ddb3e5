//! What OpenTelemetry calls the labels of a process.

use nodespy_model::{Category, label_key};
use nodespy_store::{HOST, PID};

pub(crate) const SERVICE: &str = "service.name";
/// What stands for a service whose sender gives no name.
pub(crate) const UNKNOWN_SERVICE: &str = "unknown_service";
pub(crate) const EXECUTABLE: &str = "process.executable.name";
pub(crate) const PROCESS_ID: &str = "process.pid";
pub(crate) const THREAD: &str = "thread.name";
pub(crate) const FRAME_TYPE: &str = "profile.frame.type";

/// Labels and what semantic conventions call them; others go by their own names.
const NAMES: [(&str, &str); 11] = [
    (label_key::VERSION, "service.version"),
    ("instance", "service.instance.id"),
    (HOST, "host.name"),
    (PID, PROCESS_ID),
    (label_key::CONTAINER, "container.name"),
    (label_key::CONTAINER_ID, "container.id"),
    (label_key::IMAGE, "container.image.name"),
    (label_key::POD, "k8s.pod.name"),
    (label_key::NAMESPACE, "k8s.namespace.name"),
    (label_key::NODE, "process.runtime.version"),
    (label_key::COMMIT, "vcs.ref.head.revision"),
];

/// The attribute of a label.
pub(crate) fn attribute_of(label: &str) -> &str {
    let known = NAMES.iter().find(|(known, _)| *known == label);
    known.map_or(label, |(_, attribute)| attribute)
}

/// The label of an attribute.
pub(crate) fn label_of(attribute: &str) -> &str {
    let known = NAMES.iter().find(|(_, known)| *known == attribute);
    known.map_or(attribute, |(label, _)| label)
}

/// What OpenTelemetry calls the code of a frame.
pub(crate) fn frame_type(category: Category) -> &'static str {
    match category {
        Category::App | Category::Dependency | Category::NodeCore | Category::RegExp => "v8js",
        Category::Wasm => "wasm",
        Category::Kernel => "kernel",
        _ => "native",
    }
}
