//! The resolver with a stand-in for the machine: events in, profiles out, no live process.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;

use nodespy_model::EventIndex;
use nodespy_model::{
    About, Category, Event, FastMap, ImageBytes, ImageRefused, JitFile, Mapping, Nanoseconds,
    Notes, Origin, Process, ProcessIndex, Profile, RawSample, Registers, ThreadState, Tier,
    UserStack, label_key,
};

use super::Resolver;
use super::process::HeapWalk;
use crate::jit::stand_in::{CountedFile, map_file};
use crate::v8::V8;
use crate::v8::shares::Pools;
use crate::v8::stand_in::{Memory, Program, TURBOFAN, Words, node20_layout};

mod growth;

/// What was asked of the stand-in.
#[derive(Debug, Default)]
struct Asked {
    forgotten: Vec<u32>,
    /// A perf map for every process, where there is one.
    map: Option<CountedFile>,
    ended: Vec<u32>,
    /// The memory of every process, where there is any.
    memory: Option<Words>,
    /// What processes are known to be.
    described: Option<Process>,
    /// What a process has mapped now.
    mapped: Vec<Mapping>,
    /// The paths of the images that were opened, where they can be.
    opened: Option<Vec<String>>,
    /// Whether other files are at their places now.
    are_replaced: bool,
}

struct StandIn(Rc<RefCell<Asked>>);

impl Origin for StandIn {
    fn open_image(&self, mapping: &Mapping) -> Result<ImageBytes, ImageRefused> {
        let asked = &mut *self.0.borrow_mut();
        if let Some(opened) = &mut asked.opened {
            opened.push(mapping.path.clone());
            let path = if asked.are_replaced {
                "/dev/zero"
            } else {
                "/dev/null"
            };
            return Ok(ImageBytes::File(File::open(path).unwrap()));
        }
        let why = "it is a stand-in".to_owned();
        Err(ImageRefused { why })
    }

    fn open_debug_file(&self, _: u32, _: &[u8]) -> Option<File> {
        None
    }

    fn open_jit_file(&self, _: u32, _: Option<&Mapping>) -> Option<JitFile> {
        self.0.borrow().map.as_ref().map(map_file)
    }

    fn read_memory(&self, _: u32, address: u64, buffer: &mut [u8]) -> usize {
        let asked = self.0.borrow();
        let is_there = asked.memory.as_ref();
        match is_there.is_some_and(|memory| memory.fill(address, buffer)) {
            true => buffer.len(),
            false => 0,
        }
    }

    fn mappings(&self, pid: u32) -> Vec<Mapping> {
        let mapped = self.0.borrow().mapped.clone();
        mapped
            .into_iter()
            .map(|mapping| Mapping { pid, ..mapping })
            .collect()
    }

    fn describe(&self, _: u32) -> Option<Process> {
        self.0.borrow().described.clone()
    }

    fn has_ended(&self, pid: u32) -> bool {
        self.0.borrow().ended.contains(&pid)
    }

    fn forget(&self, pid: u32) {
        self.0.borrow_mut().forgotten.push(pid);
    }

    fn kernel_symbols(&self, _: Option<&Mapping>) -> Result<Box<dyn std::io::Read>, ImageRefused> {
        let text = "ffffffff81000000 T _text\nffffffff81000100 t do_syscall_64\n";
        Ok(Box::new(text.as_bytes()))
    }
}

fn resolver() -> (Resolver, Rc<RefCell<Asked>>) {
    let asked = Rc::new(RefCell::new(Asked::default()));
    (Resolver::new(Box::new(StandIn(Rc::clone(&asked)))), asked)
}

fn slice(resolver: &mut Resolver) -> Profile {
    resolver.slice(About::default(), Notes::default(), 0)
}

fn sample(pid: u32, tid: u32, time: Nanoseconds, chain: &[u64]) -> Event<'static> {
    Event::Sample(RawSample {
        labels: Default::default(),
        event: EventIndex::default(),
        weight: 1,
        time,
        pid,
        tid,
        cpu: None,
        state: ThreadState::Unknown,
        kernel: Vec::new().into(),
        user: UserStack::Chain(chain.to_vec().into()),
        memory: Default::default(),
        is_copied_at_sample: false,
        stands_still: false,
    })
}

