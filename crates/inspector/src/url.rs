//! The address of an inspector, as people paste it.

use crate::InspectorError;

/// `ws://HOST:PORT[/ID]`; what Node prints, or only where it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectorUrl {
    /// A name or a number.
    pub host: String,
    /// The port.
    pub port: u16,
    /// `/ID`, when the address has it; otherwise the inspector's list gives it.
    pub path: Option<String>,
}

impl InspectorUrl {
    /// Reads `ws://HOST:PORT[/ID]`; `http://` will do as well.
    pub fn parse(text: &str) -> Result<Self, InspectorError> {
        let wrong = |what: &str| InspectorError::BadAddress {
            address: text.chars().take(200).collect(),
            what: what.to_owned(),
        };
        let rest = text
            .strip_prefix("ws://")
            .or_else(|| text.strip_prefix("http://"))
            .ok_or_else(|| wrong("it must start with ws://"))?;
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let (host, port) = authority
            .rsplit_once(':')
            .ok_or_else(|| wrong("it has no port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || !is_plain(host) || !is_plain(path) {
            return Err(wrong(
                "it has no host, or characters not allowed in an address",
            ));
        }
        Ok(Self {
            host: host.to_owned(),
            port: port
                .parse()
                .map_err(|_| wrong("its port is not a number"))?,
            path: (path.len() > 1 && !path.starts_with("/json")).then(|| path.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_node_prints_and_what_people_type_is_understood() {
        let url = InspectorUrl::parse("ws://127.0.0.1:9229/0f2c-11").unwrap();
        assert_eq!((url.host.as_str(), url.port), ("127.0.0.1", 9229));
        assert_eq!(url.path.as_deref(), Some("/0f2c-11"));
        let url = InspectorUrl::parse("ws://[::1]:80").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path), ("::1", 80, None));
        assert_eq!(
            InspectorUrl::parse("http://a:1/json/list").unwrap().path,
            None
        );
        for wrong in [
            "",
            "9229",
            "ws://",
            "ws://a",
            "ws://:1",
            "ws://a:b",
            "ws://a:99999",
            "wss://a:1",
        ] {
            assert!(InspectorUrl::parse(wrong).is_err(), "{wrong}");
        }
    }
}
