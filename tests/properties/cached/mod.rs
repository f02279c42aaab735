//! The cache against a model, over whole programs.

mod capture;
pub(crate) mod ops;
mod model;
mod run;

pub(crate) use run::check;
