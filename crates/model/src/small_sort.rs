//! A stable sort with little code, for lists that are short or sorted once.
//!
//! The standard library's sort is made for speed: 6 KB of code for each type and order it is used with, 0.7 MB of the binary
//! before this. Here one sort orders positions for all types, and the elements are moved afterwards.

use std::cmp::Ordering;

/// [`slice::sort`], [`slice::sort_by`] and [`slice::sort_by_key`] with little code.
pub trait SmallSort<T> {
    /// Like [`slice::sort`].
    fn small_sort(&mut self)
    where
        T: Ord;

    /// Like [`slice::sort_by`].
    fn small_sort_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Like [`slice::sort_by_key`].
    fn small_sort_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);
}

impl<T> SmallSort<T> for [T] {
    fn small_sort(&mut self)
    where
        T: Ord,
    {
        self.small_sort_by(T::cmp);
    }

    fn small_sort_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut goes_to = destinations(self.len(), &mut |one, other| {
            compare(&self[one], &self[other])
        });
        for at in 0..self.len() {
            while goes_to[at] != at {
                let to = goes_to[at];
                self.swap(at, to);
                goes_to.swap(at, to);
            }
        }
    }

    fn small_sort_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.small_sort_by(|one, other| key(one).cmp(&key(other)));
    }
}

/// Where each element of a sorted list belongs.
#[inline(never)]
fn destinations(length: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by(|one, other| compare(*one, *other));
    let mut goes_to = vec![0; length];
    for (to, from) in order.into_iter().enumerate() {
        goes_to[from] = to;
    }
    goes_to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_like_the_standard_library() {
        let mut state = 1_u32;
        for length in [0, 1, 2, 3, 10, 257] {
            let list: Vec<(u32, usize)> = (0..length)
                .map(|position| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 28, position)
                })
                .collect();
            let mut expected = list.clone();
            expected.sort_by_key(|(key, _)| *key);
            let mut sorted = list;
            sorted.small_sort_by_key(|(key, _)| *key);
            assert_eq!(sorted, expected);
        }
    }
}
