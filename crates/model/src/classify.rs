//! What kind of code a name belongs to, and what a thread is for: by the words that Node, V8 and
//! libc use, so that code is classified the same whatever named it.

use crate::about::ThreadRole;
use crate::profile::Category;

/// Pieces of names of V8's garbage collector (seen in node 16 to 26).
const GC_NAMES: [&str; 22] = [
    "Heap::CollectGarbage",
    "Heap::CollectAllGarbage",
    "Heap::PerformGarbageCollection",
    "Heap::PerformHeapLimitIncrease",
    "HeapAllocator::CollectGarbage",
    "Heap::Scavenge",
    "Heap::MarkCompact",
    "Scaveng",
    "MarkCompactCollector",
    "MinorMarkSweepCollector",
    "MinorMarkCompactCollector",
    "ConcurrentMarking",
    "ConcurrentUnifiedHeapMarking",
    "IncrementalMarking",
    "MarkingVisitor",
    "Sweeper::",
    "SweeperJob",
    "Evacuator",
    "PageEvacuationJob",
    "PointersUpdatingJob",
    "GCTracer",
    "RememberedSetUpdatingItem",
];

/// Files of Node itself as Node 8 to 14 name them: no folder, no `node:`.
const BARE_CORE_FILES: [&str; 48] = [
    "_debugger",
    "assert",
    "async_hooks",
    "bootstrap_node",
    "buffer",
    "child_process",
    "cluster",
    "console",
    "constants",
    "crypto",
    "dgram",
    "diagnostics_channel",
    "dns",
    "domain",
    "events",
    "fs",
    "http",
    "http2",
    "https",
    "inspector",
    "module",
    "net",
    "os",
    "path",
    "perf_hooks",
    "process",
    "punycode",
    "querystring",
    "readline",
    "repl",
    "stream",
    "string_decoder",
    "sys",
    "timers",
    "tls",
    "trace_events",
    "tty",
    "url",
    "util",
    "v8",
    "vm",
    "wasi",
    "worker_threads",
    "zlib",
    "_linklist",
    "_stream_wrap",
    "freelist",
    "async_wrap",
];
/// How the names of further ones start.
const BARE_CORE_STARTS: [&str; 3] = ["_http_", "_stream_", "_tls_"];

/// The category of a JavaScript file.
pub fn category_of_file(file: &str) -> Category {
    // Deno's own modules are `ext:`.
    let is_core = ["node:", "internal/", "ext:"]
        .iter()
        .any(|start| file.starts_with(start));
    if is_core || is_bare_core_file(file) {
        Category::NodeCore
    } else if file.contains("/node_modules/") || file.starts_with("node_modules/") {
        Category::Dependency
    } else if file.starts_with("wasm:") {
        Category::Wasm
    } else {
        Category::App
    }
}

fn is_bare_core_file(file: &str) -> bool {
    file.strip_suffix(".js").is_some_and(|name| {
        BARE_CORE_FILES.contains(&name)
            || (!name.contains('/') && BARE_CORE_STARTS.iter().any(|start| name.starts_with(start)))
    })
}

/// Builtins that only lead from one kind of code to another (seen in node 16 to 26). A name that
/// ends with `*` stands for all that start so.
const STUBS: [&str; 21] = [
    "JSEntry",
    "JSEntryTrampoline",
    "JSConstructEntry",
    "JSConstructEntryTrampoline",
    "JSRunMicrotasksEntry",
    "RunMicrotasksTrampoline",
    "InterpreterEntryTrampoline*",
    "InterpreterEnterAt*",
    "InterpreterPushArgs*",
    "BaselineOrInterpreterEnter*",
    "BaselineOutOfLinePrologue*",
    "CEntry_*",
    "DirectCEntry",
    "Call_Receiver*",
    "CallFunction_Receiver*",
    "CallBoundFunction",
    "CallVarargs",
    "Construct",
    "JSConstructStubGeneric",
    "ArgumentsAdaptorTrampoline",
    "AdaptorWithBuiltinExitFrame*",
];
/// Where libc and the loader start a thread or a program.
const STARTS: [&str; 9] = [
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "clone",
    "clone3",
    "__clone3",
    "__GI___clone3",
    "start_thread",
];

fn is_stub(builtin: &str) -> bool {
    // Bytecode handlers are folded into the function they run.
    builtin.ends_with("Handler")
        || STUBS.iter().any(|stub| match stub.strip_suffix('*') {
            Some(start) => builtin.starts_with(start),
            None => builtin == *stub,
        })
}

