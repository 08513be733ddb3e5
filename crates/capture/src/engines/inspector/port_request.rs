//! Where a process will open its inspector when it is asked to, by its own flags.

use std::net::IpAddr;

use crate::target::node_flags;

/// Node's default.
const DEFAULT_PORT: u16 = 9229;

/// Where an inspector will listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PortRequest {
    /// A name or an address, when a flag gives it.
    pub(super) host: Option<String>,
    /// 0 for any free port.
    pub(super) port: u16,
}

impl PortRequest {
    /// What the command line and `NODE_OPTIONS` of a process say. What the application sets while
    /// it runs (`process.debugPort`) is not seen.
    pub(super) fn by_flags(pid: u32) -> Self {
        Self::read(node_flags::of_process(pid))
    }

    fn read(flags: impl IntoIterator<Item = String>) -> Self {
        let mut request = Self {
            host: None,
            port: DEFAULT_PORT,
        };
        for flag in flags {
            let value = ["--inspect-port=", "--debug-port="]
                .iter()
                .find_map(|name| flag.strip_prefix(name));
            let Some(value) = value else { continue };
            let (host, port) = match value.rsplit_once(':') {
                Some((host, port)) => (Some(host), port),
                None if value.bytes().all(|byte| byte.is_ascii_digit()) => (None, value),
                None => (Some(value), ""),
            };
            request.host = host
                .map(|host| host.trim_matches(['[', ']']).to_owned())
                .or(request.host);
            request.port = port.parse().unwrap_or(request.port);
        }
        request
    }

    /// Whether other machines could reach it.
    pub(super) fn is_exposed(&self) -> bool {
        self.host.as_deref().is_some_and(|host| {
            let is_loopback = |address: IpAddr| address.is_loopback();
            host != "localhost" && !host.parse().is_ok_and(is_loopback)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(flags: &[&str]) -> (Option<String>, u16, bool) {
        let request = PortRequest::read(flags.iter().map(|flag| (*flag).to_owned()));
        let is_exposed = request.is_exposed();
        (request.host, request.port, is_exposed)
    }

    #[test]
    fn flags_decide_where_it_will_listen() {
        assert_eq!(request(&[]), (None, 9229, false));
        assert_eq!(request(&["--inspect-port=0"]), (None, 0, false));
        let everywhere = (Some("0.0.0.0".to_owned()), 9333, true);
        assert_eq!(request(&["--inspect-port=0.0.0.0:9333"]), everywhere);
        let own = (Some("::1".to_owned()), 9229, false);
        assert_eq!(request(&["--debug-port=[::1]:9229"]), own);
        let later = (None, 9302, false);
        assert_eq!(request(&["--inspect-port=1", "--inspect-port=9302"]), later);
    }
}