fn fork(pid: u32, tid: u32, parent_pid: u32) -> Event<'static> {
    Event::Fork {
        pid,
        tid,
        parent_pid,
        time: 1,
    }
}

fn exit(pid: u32, tid: u32, time: Nanoseconds) -> Event<'static> {
    Event::Exit { pid, tid, time }
}

fn exec(pid: u32, name: &str) -> Event<'static> {
    Event::ThreadName {
        pid,
        tid: pid,
        name: name.to_owned(),
        is_exec: true,
        time: 2,
    }
}

fn mapping(pid: u32, start: u64, path: &str) -> Event<'static> {
    Event::Mapping(Mapping {
        pid,
        start,
        end: start + 0x1000,
        file_offset: 0,
        path: path.to_owned(),
        file: Default::default(),
        time: 0,
    })
}

fn pids(profile: &Profile) -> Vec<u32> {
    profile
        .processes
        .iter()
        .map(|process| process.pid)
        .collect()
}

/// The names of the stack of each sample, leaf first.
fn stacks(profile: &Profile) -> Vec<Vec<String>> {
    let of = |sample: &nodespy_model::Sample| {
        let frames = sample.stack.into_iter();
        let frames = frames.flat_map(|stack| profile.frames_of(stack));
        let names = frames.map(|frame| profile.name_of(profile.frame(frame).function).to_owned());
        names.collect()
    };
    profile.samples.iter().map(of).collect()
}

#[test]
fn a_child_has_the_mappings_of_its_parent_until_it_starts_a_program() {
    let (mut resolver, _) = resolver();
    resolver.take(mapping(1, 0x1000, "/bin/parent"));
    resolver.take(fork(2, 2, 1));
    resolver.take(sample(2, 2, 5, &[0x1010]));
    resolver.take(exec(2, "other"));
    resolver.take(sample(2, 2, 6, &[0x1010]));
    resolver.take(mapping(2, 0x1000, "/bin/other"));
    resolver.take(sample(2, 2, 7, &[0x1010]));
    resolver.take(sample(1, 1, 8, &[0x1010]));
    let profile = slice(&mut resolver);
    let stacks = stacks(&profile);
    assert_eq!(
        stacks,
        [
            ["[parent+0x10]"],
            ["[unknown]"],
            ["[other+0x10]"],
            ["[parent+0x10]"]
        ]
    );
    assert_eq!(profile.processes[1].parent_pid, 0, "described anew by exec");
}

#[test]
fn a_process_that_has_ended_is_in_the_slice_it_ended_in_and_in_none_after() {
    let (mut resolver, asked) = resolver();
    resolver.take(mapping(1, 0x1000, "/bin/one"));
    resolver.take(fork(2, 2, 1));
    resolver.take(sample(2, 2, 5, &[0x1010]));
    resolver.take(exit(2, 2, 6));
    let first = slice(&mut resolver);
    assert_eq!(pids(&first), [1, 2]);
    assert_eq!(first.processes[1].ended, Some(6));
    assert_eq!(stacks(&first), [["[one+0x10]"]]);
    assert!(
        asked.borrow().forgotten.is_empty(),
        "its sources may be asked for"
    );
    assert_eq!(pids(&slice(&mut resolver)), [1]);
    assert_eq!(asked.borrow().forgotten, [2]);
}

#[test]
fn a_process_runs_on_in_other_threads_when_its_main_one_has_ended() {
    let (mut resolver, _) = resolver();
    resolver.take(sample(1, 1, 1, &[0x1010]));
    resolver.take(sample(1, 7, 2, &[0x1010]));
    resolver.take(exit(1, 1, 3));
    assert_eq!(pids(&slice(&mut resolver)), [1]);
    resolver.take(sample(1, 7, 4, &[0x1010]));
    let second = slice(&mut resolver);
    assert_eq!((pids(&second), second.threads.len()), (vec![1], 1));
    // Its end was not seen, but nothing is either.
    assert_eq!(pids(&slice(&mut resolver)), [1]);
    assert!(pids(&slice(&mut resolver)).is_empty());
}

