//! Our own format.

use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use nodespy_formats::{
    Detail, EXPORTERS, Excess, ImportError, ImportOptions, Limits, NATIVE_VERSION, import,
    import_file,
};
use nodespy_model::{EventType, FrameKind, Profile, Sample};
use proptest::prelude::*;

use crate::sample::{
    any_profile, as_filed, read, small, small_with_sources, two_events, with_timelines, written,
};

const HEADER_BYTES: usize = 16;

/// The unpacked content of a file.
fn unpacked(file: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    GzDecoder::new(&file[HEADER_BYTES..])
        .read_to_end(&mut content)
        .unwrap();
    content
}

/// A file with this content.
fn packed(version: u8, content: &[u8]) -> Vec<u8> {
    let mut file = b"NSPY\r\n\x1a\n\0\0\0\0\0\0\0\0".to_vec();
    file[8] = version;
    let mut packer = GzEncoder::new(&mut file, Compression::fast());
    packer.write_all(content).unwrap();
    packer.finish().unwrap();
    file
}

/// Every sample, its stack as the frames it is made of: a file has stacks in an order of its own.
fn with_frames(profile: &Profile) -> Vec<(Sample, Option<Vec<u32>>)> {
    let frames = |stack| profile.frames_of(stack).map(|frame| frame.0).collect();
    let with_frames = |sample: &Sample| {
        let without = Sample {
            stack: None,
            ..*sample
        };
        (without, sample.stack.map(frames))
    };
    profile.samples.iter().map(with_frames).collect()
}

/// Checks that a profile is the same after writing and reading.
#[track_caller]
fn comes_back(profile: &Profile) {
    let bytes = written(profile, "nspy");
    let back = read(&bytes).unwrap();
    assert_eq!(with_frames(&back), with_frames(profile));
    assert_eq!(back.stacks.len(), profile.stacks.len());
    assert_eq!(unpacked(&written(&back, "nspy")), unpacked(&bytes));
    let rest = |profile: &Profile| Profile {
        stacks: Vec::new(),
        samples: Vec::new(),
        ..profile.clone()
    };
    assert_eq!(rest(&back), rest(profile));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_profile_comes_back_as_it_was(profile in any_profile()) {
        comes_back(&profile);
    }
}

#[test]
fn empty_and_small_profiles_come_back_as_they_were() {
    let empty = Profile {
        events: vec![EventType::default()],
        ..Profile::default()
    };
    for profile in [
        empty,
        small(),
        small_with_sources(),
        two_events(),
        with_timelines(),
    ] {
        comes_back(&profile);
    }
}

#[test]
fn labels_come_back_as_they_were() {
    let mut profile = small();
    let mut second = profile.processes[0].clone();
    second.labels.set("worker", "2");
    second.labels.set("container", "web");
    profile.processes.push(second);
    profile.processes[0].labels.set("pod", "api-7d9f");
    comes_back(&profile);
}

#[test]
fn a_label_of_no_process_is_an_error() {
    // A section 13 with one row, for process 7 of which there is none, key `a`, value `b`.
    let labels = [13, 6, 1, 7, 1, b'a', 1, b'b'];
    let error = read(&packed(2, &labels)).unwrap_err();
    assert!(error.to_string().contains("processes"), "{error}");
}

#[test]
fn intervals_that_can_not_be_are_errors() {
    // A section 8 with a thread, a section 25 with a row for it: so many doublings, intervals before
    // the first and intervals; in each it was watched for 9 ns, of which 5 busy, and no stalls.
    let timeline = |doublings: u8, first: &[u8], rows: u8| {
        let mut content = vec![7, 11, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        content.extend([8, 5, 1, 0, 7, 0, 0]);
        let mut section = vec![1, 0, doublings];
        section.extend(first);
        section.push(rows);
        section.extend(std::iter::repeat_n(9, rows.into()));
        section.extend(std::iter::repeat_n(5, rows.into()));
        section.push(0);
        content.extend([25, section.len() as u8]);
        content.extend(section);
        content.extend([0, 0]);
        read(&packed(3, &content)).map(|profile| profile.threads[0].loop_timeline.clone())
    };
    let known = timeline(3, &[2], 2).unwrap().unwrap();
    assert_eq!(known.intervals.length(), 400_000_000);
    assert_eq!(known.intervals.rows().len(), 2);
    // 2,047 is the last one there is.
    assert!(timeline(0, &[0xff, 0x0f], 1).is_ok());
    let error = timeline(0, &[0xff, 0x0f], 2).unwrap_err().to_string();
    assert!(error.contains("2 intervals from 2047 on"), "{error}");
    assert!(timeline(31, &[0], 1).is_err());
}

#[test]
fn golden_version_1_still_opens() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/nspy/v1-small.nspy");
    assert_eq!(read(&std::fs::read(&path).unwrap()).unwrap(), small());
}

