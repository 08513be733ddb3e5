//! A profile to give away: without what it reveals of the machine and its users.

use nodespy_model::{
    Category, ContextIndex, FastMap, FastSet, Profile, Sample, SmallSort, StringIndex, StringTable,
    label_key,
};

/// The profile without the host's name, command lines, source text, the words of routes, what stores say and
/// paths outside of the application. Files of the application stay with their path in it, dependencies with their path
/// in `node_modules`, all others with their name alone.
pub fn redact(mut profile: Profile) -> Profile {
    let folders: Vec<String> = profile
        .processes
        .iter()
        .filter_map(|process| process.labels.get(label_key::FOLDER))
        .map(|folder| format!("{}/", folder.trim_end_matches('/')))
        .collect();
    profile.about.host.clear();
    profile.about.app = redact_text(&profile.about.app, &folders);
    for process in &mut profile.processes {
        process.command.clear();
        process.name = redact_text(&process.name, &folders);
        process.labels.remove(label_key::FOLDER);
        // What jobs are about and who submits them are paths too; host names are of the machine's surroundings.
        if let Some(pool) = &mut process.pool {
            pool.jobs.iter_mut().for_each(|jobs| jobs.about.clear());
            for submitter in &mut pool.submitters {
                submitter.place = redact_text(&submitter.place, &folders);
            }
        }
    }
    profile.sources.clear();
    redact_routes(&mut profile);
    let of_stores = store_keys(&profile);
    for key in &of_stores {
        redact_values(&mut profile, key);
    }
    // What tracepoints were called with may be paths.
    let mut known = vec![label_key::ROUTE, label_key::STATE, label_key::WAIT];
    known.extend(of_stores.iter().map(String::as_str));
    let redacted = |value: &str| redact_text(value, &folders);
    profile.contexts.change_others(&known, redacted);
    redact_strings(&mut profile, &folders);
    let notes = &mut profile.notes;
    for list in [
        &mut notes.filters,
        &mut notes.cross_checks,
        &mut notes.remarks,
    ] {
        for sentence in list {
            *sentence = redact_text(sentence, &folders);
        }
    }
    profile
}

/// A message with the folders of every path in it left out: `/home/ann/a.nspy` becomes `a.nspy`.
pub fn redact_paths(message: &str) -> String {
    redact_text(message, &[])
}

/// Routes are told apart by numbers: their words are the application's own.
fn redact_routes(profile: &mut Profile) {
    let mut numbers: FastMap<String, usize> = FastMap::default();
    profile.contexts.change(label_key::ROUTE, |route| {
        let next = numbers.len() + 1;
        let number = *numbers.entry(route.to_owned()).or_insert(next);
        let method = route.split(' ').next().unwrap_or_default();
        format!("{method} (route {number})")
    });
}

/// The labels that are not nodespy's own and no arguments of a tracepoint: what stores of AsyncLocalStorage have said.
fn store_keys(profile: &Profile) -> Vec<String> {
    const OWN: [&str; 3] = [label_key::ROUTE, label_key::STATE, label_key::WAIT];
    let is_tracepoint = |sample: &&Sample| {
        let event = profile.events.get(usize::from(sample.event.0));
        event.is_some_and(|event| event.name.contains(':'))
    };
    let others = profile
        .samples
        .iter()
        .filter(|sample| !is_tracepoint(sample));
    let contexts: FastSet<ContextIndex> = others.map(|sample| sample.context).collect();
    let labels = contexts
        .into_iter()
        .flat_map(|context| profile.contexts.get(context).iter());
    let keys = labels.map(|(key, _)| key.to_owned());
    let mut keys: Vec<String> = keys.filter(|key| !OWN.contains(&key.as_str())).collect();
    keys.small_sort();
    keys.dedup();
    keys
}

/// The values of a label are told apart by numbers.
fn redact_values(profile: &mut Profile, key: &str) {
    let mut numbers: FastMap<String, usize> = FastMap::default();
    profile.contexts.change(key, |value| {
        let next = numbers.len() + 1;
        let number = *numbers.entry(value.to_owned()).or_insert(next);
        format!("({key} {number})")
    });
}

/// Redacts files and names, which hold paths too. Regular expressions only look like paths.
fn redact_strings(profile: &mut Profile, folders: &[String]) {
    let old = std::mem::take(&mut profile.strings);
    let mut strings = StringTable::default();
    let mut known: FastMap<String, StringIndex> = FastMap::default();
    let mut moved_to = |string: StringIndex, is_path: bool| {
        let text = match is_path {
            true => redact_text(old.get(string), folders),
            false => old.get(string).to_owned(),
        };
        *known
            .entry(text)
            .or_insert_with_key(|text| strings.push(text))
    };
    for function in &mut profile.functions {
        let is_path = function.category != Category::RegExp;
        function.name = moved_to(function.name, is_path);
        function.file = function.file.map(|file| moved_to(file, true));
    }
    for (_, reason) in &mut profile.deopt_reasons {
        *reason = moved_to(*reason, false);
    }
    for (_, place) in &mut profile.generated_places {
        *place = moved_to(*place, true);
    }
    profile.strings = strings;
}

/// The text with every path in it cut down. A path is what starts with a slash at the start of a
/// word and has a second one.
fn redact_text(text: &str, folders: &[String]) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = next_path(rest) {
        let (before, path) = rest.split_at(at);
        clean.push_str(before.strip_suffix("file://").unwrap_or(before));
        let end = end_of_path(path, folders);
        clean.push_str(redact_path(&path[..end], folders));
        rest = &path[end..];
    }
    clean.push_str(rest);
    clean
}

