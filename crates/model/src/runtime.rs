//! The programs that run JavaScript, by name.

/// What runs JavaScript in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JsRuntime {
    /// Node.js: V8, with all that nodespy needs to know of it.
    Node,
    /// Bun, whose engine is JavaScriptCore.
    Bun,
    /// Deno: V8, without what it exports for debuggers; known by its version.
    Deno,
    /// Electron, which is Node in Chromium.
    Electron,
}

impl JsRuntime {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Node, Self::Bun, Self::Deno, Self::Electron];

    /// Its name.
    pub fn label(self) -> &'static str {
        match self {
            Self::Node => "Node.js",
            Self::Bun => "Bun",
            Self::Deno => "Deno",
            Self::Electron => "Electron",
        }
    }

    /// The runtime of a label such as `Bun 1.4.4`.
    pub fn of_label(label: &str) -> Option<Self> {
        let name = label.split(' ').next()?;
        Self::ALL
            .into_iter()
            .find(|runtime| runtime.label() == name)
    }

    /// Why nodespy can't name its functions of JavaScript by itself; none for Node, where it can.
    pub fn why_unnamed(self) -> Option<&'static str> {
        match self {
            Self::Node => None,
            Self::Bun => {
                Some("its JavaScript runs in JavaScriptCore, whose heap nodespy can't read")
            }
            Self::Deno => {
                Some("its file does not say which V8 it has, and so how to read the heap")
            }
            Self::Electron => {
                Some("its V8 is built with pointer compression, which nodespy can't read")
            }
        }
    }

    /// How to start it so that it writes the names of its functions to a file nodespy reads.
    pub fn start_with_names(self) -> &'static str {
        match self {
            Self::Node => {
                "NODE_OPTIONS='--perf-basic-prof --interpreted-frames-native-stack' node …"
            }
            Self::Bun => "BUN_JSC_useJITDump=1 BUN_JSC_jitDumpDirectory=/tmp bun …",
            Self::Deno => {
                "deno run --v8-flags=--perf-basic-prof,--interpreted-frames-native-stack …"
            }
            Self::Electron => {
                "electron --js-flags='--perf-basic-prof --interpreted-frames-native-stack' …"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_known_by_its_label() {
        assert_eq!(JsRuntime::of_label("Bun 1.4.4"), Some(JsRuntime::Bun));
        assert_eq!(JsRuntime::of_label("Deno"), Some(JsRuntime::Deno));
        assert_eq!(JsRuntime::of_label("Bunny 1"), None);
    }
}
