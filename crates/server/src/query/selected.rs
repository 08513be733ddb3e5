//! What is meant: a service, an event, a range of time, labels and thread roles.

use std::ops::Range;

use nodespy_model::ThreadRole;
use nodespy_store::{CPU_EVENT, Matcher, Selection, UnixSeconds};

use super::QueryError;
use nodespy_http::Parameters;

/// What is looked at when nothing is said: the last hour.
const DEFAULT_SECONDS: u64 = 3600;
/// The longest range.
const MAX_SECONDS: u64 = 400 * 86_400;

/// A version or an instance that may be any.
const ANY: &str = "*";

/// A selection as a request names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// What is asked of the store.
    pub selection: Selection,
}

/// A parameter by its name with the prefix, else without it.
fn value<'a>(parameters: &'a Parameters, prefix: &str, key: &str) -> Option<&'a str> {
    let own = parameters.get(&format!("{prefix}{key}"));
    own.or_else(|| parameters.get(key))
}

impl Selected {
    /// The selection of a request: `service`, `event`, `from`, `until`, `version`, `instance`, `role`, `label.KEY`; all but the
    /// service may be left out. Names may start with `prefix`, and what is not said there is as without it; [`ANY`] is any version or
    /// instance, also where one is said without the prefix.
    pub(crate) fn of(
        parameters: &Parameters,
        prefix: &str,
        now: UnixSeconds,
    ) -> Result<Self, QueryError> {
        if value(parameters, prefix, "service").is_none() {
            let why = "which service? ?service=NAME (/api/v1/services lists them)";
            return Err(QueryError::Bad(why.to_owned()));
        }
        Self::with_prefix(parameters, prefix, now)
    }

    /// The same where no service has to be said: it is empty then.
    pub(crate) fn of_any_service(
        parameters: &Parameters,
        now: UnixSeconds,
    ) -> Result<Self, QueryError> {
        Self::with_prefix(parameters, "", now)
    }

    fn with_prefix(
        parameters: &Parameters,
        prefix: &str,
        now: UnixSeconds,
    ) -> Result<Self, QueryError> {
        let get = |key: &str| value(parameters, prefix, key);
        let service = get("service").unwrap_or_default();
        let time = range(get("from"), get("until"), now)?;
        let mut selection = Selection::new(service, get("event").unwrap_or(CPU_EVENT), time);
        for key in ["version", "instance"] {
            if let Some(value) = get(key).filter(|value| *value != ANY) {
                selection.matchers.push(Matcher::new(key, value));
            }
        }
        for (key, value) in parameters.below("label.") {
            selection.matchers.push(Matcher::new(key, value));
        }
        for role in parameters.all("role") {
            let found = ThreadRole::ALL
                .into_iter()
                .find(|known| known.label() == role);
            let found = found.ok_or_else(|| {
                let names = ThreadRole::ALL.map(ThreadRole::label).join(", ");
                QueryError::Bad(format!(
                    "there is no thread role {role:?}; there are {names}"
                ))
            })?;
            selection.roles.push(found);
        }
        Ok(Self { selection })
    }
}

/// A range of time: seconds since 1970, or before now (`-1h`); the last hour when nothing is said.
pub(crate) fn range(
    from: Option<&str>,
    until: Option<&str>,
    now: UnixSeconds,
) -> Result<Range<UnixSeconds>, QueryError> {
    let until = until.map_or(Ok(now), |text| moment(text, now))?;
    let from = from.map_or(Ok(until.saturating_sub(DEFAULT_SECONDS)), |text| {
        moment(text, now)
    })?;
    match until.checked_sub(from) {
        Some(1..=MAX_SECONDS) => Ok(from..until),
        Some(0) | None => Err(QueryError::Bad(
            "the range ends before it begins".to_owned(),
        )),
        Some(_) => Err(QueryError::Bad("a range has at most 400 days".to_owned())),
    }
}

/// A number of seconds, where one is given.
pub(crate) fn seconds(text: Option<&str>) -> Result<Option<u64>, QueryError> {
    let number = text.map(str::parse).transpose();
    number
        .ok()
        .filter(|number| number.is_none_or(|number| number <= MAX_SECONDS))
        .ok_or_else(|| QueryError::Bad("a length is a number of seconds".to_owned()))
}

fn moment(text: &str, now: UnixSeconds) -> Result<UnixSeconds, QueryError> {
    let bad = || {
        QueryError::Bad(format!(
            "{text:?} is no time: seconds since 1970, now, or -30m, -1h, -7d"
        ))
    };
    if text == "now" {
        return Ok(now);
    }
    let Some(before) = text.strip_prefix('-') else {
        return text.parse().map_err(|_| bad());
    };
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let unit = units
        .iter()
        .find_map(|(letter, seconds)| Some((before.strip_suffix(*letter)?, *seconds)));
    let (number, seconds) = unit.unwrap_or((before, 1));
    let number: u64 = number.parse().map_err(|_| bad())?;
    Ok(now.saturating_sub(number.saturating_mul(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(target: &str) -> Result<Selection, QueryError> {
        let (_, parameters) = Parameters::split(target);
        Selected::of(&parameters, "", 100_000).map(|it| it.selection)
    }

    #[test]
    fn a_request_names_its_selection() {
        let asked =
            selected("/?service=shop&from=-30m&version=1.2&role=main&label.env=prod").unwrap();
        let expected = Selection::new("shop", "cpu", 98_200..100_000)
            .with("version", "1.2")
            .with("env", "prod")
            .on(ThreadRole::Main);
        assert_eq!(asked, expected);
        assert_eq!(selected("/?service=shop").unwrap().time, 96_400..100_000);
        assert_eq!(
            selected("/?service=shop&from=5&until=7").unwrap().time,
            5..7
        );
    }

    #[test]
    fn what_makes_no_sense_is_said_so() {
        for target in [
            "/",
            "/?service=a&from=x",
            "/?service=a&from=7&until=5",
            "/?service=a&role=boss",
            "/?service=a&from=-999999999999999999999d",
        ] {
            assert!(
                matches!(selected(target), Err(QueryError::Bad(_))),
                "{target}"
            );
        }
    }

    #[test]
    fn a_base_is_as_the_selection_but_for_what_it_says_itself() {
        let (_, parameters) = Parameters::split("/?service=shop&version=2&from=-1h&base.version=1");
        let base = Selected::of(&parameters, "base.", 100_000)
            .unwrap()
            .selection;
        assert_eq!(
            base,
            Selection::new("shop", "cpu", 96_400..100_000).with("version", "1")
        );
        let (_, parameters) =
            Parameters::split("/?service=shop&version=2&instance=web-1&from=-1h&base.instance=*");
        let siblings = Selected::of(&parameters, "base.", 100_000).unwrap();
        assert_eq!(
            siblings.selection,
            Selection::new("shop", "cpu", 96_400..100_000).with("version", "2")
        );
    }
}
