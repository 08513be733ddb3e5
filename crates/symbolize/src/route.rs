//! The route of an HTTP request, as text: the pattern that a framework has matched, else the path without what is only this
//! request's. Query strings never get here.

/// A path has its variable parts replaced by this.
const ANY: &str = "*";
/// A segment that is longer is no word.
const LONGEST_WORD: usize = 24;
/// What follows is one variable part.
const MAX_SEGMENTS: usize = 8;
const LONGEST_METHOD: usize = 16;
const LONGEST_PATTERN: usize = 128;

/// The route of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    pub(crate) method: String,
    /// The path without what is only this request's.
    pub(crate) path: String,
    /// The pattern that has matched it, such as `/users/:id`; none before a framework has found one.
    pub(crate) pattern: Option<String>,
}

impl Route {
    /// The route of a request with this method and address; none where they are no such thing. `is_cut` where the address
    /// goes on.
    pub(crate) fn new(method: &str, url: &str, is_cut: bool) -> Option<Self> {
        let is_method = |byte: u8| byte.is_ascii_uppercase() || byte == b'-' || byte == b'_';
        if method.is_empty() || method.len() > LONGEST_METHOD || !method.bytes().all(is_method) {
            return None;
        }
        Some(Self {
            method: method.to_owned(),
            path: path_of(url, is_cut)?,
            pattern: None,
        })
    }

    /// The same with the pattern that has matched it, below the path that its router is mounted at.
    pub(crate) fn with_pattern(mut self, mount: &str, pattern: &str) -> Self {
        let mount = path_of(mount, false).unwrap_or_default();
        let mount = mount.trim_end_matches('/');
        let pattern = match pattern {
            "/" if !mount.is_empty() => "",
            pattern => pattern,
        };
        let joined: String = mount.chars().chain(pattern.chars()).collect();
        let joined: String = joined.chars().take(LONGEST_PATTERN).collect();
        self.pattern = (!joined.is_empty()).then_some(joined);
        self
    }

    /// As it is shown.
    pub(crate) fn label(&self) -> String {
        let path = self.pattern.as_ref().unwrap_or(&self.path);
        format!("{} {path}", self.method)
    }
}

/// The path of an address, with variable parts replaced; none where it is no path.
fn path_of(url: &str, is_cut: bool) -> Option<String> {
    // A proxy is asked for whole addresses.
    let url = match url.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            rest.find('/').map_or("/", |start| &rest[start..])
        }
        _ => url,
    };
    let end = url.find(['?', '#']);
    let path = &url[..end.unwrap_or(url.len())];
    if path == "*" {
        return Some(path.to_owned());
    }
    let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let last = segments.len() - 1;
    let mut normal = String::new();
    for (position, segment) in segments.into_iter().enumerate() {
        normal.push('/');
        let goes_on = is_cut && end.is_none() && position == last;
        if position == MAX_SEGMENTS || goes_on || is_variable(segment) {
            normal.push_str(ANY);
        } else {
            normal.push_str(segment);
        }
        if position == MAX_SEGMENTS {
            break;
        }
    }
    Some(normal)
}

/// Whether a segment of a path is likely to be this request's alone: a number, a name, a token.
fn is_variable(segment: &str) -> bool {
    let is_version = segment.strip_prefix('v').is_some_and(|number| {
        (1..=2).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let is_of_word =
        |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    !is_version && (segment.len() > LONGEST_WORD || !segment.bytes().all(is_of_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(url: &str) -> Option<String> {
        Route::new("GET", url, false).map(|route| route.path)
    }

    #[test]
    fn what_is_only_this_requests_is_left_out() {
        for (url, expected) in [
            ("/", "/"),
            ("/users/7", "/users/*"),
            ("/api/v2/users/7/orders", "/api/v2/users/*/orders"),
            ("/search?q=secret", "/search"),
            ("/search#secret", "/search"),
            ("/u/ada@example.org", "/u/*"),
            ("/u/caf%C3%A9", "/u/*"),
            ("/f/3f2504e0-4f89-11d3-9a0c-0305e82c3301", "/f/*"),
            ("/t/abcdefghijklmnopqrstuvwxyz", "/t/*"),
            ("/a/b/c/d/e/f/g/h/i/j/k", "/a/b/c/d/e/f/g/h/*"),
            ("http://host:80/users/7?x", "/users/*"),
            ("http://host", "/"),
            ("/well-known/app.js", "/well-known/app.js"),
            ("*", "*"),
        ] {
            assert_eq!(path(url).as_deref(), Some(expected), "{url}");
        }
        for url in ["", "users", "?q", "\u{0}"] {
            assert_eq!(path(url), None, "{url}");
        }
    }

    #[test]
    fn the_end_of_an_address_that_was_cut_is_not_shown() {
        let cut = |url: &str| Route::new("GET", url, true).unwrap().path;
        assert_eq!(cut("/users/sec"), "/users/*");
        assert_eq!(cut("/users/all?na"), "/users/all");
    }

    #[test]
    fn a_pattern_follows_the_path_of_its_router() {
        let pattern = |mount: &str, pattern: &str| {
            let route = Route::new("GET", "/api/users/7", false).unwrap();
            route.with_pattern(mount, pattern).label()
        };
        assert_eq!(pattern("", "/users/:id"), "GET /users/:id");
        assert_eq!(pattern("/api/7", "/users/:id"), "GET /api/*/users/:id");
        assert_eq!(pattern("/api", "/"), "GET /api");
        assert_eq!(pattern("", "/"), "GET /");
        assert_eq!(pattern("", ""), "GET /api/users/*");
    }

    #[test]
    fn a_method_is_a_word_in_capitals() {
        for method in ["", "get", "G\n", "ABCDEFGHIJKLMNOPQ"] {
            assert_eq!(Route::new(method, "/", false), None, "{method}");
        }
    }
}
