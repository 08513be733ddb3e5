//! Which sockets of a process listen, by the process's own descriptors: a port number alone says
//! nothing about who is behind it.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nodespy_model::{FastMap, FastSet, SmallSort};

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
/// Where the kernel lists the sockets of a network namespace; the second only where there is IPv6.
const TABLES: [&str; 2] = ["net/tcp", "net/tcp6"];
const TABLE_LIMIT_BYTES: u64 = 64 << 20;

/// The addresses process `pid` listens on.
pub(crate) fn listeners(pid: u32) -> Vec<SocketAddr> {
    let own: FastSet<u64> = proc::socket_inodes(pid).into_iter().collect();
    rows(pid)
        .filter(|row| row.state == LISTEN && own.contains(&row.inode))
        .map(|row| row.local)
        .collect()
}

/// Whether process `pid` no longer listens there, for sure: where that can't be read, as without descriptors left, it may.
pub(crate) fn is_closed(pid: u32, listener: SocketAddr) -> bool {
    match try_listeners(pid) {
        Ok(listeners) => !listeners.contains(&listener),
        // Else the process is gone.
        Err(error) => !is_unreadable(&error),
    }
}

/// Whether a process may be there all the same.
fn is_unreadable(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EACCES | libc::EPERM)
    )
}

fn try_listeners(pid: u32) -> io::Result<Vec<SocketAddr>> {
    let own = own_rows(pid)?.into_iter();
    let listening = own.filter(|row| row.state == LISTEN);
    Ok(listening.map(|row| row.local).collect())
}

/// The rows of process `pid` alone, or why they can't be read.
fn own_rows(pid: u32) -> io::Result<Vec<Row>> {
    let own: FastSet<u64> = proc::try_socket_inodes(pid)?.into_iter().collect();
    let mut rows = table(pid, TABLES[0])?;
    match table(pid, TABLES[1]) {
        Ok(more) => rows.extend(more),
        // IPv6 is off.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    rows.retain(|row| own.contains(&row.inode));
    Ok(rows)
}

/// The TCP ports process `pid` listens on.
pub fn listening_ports(pid: u32) -> Vec<u16> {
    listeners(pid).iter().map(SocketAddr::port).collect()
}

/// Whether process `pid` listens on `port`, at whichever address.
pub(crate) fn is_listening(pid: u32, port: u16) -> bool {
    listeners(pid)
        .iter()
        .any(|listener| listener.port() == port)
}

/// How many connections are open on the port of a listener, seen from the process's own side; an error where there may be
/// some that can't be read.
pub(crate) fn connections(pid: u32, listener: SocketAddr) -> io::Result<usize> {
    count_connections(own_rows(pid), listener)
}

fn count_connections(rows: io::Result<Vec<Row>>, listener: SocketAddr) -> io::Result<usize> {
    let is_open = |row: &&Row| row.state == ESTABLISHED && row.local.port() == listener.port();
    match rows {
        Ok(rows) => Ok(rows.iter().filter(is_open).count()),
        Err(error) if is_unreadable(&error) => Err(error),
        // The process is gone.
        Err(_) => Ok(0),
    }
}

/// Who listens where in the network namespace of nodespy itself, among some processes. Sockets of other namespaces are not in its table.
#[derive(Debug)]
pub struct LocalListeners {
    listening: Vec<Row>,
    /// The process that has a socket, by inode; none where several of them do.
    holders: FastMap<u64, Option<u32>>,
}

impl LocalListeners {
    /// The listening sockets there are, and which of these processes have them open.
    pub fn of(pids: impl IntoIterator<Item = u32>) -> Self {
        let listening = rows(std::process::id()).filter(|row| row.state == LISTEN);
        let mut holders: FastMap<u64, Option<u32>> = FastMap::default();
        for pid in pids {
            for inode in proc::socket_inodes(pid) {
                let holder = holders.entry(inode).or_insert(Some(pid));
                // A process may have it open twice.
                *holder = holder.filter(|it| *it == pid);
            }
        }
        Self {
            listening: listening.collect(),
            holders,
        }
    }

    /// The loopback addresses at which a connection to `port` is accepted by process `pid`, and by no other.
    pub fn loopback_routes(&self, pid: u32, port: u16) -> Vec<SocketAddr> {
        let is_own = |inode: u64| self.holders.get(&inode) == Some(&Some(pid));
        let own = self
            .listening
            .iter()
            .filter(|row| row.local.port() == port && is_own(row.inode));
        let routes = own.flat_map(|row| routes_among(&self.listening, is_own, row.local));
        let mut routes: Vec<SocketAddr> = routes.filter(|it| it.ip().is_loopback()).collect();
        routes.small_sort();
        routes.dedup();
        routes
    }
}

/// The process that listens on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    None,
    Process(u32),
    /// A process whose descriptors may not be read.
    Unknown,
}

