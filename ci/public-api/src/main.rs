//! Prints every public item of a crate, one a line, from what rustdoc wrote as data: `public-api-listing JSON`.

use std::process::ExitCode;

/// Automatic traits that are left out: of them a user hardly relies on any. `Send` and `Sync` stay.
const LEFT_OUT: [&str; 5] = [
    "core::marker::Freeze",
    "core::marker::Unpin",
    "core::marker::UnsafeUnpin",
    "core::panic::unwind_safe::RefUnwindSafe",
    "core::panic::unwind_safe::UnwindSafe",
];

/// Whether `line` says that a type has, or lacks, a trait that is left out.
fn is_left_out(line: &str) -> bool {
    LEFT_OUT.iter().any(|name| line.contains(&format!(" {name} for ")) || line.contains(&format!(" !{name} for ")))
}

fn main() -> ExitCode {
    let Some(json) = std::env::args_os().nth(1) else {
        eprintln!("usage: public-api-listing JSON");
        return ExitCode::FAILURE;
    };
    let listing = public_api::Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_derived_impls(true);
    match listing.build() {
        Ok(api) => {
            let lines = api.items().map(ToString::to_string).filter(|line| !is_left_out(line));
            lines.for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
