//! Records beside the samples: mappings, names, threads, losses, context switches.

use crate::error::RecordError;
use crate::field_reader::{FieldReader, until_nul};
use crate::record::{RawRecord, misc, record_type};
use crate::sample::Words;

const BUILD_ID_BYTES: usize = 20;

/// A decoded record that is no sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sideband<'a> {
    /// Memory was mapped: MMAP or MMAP2.
    Mmap(Mmap<'a>),
    /// A thread got a name.
    Comm(Comm<'a>),
    /// A thread or process was made.
    Fork(Task),
    /// A thread or process ended.
    Exit(Task),
    /// Records were dropped because the ring was full.
    Lost {
        /// How many.
        count: u64,
    },
    /// Samples were dropped, by the hardware or by perf.
    LostSamples {
        /// How many.
        count: u64,
    },
    /// Sampling paused because it took too long.
    Throttle {
        /// When.
        time: u64,
    },
    /// Sampling went on.
    Unthrottle {
        /// When.
        time: u64,
    },
    /// A thread left the CPU, or came back to it.
    Switch {
        /// Whether it left.
        is_out: bool,
        /// Whether it left although it could have gone on.
        is_preempt: bool,
        /// The process and thread on the other side, where the event covers a whole CPU.
        other: Option<(u32, u32)>,
    },
    /// The user addresses of samples that came before.
    DeferredCallchain(DeferredCallchain<'a>),
    /// A type that is not decoded.
    Other,
}

/// A mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// Process; `u32::MAX` for the kernel.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// First address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Where in the file it starts.
    pub pgoff: u64,
    /// Which file it is; MMAP does not say.
    pub file: FileId<'a>,
    /// Whether it is not executable.
    pub is_data: bool,
    /// Path as the process sees it, or a name such as `[vdso]`.
    pub path: &'a [u8],
}

/// What an MMAP2 says of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileId<'a> {
    /// Nothing.
    Unknown,
    /// Its inode.
    Inode {
        /// Device, as major and minor number.
        device: (u32, u32),
        /// Inode.
        inode: u64,
        /// Generation of the inode.
        generation: u64,
    },
    /// Its build-id.
    BuildId(&'a [u8]),
}

/// The name of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comm<'a> {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The name.
    pub name: &'a [u8],
    /// Whether it comes from an `exec`.
    pub is_exec: bool,
}

/// A thread or process that was made or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Process.
    pub pid: u32,
    /// The process that made it.
    pub ppid: u32,
    /// Thread.
    pub tid: u32,
    /// The thread that made it.
    pub ptid: u32,
    /// When.
    pub time: u64,
}

/// User addresses that come after the samples they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeferredCallchain<'a> {
    /// What the samples name it by.
    pub cookie: u64,
    /// Addresses and markers, leaf first.
    pub callchain: Words<'a>,
}

impl<'a> Sideband<'a> {
    /// Decodes the fields of a record without its trailer.
    pub(crate) fn read(
        record: &RawRecord<'a>,
        mut fields: FieldReader<'a>,
    ) -> Result<Self, RecordError> {
        let flag = |bit| record.misc & bit != 0;
        let is_wide = record.kind == record_type::SWITCH_CPU_WIDE;
        Ok(match record.kind {
            record_type::MMAP | record_type::MMAP2 => Self::Mmap(mmap(record, fields)?),
            record_type::COMM => Self::Comm(Comm {
                pid: fields.u32("the process")?,
                tid: fields.u32("the thread")?,
                name: until_nul(fields.rest()),
                is_exec: flag(misc::COMM_EXEC),
            }),
            record_type::FORK => Self::Fork(task(fields)?),
            record_type::EXIT => Self::Exit(task(fields)?),
            record_type::LOST => {
                fields.u64("the event's id")?;
                Self::Lost {
                    count: fields.u64("the number of lost records")?,
                }
            }
            record_type::LOST_SAMPLES => Self::LostSamples {
                count: fields.u64("the number of lost samples")?,
            },
            record_type::THROTTLE => Self::Throttle {
                time: fields.u64("the time")?,
            },
            record_type::UNTHROTTLE => Self::Unthrottle {
                time: fields.u64("the time")?,
            },
            record_type::SWITCH | record_type::SWITCH_CPU_WIDE => Self::Switch {
                is_out: flag(misc::SWITCH_OUT),
                is_preempt: flag(misc::SWITCH_OUT_PREEMPT),
                other: match is_wide {
                    true => Some((fields.u32("the process")?, fields.u32("the thread")?)),
                    false => None,
                },
            },
            record_type::CALLCHAIN_DEFERRED => {
                let cookie = fields.u64("the cookie")?;
                let count = fields.u64("the call chain's length")?;
                let callchain = fields.words(count, "the call chain")?;
                Self::DeferredCallchain(DeferredCallchain { cookie, callchain })
            }
            _ => Self::Other,
        })
    }
}