/// Who listens on `port` in the network namespace of `pid`; none on port 0, which means any.
pub(crate) fn holder_of(pid: u32, port: u16) -> Holder {
    let inodes: FastSet<u64> = rows(pid)
        .filter(|row| row.state == LISTEN && row.local.port() == port)
        .map(|row| row.inode)
        .collect();
    if inodes.is_empty() {
        return Holder::None;
    }
    let holds = |&other: &u32| {
        let sockets = proc::socket_inodes(other);
        sockets.iter().any(|inode| inodes.contains(inode))
    };
    let found = proc::processes().into_iter().find(holds);
    found.map_or(Holder::Unknown, Holder::Process)
}

/// The addresses at which a connection reaches this listener of process `pid`, and no socket of
/// another process: a socket bound to one address takes precedence over one bound to all of them.
pub(crate) fn routes(pid: u32, listener: SocketAddr) -> Vec<SocketAddr> {
    let own: FastSet<u64> = proc::socket_inodes(pid).into_iter().collect();
    let listening: Vec<Row> = rows(pid).filter(|row| row.state == LISTEN).collect();
    routes_among(&listening, |inode| own.contains(&inode), listener)
}

fn routes_among(
    listening: &[Row],
    is_own: impl Fn(u64) -> bool,
    listener: SocketAddr,
) -> Vec<SocketAddr> {
    let (v4, v6) = (
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    );
    let candidates = match listener.ip().to_canonical() {
        IpAddr::V4(address) if address.is_unspecified() => vec![v4],
        // Whether it accepts IPv4 as well is not shown in /proc.
        IpAddr::V6(address) if address.is_unspecified() => vec![v6, v4],
        address => vec![address],
    };
    let is_reached = |address: &IpAddr| {
        let matching = listening
            .iter()
            .filter(|row| row.local.port() == listener.port())
            .filter_map(|row| Some((specificity(row.local.ip(), *address)?, row.inode)));
        let matching: Vec<(u8, u64)> = matching.collect();
        let best = matching.iter().map(|(specificity, _)| *specificity).max();
        // Sockets that share an address share its connections: all of them must be the target's.
        let mut winners = matching
            .iter()
            .filter(|(specificity, _)| Some(*specificity) == best);
        best.is_some() && winners.all(|(_, inode)| is_own(*inode))
    };
    candidates
        .into_iter()
        .filter(is_reached)
        .map(|address| SocketAddr::new(address, listener.port()))
        .collect()
}

/// How closely a listening socket's address fits a connection's; none when it does not.
fn specificity(listening: IpAddr, address: IpAddr) -> Option<u8> {
    match (listening.to_canonical(), address) {
        (listening, address) if listening == address => Some(2),
        (IpAddr::V4(listening), IpAddr::V4(_)) if listening.is_unspecified() => Some(1),
        (IpAddr::V6(listening), IpAddr::V6(_)) if listening.is_unspecified() => Some(1),
        (IpAddr::V6(listening), IpAddr::V4(_)) if listening.is_unspecified() => Some(0),
        _ => None,
    }
}

fn rows(pid: u32) -> impl Iterator<Item = Row> {
    let of_table = move |name| table(pid, name).unwrap_or_default();
    TABLES.into_iter().flat_map(of_table)
}

