//! Who may ask: pages of this machine, or whoever has the token.

use std::net::SocketAddr;

use sha2::{Digest, Sha256};

use nodespy_http::Head;

/// The cookie that holds the token in a browser.
const COOKIE: &str = "nodespy-token";
/// The shortest token that is taken: one that can be guessed is none.
const MIN_TOKEN_BYTES: usize = 16;

/// A secret that a request has to have.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token")
    }
}

impl Token {
    /// The token of a file: its first line.
    pub fn of_text(text: &str) -> Result<Self, &'static str> {
        let token = text.lines().next().unwrap_or_default().trim();
        let is_plain = token
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
        match (token.len() >= MIN_TOKEN_BYTES, is_plain) {
            (false, _) => Err("a token has at least 16 letters or digits: openssl rand -hex 16"),
            (_, false) => Err("a token has letters, digits and -_.~ only: openssl rand -hex 16"),
            (true, true) => Ok(Self(token.to_owned())),
        }
    }

    /// What to send to a server that asks for it.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Compared by hash, so that the time it takes says nothing of the token.
    fn is(&self, given: &str) -> bool {
        Sha256::digest(&self.0) == Sha256::digest(given)
    }
}

/// Which requests are answered.
#[derive(Debug, Clone)]
pub struct Access {
    address: SocketAddr,
    transport: Transport,
    token: Option<Token>,
    write_token: Option<Token>,
}

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// In the clear.
    Plain,
    /// In the clear, from a proxy that others reach by TLS.
    BehindProxy,
    /// By TLS.
    Tls,
}

/// How a request is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Granted,
    /// The token came in the address: the browser is to keep it and ask again without.
    GrantedByAddress,
}

/// What says who asks, in the order in which it counts: what somebody has just typed or sent, before what a browser kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    Address,
    Bearer,
    Cookie,
    /// That it comes from this machine, where no token is asked for.
    Machine,
}

impl Proof {
    pub(crate) const ALL: [Self; 4] = [Self::Address, Self::Bearer, Self::Cookie, Self::Machine];

    pub(crate) fn admission(self) -> Admission {
        match self {
            Self::Address => Admission::GrantedByAddress,
            Self::Bearer | Self::Cookie | Self::Machine => Admission::Granted,
        }
    }
}

impl Access {
    /// For a server at an address. Without a token, or in the clear, that has to be one of this machine.
    pub fn new(
        address: SocketAddr,
        transport: Transport,
        token: Option<Token>,
    ) -> Result<Self, String> {
        if token.is_none() && !address.ip().is_loopback() {
            return Err(format!(
                "{address} can be reached from other machines: give a --token-file, or listen on 127.0.0.1"
            ));
        }
        if transport == Transport::Plain && !address.ip().is_loopback() {
            return Err(format!(
                "{address} can be reached from other machines, and tokens would travel in the clear: give --tls-cert and --tls-key, \
                 or --behind-proxy where a proxy with TLS is before it"
            ));
        }
        Ok(Self {
            address,
            transport,
            token,
            write_token: None,
        })
    }

    /// The same for a server that takes windows. Without a token for that its address has to be one of this machine.
    pub fn taking_windows(mut self, write_token: Option<Token>) -> Result<Self, String> {
        if write_token.is_none() && !self.address.ip().is_loopback() {
            return Err(format!(
                "{} can be reached from other machines: give a --write-token-file for what they send",
                self.address
            ));
        }
        self.write_token = write_token;
        Ok(self)
    }

    /// Why a request may not write, if it may not. The token to read is none to write, and the other way around.
    pub(crate) fn refuses_writing(&self, head: &Head) -> Option<&'static str> {
        let Some(token) = &self.write_token else {
            let is_ours = self.is_of_this_machine(head);
            return (!is_ours).then_some("not for this host");
        };
        match bearer(head).is_some_and(|given| token.is(given)) {
            true => None,
            false => Some("the token to write is missing or wrong: Authorization: Bearer …"),
        }
    }

    /// Whether a request may ask by this; `given` is the token in its address.
    pub(crate) fn accepts(&self, proof: Proof, head: &Head, given: Option<&str>) -> bool {
        let Some(token) = &self.token else {
            return proof == Proof::Machine && self.is_of_this_machine(head);
        };
        let given = match proof {
            Proof::Address => given,
            Proof::Bearer => bearer(head),
            Proof::Cookie => cookie_of(head),
            Proof::Machine => None,
        };
        given.is_some_and(|given| token.is(given))
    }

    /// Why a request may not ask that proves nothing.
    pub(crate) fn refusal(&self) -> &'static str {
        match self.token {
            None => "not for this host",
            Some(_) => "the token is missing or wrong: /?token=… or Authorization: Bearer …",
        }
    }

    /// The header with which a browser keeps the token.
    pub(crate) fn cookie(&self) -> Option<String> {
        let token = self.token.as_ref()?;
        let secure = match self.transport {
            Transport::Plain => "",
            Transport::BehindProxy | Transport::Tls => " Secure;",
        };
        Some(format!(
            "Set-Cookie: {COOKIE}={}; HttpOnly;{secure} SameSite=Strict; Path=/",
            token.0
        ))
    }

    /// Whether a browser that sends this means us, and not a name that was made to point here.
    fn is_of_this_machine(&self, head: &Head) -> bool {
        let port = self.address.port();
        let names = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
        let is_ours = |host: &str| names.iter().any(|name| host.eq_ignore_ascii_case(name));
        let scheme = match self.transport {
            Transport::Tls => "https://",
            Transport::Plain | Transport::BehindProxy => "http://",
        };
        let origin = head.origin.as_deref();
        head.host.as_deref().is_some_and(is_ours)
            && origin.is_none_or(|origin| origin.strip_prefix(scheme).is_some_and(is_ours))
    }
}

