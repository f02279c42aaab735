//! What an upload costs on the host alone: each step of it beside memcpy or memcmp of the same bytes, and beside hand-written code
//! for the same struct. No GPU is needed. `cargo bench --bench host`
//!
//! The arguments are a CUTLASS grouped GEMM's nine columns, 76 bytes a group. Memory is ordinary, and warm as far as it fits the
//! caches. What needs a device is in `peers.rs`.

use std::hint::black_box;
use std::time::Duration;

use bytemuck::NoUninit;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use marshal::host::HostDevice;
use marshal::{ArgCache, DeviceArgs, DevicePointer, upload_each};

#[path = "peers/args.rs"]
#[allow(dead_code, reason = "shared with peers.rs, which uses the rest")]
mod args;

use args::{Gemm, GroupedGemm, Touch, rows};

/// From a decode step's experts to the largest group that is asked for; the bytes go from one kilobyte past every cache.
const GROUPS: [usize; 7] = [8, 64, 256, 1024, 8192, 65_536, 1_000_000];

/// Where the columns would stand. Nothing is read or written there.
fn base() -> DevicePointer<u8> {
    DevicePointer::from_raw(0x7000_0000_0000).expect("not null")
}

fn bytes_of(args: &GroupedGemm) -> usize {
    usize::try_from(args.layout().expect("it fits").copy_bytes()).expect("it fits")
}

/// A group of benches, with the time that each may take: three seconds a step and size would be half an hour.
fn group<'c>(criterion: &'c mut Criterion, name: &str) -> BenchmarkGroup<'c, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(600)).sample_size(20);
    group
}

/// How far from a plain loop over the columns' lengths is `layout`?
fn measure(criterion: &mut Criterion) {
    let mut group = group(criterion, "measure");
    for groups in GROUPS {
        let args = GroupedGemm::new(groups);
        group.bench_function(BenchmarkId::new("offsets by hand", groups), |b| b.iter(|| black_box(&args).offsets(16)));
        group.bench_function(BenchmarkId::new("layout", groups), |b| {
            b.iter(|| black_box(&args).layout().expect("it fits"));
        });
    }
}

fn pack(criterion: &mut Criterion) {
    let mut group = group(criterion, "pack");
    for groups in GROUPS {
        let args = GroupedGemm::new(groups);
        let bytes = bytes_of(&args);
        let (source, mut image, mut by_hand) = (vec![1_u8; bytes], vec![0; bytes], vec![0; bytes]);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("memcpy of the bytes", groups), |b| {
            b.iter(|| black_box(&mut image[..]).copy_from_slice(black_box(&source)));
        });
        group.bench_function(BenchmarkId::new("nine memcpys by hand", groups), |b| {
            b.iter(|| args.pack_by_hand(black_box(&mut by_hand)));
        });
        group.bench_function(BenchmarkId::new("pack_into", groups), |b| {
            b.iter(|| black_box(&args).pack_into(base(), black_box(&mut image)).map(drop).expect("it fits"));
        });
        assert_eq!(by_hand, image, "both pack the same bytes");
    }
}

/// A slice of rows to nine columns.
fn transpose(criterion: &mut Criterion) {
    let mut group = group(criterion, "transpose");
    for groups in GROUPS {
        let (args, rows) = (GroupedGemm::new(groups), rows(groups));
        let bytes = bytes_of(&args);
        let (source, mut image, mut by_hand) = (vec![1_u8; bytes], vec![0; bytes], vec![0; bytes]);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("memcpy of the bytes", groups), |b| {
            b.iter(|| black_box(&mut image[..]).copy_from_slice(black_box(&source)));
        });
        group.bench_function(BenchmarkId::new("a loop over the rows for each column", groups), |b| {
            b.iter(|| transpose_by_hand(black_box(&rows), black_box(&mut by_hand)));
        });
        group.bench_function(BenchmarkId::new("rows pack_into", groups), |b| {
            b.iter(|| black_box(&rows).pack_into(base(), black_box(&mut image)).map(drop).expect("it fits"));
        });
        assert_eq!(by_hand, image, "both make the same columns");
    }
}

