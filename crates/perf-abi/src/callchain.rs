//! Call chains: addresses, and the markers that say whose addresses follow.

use crate::record::CpuMode;
use crate::sample::Words;

/// Markers in a call chain: `enum perf_callchain_context`.
pub mod context {
    /// Addresses of the kernel follow.
    pub const KERNEL: u64 = -128i64 as u64;
    /// Addresses of the process follow.
    pub const USER: u64 = -512i64 as u64;
    /// A cookie follows; the addresses come in a record of their own.
    pub const USER_DEFERRED: u64 = -640i64 as u64;
    /// From here on values are markers, not addresses.
    pub const MAX: u64 = -4095i64 as u64;
}

/// The addresses of a call chain by whose they are, leaf first. Reused from one sample to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Of the kernel.
    pub kernel: Vec<u64>,
    /// Of the process.
    pub user: Vec<u64>,
    /// What names the record that the process's addresses come in.
    pub deferred: Option<u64>,
}

impl Addresses {
    /// Forgets the addresses and keeps the room.
    pub fn clear(&mut self) {
        self.kernel.clear();
        self.user.clear();
        self.deferred = None;
    }

    /// Replaces the addresses by those of a chain that starts in `mode`.
    pub fn split(&mut self, chain: Words<'_>, mode: CpuMode) {
        self.clear();
        let mut mode = mode;
        let mut values = chain.iter();
        while let Some(value) = values.next() {
            match value {
                context::KERNEL => mode = CpuMode::Kernel,
                context::USER => mode = CpuMode::User,
                context::USER_DEFERRED => self.deferred = values.next(),
                // A hypervisor or a guest: its addresses mean nothing here.
                context::MAX.. => mode = CpuMode::Other,
                address => match mode {
                    CpuMode::Kernel => self.kernel.push(address),
                    CpuMode::User => self.user.push(address),
                    CpuMode::Other => {}
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::words;

    fn split(values: &[u64], mode: CpuMode) -> Addresses {
        let bytes = words(values.iter().copied());
        let mut addresses = Addresses {
            kernel: vec![1],
            user: vec![2],
            deferred: Some(3),
        };
        addresses.split(Words(bytes.as_chunks().0), mode);
        addresses
    }

    #[test]
    fn a_chain_is_split_at_its_markers() {
        let chain = [context::KERNEL, 10, 11, context::USER, 20, 21];
        let addresses = split(&chain, CpuMode::Other);
        assert_eq!(addresses.kernel, [10, 11]);
        assert_eq!(addresses.user, [20, 21]);
        assert_eq!(addresses.deferred, None);
    }

    #[test]
    fn a_chain_without_markers_is_of_the_samples_mode() {
        assert_eq!(split(&[10], CpuMode::Kernel).kernel, [10]);
        assert_eq!(split(&[10], CpuMode::User).user, [10]);
        assert_eq!(split(&[10], CpuMode::Other), Addresses::default());
    }

    #[test]
    fn addresses_of_guests_are_left_out() {
        let guest = -2048i64 as u64;
        let addresses = split(&[guest, 10, context::USER, 20], CpuMode::Kernel);
        assert_eq!((addresses.kernel.len(), addresses.user), (0, vec![20]));
    }

    #[test]
    fn a_cookie_is_no_address() {
        let chain = [context::KERNEL, 10, context::USER_DEFERRED, 77];
        let addresses = split(&chain, CpuMode::User);
        assert_eq!(addresses.deferred, Some(77));
        assert_eq!((addresses.kernel, addresses.user), (vec![10], vec![]));
        // A chain that ends with the marker has no cookie.
        assert_eq!(
            split(&[context::USER_DEFERRED], CpuMode::User).deferred,
            None
        );
    }
}
