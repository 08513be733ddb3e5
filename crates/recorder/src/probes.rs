//! Where a breakpoint goes: the file that a process has mapped, and the function in it.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nodespy_capture::engines::perf_events::{EventSpec, ProbePlace, Uprobe};
use nodespy_capture::target::{Target, proc};
use nodespy_capture::{GcPlaces, LiveOrigin};
use nodespy_model::{ImageBytes, Mapping, Origin, SmallSort, printable};
use nodespy_symbolize::{argument_check_length, function_offset, function_offsets, usdt_probes};

use crate::error::RecordError;
use crate::subject::Subject;

/// How users call the program itself.
const PROGRAM: &str = "node";
/// A probe that is in more places is watched in these.
const MAX_USDT_PLACES: usize = 16;
/// How many probes are listed where another was asked for.
const MAX_USDT_LISTED: usize = 10;
/// Where distributions have libuv.
const SHARED_LIBUV: &str = "libuv";

/// Finds the place of an event that is a probe; the places, each an event of the same name, where there may be several.
pub(crate) fn place(
    mut event: EventSpec,
    subject: &Subject,
) -> Result<Vec<EventSpec>, RecordError> {
    let Some(probe) = event.uprobe_mut() else {
        return Ok(vec![event]);
    };
    let target = running(subject)?;
    if probe.is_usdt {
        let places = usdt_places(probe, target.pid())?;
        let at = |place: ProbePlace| {
            let mut placed = event.clone();
            if let Some(probe) = placed.uprobe_mut() {
                probe.place = Some(place);
            }
            placed
        };
        return Ok(places.into_iter().map(at).collect());
    }
    let mut found = find(probe, target);
    if let (Err(_), true) = (&found, probe.is_of_javascript) {
        let shared = Uprobe {
            binary: SHARED_LIBUV.to_owned(),
            ..probe.clone()
        };
        found = find(&shared, target).or(found);
    }
    let (mut place, mapping) = found?;
    if probe.is_of_javascript {
        place.offset += argument_check_length(&first_bytes(&mapping, place.offset));
    }
    probe.place = Some(place);
    Ok(vec![event])
}

/// Where the files of a process have a probe that their authors have put there.
fn usdt_places(probe: &Uprobe, pid: u32) -> Result<Vec<ProbePlace>, RecordError> {
    let mappings = proc::code_mappings(pid).unwrap_or_default();
    let program = proc::exe(pid).unwrap_or_default();
    let mut places: Vec<ProbePlace> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let mut known = Vec::new();
    for mapping in mappings.iter().filter(|mapping| !mapping.is_anonymous()) {
        if seen.contains(&&*mapping.path) {
            continue;
        }
        seen.push(&mapping.path);
        let Ok(image) = LiveOrigin::new().open_image(mapping) else {
            continue;
        };
        for found in usdt_probes(image) {
            let is_meant = (&*found.provider, &*found.name) == (&*probe.binary, &*probe.symbol);
            if is_meant && places.len() < MAX_USDT_PLACES {
                places.push(ProbePlace {
                    file: path_to(pid, mapping, &program),
                    offset: found.offset,
                    semaphore: found.semaphore,
                });
            }
            known.push(format!("usdt:{}:{}", found.provider, found.name));
        }
    }
    if !places.is_empty() {
        return Ok(places);
    }
    known.small_sort();
    known.dedup();
    let others = match known.is_empty() {
        true => "it has none at all; Node from nodejs.org has none".to_owned(),
        false => {
            known.truncate(MAX_USDT_LISTED);
            format!("it has {}", printable(&known.join(", ")))
        }
    };
    Err(RecordError::Usage(format!(
        "process {pid} has no probe usdt:{}:{}: {others}",
        printable(&probe.binary),
        printable(&probe.symbol)
    )))
}

/// Where the pauses of V8's garbage collector can be measured in the program of the first process.
pub(crate) fn gc_places(subject: &Subject) -> Result<GcPlaces, RecordError> {
    let pid = running(subject)?.pid();
    let program = proc::exe(pid).unwrap_or_default();
    let mappings = proc::code_mappings(pid).unwrap_or_default();
    let mut of_program = mappings.iter();
    let mapping = of_program.find(|mapping| is_meant(PROGRAM, mapping, &program));
    let image = mapping.and_then(|mapping| LiveOrigin::new().open_image(mapping).ok());
    let offsets = image.and_then(|image| function_offsets(image, &GcPlaces::FUNCTIONS));
    match offsets {
        Some(offsets) => Ok(GcPlaces { program, offsets }),
        None => Err(RecordError::Usage(format!(
            "--gc-pauses: {} has no symbols of V8's garbage collector (Node 16 to 26 have, unless they were stripped)",
            printable(&program.to_string_lossy())
        ))),
    }
}

