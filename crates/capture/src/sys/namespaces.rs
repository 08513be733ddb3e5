//! Connections in another process's network namespace, and mounts in a private mount namespace.

use std::ffi::CString;
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

/// Mounts a file system of the kernel's at a folder that is there, for as long as `read` runs, in a
/// mount namespace that only the thread has that lives for this call.
pub(crate) fn with_private_mount<T: Send>(
    file_system: &str,
    folder: &Path,
    read: impl Fn() -> io::Result<T> + Sync,
) -> io::Result<T> {
    let file_system = CString::new(file_system)?;
    let folder = CString::new(folder.as_os_str().as_encoded_bytes())?;
    let mount = |target: &CString, kind: Option<&CString>, flags| {
        let kind = kind.map_or(std::ptr::null(), |kind| kind.as_ptr());
        // SAFETY: all strings live through the call; the kernel copies them.
        let result = unsafe { libc::mount(kind, target.as_ptr(), kind, flags, std::ptr::null()) };
        checked(result.into())
    };
    let work = || {
        // SAFETY: takes a number; this thread alone changes namespace.
        checked(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into())?;
        // What is mounted here must not show elsewhere.
        mount(&c"/".to_owned(), None, libc::MS_REC | libc::MS_PRIVATE)?;
        mount(&folder, Some(&file_system), 0)?;
        read()
    };
    std::thread::scope(|scope| {
        scope
            .spawn(work)
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the reading thread panicked")))
    })
}

fn is_own(namespace: &File) -> io::Result<bool> {
    let own = Path::new("/proc/thread-self/ns/net").metadata()?;
    let other = namespace.metadata()?;
    Ok((own.dev(), own.ino()) == (other.dev(), other.ino()))
}
