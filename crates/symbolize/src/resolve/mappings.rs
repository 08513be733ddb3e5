//! What a process maps as code: regions of its address map, and images of files.
//!
//! The kernel reports what is mapped and never what is unmapped, and a process can map without end. So a map that has grown is
//! compared with what is mapped now, and the images that nothing refers to are dropped.

use nodespy_model::{Mapping, ProcessIndex};

use super::Resolver;
use super::jit_watch::{is_jitdump, watch_jit_file};
use super::process::HeapWalk;
use crate::address_map::{AddressMap, ImageId, Place};
use crate::v8::V8;

/// How many regions are held of a process whose mappings can't be asked for: Linux lets one have a quarter of this, where
/// nobody raised it.
pub(super) const MAX_REGIONS: usize = 1 << 18;

impl Resolver {
    pub(super) fn take_mapping(&mut self, mapping: Mapping) {
        if mapping.pid == Mapping::KERNEL_PID {
            self.binaries.add_kernel_mapping(mapping);
            return;
        }
        let origin = &*self.origin;
        let index = self
            .processes
            .find_or_add(mapping.pid, mapping.time, origin);
        let process = self.processes.get_mut(index);
        if is_jitdump(&mapping) {
            let jit = watch_jit_file(origin, mapping.pid, Some(&mapping));
            process.jit = jit.or(process.jit.take());
            process.dump = Some(mapping);
            return;
        }
        if process.map.is_unsettled() && !self.compare_with_now(index) {
            return;
        }
        self.map(index, &mapping);
        self.limit_images();
    }

    /// Adds a mapping to those of a process.
    fn map(&mut self, index: ProcessIndex, mapping: &Mapping) {
        let origin = &*self.origin;
        let image = (!mapping.is_anonymous()).then(|| self.binaries.image_of(mapping, origin));
        let process = self.processes.get_mut(index);
        process.map.insert(mapping, image);
        if self.has_heap_walk
            && let (Some(image), HeapWalk::NoV8) = (image, &process.v8)
        {
            let found = self.heap_walk(image, mapping);
            let image = self.binaries.image_mut(image);
            let process = self.processes.get_mut(index);
            process.libuv = image.libuv(image.bias(mapping));
            process.start_heap_walk(found);
        }
    }

    /// Gets ready to read the heap of the V8 in an image.
    fn heap_walk(&mut self, image: ImageId, mapping: &Mapping) -> HeapWalk {
        let image = self.binaries.image_mut(image);
        image.reopen(&*self.origin, Some(mapping.pid));
        match image.v8_layout() {
            None => HeapWalk::NoV8,
            Some(Ok(layout)) => {
                let v8 = V8::new(layout, image.bias(mapping)).within(&self.pools);
                HeapWalk::On(Box::new(v8))
            }
            Some(Err(why)) => {
                let name = &image.name;
                self.batch
                    .notes
                    .remark(format!("the heap of {name} is not read for names: {why}"));
                HeapWalk::Refused
            }
        }
    }

    /// Leaves of the map of a process what is mapped now; returns whether there is room for more.
    fn compare_with_now(&mut self, index: ProcessIndex) -> bool {
        let pid = self.processes.get(index).about.pid;
        let now = self.origin.mappings(pid);
        let map = &mut self.processes.get_mut(index).map;
        if now.is_empty() {
            map.settle(MAX_REGIONS);
            let has_room = !map.is_unsettled();
            if !has_room {
                self.batch.notes.remark(format!(
                    "process {pid} mapped code more than {MAX_REGIONS} times: what it mapped after that has no names"
                ));
            }
            return has_room;
        }
        let old = std::mem::take(map);
        let mut fresh = old.successor();
        for mapping in now.iter().filter(|mapping| !is_jitdump(mapping)) {
            let image = (!mapping.is_anonymous()).then(|| self.image_in(&old, mapping));
            fresh.insert(mapping, image);
        }
        fresh.settle(usize::MAX);
        self.processes.get_mut(index).map = fresh;
        true
    }

    /// The image behind a mapping: the one that was known there, because a list of mappings writes paths in another way than
    /// the events do.
    fn image_in(&mut self, map: &AddressMap, mapping: &Mapping) -> ImageId {
        match map.at(mapping.start) {
            Place::File { image, .. } if self.binaries.image(image).is_of(mapping) => image,
            _ => self.binaries.image_of(mapping, &*self.origin),
        }
    }

    /// Drops images that nothing refers to any more where there are many, and closes files where many are open.
    fn limit_images(&mut self) {
        if self.binaries.is_crowded() {
            let mut used = self.processes.images();
            used.extend(self.batch.images());
            self.binaries.drop_unused(&used);
        }
        self.limit_open_files();
    }

    /// Closes the files of images that have been out of use for longest where too many are open.
    pub(super) fn limit_open_files(&mut self) {
        if self.binaries.has_too_many_open() {
            self.binaries.touch(&self.batch.images());
            self.binaries.close_longest_unused();
        }
    }
}