#[test]
fn golden_version_2_still_opens() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/nspy/v2-small.nspy");
    let profile = read(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(profile, as_filed(&small_with_sources()));
}

#[test]
fn golden_version_3_opens_and_is_what_is_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/nspy/v3-small.nspy");
    let profile = small_with_sources();
    // An old file is never rewritten: that it opens as it is, is the point.
    if !path.exists() && std::env::var_os("NODESPY_REWRITE_GOLDEN").is_some() {
        std::fs::write(&path, written(&profile, "nspy")).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(read(&bytes).unwrap(), as_filed(&profile));
    // The packed bytes may change with the packer; the content may not.
    assert_eq!(unpacked(&written(&profile, "nspy")), unpacked(&bytes));
}

#[test]
fn source_text_without_end_is_left_out_with_a_remark() {
    let mut profile = small_with_sources();
    for source in &mut profile.sources {
        source.text = "x".repeat(40 << 20);
    }
    assert_eq!(profile.sources.len(), 2);
    let back = read(&written(&profile, "nspy")).unwrap();
    assert_eq!(back.sources, profile.sources[..1]);
    let remark = back.notes.remarks.last().unwrap();
    assert!(remark.contains("1 of 2 source files"), "{remark}");
}

#[test]
fn many_samples_go_into_several_sections() {
    let mut profile = small();
    let first = profile.samples[0];
    profile.samples = (0..200_000)
        .map(|position| Sample {
            time: position * 1_000_003,
            weight: 1,
            ..first
        })
        .collect();
    let bytes = written(&profile, "nspy");
    let profile = read(&bytes).unwrap();
    assert_eq!(profile.samples.len(), 200_000);
    // Whole sections before the cut are kept, and the reader is told.
    let cut = read(&bytes[..bytes.len() * 2 / 3]).unwrap();
    assert_eq!(cut.samples.len() % (1 << 16), 0);
    assert_eq!(cut.samples[..], profile.samples[..cut.samples.len()]);
    let remark = cut.notes.remarks.last().unwrap();
    assert!(
        remark.contains("of 200000 samples could be read"),
        "{remark}"
    );
}

#[test]
fn equal_profiles_give_equal_bytes() {
    assert_eq!(written(&small(), "nspy"), written(&small(), "nspy"));
}

#[test]
fn the_version_is_readable_without_unpacking_and_a_newer_one_is_refused() {
    let mut bytes = written(&small(), "nspy");
    // Nodespys before version 4 read a file with one event, and those before version 5 one without async frames.
    assert_eq!(bytes[8..12], (NATIVE_VERSION - 2).to_le_bytes());
    let of_two = written(&two_events(), "nspy");
    assert_eq!(of_two[8..12], (NATIVE_VERSION - 1).to_le_bytes());
    let mut with_async = small();
    with_async.frames[0].kind = FrameKind::Async;
    let with_async = written(&with_async, "nspy");
    assert_eq!(with_async[8..12], NATIVE_VERSION.to_le_bytes());
    bytes[8] = 9;
    let error = read(&bytes).unwrap_err();
    assert!(matches!(
        error,
        ImportError::NewerVersion { version: 9, .. }
    ));
}

#[test]
fn formats_without_a_mark_for_async_frames_say_so() {
    for exporter in EXPORTERS {
        let says_so = exporter.leaves_out().contains(&Detail::AsyncFrames);
        assert_eq!(says_so, exporter.name() != "nspy", "{}", exporter.name());
    }
}

#[test]
fn a_cut_file_says_where_it_ends() {
    let bytes = written(&small(), "nspy");
    for length in 1..bytes.len() {
        match read(&bytes[..length]) {
            Err(ImportError::Cut { at }) => assert_eq!(at, length as u64),
            Err(ImportError::Unrecognized) => assert!(length < 4),
            // Only gzip's checksum is missing: nothing is lost, and it is said.
            Ok(profile) => {
                assert!(length >= bytes.len() - 16, "{length} of {}", bytes.len());
                assert!(profile.notes.remarks.last().unwrap().contains("cut off"));
            }
            other => panic!("{length} bytes: {other:?}"),
        }
    }
}

#[test]
fn a_flipped_bit_in_the_packed_bytes_is_noticed() {
    let bytes = written(&small(), "nspy");
    let whole = as_filed(&small());
    for position in HEADER_BYTES + 10..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[position] ^= 4;
        // The last bits of the packed stream mean nothing; a flip elsewhere can look like a cut.
        if let Ok(profile) = read(&damaged) {
            let remark = profile.notes.remarks.last().unwrap();
            assert!(profile == whole || remark.contains("cut off"), "{position}");
        }
    }
}