#[test]
fn a_process_whose_exit_was_lost_is_dropped_too() {
    let (mut resolver, asked) = resolver();
    resolver.take(sample(1, 1, 1, &[0x1010]));
    resolver.take(sample(2, 2, 1, &[0x1010]));
    asked.borrow_mut().ended.extend([1, 2]);
    assert_eq!(pids(&slice(&mut resolver)), [1, 2]);
    resolver.take(sample(2, 2, 2, &[0x1010]));
    assert_eq!(pids(&slice(&mut resolver)), [1, 2]);
    assert_eq!(pids(&slice(&mut resolver)), [2]);
}

#[test]
fn a_pid_can_belong_to_another_process_in_the_same_slice_and_in_the_next() {
    let (mut resolver, asked) = resolver();
    resolver.take(mapping(1, 0x1000, "/bin/one"));
    resolver.take(mapping(2, 0x1000, "/bin/two"));
    resolver.take(sample(2, 2, 1, &[0x1010]));
    resolver.take(exit(2, 2, 2));
    resolver.take(fork(2, 2, 1));
    resolver.take(sample(2, 2, 3, &[0x1010]));
    let first = slice(&mut resolver);
    assert_eq!(pids(&first), [1, 2, 2]);
    assert_eq!(stacks(&first), [["[two+0x10]"], ["[one+0x10]"]]);
    assert_ne!(first.samples[0].thread, first.samples[1].thread);
    resolver.take(exit(2, 2, 4));
    assert_eq!(pids(&slice(&mut resolver)), [1, 2]);
    resolver.take(mapping(2, 0x1000, "/bin/three"));
    resolver.take(sample(2, 2, 5, &[0x1010]));
    let third = slice(&mut resolver);
    assert_eq!(stacks(&third), [["[three+0x10]"]]);
    assert!(
        asked.borrow().forgotten.is_empty(),
        "the pid was never free"
    );
}

#[test]
fn threads_that_have_ended_are_dropped_and_new_ones_take_their_tid() {
    let (mut resolver, _) = resolver();
    for round in 0..1000 {
        resolver.take(fork(1, 7, 1));
        resolver.take(sample(1, 7, round, &[0x1010]));
        resolver.take(exit(1, 7, round));
        if round % 10 == 9 {
            assert_eq!(slice(&mut resolver).threads.len(), 10);
            assert!(resolver.processes.threads.len() <= 1);
        }
    }
}

#[test]
fn thousands_of_short_processes_leave_nothing_behind() {
    let (mut resolver, asked) = resolver();
    resolver.take(mapping(1, 0x1000, "/bin/server"));
    for child in 0..20_000u32 {
        let pid = 2 + child;
        resolver.take(fork(pid, pid, 1));
        resolver.take(exec(pid, "child"));
        // Every deployment has other files.
        resolver.take(mapping(pid, 0x1000, &format!("/bin/child{}", child / 10)));
        resolver.take(sample(pid, pid, u64::from(child), &[0x1010]));
        resolver.take(exit(pid, pid, u64::from(child)));
        if child % 100 == 99 {
            assert_eq!(slice(&mut resolver).processes.len(), 101);
            assert_eq!(resolver.processes.list.len(), 1);
            assert!(resolver.binaries.images.len() < 200);
        }
    }
    assert!(asked.borrow().forgotten.len() >= 19_900);
}

#[test]
fn a_file_that_no_process_maps_any_more_is_closed_after_a_while() {
    let (mut resolver, _) = resolver();
    resolver.take(mapping(1, 0x1000, "/bin/server"));
    resolver.take(fork(2, 2, 1));
    resolver.take(exec(2, "child"));
    resolver.take(mapping(2, 0x1000, "/bin/child"));
    resolver.take(exit(2, 2, 1));
    slice(&mut resolver);
    assert_eq!(resolver.binaries.count(), 2, "the next may be like it");
    for _ in 0..60 {
        slice(&mut resolver);
    }
    assert_eq!(resolver.binaries.count(), 1);
    resolver.take(sample(1, 1, 9, &[0x1010]));
    assert_eq!(stacks(&slice(&mut resolver)), [["[server+0x10]"]]);
}

