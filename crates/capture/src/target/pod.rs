//! Pods by name: `[NAMESPACE/]POD[:CONTAINER]`, where a beginning will do as long as it means one pod.

use nodespy_model::SmallSort;

use super::container::Container;
use super::wanted::list;
use crate::error::CaptureError;

/// Fewer letters mean too much.
const SHORTEST_BEGINNING: usize = 2;

/// What was asked for.
struct PodName<'a> {
    namespace: Option<&'a str>,
    pod: &'a str,
    container: Option<&'a str>,
}

impl<'a> PodName<'a> {
    fn parse(text: &'a str) -> Self {
        let (namespace, rest) = match text.split_once('/') {
            Some((namespace, rest)) => (Some(namespace), rest),
            None => (None, text),
        };
        let (pod, container) = match rest.split_once(':') {
            Some((pod, name)) => (pod, Some(name)),
            None => (rest, None),
        };
        Self {
            namespace,
            pod,
            container,
        }
    }

    /// Whether a container is meant, when `is_same` says which names mean which.
    fn means(&self, container: &Container, is_same: fn(&str, &str) -> bool) -> bool {
        let is = |name: &Option<String>, wanted: &str| {
            name.as_deref().is_some_and(|name| is_same(name, wanted))
        };
        is(&container.pod, self.pod)
            && self
                .namespace
                .is_none_or(|wanted| container.namespace.as_deref() == Some(wanted))
            && self
                .container
                .is_none_or(|wanted| is(&container.name, wanted))
    }

    /// What has to be the same of all containers that are meant.
    fn title(&self, container: &Container) -> String {
        match self.container {
            Some(_) => container.title(),
            None => {
                let parts = [container.namespace.as_deref(), container.pod.as_deref()];
                parts.into_iter().flatten().collect::<Vec<_>>().join("/")
            }
        }
    }
}

fn begins(name: &str, wanted: &str) -> bool {
    wanted.len() >= SHORTEST_BEGINNING && name.starts_with(wanted)
}

/// The ids of the containers of the one pod that goes by `text`, or of its one container.
pub(super) fn find_pod(containers: &[&Container], text: &str) -> Result<Vec<String>, CaptureError> {
    let wanted = PodName::parse(text);
    let of_pods = containers.iter().filter(|each| each.pod.is_some());
    let meant = |is_same| {
        let meant = of_pods.clone().filter(|each| wanted.means(each, is_same));
        meant.copied().collect::<Vec<&Container>>()
    };
    let mut found = meant(|name, wanted| name == wanted);
    if found.is_empty() {
        found = meant(begins);
    }
    let titles = distinct(found.iter().map(|each| wanted.title(each)));
    match titles.len() {
        1 => Ok(distinct(found.iter().map(|each| each.id.clone()))),
        0 => Err(not_found(
            text,
            distinct(of_pods.map(|container| container.title())),
        )),
        _ => Err(CaptureError::ambiguous(format!(
            "{text:?} can be several pods: {}; write more of it",
            list(titles.into_iter())
        ))),
    }
}

fn not_found(text: &str, known: Vec<String>) -> CaptureError {
    CaptureError::not_found(match known.is_empty() {
        true => format!(
            "no pod is called {text:?}: no Node.js process of this machine is in a pod whose name \
             can be read (that needs root, or the engine's socket)"
        ),
        false => format!(
            "no pod with a Node.js process is called {text:?}; there are {}",
            list(known.into_iter())
        ),
    })
}

fn distinct(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut words: Vec<String> = words.collect();
    words.small_sort();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Runtime;

    fn container(id: &str, namespace: &str, pod: &str, name: &str) -> Container {
        Container {
            id: id.to_owned(),
            runtime: Runtime::Containerd,
            name: Some(name.to_owned()),
            image: None,
            pod: Some(pod.to_owned()),
            namespace: Some(namespace.to_owned()),
            is_running: true,
        }
    }

    fn found(text: &str) -> Result<String, String> {
        let all = [
            container("1", "shop", "api-7d9f-x2", "main"),
            container("2", "shop", "api-7d9f-x2", "proxy"),
            container("3", "shop", "api-7d9f-k8", "main"),
            container("4", "test", "api", "main"),
            container("5", "shop", "mail-5c", "main"),
        ];
        let all: Vec<&Container> = all.iter().collect();
        let ids = find_pod(&all, text).map(|ids| ids.join(" "));
        ids.map_err(|error| error.to_string())
    }

    #[test]
    fn a_beginning_will_do_where_it_means_one_pod() {
        for (text, ids) in [
            ("api-7d9f-x2", "1 2"),
            ("api-7d9f-x", "1 2"),
            ("shop/api-7d9f-k", "3"),
            ("api-7d9f-x:pro", "2"),
            ("api-7d9f-x2:main", "1"),
            ("ma", "5"),
            // The whole name of one is the beginning of others.
            ("api", "4"),
            ("test/a", "no pod"),
            ("test/ap", "4"),
        ] {
            match found(text) {
                Ok(found) => assert_eq!(found, ids, "{text}"),
                Err(error) => assert!(error.contains(ids), "{text}: {error}"),
            }
        }
    }

    #[test]
    fn a_beginning_of_several_pods_lists_them() {
        let error = found("shop/api").unwrap_err();
        assert!(
            error.contains("several pods: shop/api-7d9f-k8, shop/api-7d9f-x2;"),
            "{error}"
        );
        let error = found("nope").unwrap_err();
        assert!(
            error.contains("there are shop/api-7d9f-k8:main, "),
            "{error}"
        );
    }
}
