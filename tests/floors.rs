//! The floors of ARCHITECTURE.md hold: a file imports only from lower floors, and `unsafe` stands only where it may.

use std::fs;
use std::path::{Path, PathBuf};

/// Every module of the library, by floor. A file imports from lower floors, and on its own floor from what stands before it.
/// A new file goes into this table and into ARCHITECTURE.md.
const FLOORS: [&[&str]; 5] = [
    &["error", "alignment", "element"],
    &["spec", "cursor", "layout", "map", "pack", "vector"],
    &[
        "pointer",
        "cuda_types",
        "declarations",
        "kernel_struct",
        "kernel_arg",
        "walk",
        "measure",
        "compare",
        "column",
        "columns",
        "narrow",
        "ragged",
        "scratch",
        "backend/batch",
        "backend/keeper",
        "backend",
    ],
    &[
        "lock",
        "block",
        "policy",
        "staging",
        "copies/overlap",
        "copies/plan",
        "copies/lists",
        "copies/parked",
        "copies/pool",
        "copies/range",
        "copies/staging",
        "copies/pending",
        "copies/batch",
        "copies/submit",
        "copies",
        "slots",
        "shared",
        "room",
        "session",
        "cache",
        "backend/host",
        "backend/cuda",
    ],
    &["upload", "args", "compose", "replicas", "graph", "cuda_header", "__private"],
];

/// Modules that name each other: a user's call goes from one to the other and back; a struct declares what its members declare.
const TOGETHER: [[&str; 2]; 2] = [["upload", "args"], ["declarations", "kernel_struct"]];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// `backend/host/stream.rs` is of the module `backend/host`; everything else is its own module.
fn module_of(path: &Path) -> String {
    let relative = path.strip_prefix(source()).unwrap().with_extension("");
    let name = relative.to_str().unwrap().replace('\\', "/");
    ["backend/host", "backend/cuda"].into_iter().find(|folder| name.starts_with(folder)).map_or(name, str::to_owned)
}

/// The floor, and the place on it.
fn place(module: &str) -> (usize, usize) {
    let place = FLOORS
        .iter()
        .enumerate()
        .find_map(|(floor, modules)| modules.iter().position(|&name| name == module).map(|position| (floor, position)));
    place.unwrap_or_else(|| {
        panic!("`{module}` has no floor: put it into the table of this test and into ARCHITECTURE.md")
    })
}

/// Code without line comments, and without what only tests see.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The modules that `crate::a::b` paths name.
fn imports(code: &str) -> Vec<String> {
    code.split("crate::")
        .skip(1)
        .filter_map(|rest| {
            let path: String = rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':')).collect();
            let mut segments = path.split("::");
            let first = segments.next()?;
            let module = match (first, segments.next()) {
                ("backend", Some(second @ ("host" | "cuda"))) => format!("backend/{second}"),
                ("host" | "cuda", _) => format!("backend/{first}"),
                _ => first.to_owned(),
            };
            // Macros and re-exports at the root are not modules.
            module.chars().all(|c| c.is_lowercase() || matches!(c, '_' | '/')).then_some(module)
        })
        .collect()
}

#[test]
fn a_file_imports_only_from_lower_floors() {
    let mut checked = 0;
    for path in files(&source()) {
        let module = module_of(&path);
        if module == "lib" {
            continue;
        }
        for import in imports(&code(&path)) {
            checked += 1;
            let together = TOGETHER.iter().any(|pair| pair.contains(&&*import) && pair.contains(&&*module));
            assert!(
                place(&import) <= place(&module) || together,
                "{} (floor {}) imports `{import}` (floor {})",
                path.display(),
                place(&module).0,
                place(&import).0
            );
        }
    }
    assert!(checked > 30, "only {checked} imports were found: the test reads the wrong place");
}

/// The files that SAFETY.md names: the first cells of its table.
fn files_of_the_safety_page() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../SAFETY.md");
    let text = fs::read_to_string(page).unwrap();
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(".rs` |"));
    cells.map(|(file, _)| format!("{file}.rs")).collect()
}

#[test]
fn unsafe_stands_only_where_the_safety_page_says() {
    let mut found: Vec<String> = Vec::new();
    for path in files(&source()) {
        if code(&path).split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe") {
            found.push(path.strip_prefix(source()).unwrap().to_str().unwrap().replace('\\', "/"));
        }
    }
    let mut named = files_of_the_safety_page();
    found.sort_unstable();
    named.sort_unstable();
    assert!(found.iter().any(|file| file == "pointer.rs"), "the test reads the wrong place");
    assert_eq!(found, named, "on the left the files that hold unsafe code, on the right those that SAFETY.md names");
}

#[test]
fn the_derive_holds_no_unsafe_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../marshal-derive/src");
    let sources = files(&folder);
    assert!(sources.len() > 5, "the test reads the wrong place");
    // Its tests look for the word themselves.
    for path in sources.into_iter().filter(|path| !path.ends_with("tests.rs")) {
        let code = code(&path);
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(!words.any(|word| word == "unsafe"), "{} holds unsafe code", path.display());
    }
}

#[test]
fn the_backend_contract_knows_nothing_of_columns() {
    for import in imports(&code(&source().join("backend.rs"))) {
        assert!(
            ["alignment", "error", "backend/host", "backend/cuda"].contains(&&*import),
            "backend.rs imports `{import}`"
        );
    }
}
