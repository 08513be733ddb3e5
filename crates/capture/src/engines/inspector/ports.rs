//! Which sockets of a process listen, by the process's own descriptors: a port number alone says
//! nothing about who is behind it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nodespy_model::FastSet;

use crate::target::proc;

/// A row of `/proc/PID/net/tcp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    local: SocketAddr,
    state: u8,
    inode: u64,
}

const ESTABLISHED: u8 = 0x01;
const LISTEN: u8 = 0x0a;

/// The addresses process `pid` listens on.
pub(crate) fn listeners(pid: u32) -> Vec<SocketAddr> {
    let own: FastSet<u64> = proc::socket_inodes(pid).into_iter().collect();
    rows(pid)
        .filter(|row| row.state == LISTEN && own.contains(&row.inode))
        .map(|row| row.local)
        .collect()
}

/// Whether process `pid` listens on `port`, at whichever address.
pub(crate) fn is_listening(pid: u32, port: u16) -> bool {
    listeners(pid)
        .iter()
        .any(|listener| listener.port() == port)
}

/// How many connections are open on the port of a listener, seen from the process's own side.
pub(crate) fn connections(pid: u32, listener: SocketAddr) -> usize {
    let own: FastSet<u64> = proc::socket_inodes(pid).into_iter().collect();
    rows(pid)
        .filter(|row| row.state == ESTABLISHED && row.local.port() == listener.port())
        .filter(|row| own.contains(&row.inode))
        .count()
}

/// Who listens on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Nobody,
    Process(u32),
    /// Somebody whose descriptors we may not see.
    Unknown,
}

/// Who listens on `port` in the network namespace of `pid`; nobody on port 0, which means any.
pub(crate) fn holder_of(pid: u32, port: u16) -> Holder {
    let inodes: FastSet<u64> = rows(pid)
        .filter(|row| row.state == LISTEN && row.local.port() == port)
        .map(|row| row.inode)
        .collect();
    if inodes.is_empty() {
        return Holder::Nobody;
    }
    let holds = |&other: &u32| {
        let sockets = proc::socket_inodes(other);
        sockets.iter().any(|inode| inodes.contains(inode))
    };
    let found = proc::processes().into_iter().find(holds);
    found.map_or(Holder::Unknown, Holder::Process)
}

/// The address to connect to for reaching a listener.
pub(crate) fn reachable(listener: SocketAddr) -> SocketAddr {
    let address = match listener.ip() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        address => address,
    };
    SocketAddr::new(address, listener.port())
}

fn rows(pid: u32) -> impl Iterator<Item = Row> {
    ["net/tcp", "net/tcp6"].into_iter().flat_map(move |name| {
        let text = proc::read_text(&proc::path_of(pid, name), 64 << 20).unwrap_or_default();
        text.lines().filter_map(parse_row).collect::<Vec<_>>()
    })
}

/// `  0: 0100007F:240D 00000000:0000 0A … inode …`
fn parse_row(line: &str) -> Option<Row> {
    let mut fields = line.split_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?;
    let (address, port) = local.split_once(':')?;
    Some(Row {
        local: SocketAddr::new(parse_address(address)?, u16::from_str_radix(port, 16).ok()?),
        state: u8::from_str_radix(state, 16).ok()?,
        inode: inode.parse().ok()?,
    })
}

/// An address as the kernel prints it: 32-bit words in the machine's own order.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        Some(
            u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16)
                .ok()?
                .to_ne_bytes(),
        )
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_kernel_are_read() {
        let line = "   1: 0100007F:240D 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 31337 1 0000000000000000 100 0 0 10 0";
        let row = parse_row(line).unwrap();
        assert_eq!(row.local, "127.0.0.1:9229".parse().unwrap());
        assert_eq!((row.state, row.inode), (LISTEN, 31337));
        let line = "   0: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 42 1";
        assert_eq!(
            parse_row(line).unwrap().local,
            "[::1]:3000".parse().unwrap()
        );
        assert!(parse_row("  sl  local_address rem_address   st").is_none());
        assert!(parse_row("   1: 0100007F:240D").is_none());
    }

    #[test]
    fn our_own_listener_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let own = std::process::id();
        assert!(listeners(own).contains(&address));
        assert_eq!(connections(own, address), 0);
        assert_eq!(holder_of(own, address.port()), Holder::Process(own));
        assert_eq!(holder_of(own, 0), Holder::Nobody);
        let _client = std::net::TcpStream::connect(address).unwrap();
        let _server = listener.accept().unwrap();
        assert_eq!(connections(own, address), 1);
    }
}
