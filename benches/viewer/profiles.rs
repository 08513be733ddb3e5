//! The profiles that are shown: a real one, and large ones grown from it.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use nodespy_formats::{ImportOptions, export, import_file};
use nodespy_model::{
    Contents, FrameSpec, FunctionSpec, Profile, ProfileBuilder, Sample, StackIndex,
};

use crate::{Failure, Options};

/// A profile to look at.
pub(crate) struct Input {
    pub(crate) name: String,
    /// As `.nspy`.
    pub(crate) recording: PathBuf,
    /// As V8 writes it; none where the others are not asked.
    pub(crate) cpuprofile: Option<PathBuf>,
}

/// Every profile, made if it is not there yet.
pub(crate) fn all(options: &Options) -> Result<Vec<Input>, Failure> {
    let folder = &options.folder;
    let real = folder.join("bld.cpuprofile");
    let megabytes = std::fs::metadata(&real)
        .map_err(|error| format!("{}: {error}", real.display()))?
        .len() as f64
        / 1e6;
    let grown = folder.join("grown.nspy");
    let grown_cpuprofile = folder.join("grown.cpuprofile");
    let day = folder.join("day.nspy");
    if !grown.exists() || !grown_cpuprofile.exists() || !day.exists() {
        let profile = read(&real)?;
        let large = grown_from(&profile, 1_000_000, 5_000_000, None);
        write(&large, "nspy", &grown)?;
        write(&large, "cpuprofile", &grown_cpuprofile)?;
        // 24 hours of samples, 99 in a second.
        let long = grown_from(&profile, 0, 24 * 3600 * 99, Some(1_000_000_000 / 99));
        write(&long, "nspy", &day)?;
    }
    Ok(vec![
        Input {
            name: format!("real: a .cpuprofile of {megabytes:.0} MB"),
            recording: real.clone(),
            cpuprofile: Some(real),
        },
        Input {
            name: "grown: 1 M nodes, 5 M samples".to_owned(),
            recording: grown,
            cpuprofile: Some(grown_cpuprofile),
        },
        Input {
            name: "day: 24 h at 99 Hz".to_owned(),
            recording: day,
            cpuprofile: None,
        },
    ])
}

fn read(path: &Path) -> Result<Profile, Failure> {
    match import_file(path, &ImportOptions::default())?.contents {
        Contents::Named(profile) | Contents::PartlyNamed(profile, _) => Ok(*profile),
        Contents::Events(_) => Err("a .cpuprofile has names".into()),
    }
}

fn write(profile: &Profile, format: &str, path: &Path) -> Result<(), Failure> {
    let mut output = BufWriter::new(File::create(path)?);
    Ok(export(profile, format, &mut output)?)
}

/// The profile with copies of its tree side by side until there are `nodes` stacks, and its samples
/// again and again until there are `samples`, each turn in the next copy. Samples keep the time
/// between them, or are `apart`.
fn grown_from(profile: &Profile, nodes: usize, samples: usize, apart: Option<u64>) -> Profile {
    let copies = nodes.div_ceil(profile.stacks.len()).max(1);
    let mut builder = ProfileBuilder::with_events(profile.events.clone());
    let threads = nodespy_model::add_threads(&mut builder, profile);
    let mut stacks: Vec<Vec<StackIndex>> = Vec::new();
    for copy in 0..copies {
        let name = format!("part {copy}");
        let root = builder.frame(FrameSpec {
            function: FunctionSpec {
                name: &name,
                ..FunctionSpec::default()
            },
            ..FrameSpec::default()
        });
        let root = builder.stack(None, root);
        let mut moved: Vec<StackIndex> = Vec::with_capacity(profile.stacks.len());
        for stack in &profile.stacks {
            let frame = profile.frame(stack.frame);
            let function = profile.function(frame.function);
            let frame = builder.frame(FrameSpec {
                function: FunctionSpec {
                    name: profile.name_of(frame.function),
                    file: profile.file_of(frame.function),
                    line: function.line,
                    column: function.column,
                    category: function.category,
                },
                line: frame.line,
                column: frame.column,
                tier: frame.tier,
                kind: frame.kind,
            });
            let parent = stack.parent.map_or(root, |parent| moved[parent.at()]);
            moved.push(builder.stack(Some(parent), frame));
        }
        stacks.push(moved);
    }
    // As V8 counts it: a sample lasts until the next one, the last of a turn into the next turn.
    let length = match profile.samples.as_slice() {
        [first, .., last] => last.time - first.time + last.weight,
        _ => 1,
    };
    for position in 0..samples {
        let turn = position / profile.samples.len();
        let sample = profile.samples[position % profile.samples.len()];
        let (time, weight) = match apart {
            Some(apart) => (position as u64 * apart, apart),
            None => (turn as u64 * length + sample.time, sample.weight),
        };
        let stack = sample.stack.map(|stack| stacks[turn % copies][stack.at()]);
        builder.add_sample(Sample {
            time,
            weight,
            thread: threads[sample.thread.at()],
            stack,
            ..sample
        });
    }
    let mut about = profile.about.clone();
    about.duration = match apart {
        Some(apart) => samples as u64 * apart,
        None => samples.div_ceil(profile.samples.len()) as u64 * length,
    };
    builder.finish(about, profile.notes.clone())
}
