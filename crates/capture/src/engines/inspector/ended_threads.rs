//! Workers that ended while their process is recorded.

use std::collections::VecDeque;

/// Ended threads that are named in a remark.
const MAX_ENDED_REMARKS: usize = 10;
/// Ended threads that are remembered.
const MAX_ENDED_NUMBERS: usize = 1024;

/// Threads that ended during the recording, of which there may be any number.
#[derive(Debug, Default)]
pub(super) struct EndedThreads {
    count: u64,
    /// Why the first of them ended, as clauses.
    first: Vec<String>,
    /// The last of them: a second session may report a worker after it has ended.
    numbers: VecDeque<u32>,
    spare_numbers: u32,
}

impl EndedThreads {
    pub(super) fn add(&mut self, number: u32, why: String) {
        self.count += 1;
        if self.first.len() < MAX_ENDED_REMARKS {
            self.first.push(why);
        }
        if self.numbers.len() >= MAX_ENDED_NUMBERS {
            self.numbers.pop_front();
        }
        self.numbers.push_back(number);
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.numbers.contains(&number)
    }

    /// A number for a worker whose title has none.
    pub(super) fn spare_number(&mut self) -> u32 {
        self.spare_numbers += 1;
        u32::MAX - self.spare_numbers
    }

    pub(super) fn remarks(&mut self) -> Vec<String> {
        let mut remarks = std::mem::take(&mut self.first);
        let others = self.count - remarks.len() as u64;
        if others > 0 {
            remarks.push(format!(
                "{others} more workers ended during the recording: the last slice of each is lost"
            ));
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_ended_workers_are_a_few_remarks() {
        let mut ended = EndedThreads::default();
        for number in 1..=50_000 {
            ended.add(number, format!("worker {number} ended"));
        }
        assert!(ended.contains(50_000) && !ended.contains(1));
        assert_eq!(ended.numbers.len(), MAX_ENDED_NUMBERS);
        let remarks = ended.remarks();
        assert_eq!(remarks.len(), MAX_ENDED_REMARKS + 1);
        assert!(remarks[MAX_ENDED_REMARKS].starts_with("49990 more workers"));
        assert_ne!(ended.spare_number(), ended.spare_number());
    }
}
