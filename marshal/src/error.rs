//! One opaque error; its kind carries the numbers.

use core::fmt;

/// What went wrong. [`kind`](Error::kind) carries the numbers, `Display` says them and what to do.
///
/// An operation that returns an error has changed nothing: no memory is left behind and nothing is half done.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    // Boxed: the happy path moves one word.
    kind: Box<ErrorKind>,
}

impl Error {
    #[cold]
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self { kind: Box::new(kind) }
    }

    /// The kind, with its numbers.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

/// The kinds of [`Error`]. Bytes and counts are u64.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A number that is no power of two was given as an alignment.
    NotAnAlignment {
        /// What was given.
        bytes: u64,
    },
    /// The layout passes `u64::MAX` bytes at this column.
    Overflow {
        /// The column that did not fit.
        column: &'static str,
        /// Its length in elements.
        len: u64,
        /// Bytes of one element.
        element_bytes: u64,
        /// Bytes taken by the columns before it.
        offset: u64,
    },
    /// A block's address lacks the alignment that its layout needs.
    Misaligned {
        /// The alignment asked for, in bytes.
        needed: u64,
        /// The alignment that the address has, in bytes.
        found: u64,
    },
    /// The arguments changed while they were uploaded: a second walk over the columns met other lengths than the first.
    Changed {
        /// The column at which the walks part.
        column: &'static str,
        /// The end, in bytes, that the layout allows.
        expected: u64,
        /// The end that the column would have.
        found: u64,
    },
    /// An integer does not fit the column's element type.
    DoesNotFit {
        /// The column.
        column: &'static str,
        /// Which of its elements.
        index: u64,
        /// The integer; the largest i128 where it is larger.
        value: i128,
        /// The element type's name.
        element: &'static str,
    },
    /// The offsets of a [`Ragged`](crate::Ragged) do not ascend from 0 to the number of values.
    RaggedOffset {
        /// Which of the offsets.
        index: u64,
        /// What stands there; `None` where there is no offset at all.
        offset: Option<i128>,
        /// The least that may stand there.
        least: u64,
        /// The most that may stand there.
        most: u64,
    },
    /// A column that does not lie inside the block of the set that was asked for it.
    NotInBlock {
        /// The column's first address.
        address: u64,
        /// Its bytes.
        size_bytes: u64,
        /// The block's first address.
        base: u64,
        /// The block's bytes.
        block_bytes: u64,
    },
    /// An element that was fetched from the device is not valid for its type.
    InvalidElement {
        /// Which of the column's elements.
        index: u64,
        /// The element type's name.
        element: &'static str,
    },
    /// The memory given for the image is shorter than the layout.
    TooShort {
        /// The first column that does not fit, padding included.
        column: &'static str,
        /// Bytes of the whole image.
        needed: u64,
        /// Bytes that were given.
        available: u64,
    },
    /// The image is too large for this host's address space.
    TooLarge {
        /// Bytes of the image.
        needed: u64,
        /// The most that this host can address in one piece.
        available: u64,
    },
    /// A one-shot upload on a stream that is being captured into a graph. The capture is still valid.
    Capturing {
        /// Bytes that the upload would have allocated.
        needed: u64,
    },
    /// An upload to a cache whose stream is being captured, without a free block and staging of that shape. The capture is
    /// still valid.
    NotReserved {
        /// Bytes that the upload would have allocated.
        needed: u64,
    },
    /// A call that has no place in a capture, on a stream that is being captured. The capture is still valid.
    NotInCapture {
        /// What was called.
        call: &'static str,
    },
    /// A graph was told to refresh a set that is not one of its own.
    NotInGraph {
        /// The sets that the graph has.
        sets: u64,
    },
    /// A graph was to be launched while one of its sets is lent to another stream, which may be reading what the launch writes.
    StillLent,
    /// A graph was given arguments of another shape than its set has. The set stands as before.
    OtherShape {
        /// The first column that differs.
        column: &'static str,
        /// Its elements in the graph; 0 where the graph has no such column.
        expected: u64,
        /// Its elements in the arguments; 0 where they have no such column.
        found: u64,
    },
    /// Sets that were to go to a cache each, and another number of caches. Nothing was uploaded.
    CacheForEach {
        /// The sets.
        sets: u64,
        /// The caches.
        caches: u64,
    },
    /// Sets that go to a cache each are not of one shape. None was kept.
    UnequalShapes {
        /// The set that differs from the first, counted from 0.
        set: u64,
        /// The first column that differs.
        column: &'static str,
        /// Its elements in the first set; 0 where that one has no such column.
        expected: u64,
        /// Its elements in this set; 0 where it has no such column.
        found: u64,
    },
    /// One of several sets that go to a cache each could not be uploaded, and none was kept.
    InSet {
        /// The set, counted from 0.
        set: u64,
        /// The device that it was for.
        device: String,
        /// What went wrong there.
        error: Error,
    },
    /// The per-thread default stream, which is another stream on every thread, where one stream is needed.
    PerThreadStream {
        /// The stream's device.
        device: String,
    },
    /// A block does not fit the cache's cap on device bytes beside those that sets hold.
    CacheFull {
        /// Device bytes that the block takes.
        needed: u64,
        /// Device bytes that the cap leaves beside the held blocks.
        available: u64,
    },
    /// There is no staging to write the image to, and the cap on staging bytes leaves no room for any.
    StagingFull {
        /// Bytes of one staging region for this shape.
        needed: u64,
        /// Bytes that the cap leaves.
        available: u64,
    },
    /// A cache was used by a walk over the arguments that are being uploaded to it.
    Reentrant,
    /// All staging of this shape is still read by pending copies, and the cache was told not to wait.
    StagingExhausted {
        /// Bytes of that staging.
        in_flight: u64,
    },
    /// Both ends of a copy have to be of one length.
    CopyLength {
        /// The copy, counted from 0 in the order in which the batch was given them.
        entry: u64,
        /// Elements of the source.
        source: u64,
        /// Elements of the destination.
        destination: u64,
    },
    /// A copy from or to device memory that is null, or passes the last address.
    CopyRange {
        /// The copy, counted from 0.
        entry: u64,
        /// Its device address.
        address: u64,
        /// Its bytes.
        len: u64,
    },
    /// Two copies of a batch depend on their order, which is open: one writes what the other reads or writes.
    CopyOverlap {
        /// The copy that writes, counted from 0.
        entry: u64,
        /// The device address that it writes.
        address: u64,
        /// Bytes that it writes.
        len: u64,
        /// The other copy; the same one where it writes its own source.
        other: u64,
        /// The device address that the other reads or writes.
        other_address: u64,
        /// Bytes that it reads or writes.
        other_len: u64,
        /// Whether it reads them.
        other_reads: bool,
    },
    /// A copy that a graph cannot have, on a stream that is being captured. Nothing was captured of the batch.
    NotCapturable {
        /// The first such copy, counted from 0.
        entry: u64,
    },
    /// A wait for copies that were captured: they run whenever their graph is launched.
    Captured,
    /// A copy of memory that another stream than this one orders.
    WrongStream {
        /// The stream's device.
        device: String,
    },
    /// A pointer was asked of a slice that has no memory: its address is 0.
    NoMemory,
    /// A stream of another device, or context, than the memory or the work that it was to be used with.
    WrongDevice {
        /// The device of the set, the memory or the work.
        expected: String,
        /// The device of the stream that was given.
        found: String,
    },
    /// A call of the driver failed.
    Driver {
        /// The call, by its name in the driver's reference.
        call: &'static str,
        /// The code that this very call returned.
        code: i32,
        /// The code's name.
        name: String,
        /// Bytes that the call asked for, where it is about memory.
        needed: Option<u64>,
        /// Bytes that were free on the device when an allocation failed, where the driver says.
        available: Option<u64>,
    },
    /// Work on a stream of the host backend broke one of the rules that CUDA sets; the text says which.
    Fault {
        /// What was done, with addresses and sizes.
        report: String,
    },
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnAlignment { bytes } => {
                write!(f, "{bytes} is no alignment: it must be a power of two")
            }
            Self::Overflow { column, len, element_bytes, offset } => write!(
                f,
                "column `{column}` does not fit: {len} elements of {element_bytes} bytes at offset {offset} pass the last u64"
            ),
            Self::Misaligned { needed, found } => {
                write!(f, "the block's address is a multiple of {found} bytes, the layout needs {needed}")
            }
            Self::Changed { column, expected, found } => write!(
                f,
                "the arguments changed during the upload: column `{column}` ends at byte {found}, the layout has room up to {expected}"
            ),
            Self::DoesNotFit { column, index, value, element } => {
                write!(f, "column `{column}`: element {index} is {value}, which does not fit {element}")
            }
            Self::RaggedOffset { index, offset: Some(offset), least, most } => {
                write!(
                    f,
                    "offset {index} is {offset}, where {least} to {most} may stand: offsets ascend from 0 to the number of values"
                )
            }
            Self::RaggedOffset { index, offset: None, most, .. } => {
                write!(f, "offset {index} is missing: there is one more than rows, from 0 to the {most} values")
            }
            Self::NotInBlock { address, size_bytes, base, block_bytes } => write!(
                f,
                "the {size_bytes} bytes at {address:#x} are no column of this set, whose block has {block_bytes} bytes at {base:#x}"
            ),
            Self::InvalidElement { index, element } => {
                write!(f, "element {index} holds bytes that are no {element}: has a kernel written it?")
            }
            Self::TooShort { column, needed, available } => write!(
                f,
                "column `{column}` does not fit: the image takes {needed} bytes with its padding, {available} were given"
            ),
            Self::TooLarge { needed, available } => {
                write!(f, "an image of {needed} bytes does not fit this host's address space of {available} bytes")
            }
            Self::Capturing { needed } => write!(
                f,
                "the stream is being captured into a graph, and a one-shot upload would allocate {needed} bytes: upload to an `ArgCache` of this stream, after `reserve`, or before the capture begins"
            ),
            Self::NotReserved { needed } => write!(
                f,
                "the stream is being captured into a graph, and this upload would allocate {needed} bytes: `reserve` its layout on the cache before the capture begins (`reserve_sets` for several sets of one shape)"
            ),
            Self::NotInCapture { call } => {
                write!(f, "the stream is being captured into a graph: {call} has to wait until the capture has ended")
            }
            Self::NotInGraph { sets } => {
                write!(f, "the set is none of the {sets} that were uploaded while this graph was captured")
            }
            Self::StillLent => f.write_str(
                "a set of the graph is lent to another stream, and a launch would write it: drop what `on` returned first",
            ),
            Self::OtherShape { column, expected, found } if expected == found => write!(
                f,
                "the graph was captured with another shape: column `{column}` has other elements, another alignment or another purpose in the new arguments: capture again for this shape"
            ),
            Self::OtherShape { column, expected, found } => write!(
                f,
                "the graph was captured with another shape: column `{column}` has {expected} elements in it, {found} in the new arguments: capture again for this shape"
            ),
            Self::CacheForEach { sets, caches } => {
                write!(f, "{sets} sets were to go to {caches} caches: each set goes to one cache of its own")
            }
            Self::UnequalShapes { set, column, expected, found } if expected == found => write!(
                f,
                "set {set} has another shape than set 0: column `{column}` has other elements, another alignment or another purpose"
            ),
            Self::UnequalShapes { set, column, expected, found } => write!(
                f,
                "set {set} has another shape than set 0: column `{column}` has {found} elements in it, {expected} in set 0"
            ),
            Self::InSet { set, device, error } => write!(f, "set {set}, for {device}: {error}"),
            Self::PerThreadStream { device } => write!(
                f,
                "the per-thread default stream of {device} is another stream on every thread: make a stream for the cache"
            ),
            Self::CacheFull { needed, available } => write!(
                f,
                "a block of {needed} bytes does not fit: the cache's device cap leaves {available} beside what sets and graphs hold: drop some or raise the cap"
            ),
            Self::StagingFull { needed, available } => write!(
                f,
                "staging of {needed} bytes does not fit: the cache's staging cap leaves {available}: drop sets or graphs, or raise the cap"
            ),
            Self::Reentrant => f.write_str(
                "the cache is locked: a walk over arguments must not use the cache that they are being uploaded to",
            ),
            Self::StagingExhausted { in_flight } => write!(
                f,
                "all {in_flight} staging bytes of this shape are read by pending copies: wait for the stream, or let the cache wait"
            ),
            Self::CopyLength { entry, source, destination } => {
                write!(f, "copy {entry} has a source of {source} elements and a destination of {destination}")
            }
            Self::CopyRange { entry, address, len } => write!(
                f,
                "copy {entry} is {len} bytes at {address:#x}: a range must not be null, nor pass the last address"
            ),
            Self::CopyOverlap { entry, address, len, other, other_address, other_len, other_reads } => write!(
                f,
                "copy {entry} writes {len} bytes at {address:#x}, copy {other} {} {other_len} bytes at {other_address:#x}: the order inside a batch is open, so put them into two batches",
                if *other_reads { "reads" } else { "writes" }
            ),
            Self::NotCapturable { entry } => write!(
                f,
                "copy {entry} cannot be captured into a graph: it goes to the host, for which nobody could wait, or it uses borrowed device memory, which the graph would outlive: give the range by its address"
            ),
            Self::Captured => {
                f.write_str("the copies were captured into a graph: wait for the stream that it is launched on")
            }
            Self::WrongStream { device } => write!(
                f,
                "the memory belongs to another stream of {device} than the batch: take the range of the set lent to this stream by `on`"
            ),
            Self::NoMemory => {
                f.write_str("the slice has no memory: pass `None` where the kernel allows a null pointer")
            }
            Self::WrongDevice { expected, found } => {
                write!(f, "what the stream was to be used with is on {expected}, the stream belongs to {found}")
            }
            Self::Driver { call, code, name, needed, available } => {
                write!(f, "{call} failed with {name} ({code})")?;
                if let Some(needed) = needed {
                    write!(f, ", {needed} bytes were asked for")?;
                }
                if let Some(available) = available {
                    write!(f, ", {available} were free")?;
                }
                Ok(())
            }
            Self::Fault { report } => f.write_str(report),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.kind, f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.kind, f)
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests;
