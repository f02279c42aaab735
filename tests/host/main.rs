//! What a user relies on, on the host backend: the cases that a GPU runs too, and what only this backend can show.

#[path = "../cases/mod.rs"]
mod cases;

mod cached;
mod columns;
mod copies;
mod edges;
mod graph;
mod heap;
mod one_shot;
mod rare;
mod replicas;
mod rig;
mod soak;

use libtest_mimic::{Arguments, Trial};
use marshal::host::HostDevice;
use rig::HostRig;

/// A case on a device of its own.
fn on_a_device(group: &str, (name, case): cases::Case<HostRig>) -> Trial {
    Trial::test(format!("{group}::{name}"), move || {
        case(&HostRig { device: HostDevice::new() });
        Ok(())
    })
}

fn on_the_host(group: &str, (name, test): (&str, fn())) -> Trial {
    Trial::test(format!("{group}::{name}"), move || {
        test();
        Ok(())
    })
}

fn main() {
    let mut trials: Vec<Trial> = Vec::new();
    trials.extend(cases::upload::all().into_iter().map(|case| on_a_device("one_shot", case)));
    trials.extend(cases::elements::all().into_iter().map(|case| on_a_device("elements", case)));
    trials.extend(cases::columns::all().into_iter().map(|case| on_a_device("columns", case)));
    trials.extend(cases::columns::cached().into_iter().map(|case| on_a_device("columns", case)));
    trials.extend(cases::cache::all().into_iter().map(|case| on_a_device("cached", case)));
    trials.extend(cases::graph::all().into_iter().map(|case| on_a_device("graph", case)));
    trials.extend(cases::copies::all().into_iter().map(|case| on_a_device("copies", case)));
    trials.extend(one_shot::ALL.iter().map(|&test| on_the_host("one_shot", test)));
    trials.extend(columns::ALL.iter().map(|&test| on_the_host("columns", test)));
    trials.extend(cached::ALL.iter().map(|&test| on_the_host("cached", test)));
    trials.extend(graph::ALL.iter().map(|&test| on_the_host("graph", test)));
    trials.extend(copies::ALL.iter().map(|&test| on_the_host("copies", test)));
    trials.extend(edges::ALL.iter().map(|&test| on_the_host("edges", test)));
    trials.extend(replicas::ALL.iter().map(|&test| on_the_host("replicas", test)));
    trials.extend(rare::ALL.iter().map(|&test| on_the_host("rare", test)));
    trials.extend(soak::ALL.iter().map(|&test| on_the_host("soak", test)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
