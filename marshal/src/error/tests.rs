//! Each kind's sentence, with every number in its place. Several kinds come about on a GPU alone.

use super::*;

#[test]
fn each_kind_says_its_numbers() {
    let all: &[(ErrorKind, &str)] = &[
        (
            ErrorKind::Misaligned { needed: 512, found: 256 },
            "the block's address is a multiple of 256 bytes, the layout needs 512",
        ),
        (
            ErrorKind::Changed { column: "m", expected: 8, found: 12 },
            "the arguments changed during the upload: column `m` ends at byte 12, the layout has room up to 8",
        ),
        (
            ErrorKind::DoesNotFit { column: "lda", index: 7, value: 2_476_250_368, element: "i32" },
            "column `lda`: element 7 is 2476250368, which does not fit i32",
        ),
        (
            ErrorKind::RaggedOffset { index: 3, offset: Some(9), least: 4, most: 8 },
            "offset 3 is 9, where 4 to 8 may stand: offsets ascend from 0 to the number of values",
        ),
        (
            ErrorKind::RaggedOffset { index: 0, offset: None, least: 0, most: 8 },
            "offset 0 is missing: there is one more than rows, from 0 to the 8 values",
        ),
        (
            ErrorKind::NotInBlock { address: 0x1000, size_bytes: 8, base: 0x2000, block_bytes: 64 },
            "the 8 bytes at 0x1000 are no column of this set, whose block has 64 bytes at 0x2000",
        ),
        (
            ErrorKind::InvalidElement { index: 5, element: "bool" },
            "element 5 holds bytes that are no bool: has a kernel written it?",
        ),
        (
            ErrorKind::TooShort { column: "n", needed: 32, available: 16 },
            "column `n` does not fit: the image takes 32 bytes with its padding, 16 were given",
        ),
        (
            ErrorKind::TooLarge { needed: 1 << 40, available: 1 << 32 },
            "an image of 1099511627776 bytes does not fit this host's address space of 4294967296 bytes",
        ),
        (
            ErrorKind::Capturing { needed: 48 },
            "the stream is being captured into a graph, and a one-shot upload would allocate 48 bytes: upload to an `ArgCache` of this \
             stream, after `reserve`, or before the capture begins",
        ),
        (
            ErrorKind::NotReserved { needed: 48 },
            "the stream is being captured into a graph, and this upload would allocate 48 bytes: `reserve` its layout on the cache before \
             the capture begins (`reserve_sets` for several sets of one shape)",
        ),
        (
            ErrorKind::NotInCapture { call: "a refresh" },
            "the stream is being captured into a graph: a refresh has to wait until the capture has ended",
        ),
        (
            ErrorKind::CacheForEach { sets: 3, caches: 2 },
            "3 sets were to go to 2 caches: each set goes to one cache of its own",
        ),
        (
            ErrorKind::UnequalShapes { set: 1, column: "m", expected: 8, found: 9 },
            "set 1 has another shape than set 0: column `m` has 9 elements in it, 8 in set 0",
        ),
        (
            ErrorKind::UnequalShapes { set: 1, column: "m", expected: 8, found: 8 },
            "set 1 has another shape than set 0: column `m` has other elements, another alignment or another purpose",
        ),
        (
            ErrorKind::InSet {
                set: 1,
                device: "CUDA device 1".to_owned(),
                error: Error::new(ErrorKind::NotReserved { needed: 48 }),
            },
            "set 1, for CUDA device 1: the stream is being captured into a graph, and this upload would allocate 48 bytes: `reserve` its \
             layout on the cache before the capture begins (`reserve_sets` for several sets of one shape)",
        ),
        (
            ErrorKind::NotInGraph { sets: 2 },
            "the set is none of the 2 that were uploaded while this graph was captured",
        ),
        (
            ErrorKind::OtherShape { column: "m", expected: 3, found: 4 },
            "the graph was captured with another shape: column `m` has 3 elements in it, 4 in the new arguments: capture again for this \
             shape",
        ),
        (
            ErrorKind::OtherShape { column: "m", expected: 3, found: 3 },
            "the graph was captured with another shape: column `m` has other elements, another alignment or another purpose in the new \
             arguments: capture again for this shape",
        ),
        (
            ErrorKind::StillLent,
            "a set of the graph is lent to another stream, and a launch would write it: drop what `on` returned first",
        ),
        (
            ErrorKind::PerThreadStream { device: "device 0".to_owned() },
            "the per-thread default stream of device 0 is another stream on every thread: make a stream for the cache",
        ),
        (
            ErrorKind::StagingFull { needed: 512, available: 100 },
            "staging of 512 bytes does not fit: the cache's staging cap leaves 100: drop sets or graphs, or raise the cap",
        ),
        (
            ErrorKind::Reentrant,
            "the cache is locked: a walk over arguments must not use the cache that they are being uploaded to",
        ),
        (
            ErrorKind::StagingExhausted { in_flight: 1024 },
            "all 1024 staging bytes of this shape are read by pending copies: wait for the stream, or let the cache wait",
        ),
        (
            ErrorKind::CopyLength { entry: 1, source: 4, destination: 5 },
            "copy 1 has a source of 4 elements and a destination of 5",
        ),
        (
            ErrorKind::CopyRange { entry: 2, address: 0, len: 8 },
            "copy 2 is 8 bytes at 0x0: a range must not be null, nor pass the last address",
        ),
        (
            overlap(true),
            "copy 0 writes 8 bytes at 0x100, copy 1 reads 4 bytes at 0x104: the order inside a batch is open, so put them \
             into two batches",
        ),
        (
            overlap(false),
            "copy 0 writes 8 bytes at 0x100, copy 1 writes 4 bytes at 0x104: the order inside a batch is open, so put them \
             into two batches",
        ),
        (
            ErrorKind::NotCapturable { entry: 3 },
            "copy 3 cannot be captured into a graph: it goes to the host, for which nobody could wait, or it uses borrowed device memory, \
             which the graph would outlive: give the range by its address",
        ),
        (ErrorKind::Captured, "the copies were captured into a graph: wait for the stream that it is launched on"),
        (
            ErrorKind::WrongStream { device: "device 1".to_owned() },
            "the memory belongs to another stream of device 1 than the batch: take the range of the set lent to this stream by `on`",
        ),
        (ErrorKind::NoMemory, "the slice has no memory: pass `None` where the kernel allows a null pointer"),
        (
            ErrorKind::WrongDevice { expected: "device 0".to_owned(), found: "device 1".to_owned() },
            "what the stream was to be used with is on device 0, the stream belongs to device 1",
        ),
        (driver(None, None), "cuMemAllocAsync failed with CUDA_ERROR_OUT_OF_MEMORY (2)"),
        (
            driver(Some(4096), Some(100)),
            "cuMemAllocAsync failed with CUDA_ERROR_OUT_OF_MEMORY (2), 4096 bytes were asked for, 100 were free",
        ),
        (ErrorKind::Fault { report: "block 3 was freed".to_owned() }, "block 3 was freed"),
    ];
    for (kind, sentence) in all {
        let error = Error::new(kind.clone());
        assert_eq!(error.to_string(), *sentence);
        assert_eq!(error.kind(), kind);
    }
}

fn overlap(other_reads: bool) -> ErrorKind {
    ErrorKind::CopyOverlap {
        entry: 0,
        address: 0x100,
        len: 8,
        other: 1,
        other_address: 0x104,
        other_len: 4,
        other_reads,
    }
}

fn driver(needed: Option<u64>, available: Option<u64>) -> ErrorKind {
    let name = "CUDA_ERROR_OUT_OF_MEMORY".to_owned();
    ErrorKind::Driver { call: "cuMemAllocAsync", code: 2, name, needed, available }
}
