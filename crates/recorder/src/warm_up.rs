//! Before samples are taken: a program is let to warm up.

use std::time::{Duration, Instant};

use nodespy_capture::Interrupts;

use crate::error::RecordError;
use crate::record::RecordRequest;
use crate::subject::Subject;

/// How often the end of the processes is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Starts the command, if there is one, and waits as long as is asked for.
pub(crate) fn warm_up(
    request: &RecordRequest,
    mut subject: Subject,
) -> Result<Subject, RecordError> {
    let Some(time) = request.warm_up else {
        return Ok(subject);
    };
    subject.start_command()?;
    let until = Instant::now() + time;
    while Instant::now() < until {
        if subject.has_ended() {
            return Err(RecordError::NoSamples(format!(
                "no samples: everything ended within --delay {} s",
                time.as_secs_f64()
            )));
        }
        let is_stopped = request
            .interrupts
            .is_some_and(Interrupts::is_stop_requested);
        if is_stopped {
            return Err(RecordError::NoSamples(
                "no samples: it was ended before --delay was over".to_owned(),
            ));
        }
        let left = until.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(POLL_INTERVAL));
    }
    if request.follow_children {
        subject.add_children();
    }
    Ok(subject)
}
