//! A crate that hands the library on under another path.

pub use marshal as da;

/// A path that is deeper.
pub mod gpu {
    pub use marshal as arguments;
}