/// What samples say, whatever numbers their frames have.
fn counted(profiles: &[Profile]) -> FastMap<(u32, u32, Nanoseconds, Vec<String>), u32> {
    let mut counted = FastMap::default();
    for profile in profiles {
        for (sample, stack) in profile.samples.iter().zip(stacks(profile)) {
            let thread = &profile.threads[sample.thread.at()];
            let pid = profile.processes[thread.process.at()].pid;
            *counted
                .entry((pid, thread.tid, sample.time, stack))
                .or_default() += 1;
        }
    }
    counted
}

#[test]
fn slices_together_are_one_slice() {
    let mut random = 11u64;
    let mut next = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % limit
    };
    for _ in 0..20 {
        let ((mut whole, _), (mut sliced, _)) = (resolver(), resolver());
        let mut slices = Vec::new();
        for time in 0..400 {
            let pid = 1 + next(6) as u32;
            let tid = pid + 10 * next(3) as u32;
            let page = 0x1000 * (1 + next(4));
            let event = match next(12) {
                0 => fork(pid, pid, 1 + next(6) as u32),
                1 => fork(pid, tid, pid),
                2 => exec(pid, "program"),
                3 => exit(pid, tid, time),
                4 | 5 => mapping(pid, page, &format!("/lib/{}", next(9))),
                _ => sample(pid, tid, time, &[page + next(3), 0x2010, 0x1010]),
            };
            let has_ended = |pid: u32| {
                let process = whole.processes.index_of(pid);
                process.is_some_and(|index| whole.processes.get(index).about.ended.is_some())
            };
            // A process that has ended does nothing; only its pid may be given to another.
            let actor = match event {
                Event::Fork { parent_pid, .. } => parent_pid,
                _ => pid,
            };
            if has_ended(actor) {
                continue;
            }
            whole.take(event.clone());
            sliced.take(event);
            if next(20) == 0 {
                slices.push(slice(&mut sliced));
            }
        }
        slices.push(slice(&mut sliced));
        assert!(counted(&slices) == counted(&[slice(&mut whole)]));
    }
}

#[test]
fn each_kind_of_frame_has_its_name() {
    let (mut resolver, asked) = resolver();
    let map = CountedFile::new(b"9000 100 JS:*hot /a.js:3:4\n");
    asked.borrow_mut().map = Some(map);
    resolver.take(mapping(1, 0x1000, "/bin/one"));
    resolver.take(Event::Sample(RawSample {
        labels: Default::default(),
        event: EventIndex::default(),
        weight: 1,
        time: 1,
        pid: 1,
        tid: 1,
        cpu: Some(3),
        state: ThreadState::Unknown,
        kernel: vec![0xffff_ffff_8100_0120].into(),
        user: UserStack::Chain(vec![0x9010, 0x5001, 0x1011].into()),
        memory: Default::default(),
        is_copied_at_sample: false,
        stands_still: false,
    }));
    assert_eq!(resolver.hottest(), Some(("do_syscall_64".to_owned(), 1.0)));
    let profile = slice(&mut resolver);
    assert_eq!(
        stacks(&profile),
        [["do_syscall_64", "hot", "[unknown]", "[one+0x10]"]]
    );
    let stack = profile.samples[0].stack.unwrap();
    let categories: Vec<Category> = profile
        .frames_of(stack)
        .map(|frame| profile.function(profile.frame(frame).function).category)
        .collect();
    assert_eq!(categories[0], Category::Kernel);
    assert_eq!(categories[2..], [Category::Unknown; 2]);
    assert_eq!(
        (profile.notes.jit_frames, profile.notes.jit_named[2]),
        (2, 1)
    );
    let remarks = profile.notes.remarks.join("\n");
    assert!(remarks.contains("one is not used for names: it is a stand-in"));
}

