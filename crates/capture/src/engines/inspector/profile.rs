//! What the profilers of all threads sent, as one profile.

use nodespy_formats::{ImportOptions, Input};
use nodespy_model::{
    About, Contents, Notes, Process, Profile, ProfileBuilder, Thread, ThreadRole, WeightUnit,
    add_samples,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::CaptureError;
use crate::target::{describe, proc};

/// What one thread's profiler sent.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) thread: String,
    pub(super) is_main: bool,
    /// The result of `Profiler.stop`.
    pub(super) json: String,
}

#[derive(Deserialize)]
struct Stopped<'a> {
    #[serde(borrow)]
    profile: &'a RawValue,
}

/// When a profile started: microseconds of the monotonic clock, the same for all threads.
#[derive(Deserialize)]
struct Started {
    #[serde(rename = "startTime")]
    start_us: f64,
}

/// One profile of all pieces.
pub(super) fn assemble(
    pid: u32,
    node_version: &str,
    mut about: About,
    pieces: &[Piece],
    remarks: &[String],
) -> Result<Profile, CaptureError> {
    let mut read = Vec::new();
    for piece in pieces {
        read.push(read_piece(pid, piece)?);
    }
    let started_us = read
        .iter()
        .map(|(start_us, ..)| *start_us)
        .fold(f64::MAX, f64::min);
    let mut notes = Notes::default();
    let mut builder = ProfileBuilder::new(WeightUnit::Nanoseconds);
    let known = describe(pid).unwrap_or_default();
    let process = builder.process(Process {
        pid,
        node_version: Some(node_version.to_owned()),
        ..known
    });
    for (piece, (start_us, profile, of_file)) in pieces.iter().zip(&read) {
        let thread = builder.thread(Thread {
            process,
            tid: match piece.is_main {
                true => pid,
                false => thread_called(pid, &piece.thread),
            },
            name: match piece.is_main {
                true => "main".to_owned(),
                false => piece.thread.clone(),
            },
            role: match piece.is_main {
                true => ThreadRole::Main,
                false => ThreadRole::Worker,
            },
        });
        let later = ((start_us - started_us).max(0.0) * 1e3) as u64;
        add_samples(&mut builder, profile, later, |_| thread);
        about.duration = about
            .duration
            .max(profile.about.duration.saturating_add(later));
        for remark in &of_file.remarks {
            notes.remark(remark.clone());
        }
    }
    for remark in remarks {
        notes.remark(remark.clone());
    }
    Ok(builder.finish(about, notes))
}

fn read_piece(pid: u32, piece: &Piece) -> Result<(f64, Profile, Notes), CaptureError> {
    let bad = |what: String| CaptureError::Refused {
        sentence: format!("the profile that process {pid} sent can't be read: {what}"),
    };
    let stopped: Stopped<'_> =
        serde_json::from_str(&piece.json).map_err(|error| bad(error.to_string()))?;
    let text = stopped.profile.get();
    let started: Started = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
    let options = ImportOptions::from(Some("cpuprofile"));
    let recording = nodespy_formats::import(Input::from(text.as_bytes().to_vec()), &options)
        .map_err(|error| bad(error.to_string()))?;
    match recording.contents {
        Contents::Named(profile) => Ok((started.start_us, *profile, recording.notes)),
        _ => Err(bad("it holds no names".to_owned())),
    }
}

/// The thread that carries a worker's name (Node 24 and later give it to the kernel); 0 when none
/// or several do.
fn thread_called(pid: u32, name: &str) -> u32 {
    // The kernel keeps fifteen bytes of a name.
    let kept: String = name.chars().take(15).collect();
    let mut found = proc::threads(pid)
        .into_iter()
        .filter(|&tid| tid != pid && proc::thread_name(pid, tid).as_deref() == Some(&kept));
    match (found.next(), found.next()) {
        (Some(tid), None) => tid,
        _ => 0,
    }
}