fn mmap<'a>(record: &RawRecord<'a>, mut fields: FieldReader<'a>) -> Result<Mmap<'a>, RecordError> {
    let pid = fields.u32("the process")?;
    let tid = fields.u32("the thread")?;
    let addr = fields.u64("the address")?;
    let len = fields.u64("the length")?;
    let pgoff = fields.u64("the file offset")?;
    let mut file = FileId::Unknown;
    if record.kind == record_type::MMAP2 {
        file = match record.misc & misc::MMAP_BUILD_ID != 0 {
            true => build_id(&mut fields)?,
            false => FileId::Inode {
                device: (fields.u32("the device")?, fields.u32("the device")?),
                inode: fields.u64("the inode")?,
                generation: fields.u64("the inode's generation")?,
            },
        };
        fields.u64("protection and flags")?;
    }
    Ok(Mmap {
        pid,
        tid,
        addr,
        len,
        pgoff,
        file,
        is_data: record.misc & misc::MMAP_DATA != 0,
        path: until_nul(fields.rest()),
    })
}

fn build_id<'a>(fields: &mut FieldReader<'a>) -> Result<FileId<'a>, RecordError> {
    let at = fields.at();
    let length = fields.bytes(4, "the build-id's length")?[0];
    let id = fields.bytes(BUILD_ID_BYTES, "the build-id")?;
    match id.get(..usize::from(length)) {
        Some(id) => Ok(FileId::BuildId(id)),
        None => Err(RecordError::BuildId { at, length }),
    }
}

