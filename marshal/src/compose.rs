//! Several argument sets as one: references, tuples and batches.

use core::fmt;
use core::ops::Deref;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use crate::args::DeviceArgs;
use crate::error::Error;
use crate::walk::Visitor;

macro_rules! args_behind {
    ($($pointer:ty),*) => {$(
        impl<A: DeviceArgs + ?Sized> DeviceArgs for $pointer {
            type Pointers = A::Pointers;

            fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<A::Pointers, Error> {
                A::walk(self, visitor)
            }
        }
    )*};
}

args_behind!(&A, &mut A, Box<A>, Arc<A>, Rc<A>);

/// Sets of different types in one block, with one copy. The pointers are a tuple too.
macro_rules! args_of_tuples {
    ($($first:ident $($rest:ident)*)?) => {$(
        args_of_tuples!($($rest)*);

        impl<$first: DeviceArgs, $($rest: DeviceArgs),*> DeviceArgs for ($first, $($rest,)*) {
            type Pointers = ($first::Pointers, $($rest::Pointers,)*);

            #[inline]
            fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<Self::Pointers, Error> {
                #[expect(non_snake_case, reason = "each set is named as its type is")]
                let ($first, $($rest,)*) = self;
                Ok(($first.walk(visitor)?, $($rest.walk(visitor)?,)*))
            }
        }
    )?};
}

args_of_tuples!(A B C D E F G H I J K L);

/// Many sets of one type in one block, with one copy: the arguments of all layers of a model.
///
/// The pointers are a slice, one [`DeviceArgs::Pointers`] a set. Sets may be owned or borrowed: `Batch<A>`, `Batch<&A>`. They may
/// differ in their lengths. In the map each set's columns follow those of the set before, under the same names.
///
/// ```
/// use marshal::{Batch, DeviceArgs, host::HostDevice};
///
/// #[derive(DeviceArgs)]
/// struct Layer { m: Vec<i32>, n: Vec<i32> }
///
/// let layers: Vec<_> = (1..=32).map(|i| Layer { m: vec![i; 8], n: vec![10 * i; 8] }).collect();
///
/// let device = HostDevice::new();
/// let stream = device.stream();
/// let dev = layers.iter().collect::<Batch<_>>().upload(&stream)?;
/// assert_eq!((dev.len(), device.counters().copies), (32, 1));
/// for (i, layer) in (1..).zip(dev.iter()) {
///     let n = layer.n;
///     stream.launch(move |memory| assert_eq!(memory.read(n), [10 * i; 8]))?;
/// }
/// stream.synchronize()?;
/// # Ok::<(), marshal::Error>(())
/// ```
///
/// A batch that is kept and uploaded again to a cache makes no heap allocation: it uses the pointers' memory again, once the
/// last set is dropped.
pub struct Batch<A: DeviceArgs> {
    sets: Vec<A>,
    // The last walk's pointers, whose memory the next one uses again.
    spare: Mutex<Option<Arc<[A::Pointers]>>>,
}

impl<A: DeviceArgs> Batch<A> {
    /// A batch of these sets, in this order.
    #[must_use]
    pub const fn new(sets: Vec<A>) -> Self {
        Self { sets, spare: Mutex::new(None) }
    }

    /// The sets.
    #[must_use]
    pub fn sets(&self) -> &[A] {
        &self.sets
    }

    /// The sets, to be changed.
    pub fn sets_mut(&mut self) -> &mut Vec<A> {
        &mut self.sets
    }

    /// Gives the sets back.
    #[must_use]
    pub fn into_sets(self) -> Vec<A> {
        self.sets
    }

    /// Keeps the pointers' memory for the next walk.
    fn keep(&self, pointers: Option<Arc<[A::Pointers]>>) -> Option<Arc<[A::Pointers]>> {
        core::mem::replace(&mut *self.spare.lock().unwrap_or_else(PoisonError::into_inner), pointers)
    }
}

impl<A: DeviceArgs> DeviceArgs for Batch<A> {
    type Pointers = BatchPointers<A::Pointers>;

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<Self::Pointers, Error> {
        if !V::BINDS {
            self.sets.iter().try_for_each(|set| set.walk(visitor).map(drop))?;
            return Ok(BatchPointers { pointers: Arc::default() });
        }
        let mut pointers = self.keep(None).unwrap_or_default();
        match Arc::get_mut(&mut pointers) {
            Some(entries) if entries.len() == self.sets.len() => {
                for (entry, set) in entries.iter_mut().zip(&self.sets) {
                    *entry = set.walk(visitor)?;
                }
            }
            // A set holds them, or the batch has changed.
            _ => pointers = self.sets.iter().map(|set| set.walk(visitor)).collect::<Result<_, _>>()?,
        }
        self.keep(Some(Arc::clone(&pointers)));
        Ok(BatchPointers { pointers })
    }
}

impl<A: DeviceArgs> From<Vec<A>> for Batch<A> {
    fn from(sets: Vec<A>) -> Self {
        Self::new(sets)
    }
}

impl<A: DeviceArgs> FromIterator<A> for Batch<A> {
    fn from_iter<I: IntoIterator<Item = A>>(sets: I) -> Self {
        Self::new(sets.into_iter().collect())
    }
}

impl<A: DeviceArgs + Clone> Clone for Batch<A> {
    fn clone(&self) -> Self {
        Self::new(self.sets.clone())
    }
}

impl<A: DeviceArgs + fmt::Debug> fmt::Debug for Batch<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Batch").field(&self.sets).finish()
    }
}

/// The pointers of a [`Batch`]: a slice, one entry a set.
pub struct BatchPointers<P> {
    pointers: Arc<[P]>,
}

impl<P> Deref for BatchPointers<P> {
    type Target = [P];

    fn deref(&self) -> &[P] {
        &self.pointers
    }
}

impl<P> Clone for BatchPointers<P> {
    fn clone(&self) -> Self {
        Self { pointers: Arc::clone(&self.pointers) }
    }
}

impl<P: fmt::Debug> fmt::Debug for BatchPointers<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pointers.fmt(f)
    }
}
