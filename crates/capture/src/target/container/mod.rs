//! Containers: their names, images and pods, for the ids in control groups.
//!
//! Asked in this order: the engine's socket where it may be used (Docker, podman; `DOCKER_HOST` is
//! honoured), then the files in which runtimes keep their state, then the command line of the
//! process that watches over a podman container. No command line tool is run.

mod socket;
mod state_files;

use std::collections::HashMap;
use std::sync::Mutex;

use super::cgroup::{ContainerMark, Runtime};

/// A container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Its whole id, or its name where the runtime has no ids.
    pub id: String,
    /// What runs it.
    pub runtime: Runtime,
    /// Its name.
    pub name: Option<String>,
    /// The image it was made from.
    pub image: Option<String>,
    /// Its pod.
    pub pod: Option<String>,
    /// The namespace of its pod.
    pub namespace: Option<String>,
    /// Whether it runs.
    pub is_running: bool,
}

impl Container {
    fn new(id: &str, runtime: Runtime) -> Self {
        Self {
            id: id.to_owned(),
            runtime,
            name: None,
            image: None,
            pod: None,
            namespace: None,
            is_running: true,
        }
    }

    /// The part of its id that people write.
    pub fn short_id(&self) -> &str {
        match self.runtime {
            Runtime::Lxc | Runtime::Nspawn => &self.id,
            _ => self.id.get(..12).unwrap_or(&self.id),
        }
    }

    /// What people call it.
    pub fn title(&self) -> String {
        match (&self.namespace, &self.pod, &self.name) {
            (Some(namespace), Some(pod), Some(name)) => format!("{namespace}/{pod}:{name}"),
            (_, Some(pod), Some(name)) => format!("{pod}:{name}"),
            (_, _, Some(name)) => name.clone(),
            _ => self.short_id().to_owned(),
        }
    }

    /// Whether `text` is its name, its id, or a beginning of its id.
    pub fn is_called(&self, text: &str) -> bool {
        let is_prefix = text.len() >= 2 && self.id.starts_with(text);
        self.name.as_deref() == Some(text) || is_prefix
    }
}

/// What was learned about containers. Ids are never given twice, so nothing here grows old.
#[derive(Debug, Default)]
struct Learned {
    by_id: HashMap<String, Container>,
    has_asked_engines: bool,
}

static LEARNED: Mutex<Option<Learned>> = Mutex::new(None);

/// What is known of the container that a control group belongs to.
pub fn container_of(mark: &ContainerMark) -> Container {
    with_learned(|learned| learned.container_of(mark, socket::containers))
}

/// The containers the engines know, stopped ones included.
pub(crate) fn known_containers() -> Vec<Container> {
    with_learned(|learned| {
        learned.ask_engines(socket::containers);
        learned.by_id.values().cloned().collect()
    })
}

fn with_learned<T>(ask: impl FnOnce(&mut Learned) -> T) -> T {
    let mut learned = LEARNED
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    ask(learned.get_or_insert_with(Learned::default))
}

impl Learned {
    fn container_of(
        &mut self,
        mark: &ContainerMark,
        ask: impl Fn() -> Vec<Container>,
    ) -> Container {
        if let Some(known) = self.by_id.get(&mark.id)
            && (known.runtime == mark.runtime || mark.runtime == Runtime::Unknown)
        {
            return known.clone();
        }
        if matches!(mark.runtime, Runtime::Lxc | Runtime::Nspawn) {
            return Container {
                name: Some(mark.id.clone()),
                ..Container::new(&mark.id, mark.runtime)
            };
        }
        let has_asked = self.has_asked_engines;
        self.ask_engines(&ask);
        if has_asked && !self.by_id.contains_key(&mark.id) {
            // It was started since. What is found is kept, so that each is asked for once.
            self.has_asked_engines = false;
            self.ask_engines(&ask);
        }
        let found = self.by_id.get(&mark.id).cloned();
        let mut container = found.unwrap_or_else(|| {
            let mut container = Container::new(&mark.id, mark.runtime);
            state_files::complete(&mut container);
            container
        });
        // podman answers like Docker; the control group distinguishes them.
        if mark.runtime != Runtime::Unknown {
            container.runtime = mark.runtime;
        }
        self.by_id.insert(mark.id.clone(), container.clone());
        container
    }

    fn ask_engines(&mut self, ask: impl Fn() -> Vec<Container>) {
        if self.has_asked_engines {
            return;
        }
        self.has_asked_engines = true;
        for mut container in ask() {
            // What the engine did not say may be in its files.
            if container.name.is_none() {
                state_files::complete(&mut container);
            }
            self.by_id.insert(container.id.clone(), container);
        }
    }
}

/// Asks the engines anew at the next question: containers come and go while a list is shown.
pub fn forget_containers() {
    with_learned(|learned| *learned = Learned::default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_started_later_has_its_name_and_is_asked_for_once() {
        let mark = |letter: &str| ContainerMark {
            runtime: Runtime::Docker,
            id: letter.repeat(64),
            pod_uid: None,
        };
        let named = |letter: &str| Container {
            name: Some(format!("web-{letter}")),
            ..Container::new(&letter.repeat(64), Runtime::Docker)
        };
        let asked = std::cell::Cell::new(0);
        let ask = |running: &[&str]| {
            asked.set(asked.get() + 1);
            running.iter().map(|letter| named(letter)).collect()
        };
        let mut learned = Learned::default();
        let first = learned.container_of(&mark("a"), || ask(&["a"]));
        assert_eq!(first.name.as_deref(), Some("web-a"));
        let later = learned.container_of(&mark("b"), || ask(&["a", "b"]));
        assert_eq!(later.name.as_deref(), Some("web-b"));
        assert_eq!(asked.get(), 2);
        for letter in ["a", "b", "c", "c"] {
            learned.container_of(&mark(letter), || ask(&["a", "b"]));
        }
        assert_eq!(asked.get(), 3);
    }

    #[test]
    fn a_container_is_called_by_name_id_or_beginning() {
        let id = "a3115".repeat(13)[..64].to_owned();
        let container = Container {
            name: Some("web".to_owned()),
            ..Container::new(&id, Runtime::Docker)
        };
        for text in ["web", "a3115", &id] {
            assert!(container.is_called(text), "{text}");
        }
        for text in ["we", "a", "", "a3116", "webs"] {
            assert!(!container.is_called(text), "{text}");
        }
        assert_eq!(container.title(), "web");
        assert_eq!(container.short_id(), &id[..12]);
    }
}
