//! What needs a GPU to be seen: streams of every kind, copies behind busy streams, captures, contexts, and what a kernel reads.

pub(crate) mod buffers;
pub(crate) mod cached;
pub(crate) mod capture;
pub(crate) mod copies;
pub(crate) mod device;
pub(crate) mod devices;
pub(crate) mod errors;
pub(crate) mod failing;
pub(crate) mod failures;
pub(crate) mod graph;
pub(crate) mod header;
pub(crate) mod kernels;
pub(crate) mod lifetimes;
pub(crate) mod scratch;
pub(crate) mod soak;
pub(crate) mod staging;
pub(crate) mod streams;

/// Runs on a device of its own.
pub(crate) type Run = fn(&device::Gpu);
pub(crate) type Test = (&'static str, Run);

/// Every test that is no case of the host backend too, under the name of its module, with the devices that it needs.
pub(crate) fn all() -> Vec<(String, i32, Run)> {
    let modules = [
        ("streams", streams::ALL),
        ("staging", staging::ALL),
        ("lifetimes", lifetimes::ALL),
        ("errors", errors::ALL),
        ("cached", cached::ALL),
        ("capture", capture::ALL),
        ("graph", graph::ALL),
        ("copies", copies::ALL),
        ("buffers", buffers::ALL),
        ("scratch", scratch::ALL),
        ("kernels", kernels::ALL),
        ("header", header::ALL),
        ("devices", devices::ALL),
        ("soak", soak::ALL),
    ];
    let named = |(module, tests): (&str, &[Test])| -> Vec<(String, i32, Run)> {
        let devices = if module == "devices" { 2 } else { 1 };
        tests.iter().map(|(name, test)| (format!("{module}::{name}"), devices, *test)).collect()
    };
    modules.into_iter().flat_map(named).collect()
}