/// Where the next absolute path starts.
fn next_path(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = text[from..].find('/') {
        let at = from + found;
        let before = text[..at].chars().next_back();
        let starts_word = before.is_none_or(|letter| " ('\"[=<:`".contains(letter));
        let is_url = text[..at].ends_with("file://");
        if (starts_word || is_url) && text[at + 1..].contains('/') && !text[at..].starts_with("//")
        {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Where a path ends: at the next sign that ends a word, unless the whole text is one path, whose
/// folders may have spaces.
fn end_of_path(path: &str, folders: &[String]) -> usize {
    let known = folders
        .iter()
        .filter(|folder| path.starts_with(folder.as_str()))
        .map(String::len)
        .max()
        .unwrap_or(0);
    let signs = [' ', ')', '(', '\'', '"', ']', '>', '`', ',', ';'];
    // A last slash after a space still belongs to a folder with a space in its name.
    let stop = path[known..]
        .find(signs)
        .map_or(path.len(), |at| known + at);
    match path[stop..].starts_with(' ') && path[stop + 1..].contains('/') {
        true => path.rfind('/').map_or(stop, |at| {
            path[at..].find(signs).map_or(path.len(), |end| at + end)
        }),
        false => stop,
    }
}

fn redact_path<'a>(path: &'a str, folders: &[String]) -> &'a str {
    if let Some((at, _)) = path.rmatch_indices("/node_modules/").next() {
        return &path[at + 1..];
    }
    let inside = folders
        .iter()
        .filter_map(|folder| path.strip_prefix(folder.as_str()))
        .min_by_key(|rest| rest.len());
    inside.unwrap_or_else(|| path.rsplit('/').next().unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use nodespy_model::{About, Labels, Notes, ProfileBuilder};

    use super::*;
    use crate::testing::profile_of;

    fn redacted(text: &str) -> String {
        redact_text(text, &["/srv/shop/".to_owned()])
    }

    #[test]
    fn only_paths_of_the_application_are_left() {
        for (text, expected) in [
            ("/srv/shop/lib/cart.js", "lib/cart.js"),
            ("file:///srv/shop/lib/cart.mjs", "lib/cart.mjs"),
            ("/home/ann/code/tool.js", "tool.js"),
            ("/home/ann smith/code/tool.js", "tool.js"),
            (
                "/home/ann/x/node_modules/a/node_modules/b/i.js",
                "node_modules/b/i.js",
            ),
            ("/usr/bin/node", "node"),
            ("node:internal/timers", "node:internal/timers"),
            ("Module._load (/home/ann/a.js:3)", "Module._load (a.js:3)"),
            (
                "/opt/x/libz.so is not used for names: it is another",
                "libz.so is not used for names: it is another",
            ),
            ("operator/ and a / b", "operator/ and a / b"),
            ("", ""),
        ] {
            assert_eq!(redacted(text), expected, "{text}");
        }
    }

    #[test]
    fn command_lines_and_folders_are_gone_and_weights_stay() {
        let mut profile = profile_of("a;b 3\na 2");
        profile.processes[0].command = "node /srv/shop/server.js --token hush".to_owned();
        profile.processes[0]
            .labels
            .set(label_key::FOLDER, "/srv/shop");
        profile.processes[0].labels.set(label_key::CONTAINER, "web");
        profile.notes.remark("/var/cache/x.so can't be opened");
        let mut builder = ProfileBuilder::default();
        let routes = ["GET /users/:id", "POST /users", "GET /users/:id"];
        let route = |route: &str| {
            let mut labels = Labels::default();
            labels.set(label_key::ROUTE, route);
            labels.set(label_key::STATE, "on CPU");
            labels
        };
        for name in routes {
            builder.context(route(name));
        }
        profile.contexts = builder.finish(About::default(), Notes::default()).contexts;
        let clean = redact(profile.clone());
        assert_eq!(clean.total_weight(), profile.total_weight());
        assert_eq!(clean.processes[0].command, "");
        assert_eq!(clean.processes[0].labels.get(label_key::FOLDER), None);
        assert_eq!(
            clean.processes[0].labels.get(label_key::CONTAINER),
            Some("web")
        );
        assert_eq!(clean.notes.remarks, ["x.so can't be opened"]);
        let routes: Vec<_> = clean
            .contexts
            .iter()
            .map(|it| it.get(label_key::ROUTE))
            .collect();
        assert_eq!(routes, [Some("GET (route 1)"), Some("POST (route 2)")]);
    }

    #[test]
    fn what_stores_say_is_told_apart_and_not_told() {
        let mut profile = profile_of("a;b 3\na 2\nc 1");
        let mut builder = ProfileBuilder::default();
        for (sample, tenant) in profile.samples.iter_mut().zip(["acme", "globex", "acme"]) {
            let mut labels = Labels::default();
            labels.set("tenant", tenant);
            labels.set(label_key::TRACE_ID, "4bf92f3577b34da6a3ce929d0e0e4736");
            labels.set(label_key::STATE, "on CPU");
            sample.context = builder.context(labels);
        }
        profile.contexts = builder.finish(About::default(), Notes::default()).contexts;
        let clean = redact(profile);
        let values = |key| -> Vec<_> {
            let samples = clean.samples.iter();
            samples
                .filter_map(|sample| clean.contexts.get(sample.context).get(key))
                .collect()
        };
        assert_eq!(values("tenant"), ["(tenant 1)", "(tenant 2)", "(tenant 1)"]);
        assert_eq!(values(label_key::TRACE_ID), ["(trace_id 1)"; 3]);
        assert_eq!(values(label_key::STATE), ["on CPU"; 3]);
    }
}
