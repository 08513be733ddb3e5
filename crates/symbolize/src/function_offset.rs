//! Where a function is in its file: what a breakpoint needs.

use nodespy_model::ImageBytes;

use crate::demangle::demangle;
use crate::elf::{Elf, function_symbols};

/// How far from the start of a file a function begins: by its symbol, or by what C++ calls it, such
/// as `v8::internal::Heap::Scavenge`, where there is one of that name.
pub fn function_offset(mut image: ImageBytes, name: &str) -> Option<u64> {
    let elf = Elf::read(&mut image)?;
    let mut found = function_symbols(&mut image, |symbol| symbol == name);
    if found.is_empty() && name.contains("::") {
        found = function_symbols(&mut image, |symbol| {
            let symbol = demangle(symbol);
            symbol.split('(').next() == Some(name)
        });
    }
    let (_, address, _) = found.first()?;
    let is_one = found.iter().all(|(_, other, _)| other == address);
    is_one.then(|| elf.offset_of_address(*address))?
}

/// The same for several functions, each by any of its symbols; none where one is not there.
pub fn function_offsets<const COUNT: usize>(
    mut image: ImageBytes,
    functions: &[&[&str]; COUNT],
) -> Option<[u64; COUNT]> {
    let elf = Elf::read(&mut image)?;
    let is_wanted = |symbol: &str| functions.iter().any(|names| names.contains(&symbol));
    let found = function_symbols(&mut image, is_wanted);
    let mut offsets = [0; COUNT];
    for (offset, names) in offsets.iter_mut().zip(functions) {
        let is_named = |(symbol, ..): &&(String, u64, u64)| names.contains(&&**symbol);
        let (_, address, _) = found.iter().find(is_named)?;
        *offset = elf.offset_of_address(*address)?;
    }
    Some(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_function_of_this_program_is_found_and_another_is_not() {
        let own = || ImageBytes::File(File::open("/proc/self/exe").unwrap());
        assert!(function_offset(own(), "main").is_some_and(|offset| offset > 0));
        assert_eq!(function_offset(own(), "no_such_function"), None);
        let main = function_offset(own(), "main");
        let found = function_offsets(own(), &[&["no_such_function", "main"]]);
        assert_eq!(found, main.map(|offset| [offset]));
        assert_eq!(
            function_offsets(own(), &[&["main"], &["no_such_function"]]),
            None
        );
        assert_eq!(
            function_offset(ImageBytes::Memory(b"text".to_vec()), "main"),
            None
        );
    }
}
