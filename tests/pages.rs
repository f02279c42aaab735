//! What the pages of `docs/` name is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap()
}

/// Every Rust source below `folder`.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

/// The names of all functions that are tests: those under `#[test]`, and those that a list names beside themselves.
fn tests() -> BTreeSet<String> {
    let mut found = Vec::new();
    for folder in ["tests", "marshal/src", "marshal-derive/src"] {
        sources(&root().join(folder), &mut found);
    }
    let mut names = BTreeSet::new();
    for source in &found {
        let words =
            |line: &str| line.trim().strip_prefix("fn ").map(|rest| rest.split(['(', '<']).next().unwrap().to_owned());
        let lines: Vec<&str> = source.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let Some(name) = words(line) else { continue };
            let is_test = lines[..index]
                .iter()
                .rev()
                .take_while(|above| above.trim().starts_with('#'))
                .any(|above| above.trim() == "#[test]");
            // As in `("name", name)`, be it on lines of their own.
            let is_listed = source.contains(&format!("\"{name}\""));
            if is_test || is_listed {
                names.insert(name);
            }
        }
    }
    names
}

/// The cells of a table's row.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split(" | ").map(str::trim).collect()
}

fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_case_names_tests_that_there_are() {
    let tests = tests();
    let page = text("docs/cases.md");
    let mut ids = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| ") && line.as_bytes().get(3) == Some(&b'-')) {
        let cells = cells(row);
        let [id, _, how, shown] = cells[..] else { panic!("`{row}` has {} cells", cells.len()) };
        assert!(ids.insert(id.to_owned()), "{id} stands there twice");
        assert!(!how.is_empty(), "{id} does not say where it is ruled out");
        assert!(quoted(shown).next().is_some(), "{id} names no test");
        for name in quoted(shown) {
            let is_there = if name.contains('/') { root().join(name).is_file() } else { tests.contains(name) };
            assert!(is_there, "{id} names `{name}`, which is no test");
        }
    }
    assert!(ids.len() > 100, "only {} rows were found: the test reads the wrong place", ids.len());
}

#[test]
fn no_public_type_is_the_platforms_own() {
    let listing = text("docs/public-api.txt");
    assert!(listing.contains("pub struct marshal::DevicePointer"), "the listing is another one");
    for name in ["c_char", "c_int", "c_long", "c_uint", "c_ulong", "c_short", "OsStr", "os::raw"] {
        assert!(!listing.contains(name), "`{name}` is in the public surface");
    }
}
