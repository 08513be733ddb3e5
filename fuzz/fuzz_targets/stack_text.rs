//! Text that inferno reads. It panics on some of it, which its importer catches: the hook of libFuzzer,
//! which ends the run at any panic, must not see those. A panic that is not caught still ends it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| {
        for from in ["dtrace", "sample", "xctrace", "vtune"] {
            nodespy_fuzz::feed(from, bytes);
        }
    }
);
