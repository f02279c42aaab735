//! The peers of other languages: a Python of the machine runs `peers.py`, in a process of its own.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::measure::{Spread, Timings};
use super::record::{Row, Table};
use super::way::Side;

pub(crate) const TORCH: &str = "torch.tensor(list, device=\"cuda\")";
pub(crate) const TORCH_KEPT: &str = "torch, kept pinned and device tensors, copy_(non_blocking=True)";

/// What the script prints.
#[derive(Deserialize)]
struct Found {
    versions: BTreeMap<String, String>,
    sizes: BTreeMap<usize, BTreeMap<String, Times>>,
    not_run: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Times {
    back_to_back: Spread,
    host: Spread,
    to_idle: Spread,
}

/// Adds the rows of PyTorch and CuPy to the tables of the same sizes; returns what could not run, and why.
///
/// # Errors
/// Says why there is nothing of either.
pub(crate) fn run(python: &str, tables: &mut [Table], rounds: usize) -> Result<Vec<String>, String> {
    let found = call(python, tables, rounds)?;
    for table in tables.iter_mut() {
        for (name, times) in found.sizes.get(&table.number).into_iter().flatten() {
            table.rows.push(row(name, times, &found.versions));
        }
    }
    Ok(found.not_run.into_iter().map(|(library, why)| format!("{library}: {why}")).collect())
}

fn row(name: &str, times: &Times, versions: &BTreeMap<String, String>) -> Row {
    let library = if name.starts_with("cupy") { "cupy" } else { "torch" };
    let version = versions.get(library).map_or("", String::as_str);
    Row {
        name: name.to_owned(),
        side: Side::Peer,
        calls: "nine times, each with what the library calls".to_owned(),
        note: format!("{library} {version}, in a process of its own"),
        timings: Timings {
            back_to_back: Some(times.back_to_back),
            host: Some(times.host),
            to_idle: Some(times.to_idle),
            ..Timings::default()
        },
        not_run: None,
    }
}

fn call(python: &str, tables: &[Table], rounds: usize) -> Result<Found, String> {
    let sizes: Vec<String> = tables.iter().map(|table| table.number.to_string()).collect();
    let mut child = Command::new(python)
        .args(["-", &sizes.join(","), &rounds.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{python}: {error}"))?;
    let mut input = child.stdin.take().ok_or("no way to give it the script")?;
    input.write_all(include_bytes!("peers.py")).map_err(|error| error.to_string())?;
    drop(input);
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{python}: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().ok_or("it printed nothing")?;
    serde_json::from_str(last).map_err(|error| format!("what it printed is not understood: {error}"))
}
