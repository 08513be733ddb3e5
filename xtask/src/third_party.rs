//! `THIRD-PARTY.md`: the licences of what the binary contains, which is shipped with it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::licences::satisfies;
use crate::{Failure, root};

const APACHE: &str = "Apache-2.0";
const FILE: &str = "THIRD-PARTY.md";

/// Texts of C libraries that are compiled into a package, beside its own.
const BUNDLED: [(&str, &str); 1] = [("zstd-sys", "zstd/LICENSE")];

/// Writes the file, or fails where the one in the tree is another.
pub(crate) fn run(metadata: &Value, is_check: bool) -> Result<(), Failure> {
    let text = notices(&contained(metadata)?)?;
    let path = root().join(FILE);
    if !is_check {
        std::fs::write(path, text)?;
        return Ok(());
    }
    match std::fs::read_to_string(path).is_ok_and(|known| known == text) {
        true => Ok(()),
        false => Err(format!(
            "{FILE} is not that of Cargo.lock: cargo run -p xtask -- licences --write"
        )
        .into()),
    }
}

/// A package of others whose code is in the binary.
struct Package<'a> {
    name: &'a str,
    version: &'a str,
    licence: &'a str,
    folder: PathBuf,
}

impl Package<'_> {
    fn title(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    /// Whether it can be had under the Apache licence alone, whose text is there once for all.
    fn is_apache(&self) -> bool {
        satisfies(self.licence, &|licence| licence == APACHE)
    }

    /// The texts that have to go with it.
    fn texts(&self) -> Result<Vec<String>, Failure> {
        let mut files = BTreeSet::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .to_uppercase();
            let is_licence = ["LICENSE", "LICENCE", "COPYING", "UNLICENSE"]
                .iter()
                .any(|start| name.starts_with(start));
            if path.is_file() && (name.starts_with("NOTICE") || is_licence && !self.is_apache()) {
                files.insert(path);
            }
        }
        let bundled = BUNDLED.iter().filter(|(package, _)| *package == self.name);
        files.extend(bundled.map(|(_, file)| self.folder.join(file)));
        if files.is_empty() && !self.is_apache() {
            return Err(format!("{} has no file with its licence", self.title()).into());
        }
        let texts = files.iter().map(std::fs::read_to_string);
        Ok(texts
            .map(|text| text.map(|text| tidy(&text)))
            .collect::<Result<_, _>>()?)
    }
}

/// A text without what differs between copies of the same.
fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// What the binary is linked from: the dependencies of its package that are not for tests, builds or macros.
fn contained(metadata: &Value) -> Result<Vec<Package<'_>>, Failure> {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let packages = metadata["packages"].as_array().ok_or("no packages")?;
    let packages: HashMap<&str, &Value> = packages
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or("no graph")?;
    let nodes: HashMap<&str, &Value> = nodes
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let is_binary = |(_, package): &(&&str, &&Value)| package["name"] == "nodespy";
    let (binary, _) = packages.iter().find(is_binary).ok_or("no nodespy")?;
    let (mut seen, mut next) = (
        BTreeSet::from([(*binary).to_owned()]),
        vec![(*binary).to_owned()],
    );
    while let Some(id) = next.pop() {
        let node = nodes
            .get(id.as_str())
            .ok_or("a package outside of the graph")?;
        for dependency in list(&node["deps"]) {
            let is_linked = list(&dependency["dep_kinds"])
                .iter()
                .any(|kind| kind["kind"].is_null());
            let Some(id) = dependency["pkg"].as_str().filter(|_| is_linked) else {
                continue;
            };
            let is_macro = packages.get(id).is_none_or(|package| {
                list(&package["targets"])
                    .iter()
                    .any(|target| list(&target["kind"]).contains(&"proc-macro".into()))
            });
            if !is_macro && seen.insert(id.to_owned()) {
                next.push(id.to_owned());
            }
        }
    }
    let foreign = seen.iter().filter_map(|id| packages.get(id.as_str()));
    let foreign = foreign.filter(|package| !package["source"].is_null());
    let mut found: Vec<Package> = foreign.filter_map(|package| of_metadata(package)).collect();
    found.sort_by_key(|package| package.title());
    Ok(found)
}

fn of_metadata(package: &Value) -> Option<Package<'_>> {
    Some(Package {
        name: package["name"].as_str()?,
        version: package["version"].as_str()?,
        licence: package["license"].as_str().unwrap_or("none"),
        folder: Path::new(package["manifest_path"].as_str()?)
            .parent()?
            .to_owned(),
    })
}

fn notices(packages: &[Package]) -> Result<String, Failure> {
    let mut text = String::from(
        "# Third-party notices\n\n\
         The binary of nodespy contains the packages below and Rust's standard library (MIT OR Apache-2.0). Those that can be had under the\n\
         Apache License 2.0 are used under it; the texts of the others follow. `cargo run -p xtask -- licences --write` makes this file.\n\n\
         | package | licence |\n|---|---|\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        text += &format!("| {} | {} |\n", package.title(), package.licence);
        for one in package.texts()? {
            texts.entry(one).or_default().push(package.title());
        }
    }
    let apache = std::fs::read_to_string(root().join("LICENSE-APACHE"))?;
    let mut section = |heading: &str, body: &str| {
        text += &format!("\n## {heading}\n```text\n{body}\n```\n");
    };
    section("Apache License 2.0", &tidy(&apache));
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|one, other| one.1.cmp(&other.1));
    for (body, packages) in texts {
        section(&packages.join(", "), &body);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tests_builds_and_macros_are_not_in_the_binary() {
        let package = |name: &str, kind: &str| {
            json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": "registry",
                "manifest_path": format!("/cargo/{name}/Cargo.toml"), "targets": [{ "kind": [kind] }] })
        };
        let depends =
            |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let leaf = |name: &str| json!({ "id": name, "deps": [] });
        let metadata = json!({
            "packages": [
                { "id": "us", "name": "nodespy", "version": "1.0.0", "source": null, "manifest_path": "/us/Cargo.toml" },
                package("linked", "lib"), package("deep", "lib"), package("macros", "proc-macro"),
                package("cc", "lib"), package("proptest", "lib"),
            ],
            "resolve": { "nodes": [
                { "id": "us", "deps": [
                    depends("linked", Value::Null), depends("macros", Value::Null),
                    depends("cc", json!("build")), depends("proptest", json!("dev")),
                ] },
                { "id": "linked", "deps": [depends("deep", Value::Null)] },
                leaf("deep"), leaf("macros"), leaf("cc"), leaf("proptest"),
            ] },
        });
        let names: Vec<String> = contained(&metadata)
            .unwrap()
            .iter()
            .map(Package::title)
            .collect();
        assert_eq!(names, ["deep 1.0.0", "linked 1.0.0"]);
    }
}
