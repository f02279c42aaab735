//! The derive on every shape of struct: each compiles, and its columns stand where they should. Right offsets are written out by
//! hand.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;

use bytemuck::{NoUninit, Pod};
use marshal::host::HostDevice;
use marshal::{Column, DeviceArgs, DeviceColumn, DevicePointer, Layout};

/// Name, offset and length of each column, and the total.
fn places(args: &(impl DeviceArgs + ?Sized)) -> (Vec<(&'static str, u64, u64)>, u64) {
    let layout = args.layout().unwrap();
    (layout.columns().iter().map(|column| (column.name, column.offset, column.len)).collect(), layout.size_bytes())
}

fn alignments(layout: &Layout) -> Vec<u64> {
    layout.columns().iter().map(|column| column.alignment).collect()
}

/// Uploads to the host backend and reads the image back.
fn image(args: &(impl DeviceArgs + ?Sized)) -> Vec<u8> {
    args.upload(&HostDevice::new().stream()).unwrap().read_back().unwrap()
}

mod alignment;
mod borrow;
mod composition;
mod containers;
mod elements;
mod generics;
mod header;
mod macros;
mod names;
mod nested;
mod rows;
mod shapes;
mod wild;
mod words;
