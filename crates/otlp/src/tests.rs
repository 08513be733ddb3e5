//! What is encoded comes back, what OpenTelemetry's own messages say is read, and no bytes do harm.

use nodespy_model::{Category, FrameKind, Labels, ThreadRole, WeightUnit};
use nodespy_store::{
    Batch, Count, Series, StoredFrame, StoredFunction, Symbols, Window, batch_to_bytes,
};
use proptest::prelude::*;
use prost::Message;

use crate::messages::{AnyValue, ExportProfilesServiceRequest, Function, Value, ValueType};
use crate::{Decoded, OtlpError, decode, encode, rejected, success_but};

/// Made by tools/fixtures/otlp.py with opentelemetry-proto 1.45.2 of PyPI.
const EBPF_PROFILER: &[u8] = include_bytes!("../../../fixtures/otlp/ebpf_profiler.pb");

fn batch() -> Batch {
    let function = |name: &str, file: &str, line, category| StoredFunction {
        name: name.to_owned(),
        file: file.to_owned(),
        line,
        column: 0,
        category,
    };
    let symbols = Symbols {
        functions: vec![
            function("serve", "/app/shop.js", 1, Category::App),
            function("parseOrders", "/app/shop.js", 4, Category::App),
            function("vfs_read", "[kernel]", 0, Category::Kernel),
        ],
        frames: (0..3)
            .map(|function| StoredFrame {
                function,
                line: function * 10,
                ..StoredFrame::default()
            })
            .collect(),
        stacks: vec![vec![0, 1], vec![0, 2], vec![]],
    };
    let series = |version: &str, pid: &str, period| {
        let mut labels = Labels::default();
        let all = [("version", version), ("pid", pid), ("host", "web-1")];
        for (key, value) in all
            .into_iter()
            .chain([("pod", "shop-7"), ("team", "orders")])
        {
            labels.set(key, value);
        }
        Series {
            service: "shop".to_owned(),
            event: "cpu".to_owned(),
            unit: WeightUnit::Nanoseconds,
            period,
            labels,
        }
    };
    let hashes = symbols.hashes();
    let window = |series, start, count| Window {
        series,
        start,
        counts: vec![
            Count::new(hashes[0], ThreadRole::Main, count),
            Count::new(hashes[1], ThreadRole::Pool, 1),
            Count::new(hashes[2], ThreadRole::Main, 2),
        ],
    };
    Batch {
        series: vec![
            series("1.0.0", "12", 1_000_000_000 / 19),
            series("1.1.0", "13", 1_000_000_000 / 7),
        ],
        windows: vec![
            window(0, 1_700_000_000, 5),
            window(0, 1_700_000_010, 6),
            window(1, 1_700_000_000, 7),
        ],
        symbols,
    }
}

/// Each count with all that it belongs to, so that batches can be compared whatever their order.
fn lines(batch: &Batch) -> Vec<String> {
    let hashes = batch.symbols.hashes();
    let frame = |frame: &u32| {
        let frame = batch.symbols.frames[*frame as usize];
        let function = &batch.symbols.functions[frame.function as usize];
        format!("{} {:?} {}", function.name, function.category, frame.line)
    };
    let mut lines = Vec::new();
    for window in &batch.windows {
        let series = &batch.series[window.series];
        for count in &window.counts {
            let position = hashes.iter().position(|it| *it == count.stack).unwrap();
            let stack: Vec<String> = batch.symbols.stacks[position].iter().map(frame).collect();
            lines.push(format!(
                "{series:?} {} {} {} {}",
                window.start,
                count.role().label(),
                count.count,
                stack.join(";")
            ));
        }
    }
    lines.sort();
    lines
}

#[test]
fn windows_come_back_as_they_were_sent() {
    let sent = batch();
    let packed = encode(&sent);
    assert_eq!(packed, encode(&sent));
    let received = decode(&packed, Some("gzip")).unwrap().batch;
    assert_eq!(lines(&received), lines(&sent));
    // It is what any store takes.
    let again = nodespy_store::batch_from_bytes(&batch_to_bytes(&received)).unwrap();
    assert_eq!(again.windows.len(), 3);
}

#[test]
fn what_opentelemetrys_profiler_sends_is_read() {
    let batch = decode(EBPF_PROFILER, None).unwrap().batch;
    let [shop, mailer, memory] = &batch.series[..] else {
        panic!("{:?}", batch.series)
    };
    assert_eq!((&*shop.service, &*shop.event), ("shop", "cpu"));
    assert_eq!(
        (shop.unit, shop.period),
        (WeightUnit::Nanoseconds, 50_000_000)
    );
    for (key, value) in [
        ("host", "web-1"),
        ("pid", "4711"),
        ("deployment.environment.name", "test"),
    ] {
        assert_eq!(shop.labels.get(key), Some(value));
    }
    assert_eq!(shop.labels.get("cpu.logical_number"), None);
    assert_eq!(
        (&*mailer.service, mailer.labels.get("pid")),
        ("mailer", Some("4712"))
    );
    assert_eq!(
        (&*memory.event, memory.unit),
        ("allocated_space", WeightUnit::Bytes)
    );
    let of = |series, start| {
        let window = |it: &&Window| (it.series, it.start) == (series, start);
        let [count] = &batch.windows.iter().find(window).unwrap().counts[..] else {
            panic!("{:?}", batch.windows)
        };
        (count.role(), count.count)
    };
    let start = 1_700_000_000;
    assert_eq!(of(0, start), (ThreadRole::Main, 3));
    assert_eq!(of(0, start + 10), (ThreadRole::Main, 1));
    assert_eq!(of(1, start), (ThreadRole::Pool, 5));
    assert_eq!(of(1, start + 10), (ThreadRole::Pool, 2));
    assert_eq!(of(2, start), (ThreadRole::Main, 4096));

    let frames = batch.symbols.stacks[1].iter().map(|frame| {
        let frame = batch.symbols.frames[*frame as usize];
        let function = &batch.symbols.functions[frame.function as usize];
        (&*function.name, frame.line, frame.kind, function.category)
    });
    let expected = [
        ("serve", 110, FrameKind::Physical, Category::Dependency),
        ("parseOrders", 7, FrameKind::Physical, Category::App),
        ("checkOrder", 21, FrameKind::Inlined, Category::App),
    ];
    assert_eq!(frames.collect::<Vec<_>>(), expected);
    let unnamed = batch.symbols.frames[batch.symbols.stacks[2][0] as usize].function;
    let unnamed = &batch.symbols.functions[unnamed as usize];
    assert_eq!((&*unnamed.name, &*unnamed.file), ("0x4321", "libuv.so.1"));
}

