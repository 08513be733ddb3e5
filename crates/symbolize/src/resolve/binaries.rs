//! What all processes share, however long they live: the files that are mapped as code, and the
//! kernel.

use nodespy_model::{FastMap, FastSet, Mapping, Notes, Origin};

use super::batch::Batch;
use crate::address_map::ImageId;
use crate::frame::Identified;
use crate::image::{Image, ImageKey};
use crate::image_budget::{ImageBudget, OpenFiles};
use crate::kernel::KernelSymbols;

/// No more modules of a kernel are remembered (a desktop has 200).
const KERNEL_MAPPING_LIMIT: usize = 1 << 14;
/// How many images are kept that no process has mapped any more: the next process is often
/// another one of the same program.
const MAX_IDLE_IMAGES: usize = 128;
/// With more images than this, and twice those that were last in use, what nothing refers to goes before the slice ends.
const MIN_CROWD: usize = 4096;
/// And for how many slices: a minute of a recording, ten of an agent. That of Node has a dozen megabytes.
const MAX_IDLE_SLICES: u32 = 60;

/// Images with their unwind tables, symbols and V8 layouts, and the kernel's symbols.
#[derive(Debug, Default)]
pub(crate) struct Binaries {
    /// By [`ImageId`].
    pub(super) images: Vec<Image>,
    ids: FastMap<ImageKey, ImageId>,
    /// What all images may keep in memory.
    budget: ImageBudget,
    /// For how many slices no process has had an image mapped, by [`ImageId`].
    idle: Vec<u32>,
    /// When each was last known to be in a stack, by [`ImageId`]; 0 for never.
    last_used: Vec<u64>,
    /// Counts these times.
    uses: u64,
    /// How many were left when what nothing refers to last went.
    left: usize,
    /// Places of the list without an image.
    free: Vec<ImageId>,
    /// The kernel and its modules, where a recording lists them.
    kernel_mappings: Vec<Mapping>,
    /// Read when the first frame of the kernel gets its name.
    kernel: Option<Kernel>,
}

#[derive(Debug)]
struct Kernel {
    symbols: KernelSymbols,
    /// Whether it is a copy of the list, made at another time.
    is_copy: bool,
}

impl Binaries {
    /// The image behind a mapping, opened where it is new.
    pub(super) fn image_of(&mut self, mapping: &Mapping, origin: &dyn Origin) -> ImageId {
        // Identity is the file, not the path: a replaced binary is another image.
        let key = (mapping.path.clone(), mapping.file.clone());
        if let Some(&image) = self.ids.get(&key) {
            self.image_mut(image).seen_again(mapping);
            return image;
        }
        let opened = Image::open(mapping, origin).within(&self.budget);
        let image = match self.free.pop() {
            Some(free) => {
                self.images[free.0 as usize] = opened;
                self.idle[free.0 as usize] = 0;
                self.last_used[free.0 as usize] = 0;
                free
            }
            None => {
                self.images.push(opened);
                self.idle.push(0);
                self.last_used.push(0);
                ImageId(self.images.len() as u32 - 1)
            }
        };
        self.ids.insert(key, image);
        image
    }

