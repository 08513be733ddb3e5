//! Whose code a function is.

use nodespy_model::{Category, FunctionIndex, Profile};

/// What kind of owner a package is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PackageKind {
    /// The application itself.
    App,
    /// A package under `node_modules`.
    Dependency,
    /// Node: its JavaScript, and native code of its binary that is not V8's.
    Node,
    /// V8: builtins, compiler, garbage collector.
    V8,
    /// A native library or addon.
    Native,
    /// The kernel.
    Kernel,
    /// Not known.
    Other,
}

impl PackageKind {
    /// Every kind, in the order they are shown.
    pub const ALL: [Self; 7] = [
        Self::App,
        Self::Dependency,
        Self::Node,
        Self::V8,
        Self::Native,
        Self::Kernel,
        Self::Other,
    ];

    /// The word shown for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Dependency => "dependency",
            Self::Node => "node",
            Self::V8 => "v8",
            Self::Native => "native",
            Self::Kernel => "kernel",
            Self::Other => "other",
        }
    }

    /// The category of a frame that stands for a whole package.
    pub fn category(self) -> Category {
        match self {
            Self::App => Category::App,
            Self::Dependency => Category::Dependency,
            Self::Node => Category::NodeCore,
            Self::V8 => Category::Builtin,
            Self::Native => Category::Native,
            Self::Kernel => Category::Kernel,
            Self::Other => Category::Unknown,
        }
    }
}

/// The owner of a function.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Package {
    /// What kind of owner it is.
    pub kind: PackageKind,
    /// Its name: that of the folder under `node_modules`, of the library, or of the kind.
    pub name: String,
}

impl Package {
    /// The package of a function.
    pub fn of(profile: &Profile, function: FunctionIndex) -> Self {
        let file = profile.file_of(function);
        let named = |kind: PackageKind, name: &str| Self {
            kind,
            name: name.to_owned(),
        };
        let plain = |kind: PackageKind| named(kind, kind.label());
        match profile.function(function).category {
            Category::App | Category::Wasm => plain(PackageKind::App),
            Category::Dependency => {
                let name = package_in(file).unwrap_or("node_modules");
                named(PackageKind::Dependency, name)
            }
            Category::NodeCore => plain(PackageKind::Node),
            Category::Builtin | Category::RegExp | Category::Gc => plain(PackageKind::V8),
            Category::Kernel => plain(PackageKind::Kernel),
            Category::Idle => named(PackageKind::Other, "idle"),
            Category::Native | Category::Internal | Category::Unknown => {
                match library(profile.name_of(function), file) {
                    Some(library) => library,
                    None if profile.function(function).category == Category::Native => {
                        plain(PackageKind::Native)
                    }
                    None => named(PackageKind::Other, "unknown"),
                }
            }
        }
    }
}

/// The package of native code, by the function's name and the file it is in.
fn library(name: &str, file: &str) -> Option<Package> {
    let of = |kind: PackageKind, name: &str| {
        Some(Package {
            kind,
            name: name.to_owned(),
        })
    };
    let is_v8 = name.starts_with("v8::")
        || name.starts_with("Builtins_")
        || name.contains("v8::internal::")
        || name.contains("cppgc::internal::");
    if is_v8 {
        return of(PackageKind::V8, "v8");
    }
    let (_, module) = file.rsplit_once('/').unwrap_or(("", file));
    match module {
        "node" | "nodejs" => of(PackageKind::Node, "node"),
        "" if name.starts_with("node::") => of(PackageKind::Node, "node"),
        "" => None,
        module => of(PackageKind::Native, module),
    }
}

/// The name of the package a file is in: what follows the last `node_modules`, with its scope.
pub fn package_in(file: &str) -> Option<&str> {
    let at = file
        .rfind("node_modules/")
        .or_else(|| file.rfind("node_modules\\"))?;
    let path = &file[at + "node_modules/".len()..];
    let is_separator = |character: char| character == '/' || character == '\\';
    let parts = if path.starts_with('@') { 2 } else { 1 };
    let end = path
        .match_indices(is_separator)
        .nth(parts - 1)
        .map_or(path.len(), |(at, _)| at);
    Some(&path[..end]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile_of;

    #[test]
    fn the_last_node_modules_names_the_package() {
        let of = |file| package_in(file);
        assert_eq!(of("/a/node_modules/express/lib/x.js"), Some("express"));
        assert_eq!(of("/a/node_modules/@babel/core/x.js"), Some("@babel/core"));
        assert_eq!(
            of("/a/node_modules/.pnpm/qs@6/node_modules/qs/lib/parse.js"),
            Some("qs")
        );
        assert_eq!(of("C:\\a\\node_modules\\@x\\y\\i.js"), Some("@x\\y"));
        assert_eq!(of("node_modules/left-pad.js"), Some("left-pad.js"));
        assert_eq!(of("/srv/app.js"), None);
        assert_eq!(of("/srv/node_modules/"), None);
    }

    #[test]
    fn every_function_has_an_owner() {
        let profile = profile_of(
            "a;d:f@/x/node_modules/qs/a.js;n:void v8::internal::Run();gc:Scavenge;n:uv_run@/usr/bin/node;\
             n:memcpy@/lib/libc.so.6;k:read;n:what;idle:(idle) 1",
        );
        let names: Vec<String> = (0..profile.functions.len())
            .map(|at| Package::of(&profile, FunctionIndex(at as u32)))
            .map(|package| format!("{} {}", package.kind.label(), package.name))
            .collect();
        assert_eq!(
            names,
            [
                "app app",
                "dependency qs",
                "v8 v8",
                "v8 v8",
                "node node",
                "native libc.so.6",
                "kernel kernel",
                "native native",
                "other idle"
            ]
        );
    }
}
