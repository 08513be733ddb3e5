//! What was recorded so far, in a file: a recording that is killed is not lost.
//!
//! Every slice of a recording becomes a block of a journal, and the profile is read from the journal
//! when the recording is over. Where there is no file, or no room in it, the blocks are kept in
//! memory: packed they take a few bytes a sample.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::mpsc::{SyncSender, sync_channel};

use nodespy_formats::{ImportError, Input, JournalWriter, Limits, read_journal};
use nodespy_model::Profile;

use crate::observer::{Observer, Slice};

/// What is held in memory of a process that is idle from the start.
const MAX_WITHOUT_SAMPLES: usize = 1 << 20;

/// Creates the file of a journal, when there is something to put into it: a recording that is killed before leaves
/// none that is empty.
pub type CreateJournal = Box<dyn FnOnce() -> io::Result<File> + Send>;

/// The slices of a recording.
#[derive(Default)]
pub(crate) struct Journal {
    writer: JournalWriter,
    create: Option<CreateJournal>,
    file: Option<JournalFile>,
    /// What is not in the file: all of it before the first sample, or what it takes no more.
    rest: Vec<u8>,
    is_started: bool,
    samples: usize,
}

impl Journal {
    /// Starts a journal, in a file if that can be created.
    pub(crate) fn new(create: Option<CreateJournal>) -> Self {
        Self {
            create,
            ..Self::default()
        }
    }

    /// Whether it outlasts this process.
    pub(crate) fn has_file(&self) -> bool {
        self.create.is_some() || self.file.is_some()
    }

    /// Adds a slice, and notes when the file takes no more.
    pub(crate) fn add_or_note(&mut self, slice: &Profile, observer: &mut dyn Observer) {
        if let Err(error) = self.add(slice) {
            observer.note(&format!(
                "The journal can't be written any more ({error}): what follows is in memory only."
            ));
        }
    }

    /// Adds a slice. Fails when the file takes no more: from then on the journal is in memory.
    pub(crate) fn add(&mut self, slice: &Profile) -> io::Result<()> {
        // There is no process yet, so it is not known what samples will be of.
        if slice.processes.is_empty() {
            return Ok(());
        }
        let mut bytes = match std::mem::replace(&mut self.is_started, true) {
            false => JournalWriter::header(),
            true => Vec::new(),
        };
        self.samples += slice.samples.len();
        bytes.extend(self.writer.block(slice));
        self.rest.extend(bytes);
        // A file without samples would be nothing to recover.
        match self.samples == 0 && self.rest.len() < MAX_WITHOUT_SAMPLES {
            true => Ok(()),
            false => self.write_rest(),
        }
    }

    /// Puts what is in memory into the file, as long as that takes more.
    fn write_rest(&mut self) -> io::Result<()> {
        if let Some(create) = self.create.take() {
            self.file = Some(JournalFile::new(create()?));
        }
        if let Some(file) = self.file.as_mut().filter(|file| !file.is_full) {
            file.append(&self.rest)?;
            self.rest.clear();
        }
        Ok(())
    }

    /// How many bytes it has.
    pub(crate) fn byte_count(&self) -> u64 {
        let in_file = self.file.as_ref().map_or(0, |file| file.length);
        in_file.saturating_add(self.rest.len() as u64)
    }

    /// How many samples there are.
    pub(crate) fn sample_count(&self) -> usize {
        self.samples
    }

    /// Everything that was added.
    pub(crate) fn profile(&mut self) -> Result<Profile, ImportError> {
        let rest = &self.rest[..];
        let input = match &mut self.file {
            Some(file) => {
                file.file.seek(SeekFrom::Start(0))?;
                let written = (&file.file).take(file.length);
                Input::read(&mut written.chain(rest), &Limits::default())?
            }
            None => Input::read(&mut &rest[..], &Limits::default())?,
        };
        read_journal(&input)
    }
}

/// The file of a journal.
#[derive(Debug)]
struct JournalFile {
    file: File,
    /// How many bytes of whole blocks it has.
    length: u64,
    is_full: bool,
    /// Asks for what was written to be put on the disk.
    sync: Option<SyncSender<()>>,
}