#[test]
fn unknown_sections_and_further_columns_are_skipped() {
    let content = unpacked(&written(&small(), "nspy"));
    let mut later = vec![77, 3, 1, 2, 3];
    later.extend_from_slice(&content);
    assert_eq!(read(&packed(3, &later)).unwrap(), as_filed(&small()));
    // The first section gets one more field at its end.
    let length = usize::from(content[1]);
    assert!(content[0] == 1 && length < 127);
    let mut later = vec![1, content[1] + 1];
    later.extend_from_slice(&content[2..2 + length]);
    later.push(42);
    later.extend_from_slice(&content[2 + length..]);
    assert_eq!(read(&packed(3, &later)).unwrap(), as_filed(&small()));
}

#[test]
fn a_small_file_cannot_unpack_without_end() {
    let mut content = vec![77];
    content.extend([0x80, 0x80, 0x80, 0x80, 0x04]);
    content.resize(64 << 20, 0);
    let options = ImportOptions {
        limits: Limits {
            unpacked_bytes: 1 << 20,
            ..Limits::default()
        },
        ..ImportOptions::default()
    };
    let error = import(packed(2, &content).into(), &options).unwrap_err();
    assert!(matches!(error, ImportError::TooLarge { limit_bytes } if limit_bytes == 1 << 20));
}

#[test]
fn a_small_file_cannot_hold_tables_without_end() {
    // Strings of no bytes: each takes a byte of the content, and packs to next to nothing.
    let rows: u32 = 32 << 20;
    let mut table = varint(rows.into());
    table.resize(table.len() + rows as usize, 0);
    let mut content = vec![3];
    content.extend(varint(table.len() as u64));
    content.extend(table);
    let file = packed(3, &content);
    let limit = 16 * file.len() as u64;
    assert!(limit < rows.into());
    let error = import(file.into(), &ImportOptions::default()).unwrap_err();
    assert!(
        matches!(error, ImportError::Exceeded(Excess::Rows { limit: most, .. }) if most == limit),
        "{error}"
    );
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

#[test]
fn rows_that_refer_to_nothing_are_refused_with_their_place() {
    for (version, content, expected) in [
        (1, vec![9, 5, 1, 0, 1, 0, 0], "row 0 of 0 threads"),
        (2, vec![9, 7, 1, 1, 0, 1, 1, 0, 0], "row 0 of 0 threads"),
        (2, vec![12, 3, 1, 0, 0], "row 0 of 0 strings"),
        (2, vec![4, 6, 1, 0, 0, 0, 0, 0], "row 0 of 0 strings"),
        (2, vec![6, 3, 1, 1, 0], "row 1 of 1 stacks"),
        (3, vec![9, 7, 1, 1, 0, 1, 1, 0, 0], "row 0 of 0 threads"),
        (
            3,
            vec![9, 7, 1, 1, 255, 0xff, 0xff, 0xff, 0xff],
            "ends in the middle of a value",
        ),
        (2, vec![3, 2, 1, 9], "9 bytes do not fit"),
        (2, vec![3, 3, 1, 1, 0xff], "a text is not UTF-8"),
        (2, vec![1, 1, 9], "there is no unit 9"),
        (
            2,
            vec![9, 2, 0xff, 0x7f],
            "16383 rows are announced, 0 would fit",
        ),
        (2, vec![], "the content ends before its last section"),
    ] {
        let error = read(&packed(version, &content)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().starts_with("byte "), "{error}");
    }
}

#[test]
fn bytes_after_the_end_are_remarked() {
    let mut bytes = written(&small(), "nspy");
    bytes.extend_from_slice(b"and more");
    let profile = read(&bytes).unwrap();
    assert!(
        profile
            .notes
            .remarks
            .last()
            .unwrap()
            .contains("8 bytes after the end")
    );
}

#[test]
fn a_directory_an_empty_file_and_a_missing_one_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let error = import_file(folder.path(), &ImportOptions::default()).unwrap_err();
    assert!(matches!(error, ImportError::Directory { .. }));
    let path = folder.path().join("empty.nspy");
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(
        import_file(&path, &ImportOptions::default()),
        Err(ImportError::Empty)
    ));
    assert!(matches!(
        import_file(&path, &ImportOptions::from(Some("nspy"))),
        Err(ImportError::Empty)
    ));
    let error =
        import_file(Path::new("/nowhere/at/all.nspy"), &ImportOptions::default()).unwrap_err();
    assert!(matches!(error, ImportError::Open { .. }));
    std::fs::write(&path, b"hello").unwrap();
    let error = import_file(&path, &ImportOptions::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("nodespy reads nspy, html, folded"),
        "{error}"
    );
    let error = import_file(&path, &ImportOptions::from(Some("pdf"))).unwrap_err();
    assert!(error.to_string().contains("no format called \"pdf\""));
}
