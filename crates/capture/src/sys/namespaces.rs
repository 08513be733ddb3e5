//! Connections made in another process's network namespace.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::checked;

/// Connects to `address` as process `pid` would. The stream stays in that namespace, whichever process uses
/// it; no thread of nodespy does but the one that lives for this call.
pub(crate) fn connect_in_namespace(
    pid: u32,
    address: SocketAddr,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    if is_own(&namespace)? {
        return TcpStream::connect_timeout(&address, timeout);
    }
    std::thread::Builder::new()
        .name("nodespy-netns".to_owned())
        .spawn(move || {
            // SAFETY: the descriptor is open through the call; only this thread changes namespace.
            checked(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }.into())?;
            TcpStream::connect_timeout(&address, timeout)
        })?
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the connecting thread panicked")))
}

fn is_own(namespace: &File) -> io::Result<bool> {
    let own = Path::new("/proc/thread-self/ns/net").metadata()?;
    let other = namespace.metadata()?;
    Ok((own.dev(), own.ino()) == (other.dev(), other.ino()))
}
