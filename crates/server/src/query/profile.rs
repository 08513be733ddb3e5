//! The profile of a selection, which every view and format can be made of.

use nodespy_model::{About, EventType, Nanoseconds, Notes, Profile, WeightUnit};
use nodespy_store::{
    CPU_EVENT, NameBudget, Selection, StackId, Store, StoredThread, profile_of_threads,
};

use super::QueryError;
use super::marks::with_marked_versions;

/// What an event of CPU time is called in a profile.
const CPU_CLOCK: &str = "cpu-clock";
const SECOND: Nanoseconds = 1_000_000_000;

/// What was seen of a selection, a thread for each role. When it was seen is not in it: windows are merged.
pub fn profile_of_selection(
    store: &dyn Store,
    selection: &Selection,
) -> Result<Profile, QueryError> {
    let selection = &with_marked_versions(store, selection)?;
    let mut threads = Vec::new();
    let mut notes = Notes::default();
    let mut unit = WeightUnit::Samples;
    let (mut is_widened, mut missing_hours) = (false, 0);
    let mut names = NameBudget::default();
    for (role, merged) in store.merge_roles(selection)? {
        unit = merged.unit.unwrap_or(unit);
        is_widened |= merged.is_widened;
        missing_hours = missing_hours.max(merged.missing_hours);
        let stacks: Vec<_> = merged
            .groups
            .into_iter()
            .flat_map(|group| group.stacks)
            .collect();
        if stacks.is_empty() {
            continue;
        }
        let ids: Vec<StackId> = stacks.iter().map(|stack| stack.stack).collect();
        let symbols = store.stacks_within(&ids, &mut names)?;
        threads.push(StoredThread {
            role,
            symbols,
            stacks,
        });
    }
    if threads.is_empty() {
        return Err(QueryError::NotFound(format!(
            "nothing of {} was seen in that range",
            selection.service
        )));
    }
    if is_widened {
        notes.remark("windows of this range have been dropped: whole hours are shown");
    }
    if missing_hours > 0 {
        notes.remark(format!(
            "{missing_hours} hours are left out: their processes are not known any more"
        ));
    }
    let (event, rate_hz) = (event_of(selection, unit), rate_hz(store, selection)?);
    // Samples of one rate are shown as such; those of several can only be added up as time.
    let (event, counts) = match (unit, rate_hz) {
        (WeightUnit::Nanoseconds, Some(rate_hz)) => (
            EventType::new(&event, WeightUnit::Samples).at_rate(rate_hz),
            true,
        ),
        (unit, _) => (EventType::new(&event, unit), false),
    };
    if counts {
        let stacks = threads.iter_mut().flat_map(|thread| &mut thread.stacks);
        stacks.for_each(|stack| stack.weight = stack.count);
    }
    let time = &selection.time;
    // It has no duration: many processes, each for a part of the range, were not busy for a share of it.
    let about = About {
        app: selection.service.clone(),
        engine: "store".to_owned(),
        started_unix: time.start.saturating_mul(SECOND),
        nodespy_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..About::default()
    };
    Ok(profile_of_threads(about, notes, event, &threads))
}

fn event_of(selection: &Selection, unit: WeightUnit) -> String {
    match selection.event == CPU_EVENT && unit == WeightUnit::Nanoseconds {
        true => CPU_CLOCK.to_owned(),
        false => selection.event.clone(),
    }
}

/// The rate that all of the service's samples were taken at, if it was one.
fn rate_hz(store: &dyn Store, selection: &Selection) -> Result<Option<u32>, QueryError> {
    let mut periods: Option<(u64, u64)> = None;
    store.each_series(selection.time.clone(), &mut |span| {
        if span.service == selection.service && span.event == selection.event {
            let (least, most) = periods.unwrap_or((span.period, span.period));
            periods = Some((least.min(span.period), most.max(span.period)));
        }
        Ok(())
    })?;
    let Some((first, last)) = periods else {
        return Ok(None);
    };
    let is_one = first == last;
    let rate = (SECOND as f64 / first as f64).round() as u32;
    Ok((is_one && rate > 0).then_some(rate))
}
