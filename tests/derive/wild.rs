//! wild