/// The first bytes of the code at an offset of a mapped file; none where they can't be read, so that the breakpoint goes there.
fn first_bytes(mapping: &Mapping, offset: u64) -> [u8; 10] {
    let mut bytes = [0; 10];
    // What is mapped may be no regular file, and one that waits when it is opened.
    if let Ok(ImageBytes::File(file)) = LiveOrigin::new().open_image(mapping) {
        let _ = file.read_exact_at(&mut bytes, offset);
    }
    bytes
}

/// The first process, which has to run already.
fn running(subject: &Subject) -> Result<&Target, RecordError> {
    match (&subject.launched, subject.targets.first()) {
        (None, Some(target)) => Ok(target),
        _ => Err(RecordError::Usage(
            "a uprobe is set in a process that runs already: -p PID".to_owned(),
        )),
    }
}

/// The place of a probe, and where the process has it mapped.
fn find(probe: &Uprobe, target: &Target) -> Result<(ProbePlace, Mapping), RecordError> {
    let pid = target.pid();
    let mappings = proc::code_mappings(pid).unwrap_or_default();
    let program = proc::exe(pid).unwrap_or_default();
    let is_meant = |mapping: &&Mapping| is_meant(&probe.binary, mapping, &program);
    let Some(mapping) = mappings.iter().find(is_meant) else {
        return Err(RecordError::Usage(format!(
            "process {pid} has no code of `{}` mapped: give `node`, a library's name such as `libc`, \
             or a path as in /proc/{pid}/maps",
            printable(&probe.binary)
        )));
    };
    let image = LiveOrigin::new().open_image(mapping);
    let image = image.map_err(|refused| {
        RecordError::Usage(format!(
            "{} can't be read: {}",
            printable(&mapping.path),
            refused.why
        ))
    })?;
    let Some(offset) = function_offset(image, &probe.symbol) else {
        return Err(RecordError::Usage(format!(
            "{} has no function `{}`, or its symbols were stripped",
            printable(&mapping.path),
            printable(&probe.symbol)
        )));
    };
    let place = ProbePlace {
        file: path_to(pid, mapping, &program),
        offset: offset.saturating_add(probe.offset),
        semaphore: 0,
    };
    Ok((place, mapping.clone()))
}

fn is_meant(binary: &str, mapping: &Mapping, program: &Path) -> bool {
    let path = Path::new(&mapping.path);
    if mapping.is_anonymous() || !path.is_absolute() {
        return false;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let starts_like = |name: &str| {
        name.strip_prefix(binary)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
    };
    match binary {
        PROGRAM => path == program,
        _ if binary.starts_with('/') => mapping.path == binary,
        _ => starts_like(&name),
    }
}

/// A path that leads to the mapped file whatever container it is in, and whatever took its name since.
fn path_to(pid: u32, mapping: &Mapping, program: &Path) -> PathBuf {
    match Path::new(&mapping.path) == program {
        true => proc::path_of(pid, "exe"),
        false => proc::path_of(
            pid,
            &format!("map_files/{:x}-{:x}", mapping.start, mapping.end),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_of_what_is_no_regular_file_are_none() {
        let own = proc::code_mappings(std::process::id()).unwrap();
        let program = own.iter().find(|mapping| mapping.path.starts_with('/'));
        let program = program.unwrap();
        assert_eq!(&first_bytes(program, 0)[..4], b"\x7fELF");
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        // Nobody will ever write to it.
        let waits = Mapping {
            start: 1,
            end: 2,
            path: fifo.to_string_lossy().into_owned(),
            file: Default::default(),
            ..program.clone()
        };
        assert_eq!(first_bytes(&waits, 0), [0; 10]);
    }

    #[test]
    fn a_binary_is_meant_by_name_or_path() {
        let is = |binary: &str, path: &str| {
            let mapping = Mapping {
                pid: 7,
                start: 0x1000,
                end: 0x2000,
                file_offset: 0,
                path: path.to_owned(),
                file: Default::default(),
                time: 0,
            };
            is_meant(binary, &mapping, Path::new("/opt/bin/node20"))
        };
        assert!(is("node", "/opt/bin/node20"));
        assert!(is("libc", "/lib/libc.so.6"));
        assert!(is("/lib/libc.so.6", "/lib/libc.so.6"));
        assert!(is("libssl", "/lib/libssl-3.so"));
        assert!(!is("libc", "/lib/libcrypto.so.3"));
        assert!(!is("libc", "[vdso]"));
        assert!(!is("", "/lib/libc.so.6"));
    }
}
