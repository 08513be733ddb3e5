//! The request that a rendering of React is for.
//!
//! React resumes through queues of its own: who computes has the rendering for an argument and no request. But the rendering has
//! callbacks, which the application, or a framework such as Next, made while it had the request: their variables have it.

use super::async_layout::AsyncLayout;
use super::heap::is_pointer;
use super::properties::PropertyLayout;
use super::request_classes::{Class, ClassKind, Name};
use super::requests::Search;
use super::sampled::Sampled;
use crate::route::Route;

/// How many functions are looked at that a rendering leads to.
const MAX_CLOSURES: usize = 24;

impl Search<'_, '_> {
    /// The request that the callbacks of a rendering were made for: in their variables, or in those of a function that is
    /// among these.
    pub(super) fn of_rendering(
        &mut self,
        layout: &PropertyLayout,
        object: u64,
        class: &Class,
    ) -> Option<Route> {
        let callbacks = class.names().filter(|name| name.is_callback());
        let callbacks = callbacks.filter_map(|name| self.property(object, class, name));
        let mut closures: Vec<u64> = callbacks.collect();
        let own = closures.len();
        let mut position = 0;
        while let Some(&closure) = closures.get(position) {
            let variables = self.variables_of(layout, closure).unwrap_or_default();
            let found = variables
                .iter()
                .find_map(|&word| self.request(layout, word, 1));
            if found.is_some() {
                return found;
            }
            if position < own {
                closures.extend(variables);
                closures.truncate(MAX_CLOSURES);
            }
            position += 1;
        }
        None
    }

    /// The variables around a function, where it is one.
    fn variables_of(&mut self, layout: &PropertyLayout, closure: u64) -> Option<Vec<u64>> {
        let class = self.class_of_code(layout, closure)?;
        let context = self.property(closure, &class, Name::Context)?;
        let class = self.class_of_code(layout, context)?;
        if class.kind != ClassKind::Context {
            return None;
        }
        let objects = self.heap.layout.async_objects.as_ref()?;
        let slots = Sampled { heap: self.heap }.slots(objects, context)?;
        let words = (2..slots).filter_map(|slot| self.field(context, AsyncLayout::slot(slot)));
        Some(words.filter(|&word| is_pointer(word)).collect())
    }
}
