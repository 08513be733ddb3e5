//! The addresses in and around source maps: where a script says its map is, and where a map says
//! its sources are.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use data_encoding::{Encoding, Specification};
use nodespy_model::percent_decoded;

/// Where the map of a script is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MapPlace {
    /// In the address itself.
    Inline(Vec<u8>),
    /// In a file.
    File(PathBuf),
    /// Nowhere that is looked at, for this reason.
    Elsewhere(&'static str),
}

/// What the last `//# sourceMappingURL=` comment of a script says. Only comments and blank lines may
/// follow it: the words may stand in a string of the program, too.
pub(super) fn map_url_in(script: &str) -> Option<&str> {
    for line in script.trim_end().rsplit(['\n', '\r']) {
        let line = line.trim();
        let comment = line
            .strip_prefix("//")
            .or_else(|| line.strip_prefix("/*")?.strip_suffix("*/"));
        match comment {
            None if line.is_empty() => {}
            // Minified code may have it at the end of its only line.
            None => {
                return line
                    .rsplit_once("//")
                    .and_then(|(_, rest)| url_of_comment(rest));
            }
            Some(comment) => {
                if let Some(url) = url_of_comment(comment) {
                    return Some(url);
                }
            }
        }
    }
    None
}

fn url_of_comment(comment: &str) -> Option<&str> {
    let rest = comment.strip_prefix(['#', '@'])?;
    let url = rest.trim_start().strip_prefix("sourceMappingURL=")?.trim();
    let is_one = !url.is_empty() && !url.contains([' ', '"', '\'', '`', '\t']);
    is_one.then_some(url)
}

/// Where the map of `script` is by the address it has for it.
pub(super) fn place_of_map(url: &str, script: &Path) -> MapPlace {
    if let Some(rest) = url.strip_prefix("data:") {
        return match inline(rest) {
            Some(bytes) => MapPlace::Inline(bytes),
            None => MapPlace::Elsewhere("the text in its comment is not base64"),
        };
    }
    if let Some(path) = url.strip_prefix("file://") {
        return MapPlace::File(PathBuf::from(&*percent_decoded(path)));
    }
    if has_scheme(url) {
        return MapPlace::Elsewhere("it is behind an address, and nodespy fetches nothing");
    }
    let url = url.split(['?', '#']).next().unwrap_or(url);
    let folder = script.parent().unwrap_or(Path::new("/"));
    let joined = folder.join(&*percent_decoded(url));
    MapPlace::File(PathBuf::from(without_dots(&joined.to_string_lossy())))
}

/// The bytes of a `data:` address after that word.
fn inline(rest: &str) -> Option<Vec<u8>> {
    let (kind, content) = rest.split_once(',')?;
    match kind.ends_with(";base64") {
        true => from_base64(&percent_decoded(content)),
        false => Some(percent_decoded(content).into_owned().into_bytes()),
    }
}

/// Base64 as bundlers write it: either alphabet, with or without padding and line ends.
static INLINE_BASE64: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification
        .symbols
        .push_str("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    specification.translate.from.push_str("-_");
    specification.translate.to.push_str("+/");
    specification.ignore.push_str("=\r\n ");
    specification.check_trailing_bits = false;
    specification.encoding().expect("64 distinct symbols")
});

fn from_base64(text: &str) -> Option<Vec<u8>> {
    INLINE_BASE64.decode(text.as_bytes()).ok()
}

/// The file of a source as functions are to name it. `folder` is that of the map.
pub(super) fn file_of_source(root: &str, name: &str, folder: &Path) -> String {
    let name = name.replace('\\', "/");
    let is_whole = has_scheme(&name) || name.starts_with('/');
    let address = match root.trim_end_matches('/') {
        "" if root.starts_with('/') && !is_whole => format!("/{name}"),
        root if root.is_empty() || is_whole => name,
        root => format!("{root}/{name}"),
    };
    if let Some(path) = address.strip_prefix("file://") {
        return without_dots(&percent_decoded(path));
    }
    if let Some((scheme, rest)) = address.split_once("://") {
        // `webpack://shop/./src/cart.ts`: what stands before the first slash is a name of its own.
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = without_dots(&format!("/{path}"));
        return format!("{scheme}://{authority}{path}");
    }
    match has_scheme(&address) || address.starts_with('/') {
        true if address.starts_with('/') => without_dots(&address),
        true => address,
        false => without_dots(&format!("{}/{address}", folder.display())),
    }
}

