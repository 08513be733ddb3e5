//! What goes into a store: windows of counts, the series they belong to, and names of new stacks.

use nodespy_model::{Labels, ThreadRole, WeightUnit};

use crate::error::StoreError;
use crate::symbols::{StackHash, Symbols};

/// Seconds since 1970.
pub type UnixSeconds = u64;

/// How long a window is; windows start at multiples of it.
pub const WINDOW_SECONDS: u64 = 10;
/// How long a block of windows is.
pub const HOUR_SECONDS: u64 = 3600;
/// Windows of an hour.
pub(crate) const WINDOWS_AN_HOUR: u64 = HOUR_SECONDS / WINDOW_SECONDS;

/// How many counts a window can have.
pub(crate) const MAX_COUNTS: usize = 1 << 16;
/// The longest name of a service or an event, in bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// The latest start of a window: four bytes of seconds.
const MAX_START: UnixSeconds = u32::MAX as u64;

/// One event of one process of a service, sampled at one rate: what windows of ten seconds belong to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Series {
    /// The application.
    pub service: String,
    /// What made the samples, such as `cpu-clock`.
    pub event: String,
    /// What its weights are in; the same in all series of one event of a service.
    pub unit: WeightUnit,
    /// What one count weighs, in that unit: windows taken at a lower rate weigh more and stay comparable.
    pub period: u64,
    /// Version, host, pid, pod and whatever else tells processes apart.
    pub labels: Labels,
}

/// How often a stack was seen in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Count {
    /// The stack.
    pub stack: StackHash,
    /// The thread it was seen on, as its place in [`ThreadRole::ALL`].
    role: u8,
    /// How often.
    pub count: u64,
}

impl Count {
    /// A stack that was seen so often on threads of a role.
    pub fn new(stack: StackHash, role: ThreadRole, count: u64) -> Self {
        Self {
            stack,
            role: role_number(role),
            count,
        }
    }

    /// The role of the threads it was seen on.
    pub fn role(&self) -> ThreadRole {
        ThreadRole::ALL[usize::from(self.role)]
    }

    pub(crate) fn role_number(&self) -> u8 {
        self.role
    }
}

/// The place of a role in [`ThreadRole::ALL`], which has room in three bits.
pub(crate) fn role_number(role: ThreadRole) -> u8 {
    let position = ThreadRole::ALL.iter().position(|known| *known == role);
    position.expect("every role is listed") as u8
}

/// The place of a unit in [`WeightUnit::ALL`].
pub(crate) fn unit_number(unit: WeightUnit) -> u8 {
    let position = WeightUnit::ALL.iter().position(|known| *known == unit);
    position.expect("every unit is listed") as u8
}

/// The unit of a number.
pub(crate) fn unit_of(number: u8) -> Result<WeightUnit, StoreError> {
    let unit = WeightUnit::ALL.get(usize::from(number));
    unit.copied()
        .ok_or(StoreError::Damaged("a unit that is not known"))
}

/// Ten seconds of a series. A window is known by its series and start: sent again it changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Which of the batch's series.
    pub series: usize,
    /// When it starts: a multiple of [`WINDOW_SECONDS`].
    pub start: UnixSeconds,
    /// What was seen; counts of one stack and role are added up.
    pub counts: Vec<Count>,
}

/// What is appended at once: all of it or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The series of the windows.
    pub series: Vec<Series>,
    /// The windows.
    pub windows: Vec<Window>,
    /// Names of the stacks that the store does not know, at least.
    pub symbols: Symbols,
}

impl Batch {
    /// Refuses what no honest sender sends, before anything is written.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        for series in &self.series {
            for name in [&series.service, &series.event] {
                if name.is_empty() || name.len() > MAX_NAME_BYTES {
                    return Err(StoreError::Refused(
                        "a service and an event have names of 1 to 256 bytes",
                    ));
                }
            }
            if series.period == 0 {
                return Err(StoreError::Refused("a series has a period of 1 or more"));
            }
        }
        for window in &self.windows {
            if window.series >= self.series.len() {
                return Err(StoreError::Refused("a window names a series of its batch"));
            }
            if !window.start.is_multiple_of(WINDOW_SECONDS) || window.start > MAX_START {
                return Err(StoreError::Refused(
                    "a window starts at a multiple of 10 seconds, before 2106",
                ));
            }
            if window.counts.len() > MAX_COUNTS {
                return Err(StoreError::Refused("a window has at most 65,536 counts"));
            }
        }
        self.symbols.check()
    }
}
