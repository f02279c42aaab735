//! The cache against a model, over whole programs.

mod batch;
mod capture;
mod model;
pub(crate) mod ops;
mod run;

pub(crate) use run::check;
