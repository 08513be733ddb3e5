//! The one in the middle of a list whose length is known, without holding the whole list.

/// Values come in one after the other; those that can no longer be the one in the middle are dropped.
#[derive(Debug)]
pub(super) struct Middle<T> {
    /// The place of the one in the middle.
    place: usize,
    /// How many are to come.
    left: usize,
    /// How many lighter ones were dropped, and the weight of the heaviest of them.
    dropped: usize,
    floor: Option<u64>,
    /// In the order of their weights.
    held: Vec<(u64, T)>,
}

impl<T> Middle<T> {
    pub(super) fn of(count: usize) -> Self {
        Self {
            place: count / 2,
            left: count,
            dropped: 0,
            floor: None,
            held: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, weight: u64, value: T) {
        self.left = self.left.saturating_sub(1);
        if self.floor.is_some_and(|floor| weight <= floor) {
            self.dropped += 1;
        } else {
            let place = self.held.partition_point(|(other, _)| *other <= weight);
            self.held.insert(place, (weight, value));
        }
        while !self.held.is_empty() && self.dropped + self.left < self.place {
            self.floor = Some(self.held.remove(0).0);
            self.dropped += 1;
        }
        let most = (self.place + 1).saturating_sub(self.dropped);
        self.held.truncate(most);
    }

    /// The one in the middle; none of none, or while some are missing.
    pub(super) fn taken(mut self) -> Option<T> {
        let is_complete = self.left == 0 && self.held.len() == 1;
        is_complete.then(|| self.held.pop().map(|(_, value)| value))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_that_of_the_sorted_list_and_half_of_it_is_held() {
        // Every order of up to six values, two of them equal.
        for count in 1..=6usize {
            let values: Vec<u64> = (0..count as u64).map(|value| value.max(1)).collect();
            for order in permutations(&values) {
                let mut middle = Middle::of(count);
                for &value in &order {
                    middle.add(value, value);
                    assert!(middle.held.len() <= count / 2 + 1);
                }
                assert_eq!(middle.taken(), Some(values[count / 2]), "{order:?}");
            }
        }
        assert_eq!(Middle::<u8>::of(0).taken(), None);
        assert_eq!(Middle::<u8>::of(2).taken(), None);
    }

    fn permutations(values: &[u64]) -> Vec<Vec<u64>> {
        if values.is_empty() {
            return vec![Vec::new()];
        }
        let mut all = Vec::new();
        for first in 0..values.len() {
            let mut rest = values.to_vec();
            let value = rest.remove(first);
            for mut order in permutations(&rest) {
                order.insert(0, value);
                all.push(order);
            }
        }
        all
    }
}
