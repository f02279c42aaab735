//! Device memory with an owner.

use std::borrow::Cow;

use bytemuck::{CheckedBitPattern, NoUninit};

use super::elements::elements;
use super::fault::{Call, Code, fault};
use super::journal::Op;
use super::queue::Task;
use super::state::{Freed, free, submit};
use super::stream::HostStream;
use crate::error::{Error, ErrorKind};
use crate::pointer::{DeviceColumn, DevicePointer};

/// A block of device memory. Dropping it frees it behind the work that its stream was given before; while the stream is captured,
/// when the capture is over.
#[derive(Debug)]
pub struct HostBlock {
    stream: HostStream,
    address: u64,
    size_bytes: u64,
    // Freed by a plain call of the driver, which a capture forbids.
    is_plain: bool,
}

impl HostBlock {
    pub(super) fn allocate(stream: &HostStream, size_bytes: u64) -> Result<Self, Error> {
        stream.shared().drop_released();
        let mut state = stream.lock();
        state.admit(Call::DeviceAlloc, Some(stream.id()))?;
        if size_bytes == 0 {
            return Err(Call::DeviceAlloc.error(Code::InvalidValue));
        }
        let point = state.next_point(stream.id());
        let available = state.memory.available();
        let address = state
            .memory
            .allocate(size_bytes, point)
            .ok_or_else(|| Call::DeviceAlloc.memory_error(Code::OutOfMemory, Some(size_bytes), Some(available)))?;
        if let Err(error) = submit(stream.shared(), &mut state, stream.id(), Task::Mark) {
            state.memory.forget(address);
            return Err(error);
        }
        state.journal.enter(Op::DeviceAlloc { stream: stream.id(), address, size_bytes });
        drop(state);
        Ok(Self { stream: stream.clone(), address, size_bytes, is_plain: false })
    }

    /// The first device address.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(super) fn stream(&self) -> &HostStream {
        &self.stream
    }

    /// The address of `offset`, when `size_bytes` from there lie inside the block.
    pub(super) fn range(&self, offset: u64, size_bytes: u64) -> Result<u64, Error> {
        match offset.checked_add(size_bytes) {
            Some(end) if end <= self.size_bytes => Ok(self.address + offset),
            _ => Err(fault(format!(
                "a range of {size_bytes} bytes at offset {offset} passes the end of the block of {} bytes at {:#x}",
                self.size_bytes, self.address
            ))),
        }
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        let block = Freed { stream: self.stream.id(), address: self.address, size_bytes: self.size_bytes };
        let mut state = self.stream.lock();
        if !self.is_plain && state.queue(block.stream).capture.is_some() {
            state.postponed.push(block);
        } else {
            free(self.stream.shared(), &mut state, block);
        }
    }
}

/// Device memory for `len` elements, for those who use the host backend by itself: inputs and outputs of kernels. Dropping it
/// frees it behind the work that its stream was given before; a capture of that stream forbids it, as it does for a plain free of
/// CUDA.
///
/// [`HostStream::alloc`] and [`HostStream::clone_htod`] make it.
#[derive(Debug)]
pub struct HostBuffer<T> {
    // None where there are no bytes.
    block: Option<HostBlock>,
    pointer: DevicePointer<T>,
    len: usize,
}

impl<T> HostBuffer<T> {
    pub(super) fn allocate(stream: &HostStream, len: usize) -> Result<Self, Error> {
        let too_large = || Error::new(ErrorKind::TooLarge { needed: u64::MAX, available: usize::MAX as u64 });
        let size_bytes = len.checked_mul(size_of::<T>()).ok_or_else(too_large)?;
        let block = match size_bytes as u64 {
            0 => None,
            size_bytes => {
                let mut block = HostBlock::allocate(stream, size_bytes)?;
                block.is_plain = true;
                Some(block)
            }
        };
        // Of an empty buffer: aligned, not null, and far from every block.
        let address = block.as_ref().map_or(align_of::<T>() as u64, HostBlock::address);
        let pointer = DevicePointer::from_raw(address).ok_or_else(too_large)?;
        Ok(Self { block, pointer, len })
    }

    /// The first element. Of an empty buffer: an aligned address that is not null, and not to be read.
    #[must_use]
    pub fn pointer(&self) -> DevicePointer<T> {
        self.pointer
    }

    /// The whole buffer, as kernels take it.
    #[must_use]
    pub fn column(&self) -> DeviceColumn<T> {
        DeviceColumn::new(self.pointer, self.len as u64)
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the elements to the host, behind the work that the buffer's stream was given, and waits for them.
    ///
    /// # Errors
    /// When work before it on the stream broke a rule, or an element is not valid for its type.
    pub fn to_vec(&self) -> Result<Vec<T>, Error>
    where
        T: CheckedBitPattern,
    {
        let Some(block) = &self.block else { return Ok(Vec::new()) };
        let snapshot = block.stream().fetch(block, 0, block.size_bytes())?;
        let address = self.pointer.address();
        snapshot.with_bytes(|bytes| elements(bytes, self.len, address).map(Cow::into_owned).map_err(fault))
    }
}

impl HostStream {
    /// Device memory for `len` elements, ordered on this stream. Its content is poison.
    ///
    /// # Errors
    /// When the device has no such memory.
    pub fn alloc<T>(&self, len: usize) -> Result<HostBuffer<T>, Error> {
        HostBuffer::allocate(self, len)
    }

    /// Device memory that holds a copy of `elements`, ordered on this stream.
    ///
    /// ```
    /// use marshal::host::HostDevice;
    ///
    /// let stream = HostDevice::new().stream();
    /// let sizes = stream.clone_htod(&[3_u32, 0, 5])?;
    /// assert_eq!(sizes.to_vec()?, [3, 0, 5]);
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the device has no such memory.
    pub fn clone_htod<T: NoUninit>(&self, elements: &[T]) -> Result<HostBuffer<T>, Error> {
        let buffer = HostBuffer::allocate(self, elements.len())?;
        if let Some(block) = &buffer.block {
            self.copy_htod(bytemuck::cast_slice(elements).to_vec(), block, 0)?;
        }
        Ok(buffer)
    }
}
