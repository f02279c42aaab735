//! Cases out of any bytes: what a fuzzer makes up, and what its corpus keeps.

use crate::cached::{self, ops};
use crate::{columns, pack, plan, rows};

/// So many bytes, zeroes where there are none left.
fn take<const N: usize>(data: &mut &[u8]) -> [u8; N] {
    let (taken, rest) = data.split_at(N.min(data.len()));
    *data = rest;
    let mut bytes = [0; N];
    bytes[..taken.len()].copy_from_slice(taken);
    bytes
}

fn records<const N: usize>(data: &mut &[u8], most: usize) -> Vec<[u8; N]> {
    let mut records = Vec::new();
    while !data.is_empty() && records.len() < most {
        records.push(take(data));
    }
    records
}

/// The first byte says which property of layouts and images is held against the rest.
pub(crate) fn layout_of(mut data: &[u8]) {
    let [which] = take(&mut data);
    match which % 4 {
        0 => {
            let header = take(&mut data);
            pack::check(&pack::Case::read(header, &records(&mut data, columns::MOST)));
        }
        1 => {
            let [low, high, size] = take(&mut data);
            rows::check(&rows::Case::read(u16::from_le_bytes([low, high]), size, &records(&mut data, columns::MOST)));
        }
        2 => {
            let columns: Vec<_> = records(&mut data, 16).into_iter().map(plan::Planned::read).collect();
            plan::check(&columns);
        }
        _ => plan::check_far_apart(&plan::far_apart(&records(&mut data, columns::MOST))),
    }
}

/// A header, up to four shapes, and steps as long as there are bytes.
pub(crate) fn cache_of(mut data: &[u8]) {
    let header = take(&mut data);
    let [shapes] = take(&mut data);
    let mut shape = || {
        let [width] = take(&mut data);
        (0..usize::from(width) % (ops::WIDTH + 1)).map(|_| take(&mut data)).collect()
    };
    let shapes: Vec<Vec<[u8; 4]>> = (0..=shapes % 4).map(|_| shape()).collect();
    cached::check(&ops::Case::read(header, &shapes, &records(&mut data, 200)));
}