fn table(pid: u32, name: &str) -> io::Result<Vec<Row>> {
    let mut bytes = Vec::new();
    let file = File::open(proc::path_of(pid, name))?;
    file.take(TABLE_LIMIT_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().filter_map(parse_row).collect())
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
    fn what_can_be_read_says_whether_a_listener_is_closed() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (own, address) = (std::process::id(), listener.local_addr().unwrap());
        assert!(!is_closed(own, address));
        drop(listener);
        assert!(is_closed(own, address));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(is_closed(child.id(), address));
    }

    #[test]
    fn connections_that_can_t_be_read_are_not_none() {
        let listener = SocketAddr::from((Ipv4Addr::LOCALHOST, 9229));
        let connection = Row {
            local: listener,
            state: ESTABLISHED,
            inode: 1,
        };
        assert_eq!(
            count_connections(Ok(vec![connection]), listener).unwrap(),
            1
        );
        for number in [libc::EMFILE, libc::ENFILE, libc::EACCES] {
            let error = io::Error::from_raw_os_error(number);
            assert!(count_connections(Err(error), listener).is_err());
        }
        let gone = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(count_connections(Err(gone), listener).unwrap(), 0);
    }

    #[test]
    fn a_connection_never_goes_to_a_socket_of_another_process() {
        let row = |local: &str, inode: u64| Row {
            local: local.parse().unwrap(),
            state: LISTEN,
            inode,
        };
        let routes = |rows: &[Row], listener: &str| -> Vec<String> {
            let found = routes_among(rows, |inode| inode == 1, listener.parse().unwrap());
            found.iter().map(SocketAddr::to_string).collect()
        };
        let own = row("[::]:9229", 1);
        assert_eq!(
            routes(&[own], "[::]:9229"),
            ["[::1]:9229", "127.0.0.1:9229"]
        );
        // Another process has one address of that port to itself, or both.
        let v4 = row("127.0.0.1:9229", 2);
        let v6 = row("[::1]:9229", 2);
        assert_eq!(routes(&[own, v4], "[::]:9229"), ["[::1]:9229"]);
        assert_eq!(routes(&[own, v6], "[::]:9229"), ["127.0.0.1:9229"]);
        assert!(routes(&[own, v4, v6], "[::]:9229").is_empty());
        assert_eq!(
            routes(&[own, row("0.0.0.0:9229", 2)], "[::]:9229"),
            ["[::1]:9229"]
        );
        // Another port does not matter, nor does one that shares the address with itself.
        let plain = row("127.0.0.1:9229", 1);
        let other = row("127.0.0.1:9230", 2);
        assert_eq!(
            routes(&[plain, plain, other], "127.0.0.1:9229"),
            ["127.0.0.1:9229"]
        );
        // SO_REUSEPORT: either may get the connection.
        assert!(routes(&[plain, v4], "127.0.0.1:9229").is_empty());
        // It listens no more.
        assert!(routes(&[], "127.0.0.1:9229").is_empty());
        let mapped = row("[::ffff:127.0.0.1]:9229", 1);
        assert_eq!(
            routes(&[mapped], "[::ffff:127.0.0.1]:9229"),
            ["127.0.0.1:9229"]
        );
    }

    #[test]
    fn a_socket_that_two_processes_have_open_is_neither_s_own() {
        let (own, other) = (std::process::id(), std::process::id() + 1);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut found = LocalListeners::of([own, own]);
        assert_eq!(found.loopback_routes(own, address.port()), [address]);
        assert!(found.loopback_routes(other, address.port()).is_empty());
        assert!(found.loopback_routes(own, 0).is_empty());
        found
            .holders
            .values_mut()
            .for_each(|holder| *holder = holder.filter(|it| *it == other));
        assert!(found.loopback_routes(own, address.port()).is_empty());
    }

    #[test]
    fn our_own_listener_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let own = std::process::id();
        assert!(listeners(own).contains(&address));
        assert_eq!(connections(own, address).unwrap(), 0);
        assert_eq!(holder_of(own, address.port()), Holder::Process(own));
        assert_eq!(holder_of(own, 0), Holder::None);
        let _client = std::net::TcpStream::connect(address).unwrap();
        let _server = listener.accept().unwrap();
        assert_eq!(connections(own, address).unwrap(), 1);
    }
}
