//! What the properties have found, as the programs that a person would write.

use marshal::host::{HostDevice, HostStream};
use marshal::{ArgCache, CacheOptions, DeviceArgs, DevicePointer, ErrorKind};

#[derive(DeviceArgs)]
struct Bytes {
    data: Vec<u8>,
}

fn bytes(byte: u8, len: usize) -> Bytes {
    Bytes { data: vec![byte; len] }
}

fn cache(device_bytes: u64, staging_bytes: u64) -> (HostStream, ArgCache<marshal::host::Host>) {
    let stream = HostDevice::new().stream();
    let cache =
        ArgCache::with_options(&stream, CacheOptions { device_bytes, staging_bytes, ..CacheOptions::default() });
    (stream, cache.unwrap())
}

/// `len` is a multiple of 16: no padding.
fn uploads(cache: &ArgCache<marshal::host::Host>, byte: u8, len: usize) {
    let found = bytes(byte, len).upload(cache).unwrap().read_back().unwrap();
    assert!(found.len() == len && found.iter().all(|&found| found == byte), "{len} bytes are not all {byte}");
}

#[test]
fn an_image_that_passes_the_last_address_is_not_written() {
    let base = DevicePointer::from_raw(u64::MAX - 63).unwrap();
    let mut image = [7; 80];
    let error = bytes(1, 80).pack_into(base, &mut image).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TooLarge { needed: 80, available: 63 });
    assert_eq!(image, [7; 80]);
    bytes(1, 48).pack_into(base, &mut image).unwrap();
}

#[test]
fn an_upload_into_a_free_block_finds_the_staging_of_graphs_that_are_gone() {
    let (_stream, cache) = cache(1 << 20, 1024);
    cache.reserve_sets(&bytes(0, 96).layout().unwrap(), 3).unwrap_err();
    cache.reserve_sets(&bytes(0, 96).layout().unwrap(), 2).unwrap();
    let graphs = [1, 2].map(|byte| cache.capture(|_| bytes(byte, 96).upload(&cache)).unwrap());
    drop(graphs);
    uploads(&cache, 3, 96);
}

#[test]
fn reserving_pushes_out_other_shapes_before_its_own() {
    let (_stream, cache) = cache(1536, 1 << 20);
    uploads(&cache, 1, 512);
    uploads(&cache, 2, 400);
    cache.reserve_sets(&bytes(0, 512).layout().unwrap(), 3).unwrap();
    let held = [3, 4, 5].map(|byte| bytes(byte, 512).upload(&cache).unwrap());
    assert_eq!(cache.stats().device_bytes, 1536);
    drop(held);
    let error = cache.reserve_sets(&bytes(0, 512).layout().unwrap(), 4).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::CacheFull { needed: 2048, available: 1536 });
}

#[test]
fn shapes_that_were_reserved_share_one_region() {
    let (_stream, cache) = cache(1 << 20, 512);
    cache.reserve(&bytes(0, 96).layout().unwrap()).unwrap();
    cache.reserve(&bytes(0, 208).layout().unwrap()).unwrap();
    for byte in 1..5 {
        uploads(&cache, byte, 96);
        uploads(&cache, byte, 208);
    }
}

#[test]
fn a_block_that_goes_gives_up_its_staging() {
    let (_stream, cache) = cache(2000, 2000);
    for byte in 1..5 {
        uploads(&cache, byte, 992);
        uploads(&cache, byte, 1504);
    }
}

#[test]
fn a_graph_that_outlives_clear_takes_no_staging_with_it() {
    let (_stream, cache) = cache(1 << 20, 1024);
    cache.reserve(&bytes(0, 96).layout().unwrap()).unwrap();
    let graph = cache.capture(|_| bytes(1, 96).upload(&cache)).unwrap();
    cache.clear();
    uploads(&cache, 2, 96);
    graph.refresh(|dev| dev, &bytes(3, 96)).unwrap();
    graph.launch().unwrap();
    assert_eq!(graph.sets().read_back().unwrap(), [3; 96]);
    drop(graph);
    uploads(&cache, 4, 992);
}

#[test]
fn each_of_the_shapes_that_were_reserved_can_be_captured() {
    let (stream, cache) = cache(256 << 20, 256 << 20);
    // As large as regions that are allocated two at a time.
    let sets = [300_001, 300_002, 300_003, 300_004].map(|len| bytes(1, len));
    for set in &sets {
        cache.reserve(&set.layout().unwrap()).unwrap();
    }
    stream.begin_capture().unwrap();
    let captured = sets.each_ref().map(|set| set.upload(&cache).map(drop));
    let graph = stream.end_capture().unwrap();
    assert_eq!(captured, [Ok(()), Ok(()), Ok(()), Ok(())]);
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}