/// The token that a browser kept.
fn cookie_of(head: &Head) -> Option<&str> {
    let cookies = head.cookie.as_deref()?.split(';');
    let mut cookies = cookies.filter_map(|cookie| cookie.trim().split_once('='));
    let (_, given) = cookies.find(|(name, _)| *name == COOKIE)?;
    Some(given)
}

fn bearer(head: &Head) -> Option<&str> {
    head.authorization.as_deref()?.strip_prefix("Bearer ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_read_may_not_write_and_the_other_way_around() {
        let token = |text: &str| Some(Token::of_text(text).unwrap());
        let everywhere = "0.0.0.0:4600".parse().unwrap();
        let reading =
            Access::new(everywhere, Transport::Tls, token("reads-0123456789abcdef")).unwrap();
        assert!(reading.clone().taking_windows(None).is_err());
        let access = reading.taking_windows(token("writes-0123456789abcdef"));
        let access = access.unwrap();
        let with = |text: &str| Head {
            authorization: Some(format!("Bearer {text}")),
            ..Head::default()
        };
        let (reads, writes) = (
            with("reads-0123456789abcdef"),
            with("writes-0123456789abcdef"),
        );
        assert!(access.refuses_writing(&reads).is_some());
        assert!(access.refuses_writing(&writes).is_none());
        assert!(access.accepts(Proof::Bearer, &reads, None));
        assert!(!access.accepts(Proof::Bearer, &writes, None));
        // Pages of other sites don't write to a server of this machine.
        let local = Access::new(local(), Transport::Plain, None).unwrap();
        let local = local.taking_windows(None).unwrap();
        let mut head = Head {
            host: Some("127.0.0.1:4600".to_owned()),
            ..Head::default()
        };
        assert!(local.refuses_writing(&head).is_none());
        head.origin = Some("http://evil.example".to_owned());
        assert!(local.refuses_writing(&head).is_some());
    }

    fn local() -> SocketAddr {
        "127.0.0.1:4600".parse().unwrap()
    }

    #[test]
    fn without_a_token_only_this_machine_is_answered() {
        let everywhere = "0.0.0.0:4600".parse().unwrap();
        assert!(Access::new(everywhere, Transport::Tls, None).is_err());
        let access = Access::new(local(), Transport::Plain, None).unwrap();
        let asked = |host: &str, origin: Option<&str>| {
            let head = Head {
                host: Some(host.to_owned()),
                origin: origin.map(str::to_owned),
                ..Head::default()
            };
            access.accepts(Proof::Machine, &head, None)
        };
        assert!(asked("localhost:4600", None));
        assert!(asked("127.0.0.1:4600", Some("http://127.0.0.1:4600")));
        assert!(!asked("evil.example:4600", None));
        assert!(!asked("127.0.0.1:4600", Some("http://evil.example")));
        assert!(!access.accepts(Proof::Machine, &Head::default(), None));
    }

    #[test]
    fn with_a_token_it_has_to_be_there() {
        let secret = "0123456789abcdef";
        let token = Token::of_text(&format!("{secret}\n")).unwrap();
        let everywhere = "0.0.0.0:4600".parse().unwrap();
        let of = |transport| Access::new(everywhere, transport, Some(token.clone()));
        // It would travel in the clear.
        assert!(of(Transport::Plain).unwrap_err().contains("--tls-cert"));
        assert!(of(Transport::BehindProxy).is_ok());
        let access = of(Transport::Tls).unwrap();
        assert!(access.cookie().unwrap().contains("Secure"));
        let with = |authorization: Option<&str>, cookie: Option<&str>| {
            let head = Head {
                authorization: authorization.map(str::to_owned),
                cookie: cookie.map(str::to_owned),
                ..Head::default()
            };
            Proof::ALL
                .iter()
                .any(|proof| access.accepts(*proof, &head, None))
        };
        assert!(with(Some("Bearer 0123456789abcdef"), None));
        assert!(with(None, Some("a=b; nodespy-token=0123456789abcdef")));
        assert!(!with(Some("Bearer 0123456789abcdeF"), None));
        assert!(!with(None, Some("nodespy-token=")));
        assert!(!with(None, None));
        assert!(access.accepts(Proof::Address, &Head::default(), Some(secret)));
        assert!(Token::of_text("short").is_err());
        assert!(Token::of_text("0123456789abcdef;x").is_err());
    }
}
