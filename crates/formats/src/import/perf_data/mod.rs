//! `perf.data`, as `perf record` writes it to a file or a pipe.
//!
//! The records are walked where they lie and handed to the resolver one by one, in order of time.
//! Why this is written by hand: `docs/decisions/0006-perf-data-by-hand.md`.

mod events;
mod header;
mod records;
mod replay;
mod sample;

use nodespy_model::{About, Contents, Notes, Recording};
use nodespy_perf_abi::{record_type, u64_at};

use super::{ImportError, ImportOptions, Importer};
use crate::budget::Budget;
use crate::detect::Confidence;
use crate::input::Input;
use events::NamedEvent;
use header::{Header, MAGIC, MAGIC_BIG_ENDIAN};
use records::Records;
use replay::PerfEvents;

/// The importer of perf.data.
pub(crate) struct PerfData;

impl Importer for PerfData {
    fn name(&self) -> &'static str {
        "perf.data"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        match bytes.starts_with(MAGIC) || bytes.starts_with(MAGIC_BIG_ENDIAN) {
            true => Confidence::Sure,
            false => Confidence::No,
        }
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        let mut header = Header::read(&input)?;
        let budget = input.budget(&options.limits);
        survey(&input, &mut header, &budget)?;
        header.events.name_the_rest();
        let mut notes = Notes::default();
        check_arch(&mut header, &mut notes)?;
        let (events, places) = header.events.types();
        Ok(Recording {
            about: about(&header),
            events,
            notes,
            contents: Contents::Events(Box::new(PerfEvents {
                input,
                header,
                places,
                budget,
                progress: options.progress,
            })),
        })
    }
}

/// Looks through the records for what a pipe keeps in them. A file is read only up to its first
/// sample.
fn survey(bytes: &[u8], header: &mut Header, budget: &Budget) -> Result<(), ImportError> {
    let mut records = Records::new(bytes, header, budget);
    let mut has_samples = false;
    while let Some(place) = records.next() {
        let record = records.get(place);
        match record.kind {
            record_type::SAMPLE => {
                has_samples |= header.events.of_sample(record.body).is_some();
                if has_samples && !header.is_pipe {
                    break;
                }
            }
            record_type::HEADER_ATTR => {
                let _ = header.take_pipe_event(record.body);
            }
            record_type::EVENT_UPDATE => {
                let _ = header.take_event_update(record.body);
            }
            record_type::HEADER_FEATURE => take_pipe_feature(header, record.body),
            record_type::HEADER_BUILD_ID => {
                let _ = header.take_build_id(&record);
            }
            record_type::FINISHED_ROUND => records.forget_before(std::iter::empty()),
            _ => {}
        }
    }
    if !has_samples {
        return Err(match records.trouble() {
            Some(trouble) if trouble.is_cut => ImportError::Cut {
                at: trouble.at as u64,
            },
            Some(trouble) => ImportError::Damaged {
                at: trouble.at as u64,
                what: trouble.what.clone(),
            },
            None => ImportError::NoSamples,
        });
    }
    Ok(())
}

fn take_pipe_feature(header: &mut Header, body: &[u8]) {
    if let Some(number) = u64_at(body, 0) {
        header.take_feature(number, &body[8..]);
    }
}

/// Registers and instruction lengths differ from one processor to the next.
fn check_arch(header: &mut Header, notes: &mut Notes) -> Result<(), ImportError> {
    match header.arch.as_str() {
        "" | "x86_64" => Ok(()),
        "aarch64" | "arm64" => {
            let has_copies = |event: &NamedEvent| event.attributes().sample_regs_user != 0;
            header.is_other_machine = true;
            if header.events.list.iter().any(has_copies) {
                notes.remark(
                    "stack copies of aarch64 can't be unwound: record with --call-graph fp there",
                );
            }
            Ok(())
        }
        arch => Err(ImportError::Machine {
            arch: arch.to_owned(),
        }),
    }
}

/// The command that perf started, as an application's name; empty where it attached to processes
/// and the command only said for how long (`perf record -p 1234 -- sleep 10`).
fn launched(command: &[String]) -> String {
    let mut words = command.iter().map(String::as_str);
    let is_attached = words.by_ref().take_while(|word| *word != "--").any(|word| {
        ["-p", "-t", "-a", "--pid", "--tid", "--all-cpus"]
            .iter()
            .any(|option| word.starts_with(option))
    });
    let Some(program) = words.next().filter(|_| !is_attached) else {
        return String::new();
    };
    let name = program.rsplit('/').next().unwrap_or(program);
    let words: Vec<&str> = std::iter::once(name).chain(words).collect();
    words.join(" ")
}

fn about(header: &Header) -> About {
    let (first, last) = header.sample_times.unwrap_or((0, 0));
    // The calendar's time of the first sample, where the recording ties the two clocks.
    let started_unix = header.clock.map_or(0, |(calendar, clock)| {
        calendar.saturating_sub(clock).saturating_add(first)
    });
    About {
        app: launched(&header.command),
        host: header.host.clone(),
        engine: "perf record".to_owned(),
        started_unix,
        duration: last.saturating_sub(first),
        ..About::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_only_tells_the_time_is_no_application() {
        let launched = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            launched(&words)
        };
        assert_eq!(
            launched("perf record -g -- /usr/bin/node app.js"),
            "node app.js"
        );
        assert_eq!(launched("perf record -g -p 12 -- sleep 10"), "");
        assert_eq!(launched("perf record --pid=12 -- sleep 10"), "");
        assert_eq!(launched("perf record -a"), "");
    }
}
