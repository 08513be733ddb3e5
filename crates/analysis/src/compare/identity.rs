//! What makes a function of one recording the same as one of another: its name and its file, the file without what
//! differs between two installs of one program. Lines only tell apart functions of one name in one file.

use nodespy_model::{Category, FastMap};

use super::run::{FunctionCost, RunCosts};

/// A function's name and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId {
    /// Its name.
    pub name: String,
    /// Its file, without the folder of the program, versions and hashes; empty when not known.
    pub file: String,
    /// Which of several functions of that name in that file it is, in the order of their lines.
    pub ordinal: u32,
}

/// The file of a function as it is in every install of the program. `root` is the program's folder.
pub(super) fn stable_file(function: &FunctionCost, root: &str) -> String {
    match function.category {
        Category::App | Category::Dependency | Category::Wasm => script(&function.file, root),
        // Libraries are known by their names: their folders and the numbers behind them differ.
        _ => library(&function.file),
    }
}

fn script(file: &str, root: &str) -> String {
    let file = file.strip_prefix("file://").unwrap_or(file);
    let inner = match file.rfind("node_modules/") {
        Some(start) => &file[start + "node_modules/".len()..],
        None => file.strip_prefix(root).unwrap_or(file),
    };
    let parts: Vec<String> = inner.split('/').map(without_hash).collect();
    parts.join("/")
}

fn library(file: &str) -> String {
    let (_, name) = file.rsplit_once('/').unwrap_or(("", file));
    match name.find(".so.") {
        Some(start) => name[..start + ".so".len()].to_owned(),
        None => name.to_owned(),
    }
}

/// `main.3f2a9c1b.js` is `main.*.js`: bundlers put a hash of the content into the name.
fn without_hash(part: &str) -> String {
    let is_hash = |word: &str| {
        word.len() >= 8
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && word.bytes().any(|byte| byte.is_ascii_digit())
            && !word.bytes().all(|byte| byte.is_ascii_digit())
    };
    let Some((stem, extension)) = part.rsplit_once('.') else {
        return part.to_owned();
    };
    match stem.rfind(['.', '-']) {
        Some(start) if is_hash(&stem[start + 1..]) => format!("{}*.{extension}", &stem[..=start]),
        _ => part.to_owned(),
    }
}

/// What the functions of each run spend themselves, by their names and files as they are in every install. The runs are of one.
pub fn own_weights(runs: &[RunCosts]) -> Vec<FastMap<(String, String), u64>> {
    let root = program_root(runs);
    let of_run = |run: &RunCosts| {
        let mut weights = FastMap::default();
        for function in &run.functions {
            let key = (function.name.clone(), stable_file(function, &root));
            let weight: &mut u64 = weights.entry(key).or_default();
            *weight = weight.saturating_add(function.own);
        }
        weights
    };
    runs.iter().map(of_run).collect()
}

/// The folder that all of the application's own files lie in, with its last slash.
pub(super) fn program_root(runs: &[RunCosts]) -> String {
    let mut root: Option<String> = None;
    for function in runs.iter().flat_map(|run| &run.functions) {
        if function.category != Category::App || !function.file.contains('/') {
            continue;
        }
        let file = function.file.as_str();
        let file = file.strip_prefix("file://").unwrap_or(file);
        let folder = &file[..=file.rfind('/').unwrap_or(0)];
        root = Some(match root {
            None => folder.to_owned(),
            Some(root) => common_folder(&root, folder).to_owned(),
        });
    }
    root.unwrap_or_default()
}

fn common_folder<'a>(left: &'a str, right: &str) -> &'a str {
    let bytes = left.bytes().zip(right.bytes());
    let common = bytes.take_while(|(left, right)| left == right).count();
    // Cut after a slash, which is a character of its own in every encoding of a path.
    left.as_bytes()[..common]
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or("", |slash| &left[..=slash])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_the_same_wherever_it_is_installed() {
        for (file, expected) in [
            ("/srv/a/lib/hash.js", "lib/hash.js"),
            ("file:///srv/a/lib/hash.mjs", "lib/hash.mjs"),
            (
                "/srv/a/node_modules/.pnpm/x@1.2.3/node_modules/x/i.js",
                "x/i.js",
            ),
            ("/elsewhere/node_modules/@a/b/i.js", "@a/b/i.js"),
            ("/srv/a/dist/main.3f2a9c1b.js", "dist/main.*.js"),
            ("/srv/a/assets/index-DiwrgTda1.js", "assets/index-*.js"),
            ("/srv/a/lib/web-animations.js", "lib/web-animations.js"),
            ("/srv/a/lib/report-20261116.js", "lib/report-20261116.js"),
            ("node:internal/timers", "node:internal/timers"),
        ] {
            assert_eq!(script(file, "/srv/a/"), expected);
        }
    }

    #[test]
    fn a_library_has_no_folder_and_no_version() {
        assert_eq!(library("/usr/lib/x86_64/libc.so.6"), "libc.so");
        assert_eq!(library("/opt/node/bin/node"), "node");
        assert_eq!(library("[kernel]"), "[kernel]");
    }

    #[test]
    fn files_have_the_folder_in_common_that_ends_before_they_differ() {
        assert_eq!(
            common_folder("/srv/app/lib/", "/srv/app/lint/"),
            "/srv/app/"
        );
        assert_eq!(common_folder("/srv/é/", "/srv/è/"), "/srv/");
        assert_eq!(common_folder("a/", "b/"), "");
    }
}