#[test]
fn the_hottest_function_is_named_from_a_map_that_is_read_once() {
    let (mut resolver, asked) = resolver();
    let map = CountedFile::new(b"9000 100 JS:*hot /a.js:3:4\na000 100 JS:*cold /a.js:9:4\n");
    asked.borrow_mut().map = Some(map);
    for time in 0..10 {
        let leaf = if time % 5 == 0 { 0xa000 } else { 0x9000 + time };
        resolver.take(sample(1, 1, time, &[leaf]));
    }
    assert_eq!(resolver.hottest(), Some(("hot".to_owned(), 0.8)));
    assert_eq!(resolver.hottest(), None, "nothing has come in since");
}

/// A line of a perf map, and an address in its code.
fn map_line(number: u64, name: &str) -> (String, u64) {
    let start = 0x10_0000 + number * 0x100;
    (
        format!("{start:x} 100 JS:*{name} /a.js:3:4\n"),
        start + 0x10,
    )
}

#[test]
fn a_perf_map_is_read_once_however_many_slices_there_are() {
    let (mut resolver, asked) = resolver();
    let lines = (0..20_000).map(|number| map_line(number, &format!("f{number}")).0);
    let map = CountedFile::new(lines.collect::<String>().as_bytes());
    let size = || map_file(&map).bytes.size().unwrap();
    let before = size();
    asked.borrow_mut().map = Some(map.clone());
    resolver.take(mapping(1, 0x1000, "/bin/one"));
    let count = 100;
    for round in 0..count {
        // Code that was there from the start, and code that is written over it meanwhile.
        let (line, written_over) = map_line(round, &format!("new{round}"));
        let (_, old) = map_line(round + 1, "");
        resolver.take(sample(1, 1, round * 10 + 1, &[old, written_over]));
        resolver.tick(round * 10 + 2);
        map.append(line.as_bytes());
        resolver.take(sample(1, 1, round * 10 + 3, &[written_over]));
        let named = stacks(&slice(&mut resolver));
        assert_eq!(named[0], [format!("f{}", round + 1), format!("f{round}")]);
        assert_eq!(named[1], [format!("new{round}")]);
    }
    // All of it once, and the few names that are asked for again.
    let grown = size() - before;
    assert!(map.bytes_read() < before + 3 * grown + 100 * count);
}

#[test]
fn slices_name_code_as_one_slice_does() {
    let mut random = 29u64;
    let mut next = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % limit
    };
    for _ in 0..30 {
        let ((mut whole, asked), (mut sliced, also_asked)) = (resolver(), resolver());
        let map = CountedFile::new(b"1000 2000 JS:*first /a.js:1:1\n");
        asked.borrow_mut().map = Some(map.clone());
        also_asked.borrow_mut().map = Some(map.clone());
        for resolver in [&mut whole, &mut sliced] {
            resolver.take(mapping(1, 0x10_0000, "/bin/one"));
            resolver.tick(0);
        }
        let mut slices = Vec::new();
        for time in 1..300 {
            if next(4) == 0 {
                whole.tick(time);
                sliced.tick(time);
                let (start, size) = (0x1000 + 0x40 * next(80), 0x40 * next(9));
                let line = format!("{start:x} {size:x} JS:*f{time} /a.js:1:1\n");
                map.append(line.as_bytes());
            }
            let event = sample(1, 1, time, &[0x1000 + 0x20 * next(200)]);
            whole.take(event.clone());
            sliced.take(event);
            if next(3) == 0 {
                sliced.hottest();
            }
            if next(20) == 0 {
                slices.push(slice(&mut sliced));
            }
        }
        slices.push(slice(&mut sliced));
        let whole = whole.finish(About::default(), Notes::default(), 0);
        assert!(counted(&slices) == counted(&[whole]));
    }
}