/// What a hand writes: one field after the other, each in a pass of its own.
fn transpose_by_hand(rows: &[Gemm], image: &mut [u8]) {
    fn column<T: NoUninit>(rows: &[Gemm], image: &mut [u8], end: usize, get: fn(&Gemm) -> T) -> usize {
        let offset = end.next_multiple_of(16);
        image[end..offset].fill(0);
        let end = offset + size_of::<T>() * rows.len();
        for (place, row) in image[offset..end].chunks_exact_mut(size_of::<T>()).zip(rows) {
            place.copy_from_slice(bytemuck::bytes_of(&get(row)));
        }
        end
    }
    let end = column(rows, image, 0, |row| row.problem_size);
    let end = column(rows, image, end, |row| row.ptr_a);
    let end = column(rows, image, end, |row| row.ptr_b);
    let end = column(rows, image, end, |row| row.ptr_c);
    let end = column(rows, image, end, |row| row.ptr_d);
    let end = column(rows, image, end, |row| row.lda);
    let end = column(rows, image, end, |row| row.ldb);
    let end = column(rows, image, end, |row| row.ldc);
    let end = column(rows, image, end, |row| row.ldd);
    image[end..].fill(0);
}

/// The cached mode where nothing is copied, and where everything is looked at and one element is new.
///
/// Through the host backend, whose copies are emulated: "other bytes" holds what an upload does before its copy and the emulation's
/// own copy, and says nothing about a GPU.
fn cache(criterion: &mut Criterion) {
    let mut group = group(criterion, "cache");
    for groups in GROUPS {
        let mut args = GroupedGemm::new(groups);
        let bytes = bytes_of(&args);
        let (image_a, image_b) = (vec![1_u8; bytes], vec![1_u8; bytes]);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("memcmp of the bytes", groups), |b| {
            b.iter(|| black_box(&image_a[..]) == black_box(&image_b[..]));
        });
        let mut image = vec![0; bytes];
        args.pack_by_hand(&mut image);
        let (offsets, _) = args.offsets(16);
        group.bench_function(BenchmarkId::new("nine memcmps by hand", groups), |b| {
            b.iter(|| {
                let columns = black_box(&args).columns().into_iter().zip(&offsets);
                columns.into_iter().all(|(column, &at)| *column == image[at..at + column.len()])
            });
        });
        let stream = HostDevice::new().stream();
        let cache = ArgCache::new(&stream).expect("any stream of the host");
        group.bench_function(BenchmarkId::new("the same bytes, upload", groups), |b| {
            b.iter(|| drop(black_box(&args).upload(&cache).expect("uploaded")));
        });
        let mut number = 0;
        group.bench_function(BenchmarkId::new("the same shape, other bytes, upload", groups), |b| {
            b.iter(|| {
                number += 1;
                args.touch(Touch::Early, number);
                drop(black_box(&args).upload(&cache).expect("uploaded"));
                stream.synchronize().expect("nothing failed");
            });
        });
    }
}

/// The same arguments for two devices, in one call and in two: where nothing is copied, so that what differs is seen.
fn devices(criterion: &mut Criterion) {
    let mut group = group(criterion, "two devices");
    for groups in GROUPS {
        let args = [GroupedGemm::new(groups), GroupedGemm::new(groups)];
        let caches = [(); 2].map(|()| ArgCache::new(&HostDevice::new().stream()).expect("any stream of the host"));
        group.throughput(Throughput::Bytes(2 * bytes_of(&args[0]) as u64));
        group.bench_function(BenchmarkId::new("the same bytes, one call", groups), |b| {
            b.iter(|| drop(upload_each(black_box(&args), &caches).expect("uploaded")));
        });
        group.bench_function(BenchmarkId::new("the same bytes, two calls", groups), |b| {
            b.iter(|| {
                let uploaded = |device: usize| black_box(&args[device]).upload(&caches[device]).expect("uploaded");
                drop((uploaded(0), uploaded(1)));
            });
        });
    }
}

criterion_group!(benches, measure, pack, transpose, cache, devices);
criterion_main!(benches);
