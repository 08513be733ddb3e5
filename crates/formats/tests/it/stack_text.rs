//! The text of DTrace, bpftrace, Instruments, `sample` and VTune.

use nodespy_formats::{Importer, detect};

use crate::sample::{read, written};

pub(crate) const DTRACE: &str = "CPU     ID                    FUNCTION:NAME\n  0  64091                        :tick-60s\n\n\
    \n              genunix`kmem_cpu_reload+0x20\n              genunix`kmem_cache_free+0xce\n\
    \x20             node`main+0x12\n                1\n\
    \n              genunix`read\n              node`main+0x12\n                4\n\n";

pub(crate) const BPFTRACE: &str = "Attaching 1 probe...\n^C\n\n\
    @[\n    tcp_recvmsg+808\n    vfs_read+142\n    do_syscall_64+115\n]: 3\n\
    @[\n    work+1\n    main+2\n, node]: 2\n@[, idle]: 1\n";

pub(crate) const SAMPLE: &str = "Analysis of sampling node (pid 7) every 1 millisecond\n\n\
    Call graph:\n    3 Thread_1   DispatchQueue_1: com.apple.main-thread  (serial)\n\
    \x20   + 3 start  (in dyld) + 1  [0x7fff]\n    +   2 main  (in node) + 5  [0x1]\n\n\
    Total number in stack (recursive counted multiple, when >=5):\n";

pub(crate) const VTUNE: &str = "Function Stack,CPU Time:Self,Module\n\
    Total,0.0,[Unknown]\n main,1.000000,node\n  work,2.000000,node\n";

pub(crate) const XCTRACE: &str = r#"<?xml version="1.0"?>
<trace-query-result>
<node xpath='//trace-toc[1]/run[1]/data[1]/table[5]'><schema name="time-profile"></schema>
<row><sample-time id="1" fmt="00:00.1">1</sample-time><thread id="2" fmt="main 0x1"><tid id="3" fmt="0x1">1</tid></thread><weight id="8" fmt="1.00 ms">1000000</weight><backtrace id="9"><frame id="10" name="work" addr="0x1"><binary id="11" name="node" path="/bin/node"/></frame><frame id="12" name="main" addr="0x2"><binary ref="11"/></frame></backtrace></row>
<row><sample-time id="13" fmt="00:00.2">2</sample-time><thread ref="2"/><weight ref="8"/><backtrace ref="9"/></row>
</node>
</trace-query-result>
"#;

fn folded(text: &str, format: &str) -> String {
    let found = detect(text.as_bytes()).map(Importer::name);
    assert_eq!(found, Some(format));
    let profile = read(text.as_bytes()).unwrap();
    String::from_utf8(written(&profile, "folded")).unwrap()
}

#[test]
fn dtrace_is_read() {
    assert_eq!(
        folded(DTRACE, "dtrace"),
        "node`main;genunix`kmem_cache_free;genunix`kmem_cpu_reload 1\nnode`main;genunix`read 4\n"
    );
}

#[test]
fn bpftrace_is_read() {
    assert_eq!(
        folded(BPFTRACE, "bpftrace"),
        "do_syscall_64+115;vfs_read+142;tcp_recvmsg+808 3\nidle 1\nnode;main+2;work+1 2\n"
    );
}

#[test]
fn macos_sample_is_read() {
    let folded = folded(SAMPLE, "sample");
    assert_eq!(
        folded,
        "Thread_1   DispatchQueue_1: com.apple.main-thread  (serial`\
        Thread_1   DispatchQueue_1: com.apple.main-thread;dyld`start;node`main 2\n"
    );
}

#[test]
fn vtune_is_read() {
    let folded = folded(VTUNE, "vtune");
    assert_eq!(
        folded,
        "[Unknown]`Total;node`main 1000\n[Unknown]`Total;node`main;node`work 2000\n"
    );
}

#[test]
fn instruments_are_read() {
    let folded = folded(XCTRACE, "xctrace");
    assert_eq!(folded, "main;work 2\n");
}