impl JournalFile {
    fn new(file: File) -> Self {
        Self {
            sync: file.try_clone().ok().map(start_syncing),
            file,
            length: 0,
            is_full: false,
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(bytes);
        if written.is_err() {
            self.is_full = true;
            // Half a block would be taken for damage.
            let _ = self.file.set_len(self.length);
            return written;
        }
        self.length += bytes.len() as u64;
        if let Some(sync) = &self.sync {
            // One that is under way is followed by another.
            let _ = sync.try_send(());
        }
        Ok(())
    }
}

/// A thread that has what was written put on the disk, where it outlasts a power cut: a slow disk must
/// not keep the rings from being read.
fn start_syncing(file: File) -> SyncSender<()> {
    let (sender, requests) = sync_channel(1);
    std::thread::spawn(move || {
        while requests.recv().is_ok() {
            if let Err(error) = file.sync_data() {
                log::warn!("the journal is not on the disk yet: {error}");
            }
        }
    });
    sender
}

/// Keeps the slices and passes on everything else.
pub(crate) struct Journaling<'a> {
    pub(crate) journal: &'a mut Journal,
    /// The recording ends when the journal has so many bytes.
    pub(crate) max_size: Option<u64>,
    pub(crate) observer: &'a mut dyn Observer,
}

impl Journaling<'_> {
    /// Whether the journal has as many bytes as it may.
    pub(crate) fn is_full(&self) -> bool {
        self.max_size
            .is_some_and(|max_size| self.journal.byte_count() >= max_size)
    }
}

impl Observer for Journaling<'_> {
    fn inner(&mut self) -> Option<&mut dyn Observer> {
        Some(&mut *self.observer)
    }

    fn slice(&mut self, slice: Slice<'_>) -> bool {
        self.journal.add_or_note(&slice.profile, self.observer);
        !self.is_full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{
        About, FrameSpec, FunctionSpec, Notes, Process, ProfileBuilder, Thread, WeightUnit,
    };

    struct Silent;

    impl Observer for Silent {}

    /// A slice with a sample of a function, `second` seconds after the start.
    fn slice(function: &str, second: u64) -> Profile {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let process = builder.process(Process {
            pid: 7,
            ..Process::default()
        });
        let thread = builder.thread(Thread {
            process,
            tid: 7,
            ..Thread::default()
        });
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name: function,
                ..FunctionSpec::default()
            },
            ..FrameSpec::default()
        });
        let stack = builder.stack(None, frame);
        builder.sample(second * 1_000_000_000, thread, Some(stack), 1);
        let about = About {
            duration: second * 1_000_000_000,
            ..About::default()
        };
        builder.finish(about, Notes::default())
    }

    #[test]
    fn a_journal_without_a_file_is_in_memory() {
        let mut journal = Journal::new(None);
        for second in 1..=3 {
            journal.add(&slice("work", second)).unwrap();
        }
        let profile = journal.profile().unwrap();
        assert_eq!((profile.samples.len(), profile.functions.len()), (3, 1));
        assert_eq!(profile.about.duration, 3_000_000_000);
        assert_eq!(journal.sample_count(), 3);
        let bytes = journal.byte_count();
        let mut journaling = |max_size| {
            let journal = &mut journal;
            let observer: &mut dyn Observer = &mut Silent;
            Journaling {
                journal,
                max_size,
                observer,
            }
            .is_full()
        };
        assert!(journaling(Some(bytes)));
        assert!(!journaling(Some(bytes + 1)) && !journaling(None));
    }

    #[test]
    fn the_file_of_a_journal_is_created_with_its_first_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let at = path.clone();
        let create: CreateJournal = Box::new(move || {
            let mut options = File::options();
            options.read(true).write(true).create_new(true).open(at)
        });
        let mut journal = Journal::new(Some(create));
        journal.add(&Profile::default()).unwrap();
        let mut without_samples = slice("idle", 1);
        without_samples.samples.clear();
        journal.add(&without_samples).unwrap();
        assert!(journal.has_file() && !path.exists());
        journal.add(&slice("work", 2)).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().len(),
            journal.byte_count()
        );
        assert_eq!(journal.profile().unwrap().samples.len(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_created_leaves_the_journal_in_memory() {
        let refuse: CreateJournal = Box::new(|| Err(io::ErrorKind::PermissionDenied.into()));
        let mut journal = Journal::new(Some(refuse));
        assert!(journal.add(&slice("first", 1)).is_err());
        journal.add(&slice("second", 2)).unwrap();
        assert!(!journal.has_file());
        assert_eq!(journal.profile().unwrap().samples.len(), 2);
    }

    #[test]
    fn where_a_file_takes_no_more_the_journal_goes_on_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            options.open(&path).unwrap()
        };
        let file = open();
        let mut journal = Journal::new(Some(Box::new(move || Ok(file))));
        journal.add(&slice("first", 1)).unwrap();
        let written = std::fs::metadata(&path).unwrap().len();
        // A descriptor that can't be written to stands in for a full disk.
        let read_only = File::open(&path).unwrap();
        journal.file.as_mut().unwrap().file = read_only;
        assert!(journal.add(&slice("second", 2)).is_err());
        journal.add(&slice("third", 3)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), written);
        assert_eq!(journal.profile().unwrap().samples.len(), 3);
    }
}
