//! Processes that map without end.

use nodespy_model::FileIdentity;

use super::*;
use crate::image_budget::OpenFiles;
use crate::resolve::mappings::MAX_REGIONS;

/// Its own page for each number.
fn start(number: u64) -> u64 {
    0x10_0000 + number * 0x1000
}

/// A file of its own for each number.
fn file(pid: u32, number: u64) -> Mapping {
    Mapping {
        pid,
        start: start(number),
        end: start(number) + 0x1000,
        file_offset: 0,
        path: format!("/lib.{number}"),
        file: FileIdentity {
            device: (8, 1),
            inode: 100 + number,
            ..Default::default()
        },
        time: 0,
    }
}

fn anonymous(pid: u32, number: u64) -> Event<'static> {
    mapping(pid, start(number), "")
}

fn regions(resolver: &Resolver, pid: u32) -> usize {
    let index = resolver.processes.index_of(pid).unwrap();
    resolver.processes.get(index).map.len()
}

#[test]
fn files_that_are_mapped_and_unmapped_without_end_leave_nothing_open() {
    let (mut resolver, asked) = resolver();
    asked.borrow_mut().opened = Some(Vec::new());
    // The list writes its path in another way.
    let path = "/lib.0 (deleted)".to_owned();
    asked.borrow_mut().mapped = vec![Mapping { path, ..file(1, 0) }];
    resolver.take(Event::Mapping(file(1, 0)));
    resolver.take(sample(1, 1, 1, &[start(0) + 0x10]));
    let mut most = (0, 0, 0);
    for number in 1..100_000 {
        resolver.take(Event::Mapping(file(1, number)));
        if number == 5 {
            // Long unmapped when it gets its name.
            resolver.take(sample(1, 1, 2, &[start(5) + 0x20]));
        }
        most.0 = most.0.max(regions(&resolver, 1));
        most.1 = most.1.max(resolver.binaries.count());
        most.2 = most.2.max(resolver.binaries.open_count());
    }
    assert!(most.0 <= 4097, "{most:?}");
    assert!(
        most.1 < 9000 && resolver.binaries.images.len() < 9000,
        "{most:?}"
    );
    assert!(most.2 <= OpenFiles::max() + 1, "{most:?}");
    resolver.take(sample(1, 1, 3, &[start(0) + 0x30]));
    let stacks = stacks(&slice(&mut resolver));
    assert_eq!(
        stacks,
        [["[lib.0+0x10]"], ["[lib.5+0x20]"], ["[lib.0+0x30]"]]
    );
    let opened = asked.borrow_mut().opened.take().unwrap();
    let of_first = opened.iter().filter(|path| path.starts_with("/lib.0"));
    assert!(of_first.count() <= 2, "once, and again if it was closed");
}

#[test]
fn anonymous_memory_at_new_addresses_is_compared_with_what_is_mapped() {
    let (mut resolver, asked) = resolver();
    asked.borrow_mut().mapped = vec![file(1, 0)];
    resolver.take(Event::Mapping(file(1, 0)));
    for number in 1..100_000 {
        resolver.take(anonymous(1, number));
        // What is mapped before a fork counts for the parent and for the child.
        if number % 1000 == 0 {
            resolver.take(fork(2, 2, 1));
            assert!(regions(&resolver, 2) <= 4097);
        }
    }
    assert!(regions(&resolver, 1) <= 4097);
    resolver.take(sample(1, 1, 3, &[start(0) + 0x30]));
    assert_eq!(stacks(&slice(&mut resolver)), [["[lib.0+0x30]"]]);
}

#[test]
fn a_process_that_really_has_many_mappings_keeps_them() {
    let (mut resolver, asked) = resolver();
    asked.borrow_mut().mapped = (0..20_000).map(|number| file(1, number)).collect();
    for number in 0..20_000 {
        resolver.take(Event::Mapping(file(1, number)));
    }
    let place = start(19_999) + 1;
    resolver.take(sample(1, 1, 3, &[place, start(0) + 2]));
    let names = stacks(&slice(&mut resolver));
    assert_eq!(names, [["[lib.19999+0x1]", "[lib.0+0x1]"]]);
}

#[test]
fn where_nothing_says_what_is_mapped_there_is_an_end() {
    let (mut resolver, _) = resolver();
    for number in 0..=MAX_REGIONS as u64 + 9 {
        resolver.take(anonymous(1, number));
    }
    assert_eq!(regions(&resolver, 1), MAX_REGIONS + 1);
    let profile = slice(&mut resolver);
    assert_eq!(
        profile.notes.remarks,
        ["process 1 mapped code more than 262144 times: what it mapped after that has no names"]
    );
    // Another program starts afresh.
    resolver.take(exec(1, "other"));
    resolver.take(mapping(1, 0x1000, "/bin/other"));
    assert_eq!(regions(&resolver, 1), 1);
}

#[test]
fn a_file_that_was_closed_is_opened_again_when_it_is_in_a_stack() {
    let (mut resolver, asked) = resolver();
    asked.borrow_mut().opened = Some(Vec::new());
    let count = OpenFiles::max() as u64 + 10;
    for number in 0..count {
        resolver.take(Event::Mapping(file(1, number)));
    }
    assert!(resolver.binaries.open_count() <= OpenFiles::max());
    let all = || (0..count).map(|number| start(number) + 1);
    for (time, address) in all().enumerate() {
        resolver.take(sample(1, 1, time as u64, &[address]));
    }
    slice(&mut resolver);
    assert!(resolver.binaries.open_count() <= OpenFiles::max());
    let opened = asked.borrow_mut().opened.replace(Vec::new()).unwrap();
    let times = |path: String| opened.iter().filter(|opened| **opened == path).count();
    let last = format!("/lib.{}", count - 1);
    assert_eq!((times("/lib.0".to_owned()), times(last)), (2, 1));
    // What was read once is not read again.
    all().for_each(|address| resolver.take(sample(1, 1, 9, &[address])));
    slice(&mut resolver);
    assert_eq!(asked.borrow_mut().opened, Some(Vec::new()));
}

#[test]
fn another_file_at_the_place_of_one_that_was_closed_is_not_taken_for_it() {
    let (mut resolver, asked) = resolver();
    asked.borrow_mut().opened = Some(Vec::new());
    for number in 0..=OpenFiles::max() as u64 {
        resolver.take(Event::Mapping(file(1, number)));
    }
    let open = resolver.binaries.open_count();
    asked.borrow_mut().are_replaced = true;
    resolver.take(sample(1, 1, 1, &[start(0) + 1]));
    assert_eq!(stacks(&slice(&mut resolver)), [["[lib.0+0x1]"]]);
    let opened = asked.borrow_mut().opened.take().unwrap();
    assert_eq!(opened.last().unwrap(), "/lib.0");
    assert_eq!(resolver.binaries.open_count(), open);
}
