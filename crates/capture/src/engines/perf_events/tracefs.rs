//! The numbers of tracepoints, which tracefs has.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use nodespy_model::SmallSort;

use crate::error::CaptureError;
use crate::sys::namespaces::with_private_mount;

/// Where tracefs is mounted, if it is.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// A page is what the kernel gives at once; few formats have more.
const MAX_FORMAT_BYTES: u64 = 64 << 10;
/// More tracepoints than any kernel has.
const MOST: usize = 20_000;

/// The number of a tracepoint.
pub(crate) fn id_of(system: &str, name: &str) -> Result<u64, CaptureError> {
    let below = format!("events/{system}/{name}/id");
    let found = in_tracefs(|root| fs::read_to_string(root.join(&below)));
    match found {
        Ok(text) => text.trim().parse().map_err(|_| {
            CaptureError::refused(format!("the tracepoint {system}:{name} has no number"))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(CaptureError::not_found(format!(
                "this kernel has no tracepoint {system}:{name} (`nodespy events {system}` lists those \
                 it has)"
            )))
        }
        Err(error) => Err(no_tracefs(&format!("{system}:{name}"), error)),
    }
}

/// What describes the arguments of a tracepoint.
pub(super) fn format_of(system: &str, name: &str) -> io::Result<String> {
    let below = format!("events/{system}/{name}/format");
    in_tracefs(|root| {
        let mut text = String::new();
        let file = fs::File::open(root.join(&below))?;
        file.take(MAX_FORMAT_BYTES).read_to_string(&mut text)?;
        Ok(text)
    })
}

fn no_tracefs(name: &str, source: io::Error) -> CaptureError {
    CaptureError::NotPermitted {
        sentence: format!(
            "tracepoints are numbered in tracefs, which only root can read: sudo nodespy record -e \
             {name} …; or sudo cat {}/events/{}/id once and give -e tracepoint:ID",
            MOUNTS[0],
            name.replace(':', "/"),
        ),
        source,
    }
}

/// Every tracepoint as `system:name`, in order.
pub(super) fn all() -> io::Result<Vec<String>> {
    in_tracefs(|root| {
        let mut all = Vec::new();
        for system in folders(&root.join("events"))? {
            for name in folders(&root.join("events").join(&system))? {
                if all.len() < MOST {
                    all.push(format!("{system}:{name}"));
                }
            }
        }
        all.small_sort();
        Ok(all)
    })
}

fn folders(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

/// Reads something in tracefs: where it is mounted, else in a private mount namespace,
/// which ends with the thread that made it.
fn in_tracefs<T: Send>(read: impl Fn(&Path) -> io::Result<T> + Sync) -> io::Result<T> {
    let mounted = MOUNTS.map(PathBuf::from).into_iter().find(|root| {
        // Only a mounted one has it; one that may not be looked into counts as mounted.
        match fs::metadata(root.join("events")) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
        }
    });
    match mounted {
        Some(root) => read(&root),
        None => with_private_mount("tracefs", Path::new(MOUNTS[0]), || {
            read(Path::new(MOUNTS[0]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_that_is_not_there_is_said_so() {
        let error = id_of("sched", "no_such_tracepoint").unwrap_err();
        let sentence = error.to_string();
        match error {
            CaptureError::NotFound { .. } => {
                assert!(sentence.contains("nodespy events sched"), "{sentence}");
                assert!(id_of("sched", "sched_switch").unwrap() > 0);
                let all = all().unwrap();
                assert!(all.iter().any(|name| name == "sched:sched_switch"));
            }
            // Not root, or no tracefs in this kernel.
            _ => assert!(sentence.contains("sudo"), "{sentence}"),
        }
    }
}