/// The category of one of V8's builtins, by its name without `Builtins_`.
pub fn category_of_builtin(name: &str) -> Category {
    match is_stub(name) {
        true => Category::Internal,
        false => Category::Builtin,
    }
}

/// The category of a native function.
pub fn category_of_native(name: &str) -> Category {
    if let Some(builtin) = name.strip_prefix("Builtins_") {
        return category_of_builtin(builtin);
    }
    if STARTS.contains(&name) {
        return Category::Internal;
    }
    let is_v8 = name.contains("v8::internal::") || name.contains("cppgc::internal::");
    if is_v8 && GC_NAMES.iter().any(|part| name.contains(part)) {
        return Category::Gc;
    }
    Category::Native
}

/// What a thread is for, by the functions nearest to its root, outermost first.
pub fn role_of_roots<'a>(roots: impl Iterator<Item = &'a str>) -> Option<ThreadRole> {
    roots.take(8).find_map(|name| {
        if name.contains("node::worker::Worker::") {
            Some(ThreadRole::Worker)
        } else if name == "worker" || name == "uv__worker" {
            // libuv's src/threadpool.c.
            Some(ThreadRole::Pool)
        } else if name.contains("PlatformWorkerThread")
            || name.contains("WorkerThreadsTaskRunner")
            || name.contains("v8::platform::")
        {
            Some(ThreadRole::Platform)
        } else if name == "main" || name.starts_with("node::Start") {
            Some(ThreadRole::Main)
        } else {
            None
        }
    })
}

/// What a thread is for, by the name the kernel knows (node 22 to 26; older ones say `node`).
pub fn role_of_name(name: &str) -> ThreadRole {
    match name {
        "libuv-worker" => ThreadRole::Pool,
        "V8Worker" | "node-V8Worker" | "DelayedTaskSche" => ThreadRole::Platform,
        "WorkerThread" => ThreadRole::Worker,
        "MainThread" | "node-MainThread" => ThreadRole::Main,
        _ => ThreadRole::Other,
    }
}

/// A better name for a thread that only carries its process's.
pub fn name_for_role(role: ThreadRole) -> Option<&'static str> {
    match role {
        ThreadRole::Pool => Some("libuv-worker"),
        ThreadRole::Platform => Some("V8Worker"),
        // Workers are numbered.
        ThreadRole::Worker | ThreadRole::Main | ThreadRole::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_functions_have_categories() {
        assert_eq!(category_of_file("node:internal/timers"), Category::NodeCore);
        assert_eq!(category_of_file("ext:core/01_core.js"), Category::NodeCore);
        assert_eq!(
            category_of_file("/app/node_modules/lodash/x.js"),
            Category::Dependency
        );
        assert_eq!(category_of_file("/app/server.js"), Category::App);
        assert_eq!(category_of_file("events.js"), Category::NodeCore);
        assert_eq!(category_of_file("_http_server.js"), Category::NodeCore);
        assert_eq!(category_of_file("/app/events.js"), Category::App);
        assert_eq!(category_of_file("server.js"), Category::App);
        assert_eq!(category_of_native("Builtins_ArrayMap"), Category::Builtin);
        for stub in [
            "JSEntry",
            "LdaSmiHandler",
            "CEntry_Return1_ArgvOnStack_NoBuiltinExit",
        ] {
            let name = format!("Builtins_{stub}");
            assert_eq!(category_of_native(&name), Category::Internal, "{name}");
        }
        assert_eq!(category_of_native("_start"), Category::Internal);
        assert_eq!(
            category_of_native("v8::internal::ScavengerCollector::CollectGarbage"),
            Category::Gc
        );
        assert_eq!(
            category_of_native("myapp::Scavenger::run"),
            Category::Native
        );
    }

    #[test]
    fn threads_are_known_by_their_roots() {
        let pool = ["clone3", "start_thread", "worker", "uv__work_done"];
        assert_eq!(role_of_roots(pool.into_iter()), Some(ThreadRole::Pool));
        let main = ["_start", "__libc_start_main", "main", "node::Start"];
        assert_eq!(role_of_roots(main.into_iter()), Some(ThreadRole::Main));
        assert_eq!(role_of_roots(["clone3"].into_iter()), None);
    }
}
