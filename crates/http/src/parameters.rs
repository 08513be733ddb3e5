//! The query of a request: `?service=shop&from=-1h`.

/// How many parameters a request can have.
const MAX_PARAMETERS: usize = 64;

/// What stands after the `?` of a request, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Path and parameters of the target of a request.
    pub fn split(target: &str) -> (&str, Self) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.take(MAX_PARAMETERS).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(value))
        });
        (path, Self(pairs.collect()))
    }

    /// The first value of a parameter; an empty one is none.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.all(key).next()
    }

    /// Every value of a parameter that is not empty.
    pub fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        let matching = self.0.iter().filter(move |(known, _)| known == key);
        matching
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Every parameter whose name starts so, by the rest of it.
    pub fn below<'a>(&'a self, prefix: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pairs = self.0.iter().filter(|(_, value)| !value.is_empty());
        pairs.filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, value.as_str())))
    }
}

/// `a%20b` and `a+b` are `a b`; what is no such code stays as it is, what is no text becomes `\u{fffd}`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|byte| (*byte as char).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
                continue;
            }
            (b'+', _, _) => bytes.push(b' '),
            (byte, _, _) => bytes.push(byte),
        }
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A text as a value in the query of an address.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            true => encoded.push(byte as char),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let (path, parameters) =
            Parameters::split("/a?x=1%202&x=&x=z&label.env=p%C3%A4&odd=%4&b+c=%zz");
        assert_eq!(path, "/a");
        assert_eq!(parameters.all("x").collect::<Vec<_>>(), ["1 2", "z"]);
        assert_eq!(parameters.below("label.").next(), Some(("env", "pä")));
        assert_eq!(parameters.get("odd"), Some("%4"));
        assert_eq!(parameters.get("b c"), Some("%zz"));
        assert_eq!(parameters.get("y"), None);
        assert_eq!(percent_encoded("a b{ü}"), "a%20b%7B%C3%BC%7D");
        assert_eq!(Parameters::split("/"), ("/", Parameters::default()));
    }
}
