//! Moments as people write them, in universal time.

/// A moment in universal time, to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UtcTime {
    /// The year.
    pub year: u64,
    /// From 1.
    pub month: u64,
    /// From 1.
    pub day: u64,
    /// From 0.
    pub hour: u64,
    /// From 0.
    pub minute: u64,
    /// From 0.
    pub second: u64,
}

impl UtcTime {
    /// The moment this many seconds after the start of 1970.
    pub fn of(unix_seconds: u64) -> Self {
        let second = unix_seconds % 86_400;
        // Days since 1970-01-01 to a date, counting years from March.
        let days = unix_seconds / 86_400 + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = (month_from_march + 2) % 12 + 1;
        Self {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(unix_seconds: u64) -> String {
        let UtcTime {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = UtcTime::of(unix_seconds);
        format!("{year}-{month}-{day} {hour}:{minute}:{second}")
    }

    #[test]
    fn moments_come_out_as_the_calendar_has_them() {
        assert_eq!(written(0), "1970-1-1 0:0:0");
        assert_eq!(written(951_782_399), "2000-2-28 23:59:59");
        assert_eq!(written(951_782_400), "2000-2-29 0:0:0");
        assert_eq!(written(1_700_000_000), "2023-11-14 22:13:20");
        assert_eq!(written(4_107_542_400), "2100-3-1 0:0:0");
    }
}
