//! A client: one request, one reply, each bounded in bytes and time.
//!
//! Redirects are not followed and proxies not asked: a token goes to the server it was given for. Certificates are judged
//! by those that the system trusts, or by the ones of a file.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ureq::http::Response;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Body, RequestBuilder};

/// Where distributions keep the certificates they trust: Debian, Fedora, Alpine and SUSE.
const SYSTEM_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// From the first byte of a request to the last of its reply.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest reply that is read, where no other limit is given.
const MAX_REPLY_BYTES: u64 = 4 << 20;

/// Why nothing was replied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The address is none.
    #[error("{0:?} is no address of a server: http://HOST:PORT or https://HOST")]
    Address(String),
    /// Certificates can't be read.
    #[error("cannot read certificates from {path}")]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There are none.
    #[error("no certificates to judge {0} by: give a file of them")]
    NoCertificates(String),
    /// The server was not reached, or did not answer.
    #[error("{0}")]
    Transport(Box<ureq::Error>),
    /// The reply is too long.
    #[error("a reply of more than {0} bytes")]
    TooLong(u64),
}

/// How a server is spoken to.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// What proves who asks: `Authorization: Bearer …`.
    pub token: Option<String>,
    /// Certificates in place of those that the system trusts, as PEM.
    pub ca_file: Option<PathBuf>,
    /// How long a request and its reply may take together, if not a minute.
    pub timeout: Option<Duration>,
}

/// A server that is asked.
#[derive(Debug, Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    authorization: Option<String>,
    max_reply_bytes: u64,
}

/// What a server replied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// The code of its status.
    pub status: u16,
    /// How long it wants to be left alone.
    pub retry_after: Option<Duration>,
    /// Its headers that are text, names in lower case.
    pub headers: Vec<(String, String)>,
    /// What it holds.
    pub body: Vec<u8>,
}

impl Client {
    /// A client of a server, known by its address: `http://127.0.0.1:4600`, with a path before all others where it has one.
    pub fn new(base: &str, options: &ClientOptions) -> Result<Self, ClientError> {
        let scheme = base.split_once("://").map(|(scheme, _)| scheme);
        let roots = match scheme {
            Some("https") => certificates(base, options.ca_file.as_deref())?,
            _ => Vec::new(),
        };
        let uri: Option<ureq::http::Uri> = base.parse().ok();
        let is_plain = uri.is_some_and(|uri| {
            let authority = uri.authority().map_or("", |it| it.as_str());
            !authority.is_empty() && !authority.contains('@') && uri.query().is_none()
        });
        if !matches!(scheme, Some("http" | "https")) || !is_plain {
            return Err(ClientError::Address(base.to_owned()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(provider)
            .build();
        let timeout = options.timeout.unwrap_or(WHOLE_TIMEOUT);
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("nodespy/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT.min(timeout)))
            .timeout_global(Some(timeout))
            // Servers of nodespy answer one request a connection.
            .max_idle_connections(0)
            .build();
        Ok(Self {
            agent: config.new_agent(),
            base: base.trim_end_matches('/').to_owned(),
            authorization: options.token.as_ref().map(|it| format!("Bearer {it}")),
            max_reply_bytes: MAX_REPLY_BYTES,
        })
    }

    /// The same for a server whose replies may be longer, or shorter.
    pub fn with_max_reply(mut self, bytes: u64) -> Self {
        self.max_reply_bytes = bytes;
        self
    }

    /// Where it asks.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Sends a body to a path of the server, `/ingest?name=shop`, and waits for the reply.
    pub fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Reply, ClientError> {
        let request = self.agent.post(format!("{}{path}", self.base));
        let sent = self.with_headers(request, headers).send(body);
        self.reply_of(sent.map_err(transport)?)
    }

    /// Asks for a path of the server, `/metrics`, and waits for the reply.
    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<Reply, ClientError> {
        let request = self.agent.get(format!("{}{path}", self.base));
        let sent = self.with_headers(request, headers).call();
        self.reply_of(sent.map_err(transport)?)
    }

    fn with_headers<B>(
        &self,
        mut request: RequestBuilder<B>,
        headers: &[(&str, &str)],
    ) -> RequestBuilder<B> {
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        match &self.authorization {
            Some(authorization) => request.header("Authorization", authorization),
            None => request,
        }
    }

    fn reply_of(&self, mut response: Response<Body>) -> Result<Reply, ClientError> {
        let retry_after = response.headers().get("retry-after");
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        let headers = response.headers().iter();
        let headers = headers
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
            .collect();
        let mut body = Vec::new();
        let reader = response.body_mut().as_reader();
        let read = reader.take(self.max_reply_bytes + 1).read_to_end(&mut body);
        read.map_err(|error| transport(ureq::Error::Io(error)))?;
        if body.len() as u64 > self.max_reply_bytes {
            return Err(ClientError::TooLong(self.max_reply_bytes));
        }
        Ok(Reply {
            status: response.status().as_u16(),
            retry_after: retry_after.map(Duration::from_secs),
            headers,
            body,
        })
    }
}

fn transport(error: ureq::Error) -> ClientError {
    ClientError::Transport(Box::new(error))
}

impl Reply {
    /// Whether it is one of success.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first line of its text, for people.
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let line = text.lines().next().unwrap_or_default();
        let line: String = line.chars().take(200).collect();
        format!("{} {line}", self.status).trim_end().to_owned()
    }
}

fn certificates(
    base: &str,
    given: Option<&Path>,
) -> Result<Vec<Certificate<'static>>, ClientError> {
    let system = SYSTEM_CERTIFICATES
        .iter()
        .map(Path::new)
        .find(|it| it.exists());
    let path = given.or(system);
    let path = path.ok_or_else(|| ClientError::NoCertificates(base.to_owned()))?;
    let text = std::fs::read(path).map_err(|source| ClientError::Certificates {
        path: path.to_owned(),
        source,
    })?;
    let found: Vec<_> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    match found.is_empty() {
        true => Err(ClientError::NoCertificates(base.to_owned())),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_where_to_and_nothing_else() {
        let is_taken = |base| Client::new(base, &ClientOptions::default()).is_ok();
        assert!(is_taken("http://127.0.0.1:4600"));
        assert!(is_taken("http://profiles.internal/below/"));
        for wrong in [
            "127.0.0.1:4600",
            "ftp://a",
            "http://",
            "http://me:secret@host",
            "http://host?x=1",
            "http://a b",
        ] {
            assert!(!is_taken(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_reply_is_shown_in_a_line() {
        let reply = Reply {
            status: 422,
            body: b"too many series\nmore".to_vec(),
            ..Reply::default()
        };
        assert_eq!(reply.text(), "422 too many series");
        assert!(!reply.is_ok());
    }
}
