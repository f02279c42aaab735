//! What came of each consumer, and what that means for the run.

use super::check::Accuracy;
use super::options::Options;
use super::problem::{EXPERTS, HIDDEN, INTERMEDIATE, Problem};

/// What came of a consumer.
pub(crate) enum Outcome {
    /// It ran, and its result was compared.
    Checked(Accuracy),
    /// It ran, or should have run, and went wrong.
    Failed(String),
    /// Something that it needs is not here.
    NotRun(String),
}

/// Counts outcomes, and prints each as it comes.
#[derive(Debug, Default)]
pub(crate) struct Report {
    right: u32,
    wrong: u32,
    not_run: u32,
}

impl Report {
    pub(crate) fn add(&mut self, consumer: &str, outcome: &Outcome) {
        match outcome {
            Outcome::Checked(accuracy) if accuracy.is_within_bounds() => {
                self.right += 1;
                println!("  {consumer}: right: {accuracy}");
            }
            Outcome::Checked(accuracy) => {
                self.wrong += 1;
                println!("  {consumer}: WRONG: {accuracy}");
            }
            Outcome::Failed(why) => {
                self.wrong += 1;
                println!("  {consumer}: FAILED: {why}");
            }
            Outcome::NotRun(why) => {
                self.not_run += 1;
                println!("  {consumer}: not run: {why}");
            }
        }
    }

    /// Prints the sum, and says whether the run is a success: something was checked, and nothing is wrong.
    pub(crate) fn finish(self, options: &Options) -> bool {
        let Self { right, wrong, not_run } = self;
        println!("result: {right} right, {wrong} wrong, {not_run} not run");
        if right == 0 {
            println!("nothing was found right: a failure");
        } else if not_run > 0 && options.require_all {
            println!("--require-all was given: a failure");
        }
        right > 0 && wrong == 0 && !(not_run > 0 && options.require_all)
    }
}

/// Says what is computed.
pub(crate) fn describe(problem: &Problem, divisor: usize) {
    let (k, n, rows) = (problem.hidden, problem.intermediate, problem.rows());
    let cut = if divisor == 1 { "in full".to_owned() } else { format!("both divided by {divisor}") };
    println!("step: {EXPERTS} experts of Mixtral-8x7B's shape (hidden {HIDDEN}, intermediate {INTERMEDIATE}), {cut}:");
    println!(
        "  k = {k}, n = {n}; {rows} rows in all, drawn unevenly: {:?}",
        problem.experts.iter().map(|e| e.rows).collect::<Vec<_>>()
    );
    println!("  {:.3} GFLOP; f16 inputs, f32 accumulation, f32 output", 2e-9 * rows as f64 * n as f64 * k as f64);
}