fn task(mut fields: FieldReader<'_>) -> Result<Task, RecordError> {
    Ok(Task {
        pid: fields.u32("the process")?,
        ppid: fields.u32("the parent process")?,
        tid: fields.u32("the thread")?,
        ptid: fields.u32("the parent thread")?,
        time: fields.u64("the time")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::{EventAttributes, sample_type};
    use crate::layout::RecordLayout;
    use crate::testing::{pair, text, words};

    /// Decodes a record with a trailer of thread and time, and checks that none that is cut inside
    /// its first `fixed` bytes is taken for it.
    fn read(kind: u32, misc: u16, body: &[u8], fixed: usize) -> Sideband<'static> {
        let layout = RecordLayout::new(&EventAttributes {
            sample_type: sample_type::TID | sample_type::TIME,
            has_sample_id_all: true,
            ..EventAttributes::default()
        });
        let trailer = words([pair(7, 8), 1234]);
        let of_length = |length: usize| [&body[..length], &trailer].concat();
        for length in 0..fixed {
            let body = of_length(length);
            let record = RawRecord {
                kind,
                misc,
                body: &body,
            };
            let error = layout.sideband(&record).unwrap_err();
            assert!((8..=8 + length).contains(&error.at()), "{length}: {error}");
        }
        let body = Vec::leak(of_length(body.len()));
        let record = RawRecord { kind, misc, body };
        assert_eq!(layout.trailer_time(body), Some(1234));
        layout.sideband(&record).unwrap()
    }

    #[test]
    fn an_mmap_has_no_file_but_its_path() {
        let body = [
            words([pair(7, 8), 0x1000, 0x2000, 0x3000]),
            text("/bin/node"),
        ]
        .concat();
        let expected = Mmap {
            pid: 7,
            tid: 8,
            addr: 0x1000,
            len: 0x2000,
            pgoff: 0x3000,
            file: FileId::Unknown,
            is_data: false,
            path: b"/bin/node",
        };
        let read = read(record_type::MMAP, 0, &body, 32);
        assert_eq!(read, Sideband::Mmap(expected));
    }

    #[test]
    fn an_mmap2_has_device_and_inode() {
        let fixed = [
            pair(7, 8),
            0x1000,
            0x2000,
            0,
            pair(8, 1),
            55,
            66,
            pair(5, 2),
        ];
        let body = [words(fixed), text("/bin/node")].concat();
        let Sideband::Mmap(mmap) = read(record_type::MMAP2, misc::MMAP_DATA, &body, 64) else {
            panic!("a mapping is expected");
        };
        let expected = FileId::Inode {
            device: (8, 1),
            inode: 55,
            generation: 66,
        };
        assert_eq!(mmap.file, expected);
        assert!(mmap.is_data);
        assert_eq!(mmap.path, b"/bin/node");
    }

    #[test]
    fn an_mmap2_with_a_build_id_has_it_in_place_of_the_inode() {
        let mut body = words([pair(7, 8), 0x1000, 0x2000, 0]);
        body.extend([3, 0, 0, 0]);
        body.extend(1..=20);
        body.extend(words([pair(5, 2)]));
        body.extend(text("/bin/node"));
        let Sideband::Mmap(mmap) = read(record_type::MMAP2, misc::MMAP_BUILD_ID, &body, 64) else {
            panic!("a mapping is expected");
        };
        assert_eq!(mmap.file, FileId::BuildId(&[1, 2, 3]));
        assert_eq!(mmap.path, b"/bin/node");
    }

    #[test]
    fn a_build_id_longer_than_its_field_is_an_error() {
        let mut body = words([0; 8]);
        body[32] = 21;
        let record = RawRecord {
            kind: record_type::MMAP2,
            misc: misc::MMAP_BUILD_ID,
            body: &body,
        };
        let layout = RecordLayout::new(&EventAttributes::default());
        let error = layout.sideband(&record).unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 40: the build-id claims to have 21 bytes"
        );
    }

    #[test]
    fn a_comm_says_whether_it_comes_from_an_exec() {
        let body = [words([pair(7, 8)]), text("node")].concat();
        for (flags, is_exec) in [(0, false), (misc::COMM_EXEC, true)] {
            let expected = Comm {
                pid: 7,
                tid: 8,
                name: b"node",
                is_exec,
            };
            let read = read(record_type::COMM, flags, &body, 8);
            assert_eq!(read, Sideband::Comm(expected));
        }
    }

    #[test]
    fn fork_and_exit_name_both_sides() {
        let body = words([pair(7, 6), pair(8, 5), 99]);
        let task = Task {
            pid: 7,
            ppid: 6,
            tid: 8,
            ptid: 5,
            time: 99,
        };
        assert_eq!(read(record_type::FORK, 0, &body, 24), Sideband::Fork(task));
        assert_eq!(read(record_type::EXIT, 0, &body, 24), Sideband::Exit(task));
    }

    #[test]
    fn losses_are_counted_by_the_kernel() {
        let body = words([1, 42]);
        let lost = read(record_type::LOST, 0, &body, 16);
        assert_eq!(lost, Sideband::Lost { count: 42 });
        let lost = read(record_type::LOST_SAMPLES, 0, &body[8..], 8);
        assert_eq!(lost, Sideband::LostSamples { count: 42 });
    }

    #[test]
    fn throttling_has_a_start_and_an_end() {
        let body = words([99, 1, 2]);
        let throttle = read(record_type::THROTTLE, 0, &body, 8);
        assert_eq!(throttle, Sideband::Throttle { time: 99 });
        let unthrottle = read(record_type::UNTHROTTLE, 0, &body, 8);
        assert_eq!(unthrottle, Sideband::Unthrottle { time: 99 });
    }

    #[test]
    fn a_switch_says_which_way_and_with_whom() {
        let out = misc::SWITCH_OUT | misc::SWITCH_OUT_PREEMPT;
        let preempted = Sideband::Switch {
            is_out: true,
            is_preempt: true,
            other: None,
        };
        assert_eq!(read(record_type::SWITCH, out, &[], 0), preempted);
        let back = Sideband::Switch {
            is_out: false,
            is_preempt: false,
            other: Some((7, 8)),
        };
        let body = words([pair(7, 8)]);
        assert_eq!(read(record_type::SWITCH_CPU_WIDE, 0, &body, 8), back);
    }

    #[test]
    fn a_deferred_chain_has_its_cookie_first() {
        let body = words([77, 2, 0x1000, 0x2000]);
        let record = read(record_type::CALLCHAIN_DEFERRED, 0, &body, 32);
        let Sideband::DeferredCallchain(deferred) = record else {
            panic!("{record:?}");
        };
        assert_eq!(deferred.cookie, 77);
        let addresses: Vec<_> = deferred.callchain.iter().collect();
        assert_eq!(addresses, [0x1000, 0x2000]);
    }

    #[test]
    fn a_type_from_the_future_is_not_an_error() {
        assert_eq!(read(9999, 0, &[], 0), Sideband::Other);
    }
}