/// Whether an address starts with `word:`. One letter is a drive.
fn has_scheme(address: &str) -> bool {
    address.split_once(':').is_some_and(|(scheme, _)| {
        scheme.len() > 1
            && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|each| each.is_ascii_alphanumeric() || "+-.".contains(each))
    })
}

/// A path without `.` and `..`, which never leads above its start.
fn without_dots(path: &str) -> String {
    let is_whole = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if is_whole => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if is_whole {
        format!("/{joined}")
    } else {
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_comment_of_a_script_tells_where_its_map_is() {
        for (script, expected) in [
            ("a();\n//# sourceMappingURL=a.js.map\n", Some("a.js.map")),
            ("a();\n//@ sourceMappingURL=old.map", Some("old.map")),
            ("a();//# sourceMappingURL=min.js.map\n", Some("min.js.map")),
            (
                "a()\n/*# sourceMappingURL=a.css.map */\n",
                Some("a.css.map"),
            ),
            (
                "//# sourceMappingURL=first\n//# sourceMappingURL=last\r\n\r\n// end\n",
                Some("last"),
            ),
            ("//# sourceMappingURL=first\na();\n", None),
            ("s = '//# sourceMappingURL=';\n", None),
            ("s = \"\\n//# sourceMappingURL=\" + x;\n", None),
            ("//# sourceMappingURL=\n", None),
            ("", None),
        ] {
            assert_eq!(map_url_in(script), expected, "{script:?}");
        }
    }

    #[test]
    fn maps_are_beside_the_script_or_in_the_address() {
        let place = |url| place_of_map(url, Path::new("/app/dist/a.js"));
        let file = |path: &str| MapPlace::File(PathBuf::from(path));
        assert_eq!(place("a.js.map"), file("/app/dist/a.js.map"));
        assert_eq!(place("../maps/a%20b.map?v=1"), file("/app/maps/a b.map"));
        assert_eq!(place("/maps/a.map"), file("/maps/a.map"));
        assert_eq!(place("../../../../etc/x"), file("/etc/x"));
        assert_eq!(place("file:///x/a.map"), file("/x/a.map"));
        let inline = || MapPlace::Inline(b"{}".to_vec());
        assert_eq!(place("data:application/json;base64,e30="), inline());
        assert_eq!(
            place("data:application/json;charset=utf-8;base64,e30="),
            inline()
        );
        assert_eq!(place("data:application/json,%7B%7D"), inline());
        assert!(matches!(place("data:x;base64,*"), MapPlace::Elsewhere(_)));
        assert!(matches!(place("https://x/a.map"), MapPlace::Elsewhere(_)));
    }

    #[test]
    fn sources_are_named_as_one_would_look_for_them() {
        let file = |root, name| file_of_source(root, name, Path::new("/app/dist"));
        for (root, name, expected) in [
            ("", "../src/cart.ts", "/app/src/cart.ts"),
            ("", "cart.ts", "/app/dist/cart.ts"),
            ("../src", "cart.ts", "/app/src/cart.ts"),
            ("/srv/src/", "cart.ts", "/srv/src/cart.ts"),
            ("/", "cart.ts", "/cart.ts"),
            ("/srv", "/other/cart.ts", "/other/cart.ts"),
            (
                "",
                "webpack://shop/./src/cart.ts",
                "webpack://shop/src/cart.ts",
            ),
            ("", "webpack:///./src/cart.ts", "webpack:///src/cart.ts"),
            (
                "webpack://shop",
                "./src/../cart.ts",
                "webpack://shop/cart.ts",
            ),
            ("", "file:///srv/a%20b.ts", "/srv/a b.ts"),
            ("", "https://x.org/a/../b.ts", "https://x.org/b.ts"),
            ("", "node:fs", "node:fs"),
            ("", "..\\src\\cart.ts", "/app/src/cart.ts"),
            ("", "../../../../../x.ts", "/x.ts"),
        ] {
            assert_eq!(file(root, name), expected, "{root} {name}");
        }
    }

    #[test]
    fn base64_is_read_with_both_alphabets_and_without_padding() {
        assert_eq!(from_base64("e30=").as_deref(), Some(&b"{}"[..]));
        assert_eq!(from_base64("e30").as_deref(), Some(&b"{}"[..]));
        assert_eq!(from_base64("_-8"), from_base64("/+8="));
        assert_eq!(from_base64("e3*0"), None);
    }
}