    /// How many images there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.ids.len()
    }

    /// How many of them hold a file open.
    #[cfg(test)]
    pub(super) fn open_count(&self) -> usize {
        self.budget.files.count()
    }

    /// Whether there are so many images that those out of use should go at once.
    pub(super) fn is_crowded(&self) -> bool {
        self.ids.len() > MIN_CROWD.max(2 * self.left)
    }

    /// Whether more files are open than may be.
    pub(super) fn has_too_many_open(&self) -> bool {
        self.budget.files.count() > OpenFiles::max()
    }

    /// Takes note that images are in stacks.
    pub(super) fn touch(&mut self, images: &[ImageId]) {
        self.uses += 1;
        for image in images {
            self.last_used[image.0 as usize] = self.uses;
        }
    }

    /// Closes the files of the images that have been in no stack for longest, so that a quarter of what may be open is free.
    pub(super) fn close_longest_unused(&mut self) {
        let mut open: Vec<(u64, ImageId)> = self
            .ids
            .values()
            .filter(|image| self.image(**image).is_open())
            .map(|image| (self.last_used[image.0 as usize], *image))
            .collect();
        open.sort_unstable();
        let closed = open.len().saturating_sub(OpenFiles::max() / 4 * 3);
        for (_, image) in &open[..closed] {
            self.image_mut(*image).close();
        }
    }

    pub(super) fn image(&self, image: ImageId) -> &Image {
        &self.images[image.0 as usize]
    }

    pub(super) fn image_mut(&mut self, image: ImageId) -> &mut Image {
        &mut self.images[image.0 as usize]
    }

    /// Drops images that have been out of use for long, with their descriptors; `used` are those that must stay. To be
    /// called once for each slice.
    pub(super) fn evict(&mut self, used: &FastSet<ImageId>) {
        for &image in self.ids.values() {
            let idle = &mut self.idle[image.0 as usize];
            *idle = match used.contains(&image) {
                true => 0,
                false => idle.saturating_add(1),
            };
        }
        self.drop_unused(used);
    }

    /// The same before the slice ends: `used` are those that samples refer to, too.
    pub(super) fn drop_unused(&mut self, used: &FastSet<ImageId>) {
        let images = self.ids.values().copied();
        let mut unused: Vec<(u32, ImageId)> = images
            .filter(|image| !used.contains(image))
            .map(|image| (self.idle[image.0 as usize], image))
            .collect();
        // The longest out of use first.
        unused.sort_unstable_by(|left, right| right.cmp(left));
        let excess = unused.len().saturating_sub(MAX_IDLE_IMAGES);
        let evicted: FastSet<ImageId> = unused
            .into_iter()
            .enumerate()
            .filter(|&(at, (idle, _))| at < excess || idle > MAX_IDLE_SLICES)
            .map(|(_, (_, image))| image)
            .collect();
        self.left = self.ids.len() - evicted.len();
        if evicted.is_empty() {
            return;
        }
        self.ids.retain(|_, image| !evicted.contains(image));
        for image in evicted {
            *self.image_mut(image) = Image::absent();
            self.free.push(image);
        }
    }

    /// Takes note of where the kernel or a module of it is.
    pub(super) fn add_kernel_mapping(&mut self, mapping: Mapping) {
        if self.kernel_mappings.len() < KERNEL_MAPPING_LIMIT {
            self.kernel_mappings.push(mapping);
        }
    }

    /// Reads what the names of a batch need, so that naming only reads.
    pub(super) fn load_names(
        &mut self,
        batch: &Batch,
        has_inlines: bool,
        origin: &dyn Origin,
        notes: &mut Notes,
    ) {
        let images = batch.images();
        self.touch(&images);
        for image in images {
            let image = self.image_mut(image);
            image.load_symbols(origin);
            if has_inlines {
                image.load_inlines(origin);
            }
        }
        for frame in batch.frames() {
            if let Identified::Image(image, address) = frame {
                self.image_mut(image).load_function_of(address, origin);
            }
        }
        if batch.has_kernel_frames() {
            self.load_kernel(batch, origin, notes);
        }
    }

    /// Reads the kernel's list of functions once: it has some 200,000 of them.
    pub(super) fn load_kernel(&mut self, batch: &Batch, origin: &dyn Origin, notes: &mut Notes) {
        match &self.kernel {
            Some(kernel) if !kernel.is_copy || names_all(&kernel.symbols, batch) => return,
            _ => {}
        }
        let symbols = self.copied_symbols(batch, origin);
        self.kernel = Some(Kernel {
            is_copy: symbols.is_some(),
            symbols: symbols.unwrap_or_else(|| self.own_symbols(origin, notes)),
        });
    }

    fn kernel_mapping(&self) -> Option<&Mapping> {
        self.kernel_mappings
            .iter()
            .find(|mapping| mapping.path.starts_with("[kernel.kallsyms]"))
    }

    /// The kernel's functions from a copy of its list, if that names every frame: the kernel takes
    /// a sixth of the time of a small recording to write the list anew.
    fn copied_symbols(&self, batch: &Batch, origin: &dyn Origin) -> Option<KernelSymbols> {
        let copy = origin.copied_kernel_symbols(self.kernel_mapping()?)?;
        let mut symbols = KernelSymbols::read(copy).without_modules();
        let is_placed = symbols.move_to(&self.kernel_mappings);
        (is_placed && names_all(&symbols, batch)).then_some(symbols)
    }

    fn own_symbols(&self, origin: &dyn Origin, notes: &mut Notes) -> KernelSymbols {
        let mut symbols = match origin.kernel_symbols(self.kernel_mapping()) {
            Ok(table) => KernelSymbols::read(table),
            Err(refused) => {
                notes.remark(format!("kernel frames have no names: {}", refused.why));
                KernelSymbols::default()
            }
        };
        symbols.move_to(&self.kernel_mappings);
        if symbols.is_hidden {
            notes.remark(
                "kernel frames have no names: the kernel hides its addresses (run as root with \
                 kernel.kptr_restrict at most 1, or: sudo sysctl kernel.kptr_restrict=0 \
                 kernel.perf_event_paranoid=1)",
            );
        }
        symbols
    }

    /// Where the function at an address of the kernel starts.
    pub(super) fn kernel_function_start(&self, address: u64) -> Option<u64> {
        self.kernel.as_ref()?.symbols.start_of(address)
    }

    /// Function and module at an address of the kernel.
    pub(super) fn kernel_function(&self, address: u64) -> Option<(&str, Option<&str>)> {
        self.kernel.as_ref()?.symbols.at(address)
    }
}

/// Whether a copy of the kernel's list is sure of every frame.
fn names_all(symbols: &KernelSymbols, batch: &Batch) -> bool {
    batch.frames().all(|frame| match frame {
        Identified::Kernel(address) => symbols.is_sure_of(address),
        _ => true,
    })
}
