//! Folded stacks.

use crate::sample::{read, small, written};

#[test]
fn lines_are_sorted_and_marked() {
    let text = String::from_utf8(written(&small(), "folded")).unwrap();
    assert_eq!(
        text,
        "\
libuv-worker;[no stack] 2
libuv-worker;uv_run;do_syscall_64_[k] 8
shop;[unknown] 3
shop;uv_run;processTimers node:internal/timers:500:250;total /shop/lib/cart.js:17:8_[j] 40
shop;uv_run;processTimers node:internal/timers:500:250;total /shop/lib/cart.js:17:8_[j];format /shop/node_modules/money/index.js:4:2_[j] 25
shop;uv_run;processTimers node:internal/timers:500:250;total /shop/lib/cart.js:17:8_[j];format /shop/node_modules/money/index.js:4:2_[j];Builtins_StringAdd_[j] 10
shop;uv_run;processTimers node:internal/timers:500:250;total /shop/lib/cart.js:17:8_[j];v8::internal::Scavenger::Process 12
"
    );
}

#[test]
fn what_was_exported_reads_back_and_exports_the_same() {
    let first = written(&small(), "folded");
    let again = written(&read(&first).unwrap(), "folded");
    assert_eq!(
        String::from_utf8(first).unwrap(),
        String::from_utf8(again).unwrap()
    );
}