#[test]
fn a_function_found_in_the_heap_has_its_name_and_tier_in_the_slice() {
    const STACK: u64 = 0x7fff_0000;
    let mut program = Program::new();
    let bytecode = program.bytecode();
    let hot = program.function("hot", bytecode);
    let data = program.deopt_data(hot.shared);
    let code = program.code(TURBOFAN, data);
    let context = program.object(200, 4);
    let (mut resolver, asked) = resolver();
    asked.borrow_mut().memory = Some(program.memory);
    resolver.take(mapping(1, 0x1000, "/bin/node"));
    let v8 = V8::new(Rc::new(node20_layout(vec![1; 3 * 180])), 0);
    let process = resolver.processes.get_mut(ProcessIndex(0));
    process.start_heap_walk(HeapWalk::On(Box::new(v8)));
    // The frame pointer points behind the function and the context, to the end of the stack.
    let words = [0, 0, hot.function, context, 0, 0];
    let mut registers = Registers::default();
    registers.0[Registers::INSTRUCTION_POINTER] = code + 0x20;
    registers.0[Registers::STACK_POINTER] = STACK;
    registers.0[Registers::FRAME_POINTER] = STACK + 32;
    let stack: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    for time in 0..3 {
        resolver.take(Event::Sample(RawSample {
            labels: Default::default(),
            event: EventIndex::default(),
            weight: 1,
            time,
            pid: 1,
            tid: 1,
            cpu: None,
            state: ThreadState::Unknown,
            kernel: Vec::new().into(),
            user: UserStack::Copy {
                registers,
                stack: stack.clone().into(),
            },
            memory: Default::default(),
            is_copied_at_sample: false,
            stands_still: false,
        }));
    }
    assert_eq!(resolver.hottest(), Some(("hot".to_owned(), 1.0)));
    let profile = slice(&mut resolver);
    assert_eq!(stacks(&profile), [["hot"], ["hot"], ["hot"]]);
    let leaf = profile.frames_of(profile.samples[0].stack.unwrap()).next();
    assert_eq!(profile.frame(leaf.unwrap()).tier, Tier::Optimized);
    let named = profile.notes.jit_named[nodespy_model::NameSource::HeapWalk.at()];
    assert_eq!((profile.notes.jit_frames, named), (3, 3));
    // The next slice knows it too, though its memory is gone.
    asked.borrow_mut().memory = None;
    assert!(stacks(&slice(&mut resolver)).is_empty());
}

#[test]
fn a_runtime_that_is_not_node_is_said_with_what_would_name_its_functions() {
    let (mut resolver, asked) = resolver();
    let mut bun = Process::default();
    bun.labels.set(label_key::RUNTIME, "Bun 1.4.4");
    asked.borrow_mut().described = Some(bun);
    resolver.take(sample(1, 1, 10, &[0x9000_0000]));
    let profile = slice(&mut resolver);
    let [remark] = &profile.notes.remarks[..] else {
        panic!("{:?}", profile.notes.remarks);
    };
    assert!(remark.contains("is Bun 1.4.4"), "{remark}");
    assert!(remark.contains("BUN_JSC_useJITDump=1"), "{remark}");
    // With a file of names there is nothing to say.
    asked.borrow_mut().map = Some(CountedFile::new(b"90000000 100 JSC-FTL: hot#AgAnQJ\n"));
    resolver.take(sample(2, 2, 20, &[0x9000_0000]));
    let profile = slice(&mut resolver);
    let of_second = |remark: &&String| remark.contains("process 2");
    assert_eq!(profile.notes.remarks.iter().find(of_second), None);
}

#[test]
fn a_slice_says_how_many_functions_had_no_room_in_any_process() {
    let (mut resolver, _) = resolver();
    resolver.pools = Pools::of_functions(16);
    for pid in 1..=3 {
        resolver.take(mapping(pid, 0x1000, "/bin/node"));
        let v8 = V8::new(Rc::new(node20_layout(Vec::new())), 0).within(&resolver.pools);
        let process = resolver.processes.get_mut(ProcessIndex(pid - 1));
        process.start_heap_walk(HeapWalk::On(Box::new(v8)));
        let functions = &mut process.v8_mut().unwrap().functions;
        for number in 0..10 {
            functions.of_wasm(&format!("f{number}"), "/a.wasm");
        }
    }
    // Each has half of what is left, and one more for all its functions without a name.
    let held = 8 + 3 + 1;
    let said = format!(
        "{} functions have no names: all processes together may have 16 functions, and 268435456 bytes of their names and files",
        30 - held
    );
    assert_eq!(slice(&mut resolver).notes.remarks, [said]);
    assert!(slice(&mut resolver).notes.remarks.is_empty());
}
