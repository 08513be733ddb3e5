//! Profiles to draw.

use nodespy_model::{
    About, Category, EventType, FrameSpec, FunctionSpec, Notes, Process, Profile, ProfileBuilder,
    Thread, ThreadIndex, ThreadRole, Tier, WeightUnit,
};
use nodespy_view::{DrawOptions, Payload, Terminal, draw};

/// What the view called `name` writes for a terminal of 80 columns.
pub(crate) fn drawn(profile: &Profile, name: &str) -> String {
    let options = DrawOptions {
        terminal: Terminal {
            has_color: false,
            width_columns: 80,
        },
        payload: Payload {
            profile: b"the recording",
            base: &[],
        },
        ..DrawOptions::default()
    };
    let mut output = Vec::new();
    draw(profile, name, &options, &mut output).unwrap();
    String::from_utf8(output).unwrap()
}

/// Name, file, line, category and tier of a frame.
pub(crate) type Row<'a> = (&'a str, &'a str, u32, Category, Tier);

/// Adds `count` samples of a stack, given from the root.
pub(crate) fn add(builder: &mut ProfileBuilder, thread: ThreadIndex, rows: &[Row<'_>], count: u64) {
    let mut stack = None;
    for (name, file, line, category, tier) in rows.iter().copied() {
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name,
                file,
                line,
                column: 0,
                category,
            },
            tier,
            ..FrameSpec::default()
        });
        stack = Some(builder.stack(stack, frame));
    }
    for _ in 0..count {
        let time = builder.so_far().samples.len() as u64 * 2_000_000;
        builder.sample(time, thread, stack, 1);
    }
}

/// A web shop under load: JavaScript, its dependencies, V8, the kernel, a pool thread.
pub(crate) fn shop() -> Profile {
    use Category::{App, Builtin, Dependency, Gc, Kernel, Native, NodeCore};
    let mut builder =
        ProfileBuilder::new(EventType::new("cpu-clock", WeightUnit::Samples).at_rate(99));
    let process = builder.process(Process {
        pid: 4242,
        name: "shop".to_owned(),
        command: "node server.js".to_owned(),
        node_version: Some("v22.14.0".to_owned()),
        ..Process::default()
    });
    let main = builder.thread(Thread {
        process,
        tid: 4242,
        name: "node".to_owned(),
        role: ThreadRole::Main,
        ..Thread::default()
    });
    let pool = builder.thread(Thread {
        process,
        tid: 4247,
        name: "libuv-worker".to_owned(),
        role: ThreadRole::Pool,
        ..Thread::default()
    });
    let node = "/usr/local/bin/node";
    let start: Row<'_> = ("node::Start(int, char**)", node, 0, Native, Tier::None);
    let turn: Row<'_> = ("uv_run", node, 0, Native, Tier::None);
    let request: Row<'_> = (
        "parserOnIncoming",
        "node:_http_server",
        1010,
        NodeCore,
        Tier::Baseline,
    );
    let route: Row<'_> = (
        "Layer.handle",
        "/srv/shop/node_modules/express/lib/router/layer.js",
        95,
        Dependency,
        Tier::Maglev,
    );
    let cart: Row<'_> = (
        "totalOfCart",
        "/srv/shop/lib/cart/total.js",
        17,
        App,
        Tier::Optimized,
    );
    let price: Row<'_> = (
        "(anonymous)",
        "/srv/shop/lib/cart/total.js",
        21,
        App,
        Tier::Optimized,
    );
    let render: Row<'_> = (
        "render",
        "/srv/shop/lib/pages/cart.js",
        8,
        App,
        Tier::Interpreted,
    );
    let sort: Row<'_> = ("Builtins_ArrayPrototypeSort", node, 0, Builtin, Tier::None);
    let json: Row<'_> = (
        "v8::internal::JsonStringifier::Serialize_(v8::internal::Handle<v8::internal::Object>)",
        node,
        0,
        Native,
        Tier::None,
    );
    let sweep: Row<'_> = (
        "v8::internal::ScavengerCollector::CollectGarbage()",
        node,
        0,
        Gc,
        Tier::None,
    );
    let copy: Row<'_> = (
        "memcpy",
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
        0,
        Native,
        Tier::None,
    );
    let send: Row<'_> = ("tcp_sendmsg", "[kernel]", 0, Kernel, Tier::None);
    let inflate: Row<'_> = ("inflate_fast", node, 0, Native, Tier::None);
    let base = [start, turn, request, route];
    let with = |rows: &[Row<'static>]| [&base[..], rows].concat();
    add(&mut builder, main, &with(&[cart]), 61);
    add(&mut builder, main, &with(&[cart, price]), 122);
    add(&mut builder, main, &with(&[cart, price, sort]), 55);
    add(&mut builder, main, &with(&[render]), 17);
    add(&mut builder, main, &with(&[render, json]), 40);
    add(&mut builder, main, &with(&[render, json, sweep]), 24);
    add(&mut builder, main, &with(&[render, json, sweep, copy]), 9);
    add(&mut builder, main, &[start, turn, send], 31);
    add(&mut builder, pool, &[inflate], 38);
    add(&mut builder, pool, &[], 3);
    builder.finish(
        About {
            app: "shop".to_owned(),
            host: "web-3".to_owned(),
            engine: "perf events".to_owned(),
            started_unix: 1_700_000_000_000_000_000,
            duration: 5_000_000_000,
            nodespy_version: "0.1.0".to_owned(),
        },
        Notes {
            unwound_stacks: 369,
            incomplete_stacks: 4,
            jit_frames: 1400,
            jit_named: [1390, 0, 0, 0, 0],
            lost_samples: 2,
            remarks: vec![
                "names of kernel functions are hidden; `sysctl kernel.kptr_restrict=0` shows them"
                    .to_owned(),
            ],
            ..Notes::default()
        },
    )
}