#[test]
fn what_is_too_much_is_refused_before_it_takes_memory() {
    // A hundred bytes in memory for two on the wire.
    let profiles = [18, 0].repeat(1 << 20);
    let mut scope = vec![18];
    prost::encoding::encode_varint(profiles.len() as u64, &mut scope);
    scope.extend(profiles);
    let mut request = vec![10];
    prost::encoding::encode_varint(scope.len() as u64, &mut request);
    request.extend(scope);
    assert!(matches!(
        decode(&request, None),
        Err(OtlpError::TooMany { .. })
    ));
    assert!(matches!(
        decode(&vec![0; 17 << 20], None),
        Err(OtlpError::TooLarge)
    ));
    let zeros = encode(&batch());
    assert!(matches!(
        decode(&zeros[..zeros.len() / 2], Some("gzip")),
        Err(OtlpError::Gzip(_))
    ));
    let error = decode(&zeros, Some("br")).unwrap_err();
    assert!(error.to_string().contains("gzip or none"), "{error}");
    assert!(matches!(decode(b"tea", None), Err(OtlpError::Message(_))));
    assert_eq!(decode(b"", None).unwrap().batch.windows.len(), 0);
}

proptest! {
    #[test]
    fn no_bytes_do_harm(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = EBPF_PROFILER.to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(Decoded { batch, .. }) = decode(&bytes, None) {
            let hashes = batch.symbols.checked_hashes().unwrap();
            for window in &batch.windows {
                prop_assert!(window.counts.iter().all(|count| hashes.contains(&count.stack)));
            }
        }
    }
}

/// A sender is told that its attributes are too many, and its samples are taken.
#[test]
fn attributes_beyond_what_a_process_can_have_are_counted() {
    let mut request = ExportProfilesServiceRequest::decode(EBPF_PROFILER).unwrap();
    assert_eq!(decode(EBPF_PROFILER, None).unwrap().left_out, 0);
    for of_resource in &mut request.resource_profiles {
        let resource = of_resource.resource.get_or_insert_default();
        let known = resource.attributes[0].clone();
        for number in 0..100 {
            let mut attribute = known.clone();
            attribute.key = format!("attribute.{number}");
            attribute.key_strindex = 0;
            resource.attributes.push(attribute);
        }
    }
    let decoded = decode(&request.encode_to_vec(), None).unwrap();
    assert!(decoded.left_out >= 36, "{}", decoded.left_out);
    assert!(!decoded.batch.windows.is_empty());
    for series in &decoded.batch.series {
        assert_eq!(series.labels.iter().len(), Labels::MAX);
    }
    assert_eq!(rejected(&success_but("36 attributes were left out")), None);
}

/// A few bytes can name a long text, and many rows the same one.
#[test]
fn texts_are_cut_and_their_copies_are_limited() {
    let long = "x".repeat(1 << 20);
    let mut request = ExportProfilesServiceRequest::decode(EBPF_PROFILER).unwrap();
    let dictionary = request.dictionary.get_or_insert_default();
    let row = dictionary.string_table.len() as i32;
    dictionary.string_table.push(long.clone());
    for function in &mut dictionary.function_table {
        function.name_strindex = row;
    }
    for of_resource in &mut request.resource_profiles {
        let resource = of_resource.resource.get_or_insert_default();
        for attribute in &mut resource.attributes {
            attribute.value = Some(AnyValue {
                value: Some(Value::Text(long.clone())),
            });
        }
        for profile in &mut of_resource.scope_profiles[0].profiles {
            profile.sample_type = Some(ValueType {
                type_strindex: row,
                unit_strindex: 0,
            });
        }
    }
    let batch = decode(&request.encode_to_vec(), None).unwrap().batch;
    for series in &batch.series {
        assert!(series.service.len() <= 256 && series.event.len() <= 256);
    }
    let longest = batch.symbols.functions.iter().map(|it| it.name.len()).max();
    assert_eq!(longest, Some(8192));

    let dictionary = request.dictionary.get_or_insert_default();
    let (function, location) = (
        dictionary.function_table[1],
        dictionary.location_table[1].clone(),
    );
    for number in 0..9_000 {
        let mut location = location.clone();
        location.lines[0].function_index = dictionary.function_table.len() as i32;
        dictionary.location_table.push(location);
        dictionary.function_table.push(Function {
            start_line: number,
            ..function
        });
    }
    assert!(matches!(
        decode(&request.encode_to_vec(), None),
        Err(OtlpError::TooMany {
            what: "bytes of names, files and labels",
            ..
        })
    ));
}
