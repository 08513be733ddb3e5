//! What all processes share, however long they live: the files that are mapped as code, and the
//! kernel.

use nodespy_model::{FastMap, FastSet, Mapping, Notes, Origin};

use super::batch::Batch;
use crate::address_map::ImageId;
use crate::frame::Identified;
use crate::image::{Image, ImageKey};
use crate::image_budget::ImageBudget;
use crate::kernel::KernelSymbols;

/// No more modules of a kernel are remembered (a desktop has 200).
const KERNEL_MAPPING_LIMIT: usize = 1 << 14;
/// How many images are kept that no process has mapped any more: the next process is often
/// another one of the same program.
const MAX_IDLE_IMAGES: usize = 128;
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
            return image;
        }
        let opened = Image::open(mapping, origin).within(&self.budget);
        let image = match self.free.pop() {
            Some(free) => {
                self.images[free.0 as usize] = opened;
                self.idle[free.0 as usize] = 0;
                free
            }
            None => {
                self.images.push(opened);
                self.idle.push(0);
                ImageId(self.images.len() as u32 - 1)
            }
        };
        self.ids.insert(key, image);
        image
    }

    /// How many images are open.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.ids.len()
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
        let mut unused = Vec::new();
        for &image in self.ids.values() {
            let idle = &mut self.idle[image.0 as usize];
            *idle = match used.contains(&image) {
                true => 0,
                false => idle.saturating_add(1),
            };
            if *idle > 0 {
                unused.push((*idle, image));
            }
        }
        // The longest out of use first.
        unused.sort_unstable_by(|left, right| right.cmp(left));
        let excess = unused.len().saturating_sub(MAX_IDLE_IMAGES);
        let evicted: FastSet<ImageId> = unused
            .into_iter()
            .enumerate()
            .filter(|&(at, (idle, _))| at < excess || idle > MAX_IDLE_SLICES)
            .map(|(_, (_, image))| image)
            .collect();
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
        for image in batch.images() {
            let image = self.image_mut(image);
            image.load_symbols(origin);
            if has_inlines {
                image.load_inlines(origin);
            }
        }
        for frame in batch.frames() {
            if let Identified::Image(image, address) = frame {
                self.image_mut(image).load_function_of(address);
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
